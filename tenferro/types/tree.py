"""Pytrees: nested tuples, lists, dicts, named tuples and registered classes, by optree.

optree is imported when a tree is first met: it takes a fifth of the import of tenferro.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import optree

__all__ = ["TreeDef", "flatten", "leaf_paths", "prefix_leaves", "unflatten"]

TreeDef: TypeAlias = "optree.PyTreeSpec"


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves in order, and the structure that holds them; None is an empty tree.

    >>> flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    import optree

    leaves, treedef = optree.tree_flatten(tree)
    return leaves, treedef


def unflatten(treedef: TreeDef, leaves: Any) -> Any:
    """The tree of that structure over these leaves."""
    import optree

    return optree.tree_unflatten(treedef, leaves)


def leaf_paths(tree: Any) -> list[str]:
    """Where each leaf sits, as Python would write it.

    >>> leaf_paths({"w": [1, 2]})
    ["['w'][0]", "['w'][1]"]
    """
    import optree

    accessors = optree.tree_accessors(tree)
    return [accessor.codify("") for accessor in accessors]


def prefix_leaves(prefix: Any, full: Any) -> list[Any]:
    """For each leaf of `full`, the entry of `prefix` that stands above it; None may be an entry.

    Raises:
        ValueError: a tree that is no prefix.

    >>> prefix_leaves((0, None), ({"a": 1, "b": 2}, 3))
    [0, 0, None]
    """
    import optree

    entries = optree.broadcast_prefix(prefix, full, none_is_leaf=True)
    leaves = optree.tree_leaves(full, none_is_leaf=True)
    return [entry for entry, leaf in zip(entries, leaves, strict=True) if leaf is not None]
