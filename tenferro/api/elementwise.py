"""Elementwise functions of the Array API, with NumPy's promotion and broadcasting.

Each is one op, or a few, between broadcast and converted operands. On arrays they run at once; on
traced tensors they are written down.

Source: Array API standard 2024.12, section "Element-wise functions".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tenferro.api.planned import planned
from tenferro.api.promotion import (
    broadcast_arrays,
    convert,
    inexact_dtype,
    number_beside,
    promote,
    result_type,
)
from tenferro.errors import DTypeError
from tenferro.exec.dispatch import apply, as_operand, copied, spec_of
from tenferro.ops import StdTensorOp, analytic
from tenferro.ops import elementwise as ops
from tenferro.types import DType

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "digamma",
    "divide",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "polygamma",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


Function = TypeVar("Function", bound=Callable[..., Any])


def _documented(name: str, formula: str, dtypes: str) -> Callable[[Any], Any]:
    def name_and_describe(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{formula}\n\nDtypes: {dtypes}.\n\nRaises:\n    DTypeError, ShapeError: operands the op does not take, or that do not broadcast.\n"
        return function

    return name_and_describe


# ---- families of functions -----------------------------------------------------------------------


def _of_two(function: Function, *, is_inexact: bool) -> Function:
    """A planned function of two arguments; a Python number takes the dtype of a tensor beside it."""
    of_tensors = planned(function)

    @functools.wraps(function)
    def call(x1: Any, x2: Any, /) -> Any:
        return of_tensors(*number_beside(x1, x2, is_inexact))

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


_in_common_dtype = functools.partial(_of_two, is_inexact=False)
_in_inexact_dtype = functools.partial(_of_two, is_inexact=True)


def _analytic(name: str, op: StdTensorOp, formula: str) -> Any:
    """One argument, computed in a float dtype: integers as NumPy promotes them."""

    @_documented(name, formula, "float and complex; integers and bool in the float NumPy takes")
    @planned
    def function(x: Any, /) -> Any:
        x = as_operand(x)
        return apply(op, convert(x, inexact_dtype(spec_of(x).dtype)))

    return function


def _arithmetic(name: str, op: StdTensorOp, formula: str) -> Any:
    """Two arguments in their common dtype."""

    @_documented(name, formula, "numeric, in the common dtype")
    @_in_common_dtype
    def function(x1: Any, x2: Any, /) -> Any:
        return apply(op, *promote(x1, x2))

    return function


def _comparison(name: str, direction: str, formula: str) -> Any:
    op = ops.Compare(direction)

    @_documented(name, formula, "any, compared in the common dtype; the result is bool")
    @_in_common_dtype
    def function(x1: Any, x2: Any, /) -> Any:
        return apply(op, *promote(x1, x2))

    return function


def _bitwise(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "bool and integers, in the common dtype")
    @_in_common_dtype
    def function(x1: Any, x2: Any, /) -> Any:
        return apply(op, *promote(x1, x2))

    return function


def _logical(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "any; what is not zero counts as true")
    @planned
    def function(x1: Any, x2: Any, /) -> Any:
        return apply(op, *promote(_truth(x1), _truth(x2)))

    return function


def _truth(x: Any) -> Any:
    return convert(as_operand(x), DType.Bool)


# ---- arithmetic ----------------------------------------------------------------------------------

add = _arithmetic("add", ops.Add(), "x1 + x2.")
multiply = _arithmetic("multiply", ops.Multiply(), "x1 x2.")
maximum = _arithmetic("maximum", ops.Maximum(), "The larger of x1 and x2; NaN where either is.")
minimum = _arithmetic("minimum", ops.Minimum(), "The smaller of x1 and x2; NaN where either is.")
fmod = _arithmetic("fmod", ops.Remainder(), "The remainder of x1 / x2, with the sign of x1.")


@_in_common_dtype
def subtract(x1: Any, x2: Any, /) -> Any:
    """x1 - x2.

    Raises:
        DTypeError: both are bool, as in NumPy; use `logical_xor`.
    """
    lhs, rhs = promote(x1, x2)
    if spec_of(lhs).dtype.is_bool:
        raise DTypeError("subtract: bool has no difference; use logical_xor")
    return apply(ops.Subtract(), lhs, rhs)


@_in_inexact_dtype
def divide(x1: Any, x2: Any, /) -> Any:
    """x1 / x2; integers and bools are divided in float64, as in NumPy."""
    common = result_type(x1, x2)
    dtype = common if common.is_inexact else DType.F64
    return apply(ops.Divide(), *promote(x1, x2, dtype=dtype))


@_in_common_dtype
def floor_divide(x1: Any, x2: Any, /) -> Any:
    """floor(x1 / x2), the largest integer not above the quotient; division of integers by 0 gives 0.

    For floats the quotient is consistent with `remainder`: x1 = x2 floor_divide(x1, x2) + remainder.
    """
    lhs, rhs = promote(x1, x2)
    dtype = spec_of(lhs).dtype
    if dtype.is_bool:
        lhs, rhs, dtype = convert(lhs, DType.I8), convert(rhs, DType.I8), DType.I8
    if dtype.is_integer:
        quotient = apply(ops.Divide(), lhs, rhs)
        if dtype.kind == "i":
            left_over = apply(ops.Remainder(), lhs, rhs)
            lower = logical_and(
                not_equal(left_over, 0), not_equal(less(left_over, 0), less(rhs, 0))
            )
            quotient = subtract(quotient, convert(lower, dtype))
        return where(equal(rhs, 0), 0, quotient)
    left_over = remainder(lhs, rhs)
    quotient = divide(subtract(lhs, left_over), rhs)
    nearest = apply(ops.RoundNearestEven(), quotient)
    exact = where(equal(quotient, 0), multiply(0.0, divide(lhs, rhs)), nearest)
    # Only an infinite x2 is a remainder itself: that of a number on the other side of zero.
    below = where(equal(left_over, rhs), -1.0, exact)
    return where(equal(rhs, 0), divide(lhs, rhs), below)


@_in_common_dtype
def remainder(x1: Any, x2: Any, /) -> Any:
    """x1 - x2 floor(x1 / x2): the remainder with the sign of x2, as Python's %.

    An integer modulo 0 is 0, as in NumPy.
    """
    lhs, rhs = promote(x1, x2)
    dtype = spec_of(lhs).dtype
    if dtype.is_bool:
        lhs, rhs, dtype = convert(lhs, DType.I8), convert(rhs, DType.I8), DType.I8
    left_over = apply(ops.Remainder(), lhs, rhs)
    if dtype.kind == "u":
        return where(equal(rhs, 0), 0, left_over)
    opposite = not_equal(less(left_over, 0), less(rhs, 0))
    adjusted = where(logical_and(not_equal(left_over, 0), opposite), add(left_over, rhs), left_over)
    if dtype.is_integer:
        return where(equal(rhs, 0), 0, adjusted)
    # 0 - x is 0.0 for zeros of both signs and has a derivative there, which |x| has not.
    negated = apply(ops.Subtract(), *promote(0, left_over, dtype=dtype))
    signed = where(signbit(rhs), negative(negated), subtract(0, negated))
    return where(equal(left_over, 0), signed, adjusted)


def pow(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; a small whole Python exponent is multiplied out.

    Integers to negative integer powers are 0, or 1 / x1 where that is whole.
    """
    if type(x2) is int and 0 < x2 <= 3 and not isinstance(x1, int | float | complex | bool):
        base = as_operand(x1)
        if not spec_of(base).dtype.is_bool:
            result = base
            for _ in range(x2 - 1):
                result = apply(ops.Multiply(), result, base)
            return result
    lhs, rhs = promote(x1, x2)
    if spec_of(lhs).dtype.is_bool:
        lhs, rhs = convert(lhs, DType.I8), convert(rhs, DType.I8)
    return apply(ops.Power(), lhs, rhs)


