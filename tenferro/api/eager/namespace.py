"""Array API namespace of an eager runtime. The method `__array_namespace__()` of its tensors returns it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Unpack

import tenferro
from tenferro.api import calculus, creation
from tenferro.types import UfuncOptions

__all__ = ["EagerNamespace"]

_CREATED = (
    "arange", "array", "asarray", "empty", "eye", "from_dlpack", "full", "identity", "linspace", "ones", "tri",
    "zeros",
)  # fmt: skip
_PROGRESSIONS = ("geomspace", "logspace")
_FREQUENCIES = ("fftfreq", "rfftfreq")


class EagerNamespace(ModuleType):
    """Module with the functions of `tenferro`, in which creation functions return tensors of one runtime.

    Libraries written for the Array API standard ask an array for its namespace, and create arrays by the functions of
    that namespace. The functions here create tensors of the same runtime as that array.

    >>> rt = tenferro.EagerRuntime()
    >>> xp = rt.namespace
    >>> xp.linspace(0, 1, 3) + xp.ones(3)
    EagerTensor([1. , 1.5, 2. ])

    Source: Array API standard 2024.12, `__array_namespace__`.
    """

    def __init__(self, runtime: Any) -> None:
        super().__init__("tenferro", tenferro.__doc__)
        self.__path__ = list(tenferro.__path__)
        self.__all__ = list(tenferro.__all__)
        for name in _CREATED:
            setattr(self, name, _created(getattr(creation, name), runtime))
        for name in _PROGRESSIONS:
            setattr(self, name, _created(getattr(calculus, name), runtime))
        self.fft = ModuleType("tenferro.fft", tenferro.fft.__doc__)
        self.fft.__dict__.update(
            {name: getattr(tenferro.fft, name) for name in tenferro.fft.__all__}
        )
        for name in _FREQUENCIES:
            setattr(self.fft, name, _created(getattr(tenferro.fft, name), runtime))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of `tenferro` that the namespace does not replace."""
        return getattr(tenferro, name)

    def __dir__(self) -> list[str]:
        return dir(tenferro)


def _created(function: Callable[..., Any], runtime: Any) -> Any:
    """Wrap a creation function so that it returns tensors of the runtime."""

    @functools.wraps(function)
    def of_runtime(*args: Any, **options: Unpack[UfuncOptions]) -> Any:
        return function(*args, like=runtime, **options)

    return of_runtime
