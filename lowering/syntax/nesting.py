"""A limit on the nesting depth of brackets."""

from __future__ import annotations

import re

import numpy as np

from tenferro.errors import InvalidConfigError

__all__ = ["DEEPEST", "require_shallow"]

DEEPEST = 256
"""Maximum nesting depth of brackets; the parser recurses once per level, so deeper text could overflow the stack."""


STRING_OR_COMMENT = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|//[^\n]*')
"""Pattern of a string or a comment.

One pattern matches both, because a string may contain `//`, and a comment may contain quotes.

The quantifiers are possessive, so that matching a string of many megabytes needs no memory.
"""


def require_shallow(text: str) -> None:
    """Raise `InvalidConfigError` if brackets are nested more deeply than `DEEPEST`, except in strings and comments."""
    letters = np.frombuffer(STRING_OR_COMMENT.sub("", text).encode(), np.uint8)
    for opening, closing in ("()", "[]", "{}", "<>"):
        steps = (letters == ord(opening)).astype(np.int8)
        ends = letters == ord(closing)
        if closing == ">":
            ends[1:] &= letters[:-1] != ord("-")
        steps -= ends
        if letters.size and np.cumsum(steps, dtype=np.int64).max() > DEEPEST:
            raise InvalidConfigError(
                f"the module nests {opening}{closing} more than {DEEPEST} deep, which no program needs"
            )
