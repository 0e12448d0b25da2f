"""Elementwise functions of the Array API, with NumPy's promotion and broadcasting.

Each function broadcasts and converts its operands, and applies one op or a few ops. On arrays the ops run at once; on
traced tensors they are added to the graph.

Source: Array API standard 2024.12, section "Element-wise functions".
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import numpy as np

from tenferro.api.arguments import refuse, refuse_options
from tenferro.api.planned import elementwise, planned
from tenferro.api.promotion import (
    broadcast_arrays,
    convert,
    inexact_dtype,
    promote,
    promote_number,
    result_type,
)
from tenferro.dispatch import apply_one, as_operand, copied, is_traced, is_weak, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, UnsupportedError
from tenferro.ops import StdTensorOp, analytic
from tenferro.ops import elementwise as ops
from tenferro.types import ArrayLike, DType, Tensor, UfuncOptions

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp_max",
    "clamp_min",
    "clip",
    "conj",
    "conjugate",
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
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "polygamma",
    "positive",
    "pow",
    "power",
    "real",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
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
    "true_divide",
    "trunc",
]


Function = TypeVar("Function", bound=Callable[..., Any])


def _documented(name: str, formula: str, dtypes: str) -> Callable[[Any], Any]:
    def name_and_describe(function: Callable[..., Any]) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = (
            f"{formula}\n\nDtypes: {dtypes}.\n\nRaises:\n"
            "    DTypeError, ShapeError: a dtype is not supported, or the operands do not broadcast.\n"
        )
        return function

    return name_and_describe


# ---- families of functions -----------------------------------------------------------------------


def _of_two(function: Function, *, is_inexact: bool) -> Function:
    """Wrap a function of two operands so that a Python number takes the dtype of the other operand.

    Eager tensors run the function as one operation, by a cached plan.

    Args:
        is_inexact: whether the function converts integers to floats. If so, a number beside an integer tensor is not
            converted.
    """

    @functools.wraps(function)
    def call(
        x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
    ) -> Any:
        if options or out is not None:
            refuse_options(call.__name__, options, out)
        if type(x1) is not type(x2):
            x1, x2 = promote_number(x1, x2, is_inexact)
        handler = getattr(type(x1), "__tenferro_call__", None)
        return function(x1, x2) if handler is None else handler(function, (x1, x2), {})

    return call  # pyright: ignore[reportReturnType]  # because it has the function's signature


_in_common_dtype = functools.partial(_of_two, is_inexact=False)
_in_inexact_dtype = functools.partial(_of_two, is_inexact=True)


def _analytic(name: str, op: StdTensorOp, formula: str) -> Any:
    """Return a function of one argument that applies `op`; integers and bools are first converted to floats."""

    @_documented(
        name, formula, "float and complex; integers and bool are converted to floats, as in NumPy"
    )
    @elementwise
    def function(x: ArrayLike, /) -> Any:
        x = as_operand(x)
        return apply_one(op, convert(x, inexact_dtype(spec_of(x).dtype)))

    return function


def _arithmetic(name: str, op: StdTensorOp, formula: str) -> Any:
    """Return a function of two arguments that applies `op` in their common dtype."""

    @_documented(name, formula, "numeric, in the common dtype")
    @_in_common_dtype
    def function(x1: Any, x2: Any, /) -> Any:
        return apply_one(op, *promote(x1, x2))

    return function


def _comparison(name: str, direction: str, formula: str) -> Any:
    op = ops.Compare(direction)
    of_numbers = getattr(operator, direction.lower())

    def of_two(x1: Any, x2: Any, /) -> Any:
        lhs, rhs = promote(x1, x2)
        # The common dtype of uint64 and signed integers is float64, which rounds large integers. In this case `promote`
        # converts both operands, which is cheap to test, so it is tested first.
        if lhs is not x1 and rhs is not x2 and of_both_signs(x1, x2):
            return _compared_by_bits(op, x1, x2)
        return apply_one(op, lhs, rhs)

    compared: Any = _in_common_dtype(of_two)

    @_documented(
        name,
        formula,
        "any, in the common dtype; Python ints, and uint64 with signed integers, are compared exactly; "
        "the result is bool",
    )
    @functools.wraps(compared)
    def function(x1: Any, x2: Any, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
        # A Python int outside the range of the dtype is above, or below, all elements, so all elements of the result
        # are equal.
        if type(x2) is int and _is_outside(x2, x1):
            return (equal if of_numbers(0, x2) else not_equal)(x1, x1, out, **options)
        if type(x1) is int and _is_outside(x1, x2):
            return (equal if of_numbers(x1, 0) else not_equal)(x2, x2, out, **options)
        return compared(x1, x2, out, **options)

    return function


def _is_outside(number: int, x: Any) -> bool:
    """Return whether x has an integer dtype that cannot represent the number."""
    if 0 <= number <= 127:
        return False
    dtype = DType.Bool if is_weak(x) else spec_of(as_operand(x)).dtype
    if not dtype.is_integer:
        return False
    least, most = dtype.extremes
    return not least <= number <= most


def of_both_signs(x1: ArrayLike, x2: ArrayLike) -> bool:
    """Return whether one operand is uint64 and the other a signed integer, so that their common dtype is a float."""
    dtypes = [spec_of(as_operand(x)).dtype for x in (x1, x2) if not is_weak(x)]
    return DType.U64 in dtypes and any([dtype.kind == "i" for dtype in dtypes])


def bits64(x: ArrayLike) -> Any:
    """Return the 64 bits of integers as int64; for uint64, numbers from 2^63 on become negative."""
    x = as_operand(x)
    if spec_of(x).dtype is DType.U64:
        return apply_one(ops.BitcastConvert(DType.I64), x)
    return convert(x, DType.I64)


def as_int64(x: Tensor) -> Any:
    """Convert integers to int64; uint64 numbers above the range of int64 are clamped to its maximum."""
    if spec_of(x).dtype is DType.U64:
        x = minimum(x, np.uint64(np.iinfo(np.int64).max))
    return convert(x, DType.I64)


def _compared_by_bits(op: ops.Compare, x1: ArrayLike, x2: ArrayLike) -> Any:
    """Compare uint64 with signed integers exactly, by comparing their bits as unsigned integers.

    Where the signed operand is negative, it is smaller: the result there is that of comparing -1 with 0.
    """
    bits = broadcast_arrays(bits64(x1), bits64(x2))
    unsigned = apply_one(op, *[apply_one(ops.BitcastConvert(DType.U64), x) for x in bits])
    is_first = spec_of(as_operand(x1)).dtype.kind == "i"
    below = apply_one(op, *np.array([-1, 0] if is_first else [0, -1]))
    return where(less(bits[0] if is_first else bits[1], 0), below, unsigned)


def _bitwise(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "bool and integers, in the common dtype")
    @_in_common_dtype
    def function(x1: Any, x2: Any, /) -> Any:
        return apply_one(op, *promote(x1, x2))

    return function


def _logical(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "any; nonzero elements count as true")
    @elementwise
    def function(x1: Any, x2: Any, /) -> Any:
        return apply_one(op, *promote(_truth(x1), _truth(x2)))

    return function


def _truth(x: ArrayLike) -> Any:
    return convert(as_operand(x), DType.Bool)


# ---- arithmetic ----------------------------------------------------------------------------------

add = _arithmetic("add", ops.Add(), "x1 + x2.")
multiply = _arithmetic("multiply", ops.Multiply(), "x1 x2.")
maximum = _arithmetic("maximum", ops.Maximum(), "The larger of x1 and x2; NaN where either is NaN.")
minimum = _arithmetic(
    "minimum", ops.Minimum(), "The smaller of x1 and x2; NaN where either is NaN."
)


@elementwise
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Compute the remainder of x1 / x2 with the sign of x1. For integers, it is 0 where x2 is 0.

    >>> fmod([-7, 7], [3, 0])
    array([-1,  0])
    """
    lhs, rhs = promote(x1, x2)
    is_known_nonzero = not is_traced(rhs) and np.all(np.asarray(rhs) != 0)
    if not spec_of(lhs).dtype.is_integer or is_known_nonzero:
        return apply_one(ops.Remainder(), lhs, rhs)
    is_zero = equal(rhs, 0)
    return where(is_zero, 0, apply_one(ops.Remainder(), lhs, where(is_zero, 1, rhs)))


