"""Possible outcomes of a decision: each index that may win within rounding, and each count that may result from
comparisons near equality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.facts import Fact, ops_with
from tenferro.ops.elementwise import BitcastConvert, Convert
from tenferro.ops.reduction import ArgMax, ArgReduction, ReduceSum
from tenferro.program import GraphProgram, Instruction, makers, native_executor
from xla_peer.parity.comparison import Alternatives

__all__ = ["CARRIERS", "Choice", "bit_patterns", "choices", "counts_between", "rivals"]

CARRIERS = ops_with(Fact.CARRIES)


@dataclass(frozen=True)
class Choice:
    """An output that is the index of a maximum or minimum, or a count.

    Attributes:
        output: the number of the output.
        op: the op that selects the index or counts.
        operand: the slot from which it selects, or whose elements it adds up.
        carried: the ops between the result and the output, in order.
    """

    output: int
    op: ArgReduction | ReduceSum
    operand: int
    carried: tuple[Any, ...]


def choices(program: GraphProgram) -> list[Choice]:
    """Return the outputs of a program that are indices of extrema, or counts."""
    maker_of = makers(program.instructions)
    chosen: list[Choice] = []
    for number, slot in enumerate(program.output_slots):
        carried: list[Any] = []
        step = maker_of.get(slot)
        while step is not None and _carries(step, program):
            carried.append(step.op)
            step = maker_of.get(step.inputs[0])
        if step is None or not isinstance(step.op, ArgReduction | ReduceSum):
            continue
        if program.types[step.outputs[0]].dtype.is_integer:
            chosen.append(Choice(number, step.op, step.inputs[0], tuple(carried[::-1])))
    return chosen


def _carries(step: Instruction, program: GraphProgram) -> bool:
    if isinstance(step.op, Convert):
        dtypes = (program.types[step.inputs[0]].dtype, step.op.to)
        return all(dtype.is_integer for dtype in dtypes)
    return type(step.op) in CARRIERS


def bit_patterns(program: GraphProgram) -> list[bool]:
    """Return, for each output, whether it is a copy of bits of an integer."""
    maker_of = makers(program.instructions)
    patterns: list[bool] = []
    for slot in program.output_slots:
        step = maker_of.get(slot)
        while step is not None and type(step.op) in CARRIERS:
            step = maker_of.get(step.inputs[0])
        patterns.append(
            step is not None
            and isinstance(step.op, BitcastConvert)
            and not program.types[step.inputs[0]].dtype.is_inexact
        )
    return patterns


def rivals(choice: Choice, keys: Any, limit: Any, output: Any) -> Alternatives:
    """Return the candidates with keys within rounding of the winner's.

    The first of equal keys wins, so a later key is a candidate only if rounding can make it larger than all keys
    before it.

    Args:
        keys: the values that were compared.
        limit: the allowed difference of each key.
        output: the indices in the program's output.
    """
    assert isinstance(choice.op, ArgReduction)
    axis = choice.op.axis
    wide = np.moveaxis(keys.astype(np.float64), axis, -1)
    wide = wide if isinstance(choice.op, ArgMax) else -wide
    limit = np.moveaxis(limit, axis, -1)
    least = np.where(np.isnan(wide), -np.inf, wide - limit)
    before = np.full_like(least, -np.inf)
    before[..., 1:] = np.maximum.accumulate(least, axis=-1)[..., :-1]
    largest = wide + limit
    contends = (largest >= np.max(least, -1, keepdims=True)) & (largest > before)
    contends[np.isnan(wide).any(-1)] = False  # because NaN wins against all other values
    contends[np.count_nonzero(contends, axis=-1) < 2] = False
    candidates = np.broadcast_to(np.arange(wide.shape[-1]), wide.shape)
    planes = [np.where(contends, candidates, -1)[..., i] for i in _used(contends)]
    return _planes(choice, planes, [plane >= 0 for plane in planes], output)


def _used(contends: Any) -> Any:
    (used,) = np.nonzero(contends.reshape(-1, contends.shape[-1]).any(0))
    return used


def counts_between(choice: Choice, terms: Sequence[Any], output: Any) -> Alternatives:
    """Return all counts from the smallest to the largest; each term may have its value from any run."""
    kernel = native_executor().kernel(choice.op)
    low, high = (np.asarray(kernel(choice.op, end(terms))) for end in (_least, _largest))
    widest = int(np.max(high - low, initial=0))
    planes = [low + step for step in range(widest + 1)] if widest else []
    return _planes(choice, planes, [plane <= high for plane in planes], output)


def _least(terms: Sequence[Any]) -> Any:
    return np.minimum.reduce(terms)


def _largest(terms: Sequence[Any]) -> Any:
    return np.maximum.reduce(terms)


def _planes(
    choice: Choice, planes: Sequence[Any], valid: Sequence[Any], output: Any
) -> Alternatives:
    """Apply the ops between a decision and the output to each plane of values, and to their masks."""
    places: list[Any] = [np.zeros(0, np.int64)]
    values: list[Any] = [np.zeros(0, output.dtype)]
    for plane, mask in zip(planes, valid, strict=True):
        (there,) = np.nonzero(_carried(mask, choice.carried).ravel())
        places.append(there)
        values.append(_carried(plane, choice.carried).ravel()[there].astype(output.dtype))
    return Alternatives(np.concatenate(places), np.concatenate(values))


def _carried(x: Any, ops: Sequence[Any]) -> Any:
    for op in ops:
        if not isinstance(op, Convert):
            x = np.asarray(native_executor().kernel(op)(op, x))
    return x
