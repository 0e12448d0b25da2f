"""Narrow dtypes must be right for all values, all pairs of values, and numbers near every tie.

The expected results come from tables and exact sums.
"""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import DTypeError
from tenferro.ops.elementwise import BitcastConvert, Convert
from tenferro.ops.indexing import DynamicSlice
from tenferro.ops.reduction import ReduceMax
from tenferro.types import DType, TensorSpec

FLOATS = {
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "one nan"),
    "float8_e4m3fnuz": (4, 3, 8, "nan for -0"),
    "float8_e5m2fnuz": (5, 2, 16, "nan for -0"),
    "float8_e4m3b11fnuz": (4, 3, 11, "nan for -0"),
    "float6_e2m3fn": (2, 3, 1, "finite"),
    "float6_e3m2fn": (3, 2, 3, "finite"),
    "float4_e2m1fn": (2, 1, 1, "finite"),
    "float8_e8m0fnu": (8, 0, 127, "powers"),
}
"""Definition of each format: the bits of exponent and mantissa, the bias, and which codes are not numbers.

Source: IEEE 754, and the papers that StableHLO names for each type.
"""
INTEGERS = {"int2": (-2, 1), "int4": (-8, 7), "uint2": (0, 3), "uint4": (0, 15)}


def value(code: int, name: str) -> float:
    """Return the number that a code represents, by the definition of the format.

    A code is the bits of the number, read as an integer.
    """
    e, m, bias, special = FLOATS[name]
    mantissa, exponent, sign = code & ((1 << m) - 1), (code >> m) & ((1 << e) - 1), code >> (e + m)
    if special == "powers":
        return np.nan if code == 255 else 2.0 ** (code - bias)
    if special == "nan for -0" and code == 1 << (e + m):
        return np.nan
    if special == "one nan" and code & ~(1 << (e + m)) == (1 << (e + m)) - 1:
        return np.nan
    if special == "ieee" and exponent == (1 << e) - 1:
        return np.nan if mantissa else -np.inf if sign else np.inf
    size = (mantissa + ((1 << m) if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - m)
    return -size if sign else size


def table(name: str) -> Any:
    """Return an array of the numbers of all codes of a format, in the order of the codes."""
    e, m, _, special = FLOATS[name]
    return np.array([value(code, name) for code in range(1 << (e + m + (special != "powers")))])


def codes(name: str) -> Any:
    return np.arange(len(table(name)), dtype=np.uint8).view(DType.of(name).dtype)


def rounded(x: Any, name: str, is_above: Any = None) -> Any:
    """Round float64 numbers to the nearest number of a format, by comparison with midpoints; ties go to even codes.

    Args:
        is_above: a function of a midpoint that returns whether |x| is above the midpoint, and whether |x| equals it.
            By default, x is compared with the midpoint. The function is needed if float64 cannot represent the exact
            x.
    """
    e, m, _, special = FLOATS[name]
    positive = table(name)[: 1 << (e + m)]
    finite = positive[np.isfinite(positive)]
    beyond = 2 * finite[-1] - finite[-2] if special != "powers" else 2 * finite[-1]
    steps = np.append(finite, beyond)
    middle = (steps[:-1] + steps[1:]) / 2
    if is_above is None:
        code = np.searchsorted(middle, np.abs(x))
        tie = np.append(middle, np.nan)[code] == np.abs(x)
        code += tie & ((special == "powers") | (code % 2 == 1))
    else:
        code = np.zeros(np.shape(x), int)
        for number, mid in enumerate(middle):
            above, at = is_above(mid)
            code += above | (at & (special == "powers" or number % 2 == 1))
    overflow = finite[-1] if special == "finite" else np.inf if special == "ieee" else np.nan
    y = np.append(finite, overflow)[code]
    if special == "powers":
        return np.where(x > 0, y, np.nan)
    if special == "finite":
        y = np.where(np.isnan(x), -0.0, np.copysign(y, x))
    else:
        y = np.where(np.isnan(x), np.nan, np.copysign(y, x))
    return y + 0.0 if special == "nan for -0" else y


def same(x: Any, expected: Any, zeros: bool = True) -> None:
    x = np.asarray(x).astype(np.float64)
    np.testing.assert_array_equal(x, expected)
    if zeros:
        defined = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(x)[defined], np.signbit(expected)[defined])


