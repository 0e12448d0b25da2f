"""Pytrees: nested tuples, lists, dicts, named tuples, dataclasses and registered classes. optree flattens them.

A dataclass is a tree of its fields without registration, unless it is an array or a type of arrays: it has `shape` and
`dtype`, or converts to an array. Classes that are registered as trees with JAX are also trees here. JAX is used only if
the program has imported it.

optree is imported when the first tree is flattened, because the import takes a fifth of tenferro's import time.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tenferro.compilations import stop_at_exit, watch_exit
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
    "agree",
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
"""Namespace in optree for classes that tenferro registers. Classes in optree's global namespace are also trees."""


# ---- paths -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """Entry of a path: an index of a tuple or list, or of an unnamed field of a named tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclass(frozen=True, slots=True)
class DictKey:
    """Entry of a path: a key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """Entry of a path: a field of a named tuple or a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """Entry of a path: the number of a child, for a class whose children have no names."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath: TypeAlias = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text: in Python's notation or, if `simple`, as plain names joined by `separator`.

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
    """Return the path of each leaf, in the order of the leaves. A path is a tuple of keys."""
    return [tuple(map(_key, accessor)) for accessor in treedef.accessors()]


def _key(entry: Any) -> Any:
    """Convert an optree path entry to a key of one of the classes above."""
    import optree

    if isinstance(entry, optree.NamedTupleEntry | optree.GetAttrEntry):
        return GetAttrKey(entry.name if isinstance(entry, optree.GetAttrEntry) else entry.field)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    own = entry.entry
    if hasattr(own, "name"):  # a key of a class of this module or of JAX
        return GetAttrKey(own.name)
    if hasattr(own, "idx"):
        return SequenceKey(own.idx)
    if isinstance(own, DictKey) or type(own).__name__ == "DictKey":
        return DictKey(own.key)
    return FlattenedIndexKey(getattr(own, "key", own))


# ---- trees -----------------------------------------------------------------------------------


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves in order, and the structure of the tree without its leaves. None is a tree without leaves.

    Raises:
        InvalidConfigError: the tree contains itself, or is deeper than optree's `MAX_RECURSION_DEPTH`.

    >>> flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    import optree

    watch_exit()
    stop_at_exit()
    try:
        leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
        while not _LEAVES.issuperset(map(type, leaves)) and _registered_any(tree, leaves):
            leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        if "flattening" not in str(error):  # another RecursionError than optree's
            raise
        raise InvalidConfigError(
            f"a {type(tree).__name__} is not a tree: it contains itself, or more than "
            f"{optree.MAX_RECURSION_DEPTH} containers inside each other"
        ) from None
    return leaves, treedef


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build a tree from its structure and its leaves."""
    import optree

    return optree.tree_unflatten(treedef, leaves)


def leaf_paths(tree: Any) -> list[str]:
    """Return the path of each leaf of a tree, in Python's notation.

    >>> leaf_paths({"w": [1, 2]})
    ["['w'][0]", "['w'][1]"]
    """
    return leaf_paths_of(flatten(tree)[1])


def leaf_paths_of(treedef: TreeDef) -> list[str]:
    """Return the path of each leaf of a structure; see `leaf_paths`.

    >>> leaf_paths_of(flatten((1, 2))[1])
    ['[0]', '[1]']
    """
    return [""] if treedef.is_leaf() else [keystr(path) for path in key_paths(treedef)]


def prefix_leaves(prefix: Any, full: Any) -> list[Any]:
    """Return, for each leaf of `full`, the leaf of `prefix` at its position or above.

    None counts as a leaf of `prefix`.

    Raises:
        ValueError: `prefix` is not a prefix of `full`.

    >>> prefix_leaves((0, None), ({"a": 1, "b": 2}, 3))
    [0, 0, None]
    """
    import optree

    flatten((prefix, full))  # because the call registers the dataclasses of the trees
    entries = optree.broadcast_prefix(prefix, full, none_is_leaf=True, namespace=NAMESPACE)
    leaves = optree.tree_leaves(full, none_is_leaf=True, namespace=NAMESPACE)
    return [entry for entry, leaf in zip(entries, leaves, strict=True) if leaf is not None]


