"""Algebraic clean-up: the result is the same bit for bit, with fewer instructions.

Transposes compose and cancel, reshapes of reshapes are one, conversions through a wider dtype are
direct, and what changes nothing (times one, minus zero, twice negated) is dropped. Adding +0.0 stays,
because it turns -0.0 into 0.0; so does multiplying complex numbers by one, because of infinities.
A few integers and bools that are constants, such as the indices of a window, are computed once.
Arithmetic and comparisons of splats, whose elements are all one constant, are done once, and a choice by
a constant predicate is its branch: derivatives of x^2.5 ask whether 2.5 is zero. A remainder by a positive
constant asks whether what is less than zero is not zero, and whether it is less, unlike the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tenferro.dims import is_static
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.elementwise import (
    COMPARISONS,
    Add,
    And,
    Compare,
    Convert,
    Multiply,
    Negate,
    Not,
    Or,
    Select,
    Subtract,
)
from tenferro.ops.reduction import ReduceAnd
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Concatenate, Reshape, Reverse, Slice, Transpose
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Rule, Values, rewrite
from tenferro.types import DType

__all__ = ["clean_up"]


FEW = 64
"""Elements of constants that are computed here: more than an index has axes."""
STRETCH = 1 << 12
"""Elements that are compared at once."""


def clean_up(program: GraphProgram) -> GraphProgram:
    """The program with every rule of this file applied once, in order."""
    return rewrite(program, RULES)


def splat(producers: Producers, value: int) -> Any:
    """The number that every element of `value` has, by its bits; None where elements differ or are unknown."""
    node = producers.maker(value)
    if node is not None and type(node.op) is BroadcastInDim:
        node = producers.maker(node.inputs[0])
    if node is None or not isinstance(node.op, Constant):
        return None
    elements = node.op.array.ravel()
    if not elements.size:
        return None
    # By bits, and in stretches, because the first ones decide for most arrays.
    bits = elements.view(f"V{elements.itemsize}")
    for start in range(0, elements.size, STRETCH):
        stretch = bits[start : start + STRETCH]
        if stretch.tobytes() != bits[:1].tobytes() * stretch.size:
            return None
    return elements[0]


def is_splat_of(producers: Producers, value: int, number: Any) -> bool:
    """True when every element of `value` is known to have exactly the bits of `number`."""
    element = splat(producers, value)
    return element is not None and element.tobytes() == np.asarray(number, element.dtype).tobytes()


def filled(producers: Producers, number: Any, like: int, source: SourceLine | None) -> Values:
    """A constant in the shape of `like`."""
    (scalar,) = producers.apply(Constant.of(np.asarray(number)), (), source)
    shape = producers.types[like].shape
    return producers.apply(BroadcastInDim(shape, ()), (scalar,), source) if shape else (scalar,)


def of_splats(function: Callable[..., Any]) -> Rule:
    """One number for all elements, where each operand is one.

    Not of complex numbers, whose product may be rounded otherwise in an array than alone. What makes an infinity
    or NaN stays, because `check_finite` names it.
    """

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        numbers = [splat(producers, x) for x in inputs]
        if any([number is None or number.dtype.kind == "c" for number in numbers]):
            return None
        with np.errstate(all="ignore"):
            number = np.asarray(function(op, *numbers))
        if DType.of(number.dtype).is_inexact and not np.isfinite(number):
            return None
        return filled(producers, number, inputs[0], source)

    return rule


def elements_of(producers: Producers, value: int, most: int) -> Any:
    """The elements of a constant, or of a number that is repeated; None where they are not known, or more."""
    spec = producers.types[value]
    if not spec.is_static or spec.size > most:
        return None
    node = producers.of(value, Constant)
    if node is not None:
        return node.op.array  # type: ignore[attr-defined]
    number = splat(producers, value)
    return None if number is None else np.full(spec.shape, number)


def of_few(function: Callable[..., Any]) -> Rule:
    """A constant, where each operand is a small one of integers or bools."""

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        if any([producers.types[x].dtype.is_inexact for x in inputs]):
            return None
        arrays = [elements_of(producers, x, FEW) for x in inputs]
        if any([array is None for array in arrays]):
            return None
        result = np.asarray(function(op, *arrays))
        return producers.apply(Constant.of(result), (), source) if result.size <= FEW else None

    return rule


def first_of(*rules: Rule) -> Rule:
    """The result of the first rule that applies."""

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        for candidate in rules:
            outputs = candidate(producers, op, inputs, source)
            if outputs is not None:
                return outputs
        return None

    return rule


def transpose(
    producers: Producers, op: Transpose, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Transpose of a transpose is one; the identity is none."""
    (x,) = inputs
    inner = producers.of(x, Transpose)
    if inner is not None:
        perm = tuple(inner.op.perm[axis] for axis in op.perm)  # type: ignore[attr-defined]
        op, x = Transpose(perm), inner.inputs[0]
    if op.perm == tuple(range(len(op.perm))):
        return (x,)
    return producers.apply(op, (x,), source) if inner is not None else None


