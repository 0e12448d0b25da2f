"""The last arguments of a program: comparing with them is cheaper than checking arguments again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.schedule import ExecProgram
from tenferro.program import GraphProgram

__all__ = ["Compiled", "Latest"]


class Compiled(NamedTuple):
    """A schedule, and the function that runs it."""

    schedule: ExecProgram
    run: Callable[[Sequence[Any]], list[Any]]


class Latest(NamedTuple):
    """Shapes and dtypes of a program's last arguments, each an array or NumPy scalar.

    Attributes:
        program: is kept alive, so that its number stays its own.
    """

    program: GraphProgram
    types: list[tuple[type, tuple[int, ...], Any]]
    compiled: Compiled
    has_scalars: bool

    @classmethod
    def of(cls, program: GraphProgram, arrays: Sequence[Any], compiled: Compiled) -> Latest | None:
        """Of these arguments; None where one is neither."""
        has_scalars = not all([type(x) is np.ndarray for x in arrays])
        if has_scalars and not all(
            [type(x) is np.ndarray or isinstance(x, np.generic) for x in arrays]
        ):
            return None
        return cls(program, [(type(x), x.shape, x.dtype) for x in arrays], compiled, has_scalars)

    def leaves(self, arrays: Sequence[Any]) -> Sequence[Any] | None:
        """The arguments as arrays, if they are of these types."""
        if len(arrays) != len(self.types):
            return None
        for x, (kind, shape, dtype) in zip(arrays, self.types):  # noqa: B905  # because the lengths are equal
            if type(x) is not kind or x.shape != shape or x.dtype != dtype:
                return None
        return list(map(np.asarray, arrays)) if self.has_scalars else arrays
