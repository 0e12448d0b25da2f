"""`Family`: the implementations of an extension operation, in one object. Also the registry of families by id.

A family need not be registered if the class of its op has it as the attribute `family`. To be looked up by its id, for
example for ops in files, a family must be registered. An installed package may list it instead, as an entry point of
the group `tenferro.extensions`.

Source: docs/specification/registration.md and files.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

from tenferro.errors import DuplicateFamilyError, RegistrationError
from tenferro.interruption import is_interruption
from tenferro.rules.family_id import by_version, check_family_id, major_version

__all__ = [
    "ExtensionFactory",
    "Family",
    "OpFactory",
    "factory_of",
    "family_count",
    "family_of",
    "install_default_families",
    "lookup_extension_factory",
    "register_extension",
    "registered_families",
    "registered_family",
]


@dataclass(frozen=True, eq=False)
class Family:
    """Extension operation with its runtime, derivative rules, lowering, batch rule and factory.

    Attributes:
        op: the class of the family's ops. It has the family's id as the attribute `family_id`.
        runtime: the native implementation. It is an `ExtensionRuntime`, or a class such as `HostReferenceRuntime`. Each
            executor creates an instance of the class from the family id.
        rules: the derivative rules, an object or a subclass of `ExtensionAdRule`.
        lowering: a function `lowering(op, writer, *operands)` that emits the op as StableHLO, or a dict of such
            functions by platform.
        batch: a function `batch(op, builder, inputs, batched)`: the batch rule, if `rules` does not define it.
        factory: an object that creates ops from saved payloads. By default the op's class is called with the payload.

    An attribute that is None is not supported, unless the op sets `from_expansion`. A context, an executor or
    `lowering.register_extension_lowering` can replace a family's rules, runtime or lowering.

    Raises:
        MalformedFamilyIdError: the op's id is not `<package>.<name>.v<major>`.
        RegistrationError: an attribute has a wrong type, or belongs to another family.

    >>> from tenferro.extension import ExtensionOp, HostReferenceRuntime
    >>> class Same(ExtensionOp):
    ...     family_id = "example.same.v1"
    >>> Family(Same, runtime=HostReferenceRuntime).family_id
    'example.same.v1'
    """

    op: type[Any]
    runtime: Any = None
    rules: Any = None
    lowering: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None
    batch: Callable[..., Any] | None = None
    factory: ExtensionFactory | None = None

    def __post_init__(self) -> None:
        family_id = check_family_id(getattr(self.op, "family_id", None))
        if isinstance(self.rules, type):
            object.__setattr__(self, "rules", self.rules())
        lowerings = (
            self.lowering.values() if isinstance(self.lowering, Mapping) else [self.lowering]
        )
        op: Any = self.op
        parts = {
            "op": isinstance(op, type),
            "runtime": _has(self.runtime, "execute"),
            "rules": _has(self.rules, "linearize"),
            "lowering": all(rule is None or callable(rule) for rule in lowerings),
            "batch": self.batch is None or callable(self.batch),
        }
        for name, is_one in parts.items():
            if not is_one:
                raise RegistrationError(
                    f"Family({family_id}): {getattr(self, name)!r:.60} is no {name}"
                )
        for name in ("runtime", "rules"):
            part_id = getattr(getattr(self, name), "family_id", family_id)
            if part_id != family_id:
                raise RegistrationError(f"Family({family_id}): its {name} belongs to {part_id}")

    @property
    def family_id(self) -> str:
        """The id of the family."""
        return self.op.family_id

    def lowering_for(self, platform: str | None) -> Callable[..., Any] | None:
        """Return the lowering function for `platform`, or None if there is none.

        If `platform` is None, return the function that is used for all platforms.
        """
        if isinstance(self.lowering, Mapping):
            return self.lowering.get(platform)  # pyright: ignore[reportArgumentType]  # because None has none
        return self.lowering if platform is None else None


def _has(part: Any, method: str) -> bool:
    return part is None or callable(getattr(part, method, None))


# ---- ops of files --------------------------------------------------------------------------------------


class ExtensionFactory(Protocol):
    """Interface of a factory: it creates the ops of one family from saved payloads."""

    @property
    def family_id(self) -> str:
        """The family id of the ops that the factory creates."""
        ...

    @property
    def version(self) -> int:
        """The major version of the family that this factory supports."""
        ...

    def instantiate(self, payload: dict[str, Any]) -> Any:
        """Create the op that has this payload, a dict of the values of its fields."""
        ...


class OpFactory:
    """Factory for ops whose class is a dataclass: the payload consists of the values of the fields.

    >>> OpFactory(int)
    Traceback (most recent call last):
        ...
    tenferro.errors.RegistrationError: OpFactory: int is not a dataclass with a family_id
    """

    def __init__(self, cls: type[Any]) -> None:
        if not (is_dataclass(cls) and isinstance(getattr(cls, "family_id", None), str)):
            raise RegistrationError(
                f"OpFactory: {cls.__name__} is not a dataclass with a family_id"
            )
        self.cls: Callable[..., Any] = cls
        self.family_id: str = cls.family_id
        self.version = major_version(check_family_id(self.family_id))
        self._names = {field.name for field in fields(cls)}

    def instantiate(self, payload: dict[str, Any]) -> Any:
        """Create the op from a dict of the values of its fields."""
        if unknown := payload.keys() - self._names:
            raise RegistrationError(f"{self.family_id}: unknown payload fields {sorted(unknown)}")
        return self.cls(**payload)


# ---- the registry --------------------------------------------------------------------------------------

ENTRY_POINTS = "tenferro.extensions"
"""The entry-point group under which packages list their families."""

_REGISTERED: dict[str, Family | ExtensionFactory] = {}
_LOCK = threading.RLock()
_ASKED: set[str] = set()
"""Family ids that were looked up in installed packages without success."""
_default_families: list[Callable[[], Iterable[Family]]] = []


def install_default_families(make: Callable[[], Iterable[Family]]) -> None:
    """Set the function that creates tenferro's own families. It is called when a family is first looked up."""
    _default_families[:] = [make]


