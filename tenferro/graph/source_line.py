"""Source lines: the line of the user's code that created a node."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import CodeType, TracebackType
from typing import NamedTuple

from tenferro.tracebacks import INTERNAL, line_number

__all__ = ["CallerFinder", "SourceLine", "line_of"]


class SourceLine(NamedTuple):
    """A line of a file.

    Attributes:
        function: the name of the function; empty for code outside functions, and for a module's text.
        derivative_of: the name of the op whose derivative created the node; empty for nodes that user code created.

    >>> print(SourceLine("model.py", 12, "loss"))
    model.py:12 in loss
    >>> print(SourceLine("model.py", 12, "loss").of("Sqrt"))
    model.py:12 in loss, in the derivative of Sqrt
    """

    file: str
    line: int
    function: str
    derivative_of: str = ""

    def of(self, op_name: str) -> SourceLine:
        """Return this line, marked as the origin of a node in the derivative of `op_name`.

        An existing `derivative_of` is not replaced.
        """
        if self.derivative_of:
            return self
        return SourceLine(self.file, self.line, self.function, op_name)

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}"
        if self.function:
            location += f" in {self.function}"
        return (
            f"{location}, in the derivative of {self.derivative_of}"
            if self.derivative_of
            else location
        )


@dataclass(slots=True, eq=False)
class CallerFinder:
    """Function that finds the nearest stack frame outside tenferro.

    It caches whether a code object belongs to tenferro.
    """

    _ours: dict[CodeType, bool] = field(default_factory=dict[CodeType, bool], init=False)
    _places: dict[tuple[CodeType, int], SourceLine] = field(
        default_factory=dict[tuple[CodeType, int], SourceLine], init=False
    )

    def __call__(self) -> SourceLine | None:
        """Return the line of the nearest caller outside tenferro; None if all frames belong to tenferro."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # because inspect's are slow
        ours = self._ours
        while frame is not None:
            code = frame.f_code
            internal = ours.get(code)
            if internal is None:
                internal = ours[code] = code.co_filename.startswith(INTERNAL)
            if not internal:
                key = (code, frame.f_lasti)
                line = self._places.get(key)
                if line is None:
                    line = SourceLine(code.co_filename, frame.f_lineno, code.co_name)
                    self._places[key] = line
                return line
            frame = frame.f_back
        return None


def line_of(traceback: TracebackType | None) -> SourceLine | None:
    """Return the line of the last frame of a traceback that is outside tenferro; None if all frames are inside."""
    nearest = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(INTERNAL):
            nearest = SourceLine(code.co_filename, line_number(traceback), code.co_name)
        traceback = traceback.tb_next
    return nearest