def reshape(
    producers: Producers, op: Reshape, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Reshape of a reshape is one; to the same shape, none."""
    (x,) = inputs
    if not all(is_static(extent) for extent in op.shape):
        return None
    if producers.types[x].shape == op.shape:
        return (x,)
    inner = producers.of(x, Reshape)
    if inner is None:
        return None
    if producers.types[inner.inputs[0]].shape == op.shape:
        return (inner.inputs[0],)
    return producers.apply(op, inner.inputs, source)


def broadcast(
    producers: Producers, op: BroadcastInDim, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Broadcasting to the same shape in the same order is nothing."""
    (x,) = inputs
    same = producers.types[x].shape == op.shape and op.dims == tuple(range(len(op.shape)))
    return (x,) if same else None


def slice_(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Taking everything is nothing."""
    (x,) = inputs
    whole = (
        all(start == 0 for start in op.starts)
        and tuple(op.limits) == producers.types[x].shape
        and all(stride == 1 for stride in op.strides)
    )
    return (x,) if whole else None


def reverse(
    producers: Producers, op: Reverse, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Reversing no axis, or the same ones twice, is nothing."""
    (x,) = inputs
    if not op.axes:
        return (x,)
    inner = producers.of(x, Reverse)
    if inner is not None and set(inner.op.axes) == set(op.axes):  # type: ignore[attr-defined]
        return inner.inputs
    return None


def convert(
    producers: Producers, op: Convert, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Through a dtype that holds every value exactly, conversion is direct."""
    (x,) = inputs
    if producers.types[x].dtype is op.to:
        return (x,)
    inner = producers.of(x, Convert)
    if inner is None:
        return None
    origin = producers.types[inner.inputs[0]].dtype
    if not holds(producers.types[x].dtype, origin):
        return None
    if origin is op.to:
        return inner.inputs
    return producers.apply(op, inner.inputs, source)


def holds(wide: DType, narrow: DType) -> bool:
    """True when each value of `narrow` is a value of `wide`, and converting it onwards is the same.

    Floats to integers saturate and integers to integers wrap, so the kinds must match.
    """
    if wide.kind != narrow.kind or wide.is_bool:
        return False
    if DType.BF16 in (wide, narrow):
        return narrow is DType.BF16 and wide in (DType.F32, DType.F64)
    return wide.itemsize >= narrow.itemsize


def multiply(
    producers: Producers, op: Multiply, inputs: Values, source: SourceLine | None
) -> Values | None:
    """x times one is x, for real x."""
    if producers.types[inputs[0]].dtype.is_complex:
        return None
    for x, factor in (inputs, inputs[::-1]):
        if is_splat_of(producers, factor, 1):
            return (x,)
    return None


def add(producers: Producers, op: Add, inputs: Values, source: SourceLine | None) -> Values | None:
    """x plus zero is x: integer zero, or the float -0.0."""
    dtype = producers.types[inputs[0]].dtype
    zero = -0.0 if dtype.is_float else complex(-0.0, -0.0) if dtype.is_complex else 0
    for x, term in (inputs, inputs[::-1]):
        if is_splat_of(producers, term, zero):
            return (x,)
    return None


def subtract(
    producers: Producers, op: Subtract, inputs: Values, source: SourceLine | None
) -> Values | None:
    """x minus +0 is x."""
    x, term = inputs
    return (x,) if is_splat_of(producers, term, 0) else None


def negate(
    producers: Producers, op: Negate, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Negated twice is x."""
    inner = producers.of(inputs[0], Negate)
    return None if inner is None else inner.inputs


def absorbing(settles: bool) -> Rule:
    """A splat of bool that settles the result, or leaves it to the other operand."""

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        for x, pred in (inputs, inputs[::-1]):
            constant = splat(producers, pred)
            if constant is not None and constant.dtype == bool:
                return (pred,) if constant == settles else (x,)
        return None

    return rule


def of_truth_values(
    producers: Producers, op: Compare, inputs: Values, source: SourceLine | None
) -> Values | None:
    """A truth value that is equal to true, or is not equal to false, is that value."""
    if op.direction not in ("EQ", "NE") or not producers.types[inputs[0]].dtype.is_bool:
        return None
    for x, other in (inputs, inputs[::-1]):
        constant = splat(producers, other)
        if constant is not None and constant == (op.direction == "EQ"):
            return (x,)
    return None


def implied(
    producers: Producers, op: And, inputs: Values, source: SourceLine | None
) -> Values | None:
    """A value less or greater is not equal."""
    for pred, other in (inputs, inputs[::-1]):
        order, apart = producers.of(pred, Compare), producers.of(other, Compare)
        if order is None or apart is None or order.inputs != apart.inputs:
            continue
        signs = order.op.direction, apart.op.direction  # type: ignore[attr-defined]
        if signs in (("LT", "NE"), ("GT", "NE")):
            return (pred,)
    return None


def select(
    producers: Producers, op: Select, inputs: Values, source: SourceLine | None
) -> Values | None:
    """A choice by a constant predicate is its branch."""
    pred, on_true, on_false = inputs
    constant = splat(producers, pred)
    return None if constant is None else (on_true if constant else on_false,)


RULES: Mapping[type[StdTensorOp], Rule] = {
    Transpose: transpose,
    Reshape: first_of(of_few(lambda op, x: x.reshape(op.shape, order="F")), reshape),
    Concatenate: of_few(lambda op, *xs: np.concatenate(xs, op.axis)),
    BroadcastInDim: broadcast,
    Slice: slice_,
    Reverse: reverse,
    Convert: convert,
    Multiply: first_of(multiply, of_splats(lambda op, x, y: np.multiply(x, y))),
    Add: first_of(add, of_splats(lambda op, x, y: np.add(x, y))),
    Subtract: first_of(subtract, of_splats(lambda op, x, y: np.subtract(x, y))),
    Negate: first_of(negate, of_splats(lambda op, x: np.negative(x))),
    Compare: first_of(
        of_truth_values,
        of_splats(lambda op, x, y: COMPARISONS[op.direction](x, y)),
        of_few(lambda op, x, y: COMPARISONS[op.direction](x, y)),
    ),
    Not: of_splats(lambda op, x: np.invert(x)),
    And: first_of(absorbing(False), implied, of_few(lambda op, x, y: x & y)),
    ReduceAnd: of_few(lambda op, x: np.bitwise_and.reduce(x, axis=op.axes)),
    Or: absorbing(True),
    Select: select,
}