@_in_common_dtype
def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 - x2.

    Raises:
        DTypeError: both operands are bools, as in NumPy; use `logical_xor`.
    """
    lhs, rhs = promote(x1, x2)
    if spec_of(lhs).dtype.is_bool:
        raise DTypeError("subtract: bool has no difference; use logical_xor")
    return apply_one(ops.Subtract(), lhs, rhs)


@_in_inexact_dtype
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 / x2. Integers and bools are divided in float64, as in NumPy."""
    common = result_type(x1, x2)
    dtype = common if common.is_inexact else DType.F64
    return apply_one(ops.Divide(), *promote(x1, x2, dtype=dtype))


@_in_common_dtype
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """floor(x1 / x2), the largest integer not above the quotient. For integers, it is 0 where x2 is 0.

    For floats the quotient is consistent with `remainder`: x1 = x2 floor_divide(x1, x2) + remainder(x1, x2).
    """
    lhs, rhs = promote(x1, x2)
    dtype = spec_of(lhs).dtype
    if dtype.is_bool:
        lhs, rhs, dtype = convert(lhs, DType.I8), convert(rhs, DType.I8), DType.I8
    if dtype.is_integer:
        quotient = apply_one(ops.Divide(), lhs, rhs)
        if dtype.kind == "i":
            left_over = apply_one(ops.Remainder(), lhs, rhs)
            lower = logical_and(
                not_equal(left_over, 0), not_equal(less(left_over, 0), less(rhs, 0))
            )
            quotient = subtract(quotient, convert(lower, dtype))
        return where(equal(rhs, 0), 0, quotient)
    lhs, rhs = convert(lhs, dtype.accumulator), convert(rhs, dtype.accumulator)
    # Subtract the remainder that has the sign of x1. If x1 minus the other remainder were computed, it might overflow.
    left_over = apply_one(ops.Remainder(), lhs, rhs)
    ratio = divide(lhs, rhs)
    truncated = divide(subtract(lhs, left_over), rhs)
    is_above = logical_and(not_equal(left_over, 0), not_equal(less(left_over, 0), less(rhs, 0)))
    quotient = where(is_above, subtract(truncated, 1), truncated)
    whole = floor(quotient)
    nearest = where(greater(subtract(quotient, whole), 0.5), add(whole, 1), whole)
    exact = where(equal(quotient, 0), multiply(0.0, ratio), nearest)
    return convert(where(equal(rhs, 0), ratio, exact), dtype)


