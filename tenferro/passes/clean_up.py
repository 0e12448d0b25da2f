"""Algebraic simplification and constant folding.

Law: the bits of results do not change.

Consecutive transposes and consecutive reshapes are merged, and conversions through a wider dtype become direct.
Operations that return their operand are removed: multiplication by one, subtraction of zero, and double negation. Two
similar operations are not removed. The sum x + 0.0 changes -0.0 to 0.0, and the product of a complex number and one
changes infinities.

Ops on small constants of integers or bools, such as indices of a window, are folded. Arithmetic and comparisons of
splats, which are constants whose elements are all equal, are also folded. A select with a constant predicate is
replaced by the selected operand; for example, the derivative of x^2.5 compares 2.5 to zero. Redundant comparisons are
removed, for example `x != y` if `x < y` is also required. Annotations for other peers are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tenferro.dims import is_static
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.extension import Extension
from tenferro.ops.reduction import ReduceAnd
from tenferro.ops.source import Constant, Iota
from tenferro.ops.structural import (
    BroadcastInDim,
    Concatenate,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from tenferro.program import GraphProgram
from tenferro.program.rewrite import Producers, Rule, Values, rewrite
from tenferro.types import DType

__all__ = ["clean_up"]


MAX_FOLDED_ELEMENTS = 64
"""Maximum number of elements of a folded constant. It must be at least the maximum rank, so that index vectors fold."""
CHUNK_ELEMENTS = 1 << 12
"""Number of elements that are compared at once when `splat` checks whether all elements are equal."""


def clean_up(program: GraphProgram) -> GraphProgram:
    """Return the program after each rule of this file was applied once to each instruction, in order."""
    return rewrite(program, RULES)


def splat(producers: Producers, value: int) -> Any:
    """Return the element of a splat, a constant with equal elements.

    None if `value` is not a constant, or bits differ.
    """
    node = producers.maker(value)
    if node is not None and type(node.op) is BroadcastInDim:
        node = producers.maker(node.inputs[0])
    if node is None or not isinstance(node.op, Constant):
        return None
    elements = node.op.array.ravel()
    if not elements.size:
        return None
    # Compare in chunks: in most arrays that are no splats, two elements of the first chunk differ.
    bits = elements.view(f"V{elements.itemsize}")
    for start in range(0, elements.size, CHUNK_ELEMENTS):
        chunk = bits[start : start + CHUNK_ELEMENTS]
        if chunk.tobytes() != bits[:1].tobytes() * chunk.size:
            return None
    return elements[0]


def is_splat_of(producers: Producers, value: int, number: Any) -> bool:
    """Return whether `value` is a splat whose elements have the bits of `number`."""
    element = splat(producers, value)
    return element is not None and element.tobytes() == np.asarray(number, element.dtype).tobytes()


def filled(producers: Producers, number: Any, like: int, source: SourceLine | None) -> Values:
    """Emit a splat of `number` in the shape of `like`."""
    (scalar,) = producers.apply(Constant.of(np.asarray(number)), (), source)
    shape = producers.types[like].shape
    return producers.apply(BroadcastInDim(shape, ()), (scalar,), source) if shape else (scalar,)


def fold_splats(function: Callable[..., Any]) -> Rule:
    """Return the rule that folds an op whose operands are all splats.

    Complex operands are not folded, because a product may be rounded differently in a large array. An op whose result
    is infinite or NaN is not folded either, because `check_finite` must report it when the op runs.
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


def constant_elements(producers: Producers, value: int, max_size: int) -> Any:
    """Return the elements of a constant or splat; None for other values, and for more than `max_size` elements."""
    spec = producers.types[value]
    if not spec.is_static or spec.size > max_size:
        return None
    node = producers.of(value, Constant)
    if node is not None:
        return node.op.array  # type: ignore[attr-defined]
    number = splat(producers, value)
    return None if number is None else np.full(spec.shape, number)


def fold_small(function: Callable[..., Any]) -> Rule:
    """Return the rule that folds an op whose operands are all small constants of integers or bools.

    `function` computes it.
    """

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        if any([producers.types[x].dtype.is_inexact for x in inputs]):
            return None
        arrays = [constant_elements(producers, x, MAX_FOLDED_ELEMENTS) for x in inputs]
        if any([array is None for array in arrays]):
            return None
        result = np.asarray(function(op, *arrays))
        is_small = result.size <= MAX_FOLDED_ELEMENTS
        return producers.apply(Constant.of(result), (), source) if is_small else None

    return rule


AS_TYPE = fold_small(lambda op, x: x.astype(op.to.dtype))
"""Rule that folds the conversion of a small constant of integers or bools."""


