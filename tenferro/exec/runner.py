"""A schedule as a function of arrays: interpreted when it runs first, as printed code from then on.

To print and compile takes longer than the interpreter does once. After more runs, straight lines of the schedule are
compiled by LLVM, which takes longer still; the results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.interpreter import interpret, located
from tenferro.exec.printer import Printed
from tenferro.exec.schedule import ExecProgram

__all__ = ["Runner"]


class Runner:
    """Runs a schedule, in whatever state NumPy is.

    Args:
        prints: whether later runs are by printed code, and by what the schedule becomes; the results are the same.
    """

    __slots__ = ("_code", "_has_run", "_left", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._code: Printed | None = None
        self._left = 0  # runs until the schedule changes; 0 if it does not

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """The results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        code = self._code
        if code is None:
            if not (self._prints and self._has_run):
                return self._first(leaves)
            code = self._printed(leaves)
        elif self._left:
            self._left -= 1
            if not self._left:
                code = self._change(leaves)
        try:
            return code.run(*leaves)
        except Exception as error:
            step = code.failed(error.__traceback__)
            laid = error if step is None else located(step, error)
            if laid is error:
                raise
            raise laid from error

    def _first(self, leaves: Sequence[Any]) -> list[Any]:
        program = self.program
        if self._prints and program.later is not None and program.later.always:
            program = self.program = program.later.straightened(program, leaves)
        self._has_run = True
        return interpret(program, leaves)

    def _printed(self, leaves: Sequence[Any]) -> Printed:
        program = self.program
        runs = 0 if program.later is None else program.later.after(program, leaves)
        self._left = max(1, runs - 1) if runs else 0  # because this run is the second
        code = self._code = Printed(program)
        return code

    def _change(self, leaves: Sequence[Any]) -> Printed:
        program = self.program
        if program.later is not None:  # or another thread has changed it since this one counted
            program = self.program = program.later.straightened(program, leaves)
        code = self._code = Printed(program)
        return code
