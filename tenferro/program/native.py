"""The native executor that `program.run` uses.

Programs are below executors and cannot name one; the package's top floor installs it on import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tenferro.errors import UnsupportedError
from tenferro.ops import StdTensorOp

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["Executor", "install_native_executor", "native_executor", "native_run"]


class Executor(Protocol):
    """An executor of programs, and of ops on arrays outside of programs."""

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """The tree the program's function returns."""
        ...

    def apply(self, op: StdTensorOp, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of one op on arrays."""
        ...


_installed: list[Executor] = []


def install_native_executor(executor: Executor) -> None:
    """Set the executor of `program.run`."""
    _installed[:] = [executor]


def native_executor() -> Any:
    """The installed executor.

    Raises:
        UnsupportedError: there is none.
    """
    if not _installed:
        raise UnsupportedError("no native executor is installed; import tenferro")
    return _installed[0]


def native_run(program: GraphProgram, arrays: tuple[Any, ...]) -> Any:
    """Run on the installed executor."""
    return native_executor().run(program, *arrays)