# ---- structures that differ ------------------------------------------------------------------


def agree(tree: TreeDef, wanted: TreeDef) -> bool:
    """Return whether two structures agree, by the same rules as in `difference`."""
    return tree == wanted or not difference(tree, wanted, ("", ""))


def difference(
    left: TreeDef, right: TreeDef, names: tuple[str, str], *, is_prefix: bool = False
) -> str:
    """Describe the first difference between two structures. The result is "" if they agree.

    Named tuples agree if their names and fields are equal, because loading a program creates new classes.

    Args:
        names: names for the two structures in the description.
        is_prefix: whether a leaf on the left may stand for any tree on the right.

    >>> difference(flatten((1, 2))[1], flatten((1, {"a": 2}))[1], ("the carry", "the result"))
    "the carry[1] is a leaf, and the result[1] a dict with the keys 'a'"
    """
    pairs: list[tuple[str, TreeDef, TreeDef]] = [("", left, right)]
    while pairs:
        path, left_node, right_node = pairs.pop()
        if left_node == right_node or (is_prefix and left_node.is_leaf()):
            continue
        if left_node.one_level() != right_node.one_level() and not _are_alike(
            left_node, right_node
        ):
            first, second = _described(left_node), _described(right_node)
            if (
                first == second
            ):  # only static fields differ, which the text of the optree node shows
                first, second = f"{left_node.one_level()}", f"{right_node.one_level()}"
            return f"{names[0]}{path} is {first}, and {names[1]}{path} {second}"
        level = left_node.one_level()
        keys = [] if level is None else [str(_key(entry)) for (entry,) in level.accessors()]
        children = zip(keys, left_node.children(), right_node.children(), strict=True)
        pairs += reversed([(path + key, first, second) for key, first, second in children])
    return ""


def _are_alike(left: TreeDef, right: TreeDef) -> bool:
    """Return whether both structures are named tuples with equal names and fields."""
    names, others = (getattr(each.type, "_fields", None) for each in (left, right))
    if left.type is None or right.type is None or names is None or names != others:
        return False
    return (left.type.__name__, left.num_children) == (right.type.__name__, right.num_children)


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
"""Classes whose objects are leaves of every tree."""


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Register a class as a tree, by two functions that flatten and unflatten its objects.

    Args:
        flatten_func: a function of an object that returns its children, and its other data. The other data are compared
            and hashed.
        unflatten_func: a function of the other data and the children that returns the object.
        flatten_with_keys_func: like `flatten_func`, but each child is returned as a pair of a key, such as a
            `tree.DictKey`, and the child.

    Raises:
        RegistrationError: the class is a tree already, or `nodetype` is not a class.

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
    """Register a class with optree. A registration by the user replaces an automatic one."""
    import optree

    with _LOCK:
        entry = optree.register_pytree_node.get(nodetype, namespace=NAMESPACE)
        if isinstance(getattr(entry, "flatten_func", None), _Fields | _JaxNode):
            optree.unregister_pytree_node(nodetype, namespace=NAMESPACE)
        try:
            _register_with_optree(nodetype, parts, whole)
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{nodetype!r} is not registered as a tree: {error}") from None