def first_of(*rules: Rule) -> Rule:
    """Return a rule that applies the first of `rules` that matches an op."""

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
    """Merge two consecutive transposes into one, and remove a transpose that permutes no axis."""
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
    """Merge two consecutive reshapes into one, and remove a reshape to the same shape."""
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
    """Remove a broadcast that changes neither the shape nor the order of axes."""
    (x,) = inputs
    same = producers.types[x].shape == op.shape and op.dims == tuple(range(len(op.shape)))
    return (x,) if same else None


def slice_(
    producers: Producers, op: Slice, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove a slice that selects the whole operand."""
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
    """Remove a reverse of no axis, or two consecutive reverses of the same axes."""
    (x,) = inputs
    if not op.axes:
        return (x,)
    inner = producers.of(x, Reverse)
    if inner is not None and set(inner.op.axes) == set(op.axes):  # type: ignore[attr-defined]
        return inner.inputs
    return None


def convert(
    producers: Producers, op: el.Convert, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Merge two consecutive conversions if the dtype between them represents every value exactly."""
    (x,) = inputs
    if producers.types[x].dtype is op.to:
        return (x,)
    inner = producers.of(x, el.Convert)
    if inner is None:
        return None
    origin = producers.types[inner.inputs[0]].dtype
    if not holds(producers.types[x].dtype, origin):
        return None
    if origin is op.to:
        return inner.inputs
    return producers.apply(op, inner.inputs, source)


def fold_conversion(
    producers: Producers, op: el.Convert, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Fold a conversion of a small constant between integers and bools. Integers that do not fit wrap."""
    if op.to.is_inexact or op.to.is_narrow:
        return None
    return AS_TYPE(producers, op, inputs, source)


def holds(wide: DType, narrow: DType) -> bool:
    """Return whether conversion from `narrow` through `wide` to any dtype equals the direct conversion.

    Conversions from floats to integers saturate, and conversions between integers wrap, so the kinds must match.
    """
    if wide.kind != narrow.kind or wide.is_bool:
        return False
    if wide.is_narrow:
        return wide is narrow or (wide.is_integer and narrow.is_narrow and wide.bits >= narrow.bits)
    if narrow.is_narrow:
        return wide.is_integer or wide in (DType.F32, DType.F64)
    if DType.BF16 in (wide, narrow):
        return narrow is DType.BF16 and wide in (DType.F32, DType.F64)
    return wide.itemsize >= narrow.itemsize


def multiply(
    producers: Producers, op: el.Multiply, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a multiplication of a real x by one by x."""
    if producers.types[inputs[0]].dtype.is_complex:
        return None
    for x, factor in (inputs, inputs[::-1]):
        if is_splat_of(producers, factor, 1):
            return (x,)
    return None


def add(
    producers: Producers, op: el.Add, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace an addition of the integer 0, or of the float -0.0, by the other operand."""
    dtype = producers.types[inputs[0]].dtype
    zero = -0.0 if dtype.is_float else complex(-0.0, -0.0) if dtype.is_complex else 0
    for x, term in (inputs, inputs[::-1]):
        if is_splat_of(producers, term, zero):
            return (x,)
    return None


def subtract(
    producers: Producers, op: el.Subtract, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a subtraction of 0 or 0.0 by the first operand."""
    x, term = inputs
    return (x,) if is_splat_of(producers, term, 0) else None


def negate(
    producers: Producers, op: el.Negate, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove a double negation."""
    inner = producers.of(inputs[0], el.Negate)
    return None if inner is None else inner.inputs


def absorb(absorbing: bool) -> Rule:
    """Return the rule for `And` or `Or` with an operand that is a splat of a bool.

    If the splat equals `absorbing`, the splat is the result. Otherwise the other operand is the result.
    """

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        for x, pred in (inputs, inputs[::-1]):
            constant = splat(producers, pred)
            if constant is not None and constant.dtype == bool:
                return (pred,) if constant == absorbing else (x,)
        return None

    return rule


def compare_bools(
    producers: Producers, op: el.Compare, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace `p == true` and `p != false` by p, where p is a bool."""
    if op.direction not in ("EQ", "NE") or not producers.types[inputs[0]].dtype.is_bool:
        return None
    for x, other in (inputs, inputs[::-1]):
        constant = splat(producers, other)
        if constant is not None and constant == (op.direction == "EQ"):
            return (x,)
    return None


def drop_implied(
    producers: Producers, op: el.And, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove `x != y` from a conjunction with `x < y` or `x > y`: both imply it."""
    for pred, other in (inputs, inputs[::-1]):
        order, apart = producers.of(pred, el.Compare), producers.of(other, el.Compare)
        if order is None or apart is None or order.inputs != apart.inputs:
            continue
        signs = order.op.direction, apart.op.direction  # type: ignore[attr-defined]
        if signs in (("LT", "NE"), ("GT", "NE")):
            return (pred,)
    return None


def select(
    producers: Producers, op: el.Select, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove a select with a constant predicate, with equal operands, or between true and false."""
    pred, on_true, on_false = inputs
    constant = splat(producers, pred)
    if constant is not None or on_true == on_false:
        return (on_false if constant is not None and not constant else on_true,)
    shapes = [producers.types[x].shape for x in (pred, on_true)]
    is_same = producers.types[on_true].dtype.is_bool and shapes[0] == shapes[1]
    if (
        is_same
        and is_splat_of(producers, on_true, True)
        and is_splat_of(producers, on_false, False)
    ):
        return (pred,)
    return None


def drop_annotation(
    producers: Producers, op: Extension, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove an annotation: an op that returns its operand unchanged and has a meaning only for other peers."""
    return inputs if getattr(op.op, "annotates", False) else None


def extreme(identity: float) -> Rule:
    """Return the rule that removes the maximum with -inf, or the minimum with inf, of floats."""

    def rule(
        producers: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        if not producers.types[inputs[0]].dtype.is_float:
            return None
        for x, bound in (inputs, inputs[::-1]):
            if is_splat_of(producers, bound, identity):
                return (x,)
        return None

    return rule


def pad(producers: Producers, op: Pad, inputs: Values, source: SourceLine | None) -> Values | None:
    """Remove a pad that adds no elements."""
    return None if any(n != 0 for n in (*op.low, *op.high, *op.interior)) else inputs[:1]


def concatenate(
    producers: Producers, op: Concatenate, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Remove operands without elements."""
    is_empty = [producers.types[x].shape[op.axis] == 0 for x in inputs]
    operands = tuple([x for x, empty in zip(inputs, is_empty, strict=True) if not empty])
    if not operands or len(operands) == len(inputs):
        return None
    return (
        operands
        if len(operands) == 1
        else producers.apply(Concatenate(op.axis, len(operands)), operands, source)
    )


def compare_indices(
    producers: Producers, op: el.Compare, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Replace a test whether the elements of `Iota` are negative by False."""
    x, bound = inputs
    if op.direction != "LT" or producers.of(x, Iota) is None:
        return None
    return filled(producers, False, x, source) if is_splat_of(producers, bound, 0) else None


def fold_float_conversion(
    producers: Producers, op: el.Convert, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Fold conversions of splats to float32 or float64."""
    if op.to not in (DType.F32, DType.F64):
        return None
    return AS_FLOAT(producers, op, inputs, source)


AS_FLOAT = fold_splats(lambda op, x: x.astype(op.to.dtype))
"""Rule that converts splats."""


def divide(
    producers: Producers, op: el.Divide, inputs: Values, source: SourceLine | None
) -> Values | None:
    """Fold a quotient of float splats."""
    return (
        QUOTIENT(producers, op, inputs, source)
        if producers.types[inputs[0]].dtype.is_float
        else None
    )


QUOTIENT = fold_splats(lambda op, x, y: np.divide(x, y))
"""Rule that divides splats."""


RULES: Mapping[type[StdTensorOp], Rule] = {
    Transpose: transpose,
    Reshape: first_of(fold_small(lambda op, x: x.reshape(op.shape, order="F")), reshape),
    Concatenate: first_of(fold_small(lambda op, *xs: np.concatenate(xs, op.axis)), concatenate),
    BroadcastInDim: broadcast,
    Slice: slice_,
    Reverse: reverse,
    el.Convert: first_of(convert, fold_conversion, fold_float_conversion),
    el.Divide: divide,
    el.Maximum: extreme(-np.inf),
    el.Minimum: extreme(np.inf),
    Pad: pad,
    el.Multiply: first_of(multiply, fold_splats(lambda op, x, y: np.multiply(x, y))),
    el.Add: first_of(add, fold_splats(lambda op, x, y: np.add(x, y))),
    el.Subtract: first_of(subtract, fold_splats(lambda op, x, y: np.subtract(x, y))),
    el.Negate: first_of(negate, fold_splats(lambda op, x: np.negative(x))),
    el.Compare: first_of(
        compare_bools,
        compare_indices,
        fold_splats(lambda op, x, y: el.COMPARISONS[op.direction](x, y)),
        fold_small(lambda op, x, y: el.COMPARISONS[op.direction](x, y)),
    ),
    el.Not: fold_splats(lambda op, x: np.invert(x)),
    el.And: first_of(absorb(False), drop_implied, fold_small(lambda op, x, y: x & y)),
    ReduceAnd: fold_small(lambda op, x: np.bitwise_and.reduce(x, axis=op.axes)),
    el.Or: absorb(True),
    el.Select: select,
    Extension: drop_annotation,
}
