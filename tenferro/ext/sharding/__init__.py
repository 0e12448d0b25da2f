"""Sharding of values inside a program."""

from tenferro.ext.sharding import families
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (Family(families.ShardingConstraint, rules=families.ShardingConstraintRule),)