def _register_with_optree(nodetype: type, parts: Any, whole: Any) -> None:
    import optree

    optree.register_pytree_node(
        nodetype,
        parts,
        whole,
        path_entry_type=optree.FlattenedEntry,  # path entries are keys of this module
        namespace=NAMESPACE,
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Function that flattens objects of a class.

    The fields in `data` are the children. The fields in `meta` are static: they are compared.
    """

    nodetype: type
    data: tuple[str, ...]
    meta: tuple[str, ...]

    def __call__(self, node: Any) -> Any:
        children = [getattr(node, name) for name in self.data]
        meta = tuple([getattr(node, name) for name in self.meta])
        # `meta` becomes part of the key under which programs are cached, so its values must be hashable. If a mutable
        # value were changed in place, the key would stay the same, and an outdated program would run.
        try:
            hash(meta)
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
        """Create an object from its children and its static fields."""
        data = dict(zip(self.data, children, strict=True))
        return self.nodetype(**data, **dict(zip(self.meta, meta, strict=True)))


def register_dataclass(
    nodetype: type[Any],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Register a class as a tree. Some fields are its children, and others are static, so that they are only compared.

    Dataclasses are trees without registration. They declare a static field by `dataclasses.field(metadata={"static":
    True})` or by `tree.static()`. Objects are rebuilt by calling the class with all fields by name.

    Args:
        data_fields: the names of the fields that are children. By default, all fields that a dataclass's `__init__`
            accepts and that are not static.
        meta_fields: the names of the static fields, whose values must be hashable. Pass both lists or neither.
        drop_fields: the names of fields of `__init__` that are omitted.

    Raises:
        RegistrationError: the fields are not those of `__init__`, or the class is registered already.

    Source: jax.tree_util.register_dataclass.
    """
    if (data_fields is None) != (meta_fields is None):
        raise RegistrationError("register_dataclass: give data_fields and meta_fields, or neither")
    is_dataclass = hasattr(nodetype, "__dataclass_fields__")
    if not is_dataclass and data_fields is None:
        raise RegistrationError(
            f"register_dataclass: {nodetype!r:.60} is not a dataclass; give data_fields and meta_fields"
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
    """Function that flattens objects of a class that is registered with JAX, by JAX's function, and one level only."""

    def __call__(self, node: Any) -> Any:
        jax: Any = sys.modules["jax.tree_util"]
        keyed, treedef = jax.tree_flatten_with_path(node, is_leaf=lambda child: child is not node)
        return [child for _, child in keyed], treedef, [path[0] for path, _ in keyed]

    @staticmethod
    def whole(treedef: Any, children: Any) -> Any:
        """Create an object from its children."""
        return treedef.unflatten(children)


def _registered_any(tree: Any, leaves: list[Any]) -> bool:
    """Register those classes of leaves whose objects are trees. Return whether a class was registered."""
    classes = dict(zip(map(type, leaves), leaves, strict=True))
    registered = False
    for cls in classes.keys() - _LEAVES:
        if not hasattr(cls, "__tenferro_apply__"):  # a tensor is a leaf
            registered |= _is_registered(cls, classes[cls])
    if not registered and any([not hasattr(cls, "dtype") for cls in classes.keys() - _LEAVES]):
        for cls, node in _named_tuples(tree).items():
            registered |= _is_registered(cls, node)
    return registered


def _named_tuples(tree: Any) -> dict[type, Any]:
    """Return one object of each class of named tuples in the tree, unless JAX flattens the class in another way."""
    import optree

    jax: Any = sys.modules.get("jax.tree_util")
    registry: Any = getattr(jax, "default_registry", None)
    nodes: dict[type, Any] = {}

    def note(node: Any) -> bool:
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            children = list(registry.flatten_one_level(node)[0])
            if list(map(id, children)) != list(map(id, node)):
                nodes[type(node)] = node
        return False

    if registry is not None:
        optree.tree_flatten(tree, note, namespace=NAMESPACE)
    return nodes


def _is_registered(cls: type, leaf: Any) -> bool:
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
        # The class may be registered already. For a named tuple, optree may return the entry of another class.
        entry = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
        if entry is not None and entry.type is cls:
            return False
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # optree warns about classes of named tuples
            _register_with_optree(cls, node, node.whole)
    return True


def _is_array_type(cls: type) -> bool:
    """Return whether objects of a class are arrays, or describe arrays as a `TensorSpec` does."""
    if hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
        return True
    own: Any = cls
    names = {*dir(cls), *[field.name for field in dataclasses.fields(own)]}
    return {"shape", "dtype"} <= names
