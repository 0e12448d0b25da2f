"""A schedule as a function of arrays: interpreted when it runs first, as printed code from then on.

To print and compile takes longer than the interpreter does once. The results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.interpreter import interpret, located
from tenferro.exec.printer import Printed
from tenferro.exec.schedule import ExecProgram

__all__ = ["Runner"]


class Runner:
    """Runner of a schedule, in any state of NumPy.

    Args:
        prints: whether later runs are by printed code; the results are the same.
    """

    __slots__ = ("_code", "_has_run", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._code: Printed | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        code = self._code
        if code is None:
            if not (self._prints and self._has_run):
                self._has_run = True
                return interpret(self.program, leaves)
            code = self._code = Printed(self.program)
        try:
            return code.run(*leaves)
        except Exception as error:
            step = code.failed(error.__traceback__)
            laid = error if step is None else located(step, error)
            if laid is error:
                raise
            raise laid from error
