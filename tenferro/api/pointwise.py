"""NumPy's elementwise functions that are composed of several ops.

Source: NumPy 2.4, reference, "Mathematical functions" and "Logic functions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import ml_dtypes
import numpy as np

from tenferro.api.arguments import refuse, refuse_options
from tenferro.api.elementwise import (
    abs,
    add,
    as_int64,
    clip,
    divide,
    equal,
    floor_divide,
    greater,
    imag,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    pow,
    real,
    remainder,
    right_shift,
    signbit,
    sin,
    subtract,
    trunc,
    where,
)
from tenferro.api.logarithms import in_one_float, logaddexp
from tenferro.api.promotion import (
    as_inexact,
    broadcast_shapes,
    convert,
    inexact_dtype,
    promote,
    result_type,
)
from tenferro.api.reductions import all as all_of
from tenferro.dispatch import apply_one, as_operand, copied, elements, spec_of, stop_gradient
from tenferro.errors import DTypeError, ShapeError
from tenferro.ops.elementwise import BitcastConvert, Complex
from tenferro.types import ArrayLike, DType, Tensor, UfuncOptions

__all__ = [
    "allclose", "array_equal", "array_equiv", "deg2rad", "degrees", "divmod", "fabs", "fix", "float_power", "fmax", "fmin", "frexp",
    "heaviside", "isclose", "iscomplex", "isneginf", "isposinf", "isreal", "ldexp", "logaddexp2", "modf", "nan_to_num", "rad2deg",
    "radians", "real_if_close", "select", "sinc", "spacing",
]  # fmt: skip


# ---- angles ------------------------------------------------------------------------------------------------------


def deg2rad(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Convert x degrees to radians: x pi / 180.

    >>> deg2rad(180.0)
    array(3.14159265)
    """
    refuse_options("deg2rad", options, out)
    return multiply(in_one_float("deg2rad", x)[0], math.pi / 180)


