"""A schedule as a function of arrays: interpreted when it runs first, as printed code from then on.

To print and compile takes longer than the interpreter does once. The results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.interpreter import interpret, located
from tenferro.exec.printer import failed_step, printed
from tenferro.exec.schedule import ExecProgram

__all__ = ["Runner"]


class Runner:
    """Runner of a schedule, in any state of NumPy.

    Args:
        prints: whether later runs are by printed code; the results are the same.
    """

    __slots__ = ("_function", "_has_run", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._function: Callable[..., list[Any]] | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        if self._function is None:
            if not (self._prints and self._has_run):
                self._has_run = True
                return interpret(self.program, leaves)
            self._function = printed(self.program)
        size = self.program.memory.size
        arena = (self.program.resources.memory.acquire(size),) if size else ()
        try:
            return self._function(*arena, *leaves)
        except Exception as error:
            step = failed_step(self.program, error.__traceback__)
            laid = error if step is None else located(step, error)
            if laid is error:
                raise
            raise laid from error
        finally:
            if arena:
                self.program.resources.memory.release(*arena)
