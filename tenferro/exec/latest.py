"""Types of a program's last arguments: if the next arguments have the same types, their schedule is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.layout import Axes, by_stride
from tenferro.exec.schedule import ExecProgram
from tenferro.program import GraphProgram

__all__ = ["Compiled", "Latest", "axes_of"]


def axes_of(arrays: Sequence[Any]) -> tuple[Axes | None, ...]:
    """Return the layout of each array: the order of its axes in memory, or None if it is row-major or has gaps.

    >>> axes_of([np.zeros((2, 3)), np.zeros((2, 3), order="F"), np.zeros((2, 3, 4)).transpose(1, 0, 2)])
    (None, (1, 0), (1, 0, 2))
    """
    return tuple([_axes(x) if isinstance(x, np.ndarray) else None for x in arrays])


def _axes(x: np.ndarray[Any, Any]) -> Axes | None:
    if x.flags.c_contiguous:
        return None
    axes = tuple(reversed(range(x.ndim))) if x.flags.f_contiguous else by_stride(x.strides)
    return axes if x.transpose(axes).flags.c_contiguous else None


class Compiled(NamedTuple):
    """Pair of a schedule and the function that runs it."""

    schedule: ExecProgram
    run: Callable[[Sequence[Any]], list[Any]]


class Latest(NamedTuple):
    """Types and layouts of a program's last arguments, which are arrays and NumPy scalars, and their schedule.

    Attributes:
        program: the program, which is referenced so that no other object gets its `id`.
        types: the class, shape and dtype of each argument.
        has_scalars: whether an argument is a NumPy scalar.
        matrices: for each argument of rank 2 or more, its position, and whether it is row-major and column-major;
            empty if the schedule does not depend on layouts.
    """

    program: GraphProgram
    types: list[tuple[type, tuple[int, ...], Any]]
    compiled: Compiled
    has_scalars: bool
    matrices: list[tuple[int, tuple[bool, bool]]]

    @classmethod
    def from_arguments(
        cls, program: GraphProgram, arrays: Sequence[Any], compiled: Compiled, has_layouts: bool
    ) -> Latest | None:
        """Return the types of these arguments, or None.

        The result is None if an argument is neither an array nor a NumPy scalar, or if the program takes extents as
        arguments.

        Args:
            has_layouts: whether the schedule depends on the layout of the arguments.
        """
        if program.takes_extents:
            return None
        if not all([type(x) is np.ndarray or isinstance(x, np.generic) for x in arrays]):
            return None
        has_scalars = any([isinstance(x, np.generic) for x in arrays])
        types = [(type(x), x.shape, x.dtype) for x in arrays]
        matrices = [
            (number, (x.flags.c_contiguous, x.flags.f_contiguous))
            for number, x in enumerate(arrays)
            if has_layouts and x.ndim > 1
        ]
        return cls(program, types, compiled, has_scalars, matrices)

    def leaves(self, arrays: Sequence[Any]) -> Sequence[Any] | None:
        """Return the arguments as arrays if they have the types and layouts of the last arguments, else None."""
        if len(arrays) != len(self.types):
            return None
        for x, (kind, shape, dtype) in zip(arrays, self.types):  # noqa: B905  # because the lengths are equal
            if type(x) is not kind or x.shape != shape or x.dtype != dtype:
                return None
        for number, (by_rows, by_columns) in self.matrices:
            flags = arrays[number].flags
            if flags.c_contiguous != by_rows or flags.f_contiguous != by_columns:
                return None
        return list(map(np.asarray, arrays)) if self.has_scalars else arrays
