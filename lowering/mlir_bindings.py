"""The one file of lowering that imports jaxlib."""
