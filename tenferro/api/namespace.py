"""The namespace of functions on tensors, and NumPy's functions on them.

Tensor classes cannot import either, because both are built on tensor classes; the package installs them here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

__all__ = ["Namespace", "NumPyFunctions", "install_namespace", "namespace"]


class NumPyFunctions(Protocol):
    """Counterparts of NumPy's functions, for its two protocols."""

    def call_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Return the result of a ufunc's counterpart."""
        ...

    def call_function(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Return the result of a function's counterpart."""
        ...


@dataclass(frozen=True, slots=True)
class Namespace:
    """The module of functions on tensors, and a function that imports NumPy's counterparts."""

    module: ModuleType
    numpy_functions: Callable[[], NumPyFunctions]


_installed: list[Namespace] = []


def install_namespace(installed: Namespace) -> None:
    """Set the namespace of every tensor class."""
    _installed[:] = [installed]


def namespace() -> Namespace:
    """Return the installed namespace.

    >>> namespace().module.__name__
    'tenferro'
    """
    return _installed[0]
