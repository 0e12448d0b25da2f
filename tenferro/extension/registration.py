"""Factories: how a saved op of a family comes back. Tracing and running need none.

Source: seed 000, sections 9 and 11.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from importlib import metadata
from typing import Any, Protocol

from tenferro.errors import DuplicateFamilyError, RegistrationError
from tenferro.extension.extension_op import check_family_id, major_version
from tenferro.interruption import is_interruption

__all__ = [
    "ExtensionFactory",
    "OpFactory",
    "install_default_families",
    "lookup_extension_factory",
    "register_extension",
    "registered_families",
]


class ExtensionFactory(Protocol):
    """Makes ops of one family from their saved payload."""

    @property
    def family_id(self) -> str:
        """Whose ops it makes."""
        ...

    @property
    def version(self) -> int:
        """The family's major version here."""
        ...

    def instantiate(self, payload: dict[str, Any]) -> Any:
        """The op with this payload."""
        ...


class OpFactory:
    """The factory of a dataclass: its fields are the payload.

    >>> OpFactory(int)
    Traceback (most recent call last):
        ...
    tenferro.errors.RegistrationError: OpFactory: int is no dataclass with a family_id
    """

    def __init__(self, cls: type[Any]) -> None:
        if not (is_dataclass(cls) and isinstance(getattr(cls, "family_id", None), str)):
            raise RegistrationError(f"OpFactory: {cls.__name__} is no dataclass with a family_id")
        self.cls: Callable[..., Any] = cls
        self.family_id: str = cls.family_id
        self.version = major_version(check_family_id(self.family_id))
        self._names = {field.name for field in fields(cls)}

    def instantiate(self, payload: dict[str, Any]) -> Any:
        """The op with these fields."""
        if unknown := payload.keys() - self._names:
            raise RegistrationError(f"{self.family_id}: unknown payload fields {sorted(unknown)}")
        return self.cls(**payload)


ENTRY_POINTS = "tenferro.extensions"
"""The group under which packages offer their families."""

_FACTORIES: dict[str, ExtensionFactory] = {}
_LOCK = threading.Lock()


_default_families: list[Callable[[], Iterable[Any]]] = []


def install_default_families(make: Callable[[], Iterable[Any]]) -> None:
    """Which families come with the package; its top floor says so on import, and they are loaded when
    a factory is first asked for.
    """
    _default_families[:] = [make]


def _known() -> dict[str, ExtensionFactory]:
    while _default_families:
        for cls in _default_families.pop()():
            _FACTORIES.setdefault(cls.family_id, OpFactory(cls))
    return _FACTORIES


def register_extension(factory: Any) -> None:
    """Make a family's saved ops loadable; `factory` is an `ExtensionFactory`, or an op's dataclass.

    Raises:
        DuplicateFamilyError: the family is registered already.
        MalformedFamilyIdError: its id is not `<package>.<name>.v<major>`.
        RegistrationError: its version is not the major one of its id, or it makes no ops.
    """
    made: ExtensionFactory = OpFactory(factory) if isinstance(factory, type) else factory
    family_id = check_family_id(getattr(made, "family_id", None))
    version = getattr(made, "version", None)
    if version != major_version(family_id):
        raise RegistrationError(
            f"{family_id}: the factory has version {version!r}, and its id says "
            f"{major_version(family_id)}; another version is another family id"
        )
    if not callable(getattr(made, "instantiate", None)):
        raise RegistrationError(f"{family_id}: {type(made).__name__} has no instantiate(payload)")
    with _LOCK:
        if family_id in _known():
            raise DuplicateFamilyError(f"family_id {family_id!r} already registered")
        _FACTORIES[family_id] = made


def lookup_extension_factory(family_id: str) -> ExtensionFactory | None:
    """The factory of a family, or None; if it is not known yet, installed packages are asked.

    Raises:
        RegistrationError: what a package offers under the entry-point group is no family.
    """
    with _LOCK:
        found = _known().get(family_id)
    if found is None:
        _discover()
        with _LOCK:
            found = _known().get(family_id)
    return found


def _discover() -> None:
    """Take what installed packages offer: a dataclass, a factory, a list of these, or a function."""
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            offered = point.load()
            for factory in offered if isinstance(offered, list | tuple) else [offered]:
                if isinstance(factory, type) or hasattr(factory, "family_id"):
                    _register_once(factory)
                else:
                    factory()
        except DuplicateFamilyError:
            continue  # because the function has been called before
        except Exception as error:
            if is_interruption(error):
                raise
            raise RegistrationError(
                f"entry point {point.name!r} ({point.value}) of the group {ENTRY_POINTS}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _register_once(factory: Any) -> None:
    with _LOCK:
        known = factory.family_id in _known()
    if not known:
        register_extension(factory)


def registered_families() -> list[str]:
    """The ids of all registered families."""
    with _LOCK:
        return sorted(_known())
