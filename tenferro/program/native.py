"""The native executor that `program.run` uses.

This package cannot import executors, because they import this package. Therefore the package `tenferro` installs the
function that creates an executor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tenferro.compilations import until_compiled
from tenferro.errors import UnsupportedError
from tenferro.ops import StdTensorOp

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = [
    "Executor",
    "install_native_executor",
    "native_executor",
    "native_run",
    "new_native_executor",
]


class Executor(Protocol):
    """Interface of an executor, which runs programs, and single ops on arrays."""

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """Run a program on arrays; return its results as the tree that the traced function returned."""
        ...

    def apply(self, op: StdTensorOp, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of one op on arrays."""
        ...


_makers: list[Callable[[str], Executor]] = []
_shared: list[Executor] = []
_LOCK = threading.RLock()  # because signal handlers may run programs


def install_native_executor(make: Callable[[str], Executor]) -> None:
    """Set the function that creates native executors.

    Its argument is the argument `compiled` of `new_native_executor`.
    """
    _makers[:] = [make]
    _shared.clear()


def new_native_executor(compiled: str) -> Executor:
    """Return a native executor with separate caches.

    Args:
        compiled: "jit" compiles blocks of steps on small values before the first run; "loops" compiles no such blocks.

    Raises:
        UnsupportedError: no executor is installed.
    """
    if not _makers:
        raise UnsupportedError("no native executor is installed; import tenferro")
    with until_compiled():
        return _makers[0](compiled)


def native_executor() -> Any:
    """Return the shared native executor of `program.run`.

    Raises:
        UnsupportedError: no executor is installed.
    """
    if not _shared:
        with until_compiled(), _LOCK:  # because the first use imports the executor
            if not _shared:  # because another thread may have created it meanwhile
                _shared.append(new_native_executor("loops"))
    return _shared[0]


def native_run(program: GraphProgram, arrays: tuple[Any, ...]) -> Any:
    """Run a program on the shared native executor."""
    return native_executor().run(program, *arrays)
