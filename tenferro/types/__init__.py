"""Types of values: element types, tensor types, and the trees that functions take and return."""

from tenferro.types.array_like import (
    ArrayLike,
    Axis,
    DTypeLike,
    Extent,
    Index,
    PyTree,
    Scalar,
    Shape,
    Tensor,
    UfuncOptions,
)
from tenferro.types.dtype import DType
from tenferro.types.host import has_dtype, host_array
from tenferro.types.partition_spec import PartitionSpec
from tenferro.types.saved_tree import load_tree, save_tree
from tenferro.types.spec import TensorSpec
from tenferro.types.tree import (
    TreeDef,
    agree,
    difference,
    flatten,
    leaf_paths,
    leaf_paths_of,
    prefix_leaves,
    unflatten,
)

__all__ = [
    "ArrayLike",
    "Axis",
    "DType",
    "DTypeLike",
    "Extent",
    "Index",
    "PartitionSpec",
    "PyTree",
    "Scalar",
    "Shape",
    "Tensor",
    "TensorSpec",
    "TreeDef",
    "UfuncOptions",
    "agree",
    "difference",
    "flatten",
    "has_dtype",
    "host_array",
    "leaf_paths",
    "leaf_paths_of",
    "load_tree",
    "prefix_leaves",
    "save_tree",
    "unflatten",
]
