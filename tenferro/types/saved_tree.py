"""Structures of pytrees as JSON. Containers may be tuples, lists, named tuples, and dicts with string keys."""

from __future__ import annotations

import collections
from typing import Any

from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types.tree import TreeDef, flatten, unflatten

__all__ = ["load_tree", "save_tree"]

DEEPEST = 100
"""Maximum nesting depth of containers."""
MOST_FIELDS = 1000
"""Maximum number of fields of a named tuple. Its class is created when the tree is loaded."""


def save_tree(treedef: TreeDef) -> Any:
    """Return the structure as JSON values. In place of the leaves it contains their numbers, in order.

    Raises:
        UnsupportedError: the tree has a container that loading could not create without running code.

    >>> save_tree(flatten({"a": 1, "b": (2, None)})[1])
    {'dict': [['a', 0], ['b', {'tuple': [1, None]}]]}
    """
    return _saved(unflatten(treedef, range(treedef.num_leaves)))


def load_tree(saved: Any, leaves: int) -> TreeDef:
    """Return the structure that `save_tree` converted to `saved`.

    `saved` must contain the numbers 0 .. `leaves` - 1 in order.

    Raises:
        InvalidConfigError: `saved` is not a structure with that number of leaves.

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


def _loaded(tree: Any, depth: int = 0) -> Any:
    if tree is None or type(tree) is int:
        return tree
    if not isinstance(tree, dict):
        raise InvalidConfigError(f"load: unknown tree {tree!r:.60}")
    if depth >= DEEPEST:
        raise InvalidConfigError(
            f"load: a tree of more than {DEEPEST} containers inside each other"
        )
    if "namedtuple" in tree:
        return _named(tree, depth)
    if len(tree) != 1:
        raise InvalidConfigError(f"load: unknown tree {tree!r:.60}")
    ((kind, items),) = tree.items()
    if kind == "dict":
        return {str(key): _loaded(item, depth + 1) for key, item in items}
    if kind not in ("tuple", "list"):
        raise InvalidConfigError(f"load: unknown tree {kind!r:.60}")
    children = [_loaded(item, depth + 1) for item in items]
    return tuple(children) if kind == "tuple" else children


def _named(tree: dict[str, Any], depth: int) -> Any:
    name, names, items = tree["namedtuple"], tree["fields"], tree["items"]
    are_names = isinstance(names, list) and all([isinstance(field, str) for field in names])
    if not isinstance(name, str) or not are_names or len(names) != len(items):
        raise InvalidConfigError(f"load: {name!r:.60} is not a named tuple: fields {names!r:.60}")
    if len(names) > MOST_FIELDS:
        raise InvalidConfigError(
            f"load: {name!r:.60} has {len(names)} fields, at most {MOST_FIELDS}"
        )
    make: Any = (
        collections.namedtuple
    )  # typed as Any, because type checkers reject names that are computed
    try:
        cls = make(name, names)
    except ValueError as error:
        raise InvalidConfigError(f"load: {name!r:.60} is not a named tuple: {error}") from None
    return cls(*[_loaded(item, depth + 1) for item in items])
