"""Readers of the elementwise operations of StableHLO and CHLO, including analytic functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lowering.chlo import chlo_function
from lowering.emit.analytic import ACCURATE
from lowering.module_tree import Block, Operation
from lowering.read import total_order
from lowering.read.accuracy import with_accuracy
from lowering.read.bounded import at_bounds
from lowering.read.reader import Read, Reader, ReadRows
from lowering.syntax import text_tree
from lowering.types import element_type
from tenferro.errors import UnsupportedError
from tenferro.ops import StdTensorOp, analytic
from tenferro.ops import elementwise as el
from tenferro.types import DType

__all__ = ["ROWS"]


def plain(op: StdTensorOp) -> Read:
    """Return the reader of an operation that has the same semantics as `op`."""
    return lambda r, operation, operands: r.apply_one(op, *operands)


def convert(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a conversion; of a complex operand, only the real part is converted.

    The op `Convert` does the same, except for a conversion to bool, so the real part is taken before it.
    """
    (x,) = operands
    to = operation.spec.dtype
    if r.spec(x).dtype.is_complex and to.is_bool:
        x = r.apply_one(el.Real(), x)
    return r.convert(x, to)


def bitcast(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    (x,) = operands
    source, to = r.spec(x).dtype, operation.spec.dtype
    if source is to:
        return x
    if source.is_bool or to.is_bool:
        raise UnsupportedError(
            f"stablehlo.bitcast_convert: from {source} to {to}: a bool is a byte here and one bit there; shift "
            "the bits, and convert"
        )
    return r.apply_one(el.BitcastConvert(to), x)


def compare(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read a comparison; complex numbers are compared by real part, then by imaginary part.

    Raises:
        UnsupportedError: integers are ordered with a `compare_type` that contradicts their signedness. XLA rejects such
            a comparison, IREE reinterprets the bits, and the reference interpreter ignores `compare_type`.
    """
    direction: str = operation.attributes["comparison_direction"]
    kind = operation.attributes.get("compare_type")
    dtype = r.spec(operands[0]).dtype
    if kind == "TOTALORDER":
        return compared_in_total_order(r, direction, *operands)
    if kind == "WEAKORDER" and dtype.is_float:
        return compared_in_weak_order(r, direction, *operands)
    declared = {"i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}.get(dtype.kind)
    is_other = kind in ("SIGNED", "UNSIGNED") and kind != declared
    if declared is not None and is_other and direction not in ("EQ", "NE"):
        raise UnsupportedError(
            f"stablehlo.compare: {direction}, {kind} of {dtype}: by the specification's (C3) it is {declared}; "
            "convert the operands to integers of the other sign"
        )
    if dtype.is_complex and direction not in ("EQ", "NE"):
        return is_before(r, direction, *operands)
    return r.apply_one(el.Compare(direction), *operands)


def compared_in_total_order(r: Reader, direction: str, lhs: int, rhs: int) -> int:
    """Compare floats in the total order: convert them to integers of the same order, and compare the integers."""
    ordered = [total_order.key(r, x) for x in (lhs, rhs)]
    return r.apply_one(el.Compare(direction), *ordered)


def compared_in_weak_order(r: Reader, direction: str, lhs: int, rhs: int) -> int:
    """Compare floats in the weak order: all NaNs are equal and above all numbers, and -0 equals +0."""
    if direction in ("NE", "LE", "GE"):
        opposite = {"NE": "EQ", "LE": "GT", "GE": "LT"}[direction]
        return r.apply_one(el.Not(), compared_in_weak_order(r, opposite, lhs, rhs))
    if direction == "GT":
        lhs, rhs = rhs, lhs
    left, right = [r.apply_one(el.Compare("NE"), x, x) for x in (lhs, rhs)]
    left = left if direction == "EQ" else r.apply_one(el.Not(), left)
    unordered = r.apply_one(el.And(), left, right)
    numbers = r.apply_one(el.Compare("EQ" if direction == "EQ" else "LT"), lhs, rhs)
    return r.apply_one(el.Or(), numbers, unordered)


def select(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    predicate, *rest = operands
    return r.apply_one(el.Select(), r.spread(predicate, r.spec(rest[0]).shape), *rest)


def clamp(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    low, x, high = operands
    spec = r.spec(x)
    low, high = r.spread(low, spec.shape), r.spread(high, spec.shape)
    if spec.dtype.is_complex:
        return in_order(r, "LT", in_order(r, "GT", low, x), high)
    return r.apply_one(el.Clamp(), x, low, high)


def in_order(r: Reader, direction: str, x: int, y: int) -> int:
    """Select the larger ("GT") or smaller ("LT") complex number: by real part, then by imaginary part."""
    return r.apply_one(el.Select(), is_before(r, direction, x, y), x, y)


def is_before(r: Reader, direction: str, x: int, y: int) -> int:
    """Compare complex numbers, such as x < y for the direction "LT", by real part, then by imaginary part."""
    (a, b), (i, j) = ([r.apply_one(part, z) for z in (x, y)] for part in (el.Real(), el.Imag()))
    beyond = r.apply_one(el.Compare(f"{direction[0]}T"), a, b)
    further = r.apply_one(el.Compare(direction), i, j)
    same = r.apply_one(el.Compare("EQ"), a, b)
    return r.apply_one(el.Or(), beyond, r.apply_one(el.And(), same, further))


def extreme(op: StdTensorOp, on_truth: StdTensorOp, direction: str) -> Read:
    """Return the reader of a maximum or minimum.

    Args:
        op: the op for numbers.
        on_truth: the op for bools.
        direction: the comparison, "GT" or "LT", that selects a complex number by real part, then by imaginary part.
    """
    plainly = on_bool(op, on_truth)

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> Any:
        if r.spec(operands[0]).dtype.is_complex:
            return in_order(r, direction, *operands)
        return plainly(r, operation, operands)

    return read


def square(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Compute the square of x.

    For complex x = a + ib the result is (a - b)(a + b) + 2ab i. Its real part is set to 0 if |a| = |b| is finite. The
    formula a^2 - b^2 would be NaN if both squares overflow.

    Source: CHLO's decomposition of `square`.
    """
    (x,) = operands
    if not r.spec(x).dtype.is_complex:
        return r.apply_one(el.Multiply(), x, x)
    a, b = r.apply_one(el.Real(), x), r.apply_one(el.Imag(), x)
    like = r.spec(a)
    real = r.apply_one(el.Multiply(), r.apply_one(el.Subtract(), a, b), r.apply_one(el.Add(), a, b))
    same = r.apply_one(el.Compare("EQ"), r.apply_one(el.Abs(), a), r.apply_one(el.Abs(), b))
    cancels = r.apply_one(el.And(), r.apply_one(el.IsFinite(), a), same)
    real = r.apply_one(el.Select(), cancels, r.full(0, like), real)
    product = r.apply_one(el.Multiply(), a, b)
    return r.apply_one(el.Complex(), real, r.apply_one(el.Add(), product, product))


def part(op: StdTensorOp) -> Read:
    """Return the reader of the real or the imaginary part; a real operand has itself and zero as these parts."""

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        (x,) = operands
        if r.spec(x).dtype.is_complex:
            return r.apply_one(op, x)
        return x if isinstance(op, el.Real) else r.full(0, r.spec(x))

    return read


def on_bool(op: StdTensorOp, instead: StdTensorOp) -> Read:
    """Return the reader of an operation that is `op` for numbers, and the logical op `instead` for bools."""

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        is_bool = r.spec(operands[0]).dtype.is_bool
        return r.apply_one(instead if is_bool else op, *operands)

    return read


def mapped(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Apply the operation's region, a function of scalars, to the elements of the operands."""
    return r.lifted(operation.regions[0], operands)


def reduce_precision(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `reduce_precision`.

    For a format without mantissa bits, StableHLO converts NaN to infinity, but the op `ReducePrecision` keeps NaN. So a
    select replaces NaN by infinity.
    """
    (x,) = operands
    a = operation.attributes
    y = r.apply_one(el.ReducePrecision(a["exponent_bits"], a["mantissa_bits"]), x)
    if a["mantissa_bits"]:
        return y
    infinity = r.full(np.inf, r.spec(x))
    return r.apply_one(el.Select(), r.apply_one(el.Compare("NE"), x, x), infinity, y)


def in_complex128(read: Callable[..., int], real: StdTensorOp) -> Read:
    """Return a reader that applies the op `real` to real numbers, and the formula `read` to complex numbers.

    The formula is computed in complex128, and its result converted back.
    """

    def of_either(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        dtype = r.spec(operands[0]).dtype
        if not dtype.is_complex:
            return r.apply_one(real, *operands)
        return r.convert(read(r, *[r.convert(x, DType.C64) for x in operands]), dtype)

    return of_either


def cbrt(r: Reader, z: int) -> int:
    """Compute the principal cube root of z, as z^(1/3)."""
    return r.apply_one(el.Power(), z, r.full(1 / 3, r.spec(z)))


def atan2(r: Reader, y: int, x: int) -> int:
    """Compute atan2 for complex y and x, as -i log((x + i y) / sqrt(x^2 + y^2))."""
    i = r.full(1j, r.spec(x))
    sum_of_squares = r.apply_one(el.Add(), *[r.apply_one(el.Multiply(), z, z) for z in (x, y)])
    radius = r.apply_one(analytic.Sqrt(), sum_of_squares)
    turned = r.apply_one(
        el.Divide(), r.apply_one(el.Add(), x, r.apply_one(el.Multiply(), i, y)), radius
    )
    return r.apply_one(
        el.Multiply(), r.apply_one(el.Negate(), i), r.apply_one(analytic.Log(), turned)
    )


def polygamma(r: Reader, operation: Operation, operands: Sequence[int]) -> int | Sequence[int]:
    """Read chlo.polygamma as the op `Polygamma` if all orders are the same constant natural number.

    Otherwise read it as the formula that StableHLO's pass writes for it.
    """
    orders = r.evaluated(operands[0])
    order = float(orders.flat[0]) if orders is not None and orders.size else -1.0
    if order < 0 or not order.is_integer() or (orders != order).any():
        return expanded("polygamma")(r, operation, operands)
    return r.apply_one(analytic.Polygamma(int(order)), operands[1])


@lru_cache(maxsize=16)
def _expansion(name: str, dtype: DType) -> Block:
    """Return the formula that StableHLO's pass writes for the CHLO operation `name`, as operations on scalars."""
    text = chlo_function(name, element_type(dtype), (), name)
    return text_tree(f"module {{\n{text}}}\n").functions[name].body


def expanded(name: str) -> Read:
    """Return a reader that applies the formula of StableHLO's pass for a CHLO operation, in float32 or wider."""
    is_complex = name == "_asin_acos_kernel"

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        dtype = r.spec(operands[0]).dtype
        if dtype.is_complex != is_complex:
            numbers = "complex" if is_complex else "real"
            raise UnsupportedError(
                f"{operation.name}: of {dtype}; it is defined for {numbers} numbers"
            )
        wide = dtype if dtype is DType.F64 or is_complex else DType.F32
        (y,) = r.lifted(_expansion(name, wide), [r.convert(x, wide) for x in operands])
        return r.convert(y, dtype)

    return read


def mulhi(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `mulhi`: return the upper half of the bits of a product of integers.

    Integers of less than 64 bits are multiplied in 64 bits. 64-bit integers are split into halves of 32 bits, because
    there are no wider integers. With operands a 2^32 + c and b 2^32 + d, the upper half is a b, plus the upper halves
    of the middle terms a d and c b, plus carries.
    """
    (spec,) = {r.spec(x) for x in operands}
    bits, is_unsigned = spec.dtype.bits, spec.dtype.kind == "u"
    shift = el.ShiftRightLogical() if is_unsigned else el.ShiftRightArithmetic()
    if bits < 64:
        wide = DType.U64 if is_unsigned else DType.I64
        a, b = (r.convert(x, wide) for x in operands)
        product = r.apply_one(el.Multiply(), a, b)
        high = r.apply_one(shift, product, r.full(bits, r.spec(product)))
        return r.convert(high, spec.dtype)

    def times(a: int, b: int) -> int:
        return r.apply_one(el.Multiply(), a, b)

    def plus(a: int, b: int) -> int:
        return r.apply_one(el.Add(), a, b)

    half, mask = r.full(32, spec), r.full((1 << 32) - 1, spec)
    (a, c), (b, d) = (
        (r.apply_one(shift, x, half), r.apply_one(el.And(), x, mask)) for x in operands
    )
    carry = plus(times(a, d), r.apply_one(el.ShiftRightLogical(), times(c, d), half))
    middle = plus(times(c, b), r.apply_one(el.And(), carry, mask))
    upper = plus(r.apply_one(shift, carry, half), r.apply_one(shift, middle, half))
    return plus(times(a, b), upper)


def next_after(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Read `next_after` by arithmetic on the bits of floats; see `tenferro.nextafter`."""
    x, y = operands
    spec = r.spec(x)
    words = {2: DType.I16, 4: DType.I32, 8: DType.I64}
    if spec.dtype.itemsize not in words:
        raise UnsupportedError(
            f"chlo.next_after: of {spec.dtype}; convert to a float of 16 bits or more"
        )
    word = words[spec.dtype.itemsize]
    start, end = (r.apply_one(el.BitcastConvert(word), v) for v in (x, y))
    like = r.spec(start)
    lowest, zero = r.full(-(1 << (8 * word.itemsize - 1)), like), r.full(0, like)

    def is_less(a: int, b: int) -> int:
        return r.apply_one(el.Compare("LT"), a, b)

    def mirrored(a: int, when: int) -> int:
        return r.apply_one(el.Select(), when, r.apply_one(el.Subtract(), lowest, a), a)

    here, there = mirrored(start, is_less(start, zero)), mirrored(end, is_less(end, zero))
    step = r.apply_one(el.Select(), is_less(here, there), r.full(1, like), r.full(-1, like))
    target = r.apply_one(el.Add(), here, step)
    at_zero = r.apply_one(
        el.And(), r.apply_one(el.Compare("EQ"), target, zero), is_less(start, zero)
    )
    negative = r.apply_one(el.Or(), is_less(target, zero), at_zero)
    moved = r.apply_one(el.BitcastConvert(spec.dtype), mirrored(target, negative))
    same = r.apply_one(el.Compare("EQ"), here, there)
    stepped = r.apply_one(el.Select(), same, y, moved)
    odd = r.apply_one(el.Or(), *[r.apply_one(el.Compare("NE"), v, v) for v in (x, y)])
    return r.apply_one(el.Select(), odd, r.apply_one(el.Add(), x, y), stepped)


def infinite(kind: str) -> Read:
    """Return the reader of chlo.`kind`: `is_inf`, `is_pos_inf` or `is_neg_inf`."""

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
        (x,) = operands
        like = r.spec(x)
        infinite = {"is_pos_inf": [float("inf")], "is_neg_inf": [float("-inf")]}.get(
            kind, [float("inf"), float("-inf")]
        )
        comparisons = [r.apply_one(el.Compare("EQ"), x, r.full(value, like)) for value in infinite]
        return comparisons[0] if len(comparisons) == 1 else r.apply_one(el.Or(), *comparisons)

    return read


def conj(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    (x,) = operands
    return r.apply_one(el.Conj(), x) if r.spec(x).dtype.is_complex else x


_STABLEHLO: dict[str, Any] = {
    "abs": plain(el.Abs()),
    "add": on_bool(el.Add(), el.Or()),
    "and": plain(el.And()),
    "atan2": at_bounds(in_complex128(atan2, analytic.Atan2())),
    "bitcast_convert": bitcast,
    "cbrt": at_bounds(in_complex128(cbrt, analytic.Cbrt())),
    "ceil": plain(el.Ceil()),
    "clamp": at_bounds(clamp),
    "compare": compare,
    "complex": plain(el.Complex()),
    "convert": convert,
    "cosine": plain(analytic.Cos()),
    "count_leading_zeros": plain(el.CountLeadingZeros()),
    "divide": plain(el.Divide()),
    "exponential": plain(analytic.Exp()),
    "exponential_minus_one": plain(analytic.Expm1()),
    "floor": plain(el.Floor()),
    "imag": at_bounds(part(el.Imag())),
    "is_finite": plain(el.IsFinite()),
    "log": plain(analytic.Log()),
    "log_plus_one": plain(analytic.Log1p()),
    "logistic": plain(analytic.Logistic()),
    "map": mapped,
    "maximum": extreme(el.Maximum(), el.Or(), "GT"),
    "minimum": extreme(el.Minimum(), el.And(), "LT"),
    "multiply": on_bool(el.Multiply(), el.And()),
    "negate": plain(el.Negate()),
    "not": plain(el.Not()),
    "or": plain(el.Or()),
    "popcnt": plain(el.PopulationCount()),
    "power": plain(el.Power()),
    "real": part(el.Real()),
    "reduce_precision": reduce_precision,
    "remainder": plain(el.Remainder()),
    "round_nearest_afz": plain(el.RoundNearestAfz()),
    "round_nearest_even": plain(el.RoundNearestEven()),
    "rsqrt": plain(analytic.Rsqrt()),
    "select": at_bounds(select),
    "shift_left": plain(el.ShiftLeft()),
    "shift_right_arithmetic": plain(el.ShiftRightArithmetic()),
    "shift_right_logical": plain(el.ShiftRightLogical()),
    "sign": plain(el.Sign()),
    "sine": plain(analytic.Sin()),
    "sqrt": plain(analytic.Sqrt()),
    "square": at_bounds(square),
    "subtract": plain(el.Subtract()),
    "tan": plain(analytic.Tan()),
    "tanh": plain(analytic.Tanh()),
    "xor": plain(el.Xor()),
}
_CHLO: dict[str, Any] = {
    "_asin_acos_kernel": at_bounds(expanded("_asin_acos_kernel")),
    "acos": plain(analytic.Acos()),
    "acosh": plain(analytic.Acosh()),
    "asin": plain(analytic.Asin()),
    "asinh": plain(analytic.Asinh()),
    "atan": plain(analytic.Atan()),
    "atanh": plain(analytic.Atanh()),
    "bessel_i1e": at_bounds(expanded("bessel_i1e")),
    "conj": conj,
    "cosh": plain(analytic.Cosh()),
    "digamma": plain(analytic.Digamma()),
    "erf": plain(analytic.Erf()),
    "erfc": plain(analytic.Erfc()),
    "erf_inv": plain(analytic.ErfInv()),
    "is_inf": at_bounds(infinite("is_inf")),
    "is_neg_inf": at_bounds(infinite("is_neg_inf")),
    "is_pos_inf": at_bounds(infinite("is_pos_inf")),
    "lgamma": plain(analytic.Lgamma()),
    "mulhi": at_bounds(mulhi),
    "next_after": at_bounds(next_after),
    "polygamma": at_bounds(polygamma),
    "sinh": plain(analytic.Sinh()),
    "square": at_bounds(square),
    "tan": plain(analytic.Tan()),
    "zeta": at_bounds(expanded("zeta")),
}

_WITH_ACCURACY = {row.name for row in ACCURATE.values()}
ROWS: ReadRows = {
    **{
        f"stablehlo.{name}": with_accuracy(read) if name in _WITH_ACCURACY else read
        for name, read in _STABLEHLO.items()
    },
    **{f"chlo.{name}": read for name, read in _CHLO.items()},
}