@planned
def negative(x: Any, /) -> Any:
    """-x.

    Raises:
        DTypeError: x is bool.
    """
    return apply(ops.Negate(), as_operand(x))


def positive(x: Any, /) -> Any:
    """X itself, of a numeric dtype."""
    x = as_operand(x)
    if spec_of(x).dtype.is_bool:
        raise DTypeError("positive: bool has no sign")
    return copied(x)


@planned
def square(x: Any, /) -> Any:
    """X x."""
    x = as_operand(x)
    return apply(ops.Multiply(), x, x)


def reciprocal(x: Any, /) -> Any:
    """1 / x."""
    return divide(1, x)


def abs(x: Any, /) -> Any:
    """|x|; of a complex number its modulus, in the real dtype."""
    x = as_operand(x)
    return copied(x) if spec_of(x).dtype.is_bool else apply(ops.Abs(), x)


@planned
def sign(x: Any, /) -> Any:
    """-1, 0 or 1; x / |x| for complex x, 0 at 0; at -0.0 it is 0.0, as in NumPy."""
    x = as_operand(x)
    result = apply(ops.Sign(), x)
    return where(equal(x, 0), 0, result) if spec_of(x).dtype.is_float else result


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """min(max(x, `min`), `max`), a bound of None being none; in x's dtype. NaN where x or a bound is.

    The derivative is 1 strictly between the bounds, and 0 at a bound and beyond it. That with respect to a
    bound is 1 where x is strictly beyond it.

    Raises:
        DTypeError: a bound that x's dtype cannot hold.
        ShapeError: bounds that do not broadcast with x.

    >>> clip(np.array([-1.0, 0.5, 2.0]), 0.0), clip(np.array([-1.0, 0.5, 2.0]), max=1.0)
    (array([0. , 0.5, 2. ]), array([-1. ,  0.5,  1. ]))
    """
    return _clipped(x, number_beside(x, min)[1], number_beside(x, max)[1])


