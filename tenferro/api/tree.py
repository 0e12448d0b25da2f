"""`tenferro.tree`: functions on trees of arrays, which are the arguments and results of traced functions.

Tuples, lists, dicts (in the order of their sorted keys), `OrderedDict`, `defaultdict`, named tuples and dataclasses
are trees, and None is an empty tree. A dataclass field declared by `static` is part of the structure: it is compared
instead of traced. A dataclass with `shape` and `dtype` is a leaf. Other classes must be registered. Classes that are
registered with JAX are also trees.

Source: jax.tree, jax.tree_util and jax.flatten_util.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

from tenferro.api.creation import asarray, zeros
from tenferro.api.elementwise import real
from tenferro.api.manipulation import astype, concat, reshape
from tenferro.api.promotion import result_type
from tenferro.api.tree_files import load, load_metadata, save
from tenferro.dims import product
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.types import PyTree, Tensor
from tenferro.types import tree as pytrees
from tenferro.types.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    SequenceKey,
    TreeDef,
    keystr,
    register_dataclass,
    register_pytree_node,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "SequenceKey",
    "all",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "leaves_with_path",
    "load",
    "load_metadata",
    "map",
    "map_with_path",
    "ravel",
    "reduce",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "save",
    "static",
    "structure",
    "transpose",
    "unflatten",
]

IsLeaf = Callable[[Any], bool] | None
_NOTHING = object()
"""Default of the argument `initializer` of `reduce`. It is not None, because None may be an initial value."""


def flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves of a tree in order, and the structure of the tree without its leaves.

    Args:
        is_leaf: a function that returns whether a subtree counts as a leaf.

    >>> values, treedef = flatten({"b": 1, "a": (2, None)})
    >>> values, unflatten(treedef, ["two", "one"])
    ([2, 1], {'b': 'one', 'a': ('two', None)})
    """
    return pytrees.flatten(tree, is_leaf)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build the tree with the given structure and leaves.

    Raises:
        ArityError: the number of leaves differs from the number of leaves of the structure.
    """
    values = list(leaves)
    if len(values) != treedef.num_leaves:
        raise ArityError(f"tree.unflatten: takes {treedef.num_leaves} leaves, got {len(values)}")
    return pytrees.unflatten(treedef, values)


def leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, in order.

    >>> leaves({"w": [1, 2], "b": 3})
    [3, 1, 2]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeDef:
    """Return the structure of a tree without its leaves.

    Structures are hashable, and trees of equal structure have equal structures. `num_leaves` is the number of leaves.
    """
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None) -> Any:
    """Apply f to each leaf and the corresponding subtrees of the further trees. Return the tree of the results.

    Raises:
        ArityError: the structure of the first tree is not a prefix of the structure of a further tree.

    >>> map(lambda w, g: w - g, {"w": 3.0, "b": (1.0,)}, {"w": 1.0, "b": (0.5,)})
    {'w': 2.0, 'b': (0.5,)}
    """
    values, treedef = flatten(tree, is_leaf)
    columns = [_beneath("tree.map", treedef, each, i + 1) for i, each in enumerate(rest)]
    return pytrees.unflatten(treedef, [f(*row) for row in zip(values, *columns, strict=True)])


def _beneath(name: str, treedef: TreeDef, tree: Any, position: int) -> list[Any]:
    """Return the subtrees of a tree at the positions of the leaves of `treedef`.

    Raises:
        ArityError: `treedef` is not a prefix of the structure of the tree.
    """
    actual = flatten(tree)[1]
    if pytrees.agree(actual, treedef):
        return flatten(tree)[0]
    try:
        return treedef.flatten_up_to(tree)
    except ValueError:
        names = ("tree", f"rest[{position - 1}]")
        parting = pytrees.difference(treedef, actual, names, is_prefix=True)
        raise ArityError(f"{name}: {parting}") from None


def all(tree: PyTree, *, is_leaf: IsLeaf = None) -> bool:
    """Return whether every leaf is true.

    >>> all([True, {"a": True}]), all((True, False)), all(None)
    (True, False, True)
    """
    return False not in [bool(leaf) for leaf in leaves(tree, is_leaf)]


def reduce(
    function: Callable[[Any, Any], Any],
    tree: PyTree,
    initializer: Any = _NOTHING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves one after the other: function(.. function(function(initializer, leaf_0), leaf_1) ..).

    Without `initializer`, the first leaf is the initial value.

    Raises:
        ArityError: the tree has no leaves, and there is no `initializer`.

    >>> reduce(lambda total, leaf: total + leaf, {"a": 1, "b": [2, 3]})
    6
    """
    values = leaves(tree, is_leaf)
    if initializer is not _NOTHING:
        return functools.reduce(function, values, initializer)
    if not values:
        raise ArityError("tree.reduce: the tree has no leaves; give an initializer")
    return functools.reduce(function, values)


