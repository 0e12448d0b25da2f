"""Splitting of MLIR's text into tokens by one regular expression.

A tensor type without nested brackets is one token, and a literal such as `dense<..>` is one token. Most of a module's
text consists of such long tokens, and equal tokens are parsed only once.

Source: MLIR language reference, "Notation" and "Common syntax".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from lowering.mlir_bindings import MlirDiagnosticError
from lowering.syntax.nesting import require_shallow

__all__ = ["END", "Tokens"]

END = ""
"""Token after the last token of the text."""

_TOKEN = re.compile(
    r"\s*+(?://[^\n]*+\s*+)*+"
    r"("
    r"\{-\#|\#-\}"
    r'|@?"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
    r"|%(?:[0-9]++|[A-Za-z_$.\-][\w$.\-]*+)(?:\#[0-9]++)?"
    r"|tensor<[^<>\"!#]*(?:complex<[^<>\"]*>)?>"
    r'|(?:array|dense)<[^<>"!#]*>'
    r'|dense<"[^"]*">'
    r"|[\^@#!][A-Za-z_$.\-][\w$.\-]*+"
    r"|[\^\#][0-9]++"
    r"|0x[0-9A-Fa-f]++"
    r"|-?[0-9]++(?:\.[0-9]*+(?:[eE][-+]?[0-9]++)?)?+"
    r"|[A-Za-z_][\w$.]*+"
    r"|->|::"
    r"|\S"
    r"|\Z)",
    re.ASCII,
)


class Tokens:
    """The tokens of a text; the last token is `END`.

    Raises:
        MlirDiagnosticError: the text cannot be encoded as UTF-8.
        InvalidConfigError: brackets are nested more deeply than the parser allows.
    """

    def __init__(self, text: str) -> None:
        try:
            require_shallow(text)
        except UnicodeEncodeError as error:
            raise MlirDiagnosticError([(f"the text is not UTF-8: {error}", "text")]) from None
        self.text = text
        self.words: list[str] = _TOKEN.findall(text)
        if (
            not self.words or self.words[-1] != END
        ):  # the pattern also matches an empty token at the end of the text
            self.words.append(END)

    @cached_property
    def offsets(self) -> list[int]:
        """The offset of each token in the text.

        The offsets are computed at the first use, because they are not needed if all operations have locations.
        """
        return [*[match.start(1) for match in _TOKEN.finditer(self.text)], len(self.text)]

    @cached_property
    def _lines(self) -> list[int]:
        """The offset of each line in the text."""
        return [0, *[match.end() for match in re.finditer("\n", self.text)]]

    def place(self, index: int) -> tuple[int, int]:
        """Return the line and column of a token, counted from one."""
        offset = self.offsets[min(index, len(self.offsets) - 1)]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def location(self, index: int) -> str:
        """Return the position of a token as MLIR prints it."""
        line, column = self.place(index)
        return f'"-":{line}:{column}'

    def error(self, message: str, index: int) -> MlirDiagnosticError:
        """Create an error at a token."""
        return MlirDiagnosticError([(message, self.location(index))])