@planned
def _clipped(x: Any, min: Any, max: Any) -> Any:
    x = as_operand(x)
    if min is max is None:
        return copied(x)
    dtype = spec_of(x).dtype
    for bound in (min, max):
        if bound is not None and result_type(x, bound) is not dtype:
            raise DTypeError(f"clip: a bound of {result_type(bound)} does not fit x of {dtype}")
    # One bound clamps itself to what x leaves, so that an infinite x is at no bound.
    least, most = _extremes(dtype)
    if max is None:
        operands = (min, x, most)
    elif min is None:
        operands = (max, least, x)
    else:
        operands = (x, min, max)
    return apply(ops.Clamp(), *promote(*operands, dtype=dtype))


def _extremes(dtype: DType) -> tuple[Any, Any]:
    """The least and the largest number of a real dtype, infinities among them."""
    if dtype.is_inexact:
        return -float("inf"), float("inf")
    if dtype.is_bool:
        return False, True
    limits = np.iinfo(dtype.dtype)
    return int(limits.min), int(limits.max)


@_in_inexact_dtype
def hypot(x1: Any, x2: Any, /) -> Any:
    """sqrt(x1^2 + x2^2) without overflow; infinite where either is.

    Its derivatives are x1 / y and x2 / y, also where |x1| = |x2| and where one is zero or infinite; 0 where
    both are zero.
    """
    dtype = inexact_dtype(result_type(x1, x2))
    lhs, rhs = promote(x1, x2, dtype=dtype)
    # Choices by a predicate, because maximum and |x| are differentiated as if they were linear at ties.
    rhs_is_large = logical_or(less(abs(lhs), abs(rhs)), isinf(rhs))
    large, small = where(rhs_is_large, rhs, lhs), where(rhs_is_large, lhs, rhs)
    # An infinite one is its own length: times a root whose tangent is 0 it would be NaN.
    is_infinite = isinf(large)
    finite = where(is_infinite, 1, large)
    ratio = where(is_infinite, 0, divide(small, where(equal(finite, 0), 1, finite)))
    length = multiply(abs(finite), sqrt(add(1, square(ratio))))
    return where(is_infinite, abs(large), length)


