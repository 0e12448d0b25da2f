"""Pytree structures as JSON: tuples, lists, named tuples and dicts with text for keys."""

from __future__ import annotations

import collections
from typing import Any

from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types.tree import TreeDef, flatten, unflatten

__all__ = ["load_tree", "save_tree"]


def save_tree(treedef: TreeDef) -> Any:
    """The structure as JSON can hold it, leaves numbered in order.

    Raises:
        UnsupportedError: a container that reading could not make again without running code.

    >>> save_tree(flatten({"a": 1, "b": (2, None)})[1])
    {'dict': [['a', 0], ['b', {'tuple': [1, None]}]]}
    """
    return _saved(unflatten(treedef, range(treedef.num_leaves)))


def load_tree(saved: Any, leaves: int) -> TreeDef:
    """The structure that `save_tree` wrote, which must number `leaves` leaves in order.

    Raises:
        InvalidConfigError: a document that is no such structure.

    >>> load_tree({"list": [0, 1]}, 2) == flatten([5, 6])[1]
    True
    """
    numbers, treedef = flatten(_loaded(saved))
    if numbers != list(range(leaves)):
        raise InvalidConfigError(f"load: a tree does not number {leaves} leaves in order")
    return treedef


def _saved(tree: Any) -> Any:
    if tree is None or isinstance(tree, int):
        return tree
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        named: Any = tree
        return {
            "namedtuple": type(tree).__name__,
            "fields": list(named._fields),
            "items": [_saved(item) for item in tree],
        }
    if type(tree) in (tuple, list):
        return {type(tree).__name__: [_saved(item) for item in tree]}
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return {"dict": [[key, _saved(item)] for key, item in tree.items()]}
    raise UnsupportedError(
        f"save: arguments and results are saved in tuples, lists, named tuples and dicts with text "
        f"for keys, got {type(tree).__name__}"
    )


def _loaded(tree: Any) -> Any:
    if tree is None or type(tree) is int:
        return tree
    if not isinstance(tree, dict):
        raise InvalidConfigError(f"load: unknown tree {tree!r:.60}")
    if "namedtuple" in tree:
        make: Any = collections.namedtuple  # because the fields are data
        cls = make(tree["namedtuple"], tree["fields"])
        return cls(*[_loaded(item) for item in tree["items"]])
    ((kind, items),) = tree.items()
    if kind == "dict":
        return {str(key): _loaded(item) for key, item in items}
    if kind not in ("tuple", "list"):
        raise InvalidConfigError(f"load: unknown tree {kind!r}")
    found = [_loaded(item) for item in items]
    return tuple(found) if kind == "tuple" else found
