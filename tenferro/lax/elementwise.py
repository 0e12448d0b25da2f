"""Elementwise functions with jax.lax's names. Each is one op, on operands of one dtype and one shape.

Source: jax.lax, "Operators".
"""

from __future__ import annotations

import enum
import operator
from typing import Any

from tenferro.api import elementwise as surface
from tenferro.api.creation import ones_like
from tenferro.api.promotion import broadcast_to, convert
from tenferro.dispatch import apply_one, as_operand, spec_of, strong
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.lax.operands import same_dtype, same_types
from tenferro.ops import StdTensorOp, analytic
from tenferro.ops import elementwise as ops
from tenferro.types import ArrayLike, DType, DTypeLike

__all__ = [
    "RoundingMethod",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitcast_convert_type",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "clz",
    "complex",
    "conj",
    "convert_element_type",
    "cos",
    "cosh",
    "digamma",
    "div",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "population_count",
    "pow",
    "real",
    "reciprocal",
    "reduce_precision",
    "rem",
    "round",
    "rsqrt",
    "select",
    "select_n",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
]


def _named(function: Any, name: str, formula: str, dtypes: str, result: str = "") -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{formula}\n\nDtypes: {dtypes}; the dtype of the result is {result or 'that of the operands'}.\n\n"
        "Raises:\n    DTypeError, ShapeError: a dtype is another one, or operands have different dtypes or shapes.\n"
    )
    return function


def _unary(name: str, op: StdTensorOp, formula: str, dtypes: str = "float and complex") -> Any:
    def function(x: Any) -> Any:
        return apply_one(op, as_operand(x))

    return _named(function, name, formula, dtypes)


def _binary(name: str, op: StdTensorOp, formula: str, dtypes: str = "numeric") -> Any:
    def function(x: Any, y: Any) -> Any:
        return apply_one(op, *same_types(name, x, y))

    return _named(function, name, formula, dtypes)


def _comparison(name: str, direction: str, formula: str) -> Any:
    op = ops.Compare(direction)

    def function(x: Any, y: Any) -> Any:
        return apply_one(op, *same_types(name, x, y))

    return _named(function, name, formula, "any, but complex dtypes only for eq and ne", "bool")


INTEGERS, BITS, REAL = "integers", "bool and integers", "real"

add = _binary("add", ops.Add(), "x + y.")
sub = _binary("sub", ops.Subtract(), "x - y.")
mul = _binary("mul", ops.Multiply(), "x times y.")
div = _binary(
    "div", ops.Divide(), "x / y; an integer quotient is rounded towards 0, and is -1 where y is 0."
)
rem = _binary("rem", ops.Remainder(), "The remainder of x / y, with the sign of x.")
max = _binary("max", ops.Maximum(), "The larger of x and y; NaN where x or y is NaN.", REAL)
min = _binary("min", ops.Minimum(), "The smaller of x and y; NaN where x or y is NaN.", REAL)
atan2 = _binary("atan2", analytic.Atan2(), "The angle of the point (y, x), in radians.", "float")
bitwise_and = _binary("bitwise_and", ops.And(), "The bits that are set in both x and y.", BITS)
bitwise_or = _binary("bitwise_or", ops.Or(), "The bits that are set in x or y, or in both.", BITS)
bitwise_xor = _binary(
    "bitwise_xor", ops.Xor(), "The bits that are set in only one of x and y.", BITS
)
shift_left = _binary("shift_left", ops.ShiftLeft(), "x shifted left by y bits.", INTEGERS)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    ops.ShiftRightArithmetic(),
    "x shifted right by y bits, filled with copies of its highest bit.",
    INTEGERS,
)
shift_right_logical = _binary(
    "shift_right_logical",
    ops.ShiftRightLogical(),
    "x shifted right by y bits, filled with zeros.",
    INTEGERS,
)

eq = _comparison("eq", "EQ", "x == y.")
ne = _comparison("ne", "NE", "x != y.")
lt = _comparison("lt", "LT", "x < y.")
le = _comparison("le", "LE", "x <= y.")
gt = _comparison("gt", "GT", "x > y.")
ge = _comparison("ge", "GE", "x >= y.")

