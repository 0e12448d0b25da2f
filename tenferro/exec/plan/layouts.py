"""Layouts: which values of a schedule NumPy lays row by row, by what kernels make of zeros."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.types import TensorSpec

__all__ = ["Layouts", "layouts_of"]


class Layouts(NamedTuple):
    """Slots whose arrays have no gaps.

    rows:    row-major ones
    orders:  others, and their axes from the one along which neighbours are farthest apart
    apart:   vectors of one element whose step is not its size, to which NumPy's functions go by another loop
    """

    rows: frozenset[int]
    orders: Mapping[int, tuple[int, ...]]
    apart: frozenset[int]


def layouts_of(
    program: ExecProgram,
    is_tried: Callable[[ExecInstruction], bool],
    inputs: Sequence[Any] = (),
) -> Layouts:
    """The layouts of all slots, if the results of steps that are not tried are row-major.

    Args:
        is_tried: whether a step's kernel may be called, which takes as long as it does in a run.
        inputs: arrays that lie as those of the program do; row-major ones without any.
    """
    arrays = {slot: np.asarray(x) for slot, x in program.constants.items()}
    leaves = zip(program.input_slots, map(np.asarray, inputs), strict=False)
    arrays |= {slot: x for slot, x in leaves if not x.flags.c_contiguous or _is_apart(x)}
    others = {slot for slot, x in arrays.items() if not x.flags.c_contiguous}
    zeros: dict[tuple[TensorSpec, int], Any] = {}

    def operands_of(step: ExecInstruction) -> list[Any]:
        """Arrays that lie as the operands; of different slots different ones, because kernels tell these apart."""
        numbers = {slot: number for number, slot in enumerate(dict.fromkeys(step.input_slots))}
        operands = list[Any]()
        for slot in step.input_slots:
            spec = program.types[slot]
            key = spec, numbers[slot]
            if slot not in arrays and key not in zeros:
                zeros[key] = np.zeros(spec.shape, spec.dtype.dtype)
            operands.append(arrays[slot] if slot in arrays else zeros[key])
        return operands

    with numpy_state():
        for step in program.instructions:
            if not is_tried(step) or _is_plain(step, program.types, others):
                continue
            results = _results(step, operands_of(step))
            for slot, y in zip(step.output_slots, results, strict=True):
                if y is None or not y.flags.c_contiguous:
                    others.add(slot)
                if y is not None and (slot in others or _is_apart(y)):
                    arrays[slot] = y
    apart = [slot for slot, x in arrays.items() if _is_apart(x)]
    axes = {slot: _axes_in_memory(arrays[slot]) for slot in others & arrays.keys()}
    orders = {slot: order for slot, order in axes.items() if order is not None}
    return Layouts(frozenset(range(program.n_slots)) - others, orders, frozenset(apart))


def _axes_in_memory(x: Any) -> tuple[int, ...] | None:
    """The order of axes in which an array is row-major, if there is one."""
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    return tuple(order) if x.transpose(order).flags.c_contiguous else None


def _is_plain(step: ExecInstruction, types: Sequence[TensorSpec], others: Collection[int]) -> bool:
    """Whether the result of a ufunc lies as its operands do, row by row."""
    (y, *_) = step.output_types
    return step.is_ufunc and all([
        types[slot].size == 1 or (types[slot].shape == y.shape and slot not in others)
        for slot in step.input_slots
    ])  # fmt: skip


def _is_apart(x: Any) -> bool:
    return x.shape == (1,) and x.strides != (x.itemsize,)


def _results(step: ExecInstruction, operands: Sequence[Any]) -> Sequence[Any]:
    """Arrays that lie as the results of a step do; None where a kernel refuses zeros."""
    if step.under is not None:
        return [operands[step.input_slots.index(step.under)]]
    try:
        result = step.function(*operands)
    except Exception:  # because only a run tells whose mistake it is
        return [None] * len(step.output_slots)
    return [np.asarray(y) for y in ((result,) if len(step.output_slots) == 1 else result)]
