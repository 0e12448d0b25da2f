"""Reads and writes of a window at numbers, by subscription: gathers, scatters and dynamic slices with one start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tenferro.exec.expression import Change, Expression
from tenferro.exec.plan.ranges import Range
from tenferro.exec.schedule import ExecInstruction
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice
from tenferro.types import DType, TensorSpec

__all__ = ["Components", "change", "element_at", "read"]

Components = dict[int, Any]
"""Of a row of integers the slots of its elements; of a known one tuples of each."""
CHANGES = {"set": "=", "add": "+=", "multiply": "*="}
"""The statement of a combiner."""


class Values(Protocol):
    """Facts about values."""

    types: list[TensorSpec]
    ranges: dict[int, Range]
    indices: set[int]

    def literal(self, slot: int) -> str | None:
        """Python's literal of a value that is known."""
        ...

    def is_read_directly(self, slot: int) -> bool:
        """Whether all readers give the same bits wherever in memory the value's elements lie."""
        ...

    def elements(self, slot: int) -> Any:
        """The slots of the elements of a row of integers; tuples of each where they are known."""
        ...


def clamped(start: Any, last: int) -> int:
    """The start moved to where the window fits.

    >>> clamped(np.int64(-2), 5), clamped(np.int64(9), 5)
    (0, 5)
    """
    return min(max(int(start), 0), last)


def window(start: Any, last: int, size: int) -> slice:
    """The window moved to where it fits."""
    first = min(max(int(start), 0), last)
    return slice(first, first + size)


def element_at(subscript: str, dtype: DType) -> str:
    """The text of an element of {0}; one of float64 is Python's number.

    >>> element_at("2, 3", DType.F64), element_at("2, 3", DType.F32)
    ('{0}.item(2, 3)', '{0}[2, 3]')
    """
    return f"{{0}}.item({subscript})" if dtype is DType.F64 else f"{{0}}[{subscript}]"


class _Key:
    """Writes the key of a window.

    Attributes:
        slots: the operands of the text.
        checks: what holds if the window fits.
    """

    def __init__(self, values: Values, slots: Sequence[int]) -> None:
        self.values, self.slots = values, list(slots)
        self.checks: list[str] = []

    def name(self, slot: int) -> str:
        """Of an operand in the text."""
        if slot not in self.slots:
            self.slots.append(slot)
        return f"{{{self.slots.index(slot)}}}"

    def fits(self, start: Any, last: int) -> bool:
        """Whether the window is known to fit."""
        interval = (start[0],) * 2 if isinstance(start, tuple) else self.values.ranges.get(start)
        return interval is not None and interval[0] >= 0 and interval[1] <= last

    def first(self, start: Any) -> str:
        """The start as text."""
        if isinstance(start, tuple):
            return str(start[0])
        literal = self.values.literal(start)
        if literal is not None:
            return literal
        is_wide = start in self.values.indices or self.values.types[start].dtype is DType.I64
        return self.name(start) if is_wide else f"int({self.name(start)})"

    def axis(self, start: Any, extent: int, size: int, is_kept: bool, clamps: bool) -> str:
        """The key of an axis; `start` is a slot, a tuple of a known integer, or None for 0."""
        last = extent - size
        if start is None or (last == 0 and clamps):
            return "0" if not is_kept else f":{size}" if last else ":"
        first = self.first(start)
        if self.fits(start, last):
            if not is_kept:
                return first
            return f"{first}:{first} + {size}"
        if not clamps:
            self.checks.append(f"0 <= {first} <= {last}")
            return first if not is_kept else f"{first}:{first} + {size}"
        if is_kept:
            return f"{{window}}({first}, {last}, {size})"
        return f"{first} if 0 <= {first} <= {last} else {{clamped}}({first}, {last})"


