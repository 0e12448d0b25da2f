"""Pytrees: nested tuples, lists, dicts, named tuples, dataclasses and registered classes, by optree.

A dataclass is a tree of its fields without being registered, unless it is an array or a type of arrays
(it has `shape` and `dtype`, or gives its elements). Classes that JAX knows as trees are trees here in the
same way; JAX itself is asked only where the program has imported it.

optree is imported when a tree is first met: it takes a fifth of the import of tenferro.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tenferro.errors import InvalidConfigError, RegistrationError

if TYPE_CHECKING:
    import optree

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "SequenceKey",
    "TreeDef",
    "difference",
    "flatten",
    "key_paths",
    "keystr",
    "leaf_paths",
    "leaf_paths_of",
    "prefix_leaves",
    "register_dataclass",
    "register_pytree_node",
    "unflatten",
]

TreeDef: TypeAlias = "optree.PyTreeSpec"
NAMESPACE = "tenferro"
"""Of the classes registered with optree here; those registered for all its users are trees too."""


# ---- paths -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A place in a tuple, a list or a named tuple without its name."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclass(frozen=True, slots=True)
class DictKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A field of a named tuple or a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """The number of a child, of a class that does not name them."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath: TypeAlias = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: as Python would write it, or the bare names.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator=".")
    'w.0'

    Source: jax.tree_util.keystr.
    """
    return separator.join([_bare(key) if simple else str(key) for key in keys])


def _bare(key: Any) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    return str(key.name if isinstance(key, GetAttrKey) else getattr(key, "key", key))


def key_paths(treedef: TreeDef) -> list[KeyPath]:
    """The path of each leaf."""
    return [tuple(map(_key, accessor)) for accessor in treedef.accessors()]


def _key(entry: Any) -> Any:
    """A path's entry of optree, in JAX's words."""
    import optree

    if isinstance(entry, optree.NamedTupleEntry | optree.GetAttrEntry):
        return GetAttrKey(entry.name if isinstance(entry, optree.GetAttrEntry) else entry.field)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    own = entry.entry
    if hasattr(own, "name"):  # this module's keys and JAX's
        return GetAttrKey(own.name)
    if hasattr(own, "idx"):
        return SequenceKey(own.idx)
    if isinstance(own, DictKey) or type(own).__name__ == "DictKey":
        return DictKey(own.key)
    return FlattenedIndexKey(getattr(own, "key", own))


# ---- trees -----------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves in order, and the structure that holds them; None is an empty tree.

    >>> flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    import optree

    leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    while not _LEAVES.issuperset(map(type, leaves)) and _registered_any(leaves):
        leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return leaves, treedef


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure over these leaves."""
    import optree

    return optree.tree_unflatten(treedef, leaves)


def leaf_paths(tree: Any) -> list[str]:
    """Where each leaf sits, as Python would write it.

    >>> leaf_paths({"w": [1, 2]})
    ["['w'][0]", "['w'][1]"]
    """
    return leaf_paths_of(flatten(tree)[1])


def leaf_paths_of(treedef: TreeDef) -> list[str]:
    """As `leaf_paths`, of a structure.

    >>> leaf_paths_of(flatten((1, 2))[1])
    ['[0]', '[1]']
    """
    return [""] if treedef.is_leaf() else [keystr(path) for path in key_paths(treedef)]


def prefix_leaves(prefix: Any, full: Any) -> list[Any]:
    """For each leaf of `full`, the entry of `prefix` that stands above it; None may be an entry.

    Raises:
        ValueError: a tree that is no prefix.

    >>> prefix_leaves((0, None), ({"a": 1, "b": 2}, 3))
    [0, 0, None]
    """
    import optree

    flatten((prefix, full))  # because it registers the dataclasses
    entries = optree.broadcast_prefix(prefix, full, none_is_leaf=True, namespace=NAMESPACE)
    leaves = optree.tree_leaves(full, none_is_leaf=True, namespace=NAMESPACE)
    return [entry for entry, leaf in zip(entries, leaves, strict=True) if leaf is not None]


# ---- structures that differ ------------------------------------------------------------------


