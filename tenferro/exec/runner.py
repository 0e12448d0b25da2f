"""A schedule as a function of arrays: interpreted when it runs first, as printed code from then on.

To print and compile takes longer than the interpreter does once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.interpreter import interpret, located
from tenferro.exec.printer import Printed, printed
from tenferro.exec.schedule import ExecProgram

__all__ = ["Runner"]


class Runner:
    """Runs a schedule, in whatever state NumPy is.

    Args:
        prints: whether later runs are by printed code; the results are the same.
    """

    __slots__ = ("_code", "_function", "_has_run", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._code: Printed | None = None
        self._function: Callable[..., list[Any]] | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """The results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        function = self._function
        if function is None:
            if not (self._prints and self._has_run):
                self._has_run = True
                return interpret(self.program, leaves)
            function = self._print()
        try:
            return function(*leaves)
        except Exception as error:
            laid = self._located(error)
            if laid is error:
                raise
            raise laid from error

    def _print(self) -> Callable[..., list[Any]]:
        """The printed code, as a function of the leaves."""
        code = self._code = printed(self.program)
        whole = len(code.functions) == 1 and not self.program.memory.size
        self._function = code.functions[0] if whole else self._in_arena
        return self._function

    def _in_arena(self, *leaves: Any) -> list[Any]:
        """Run the code with a piece of memory of its own."""
        code: Any = self._code
        memory, size = self.program.resources.memory, self.program.memory.size
        arena = memory.take(size) if size else None
        try:
            return code(leaves, arena)
        finally:
            if arena is not None:
                memory.give(arena)

    def _located(self, error: Exception) -> Exception:
        """What was raised, with op and line of the step."""
        step = None if self._code is None else self._code.failed(error.__traceback__)
        return error if step is None else located(step, error)