abs = _unary("abs", ops.Abs(), "|x|; for complex x the modulus, in the real dtype.", "numeric")
neg = _unary("neg", ops.Negate(), "-x.", "numeric")
sign = _unary(
    "sign",
    ops.Sign(),
    "The sign of x, -1, 0 or 1; x / |x| for complex x; a zero stays itself.",
    "numeric",
)
floor = _unary("floor", ops.Floor(), "The largest integer not above x.", "float")
ceil = _unary("ceil", ops.Ceil(), "The smallest integer not below x.", "float")
bitwise_not = _unary("bitwise_not", ops.Not(), "Every bit of x inverted.", BITS)
population_count = _unary(
    "population_count", ops.PopulationCount(), "The number of bits that are set in x.", INTEGERS
)
clz = _unary(
    "clz",
    ops.CountLeadingZeros(),
    "The number of zero bits above the highest set bit of x.",
    INTEGERS,
)

exp = _unary("exp", analytic.Exp(), "e^x.")
expm1 = _unary("expm1", analytic.Expm1(), "e^x - 1, accurate near 0.")
log = _unary("log", analytic.Log(), "The natural logarithm of x.")
log1p = _unary("log1p", analytic.Log1p(), "log(1 + x), accurate near 0.")
sqrt = _unary("sqrt", analytic.Sqrt(), "The square root of x.")
rsqrt = _unary("rsqrt", analytic.Rsqrt(), "1 / sqrt(x).")
cbrt = _unary("cbrt", analytic.Cbrt(), "The real cube root of x.", "float")
sin = _unary("sin", analytic.Sin(), "The sine of x, in radians.")
cos = _unary("cos", analytic.Cos(), "The cosine of x, in radians.")
tan = _unary("tan", analytic.Tan(), "The tangent of x, in radians.")
asin = _unary("asin", analytic.Asin(), "The inverse sine of x, in radians.")
acos = _unary("acos", analytic.Acos(), "The inverse cosine of x, in radians.")
atan = _unary("atan", analytic.Atan(), "The inverse tangent of x, in radians.")
sinh = _unary("sinh", analytic.Sinh(), "The hyperbolic sine of x.")
cosh = _unary("cosh", analytic.Cosh(), "The hyperbolic cosine of x.")
tanh = _unary("tanh", analytic.Tanh(), "The hyperbolic tangent of x.")
asinh = _unary("asinh", analytic.Asinh(), "The inverse hyperbolic sine of x.")
acosh = _unary("acosh", analytic.Acosh(), "The inverse hyperbolic cosine of x.")
atanh = _unary("atanh", analytic.Atanh(), "The inverse hyperbolic tangent of x.")
logistic = _unary("logistic", analytic.Logistic(), "1 / (1 + e^-x).")
erf = _unary(
    "erf", analytic.Erf(), "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.", "float"
)
erfc = _unary("erfc", analytic.Erfc(), "1 - erf(x), accurate for large x.", "float")
erf_inv = _unary("erf_inv", analytic.ErfInv(), "The inverse of erf.", "float")
lgamma = _unary("lgamma", analytic.Lgamma(), "log |Gamma(x)|.", "float")
digamma = _unary("digamma", analytic.Digamma(), "The derivative of log Gamma at x.", "float")


def is_finite(x: ArrayLike) -> Any:
    """Test elementwise whether x, of a float dtype, is neither infinite nor NaN.

    Raises:
        DTypeError: x is not a float.
    """
    return apply_one(ops.IsFinite(), as_operand(x))


def conj(x: ArrayLike) -> Any:
    """Compute the complex conjugate. The result is complex even for real x, as in jax.lax.

    Raises:
        DTypeError: x is neither float nor complex.

    >>> conj(1.0 + 2.0j)
    array(1.-2.j)
    """
    x = _inexact("conj", x)
    return apply_one(ops.Conj(), convert(x, spec_of(x).dtype.complex))


def real(x: ArrayLike) -> Any:
    """Return the real part of complex x.

    Raises:
        DTypeError: x is not complex.
    """
    return apply_one(ops.Real(), _complex("real", x))


def imag(x: ArrayLike) -> Any:
    """Return the imaginary part of complex x.

    Raises:
        DTypeError: x is not complex.
    """
    return apply_one(ops.Imag(), _complex("imag", x))