@pytest.mark.parametrize("name", FLOATS)
def test_every_value_is_the_formats(name: str) -> None:
    same(tnf.astype(codes(name), "float64"), table(name))
    for other in FLOATS:
        same(tnf.astype(codes(name), other), rounded(table(name), other))


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_beside_every_tie_are_rounded_once(name: str) -> None:
    finite = np.unique(table(name)[np.isfinite(table(name))])
    middle = (finite[:-1] + finite[1:]) / 2
    x = np.concatenate([
        finite, middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), middle * (1 + 2.0**-52),
        finite[-1] * np.array([1.01, 1.04, 1.0625, 1.125, 1.25, 1.5, 4.0]), [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-300],
    ])  # fmt: skip
    same(tnf.astype(x, name), rounded(x, name))
    with np.errstate(over="ignore"):
        single = x.astype("f4")
    same(tnf.astype(single, name), rounded(single.astype("f8"), name))
    whole = np.concatenate(
        [np.arange(-600, 600), 3 * 2 ** np.arange(9, 61), 3 * 2 ** np.arange(54, 61) - 1]
    )
    exact = [Fraction(int(n)) for n in whole]
    expected = [float(n) if abs(n) < 2**53 else np.nextafter(float(n), 0 if float(n) >= n else np.inf)
                for n in exact]  # fmt: skip
    keep = np.array([float(n) != n for n in exact])
    odd = np.where(keep, expected, whole.astype("f8"))
    same(tnf.astype(whole, name), rounded(odd, name), zeros=False)


@pytest.mark.parametrize("name", FLOATS)
def test_every_pair_of_floats(name: str) -> None:
    step = 3 if name == "float8_e8m0fnu" else 1  # a third of the operands, to save time
    x, y = codes(name)[::step, None], codes(name)[None, :]
    a, b = np.broadcast_arrays(table(name)[::step, None], table(name)[None, :])
    with np.errstate(all="ignore"):
        # float64 computes sums, differences and products exactly. The exception are sums of powers of two that are
        # far apart.
        same(tnf.add(x, y), rounded(a + b, name))
        same(tnf.subtract(x, y), rounded(a - b, name))
        same(tnf.multiply(x, y), rounded(a * b, name))
        plain = np.isfinite(a) & np.isfinite(b) & (b != 0)
        quotient = np.where(plain, np.copysign(1.0, a) * np.copysign(1.0, b) * (a != 0), a / b)

        def as_constant_of(mid: float) -> tuple[Any, Any]:
            above = np.where(plain, np.abs(a) > mid * np.abs(b), np.abs(a / b) > mid)
            return above, np.where(plain, np.abs(a) == mid * np.abs(b), np.abs(a / b) == mid)

        signed = np.where(plain & (a == 0), a / b, quotient)
        same(tnf.divide(x, y), rounded(signed, name, as_constant_of))
        same(tnf.maximum(x, y), rounded(np.maximum(a, b), name), zeros=False)
        for compare, ufunc in (
            (tnf.less, np.less),
            (tnf.equal, np.equal),
            (tnf.greater_equal, np.greater_equal),
        ):
            np.testing.assert_array_equal(compare(x, y), ufunc(a, b))


def test_sums_are_exact_before_they_are_rounded() -> None:
    for name in FLOATS:
        finite = [Fraction(v) for v in table(name) if np.isfinite(v)]
        pairs = [(finite[i], finite[-1 - i]) for i in range(0, len(finite), 3)]
        if name != "float8_e8m0fnu":
            assert all([Fraction(float(a) + float(b)) == a + b for a, b in pairs])
        assert all([Fraction(float(a) * float(b)) == a * b for a, b in pairs])


def wrapped(x: Any, name: str) -> Any:
    low, high = INTEGERS[name]
    return (np.asarray(x) - low) % (high - low + 1) + low