def difference(
    left: TreeDef, right: TreeDef, names: tuple[str, str], *, is_prefix: bool = False
) -> str:
    """Where two structures first part, in words; nothing for equal ones.

    Args:
        names: what the two are called.
        is_prefix: whether a leaf on the left may stand for any tree on the right.

    >>> difference(flatten((1, 2))[1], flatten((1, {"a": 2}))[1], ("the carry", "the result"))
    "the carry[1] is a leaf, and the result[1] a dict with the keys 'a'"
    """
    pairs: list[tuple[str, TreeDef, TreeDef]] = [("", left, right)]
    while pairs:
        path, one, other = pairs.pop()
        if one == other or (is_prefix and one.is_leaf()):
            continue
        if one.one_level() != other.one_level():
            first, second = _described(one), _described(other)
            if first == second:  # the same class with other static fields, which only optree shows
                first, second = f"{one.one_level()}", f"{other.one_level()}"
            return f"{names[0]}{path} is {first}, and {names[1]}{path} {second}"
        level = one.one_level()
        keys = [] if level is None else [str(_key(entry)) for (entry,) in level.accessors()]
        children = zip(keys, one.children(), other.children(), strict=True)
        pairs += reversed([(path + key, first, second) for key, first, second in children])
    return ""


def _described(treedef: TreeDef) -> str:
    kind = treedef.type
    if kind is None:
        return "a leaf"
    if kind is type(None):
        return "None"
    name: str = kind.__name__
    if issubclass(kind, dict):
        keys = ", ".join(map(repr, treedef.entries()))
        return f"a {name} with the keys {keys}" if keys else f"an empty {name}"
    return f"a {name} of {treedef.num_children}"


# ---- registration ----------------------------------------------------------------------------

_LOCK = threading.Lock()
_LEAVES = frozenset({np.ndarray, bool, int, float, complex, str})
"""Types of leaves that need no second look."""


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Make a class a tree: how it comes apart, and how it is put together again.

    Args:
        flatten_func: gives the children, and what else the object holds, which is compared and hashed.
        unflatten_func: takes what else it holds, and the children.
        flatten_with_keys_func: as `flatten_func`, each child with its key (`tree.DictKey` and its like).

    Raises:
        RegistrationError: a class that is a tree already, or no class.

    Source: jax.tree_util.register_pytree_node.
    """

    def parts(node: Any) -> Any:
        if flatten_with_keys_func is None:
            return flatten_func(node)
        keyed, rest = flatten_with_keys_func(node)
        pairs = list(keyed)
        return [child for _, child in pairs], rest, [key for key, _ in pairs]

    _register(nodetype, parts, unflatten_func)


def _register(nodetype: type, parts: Any, whole: Any) -> None:
    """Tell optree; the user's word stands above what this module found out by itself."""
    import optree

    with _LOCK:
        known = optree.register_pytree_node.get(nodetype, namespace=NAMESPACE)
        if isinstance(getattr(known, "flatten_func", None), _Fields | _JaxNode):
            optree.unregister_pytree_node(nodetype, namespace=NAMESPACE)
        try:
            _tell(nodetype, parts, whole)
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{nodetype!r} is not registered as a tree: {error}") from None


