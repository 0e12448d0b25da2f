"""The contract for operations from other packages. Not built yet."""