@pytest.mark.parametrize("name", INTEGERS)
def test_every_pair_of_integers(name: str) -> None:
    low, high = INTEGERS[name]
    width = DType.of(name).bits
    numbers = np.arange(low, high + 1)
    a, b = np.broadcast_arrays(numbers[:, None], numbers[None, :])
    x, y = a.astype(DType.of(name).dtype), b.astype(DType.of(name).dtype)

    def check(result: Any, expected: Any) -> None:
        assert DType.of(result.dtype) is DType.of(name)
        np.testing.assert_array_equal(np.asarray(result).astype(int), wrapped(expected, name))

    def each(function: Any) -> Any:
        return np.vectorize(function, otypes=[int])(a, b)

    def quotient(p: int, q: int) -> int:
        return -1 if q == 0 else int(Fraction(p, q))

    def rest(p: int, q: int) -> int:
        return p if q == 0 else p - q * int(Fraction(p, q))

    unsigned = wrapped(a, name) & ((1 << width) - 1)
    amount = b & ((1 << width) - 1)
    check(tnf.add(x, y), a + b)
    check(tnf.subtract(x, y), a - b)
    check(tnf.multiply(x, y), a * b)
    check(tnf.lax.div(x, y), each(quotient))
    check(tnf.lax.rem(x, y), each(rest))
    check(tnf.negative(x), -a)
    check(tnf.maximum(x, y), np.maximum(a, b))
    check(tnf.bitwise_and(x, y), a & b)
    check(tnf.bitwise_xor(x, y), a ^ b)
    check(tnf.bitwise_invert(x), ~a)
    check(tnf.lax.shift_left(x, y), np.where(amount < width, a << np.minimum(amount, width), 0))
    logical = np.where(amount < width, unsigned >> np.minimum(amount, width), 0)
    check(tnf.lax.shift_right_logical(x, y), logical)
    signed = (unsigned ^ (1 << (width - 1))) - (1 << (width - 1))
    check(tnf.lax.shift_right_arithmetic(x, y), signed >> np.minimum(amount, width))
    check(tnf.lax.population_count(x), each(lambda p, q: (p & ((1 << width) - 1)).bit_count()))
    check(tnf.lax.clz(x), each(lambda p, q: width - (p & ((1 << width) - 1)).bit_length()))
    np.testing.assert_array_equal(tnf.less(x, y), a < b)


@pytest.mark.parametrize("name", INTEGERS)
def test_conversions_of_integers(name: str) -> None:
    low, high = INTEGERS[name]
    whole = np.arange(-40, 40)
    np.testing.assert_array_equal(tnf.astype(whole, name).astype(int), wrapped(whole, name))
    x = np.array([-np.inf, -20.0, -1.5, -0.9, 0.5, 1.99, 7.6, 100.0, np.inf, np.nan])
    expected = np.where(np.isnan(x), 0, np.clip(np.trunc(np.nan_to_num(x)), low, high))
    np.testing.assert_array_equal(tnf.astype(x, name).astype(int), expected)
    numbers = np.arange(low, high + 1)
    y = numbers.astype(DType.of(name).dtype)
    for to in ("int8", "uint16", "int64", "float32", "complex64"):
        np.testing.assert_array_equal(tnf.astype(y, to), numbers.astype(to))
    same(tnf.astype(y, "float8_e5m2"), rounded(numbers.astype(float), "float8_e5m2"))
    np.testing.assert_array_equal(tnf.astype(y, "bool"), numbers != 0)


def test_products_accumulate_wide() -> None:
    rng = np.random.default_rng(0)
    for name in FLOATS:
        positive = np.abs(table(name)[np.isfinite(table(name))])
        positive = positive[positive < 1e10]
        a, b = rng.choice(positive, (3, 5)), rng.choice(positive, (5, 2))
        x, y = (v.astype(DType.of(name).dtype) for v in (a, b))
        exact = [
            [
                sum([Fraction(p) * Fraction(q) for p, q in zip(row, column, strict=True)])
                for column in b.T
            ]
            for row in a
        ]
        expected = rounded(np.array(exact, float), name)
        same(tnf.matmul(x, y), expected)
        wide = tnf.lax.dot(x, y, preferred_element_type=np.float32)
        np.testing.assert_allclose(wide, np.array(exact, "f8").astype("f4"), rtol=1e-6)
    x, y = rng.integers(-8, 8, (3, 5)), rng.integers(-8, 8, (5, 2))
    product = tnf.lax.dot(
        x.astype(ml_dtypes.int4), y.astype(ml_dtypes.int4), preferred_element_type=np.int32
    )
    np.testing.assert_array_equal(product, x @ y)


def test_elements_move_with_their_bits() -> None:
    """Moving elements must keep all their bits: the payload of a NaN, and the sign of -0."""
    for name in FLOATS:
        x = codes(name).reshape(4, -1)
        moved = tnf.concatenate([tnf.flip(tnf.permute_dims(x, (1, 0)), axis=0), x.T], axis=0)
        bits = x.view(np.uint8)
        np.testing.assert_array_equal(moved.view(np.uint8), np.concatenate([bits.T[::-1], bits.T]))
        np.testing.assert_array_equal(
            tnf.take(x, np.array([2, 0]), axis=0).view(np.uint8), bits[[2, 0]]
        )
        (part,) = tnf.compile(
            lambda v: DynamicSlice((2, 3)) and (v[1:3],), TensorSpec(x.shape, name)
        ).run(x)
        np.testing.assert_array_equal(part.view(np.uint8), bits[1:3])