def _starts(values: Values, indices: int, vector_axis: int) -> list[Any] | None:
    """The slots of the start's elements, for a start that is one; None for others."""
    spec = values.types[indices]
    if not spec.dtype.is_integer:
        return None
    if not spec.rank:
        return [indices] if vector_axis == 0 else None
    if spec.rank != 1 or vector_axis != 0:
        return None
    return values.elements(indices)


def read(values: Values, step: ExecInstruction) -> ExecInstruction | None:
    """A gather of one window, or a dynamic slice; None where there is no text for it."""
    op: Any = step.op
    x, *rest = step.input_slots
    spec = values.types[x]
    (y,) = step.output_slots
    key = _Key(values, [x])
    if isinstance(op, DynamicSlice):
        sizes: Sequence[int] = op.resolved("sizes", (spec.shape,))
        starts = dict(enumerate(rest))
        dropped: set[int] = set()
    else:
        first = _starts(values, rest[0], op.index_vector_dim)
        if first is None or op.operand_batching_dims:
            return None
        sizes = op.resolved("slice_sizes", (spec.shape, values.types[rest[0]].shape))
        starts = dict(zip(op.start_index_map, first, strict=True))
        dropped = set(op.collapsed_slice_dims)
    if 0 in sizes:
        return None
    text = ", ".join([
        key.axis(starts.get(axis), spec.shape[axis], sizes[axis], axis not in dropped, clamps=True)
        for axis in range(spec.rank)
    ])  # fmt: skip
    named: dict[str, Any] = {"window": window, "clamped": clamped}
    used = {name: value for name, value in named.items() if f"{{{name}}}" in text}
    if not spec.rank:
        return None
    if not values.types[y].shape:
        return step._replace(
            function=Expression(element_at(text, spec.dtype), used), input_slots=tuple(key.slots)
        )
    as_it_lies = isinstance(op, DynamicSlice) or values.is_read_directly(y)
    if as_it_lies:
        function = Expression(f"{{0}}[{text}]", used, is_view=True)
    else:
        used["contiguous"] = np.ascontiguousarray
        function = Expression(f"{{contiguous}}({{0}}[{text}])", used, is_view=True)
    return step._replace(function=function, input_slots=tuple(key.slots))


def change(values: Values, step: ExecInstruction) -> ExecInstruction | None:
    """A scatter of one window, or a dynamic update; None where there is no text for it."""
    op: Any = step.op
    spec = values.types[step.input_slots[0]]
    if not spec.rank:
        return None
    if isinstance(op, DynamicUpdateSlice):
        x, update, *rest = step.input_slots
        sizes = list(values.types[update].shape)
        starts: dict[int, Any] = dict(enumerate(rest))
        dropped: set[int] = set()
        sign, order, clamps = "=", "K", True
    else:
        x, indices, update = step.input_slots
        first = _starts(values, indices, op.index_vector_dim)
        shape = values.types[update].shape
        if (
            first is None
            or op.input_batching_dims
            or op.combiner not in CHANGES
            or len(op.update_window_dims) != len(shape)
            or (op.combiner != "set" and spec.dtype.is_bool)
        ):
            return None
        starts = dict(zip(op.scatter_dims_to_operand_dims, first, strict=True))
        dropped = set(op.inserted_window_dims)
        extents = iter(shape)
        sizes = [1 if axis in dropped else next(extents) for axis in range(spec.rank)]
        sign, order, clamps = CHANGES[op.combiner], "C", False
    if 0 in sizes:
        return None
    key = _Key(values, [x, update])
    text = ", ".join([
        key.axis(starts.get(axis), spec.shape[axis], sizes[axis], axis not in dropped, clamps)
        for axis in range(spec.rank)
    ])  # fmt: skip
    used = {"window": window} if "{window}" in text else {}
    statement = f"{{0}}[{text}] {sign} {{1}}"
    if key.checks:
        statement = f"if {' and '.join(key.checks)}: {statement}"
    return step._replace(function=Change(statement, used, order), input_slots=tuple(key.slots))