@_in_inexact_dtype
def copysign(x1: Any, x2: Any, /) -> Any:
    """|x1| with the sign of x2, negative zero and NaN included."""
    dtype = inexact_dtype(result_type(x1, x2))
    lhs, rhs = promote(x1, x2, dtype=dtype)
    magnitude = abs(lhs)
    return where(signbit(rhs), negative(magnitude), magnitude)


@planned
def signbit(x: Any, /) -> Any:
    """True where the sign bit of x is set: for negative numbers and -0.0."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if not dtype.is_float:
        return less(x, 0)
    return less(_bits(x), 0)


def _bits(x: Any) -> Any:
    """A float's bits as a signed integer."""
    width = {2: DType.I16, 4: DType.I32, 8: DType.I64}[spec_of(x).dtype.itemsize]
    return apply(ops.BitcastConvert(width), x)


@_in_inexact_dtype
def nextafter(x1: Any, x2: Any, /) -> Any:
    """The next number after x1 towards x2; x2 where they are equal, NaN where either is.

    Bits are counted, so that subnormal numbers are met also where arithmetic flushes them.

    Dtypes: real floats, in the common dtype; integers in the float NumPy takes.

    Raises:
        DTypeError, ShapeError: complex operands, or ones that do not broadcast.

    >>> nextafter(np.float32(1), np.float32(2)) - 1
    np.float32(1.1920929e-07)
    """
    dtype = inexact_dtype(result_type(x1, x2))
    if dtype.is_complex:
        raise DTypeError(f"nextafter: complex numbers have no order, got {dtype}")
    lhs, rhs = promote(x1, x2, dtype=dtype)
    start, end = _bits(lhs), _bits(rhs)
    # Counted from zero in either direction: the bits of negative numbers run the other way.
    lowest = np.iinfo(spec_of(start).dtype.dtype).min
    here = where(less(start, 0), subtract(lowest, start), start)
    there = where(less(end, 0), subtract(lowest, end), end)
    step = where(less(here, there), *np.array([1, -1], spec_of(here).dtype.dtype))
    place = add(here, step)
    is_negative = logical_or(less(place, 0), logical_and(equal(place, 0), less(start, 0)))
    moved = apply(ops.BitcastConvert(dtype), where(is_negative, subtract(lowest, place), place))
    result = where(equal(here, there), rhs, moved)
    return where(logical_or(isnan(lhs), isnan(rhs)), add(lhs, rhs), result)


# ---- analytic ------------------------------------------------------------------------------------

exp = _analytic("exp", analytic.Exp(), "e^x.")
expm1 = _analytic("expm1", analytic.Expm1(), "e^x - 1, accurate near 0.")
log = _analytic("log", analytic.Log(), "The natural logarithm of x.")
log1p = _analytic("log1p", analytic.Log1p(), "log(1 + x), accurate near 0.")
sqrt = _analytic("sqrt", analytic.Sqrt(), "The square root of x.")
rsqrt = _analytic("rsqrt", analytic.Rsqrt(), "1 / sqrt(x).")
cbrt = _analytic("cbrt", analytic.Cbrt(), "The real cube root of x.")
sin = _analytic("sin", analytic.Sin(), "The sine of x, in radians.")
cos = _analytic("cos", analytic.Cos(), "The cosine of x, in radians.")
tan = _analytic("tan", analytic.Tan(), "The tangent of x, in radians.")
asin = _analytic("asin", analytic.Asin(), "The inverse sine of x, in radians.")
acos = _analytic("acos", analytic.Acos(), "The inverse cosine of x, in radians.")
atan = _analytic("atan", analytic.Atan(), "The inverse tangent of x, in radians.")
sinh = _analytic("sinh", analytic.Sinh(), "The hyperbolic sine of x.")
cosh = _analytic("cosh", analytic.Cosh(), "The hyperbolic cosine of x.")
tanh = _analytic("tanh", analytic.Tanh(), "The hyperbolic tangent of x.")
asinh = _analytic("asinh", analytic.Asinh(), "The inverse hyperbolic sine of x.")
acosh = _analytic("acosh", analytic.Acosh(), "The inverse hyperbolic cosine of x.")
atanh = _analytic("atanh", analytic.Atanh(), "The inverse hyperbolic tangent of x.")
logistic = _analytic("logistic", analytic.Logistic(), "1 / (1 + e^-x).")
erf = _analytic("erf", analytic.Erf(), "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.")
erfc = _analytic("erfc", analytic.Erfc(), "1 - erf(x), accurate for large x.")
erfinv = _analytic("erfinv", analytic.ErfInv(), "The inverse of erf.")
lgamma = _analytic("lgamma", analytic.Lgamma(), "log |Gamma(x)|.")
digamma = _analytic("digamma", analytic.Digamma(), "The derivative of log Gamma at x.")