def _tell(nodetype: type, parts: Any, whole: Any) -> None:
    import optree

    optree.register_pytree_node(
        nodetype,
        parts,
        whole,
        path_entry_type=optree.FlattenedEntry,  # because entries are keys of this module
        namespace=NAMESPACE,
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Takes objects apart into fields with leaves, and fields that are compared."""

    nodetype: type
    data: tuple[str, ...]
    meta: tuple[str, ...]

    def __call__(self, node: Any) -> Any:
        children = [getattr(node, name) for name in self.data]
        meta = tuple([getattr(node, name) for name in self.meta])
        try:
            hash(
                meta
            )  # because programs are kept by it, and what changes would stay equal to itself
        except TypeError as error:
            raise InvalidConfigError(
                f"static fields of {self.nodetype.__qualname__} must be hashable: {error}; give a tuple, or "
                "make an array a field that is not static"
            ) from None
        return children, meta, self.keys

    @property
    def keys(self) -> tuple[GetAttrKey, ...]:
        return tuple(map(GetAttrKey, self.data))

    def whole(self, meta: Any, children: Any) -> Any:
        """The object again."""
        data = dict(zip(self.data, children, strict=True))
        return self.nodetype(**data, **dict(zip(self.meta, meta, strict=True)))


def register_dataclass(
    nodetype: type[Any],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Say which fields of a class are subtrees, and which are compared like a tuple's length.

    Dataclasses are trees without this, with `dataclasses.field(metadata={"static": True})` for fields that
    are compared (`tree.static()`). Objects are made again by calling the class with all fields by name.

    Args:
        data_fields: subtrees; of a dataclass by default all fields of `__init__` that are not static.
        meta_fields: hashable; with `data_fields` or not at all.
        drop_fields: of `__init__`, and left out.

    Raises:
        RegistrationError: fields that do not add up to those of `__init__`, or a class registered already.

    Source: jax.tree_util.register_dataclass.
    """
    if (data_fields is None) != (meta_fields is None):
        raise RegistrationError("register_dataclass: give data_fields and meta_fields, or neither")
    is_dataclass = hasattr(nodetype, "__dataclass_fields__")
    if not is_dataclass and data_fields is None:
        raise RegistrationError(
            f"register_dataclass: {nodetype!r:.60} is no dataclass; give data_fields and meta_fields"
        )
    if data_fields is None or meta_fields is None:
        fields = _inferred(nodetype, drop_fields)
    else:
        fields = _Fields(nodetype, tuple(data_fields), tuple(meta_fields))
    if is_dataclass:
        _check_fields(fields, drop_fields)
    _register(nodetype, lambda node: fields(node), fields.whole)
    return nodetype


def _inferred(nodetype: type, dropped: Sequence[str]) -> _Fields:
    own: Any = nodetype
    fields = [
        field for field in dataclasses.fields(own) if field.init and field.name not in dropped
    ]
    is_static = [bool(field.metadata.get("static", False)) for field in fields]
    data = tuple(
        [field.name for field, static in zip(fields, is_static, strict=True) if not static]
    )
    meta = tuple([field.name for field, static in zip(fields, is_static, strict=True) if static])
    return _Fields(nodetype, data, meta)


def _check_fields(fields: _Fields, dropped: Sequence[str]) -> None:
    own: Any = fields.nodetype
    expected = {field.name for field in dataclasses.fields(own) if field.init} - set(dropped)
    names = [*fields.data, *fields.meta]
    if len(names) == len(set(names)) and set(names) == expected:
        return
    raise RegistrationError(
        f"register_dataclass: data_fields and meta_fields must name each field of "
        f"{own.__qualname__}.__init__ once, which are {sorted(expected)}; got {names}"
    )


@dataclass(frozen=True, slots=True)
class _JaxNode:
    """Takes objects apart as JAX does, one level deep."""

    def __call__(self, node: Any) -> Any:
        jax: Any = sys.modules["jax.tree_util"]
        keyed, treedef = jax.tree_flatten_with_path(node, is_leaf=lambda child: child is not node)
        return [child for _, child in keyed], treedef, [path[0] for path, _ in keyed]

    @staticmethod
    def whole(treedef: Any, children: Any) -> Any:
        """The object again."""
        return treedef.unflatten(children)


def _registered_any(leaves: list[Any]) -> bool:
    """Whether classes among the leaves turned out to be trees, and are now registered."""
    classes = dict(zip(map(type, leaves), leaves, strict=True))
    registered = False
    for cls in classes.keys() - _LEAVES:
        if not hasattr(cls, "__tenferro_apply__"):  # because a tensor is a leaf
            registered |= _is_registered_now(cls, classes[cls])
    return registered


def _is_registered_now(cls: type, leaf: Any) -> bool:
    jax: Any = sys.modules.get("jax.tree_util")
    registry = getattr(jax, "default_registry", None)  # absent while jax is being imported
    if registry is not None and registry.flatten_one_level(leaf) is not None:
        node = _JaxNode()
    elif "__dataclass_fields__" in vars(cls) and not _is_array_type(cls):
        node = _inferred(cls, ())
    else:
        return False
    import optree

    with _LOCK:
        # `is_leaf` makes leaves of classes that are trees already.
        if optree.register_pytree_node.get(cls, namespace=NAMESPACE) is not None:
            return False
        _tell(cls, node, node.whole)
    return True


def _is_array_type(cls: type) -> bool:
    """Whether objects are arrays, or say what arrays are like, as a `TensorSpec` does."""
    if hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
        return True
    own: Any = cls
    names = {*dir(cls), *[field.name for field in dataclasses.fields(own)]}
    return {"shape", "dtype"} <= names
