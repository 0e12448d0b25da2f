"""Bounds of the parity check must include every difference that rounding can cause, and exclude larger differences.

If XLA shows a difference, native results are compared with XLA's. Otherwise, an executor returns chosen results.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lowering.lower
import tenferro as tnf
import xla_peer
from lowering.emit import EMITTERS
from lowering.emit.analytic import call
from tenferro.dispatch import apply_one
from tenferro.ops import elementwise as el
from tenferro.ops.analytic import Asin
from tenferro.ops.contraction import Convolution
from tenferro.ops.elementwise import Multiply
from tenferro.ops.reduction import CumMax
from tenferro.types import DType, flatten, unflatten
from xla_peer import XlaExecutor, check_parity
from xla_peer.parity import opinion, rounding
from xla_peer.parity.comparison import Allowance, Alternatives, compare, explained
from xla_peer.parity.paths import limits
from xla_peer.parity.pending import may_jump

RNG = np.random.default_rng(0)
FLOATS = ["float64", "float32", "float16", "bfloat16"]


class Told:
    """Executor that runs XLA, and then changes the results by the function `change`."""

    platform = "cpu"

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def run(self, program: Any, *arrays: Any) -> Any:
        results, tree = flatten(XlaExecutor().run(program, *arrays))
        return unflatten(tree, [np.asarray(self.change(y)).astype(y.dtype) for y in results])


def agrees(fn: Any, *arrays: Any, change: Callable[[Any], Any] = lambda y: y) -> bool:
    report = check_parity(
        fn, *arrays, executor=Told(change), locate=False, interpreter=False
    )  # fmt: skip
    return report.ok


def of(dtype: str, x: Any) -> Any:
    return np.asarray(x).astype(DType.of(dtype).dtype)


# ---- sums of windows, and of narrow floats -----------------------------------------------------------

REDUCED = {
    "rows": ((1, 7), (1, 1), ""),
    "squares": ((3, 3), (1, 1), ""),
    "strides": ((4, 9), (2, 3), ""),
    "running": ((1, 60), (1, 1), "padding = dense<[[0, 0], [59, 0]]> : tensor<2x2xi64>, "),
    "whole": ((40, 1), (1, 1), ""),
}


def of_windows(name: str, dtype: str) -> tuple[str, Callable[[Any], Any]]:
    """Return a module that sums windows, and its definition, which adds each term and rounds."""
    (height, width), (down, right), padding = REDUCED[name]
    left = width - 1 if padding else 0
    rows, columns = (40 - height) // down + 1, (60 + left - width) // right + 1
    kind = {"float16": "f16", "bfloat16": "bf16"}.get(dtype, f"f{dtype[5:]}")
    text = f"""func.func @main(%x: tensor<40x60x{kind}>) -> tensor<{rows}x{columns}x{kind}> {{
  %zero = stablehlo.constant dense<0.0> : tensor<{kind}>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{{{padding}window_dimensions = array<i64: {height}, {width}>, window_strides = array<i64: {down}, {right}>}}> ({{
  ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
    %1 = stablehlo.add %a, %b : tensor<{kind}>
    stablehlo.return %1 : tensor<{kind}>
  }}) : (tensor<40x60x{kind}>, tensor<{kind}>) -> tensor<{rows}x{columns}x{kind}>
  return %0 : tensor<{rows}x{columns}x{kind}>
}}"""

    def summed(x: Any) -> Any:
        x = np.pad(x.astype(np.float32 if x.itemsize < 4 else x.dtype), ((0, 0), (left, 0)))
        total = np.zeros((rows, columns), x.dtype)
        for i in range(height):
            for j in range(width):
                part = x[i : i + down * rows : down, j : j + right * columns : right]
                total = (total + part[:rows]).astype(DType.of(dtype).dtype).astype(x.dtype)
        return total.astype(DType.of(dtype).dtype)

    return text, summed


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REDUCED)
def test_the_terms_of_a_window_may_be_added_in_any_order_and_rounded_each(
    name: str, dtype: str
) -> None:
    text, summed = of_windows(name, dtype)
    x = of(dtype, RNG.standard_normal((40, 60)))
    program = lowering.import_stablehlo(text)
    y = np.asarray(program.run(x))
    (allowance,) = limits(program, [x], [y])
    for other in (summed(x), summed(x[::-1, ::-1])[::-1, ::-1] if name == "squares" else summed(x)):
        assert not compare("", y, other, *allowance).outside
    short = summed(np.where(np.arange(60) == 29, of(dtype, 0), x))  # without some terms
    assert compare("", y, short, *allowance).outside


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("fn", [
    lambda x: tnf.sum(x, axis=0), lambda x: tnf.prod(x, axis=0), lambda x: tnf.cumsum(x, axis=0),
], ids=["sum", "product", "running sum"])  # fmt: skip
def test_a_reduction_may_round_each_partial_result_to_a_narrow_float(fn: Any, dtype: str) -> None:
    x = of(dtype, RNG.uniform(0.7, 1.4, (40, 6)) * RNG.choice([-1, 1], (40, 6)))
    program = tnf.compile(fn, x)
    y = np.asarray(program.run(x))
    (allowance,) = limits(program, [x], [y])
    combine = np.multiply if "ReduceProd" in str(program) else np.add
    partial = [x[0]]
    for row in x[1:]:
        partial.append(combine(partial[-1], row))  # rounds to the dtype of x
    other = np.stack(partial) if y.ndim == 2 else partial[-1]
    assert not compare("", y, other, *allowance).outside
    assert compare("", y, y + 2 * x[0] if combine is np.add else 2 * y, *allowance).outside


# ---- sums in lanes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "width"), [
    ([1.1, -1.101], 2), ([1.1, 2.3, -1.7, -1.7001], 4), ([0.1, 0.7, 0.3, 0.9, -0.5, -0.5, -0.5, -0.5], 8),
])  # fmt: skip
def test_terms_that_follow_a_pattern_may_be_summed_in_lanes(
    pattern: list[float], width: int
) -> None:
    """Terms of alternating sign cancel if they are added in sequence.

    In vector lanes, each lane adds terms of one sign. The lanes grow, and so do their rounding errors, which the
    bound must include.
    """
    x = np.resize(np.float32(pattern), 1 << 14)
    x[-1] = 2000.0  # so that the result is large relative to its bound
    lanes = x.reshape(-1, width).cumsum(axis=0, dtype=np.float32)[-1].cumsum(dtype=np.float32)[-1]
    chain = x.cumsum(dtype=np.float32)[-1]
    assert agrees(tnf.sum, x, change=lambda y: 0 * y + lanes)
    assert agrees(lambda x, y: x @ y, x, np.ones_like(x), change=lambda y: 0 * y + lanes)
    beyond = chain + np.abs(x).sum() * 2.0**-9  # an error as large as in half precision
    assert not agrees(tnf.sum, x, change=lambda y: 0 * y + beyond)


# ---- reachable values only -----------------------------------------------------------------------


def test_an_infinite_limit_allows_nothing() -> None:
    zero, other = np.array([0]), np.array([77777])
    assert not compare("i", zero, other, np.array([np.inf])).ok
    assert not compare("x", zero * 1.0, other * 1.0, np.array([np.inf])).ok
    assert compare("i", zero, zero, np.array([np.inf])).ok
    for shape in ((), (1,), (1, 1)):
        native, allowed = zero.reshape(shape), np.zeros(shape)
        alternatives = Alternatives(np.array([0, 0]), np.array([3, 5]))
        for value, ok in ((3, True), (5, True), (4, False)):
            found = compare("i", native, native + value, allowed, alternatives)
            assert (found.ok, found.unstable) == (ok, 1)


def test_an_overflow_on_one_path_is_told() -> None:
    """XLA replaces log(x^y) by y log x.

    Results that are infinite natively are then finite. The check must report this difference.
    """
    report = check_parity(lambda x: tnf.log(tnf.power(x, 2.5)), of("float32", [1e20]))
    assert not report.ok
    assert report.outputs[0].inf == 1
    assert report.interpreter == "the reference interpreter agrees with native: PJRT is alone"


def test_a_number_beside_the_largest_may_overflow_and_is_nothing_else() -> None:
    largest = np.finfo(np.float64).max
    x = np.array([np.log(largest)])
    assert agrees(lambda x: tnf.exp(x * 1.0), x)
    native = np.array([np.inf])
    allowed = explained(native, [native, np.array([largest])], 4.0)
    assert compare("", native, np.array([largest * (1 - 2e-16)]), *allowed).ok
    assert not compare("", native, np.array([1.0]), *allowed).ok
    assert not compare("", native, np.array([np.nan]), *allowed).ok
    assert not compare("", native, -native, *allowed).ok


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quotients_by_what_is_broadcast_are_products_by_its_reciprocal(dtype: str) -> None:
    """If a divisor b is broadcast, XLA multiplies by the rounded 1 / b.

    A quarter of the results are then one ulp off, which must be accepted.
    """
    generator = np.random.default_rng(0)
    a, b = of(dtype, generator.normal(size=(300, 40))), of(dtype, 1 + generator.random(300))
    for fn in (
        lambda a, b: a / b[:, None],
        lambda a, b: a.T / -b,
        lambda a, b: a / b[0],
        lambda a, b: a[:, :20] / tnf.broadcast_to(b[:, None], (300, 40))[:, :20],
    ):
        report = check_parity(fn, a, b)
        assert report.ok, str(report)
    # Quotients by different divisors are rounded correctly on every platform. A difference of one ulp must therefore
    # be reported.
    up = Told(lambda y: (y + np.spacing(np.abs(y))).astype(y.dtype))
    for fn, arrays, is_fine in (
        (lambda x, y: x / y, (a[0], a[1]), False),
        (lambda x, y: y[0] / x, (a[0], a[1]), False),
        (lambda x, y: x / y[0], (a[0], a[1]), True),
    ):
        report = check_parity(fn, *arrays, executor=up, locate=False, interpreter=False)
        assert report.ok == is_fine


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_zero_that_moves_a_little_is_no_decision(dtype: str) -> None:
    """lgamma(1) and lgamma(2) are 0, but XLA returns up to 4.8e-7.

    Sorting such values must not count as a decision.
    """
    x = of(dtype, [1.0, 2.0, 0.5, 3.0])
    for fn in (lambda x: tnf.sort(tnf.lgamma(x)), lambda x: tnf.flip(tnf.lgamma(x))):
        assert agrees(fn, x)
    moved = [
        of("float32", y) for y in ([0, 0.7], [1e-6, 0.7], [-1e-6, 0.7], [1.5e-6, 0.7], [0, 0.7])
    ]
    allowed = explained(moved[0], moved, 4.0, 3)
    assert compare("", moved[0], of("float32", [4.8e-7, 0.7]), *allowed).ok
    assert not compare("", moved[0], of("float32", [1e-3, 0.7]), *allowed).ok
    # A jump from 0 to 1 is a decision. Only 0 and 1 may be accepted, and no value between them.
    steps = [of(dtype, y) for y in ([0, 1], [1, 1], [0, 1], [1, 1], [0, 1])]
    allowed = explained(steps[0], steps, 4.0, 3)
    assert compare("", steps[0], of(dtype, [1, 1]), *allowed).ok
    assert not compare("", steps[0], of(dtype, [0.5, 1]), *allowed).ok


def test_what_cancels_to_almost_nothing_moves_by_the_terms() -> None:
    """Some derivatives of a saturated row of a softmax are 0 or about 1e-16, depending on rounding.

    Both must be accepted.
    """
    generator = np.random.default_rng(2)
    x, w1, w2 = (generator.normal(size=s) for s in ((32, 64), (64, 128), (128, 64)))

    def layer(x: Any, w1: Any, w2: Any) -> Any:
        z = tnf.nn.gelu(x @ w1) @ w2
        z = tnf.exp(z - tnf.mean(z, axis=-1, keepdims=True))
        return tnf.sum(z / tnf.sum(z, axis=-1, keepdims=True) * x)

    report = check_parity(layer, x, w1, w2, grad=True, locate=False, interpreter=False)
    assert not any(output.outside for output in report.outputs), str(report)


def test_what_may_be_infinite_may_be_a_large_number_and_no_small_one() -> None:
    """1 / sqrt(|lgamma(1)|) is infinite. If XLA's zero is rounded, it is large.

    Both must be accepted, and small values must not.
    """
    x = of("float32", [1.0])

    def fn(x: Any) -> Any:
        return 1 / tnf.sqrt(tnf.abs(tnf.lgamma(x)))

    for value, ok in ((np.inf, True), (1000.0, True), (1e6, True), (1.0, False), (-1e4, False)):
        assert agrees(fn, x, change=lambda y, value=value: [value]) is ok


@pytest.mark.parametrize(("choose", "sign"), [(tnf.argmax, 1), (tnf.argmin, -1)])
def test_an_index_may_be_of_any_candidate_as_good_and_of_no_other(choose: Any, sign: int) -> None:
    keys = np.log(np.full((2, 300), 2.0) - np.eye(2, 300, 1) * 0.5 * sign)

    def fn(x: Any) -> Any:
        return choose(tnf.exp(x), axis=1, keepdims=True)

    for index, ok in ((299, True), (77, True), (77777, False), (-1, False)):
        assert agrees(fn, keys, change=lambda y, index=index: np.array([[index], [3]])) is ok
    # One key is smaller than the others by 1/2. Rounding cannot make it the maximum, so its index must be rejected.
    assert not agrees(fn, keys, change=lambda y: np.array([[1], [3]]))
    assert not agrees(fn, np.full((2, 3), np.nan), change=lambda y: y + 1)


def test_a_count_may_be_what_its_comparisons_add_up_to() -> None:
    angles = np.concatenate([RNG.uniform(-9, 9, (2, 60)), np.full((2, 4), 0.5)], axis=1)

    def fn(x: Any) -> Any:
        edge = np.concatenate([np.ones(60), np.array([0.0, 0.0, 2.0, 2.0])])
        return tnf.count_nonzero(tnf.sin(x) ** 2 + tnf.cos(x) ** 2 > edge, axis=1)

    for count, ok in ((2, True), (61, True), (62, True), (1, False), (63, False)):
        assert agrees(fn, angles, change=lambda y, count=count: np.full(2, count)) is ok


def test_an_exact_count_has_no_other() -> None:
    x = RNG.standard_normal((3, 20))
    assert agrees(lambda x: tnf.sum(tnf.astype(x > 0, "int32"), axis=1), x)
    for wrong in (1, -1):
        assert not agrees(
            lambda x: tnf.sum(tnf.astype(x > 0, "int32"), axis=1),
            x,
            change=lambda y, w=wrong: y + w,
        )


def test_no_tolerance_is_without_end() -> None:
    with pytest.raises(tnf.errors.InvalidConfigError, match="finite"):
        check_parity(lambda x: x, np.ones(2), rtol=np.inf)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex128"])
def test_results_of_rank_0(dtype: str) -> None:
    """NumPy returns scalars in place of arrays of rank 0, and kernels cannot write into a scalar.

    Results must agree nevertheless.
    """
    x = of(dtype, 0.5)

    def fn(x: Any) -> Any:
        y = tnf.exp(x) * x
        z = tnf.sum(tnf.stack([y, y + x, y / 3]))
        return tnf.stack([z, z]).at[0].set(y), tnf.sqrt(z), z

    assert agrees(fn, x)
    assert not agrees(fn, x, change=lambda y: y * 2)


# ---- exact operations --------------------------------------------------------------------------------

EXACT: dict[str, Any] = {
    "negate": lambda x: -x,
    "abs": tnf.abs,
    "flip": tnf.flip,
    "relu": lambda x: tnf.maximum(x, tnf.zeros_like(x)),
    "max": lambda x: tnf.max(x, axis=0),
    "sort": lambda x: tnf.sort(x, axis=0),
    "cumulative max": lambda x: apply_one(CumMax(0), x),
    "gather": lambda x: tnf.take(x, np.array([2, 0, 2]), axis=0),
    "where": lambda x: tnf.where(x > 0, x, -x),
    "clip": lambda x: tnf.clip(x, -0.5, 0.5),
    "floor": tnf.floor,
    "one sum": lambda x: x + tnf.flip(x),
    "one product": lambda x: x * x,
    "one quotient": lambda x: x / tnf.flip(x),
    "widening": lambda x: tnf.astype(x, "float64"),
    "narrowing": lambda x: tnf.astype(x, "float16"),
    "sum of one": lambda x: tnf.sum(x[:, :1], axis=1),
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_exact_is_the_same_to_the_last_bit(dtype: str) -> None:
    x = of(dtype, RNG.uniform(0.25, 2, (5, 7)) * RNG.choice([-1, 1], (5, 7)))

    def fn(x: Any) -> Any:
        return {name: rule(x) for name, rule in EXACT.items()}

    assert agrees(fn, x)
    program = tnf.compile(fn, x)
    outputs, _ = flatten(program.run(x))
    for name, y, (limit, *_) in zip(
        program.output_names, outputs, limits(program, [x], outputs), strict=True
    ):
        assert not limit.any(), name
        off = np.nextafter(y, of(str(DType.of(y.dtype)), np.inf))
        assert not compare(name, y, off, limit).ok, name


@pytest.mark.parametrize("combiner", ["min", "max", "set"])
def test_a_scatter_that_chooses_is_exact(combiner: str) -> None:
    x, updates = of("bfloat16", RNG.standard_normal((2, 6, 3)))
    places = np.array([4, 0, 4, 1, 5, 3])

    def fn(x: Any, updates: Any) -> Any:
        return getattr(x.at[places], combiner)(updates)

    assert agrees(fn, x, updates)
    assert not agrees(fn, x, updates, change=lambda y: y * 1.01)


@pytest.mark.parametrize("combiner", ["add", "multiply"])
def test_a_scatter_that_adds_up_is_bounded_by_its_updates(combiner: str) -> None:
    x, updates = of("bfloat16", RNG.uniform(1, 2, (2, 6, 3)))
    places = np.array([4, 0, 2, 1, 5, 3])

    def fn(x: Any, updates: Any) -> Any:
        return getattr(x.at[places], combiner)(updates)

    assert agrees(fn, x, updates)
    assert not agrees(fn, x, updates, change=lambda y: y.astype(np.float32) * 1.05)


# ---- contraction ---------------------------------------------------------------------------------------


def fused(a: Any, b: Any, c: Any) -> Any:
    """Return a b + c for each element. It is computed with exact fractions, and rounded once."""
    exact = [
        float(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)))
        for p, q, r in zip(a, b, c, strict=True)
    ]
    return np.array(exact)


@pytest.mark.parametrize("close", [False, True])
def test_a_product_and_a_sum_may_be_rounded_once(close: bool) -> None:
    """The bound must include the rounding of the product, even if the sum cancels.

    It must not include a hundred times this rounding.
    """
    a, b, c = RNG.uniform(0.5, 2, (3, 400))
    c = -(a * b) * (1 + 1e-9 * c) if close else c
    program = tnf.compile(lambda a, b, c: a * b + c, a, b, c)
    y = program.run(a, b, c)
    ((limit, *_),) = limits(program, [a, b, c], [y])
    assert compare("", y, fused(a, b, c), limit).ok
    assert (y != fused(a, b, c)).any()
    roundings = np.spacing(a * b) / 2
    assert np.median(limit / roundings) < (4 if close else 40)
    assert not compare("", y, y + 64 * roundings, limit).ok
    assert agrees(lambda a, b, c: a * b + c, a, b, c)


def test_constants_are_gathered() -> None:
    """XLA replaces (x + 1e4) - 1e4 by x, and x / 3 by x times the rounded 1/3. The bounds must include both."""
    x = RNG.standard_normal(64)
    for fn in (lambda x: (x + 1e4) - 1e4, lambda x: x / 3.0, lambda x: (x * 3.3) * 5.1):
        assert agrees(fn, x)
        assert not agrees(fn, x, change=lambda y: y * (1 + 1e-7))


def test_a_chain_of_constants_loses_a_rounding_each() -> None:
    x = RNG.standard_normal(400)

    def fn(x: Any) -> Any:
        for factor in np.linspace(1.1, 1.9, 30):
            x = x * factor
        return x

    assert agrees(fn, x)
    assert not agrees(fn, x, change=lambda y: y * (1 + 1e-13))


WIDER = ["int8", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("narrow", WIDER)
def test_conversions_are_exact_where_every_number_comes_back(narrow: str) -> None:
    """Conversions to dtypes in which all digits of every number fit must be exact.

    Conversions to integers must truncate.
    """
    dtype = np.dtype(narrow)
    info: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    ends = [info.max, info.max - 1, info.min] + ([1 + info.eps] if dtype.kind == "f" else [])
    numbers = np.array(ends, dtype)
    for wide in WIDER:
        with np.errstate(over="ignore", invalid="ignore"):
            converted = numbers.astype(wide)
        is_exact = converted.dtype.kind == "i" or list(map(Fraction, _finite(converted))) == list(
            map(Fraction, _finite(numbers))
        )
        spec = tnf.TensorSpec((3,), narrow)
        row = rounding.rounding_of(el.Convert(tnf.DType.of(wide)), (spec,))
        assert (row == rounding.EXACT) == is_exact, wide


def _finite(x: Any) -> list[Any]:
    return [each for each in x.tolist() if each == each and abs(each) != float("inf")]


def test_a_last_bit_of_a_narrow_float_may_differ_in_a_wide_one() -> None:
    """A bfloat16 result may differ by one ulp.

    After a conversion to float32, the same difference is 65,536 ulps, and must still be accepted.
    """
    x = of("bfloat16", RNG.uniform(0.6, 1, 64))

    def wide(x: Any) -> Any:
        return tnf.astype(tnf.tanh(x), "float32")

    bit = np.float32(2.0**-8)  # one ulp of bfloat16 between 1/2 and 1
    assert agrees(wide, x, change=lambda y: y + bit)
    assert not agrees(wide, x, change=lambda y: y + 8 * bit)
    assert agrees(lambda x: wide(x) * 3, x, change=lambda y: y + 3 * bit)


def test_a_part_of_a_complex_product_is_relative_to_the_modulus() -> None:
    z = np.exp(0.1j * RNG.standard_normal(400)) * RNG.uniform(1, 2, 400)
    w = 1j * np.conj(z) * (1 + 1e-12 * RNG.standard_normal(400))
    report = check_parity(lambda z, w: tnf.real(z * w), z, w, locate=False)
    assert report.ok, str(report)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_once(dtype: str) -> None:
    x = of(dtype, RNG.uniform(0.5, 1, 64))
    for fn in (tnf.tanh, lambda x: tnf.exp(x) * x, lambda x: x * x + x):
        assert agrees(fn, x)
        assert not agrees(fn, x, change=lambda y: y.astype(np.float32) * 1.1)


# ---- long sums --------------------------------------------------------------------------------------------

WINDOWS = Convolution(
    window_strides=(16,), padding=((8, 8),), lhs_dilation=(1,), rhs_dilation=(1,),
    window_reversal=(False,), input_batch=0, input_feature=1, input_spatial=(2,),
    kernel_output_feature=0, kernel_input_feature=1, kernel_spatial=(2,),
    output_batch=0, output_feature=1, output_spatial=(2,),
)  # fmt: skip
SUMS: dict[str, Any] = {
    "product": lambda x, w: x @ tnf.matrix_transpose(w),
    "rows": lambda x, w: tnf.sum(x, axis=1),
    "columns": lambda x, w: tnf.sum(tnf.matrix_transpose(x) * 1.0, axis=0),
    "mean": lambda x, w: tnf.mean(x * w[:1], axis=1),
    "scan": lambda x, w: tnf.cumulative_sum(x[:, :2048], axis=1),
    "scatter": lambda x, w: x[0, :4].at[np.arange(4096) % 4].add(x[1, :4096]),
    "convolution": lambda x, w: apply_one(
        WINDOWS, tnf.reshape(x, (2, 64, 256)), tnf.reshape(w[:, :4096], (8, 64, 64))
    ),
}

NARROW_FIRST = ["float32", pytest.param("float64", marks=pytest.mark.sweep)]
"""Dtypes of long sums. Both have the same formula for the bound, so the slower float64 runs only in the sweep."""


@pytest.mark.parametrize("dtype", NARROW_FIRST)
@pytest.mark.parametrize("value", [0.001, 0.00098, 0.000917, 0.3])
def test_sums_of_equal_terms_round_one_way(value: float, dtype: str) -> None:
    x, w = of(dtype, np.full((2, 16384), value)), np.ones((8, 16384), dtype)

    def fn(x: Any, w: Any) -> Any:
        return {name: rule(x, w) for name, rule in SUMS.items()}

    report = check_parity(fn, x, w, grad=True, locate=False, interpreter=False)
    assert report.ok, str(report)


def sequential(terms: Any) -> Any:
    """Return the sums over the last axis. One element is added after the other."""
    return np.add.accumulate(terms, axis=-1)[..., -1]


@pytest.mark.parametrize("value", [0.001, 0.00098, 0.1, 0.7])
def test_a_sum_one_after_the_other_is_right_and_a_thousandth_is_not(value: float) -> None:
    x = of("float32", np.full((2, 16384), value))
    assert agrees(lambda x: tnf.sum(x, axis=1), x, change=lambda y: sequential(x))
    assert not agrees(lambda x: tnf.sum(x, axis=1), x, change=lambda y: y * 1.002)


@pytest.mark.parametrize("dtype", NARROW_FIRST)
@pytest.mark.parametrize("shape", [(4, 20000, 3), (1, 20000, 64), (64, 20000, 1)])
def test_products_of_small_matrices_and_of_vectors_add_one_after_the_other(
    shape: tuple[int, int, int], dtype: str
) -> None:
    rows, length, columns = shape
    x, w = of(dtype, np.full((rows, length), 0.1)), np.ones((length, columns), dtype)

    def chain(y: Any) -> Any:
        return np.broadcast_to(sequential(x)[:, None], y.shape)

    for change in (lambda y: y, chain):
        assert agrees(lambda x, w: x @ w, x, w, change=change)
    assert not agrees(lambda x, w: x @ w, x, w, change=lambda y: y * 1.01)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_scatter_may_add_its_updates_in_any_order(dtype: str) -> None:
    x = of(dtype, np.full(4096, 0.001))

    def fn(x: Any) -> Any:
        return tnf.zeros_like(x[:2]).at[np.arange(4096) % 2].add(x)

    assert agrees(fn, x, change=lambda y: np.full_like(y, 2048 * x.astype(np.float64)[0]))
    assert agrees(fn, x, change=lambda y: np.full_like(y, sequential(x[::2])))
    assert not agrees(fn, x, change=lambda y: y * 1.001)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
@pytest.mark.parametrize("compare", [tnf.equal, tnf.not_equal])
def test_numbers_that_are_as_good_as_equal_may_be_equal(dtype: str, compare: Any) -> None:
    """If operands are equal within rounding, a comparison may return either value.

    Both must be accepted, even if no random run shows both.
    """
    x = of(dtype, RNG.uniform(-2, 2, (3, 4)))
    y = np.exp(x)
    near, apart = y * (1 + np.finfo(dtype).eps), y * (1 + 1000 * np.finfo(dtype).eps)
    turned = lambda z: ~z
    assert agrees(lambda x, y: compare(tnf.exp(x), y), x, of(dtype, near), change=turned)
    assert not agrees(lambda x, y: compare(tnf.exp(x), y), x, of(dtype, apart), change=turned)
    infinite = of(dtype, np.full_like(y, 1e4))
    assert not agrees(lambda x, y: compare(tnf.exp(x), y), infinite, y, change=turned)
    # Exact values are compared without a tolerance. Any changed result must be rejected.
    assert not agrees(lambda x, y: compare(tnf.negative(x), y), -y, of(dtype, near), change=turned)
    assert not agrees(compare, np.arange(3), np.arange(3) + 1, change=turned)


def test_the_sign_of_what_is_as_good_as_zero_may_be_either() -> None:
    """A value within rounding of zero may have either sign.

    Both signs must be accepted, even if the random runs rarely show both.
    """
    x = of("bfloat16", [[1, 1, 7], [2, 1, 7], [1, 2, 7], [2, 2, 7]])
    fn = lambda x: tnf.sign(tnf.sort(tnf.lgamma(x)))
    for value in (-1, 0, 1):
        assert agrees(fn, x, change=lambda y, value=value: np.tile([value, value, 1], (4, 1)))
    assert not agrees(fn, x, change=lambda y: -np.ones(y.shape))
    assert not agrees(tnf.sign, x, change=lambda y: -y)


def test_directions_of_complex_numbers_do_not_tip() -> None:
    """A real sign function may jump by rounding.

    The complex sign function does not: it moves continuously on the unit circle.
    """
    for dtype, tips in (("complex64", False), ("float32", True)):
        program = tnf.compile(lambda x: tnf.sign(x) / x - 1, of(dtype, RNG.uniform(1, 2, 3)))
        assert may_jump(program) is tips


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float_that_rounding_tips_over_a_step_may_take_it(dtype: str) -> None:
    x = np.arange(0.5, 100.5, 0.25).astype(dtype)

    def fn(x: Any) -> Any:
        return tnf.round(tnf.exp(tnf.log(x)))

    assert agrees(fn, x)
    assert agrees(fn, x, change=lambda y: np.round(x))
    assert not agrees(fn, x, change=lambda y: np.round(x) + (x == 100))


def test_sums_of_random_terms_are_held_closer() -> None:
    x = of("float32", RNG.uniform(0, 1, (2, 16384)))
    w = np.ones((8, 16384), np.float32)

    def total(x: Any, w: Any) -> Any:
        return tnf.sum(x, axis=1)

    def product(x: Any, w: Any) -> Any:
        return x @ tnf.matrix_transpose(w)

    assert agrees(total, x, w, change=lambda y: sequential(x))
    for fn in (total, product):
        assert agrees(fn, x, w)
        assert not agrees(fn, x, w, change=lambda y: y * (1 + 1e-4))


def test_a_long_layer_proves_itself() -> None:
    w = np.ones((4096, 64), np.float32)
    artifact = xla_peer.export(lambda x: x @ w, np.ones((2, 4096), "float32"), gradient=True,
                               vectors=[(of("float32", np.full((2, 4096), 0.001)),)])  # fmt: skip
    found = xla_peer.verify(artifact)
    assert found.ok, str(found)


# ---- opinions --------------------------------------------------------------------------------------------


def test_an_expansion_that_both_run_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {Asin: lambda op, w, x: call("acos", w, x)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    report = check_parity(lambda x: tnf.asin(x) * 2, np.array([0.3, 0.4]))
    assert not report.ok
    assert report.interpreter == (
        "the reference interpreter agrees with PJRT, but both run the same expansion of Asin, which "
        "counts once: native or the expansion is wrong"
    )
    assert report.first_divergence is not None
    assert "is alone" not in report.first_divergence.verdict


def test_one_operation_of_stablehlo_has_no_expansion() -> None:
    x = np.array([0.3, 0.4])
    program = tnf.compile(lambda x: tnf.tanh(x) + tnf.cumulative_sum(x), x)
    assert opinion.expanded_ops(program) == []

    def step(i: Any, x: Any) -> Any:
        return tnf.asinh(x)

    loop = tnf.compile(lambda x: tnf.fori_loop(0, 2, step, tnf.tanh(x)), x)
    assert opinion.expanded_ops(loop) == ["Asinh"]
    factor = tnf.compile(tnf.linalg.cholesky, np.eye(2))
    assert opinion.expanded_ops(factor) == ["tenferro.cholesky.v1"]


def test_who_lies_between_does_not_agree_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1.0, 2.0])
    program = tnf.compile(lambda x: x * 3, x)
    native, between, xla = ([np.array([3.0, 6.0]) + off] for off in (0.0, 0.75, 1.5))
    monkeypatch.setattr(opinion, "interpreted", lambda program, leaves: between)
    allowed = [Allowance(np.ones(2))]
    said = opinion.opinion(program, [x], native, xla, allowed)
    assert said.words.startswith("the reference interpreter is between native and PJRT")
    assert opinion.opinion(program, [x], native, native, allowed).words.endswith("agrees with both")
    assert opinion.opinion(program, [x], native, [xla[0] + 9], allowed).alone == "PJRT"


def test_a_product_that_is_off_by_an_ulp_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(op: Any, w: Any, x: Any, y: Any) -> Any:
        z = w.op("multiply", x, y, result=x.spec)
        return w.op("multiply", z, w.full(1 + 2.0**-51, x.spec), result=x.spec)

    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, Multiply: off})
    report = check_parity(lambda x: x * x, RNG.standard_normal(9), interpreter=False)
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Multiply")


def test_the_modulus_of_huge_complex_numbers_is_bounded() -> None:
    huge = np.array([complex(1.7e308, 1.7e308)])
    assert compare("", huge, huge * (1 + 2.5e-16), *explained(huge, [huge], 4.0)).ok
    assert not compare("", huge, huge * 0.99, *explained(huge, [huge], 4.0)).ok


# ---- beside poles --------------------------------------------------------------------------------


def test_a_pole_that_rounding_reaches_or_misses() -> None:
    # lgamma(1) is 0, and XLA returns about 1e-7 for it. digamma has a pole at 0.
    assert agrees(lambda x: tnf.digamma(tnf.lgamma(x)), np.ones((2, 3), "float32"))
    # sinh(asinh(-1)) is -1, or differs from it by one ulp. Its log1p may therefore be infinite, NaN, or finite.
    for value in (-np.inf, np.nan, -36.04, -34.9):
        assert agrees(
            lambda x: tnf.log1p(tnf.sinh(tnf.asinh(x))),
            np.array([-1.0]),
            change=lambda y, value=value: np.full_like(y, value),
        )
    for value in (36.0, 1.0, np.inf):
        assert not agrees(
            lambda x: tnf.log1p(tnf.sinh(tnf.asinh(x))),
            np.array([-1.0]),
            change=lambda y, value=value: np.full_like(y, value),
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sum_whose_largest_terms_cancel(dtype: Any) -> None:
    """In XLA's order, (1 + 1) + ((1 + m) - m) is 2. Sequentially, ((1 + 1) + 1) + (m - m) is 3.

    Both must be accepted.
    """
    m = np.finfo(dtype).max
    x = np.array([[1, 1, 1, m, -m], [1, 1, 1, 1, 1]], dtype)
    report = check_parity(lambda x: tnf.lax.cumsum(x, axis=1, reverse=True), x)
    assert report.ok, str(report)