@_in_inexact_dtype
def atan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point (x2, x1), in radians from -pi to pi."""
    return apply(analytic.Atan2(), *promote(x1, x2, dtype=inexact_dtype(result_type(x1, x2))))


@planned
def log2(x: Any, /) -> Any:
    """The logarithm of x to base 2."""
    return _scaled(log(x), 1.4426950408889634)


@planned
def log10(x: Any, /) -> Any:
    """The logarithm of x to base 10."""
    return _scaled(log(x), 0.4342944819032518)


def _scaled(x: Any, factor: float) -> Any:
    """X times a real number; complex numbers part by part, so that infinite parts stay apart."""
    if not spec_of(x).dtype.is_complex:
        return multiply(x, factor)
    parts = (apply(part(), x) for part in (ops.Real, ops.Imag))
    return apply(ops.Complex(), *[multiply(part, factor) for part in parts])


@planned
def exp2(x: Any, /) -> Any:
    """2^x."""
    x = as_operand(x)
    x = convert(x, inexact_dtype(spec_of(x).dtype))
    return exp(_scaled(x, math.log(2))) if spec_of(x).dtype.is_complex else pow(2.0, x)


# ---- rounding ------------------------------------------------------------------------------------


def _rounding(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "real; integers and bool come back as they are")
    @planned
    def function(x: Any, /) -> Any:
        x = as_operand(x)
        return apply(op, x) if spec_of(x).dtype.is_inexact else copied(x)

    return function


floor = _rounding("floor", ops.Floor(), "The largest integer not above x.")
ceil = _rounding("ceil", ops.Ceil(), "The smallest integer not below x.")


@planned
def round(x: Any, /) -> Any:
    """X rounded to the nearest integer, halves to even; complex numbers by parts."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return apply(ops.Complex(), round(real(x)), round(imag(x)))
    return apply(ops.RoundNearestEven(), x) if dtype.is_float else copied(x)


@planned
def trunc(x: Any, /) -> Any:
    """X rounded towards zero."""
    x = as_operand(x)
    if not spec_of(x).dtype.is_inexact:
        return copied(x)
    return where(signbit(x), apply(ops.Ceil(), x), apply(ops.Floor(), x))


# ---- complex -------------------------------------------------------------------------------------


def conj(x: Any, /) -> Any:
    """The complex conjugate; a real x itself."""
    x = as_operand(x)
    return apply(ops.Conj(), x) if spec_of(x).dtype.is_complex else copied(x)


def real(x: Any, /) -> Any:
    """The real part; a real x itself."""
    x = as_operand(x)
    return apply(ops.Real(), x) if spec_of(x).dtype.is_complex else x


def imag(x: Any, /) -> Any:
    """The imaginary part; zeros for a real x."""
    x = as_operand(x)
    return apply(ops.Imag(), x) if spec_of(x).dtype.is_inexact else bitwise_xor(x, x)


# ---- comparison and logic ------------------------------------------------------------------------

