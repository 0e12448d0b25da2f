"""Access for tensor classes to the module `tenferro`, and to the counterparts of NumPy's functions.

Tensor classes cannot import these modules, because these modules import tensor classes. Therefore the package installs
the modules here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

__all__ = ["Namespace", "NumPyFunctions", "install_namespace", "namespace"]


class NumPyFunctions(Protocol):
    """Counterparts of NumPy's functions, as NumPy's protocols `__array_ufunc__` and `__array_function__` call them."""

    def call_ufunc(
        self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Call the counterpart of a ufunc or of its method, and return the result."""
        ...

    def call_function(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Call the counterpart of a function that is not a ufunc, and return the result."""
        ...


@dataclass(frozen=True, slots=True)
class Namespace:
    """Module of functions on tensors, and a function that imports the counterparts of NumPy's functions."""

    module: ModuleType
    numpy_functions: Callable[[], NumPyFunctions]


_installed: list[Namespace] = []


def install_namespace(installed: Namespace) -> None:
    """Set the namespace that all tensor classes use."""
    _installed[:] = [installed]


def namespace() -> Namespace:
    """Return the installed namespace.

    >>> namespace().module.__name__
    'tenferro'
    """
    return _installed[0]