@_in_common_dtype
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """x1 - x2 floor(x1 / x2): the remainder with the sign of x2, as Python's %.

    An integer modulo 0 is 0, as in NumPy.
    """
    lhs, rhs = promote(x1, x2)
    dtype = spec_of(lhs).dtype
    if dtype.is_bool:
        lhs, rhs, dtype = convert(lhs, DType.I8), convert(rhs, DType.I8), DType.I8
    left_over = apply_one(ops.Remainder(), lhs, rhs)
    if dtype.kind == "u":
        return where(equal(rhs, 0), 0, left_over)
    opposite = not_equal(less(left_over, 0), less(rhs, 0))
    adjusted = where(logical_and(not_equal(left_over, 0), opposite), add(left_over, rhs), left_over)
    if dtype.is_integer:
        return where(equal(rhs, 0), 0, adjusted)
    # A zero remainder gets the sign of x2. 0 - x is 0.0 for both zeros x and, in contrast to |x|, differentiable there.
    negated = apply_one(ops.Subtract(), *promote(0, left_over, dtype=dtype))
    signed = where(signbit(rhs), negative(negated), subtract(0, negated))
    return where(equal(left_over, 0), signed, adjusted)


def pow(x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return x1^x2. If x2 is the Python number 1, 2 or 3, it is computed by products.

    An integer to a negative integer power is 1 / x1^|x2| if this is an integer, otherwise 0.
    """
    refuse_options("pow", options, out)
    if type(x2) is int and 0 < x2 <= 3 and not isinstance(x1, int | float | complex | bool):
        base = as_operand(x1)
        if not spec_of(base).dtype.is_bool:
            result = base
            for _ in range(x2 - 1):
                result = apply_one(ops.Multiply(), result, base)
            return result
    lhs, rhs = promote(x1, x2)
    if spec_of(lhs).dtype.is_bool:
        lhs, rhs = convert(lhs, DType.I8), convert(rhs, DType.I8)
    return apply_one(ops.Power(), lhs, rhs)


@elementwise
def negative(x: ArrayLike, /) -> Any:
    """-x.

    Raises:
        DTypeError: x is bool.
    """
    return apply_one(ops.Negate(), as_operand(x))


def positive(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return x unchanged; x has a numeric dtype."""
    refuse_options("positive", options, out)
    x = as_operand(x)
    if spec_of(x).dtype.is_bool:
        raise DTypeError("positive: bool has no sign")
    return copied(x)


@elementwise
def square(x: ArrayLike, /) -> Any:
    """Return x^2."""
    x = as_operand(x)
    return apply_one(ops.Multiply(), x, x)


def reciprocal(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """1 / x; for integers the result is float64."""
    refuse_options("reciprocal", options, out)
    return divide(1, x)


def abs(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """|x|; for complex x the modulus, in the dtype of its real part."""
    if options or out is not None:
        refuse_options("abs", options, out)
    x = as_operand(x)
    return copied(x) if spec_of(x).dtype.is_bool else apply_one(ops.Abs(), x)


@elementwise
def sign(x: ArrayLike, /) -> Any:
    """Return the sign of x: -1, 0 or 1. For complex x it is x / |x|, and 0 where x is 0.

    The sign of -0.0 is 0.0, as in NumPy.
    """
    x = as_operand(x)
    result = apply_one(ops.Sign(), x)
    return where(equal(x, 0), 0, result) if spec_of(x).dtype.is_float else result


def clip(
    a: ArrayLike, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: None = None, *, min: Any = None, max: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    """min(max(a, `min`), `max`) in the common dtype; None means no bound. NaN if `a` or a bound is NaN.

    The derivative with respect to `a` is 1 strictly between the bounds, and 0 at a bound and beyond it. The derivative
    with respect to a bound is 1 where `a` is strictly beyond that bound.

    Args:
        a_min, a_max: NumPy's names for `min` and `max`.

    Raises:
        DTypeError: an operand is complex, or the dtype cannot represent a bound that is a Python int.
        ShapeError: a bound does not broadcast with `a`.
        InvalidConfigError: a bound is passed under both of its names.

    >>> clip([-1.0, 0.5, 2.0], 0.0), clip([1, 2, 3], max=2.5)
    (array([0. , 0.5, 2. ]), array([1. , 2. , 2.5]))
    """
    if out is not None or options:
        refuse_options("clip", {"out": out, **options})
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise InvalidConfigError("clip: a_min and min name one bound, and so do a_max and max")
    x, min, max = a, a_min if min is None else min, a_max if max is None else max
    # A bound beyond all numbers of an integer dtype has no effect. It is removed, because the dtype cannot represent
    # it.
    if type(min) is int and min < 0 and _is_outside(min, x):
        min = None
    if type(max) is int and max > 0 and _is_outside(max, x):
        max = None
    return _clipped(x, promote_number(x, min)[1], promote_number(x, max)[1])


def clamp_min(x: ArrayLike, bound: ArrayLike, /) -> Any:
    """max(x, bound) as in `clip`. The derivative is 0 where x equals the bound.

    >>> clamp_min([-1.0, 0.5], 0.0)
    array([0. , 0.5])
    """
    return clip(x, min=bound)


def clamp_max(x: ArrayLike, bound: ArrayLike, /) -> Any:
    """min(x, bound) as in `clip`. The derivative is 0 where x equals the bound.

    >>> clamp_max([-1.0, 0.5], 0.0)
    array([-1.,  0.])
    """
    return clip(x, max=bound)


@planned
def _clipped(x: Any, min: ArrayLike | None, max: ArrayLike | None) -> Any:
    x = as_operand(x)
    if min is max is None:
        return copied(x)
    dtype = result_type(*[operand for operand in (x, min, max) if operand is not None])
    if dtype.is_complex:
        raise DTypeError(f"clip: complex numbers have no order: the operands are {dtype}")
    # For a single bound, x is passed as a bound of Clamp, and the bound as its operand. If the missing bound were the
    # extreme of the dtype, an infinite x would be at that bound, and its derivative would be 0.
    least, most = dtype.extremes
    operands: tuple[Any, ...]
    if max is None:
        operands = (min, x, most)
    elif min is None:
        operands = (max, least, x)
    else:
        operands = (x, min, max)
    return apply_one(ops.Clamp(), *promote(*operands, dtype=dtype))


@_in_inexact_dtype
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """sqrt(x1^2 + x2^2) without overflow; infinite where an operand is infinite.

    The derivatives are x1 / y and x2 / y, where y is the result. This also holds where |x1| = |x2|, and where one
    operand is zero or infinite. Where both are zero, the derivatives are 0.

    Raises:
        DTypeError, ShapeError: an operand is complex, or the operands do not broadcast.
    """
    dtype = inexact_dtype(result_type(x1, x2))
    if dtype.is_complex:
        raise DTypeError(f"hypot: takes real numbers, got {dtype}")
    lhs, rhs = [convert(x, dtype.accumulator) for x in promote(x1, x2, dtype=dtype)]
    # Select the larger magnitude by `where`, because at ties `maximum` has another derivative.
    rhs_is_large = logical_or(less(abs(lhs), abs(rhs)), isinf(rhs))
    large, small = where(rhs_is_large, rhs, lhs), where(rhs_is_large, lhs, rhs)
    # Where an operand is infinite, the result is its magnitude. A derivative of the product below would be infinity
    # times 0, which is NaN.
    is_infinite = isinf(large)
    finite = where(is_infinite, 1, large)
    ratio = where(is_infinite, 0, divide(small, where(equal(finite, 0), 1, finite)))
    length = multiply(abs(finite), sqrt(add(1, square(ratio))))
    return convert(where(is_infinite, abs(large), length), dtype)


@_in_inexact_dtype
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """|x1| with the sign of x2, also where x2 is -0.0 or NaN."""
    dtype = inexact_dtype(result_type(x1, x2))
    lhs, rhs = promote(x1, x2, dtype=dtype)
    magnitude = abs(lhs)
    return where(signbit(rhs), negative(magnitude), magnitude)


@elementwise
def signbit(x: ArrayLike, /) -> Any:
    """Return whether the sign bit of x is set, as in negative numbers and -0.0."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if not dtype.is_float:
        return less(x, 0)
    return less(_bits(x), 0)


def _bits(x: Tensor) -> Any:
    """Return the bits of floats as signed integers of the same width."""
    width = {2: DType.I16, 4: DType.I32, 8: DType.I64}[spec_of(x).dtype.itemsize]
    return apply_one(ops.BitcastConvert(width), x)


@_in_inexact_dtype
def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Return the next number after x1 towards x2; x2 if they are equal, NaN if either is NaN.

    The bits are incremented as integers, so that the result may be subnormal also where float arithmetic flushes
    subnormal numbers to zero.

    Dtypes: real floats, in the common dtype; integers are converted to floats, as in NumPy.

    Raises:
        DTypeError, ShapeError: an operand is complex, or the operands do not broadcast.

    >>> nextafter(np.float32(1), np.float32(2)) - 1
    np.float32(1.1920929e-07)
    """
    dtype = inexact_dtype(result_type(x1, x2))
    if dtype.is_complex:
        raise DTypeError(f"nextafter: complex numbers have no order, got {dtype}")
    lhs, rhs = promote(x1, x2, dtype=dtype)
    start, end = _bits(lhs), _bits(rhs)
    # Map the bits to integers that are ordered like the floats: negative floats count downwards from zero.
    lowest = np.iinfo(spec_of(start).dtype.dtype).min
    here = where(less(start, 0), subtract(lowest, start), start)
    there = where(less(end, 0), subtract(lowest, end), end)
    step = where(less(here, there), *np.array([1, -1], spec_of(here).dtype.dtype))
    successor = add(here, step)
    is_negative = logical_or(less(successor, 0), logical_and(equal(successor, 0), less(start, 0)))
    # Select bits, not floats, because a compiler may flush subnormal floats to zero.
    bits = where(is_negative, subtract(lowest, successor), successor)
    bits = where(equal(here, there), end, bits)
    bits = where(logical_or(isnan(lhs), isnan(rhs)), _bits(add(lhs, rhs)), bits)
    return apply_one(ops.BitcastConvert(dtype), bits)


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
def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Compute the angle of the point (x2, x1), in radians from -pi to pi."""
    return apply_one(analytic.Atan2(), *promote(x1, x2, dtype=inexact_dtype(result_type(x1, x2))))


@elementwise
def log2(x: ArrayLike, /) -> Any:
    """Compute the logarithm of x to base 2."""
    return _scaled_logarithm(x, 1.4426950408889634)


@elementwise
def log10(x: ArrayLike, /) -> Any:
    """Compute the logarithm of x to base 10."""
    return _scaled_logarithm(x, 0.4342944819032518)


def _scaled_logarithm(x: ArrayLike, factor: float) -> Any:
    x = as_operand(x)
    dtype = inexact_dtype(spec_of(x).dtype)
    return convert(_scaled(log(convert(x, dtype.accumulator)), factor), dtype)


def _scaled(x: Tensor, factor: float) -> Any:
    """Multiply x by a real factor.

    For complex x, each part is multiplied separately, so that an infinite part does not make the other part NaN.
    """
    if not spec_of(x).dtype.is_complex:
        return multiply(x, factor)
    parts = (apply_one(part(), x) for part in (ops.Real, ops.Imag))
    return apply_one(ops.Complex(), *[multiply(part, factor) for part in parts])


@elementwise
def exp2(x: ArrayLike, /) -> Any:
    """2^x."""
    x = as_operand(x)
    x = convert(x, inexact_dtype(spec_of(x).dtype))
    return exp(_scaled(x, math.log(2))) if spec_of(x).dtype.is_complex else pow(2.0, x)


# ---- rounding ------------------------------------------------------------------------------------


def _rounding(name: str, op: StdTensorOp, formula: str) -> Any:
    @_documented(name, formula, "real; integers and bool are returned unchanged")
    @elementwise
    def function(x: ArrayLike, /) -> Any:
        x = as_operand(x)
        return apply_one(op, x) if spec_of(x).dtype.is_inexact else copied(x)

    return function


floor = _rounding("floor", ops.Floor(), "The largest integer not above x.")
ceil = _rounding("ceil", ops.Ceil(), "The smallest integer not below x.")


@planned
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Any:
    """Round `a` to `decimals` decimals, halves to even; the parts of complex numbers are rounded separately.

    Bools are converted to float16, as in NumPy.

    Raises:
        InvalidConfigError: `decimals` is not an integer.
        UnsupportedError: `a` has integers, and `decimals` is below -18.

    >>> round([1.5, 2.5, -0.5]), round(3.14159, 2), round([15, 25], -1)
    (array([ 2.,  2., -0.]), array(3.14), array([20, 20]))
    """
    if out is not None:
        refuse("round", "out", out)
    x = as_operand(a)
    dtype = spec_of(x).dtype
    if dtype.is_bool:
        x, dtype = convert(x, DType.F16), DType.F16
    if type(decimals) is int and decimals == 0:
        return _rounded_to_integers(x)
    if isinstance(decimals, bool) or not hasattr(decimals, "__index__"):
        raise InvalidConfigError(f"round: decimals must be an integer, got {decimals!r}")
    decimals = operator.index(decimals)
    if not dtype.is_inexact and decimals >= 0:
        return copied(x)
    if not dtype.is_inexact:
        return _round_integers(x, -decimals)
    scale = convert(10.0 ** (decimals if decimals > 0 else -decimals), dtype)
    up, down = (multiply, divide) if decimals > 0 else (divide, multiply)
    return down(_rounded_to_integers(up(x, scale)), scale)


def _round_integers(x: Tensor, digits: int) -> Any:
    """Round integers to a multiple of 10^digits, halves to even.

    Results that do not fit the dtype wrap, as in NumPy.
    """
    if digits > 18:
        raise UnsupportedError(
            f"round: decimals={-digits} of {spec_of(x)}; convert it to a float dtype first"
        )
    dtype = spec_of(x).dtype
    wide = convert(x, DType.U64 if dtype is DType.U64 else DType.I64)
    scale = np.asarray(10**digits, spec_of(wide).dtype.dtype)
    count = floor_divide(wide, scale)
    low = subtract(wide, multiply(count, scale))
    high = subtract(scale, low)
    is_odd = equal(bitwise_and(count, np.asarray(1, scale.dtype)), np.asarray(1, scale.dtype))
    is_up = logical_or(greater(low, high), logical_and(equal(low, high), is_odd))
    return convert(multiply(add(count, convert(is_up, spec_of(wide).dtype)), scale), dtype)


def _rounded_to_integers(x: Tensor) -> Any:
    """Round to the nearest integer, halves to even; the parts of complex numbers are rounded separately."""
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return apply_one(
            ops.Complex(), *[apply_one(ops.RoundNearestEven(), part(x)) for part in (real, imag)]
        )
    return apply_one(ops.RoundNearestEven(), x) if dtype.is_float else copied(x)


@elementwise
def rint(x: ArrayLike, /) -> Any:
    """Round x to the nearest integer, halves to even; the result is float or complex.

    The parts of complex numbers are rounded separately.

    >>> rint(np.int32(3))
    array(3.)
    """
    x = as_operand(x)
    return _rounded_to_integers(convert(x, inexact_dtype(spec_of(x).dtype)))


@elementwise
def trunc(x: ArrayLike, /) -> Any:
    """Round x towards zero."""
    x = as_operand(x)
    if not spec_of(x).dtype.is_inexact:
        return copied(x)
    return where(signbit(x), apply_one(ops.Ceil(), x), apply_one(ops.Floor(), x))


# ---- complex -------------------------------------------------------------------------------------


def conj(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the complex conjugate; a real x is returned unchanged."""
    if options or out is not None:
        refuse_options("conj", options, out)
    x = as_operand(x)
    return apply_one(ops.Conj(), x) if spec_of(x).dtype.is_complex else copied(x)


def real(val: ArrayLike) -> Any:
    """Return the real part of `val`; if `val` is real, return it unchanged."""
    x = as_operand(val)
    return apply_one(ops.Real(), x) if spec_of(x).dtype.is_complex else x


def imag(val: ArrayLike) -> Any:
    """Return the imaginary part of `val`; zeros if `val` is real."""
    x = as_operand(val)
    return apply_one(ops.Imag(), x) if spec_of(x).dtype.is_inexact else bitwise_xor(x, x)


# ---- comparison and logic ------------------------------------------------------------------------

equal = _comparison("equal", "EQ", "x1 == x2.")
not_equal = _comparison("not_equal", "NE", "x1 != x2.")
less = _comparison("less", "LT", "x1 < x2.")
less_equal = _comparison("less_equal", "LE", "x1 <= x2.")
greater = _comparison("greater", "GT", "x1 > x2.")
greater_equal = _comparison("greater_equal", "GE", "x1 >= x2.")
logical_and = _logical("logical_and", ops.And(), "True where both x1 and x2 are true.")
logical_or = _logical("logical_or", ops.Or(), "True where x1 or x2 is true.")
logical_xor = _logical("logical_xor", ops.Xor(), "True where exactly one of x1 and x2 is true.")
bitwise_and = _bitwise("bitwise_and", ops.And(), "The bits that are set in both x1 and x2.")
bitwise_or = _bitwise("bitwise_or", ops.Or(), "The bits that are set in x1 or x2.")
bitwise_xor = _bitwise(
    "bitwise_xor", ops.Xor(), "The bits that are set in exactly one of x1 and x2."
)
bitwise_left_shift = _bitwise("bitwise_left_shift", ops.ShiftLeft(), "x1 shifted left by x2 bits.")


@elementwise
def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Shift x1 right by x2 bits; signed integers keep their sign, and unsigned integers are filled with zeros."""
    lhs, rhs = promote(x1, x2)
    signed = spec_of(lhs).dtype.kind == "i"
    return apply_one(ops.ShiftRightArithmetic() if signed else ops.ShiftRightLogical(), lhs, rhs)


@elementwise
def bitwise_invert(x: ArrayLike, /) -> Any:
    """Invert every bit of x."""
    return apply_one(ops.Not(), as_operand(x))


@elementwise
def bitwise_count(x: ArrayLike, /) -> Any:
    """Count the one bits of |x|, as uint8; the count for True is 1, as in NumPy.

    >>> bitwise_count([-7, 8])
    array([3, 1], dtype=uint8)
    """
    x = as_operand(x)
    if spec_of(x).dtype.is_bool:
        return convert(x, DType.U8)
    return convert(apply_one(ops.PopulationCount(), abs(x)), DType.U8)


@elementwise
def logical_not(x: ArrayLike, /) -> Any:
    """Return whether x is zero."""
    return apply_one(ops.Not(), _truth(x))


@elementwise
def isfinite(x: ArrayLike, /) -> Any:
    """Return whether x is neither infinite nor NaN."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return logical_and(isfinite(real(x)), isfinite(imag(x)))
    return apply_one(ops.IsFinite(), x) if dtype.is_float else equal(x, x)


@elementwise
def isnan(x: ArrayLike, /) -> Any:
    """Return whether x is NaN."""
    x = as_operand(x)
    return apply_one(ops.Compare("NE"), x, x)


@elementwise
def isinf(x: ArrayLike, /) -> Any:
    """Return whether x is infinite."""
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        return logical_or(isinf(real(x)), isinf(imag(x)))
    return equal(abs(x), float("inf")) if dtype.is_float else not_equal(x, x)


def where(condition: ArrayLike, x: Any, y: Any, /) -> Any:
    """Select elements of x where `condition` is true or nonzero, and elements of y elsewhere. All three broadcast.

    `tenferro.where` takes a condition alone, too.
    """
    return _selected(condition, *promote_number(x, y))


@planned
def _selected(condition: ArrayLike, x1: Tensor, x2: Tensor) -> Any:
    condition = _truth(condition)
    dtype = result_type(x1, x2)
    return apply_one(
        ops.Select(), *broadcast_arrays(condition, convert(x1, dtype), convert(x2, dtype))
    )


def polygamma(n: int, x: ArrayLike, /) -> Any:
    """Compute the n-th derivative of digamma."""
    x = as_operand(x)
    return apply_one(analytic.Polygamma(n), convert(x, inexact_dtype(spec_of(x).dtype)))


def angle(z: Any, deg: bool = False) -> Any:
    """Compute the phase of z, in radians from -pi to pi, or in degrees if `deg` is true.

    For a real dtype, the phase of a negative number is pi, and its derivative is 0.

    >>> angle(-2.0), angle(1j, True)
    (array(3.14159265), array(90.))
    """
    z = as_operand(z)
    dtype = spec_of(z).dtype
    if dtype.is_complex:
        radians = atan2(imag(z), real(z))
    else:
        # Bools are converted to float64, because NumPy computes arctan2(0, z) with 0 as an int64.
        z = convert(z, DType.F64 if dtype.is_bool else inexact_dtype(dtype))
        half_turn = multiply(convert(signbit(z), spec_of(z).dtype), math.pi)
        radians = where(isnan(z), float("nan"), half_turn)
    return multiply(radians, 180 / math.pi) if deg else radians


# ---- NumPy's other names -------------------------------------------------------------------------

absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
around = round
bitwise_not = bitwise_invert
conjugate = conj
invert = bitwise_invert
left_shift = bitwise_left_shift
mod = remainder
power = pow
right_shift = bitwise_right_shift
true_divide = divide