def transpose(
    outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: PyTree
) -> Any:
    """Transpose a tree of trees. The inner structure becomes the outer structure.

    Args:
        outer_treedef: the outer structure of the tree.
        inner_treedef: the inner structure. The default is the structure of the first inner tree.

    Raises:
        ArityError: the outer structure has no leaves, or the tree does not have the two structures.

    >>> transpose(structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    rows = _beneath("tree.transpose", outer_treedef, pytree_to_transpose, 1)
    if not rows:
        raise ArityError("tree.transpose: the outer structure has no leaves")
    inner = structure(rows[0]) if inner_treedef is None else inner_treedef
    columns = [_beneath("tree.transpose", inner, row, i + 1) for i, row in enumerate(rows)]
    transposed = [pytrees.unflatten(outer_treedef, column) for column in zip(*columns, strict=True)]
    return pytrees.unflatten(inner, transposed)


def flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Return a list of pairs (path of a leaf, leaf), and the structure of the tree.

    >>> [(keystr(path), leaf) for path, leaf in flatten_with_path({"w": [1, 2]})[0]]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    values, treedef = flatten(tree, is_leaf)
    return list(zip(pytrees.key_paths(treedef), values, strict=True)), treedef


def leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return a list of pairs (path of a leaf, leaf)."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(
    f: Callable[..., Any], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf = None
) -> Any:
    """Apply f to the path of each leaf, the leaf, and the corresponding subtrees of the further trees, as `map` does.

    Raises:
        ArityError: as for `map`.

    >>> map_with_path(lambda path, x: keystr(path, simple=True, separator="."), {"layers": [1, 2]})
    {'layers': ['layers.0', 'layers.1']}
    """
    values, treedef = flatten(tree, is_leaf)
    columns = [_beneath("tree.map_with_path", treedef, each, i + 1) for i, each in enumerate(rest)]
    rows = zip(pytrees.key_paths(treedef), values, *columns, strict=True)
    return pytrees.unflatten(treedef, [f(*row) for row in rows])


def ravel(tree: PyTree) -> tuple[Any, Callable[[Any], Any]]:
    """Concatenate the elements of all leaves to one vector. Return the vector and the function that restores the tree.

    Shapes:  leaves of any shapes -> [n], leaf after leaf in C order
    Dtypes:  the promoted dtype of the leaves. The returned function converts elements back to the dtypes of the leaves.

    Raises:
        ShapeError, DTypeError: the returned function is called with a vector of a different shape or dtype.

    >>> import numpy as np
    >>> vector, unravel = ravel({"b": np.zeros(1), "w": np.ones((2, 2))})
    >>> vector
    array([0., 1., 1., 1., 1.])
    >>> unravel(2 * vector)
    {'b': array([0.]), 'w': array([[2., 2.],
           [2., 2.]])}

    Source: jax.flatten_util.ravel_pytree; dtypes promote by tenferro's rules.
    """
    values, treedef = flatten(tree)
    operands = [as_operand(asarray(leaf)) for leaf in values]
    specs = [spec_of(x) for x in operands]
    if operands:
        dtype = result_type(*[spec.dtype for spec in specs])
        vector = concat([astype(reshape(x, (-1,)), dtype, copy=False) for x in operands])
    else:
        vector = zeros((0,))
    return vector, functools.partial(_unravelled, treedef, specs, spec_of(vector))


def _unravelled(treedef: TreeDef, specs: list[Any], expected: Any, vector: Tensor) -> Any:
    operand = as_operand(vector)
    actual = spec_of(operand)
    if actual.shape != expected.shape:
        raise ShapeError(f"unravel: expected {expected}, got {actual}")
    if actual.dtype != expected.dtype:
        raise DTypeError(
            f"unravel: expected {expected}, got {actual}; convert it with "
            f"astype({expected.dtype.value!r})"
        )
    parts: list[Any] = []
    start = 0
    for spec in specs:
        stop = start + product(spec.shape)
        part = reshape(operand[start:stop], spec.shape)
        if actual.dtype.is_complex and not spec.dtype.is_complex:
            part = real(part)
        parts.append(astype(part, spec.dtype, copy=False))
        start = stop
    return pytrees.unflatten(treedef, parts)


def register_pytree_node_class(cls: Any) -> Any:
    """Register a class with the methods `tree_flatten` and `tree_unflatten` as a tree, and return the class.

    The function can be used as a decorator.

    Raises:
        RegistrationError: the class is registered already.
        InvalidConfigError: the class lacks one of the methods.

    >>> @register_pytree_node_class
    ... class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    ...     def tree_flatten(self):
    ...         return (self.low, self.high), None
    ...     @classmethod
    ...     def tree_unflatten(cls, rest, children):
    ...         return cls(*children)
    >>> map(lambda x: x + 1, Interval(1, 2)).high
    3

    Source: jax.tree_util.register_pytree_node_class.
    """
    for method in ("tree_flatten", "tree_unflatten"):
        if not hasattr(cls, method):
            raise InvalidConfigError(f"register_pytree_node_class: {cls!r:.60} has no {method}")
    register_pytree_node(cls, lambda node: node.tree_flatten(), cls.tree_unflatten)
    return cls


def static(**kwargs: Any) -> Any:
    """Declare a dataclass field without leaves. Its value is part of the tree's structure, and must be hashable.

    Args:
        kwargs: the arguments of `dataclasses.field`.

    >>> @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = static(default="dense")
    >>> leaves(Layer(2.0))
    [2.0]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(**kwargs, metadata=metadata)
