"""What values are: element types, tensor types, and the trees that functions take and return."""

from tenferro.types.dtype import DType
from tenferro.types.spec import TensorSpec
from tenferro.types.tree import TreeDef, flatten, leaf_paths, unflatten

__all__ = ["DType", "TensorSpec", "TreeDef", "flatten", "leaf_paths", "unflatten"]