def _registered() -> dict[str, Family | ExtensionFactory]:
    while _default_families:
        # The function is removed before it is called, because its imports may look up families.
        make = _default_families.pop()
        try:
            for family in make():
                _REGISTERED.setdefault(family.family_id, family)
        except BaseException:  # a signal handler may raise any exception; the next lookup then calls the function again
            _default_families.append(make)
            raise
    return _REGISTERED


def register_extension(family: Any) -> None:
    """Register a family by its id, so that its ops can be loaded from files.

    If the class of the op has no attribute `family`, registration is also needed to run and differentiate the op.

    Args:
        family: a `Family`, an `ExtensionFactory`, or a dataclass of ops. The dataclass has an attribute `family`, or is
            itself the factory of its ops.

    Raises:
        DuplicateFamilyError: the family id is already registered, or the op's class has another family as `family`.
        MalformedFamilyIdError: the id is not `<package>.<name>.v<major>`.
        RegistrationError: the family cannot create ops, or its `version` differs from the major version in its id.
    """
    entry: Any = family
    if isinstance(family, type):
        carried = _carried(family)
        is_its_own = carried is not None and carried.op is family
        entry = carried if is_its_own else Family(family)
    if isinstance(entry, Family) and _carried(entry.op) not in (None, entry):
        raise DuplicateFamilyError(
            f"family_id {entry.family_id!r}: its class carries another family; register that one"
        )
    _require_factory(_factory(entry))
    with _LOCK:
        if entry.family_id in _registered():
            raise DuplicateFamilyError(f"family_id {entry.family_id!r} already registered")
        _REGISTERED[entry.family_id] = entry


def _factory(entry: Any) -> Any:
    """Return the factory of an entry of the registry, which is a `Family` or already a factory."""
    return (entry.factory or OpFactory(entry.op)) if isinstance(entry, Family) else entry


def _require_factory(factory: Any) -> None:
    """Check that `factory` can create the ops of a family.

    Raises:
        MalformedFamilyIdError, RegistrationError: an attribute is missing or malformed.
    """
    family_id = check_family_id(getattr(factory, "family_id", None))
    version = getattr(factory, "version", None)
    if version != major_version(family_id):
        raise RegistrationError(
            f"{family_id}: the factory has version {version!r}, and its id says "
            f"{major_version(family_id)}; another version is another family id"
        )
    if not callable(getattr(factory, "instantiate", None)):
        raise RegistrationError(
            f"{family_id}: {type(factory).__name__} has no instantiate(payload)"
        )


def family_of(op: Any) -> Family | None:
    """Return the family of an op; None if there is none.

    The op's class may have it as an attribute, it may be registered, or an installed package may list it.

    Raises:
        RegistrationError: an entry point of a package is not a family.
    """
    carried = _carried(type(op))
    if carried is not None:
        return carried
    return registered_family(op.family_id)


def registered_family(family_id: str) -> Family | None:
    """Return the family with the id `family_id` from the registry or from installed packages; None if there is none."""
    entry = _entry(family_id)
    return entry if isinstance(entry, Family) else None


def _carried(cls: type[Any]) -> Family | None:
    """Return the attribute `family` of an op class. It is None if it is missing, or belongs to another id."""
    family = getattr(cls, "family", None)
    is_one = isinstance(family, Family) and family.family_id == getattr(cls, "family_id", None)
    return family if is_one else None


def _entry(family_id: str) -> Family | ExtensionFactory | None:
    """Return the registry entry for a family id. For an unknown id, installed packages are searched once."""
    with _LOCK:
        entry = _registered().get(family_id)
        asks = entry is None and family_id not in _ASKED
    if asks:
        _discover()
        with _LOCK:
            entry = _registered().get(family_id)
            _ASKED.add(family_id)
    return entry


def lookup_extension_factory(family_id: str) -> ExtensionFactory | None:
    """Return the factory of a family, or None. For an unknown id, installed packages are searched.

    Raises:
        RegistrationError: an entry point of a package is not a family.
    """
    with _LOCK:
        _ASKED.discard(family_id)
    return _factory(_entry(family_id))


def factory_of(op: Any) -> ExtensionFactory | None:
    """Return the factory that creates an op when a file is loaded; None if the family is not known."""
    return _factory(_entry(op.family_id) or _carried(type(op)))


def _discover() -> None:
    """Register the families that installed packages list as entry points.

    An entry point is a family, a dataclass of ops, a factory, a list of these, or a function that registers families.
    """
    from importlib import metadata  # because the import takes long, and few ids are unknown

    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            offered = point.load()
            for entry in offered if isinstance(offered, list | tuple) else [offered]:
                if isinstance(entry, type) or hasattr(entry, "family_id"):
                    _register_once(entry)
                else:
                    entry()
        except DuplicateFamilyError:
            continue  # because an earlier search has registered the families
        except Exception as error:
            if is_interruption(error):
                raise
            raise RegistrationError(
                f"entry point {point.name!r} ({point.value}) of the group {ENTRY_POINTS}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _register_once(entry: Any) -> None:
    with _LOCK:
        is_known = entry.family_id in _registered()
    if not is_known:
        register_extension(entry)


def registered_families() -> list[str]:
    """Return the ids of all registered families, sorted by name and version."""
    with _LOCK:
        return sorted(_registered(), key=by_version)


def family_count() -> int:
    """Return the number of registered families. Callers cache results of `family_of` until this number changes."""
    return len(_REGISTERED)