def test_bits() -> None:
    x = np.array([0x21, 0x4F, -2], np.int8)
    nibbles = tnf.lax.bitcast_convert_type(x, "int4")
    np.testing.assert_array_equal(np.asarray(nibbles).astype(int), [[1, 2], [-1, 4], [-2, -1]])
    np.testing.assert_array_equal(tnf.lax.bitcast_convert_type(nibbles, "int8"), x)
    floats = tnf.lax.bitcast_convert_type(x, "float4_e2m1fn")
    np.testing.assert_array_equal(
        np.asarray(floats).astype(float), [[0.5, 1.0], [-6.0, 2.0], [-4.0, -6.0]]
    )
    with pytest.raises(DTypeError, match="must divide"):
        BitcastConvert("int8").infer(TensorSpec((2,), "float6_e2m3fn"))


def test_an_empty_maximum_is_the_lowest_number() -> None:
    for name, lowest in {
        "int4": -8,
        "uint2": 0,
        "float8_e4m3fn": -448,
        "float8_e5m2": -np.inf,
    }.items():
        x = np.zeros((0, 2), DType.of(name).dtype)
        (y,) = tnf.compile(
            lambda x: (ReduceMax((0,)) and tnf.lax.reduce_max(x, (0,)),), TensorSpec((0, 2), name)
        ).run(x)
        np.testing.assert_array_equal(np.asarray(y).astype(float), [lowest, lowest])


def test_loops_and_derivatives_have_narrow_values() -> None:
    def f(x: Any) -> Any:
        return tnf.fori_loop(0, 3, lambda i, c: c + c, x)

    x = np.array([1, 1.5], ml_dtypes.float8_e4m3fn)
    program = tnf.compile(f, TensorSpec((2,), "float8_e4m3fn"))
    np.testing.assert_array_equal(program.run(x).astype(float), [8, 12])
    slope = tnf.grad(lambda x: tnf.sum(tnf.astype(x, "float32") ** 2))(x)
    np.testing.assert_array_equal(slope.astype(float), [2, 3])


def test_a_saved_program_keeps_narrow_constants(tmp_path: Any) -> None:
    for name in (*FLOATS, *INTEGERS):
        values = codes(name) if name in FLOATS else np.arange(4).astype(DType.of(name).dtype)
        program = tnf.compile(
            lambda x, v=values: tnf.astype(tnf.astype(v, "float32") + x, name),
            TensorSpec((), "float32"),
        )
        tnf.save(program, tmp_path / "a.tnf")
        for y in (program.run(np.float32(0)), tnf.load(tmp_path / "a.tnf").run(np.float32(0))):
            same(y, values.astype(float), zeros=False)


def test_dtypes_by_name_and_limits() -> None:
    for name in (*FLOATS, *INTEGERS):
        dtype = DType.of(name)
        assert dtype is DType.of(dtype.dtype) is getattr(tnf, name)
        assert TensorSpec.parse(str(TensorSpec((2, "n"), name))) == TensorSpec((2, "n"), name)
        if dtype.is_integer:
            assert (tnf.iinfo(name).min, tnf.iinfo(name).max) == INTEGERS[name]
        else:
            finite = table(name)[np.isfinite(table(name))]
            assert (tnf.finfo(name).min, tnf.finfo(name).max) == (finite.min(), finite.max())
    assert Convert("float8_e5m2").to.wide is DType.F64


def test_promotion_is_explicit() -> None:
    x = np.ones(2, ml_dtypes.float8_e4m3fn)
    assert DType.of(tnf.add(x, 2.0).dtype) is DType.F8E4M3FN
    assert DType.of(tnf.add(x, np.ones(2, bool)).dtype) is DType.F8E4M3FN
    with pytest.raises(DTypeError, match=r"float8_e4m3fn and float32 have no common dtype.*astype"):
        tnf.add(x, np.ones(2, "f4"))
    with pytest.raises(DTypeError, match="does not fit int4"):
        tnf.add(np.ones(2, ml_dtypes.int4), 9)


def test_numpys_files_of_bits(tmp_path: Any) -> None:
    from xla_peer.storage import restored, stored

    x = np.arange(5).astype(ml_dtypes.float8_e3m4)
    file = io.BytesIO()
    np.save(file, stored(x))
    file.seek(0)
    np.testing.assert_array_equal(restored(np.load(file), DType.F8E3M4).astype(float), np.arange(5))