def complex(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x + i y, for x and y of dtype float32 or float64.

    Raises:
        DTypeError, ShapeError: x and y have another dtype, or differ in dtype or shape.

    >>> complex(1.0, 2.0)
    array(1.+2.j)
    """
    return apply_one(ops.Complex(), *same_types("complex", x, y))


def _inexact(name: str, x: ArrayLike) -> Any:
    x = as_operand(x)
    if not spec_of(x).dtype.is_inexact:
        raise DTypeError(f"lax.{name}: x must be float or complex, got {spec_of(x)}")
    return x


def _complex(name: str, x: ArrayLike) -> Any:
    x = as_operand(x)
    if not spec_of(x).dtype.is_complex:
        raise DTypeError(f"lax.{name}: x must be complex, got {spec_of(x)}")
    return x


def square(x: ArrayLike) -> Any:
    """Return x times x.

    Raises:
        DTypeError: x is bool.
    """
    x = as_operand(x)
    return apply_one(ops.Multiply(), x, x)


def reciprocal(x: ArrayLike) -> Any:
    """1 / x.

    Raises:
        DTypeError: x is neither float nor complex.
    """
    return div(1, _inexact("reciprocal", x))


def exp2(x: ArrayLike) -> Any:
    """2^x.

    Raises:
        DTypeError: x is neither float nor complex.
    """
    return surface.exp2(_inexact("exp2", x))


def pow(x: ArrayLike, y: ArrayLike) -> Any:
    """Return x^y for a float or complex dtype. If y is a Python integer, x is multiplied repeatedly.

    Raises:
        DTypeError, ShapeError: the operands have another dtype, or differ in dtype or shape.

    >>> pow(3.0, 2), pow(3.0, -1.0)
    (array(9.), array(0.33333333))
    """
    if type(y) is int:
        return integer_pow(_inexact("pow", x), y)
    base, exponent = same_types("pow", x, y)
    return apply_one(ops.Power(), _inexact("pow", base), exponent)


def integer_pow(x: Any, y: int) -> Any:
    """Return x^y for a Python integer y, by repeated squaring.

    Raises:
        DTypeError: x is bool, or an integer and y negative.
        InvalidConfigError: y is not a Python integer.

    >>> integer_pow(2.0, 10), integer_pow(2.0, -1)
    (array(1024.), array(0.5))
    """
    try:
        exponent = operator.index(y)
    except TypeError:
        raise InvalidConfigError(
            f"lax.integer_pow: y must be a Python integer, got {y!r}"
        ) from None
    x = as_operand(x)
    spec = spec_of(x)
    if spec.dtype.is_bool or (spec.dtype.is_integer and exponent < 0):
        raise DTypeError(f"lax.integer_pow: {spec} has no power {exponent}; convert it to a float")
    if exponent == 0:
        return ones_like(x)
    power, left = x, -exponent if exponent < 0 else exponent
    result: Any = None
    while left:
        if left & 1:
            result = power if result is None else mul(result, power)
        left >>= 1
        power = mul(power, power) if left else power
    return reciprocal(result) if exponent < 0 else result


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Any:
    """Return the next number after x1 towards x2. It is x2 if both are equal, and NaN if one of them is NaN.

    Raises:
        DTypeError, ShapeError: the operands are not floats, or differ in dtype or shape.
    """
    start, end = same_types("nextafter", x1, x2)
    if not spec_of(start).dtype.is_float:
        raise DTypeError(f"lax.nextafter: operands must be floats, got {spec_of(start)}")
    return surface.nextafter(start, end)


class RoundingMethod(enum.Enum):
    """Rule by which `round` rounds numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Round x to the nearest integer. Halves are rounded away from zero, or to the even integer.

    Args:
        rounding_method: a `RoundingMethod`.

    Raises:
        DTypeError: x is not a float.
        InvalidConfigError: `rounding_method` is not a `RoundingMethod`.

    >>> round(2.5), round(2.5, RoundingMethod.TO_NEAREST_EVEN)
    (array(3.), array(2.))
    """
    if rounding_method not in set(RoundingMethod):
        raise InvalidConfigError(
            f"lax.round: rounding_method must be a RoundingMethod, got {rounding_method!r}"
        )
    is_away = rounding_method is RoundingMethod.AWAY_FROM_ZERO
    return apply_one(ops.RoundNearestAfz() if is_away else ops.RoundNearestEven(), as_operand(x))


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike | None) -> Any:
    """Convert the operand to another dtype.

    Conversion of a float to an integer truncates. Conversion of a complex number to a float drops the imaginary part.

    Raises:
        DTypeError: `new_dtype` is not a dtype.

    >>> convert_element_type(1.5, "int32")
    array(1, dtype=int32)
    """
    return convert(strong(as_operand(operand)), DType.of(new_dtype))


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike | None) -> Any:
    """Reinterpret the operand's bits as another dtype. A narrower dtype adds a last axis; a wider one removes it.

    Raises:
        DTypeError: a dtype is bool, or only one of the two is complex.
        ShapeError: the last axis does not form one element of the wider dtype.

    >>> import numpy as np
    >>> bitcast_convert_type(np.float32(1), "uint16")
    array([    0, 16256], dtype=uint16)
    """
    return apply_one(ops.BitcastConvert(DType.of(new_dtype)), as_operand(operand))


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round the operand, of a float dtype, to a format with fewer bits.

    Raises:
        DTypeError: the operand is not a float.
        InvalidConfigError: there is no format with these numbers of bits.

    >>> reduce_precision(1.2345, 8, 7)
    array(1.234375)
    """
    return apply_one(ops.ReducePrecision(exponent_bits, mantissa_bits), as_operand(operand))


def clamp(min: ArrayLike, x: Any, max: ArrayLike) -> Any:
    """Return min(max(x, `min`), `max`) in x's dtype. Each bound has rank 0 or x's shape.

    The derivative is 1 strictly between the bounds, and 0 at a bound and beyond it.

    Raises:
        DTypeError, ShapeError: the operands have different dtypes, or a bound has another shape.

    >>> clamp(0.0, 2.0, 1.0)
    array(1.)
    """
    low, x, high = same_dtype("clamp", min, x, max)
    for bound in (low, high):
        if bound.shape and tuple(bound.shape) != tuple(x.shape):
            raise ShapeError(
                f"lax.clamp: a bound must have rank 0 or the shape of x {spec_of(x)}, got {spec_of(bound)}"
            )
    return apply_one(ops.Clamp(), x, broadcast_to(low, x.shape), broadcast_to(high, x.shape))


def select(pred: ArrayLike, on_true: Any, on_false: Any) -> Any:
    """Return `on_true` where `pred` is true, else `on_false`.

    Both must have the same type, and `pred` must have rank 0 or their shape.

    Raises:
        DTypeError, ShapeError: `pred` is not bool or has another shape, or `on_true` and `on_false` have different
            types.

    >>> import numpy as np
    >>> select(np.array([True, False]), np.ones(2), np.zeros(2))
    array([1., 0.])
    """
    return select_n(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Any:
    """Select, elementwise, the case with index `which`: a bool for two cases, or int32 for any number of cases.

    Args:
        which: the index of the selected case, of rank 0 or of the cases' shape. An index out of range is clamped.

    Raises:
        DTypeError, ShapeError: the cases have different types, or `which` has another dtype or shape.
        InvalidConfigError: there are no cases, or `which` is bool and there are not two cases.

    >>> import numpy as np
    >>> select_n(np.array([2, 0], np.int32), np.zeros(2), np.ones(2), np.full(2, 5.0))
    array([5., 0.])
    """
    if not cases:
        raise InvalidConfigError("lax.select_n: needs at least one case")
    which, tensors = as_operand(which), same_dtype("select_n", *cases)
    shape, spec = tuple(tensors[0].shape), spec_of(which)
    if any(tuple(case.shape) != shape for case in tensors) or tuple(which.shape) not in ((), shape):
        shown = ", ".join(str(spec_of(x)) for x in (which, *tensors))
        raise ShapeError(
            f"lax.select_n: cases must have one shape, and which must have that shape or rank 0, got {shown}"
        )
    if spec.dtype.is_bool and len(tensors) == 2:
        return apply_one(ops.Select(), broadcast_to(which, shape), tensors[1], tensors[0])
    if spec.dtype is not DType.I32:
        raise DTypeError(
            f"lax.select_n: int32 chooses among any number of cases, bool between two, got {spec} and "
            f"{len(tensors)} cases"
        )
    result = tensors[-1]
    for i, case in reversed(list(enumerate(tensors[:-1], 1))):
        is_before = broadcast_to(lt(which, i), shape)
        result = apply_one(ops.Select(), is_before, case, result)
    return result
