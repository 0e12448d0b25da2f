"""Derivatives of the elementwise ops."""

from __future__ import annotations

import math

from tenferro.ad.algebra import (
    Value,
    abs_,
    add,
    apply_one,
    compare,
    complex_,
    conj,
    convert,
    full,
    imag,
    is_zero,
    log,
    logical_and,
    logical_or,
    maximum,
    power,
    real,
    select,
    sign,
    zeros,
)
from tenferro.ad.rule import (
    AdRows,
    AdRule,
    Tangents,
    Values,
    batched_by,
    bilinear,
    elementwise_batch,
    inactive,
    jvp_only,
    linear,
    partials,
    refused,
)
from tenferro.ops import elementwise as ops

__all__ = ["ROWS"]

# ---- sums and products ---------------------------------------------------------------------------


def add_jvp(op: ops.Add, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """y_dot = x0_dot + x1_dot."""
    return (add(*tangents),)


def subtract_jvp(op: ops.Subtract, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """y_dot = x0_dot - x1_dot."""
    x0_dot, x1_dot = tangents
    if x1_dot is None:
        return (x0_dot,)
    return (-x1_dot if x0_dot is None else x0_dot - x1_dot,)


def subtract_transpose(
    op: ops.Subtract, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return x0_bar = y_bar and x1_bar = -y_bar."""
    (y_bar,) = y_bars
    assert y_bar is not None
    return (y_bar if linear[0] else None, -y_bar if linear[1] else None)


def divide_jvp(op: ops.Divide, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """y_dot = (x0_dot - y x1_dot) / x1."""
    (_, x1), (y,), (x0_dot, x1_dot) = inputs, outputs, tangents
    if x1_dot is None:
        return (None if x0_dot is None else x0_dot / x1,)
    change = y * x1_dot
    return ((-change if x0_dot is None else x0_dot - change) / x1,)


def integer_quotient(x0: Value, x1: Value, y: Value) -> Value:
    """Return the integer quotient q of x0 and x1, where y is the remainder: x0 = q x1 + y.

    The computed (x0 - y) / x1 is inexact, and is therefore rounded to an integer.
    """
    return apply_one(ops.RoundNearestEven(), (x0 - y) / x1)


# ---- choices: at a tie each operand gets one half, so that max(x, x) has the derivative of x -----------


REACHES = {"GT": "GE", "LT": "LE"}


def extremum(wins: str) -> AdRule:
    """Return the rule of an elementwise maximum or minimum.

    The tangent is that of the selected operand. At a tie it is the mean of the tangents of both operands.
    """

    def one(x: Value, operand: Value, x_dot: Value) -> Value:
        """Return the part of the tangent due to the operand x: `x_dot`, half of it at a tie, or 0 if x loses."""
        share = 1 - 0.5 * convert(compare(x, "EQ", operand), x_dot.dtype)
        return select(compare(x, REACHES[wins], operand), x_dot * share, 0)

    def jvp(op: ops.Maximum, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
        (x0, x1), (x0_dot, x1_dot) = inputs, tangents
        if x1_dot is None:
            assert x0_dot is not None
            return (one(x0, x1, x0_dot),)
        if x0_dot is None:
            return (one(x1, x0, x1_dot),)
        tied = select(compare(x0, "EQ", x1), (x0_dot + x1_dot) * 0.5, x1_dot)
        return (select(compare(x0, wins, x1), x0_dot, tied),)

    return jvp_only(jvp)


def clamp_jvp(op: ops.Clamp, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return 0 at a bound, the bound's tangent outside, and x_dot between the bounds and where x is NaN."""
    (x, lower, upper), (x_dot, lower_dot, upper_dot) = inputs, tangents
    total = None
    if x_dot is not None:
        beyond = logical_or(compare(x, "LE", lower), compare(x, "GE", upper))
        total = select(beyond, 0, x_dot)
    if lower_dot is not None:
        below = logical_and(compare(x, "LT", lower), compare(lower, "LE", upper))
        total = add(total, select(below, lower_dot, 0))
    if upper_dot is not None:
        above = compare(maximum(x, lower), "GT", upper)
        total = add(total, select(above, upper_dot, 0))
    return (total,)


def select_jvp(op: ops.Select, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return, elementwise, the tangent of the operand that `pred` selects."""
    pred = inputs[0]
    _, true_dot, false_dot = tangents
    if true_dot is None and false_dot is None:
        return (None,)
    return (
        select(pred, 0 if true_dot is None else true_dot, 0 if false_dot is None else false_dot),
    )


def select_transpose(
    op: ops.Select, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Pass `y_bar` to the selected operand, and zero to the other operand.

    A select inserts the zeros. A product with zero would be NaN where y_bar is infinite.
    """
    pred, (y_bar,) = inputs[0], y_bars
    assert y_bar is not None
    return (
        None,
        select(pred, y_bar, 0) if linear[1] else None,
        select(pred, 0, y_bar) if linear[2] else None,
    )


# ---- powers ----------------------------------------------------------------------------------------


def power_by_base(x: Value, y: Value, z: Value) -> Value:
    """d x^y / dx = y x^(y-1). Where y is 0 and x is 0 or NaN, the formula would be NaN, and a constant 0 replaces it.

    Where y is 0 and x is any other number, the formula is used: it is 0, and its derivative with respect to y is 1/x.
    """
    is_constant = logical_and(is_zero(y), apply_one(ops.Not(), compare(abs_(x), "GT", 0)))
    return select(is_constant, 0, y * power(x, select(is_constant, 1, y - 1)))


def power_by_exponent(x: Value, y: Value, z: Value) -> Value:
    """d x^y / dy = x^y log x.

    At x = 0 the derivative is 0 if the real part of y is nonnegative, and infinite if it is negative.
    """
    at_zero = logical_and(is_zero(x), compare(real(y), "GE", 0))
    at_infinity = logical_and(compare(abs_(x), "EQ", math.inf), compare(real(y), "LT", 0))
    return z * log(select(logical_or(at_zero, at_infinity), 1, x))


# ---- complex parts ---------------------------------------------------------------------------------


def abs_jvp(op: ops.Abs, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """d|x| = Re(conj(x / |x|) x_dot). The result is 0 where x is 0."""
    (x,), (x_dot,) = inputs, tangents
    assert x_dot is not None
    return (real(conj(sign(x)) * x_dot),)


def sign_jvp(op: ops.Sign, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Return 0 for real x, and i y Im(conj(y) x_dot) / |x| for complex x, because only the phase of x affects y."""
    (x,), (y,), (x_dot,) = inputs, outputs, tangents
    assert x_dot is not None
    if not x.dtype.is_complex:
        return (None,)
    size = abs_(x)
    turn = imag(conj(y) * x_dot) / select(is_zero(size), 1, size)
    return (y * complex_(zeros(size), turn),)


def imag_jvp(op: ops.Imag, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """y_dot = Im(x_dot); zero for real x."""
    (x,), (x_dot,) = inputs, tangents
    return (None if x_dot is None or not x.dtype.is_complex else apply_one(op, x_dot),)


def real_transpose(op: ops.Real, x: Value, y_bar: Value) -> Value:
    """x_bar = y_bar + 0i, because <y_bar, Re x> = <y_bar + 0i, x>."""
    return complex_(y_bar, zeros(y_bar)) if x.dtype.is_complex else y_bar


def imag_transpose(op: ops.Imag, x: Value, y_bar: Value) -> Value:
    """x_bar = i y_bar, because <y_bar, Im x> = <i y_bar, x>."""
    return complex_(zeros(y_bar), y_bar)


def complex_jvp(op: ops.Complex, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """y_dot = x0_dot + i x1_dot."""
    re_dot, im_dot = tangents
    if re_dot is None and im_dot is None:
        return (None,)
    re, im = inputs
    return (
        complex_(zeros(re) if re_dot is None else re_dot, zeros(im) if im_dot is None else im_dot),
    )


def complex_transpose(
    op: ops.Complex, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Return Re y_bar and Im y_bar, because <y_bar, a + ib> = <Re y_bar, a> + <Im y_bar, b>."""
    (y_bar,) = y_bars
    assert y_bar is not None
    return (real(y_bar) if linear[0] else None, imag(y_bar) if linear[1] else None)


# ---- dtypes ----------------------------------------------------------------------------------------


def convert_jvp(op: ops.Convert, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Convert the tangent to the dtype to which the op converts x."""
    (x_dot,) = tangents
    return (None if x_dot is None else apply_one(op, x_dot),)


def convert_transpose(
    op: ops.Convert, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Convert `y_bar` to the dtype of x. If x is real, the imaginary part of `y_bar` is dropped."""
    (x,), (y_bar,) = inputs, y_bars
    assert y_bar is not None
    return (convert(y_bar if x.dtype.is_complex else real(y_bar), x.dtype),)


STEP = inactive("constant between its steps")
INTEGER = inactive("integer and bool tensors do not vary continuously")
PREDICATE = inactive("a predicate does not vary continuously")

ROWS: AdRows = batched_by(
    elementwise_batch,
    {
        ops.Add: AdRule(
            add_jvp,
            lambda op, xs, linear, y_bars: tuple(y_bars[0] if here else None for here in linear),
            elementwise_batch,
        ),
        ops.Subtract: AdRule(subtract_jvp, subtract_transpose, elementwise_batch),
        ops.Negate: linear(lambda op, x, y_bar: -y_bar),
        ops.Multiply: bilinear(
            lambda op, x0, x1, y_bar: y_bar * conj(x1),
            lambda op, x0, x1, y_bar: conj(x0) * y_bar,
            elementwise_batch,
        ),
        ops.Divide: AdRule(
            divide_jvp,
            lambda op, xs, linear, y_bars: (y_bars[0] / conj(xs[1]), None),
            elementwise_batch,
            is_linear=lambda mask: not mask[1],
        ),
        ops.Remainder: partials(
            lambda x0, x1, y: full(x0, 1), lambda x0, x1, y: -integer_quotient(x0, x1, y)
        ),
        ops.Power: partials(power_by_base, power_by_exponent),
        ops.Maximum: extremum("GT"),
        ops.Minimum: extremum("LT"),
        ops.Clamp: jvp_only(clamp_jvp),
        ops.Select: AdRule(
            select_jvp, select_transpose, elementwise_batch, is_linear=lambda mask: not mask[0]
        ),
        ops.Abs: jvp_only(abs_jvp),
        ops.Sign: jvp_only(sign_jvp),
        ops.Conj: linear(lambda op, x, y_bar: conj(y_bar)),
        ops.Real: linear(real_transpose),
        ops.Imag: AdRule(
            imag_jvp,
            lambda op, xs, linear, y_bars: (imag_transpose(op, *xs, *y_bars),),
            elementwise_batch,
        ),
        ops.Complex: AdRule(complex_jvp, complex_transpose, elementwise_batch),
        ops.Convert: AdRule(convert_jvp, convert_transpose, elementwise_batch),
        ops.ReducePrecision: linear(lambda op, x, y_bar: apply_one(op, y_bar)),
        ops.BitcastConvert: refused(
            "reading bits as another float is no continuous function; convert instead, or stop_gradient"
        ),
        ops.Floor: STEP,
        ops.Ceil: STEP,
        ops.RoundNearestEven: STEP,
        ops.RoundNearestAfz: STEP,
        ops.Compare: PREDICATE,
        ops.IsFinite: PREDICATE,
        ops.And: INTEGER,
        ops.Or: INTEGER,
        ops.Xor: INTEGER,
        ops.Not: INTEGER,
        ops.ShiftLeft: INTEGER,
        ops.ShiftRightArithmetic: INTEGER,
        ops.ShiftRightLogical: INTEGER,
        ops.PopulationCount: INTEGER,
        ops.CountLeadingZeros: INTEGER,
    },
)
