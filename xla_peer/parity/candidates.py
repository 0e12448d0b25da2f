"""Alternative values of outputs that are indices or counts.

An index of an extremum has as alternatives the indices of elements that may be the extremum within rounding. A count
has as alternatives the counts that result if comparisons near equality flip.
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
        output: the index of the output in the program.
        op: the op that selects the index, or adds up the count.
        operand: the slot of the op's operand.
        carried: the ops that move or convert the result of `op` before it is the output, in order.
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
    """Return, for each output, whether it is a float that `BitcastConvert` made from the bits of an integer.

    Such a float must have the same bits on both paths, even if it is subnormal.
    """
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
    """Return the alternative indices of a maximum or minimum: indices of elements within rounding of the extremum.

    The first of equal keys wins, so a later key is a candidate only if rounding can make it larger than all keys
    before it.

    Args:
        choice: the op that selected the indices.
        keys: the operand of the op, whose elements are compared.
        limit: the allowed difference of each key.
        output: the program's output with the selected indices.
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
    """Return the alternative counts: all integers from the smallest to the largest possible sum.

    Args:
        terms: the terms of the sum in each run. Each term may have the value of any run, independently of other terms.
    """
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
    """Return alternatives of an output, from arrays of alternative results of the op that decides.

    Args:
        choice: the decision. Its ops `carried`, between the decision and the output, are applied to the arrays.
        planes: arrays of the shape of the op's result, with one alternative for each element.
        valid: for each plane, a mask of the elements that have this alternative.
        output: the program's output.
    """
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
