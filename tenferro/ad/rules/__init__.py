"""The derivative column, one file per family as in `tenferro/ops`. Not built yet."""
