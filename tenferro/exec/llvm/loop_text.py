"""The text of a loop, with the facts for its callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tenferro.exec.llvm.first_call import Work

__all__ = ["LoopText"]


class LoopText(NamedTuple):
    """A loop, or a strip of it, as LLVM's text.

    Attributes:
        text: of a function of operands, results, constants and scratch, and of a last number: after how many parts a while
            loop is left, or the first index of a strip.
        constants: large ones.
        scratch: bytes.
        work: of a call, if that is known.
        largest_call: instructions of the largest call of BLAS or LAPACK, by estimate.
    """

    text: str
    constants: Sequence[Any]
    scratch: int
    work: Work | None
    largest_call: int