equal = _comparison("equal", "EQ", "x1 == x2.")
not_equal = _comparison("not_equal", "NE", "x1 != x2.")
less = _comparison("less", "LT", "x1 < x2.")
less_equal = _comparison("less_equal", "LE", "x1 <= x2.")
greater = _comparison("greater", "GT", "x1 > x2.")
greater_equal = _comparison("greater_equal", "GE", "x1 >= x2.")
logical_and = _logical("logical_and", ops.And(), "True where both are.")
logical_or = _logical("logical_or", ops.Or(), "True where either is.")
logical_xor = _logical("logical_xor", ops.Xor(), "True where just one is.")
bitwise_and = _bitwise("bitwise_and", ops.And(), "The bits set in both.")
bitwise_or = _bitwise("bitwise_or", ops.Or(), "The bits set in either.")
bitwise_xor = _bitwise("bitwise_xor", ops.Xor(), "The bits set in just one.")
bitwise_left_shift = _bitwise("bitwise_left_shift", ops.ShiftLeft(), "x1 shifted left by x2 bits.")


@planned
def bitwise_right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 shifted right by x2 bits; the sign is kept, zeros enter unsigned numbers."""
    lhs, rhs = promote(x1, x2)
    signed = spec_of(lhs).dtype.kind == "i"
    return apply(ops.ShiftRightArithmetic() if signed else ops.ShiftRightLogical(), lhs, rhs)


@planned
def bitwise_invert(x: Any, /) -> Any:
    """Every bit of x turned over."""
    return apply(ops.Not(), as_operand(x))


@planned
def bitwise_count(x: Any, /) -> Any:
    """The number of bits set in x's two's complement, in x's dtype."""
    return apply(ops.PopulationCount(), as_operand(x))


@planned
def logical_not(x: Any, /) -> Any:
    """True where x is zero."""
    return apply(ops.Not(), _truth(x))


@planned
def isfinite(x: Any, /) -> Any:
    """True where x is neither infinite nor NaN."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return logical_and(isfinite(real(x)), isfinite(imag(x)))
    return apply(ops.IsFinite(), x) if dtype.is_float else equal(x, x)


@planned
def isnan(x: Any, /) -> Any:
    """True where x is NaN."""
    x = as_operand(x)
    return apply(ops.Compare("NE"), x, x)


@planned
def isinf(x: Any, /) -> Any:
    """True where x is infinite."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return logical_or(isinf(real(x)), isinf(imag(x)))
    return equal(abs(x), float("inf")) if dtype.is_float else not_equal(x, x)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """x1 where `condition`, else x2; all three broadcast.

    Raises:
        DTypeError: a condition that is not bool.
    """
    return _selected(condition, *number_beside(x1, x2))


@planned
def _selected(condition: Any, x1: Any, x2: Any) -> Any:
    condition = as_operand(condition)
    if not spec_of(condition).dtype.is_bool:
        raise DTypeError(
            f"where: condition must be bool, got {spec_of(condition)}; compare it first"
        )
    dtype = result_type(x1, x2)
    return apply(ops.Select(), *broadcast_arrays(condition, convert(x1, dtype), convert(x2, dtype)))


def polygamma(n: int, x: Any, /) -> Any:
    """The derivative of order n of digamma."""
    x = as_operand(x)
    return apply(analytic.Polygamma(n), convert(x, inexact_dtype(spec_of(x).dtype)))


def angle(x: Any, /) -> Any:
    """The phase of x, in radians, from -pi to pi: pi for a negative real number, whose slope is 0.

    >>> angle(-2.0), angle(1j)
    (array(3.14159265), array(1.57079633))
    """
    x = as_operand(x)
    if spec_of(x).dtype.is_complex:
        return atan2(imag(x), real(x))
    x = convert(x, inexact_dtype(spec_of(x).dtype))
    half_turn = convert(signbit(x), spec_of(x).dtype)
    return where(isnan(x), float("nan"), multiply(half_turn, math.pi))