def rad2deg(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Convert x radians to degrees: 180 x / pi.

    >>> rad2deg(np.pi)
    array(180.)
    """
    refuse_options("rad2deg", options, out)
    return multiply(in_one_float("rad2deg", x)[0], 180 / math.pi)


degrees, radians = rad2deg, deg2rad


# ---- parts and powers of numbers ---------------------------------------------------------------------------------


def fabs(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return |x| of real x; integers are converted to floats.

    Raises:
        DTypeError: x is complex.

    >>> fabs(-2)
    array(2.)
    """
    refuse_options("fabs", options, out)
    return abs(in_one_float("fabs", x)[0])


def fix(x: ArrayLike, out: None = None) -> Any:
    """Round x towards zero.

    >>> fix([-1.5, 1.5])
    array([-1.,  1.])
    """
    refuse("fix", "out", out)
    return trunc(x)


def modf(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> tuple[Any, Any]:
    """Split real x into its fractional and its integral part, both with the sign of x.

    The parts of an infinity are 0 and the infinity.

    >>> modf(-1.5)
    (array(-0.5), array(-1.))
    """
    refuse_options("modf", options, out)
    x = in_one_float("modf", x)[0]
    whole = trunc(x)
    finite, finite_whole = (where(isinf(x), 0.0, part) for part in (x, whole))
    below = negative(subtract(finite_whole, finite))
    return where(signbit(x), below, subtract(finite, finite_whole)), whole


def divmod(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> tuple[Any, Any]:
    """Return the pair of floor_divide(x1, x2) and remainder(x1, x2).

    >>> divmod(7, 3)
    (array(2), array(1))
    """
    refuse_options("divmod", options, out)
    return floor_divide(x1, x2), remainder(x1, x2)


def float_power(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """Return x1^x2, computed in float64 or, for complex operands, in complex128.

    >>> float_power(2, -1)
    array(0.5)
    """
    refuse_options("float_power", options, out)
    dtype = DType.C64 if result_type(x1, x2).is_complex else DType.F64
    return pow(convert(x1, dtype), convert(x2, dtype))


def ldexp(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """x1 2^x2 for integers x2, rounded once.

    The result is also finite if 2^x2 overflows but the product does not.

    Raises:
        DTypeError: x1 is complex, or x2 is not an integer.

    >>> ldexp(0.75, 2)
    array(3.)
    """
    refuse_options("ldexp", options, out)
    x, exponent = in_one_float("ldexp", x1)[0], as_operand(x2)
    dtype = spec_of(x).dtype
    if spec_of(exponent).dtype.is_inexact:
        raise DTypeError(f"ldexp: x2 must be integers, got {spec_of(exponent)}")
    limits = ml_dtypes.finfo(dtype.accumulator.dtype)
    least, most = int(limits.minexp), int(limits.maxexp) - 1
    reach = 3 * most
    x, exponent = convert(x, dtype.accumulator), clip(as_int64(exponent), -reach, reach)
    for _ in range(2):
        # Scale down by a limited factor per step. A number that loses digits in a step underflows in the next step
        # anyway, so results are rounded only once.
        step = where(less(exponent, least), least + limits.nmant + 1, minimum(exponent, most))
        x, exponent = multiply(x, _power_of_two(step, limits)), subtract(exponent, step)
    return convert(multiply(x, _power_of_two(clip(exponent, least, most), limits)), dtype)


def frexp(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> tuple[Any, Any]:
    """Return m and the int32 exponent e with x = m 2^e and 0.5 <= |m| < 1.

    For zeros, infinities and NaN, m is x and e is 0. The derivative of m is that of x 2^-e at constant e.

    Raises:
        DTypeError: x is complex.

    >>> frexp(6.0)
    (array(0.75), array(3, dtype=int32))

    Source: NumPy 2.4, reference, numpy.frexp.
    """
    refuse_options("frexp", options, out)
    x = in_one_float("frexp", x)[0]
    dtype = spec_of(x).dtype
    limits = ml_dtypes.finfo(dtype.accumulator.dtype)
    bits, digits = (DType.I32 if dtype.accumulator is DType.F32 else DType.I64), int(limits.nmant)
    # Read the bits of a subnormal number as an integer, and convert this integer to a normal number, because arithmetic
    # may flush subnormal numbers to zero.
    y = convert(stop_gradient(x), dtype.accumulator)
    pattern = apply_one(BitcastConvert(bits), abs(y))
    field = right_shift(pattern, digits)
    is_subnormal = equal(field, 0)
    scaled = apply_one(BitcastConvert(bits), convert(pattern, dtype.accumulator))
    exponent = where(
        is_subnormal,
        add(right_shift(scaled, digits), 2 * int(limits.minexp) - digits),
        add(field, int(limits.minexp)),
    )
    is_ordinary = logical_and(isfinite(y), not_equal(pattern, 0))
    exponent = convert(where(is_ordinary, exponent, 0), DType.I32)
    return where(is_ordinary, ldexp(x, negative(exponent)), x), exponent


def spacing(x: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the distance from real x to the next number away from 0, with x's sign; NaN for infinities and NaN.

    Raises:
        DTypeError: x is complex.

    >>> spacing(1.0)
    array(2.22044605e-16)
    """
    refuse_options("spacing", options, out)
    x = stop_gradient(in_one_float("spacing", x)[0])
    away = nextafter(x, convert(where(less(x, 0), -math.inf, math.inf), spec_of(x).dtype))
    return where(isfinite(x), subtract(away, x), math.nan)


def isposinf(x: ArrayLike, out: None = None) -> Any:
    """Return whether real x is positive infinity.

    Raises:
        DTypeError: x is complex.

    >>> isposinf([1.0, math.inf, -math.inf])
    array([False,  True, False])
    """
    refuse("isposinf", "out", out)
    return logical_and(isinf(_real("isposinf", x)), logical_not(_is_negative(x)))


def isneginf(x: ArrayLike, out: None = None) -> Any:
    """Return whether real x is negative infinity.

    Raises:
        DTypeError: x is complex.

    >>> isneginf([1.0, math.inf, -math.inf])
    array([False, False,  True])
    """
    refuse("isneginf", "out", out)
    return logical_and(isinf(_real("isneginf", x)), _is_negative(x))


def _real(name: str, x: ArrayLike) -> Any:
    x = as_operand(x)
    if spec_of(x).dtype.is_complex:
        raise DTypeError(f"{name}: complex numbers have no sign, got {spec_of(x)}")
    return x


def _is_negative(x: ArrayLike) -> Any:
    return less(as_operand(x), 0)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Any:
    """Return whether the operands broadcast together and all their elements are equal, as a bool of rank 0.

    >>> array_equiv([1, 2], [[1, 2], [1, 2]]), array_equiv([1, 2], [1, 2, 3])
    (array(True), array(False))
    """
    lhs, rhs = as_operand(a1), as_operand(a2)
    try:
        broadcast_shapes(lhs.shape, rhs.shape)
    except ShapeError:
        return as_operand(np.bool_(False))
    return all_of(equal(lhs, rhs))


def _power_of_two(exponent: Tensor, limits: Any) -> Any:
    """Compute 2^n by its bit pattern, for integers n in the range of exponents of a dtype."""
    dtype = DType.of(limits.dtype)
    bits = convert(
        add(exponent, 1 - int(limits.minexp)), DType.I32 if dtype is DType.F32 else DType.I64
    )
    return apply_one(BitcastConvert(dtype), left_shift(bits, int(limits.nmant)))


def sinc(x: ArrayLike) -> Any:
    """sin(pi x) / (pi x), and 1 at 0. Derivatives of every order are also correct at 0. Integers become float64.

    >>> sinc([0.0, 0.5, 1.0])
    array([1.00000000e+00, 6.36619772e-01, 3.89817183e-17])
    """
    x = as_inexact(x)
    dtype = spec_of(x).dtype
    y = multiply(convert(x, dtype.accumulator), math.pi)
    is_small = less(abs(y), 0.5)
    square = where(is_small, multiply(y, y), 0.0)
    large = where(is_small, 1.0, y)
    # For |y| < 0.5, sum the series of (-y^2)^k / (2k + 1)! up to k = 10. Further terms are below rounding.
    series: Any = 1.0
    for k in range(10, 0, -1):
        series = subtract(1.0, multiply(multiply(square, series), 1 / (2 * k * (2 * k + 1))))
    return convert(where(is_small, series, divide(sin(large), large)), dtype)


def heaviside(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """Return 0 where x1 is negative, x2 where x1 is zero, 1 where x1 is positive, and NaN where x1 is NaN.

    >>> heaviside([-1.0, 0.0, 1.0], 0.5)
    array([0. , 0.5, 1. ])
    """
    refuse_options("heaviside", options, out)
    lhs, rhs = promote(x1, x2, dtype=inexact_dtype(result_type(x1, x2)))
    step = where(isnan(lhs), lhs, convert(greater(lhs, 0), spec_of(lhs).dtype))
    return where(equal(lhs, 0), rhs, step)


def logaddexp2(
    x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]
) -> Any:
    """log2(2^x1 + 2^x2) without overflow.

    Raises:
        DTypeError: an operand is complex.

    >>> logaddexp2(1.0, 1.0)
    array(2.)
    """
    refuse_options("logaddexp2", options, out)
    lhs, rhs = in_one_float("logaddexp2", x1, x2)
    dtype, scale = spec_of(lhs).dtype, math.log(2.0)
    lhs, rhs = [multiply(convert(x, dtype.accumulator), scale) for x in (lhs, rhs)]
    return convert(divide(logaddexp(lhs, rhs), scale), dtype)


def real_if_close(a: ArrayLike, tol: float = 100) -> Any:
    """Return the real part of `a` if every imaginary part is near zero, otherwise `a`.

    Args:
        tol: the largest imaginary part that counts as near zero: in multiples of eps if `tol` is above 1, else
            absolute.

    Raises:
        DataDependentShapeError: `a` is complex and traced, so that the dtype of the result is unknown; use `real`.

    >>> real_if_close([1.0 + 1e-15j])
    array([1.])
    """
    x = as_operand(a)
    dtype = spec_of(x).dtype
    if not dtype.is_complex:
        return copied(x)
    bound = tol * float(ml_dtypes.finfo(dtype.real.dtype).eps) if tol > 1 else tol
    parts = np.imag(elements(x, "real_if_close", "use real(x), or x itself"))
    return real(x) if bool((np.abs(parts) < bound).all()) else copied(x)


# ---- extremes, NaN and infinities --------------------------------------------------------------------------------


def _extreme(of_two: Callable[..., Any], x1: ArrayLike, x2: ArrayLike) -> Any:
    lhs, rhs = promote(x1, x2)
    either = of_two(where(isnan(lhs), rhs, lhs), where(isnan(rhs), lhs, rhs))
    return where(isnan(lhs), rhs, where(isnan(rhs), lhs, either))


def fmax(x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the larger of x1 and x2. If one of them is NaN, return the other.

    >>> fmax([1.0, np.nan], [2.0, 3.0])
    array([2., 3.])
    """
    refuse_options("fmax", options, out)
    return _extreme(maximum, x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike, /, out: None = None, **options: Unpack[UfuncOptions]) -> Any:
    """Return the smaller of x1 and x2. If one of them is NaN, return the other.

    >>> fmin([1.0, np.nan], [2.0, 3.0])
    array([1., 3.])
    """
    refuse_options("fmin", options, out)
    return _extreme(minimum, x1, x2)


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:  # fmt: skip
    """Replace NaN and infinities in x by numbers. The derivative at replaced elements is 0.

    Args:
        copy: no effect.
        nan: the number that replaces NaN.
        posinf, neginf: the numbers that replace positive and negative infinity; by default the largest and the least
            finite number of the dtype.

    >>> nan_to_num([np.nan, np.inf, 1.0], posinf=9.0)
    array([0., 9., 1.])
    """
    x = as_operand(x)
    dtype = spec_of(x).dtype
    if dtype.is_complex:
        parts = [nan_to_num(part(x), copy, nan, posinf, neginf) for part in (real, imag)]
        return apply_one(Complex(), *parts)
    if not dtype.is_float:
        return copied(x)
    limits = ml_dtypes.finfo(dtype.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    x = where(isnan(x), nan, x)
    x = where(equal(x, math.inf), high, x)
    return where(equal(x, -math.inf), low, x)


def isreal(x: ArrayLike) -> Any:
    """Return, for each element of x, whether its imaginary part is zero.

    >>> isreal([1 + 0j, 1j])
    array([ True, False])
    """
    return equal(imag(x), 0)


def iscomplex(x: ArrayLike) -> Any:
    """Return, for each element of x, whether its imaginary part is not zero.

    >>> iscomplex([1 + 0j, 1j])
    array([False,  True])
    """
    return not_equal(imag(x), 0)


# ---- equality ----------------------------------------------------------------------------------------------------


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Return whether |a - b| <= atol + rtol |b|. Equal infinities are close; if `equal_nan`, NaN and NaN are close.

    >>> isclose([1.0, np.inf], [1.0 + 1e-9, np.inf])
    array([ True,  True])
    """
    x, y = as_operand(a), as_operand(b)
    y = convert(y, result_type(y, 1.0)) if not spec_of(y).dtype.is_inexact else y
    bound = add(atol, multiply(rtol, abs(y)))
    near = logical_and(isfinite(y), less_equal(abs(subtract(x, y)), bound))
    result = logical_or(near, equal(x, y))
    return logical_or(result, logical_and(isnan(x), isnan(y))) if equal_nan else result


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Any:
    """Return whether all elements of a and b are close, as a bool of rank 0; `isclose` describes the arguments.

    >>> allclose([1.0, 2.0], [1.0, 2.1])
    array(False)
    """
    return all_of(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Any:
    """Return whether both arrays have the same shape and equal elements, as a bool of rank 0.

    If `equal_nan`, NaN equals NaN.

    >>> array_equal([1, 2], [1, 2]), array_equal([1, 2], [1])
    (array(True), array(False))
    """
    x, y = as_operand(a1), as_operand(a2)
    if tuple(x.shape) != tuple(y.shape):
        return np.array(False)
    same = equal(x, y)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(x), isnan(y)))
    return all_of(same)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Any:
    """Select each element from the choice of the first condition that is true, or from `default` if none is true.

    All conditions and choices broadcast.

    Raises:
        ShapeError: the numbers of conditions and choices differ, or there are none.
        DTypeError: a condition is not bool.

    >>> select([[True, False, False], [True, True, False]], [1, 2], 3)
    array([1, 2, 3])
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    conditions = [as_operand(condition) for condition in condlist]
    for condition in conditions:
        if not spec_of(condition).dtype.is_bool:
            raise DTypeError(f"select: conditions must be bool, got {spec_of(condition)}")
    scalars = (bool, int, float, complex)
    choices = [x if isinstance(x, scalars) else as_operand(x) for x in (*choicelist, default)]
    dtype = result_type(*choices)
    result = convert(choices[-1], dtype)
    for condition, choice in zip(reversed(conditions), reversed(choices[:-1]), strict=True):
        result = where(condition, convert(choice, dtype), result)
    return result
