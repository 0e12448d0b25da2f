"""Proven error bounds. Right results must never be outside of them, and they must be tight enough to be useful.

Right results come from definitions, from sums of fractions, from mpmath, from operations in another order, or from
XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import mul
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo
from tenferro.definitions import definition_of
from tenferro.dispatch import apply_one
from tenferro.errors import InvalidConfigError
from tenferro.exec.kernels import KERNELS
from tenferro.ops import STD_OPS
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import control as cf
from tenferro.ops import elementwise as el
from tenferro.ops import reduction as re
from tenferro.types import DType, flatten, unflatten
from tests.ops.test_parity import program_of
from tests.samples import SAMPLES
from tools.parity_score.programs import Subject, subjects
from tools.parity_score.rewrites import rewrites
from xla_peer import ErrorBound, check_parity, error_bound
from xla_peer.parity.balls import BALL_RULES
from xla_peer.parity.balls.control import LOOPS
from xla_peer.parity.balls.measured import (
    error_of_product,
    error_of_quotient,
    error_of_sum,
    error_of_terms,
)
from xla_peer.parity.balls.operands import Ball, Operands
from xla_peer.parity.balls.tape import Tape
from xla_peer.parity.ulps import modulus, spacing

RNG = np.random.default_rng(7)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Reset the random generator. Each test then draws the same numbers, whichever tests ran before."""
    RNG.bit_generator.state = START


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@np.errstate(all="ignore")
def outside(bound: ErrorBound, others: Any, half_ulps: bool = False) -> list[int]:
    """Count, for each output, the elements of `others` that are outside of the bound.

    If `half_ulps`, the rounding of a definition's result is allowed.
    """
    counts: list[int] = []
    balls = zip(flatten(bound.values)[0], flatten(bound.radii)[0], strict=True)
    for (value, radius), other in zip(balls, others, strict=True):
        value, other = np.asarray(value), np.asarray(other)
        x, y = wide(value), wide(other)
        same = (x == y) | ((x != x) & (y != y))
        apart = np.where(same, 0.0, modulus(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        slack = 0.51 * spacing(other) if half_ulps and other.dtype.kind not in "biu" else 0.0
        counts.append(int(np.count_nonzero(apart > radius + slack)))
    return counts


def holds(fn: Callable[..., Any], *arrays: Any) -> ErrorBound:
    """Compute the bound of a function, require that XLA's results are within it, and return the bound."""
    program = tnf.compile(fn, *arrays)
    bound = error_bound(program, *arrays)
    results = flatten(xla_peer.XlaExecutor().run(program, *arrays))[0]
    assert not any(outside(bound, results))
    return bound


# ---- every op ------------------------------------------------------------------------------------


def test_the_tables_are_total() -> None:
    assert set(STD_OPS) - set(cf.CARDS) <= set(BALL_RULES)
    assert set(LOOPS) == set(cf.CARDS)


@pytest.mark.parametrize("card", SAMPLES, ids=lambda card: card.__name__)
def test_no_definition_is_outside(card: Any) -> None:
    """The expected values of all samples must be within the bounds. They are exact, or rounded once."""
    samples = SAMPLES[card]
    program = program_of(list(samples), False)
    bound = error_bound(program, *[x for sample in samples for x in sample.inputs])
    expected = [y for sample in samples for y in sample.expected]
    assert not any(outside(bound, expected, half_ulps=True))


def test_few_elements_of_samples_are_without_a_bound() -> None:
    """Most elements of samples must have a finite bound.

    The samples contain many infinities, zero divisors and overflows.
    """
    radii: list[Any] = []
    for samples in SAMPLES.values():
        chosen = samples[:: max(1, len(samples) // 20)]
        program = program_of(list(chosen), False)
        bound = error_bound(program, *[x for sample in chosen for x in sample.inputs])
        radii += [np.asarray(radius).reshape(-1) for radius in flatten(bound.radii)[0]]
    every = np.concatenate(radii)
    assert np.count_nonzero(np.isinf(every)) <= 0.02 * every.size


FUNCTIONS = {
    card.__name__.lower(): definition_of(card())
    for card in an.CARDS
    if card not in (an.Atan2, an.Polygamma)
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_function_of_a_rounded_argument_holds_the_function_of_the_exact_one(
    name: str, dtype: str
) -> None:
    """In f(x y + z), the argument cancels to a thousandth.

    This magnifies the relative rounding error of the argument a thousandfold, which the bound must include.
    """
    where = 1.5 if name == "acosh" else 0.5
    x = RNG.uniform(999, 1001, 40).astype(dtype)
    z = np.array(
        [
            where - float(a) * 1.0000001 + e
            for a, e in zip(x, RNG.uniform(-0.3, 0.3, 40), strict=True)
        ]
    )
    z = z.astype(dtype)
    y = np.full(40, 1.0000001).astype(dtype)
    fn = getattr(tnf, "acosh" if name == "acosh" else name, None) or getattr(tnf.special, name)
    bound = error_bound(lambda x, y, z: fn(x * y + z), x, y, z)
    with mpmath.workdps(40):
        truth = [
            FUNCTIONS[name](mpmath.mpf(float(a)) * float(b) + float(c))
            for a, b, c in zip(x, y, z, strict=True)
        ]
        apart = [abs(t - float(v)) for t, v in zip(truth, bound.values, strict=True)]
    assert all(float(d) <= r for d, r in zip(apart, bound.radii, strict=True))
    assert max(bound.radii) < 1e4 * max(map(float, apart))


# ---- sums and products in any order --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_order_of_a_sum_is_inside(dtype: str) -> None:
    x = RNG.standard_normal(300).astype(DType.of(dtype).dtype)
    bound = error_bound(lambda x: tnf.sum(x), x)
    work = x.astype(DType.of(dtype).accumulator.dtype)
    orders = [work, work[::-1], np.sort(work), np.sort(work)[::-1], work[np.argsort(np.abs(work))]]
    others = [np.add.accumulate(order)[-1].astype(x.dtype) for order in orders]
    exact = float(sum(Fraction(float(value)) for value in x))
    assert not any(outside(bound, [other])[0] for other in (*others, np.float64(exact)))
    assert float(bound.radii) < 1e3 * float(ml_dtypes.finfo(x.dtype).eps) * float(
        np.abs(x.astype(float)).sum()
    )


def test_a_wrong_term_is_outside() -> None:
    """Wrong results must be outside of the bound.

    Without this test, infinite bounds would pass all other tests.
    """
    x = RNG.standard_normal(300)
    bound = error_bound(lambda x: tnf.sum(x), x)
    assert outside(bound, [x.sum() + 1e-10]) == [1]
    a, b = RNG.standard_normal((20, 30)), RNG.standard_normal((30, 10))
    product = error_bound(lambda a, b: a @ b, a, b)
    assert not outside(product, [a @ b])[0]
    assert outside(product, [(a.astype(np.float32) @ b.astype(np.float32)).astype(float)])[0] > 190


@pytest.mark.parametrize("count", [2, 3])
def test_few_terms_have_a_rounding_for_each_addition(count: int) -> None:
    """The radius for a sum of n positive terms must be about n - 1 roundings of the sum (Higham, 4.4).

    The error of the native sum may be added.
    """
    x = RNG.uniform(1, 2, count)
    rounding = np.finfo(x.dtype).eps / 2 * float(x.sum())
    radius = float(error_bound(lambda x: tnf.sum(x), x).radii)
    assert (count - 1) * rounding <= radius <= (count + 0.01) * rounding


def test_a_contraction_to_one_operation_is_inside() -> None:
    """Results with a fused multiply-add must be within the bound.

    a b - round(a b) is then the rounding error of the product, and not 0.
    """
    a, b = RNG.standard_normal(50), RNG.standard_normal(50)
    bound = error_bound(lambda a, b: a * b - a * b, a, b)
    fused = [float(Fraction(x) * Fraction(y) - Fraction(x * y)) for x, y in zip(a, b, strict=True)]
    assert not outside(bound, [np.array(fused)])[0]
    assert any(fused)


def test_what_is_exact_has_no_radius() -> None:
    x = np.arange(6.0)
    bound = error_bound(lambda x: (tnf.sum(x), x + 1, x * 2, x @ x, x / 4, tnf.prod(x + 1)), x)
    assert not any(np.asarray(radius).any() for radius in bound.radii)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_numbers_that_an_order_rounds_have_a_radius(dtype: str) -> None:
    """If a sum depends on the order of its terms, it must have a radius.

    With p bits, 2^p + 1 + 1 is 2^p, but 1 + 1 + 2^p is 2^p + 2.
    """
    x = np.array([float(2 << np.finfo(dtype).nmant), 1.0, 1.0], dtype)
    forward, backward = (np.add.accumulate(order)[-1] for order in (x, x[::-1]))
    assert backward - forward == 2
    for fn in (lambda x: tnf.sum(x), lambda x: tnf.cumulative_sum(x)[-1]):
        bound = error_bound(fn, x)
        assert not any(outside(bound, [y])[0] for y in (forward, backward))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["cosh", "sinh"])
def test_the_argument_of_a_hyperbolic_function_is_rounded_on_the_way(name: str, dtype: str) -> None:
    """XLA computes e^(x + log(1/2)).

    The rounding of the sum in the exponent is magnified by the size of the sum, which the bound must include.
    """
    x = np.linspace(0.9, 0.99, 40, dtype=dtype) * np.log(np.finfo(dtype).max)
    by_sum = np.exp(
        (x + np.log(x.dtype.type(0.5))).astype(float) if dtype == "float32" else x + np.log(0.5)
    )
    by_sum = by_sum.astype(dtype)
    bound = error_bound(getattr(tnf, name), x)
    far = np.abs(by_sum.astype(float) - np.asarray(bound.values)) / np.spacing(by_sum)
    assert far.max() > 16
    assert not outside(bound, [by_sum])[0]
    assert check_parity(getattr(tnf, name), x, bound="proven").ok
    assert check_parity(getattr(tnf, name), x).ok


def test_reciprocals_of_negative_zeros_have_no_sign() -> None:
    """1 / -0 is negative, although -0 is not less than 0. The bound must therefore assume no sign.

    The same holds for the maximum of no elements.
    """
    zeros = np.array([-0.0, 0.0, 4.0])
    for fn in (lambda x: 1 / x, tnf.rsqrt):
        bound = error_bound(lambda x, fn=fn: tnf.exp(-fn(tnf.abs(x) * x)), zeros)
        assert bound.values[0] == np.inf
        assert not bound.radii[0] <= 2
    empty = error_bound(lambda x: tnf.exp(-tnf.lax.reduce_max(x, (0,))), np.ones((0,)))
    assert empty.values == np.inf


def test_flushed_subnormal_numbers_are_inside() -> None:
    x = np.array([1e-310, 3e-308, 1.0])
    bound = error_bound(lambda x: (x * 0.5, x + 0.0), x)
    assert not any(outside(bound, [np.array([0.0, 0.0, 0.5]), np.array([0.0, 3e-308, 1.0])]))
    assert bound.radii[1][2] == 0


def test_a_subnormal_number_that_is_chosen_may_be_flushed() -> None:
    bits = np.array([3, 1 << 60], np.int64)
    number = lambda n: apply_one(el.BitcastConvert(tnf.DType.F64), n)
    for choice in (
        lambda n: tnf.maximum(number(n), -1.0),
        lambda n: tnf.minimum(number(n), 1.0),
        lambda n: tnf.clip(number(n), -1.0, 1.0),
        lambda n: tnf.sqrt(number(n)) * 1e-100,
    ):
        bound = holds(choice, bits)
        assert 0 < np.asarray(bound.radii)[0] < 1e-250
        assert np.asarray(bound.radii)[1] < 1e-13 * np.asarray(bound.values)[1]


def test_a_complex_logarithm_of_nearly_nothing_has_no_bound() -> None:
    """XLA returns -inf for this logarithm, because its square of the imaginary part underflows.

    The bound must be infinite to include this result.
    """
    x = np.array([complex(-1.0, 1.1754944e-38)], np.complex64)
    assert np.isinf(np.asarray(holds(lambda x: tnf.log1p(x), x).radii)).all()


def test_a_subnormal_part_and_a_subnormal_divisor_may_be_flushed() -> None:
    z = np.array([1.2e-38 + 5.9e-39j, 1.0 + 1.0j], np.complex64)
    bound = error_bound(lambda z: z * 1.0, z)
    assert not outside(bound, [np.array([1.2e-38, 1.0 + 1.0j], np.complex64)])[0]
    small = error_bound(lambda x: tnf.remainder(x, np.array([1e-310, 2.0])), np.array([1.0, 5.0]))
    assert np.isinf(small.radii[0])
    assert small.radii[1] == 0


def test_values_on_the_way_to_nearly_zero_may_be_flushed() -> None:
    """XLA flushes erf of the smallest normal number to 0. The bound must include 0."""
    bound = error_bound(lambda x: tnf.special.erf(x), np.array([1.1754944e-38, 0.5], np.float32))
    assert not outside(bound, [np.array([0.0, bound.values[1]], np.float32)])[0]


def test_a_complex_product_that_is_not_finite_has_no_bound() -> None:
    z = np.array([complex(np.inf, 1), 1 + 1j])
    bound = error_bound(lambda z: z * (1 + 1j), z)
    assert np.isinf(bound.radii[0])
    assert bound.radii[1] < 1e-13


# ---- decisions -----------------------------------------------------------------------------------


def near_tie() -> Any:
    """Return arrays of 0.1, 0.2 and 0.3.

    Rounding decides whether 0.1 + 0.2 exceeds 0.3: in float64, the sum is one rounding above it.
    """
    return np.array([0.1]), np.array([0.2]), np.array([0.3])


def test_both_sides_of_an_open_comparison_are_inside() -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        return tnf.where(a + b > c, 10.0 * a, -a), a + b > c, a + b > c + 1

    bound = error_bound(fn, *near_tie())
    assert not any(outside(bound, [np.array([-0.1]), np.array([False]), np.array([False])]))
    assert [open_.op for open_ in bound.undecided] == ["Compare"]
    assert float(bound.radii[0][0]) >= 1.1
    assert float(bound.radii[2][0]) == 0
    assert "Compare" in str(bound)
    assert __file__ in bound.undecided[0].line


def test_both_indices_of_a_near_tie_are_inside_and_a_third_is_not() -> None:
    x = np.array([[0.1 + 0.2 - 1e-17, 0.3, 0.1], [1.0, 2.0, 3.0]])
    bound = error_bound(lambda x: tnf.argmax(x * 1.1, axis=1), x)
    assert not outside(bound, [np.array([1, 2])])[0]
    assert outside(bound, [np.array([2, 0])])[0] == 2


def test_sorting_what_is_nearly_tied() -> None:
    keys = np.array([0.3, 0.1 * 3, 5.0, -1.0])
    bound = error_bound(lambda k: (tnf.sort(k * 1.1), tnf.argsort(k * 1.1)), keys)
    swapped = np.array([3, 1, 0, 2])
    assert not outside(bound, [np.sort(keys * 1.1), swapped])[1]
    assert not np.asarray(bound.radii[1])[[0, 3]].any()


def test_branches_and_turns_that_are_open_are_united() -> None:
    a, b, c = (x[0] for x in near_tie())

    def choice(a: Any, b: Any, c: Any) -> Any:
        return tnf.cond(a + b > c, lambda x: x * 2, lambda x: x - 5, a)

    bound = error_bound(choice, a, b, c)
    assert not outside(bound, [np.float64(-4.9)])[0]
    assert outside(bound, [np.float64(6.0)])[0]

    def iterations(step: Any) -> Any:
        """Add `step` until the sum reaches 1.0.

        With steps of 0.1, rounding decides whether there are 10 or 11 iterations.
        """
        return tnf.while_loop(
            lambda s: s[0] < 1.0, lambda s: (s[0] + step, s[1] + 1), (0.0 * step, 0 * step)
        )

    bound = error_bound(iterations, np.float64(0.1))
    assert float(bound.values[1]) == 11
    assert not outside(bound, [np.float64(1.0), np.float64(10)])[1]
    assert outside(bound, [np.float64(1.0), np.float64(13)])[1]


def test_a_loop_whose_condition_stays_open_has_no_bound_and_ends() -> None:
    def endless(x: Any) -> Any:
        return tnf.while_loop(lambda c: c * 1.1 - c * 1.1 > x, lambda c: c * 1.0, x + 0.1)

    bound = error_bound(endless, np.float64(0.0))
    assert np.isinf(bound.radii)
    assert bound.unbounded[0].op == "While"


# ---- relations -----------------------------------------------------------------------------------


def test_a_maximum_is_one_of_its_elements() -> None:
    """The gradient of a maximum must have a finite bound.

    Its divisor is the number of elements equal to the maximum, and thus at least 1.
    """
    x, w = RNG.standard_normal((4, 5)), RNG.standard_normal((5, 6))
    bound = error_bound(tnf.grad(lambda w: tnf.sum(tnf.max(x @ w, axis=1))), w)
    assert bound.is_finite
    assert not bound.undecided
    twice = np.concatenate([w[:, :1] * (1 + 1e-16), w[:, :1] * (1 + 2e-16) + 1e-17], axis=1)
    tied = error_bound(tnf.grad(lambda w: tnf.sum(tnf.max(x @ w, axis=1))), twice)
    assert tied.undecided


def test_the_root_of_a_square_is_a_number() -> None:
    x = np.array([0.3, 1.0])  # 7 x[0] is 2.1, up to rounding, so the difference is almost 0
    bound = error_bound(lambda x: tnf.sqrt((x * 7 - 2.1) ** 2 + (x * 7 - 2.1) * (x * 7 - 2.1)), x)
    assert bound.is_finite
    assert float(bound.radii[0]) < 1e-7
    signed = error_bound(lambda x: tnf.sqrt(x * 7 - 2.1), x)
    assert np.isinf(signed.radii[0])


def test_an_exponential_of_what_is_never_positive_is_at_most_one() -> None:
    x = np.array([1e30, 3.0])
    bound = error_bound(lambda x: tnf.log1p(tnf.exp(-tnf.abs(x * 1.1 - x))), x)
    assert bound.is_finite
    assert float(bound.radii[0]) < 1.1


# ---- native errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_native_errors_of_arithmetic_are_those_of_fractions(dtype: str) -> None:
    narrow = DType.of(dtype).dtype
    x, y = [
        (RNG.standard_normal(300) * 2.0 ** RNG.integers(-20, 20, 300)).astype(narrow) for _ in "xy"
    ]
    cases: dict[Any, tuple[Any, Callable[[Any, Any], Any]]] = {
        error_of_sum: (x + y, lambda a, b: a + b),
        error_of_product: (x * y, lambda a, b: a * b),
        error_of_quotient: (x / y, lambda a, b: a / b),
    }
    for error_of, (result, exactly) in cases.items():
        errors = error_of((wide(x), wide(y)), wide(result))
        for a, b, z, error in zip(wide(x), wide(y), wide(result), errors, strict=True):
            truth = abs(exactly(Fraction(a), Fraction(b)) - Fraction(z))
            assert abs(Fraction(error) - truth) <= truth / 2**40 + abs(Fraction(z)) / 2**80


def test_native_errors_of_sums_and_products_hold_those_of_fractions_and_little_more() -> None:
    scales = 10.0 ** RNG.integers(-6, 6, 40)
    a, b = RNG.standard_normal((3, 40)) * scales, RNG.standard_normal((40, 2)) / scales[:, None]
    product = co.DotGeneral((1,), (0,), (), ())
    for op, arrays, terms in ((product, (a, b), 40), (re.ReduceSum((1,)), (a,), 40)):
        specs = tuple([tnf.TensorSpec.of(x.shape, DType.F64) for x in arrays])
        results = (np.asarray(KERNELS[type(op)](op, *arrays)),)
        operands = Operands(op, tuple(map(Ball.exact, arrays)), specs, results)
        errors = error_of_terms(operands, op, terms)
        rows = [[Fraction(x) for x in row] for row in a]
        columns = [[Fraction(x) for x in column] for column in b.T] if len(arrays) == 2 else [None]
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                truth = sum(row) if column is None else sum(map(mul, row, column))
                place = (i,) if column is None else (i, j)
                native = abs(truth - Fraction(float(results[0][place])))
                largest = float(np.abs(a).max() * (1.0 if column is None else np.abs(b).max()))
                assert (
                    native
                    <= Fraction(errors[place])
                    <= native * Fraction(1.001) + Fraction(largest / 2.0**58)
                )


# ---- correlated errors ---------------------------------------------------------------------------


def test_an_error_that_cancels_is_not_counted_twice() -> None:
    """The bound of h - h must be exactly 0.

    The difference of two values that are computed separately must include the errors of both.
    """
    x = RNG.uniform(5, 6, 40)

    def difference(x: Any, y: Any) -> Any:
        h = tnf.exp(x)
        return h - tnf.exp(y), h - h

    bound = error_bound(difference, x, x)
    assert float(np.min(bound.radii[0])) > 1e-14
    assert float(np.max(bound.radii[1])) < 1e-20


def test_a_value_that_is_computed_again_may_be_contracted_for_one_use_alone() -> None:
    """A compiler may contract only one of two equal subexpressions.

    So 2 (a b + c) - 2 (a b + c) need not be 0, and the bound must include other results.
    """
    a, b, c = (RNG.standard_normal(50) for _ in range(3))
    bound = error_bound(lambda a, b, c: (a * b + c) * 2.0 - (a * b + c) * 2.0, a, b, c)
    terms = list(zip(a, b, c, strict=True))
    fused = [float(2 * (Fraction(x) * Fraction(y) + Fraction(z))) for x, y, z in terms]
    other = [fused_ - 2.0 * (x * y + z) for fused_, (x, y, z) in zip(fused, terms, strict=True)]
    assert any(other)
    assert not outside(bound, [np.array(other)])[0]


def test_a_carry_is_narrowed_once_it_has_grown_by_thousands_of_roundings() -> None:
    narrowed: list[Ball] = []

    def narrow(_: Tape, balls: Sequence[Ball]) -> list[Ball]:
        narrowed.extend(balls)
        return list(balls)

    tape, x = Tape(narrow), np.array([3.0, -0.5, 0.0])
    few, many = (Ball(x, count * np.finfo(x.dtype).eps * np.abs(x)) for count in (100, 10_000))
    assert tape.carry([few]) == [few]
    assert narrowed == []
    assert tape.carry([few, many]) == [few, many]
    assert narrowed == [few, many]


def test_a_rotation_in_a_loop_grows_by_a_rounding_each_turn() -> None:
    """The bound must grow by one rounding per iteration.

    If the two coordinates had separate intervals, the bound would be 10^8 times larger.
    """
    cos, sin, iterations = 0.8, 0.6, 60

    def turned(point: Any) -> Any:
        step = lambda t, p: (p[0] * cos - p[1] * sin, p[0] * sin + p[1] * cos)
        return tnf.fori_loop(0, iterations, step, point)

    bound = error_bound(turned, (np.float64(0.3), np.float64(0.4)))
    x, y = Fraction(0.3), Fraction(0.4)
    for _ in range(iterations):
        x, y = x * Fraction(cos) - y * Fraction(sin), x * Fraction(sin) + y * Fraction(cos)
    assert not any(outside(bound, [np.float64(float(x)), np.float64(float(y))]))
    assert max(float(radius) for radius in bound.radii) < 4 * iterations * np.finfo(float).eps


def test_what_a_branch_leaves_open_moves_as_a_whole() -> None:
    """If rounding decides the predicate of `where`, the error must include the difference between both branches."""
    a, b, c = near_tie()
    fn = lambda a, b, c: tnf.where(a + b > c, 10.0 * a, -a) * 3.0 + tnf.maximum(a + b, c)
    bound = error_bound(fn, a, b, c)
    assert not outside(bound, [np.array([-0.1 * 3 + 0.3])])[0]


# ---- programs ------------------------------------------------------------------------------------


def test_a_network_and_its_gradient_hold_what_xla_gives() -> None:
    x, w, v = (RNG.standard_normal(shape) for shape in ((8, 5), (5, 6), (6, 3)))

    def loss(x: Any, w: Any, v: Any) -> Any:
        return tnf.mean(tnf.logsumexp(tnf.tanh(x @ w) @ v, axis=1))

    bound = holds(tnf.value_and_grad(loss, (0, 1, 2)), x, w, v)
    assert bound.is_finite
    assert max(output.largest for output in bound.outputs) < 1e-12
    for dtype in ("float32", "bfloat16"):
        narrow = [z.astype(DType.of(dtype).dtype) for z in (x, w, v)]
        assert holds(loss, *narrow).is_finite


def test_a_scan_and_its_gradient_hold_what_xla_gives() -> None:
    def rolled(x: Any, xs: Any) -> Any:
        last, ys = tnf.scan(lambda c, x: ((tnf.sin(c * x) + c) / 2, c * c), x, xs)
        return tnf.sum(last) + tnf.sum(ys)

    bound = holds(tnf.value_and_grad(rolled, (0, 1)), RNG.random(4), RNG.random((20, 4)))
    assert bound.is_finite
    assert max(output.largest for output in bound.outputs) < 1e-12


@pytest.fixture(scope="module")
def loops() -> list[Subject]:
    """Return the smaller loops of the benchmark suite, and the gradients of such loops."""
    small = [
        subject
        for subject in subjects()
        if subject.kind in ("loop", "gradient") and len(subject.text) < 10_000
    ]
    assert len(small) > 40
    return small


@pytest.mark.parametrize(
    "part", [*range(2), *[pytest.param(part, marks=pytest.mark.sweep) for part in range(2, 8)]]
)
def test_rewrites_of_loops_are_inside(part: int, loops: list[Subject]) -> None:
    """Results must be within the bound after rewrites that keep the meaning.

    Operands are commuted, sums are reassociated, or the order of a loop is reversed.
    """
    for subject in loops[part::8]:
        bound = error_bound(import_stablehlo(subject.text, trusted=True), *subject.leaves)
        edits = {edit.kind: edit for edit in rewrites(subject.text)}
        for edit in edits.values():
            rewritten = import_stablehlo(edit.text, trusted=True)
            results = flatten(rewritten.run(*subject.leaves))[0]
            assert not any(outside(bound, results)), f"{subject.name}: {edit.kind}"


def test_a_fault_in_a_loop_is_outside(loops: list[Subject]) -> None:
    """If a difference replaces a sum in the body of a loop, the result must be outside of the bound."""
    (subject,) = [subject for subject in loops if subject.name == "jacobi-1d"]
    bound = error_bound(import_stablehlo(subject.text, trusted=True), *subject.leaves)
    line = next(
        line for line in subject.text.splitlines() if "stablehlo.add" in line and "f64" in line
    )
    text = subject.text.replace(line, line.replace("stablehlo.add", "stablehlo.subtract"))
    wrong = import_stablehlo(text, trusted=True)
    assert any(outside(bound, flatten(wrong.run(*subject.leaves))[0]))


def positive(order: int) -> Any:
    a = RNG.standard_normal((order, order))
    return a @ a.T + np.eye(order)


def truth(matrix: Any) -> Any:
    return np.array([[complex(x) for x in row] for row in matrix.tolist()])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_solutions_and_factors_hold_the_exact_ones(dtype: str) -> None:
    """Exact results must be within the bound.

    mpmath computes them with 40 digits, from the rounded elements.
    """
    a, b = positive(5).astype(dtype), RNG.standard_normal((5, 2)).astype(dtype)
    scale = RNG.uniform(0.9, 1.1, (5, 5))
    scale = ((scale + scale.T) / 2).astype(dtype)
    with mpmath.workdps(40):
        exact = mpmath.matrix(
            [
                [mpmath.mpf(float(x)) * float(y) for x, y in zip(*rows, strict=True)]
                for rows in zip(a, scale, strict=True)
            ]
        )
        right = mpmath.matrix(b.astype(float).tolist())
        low = mpmath.cholesky(exact)
        expected = {
            "solve": truth(exact**-1 * right),
            "cholesky": truth(low),
            "triangular": truth(low**-1 * right),
        }
    functions = {
        "solve": lambda a, s, b: tnf.linalg.solve(a * s, b),
        "cholesky": lambda a, s, b: tnf.linalg.cholesky(a * s),
        "triangular": lambda a, s, b: tnf.linalg.solve_triangular(
            tnf.linalg.cholesky(a * s), b, lower=True
        ),
    }
    for name, fn in functions.items():
        bound = holds(fn, a, scale, b)
        assert bound.is_finite
        assert not outside(bound, [expected[name].real])[0], name
        seen = np.abs(bound.values - expected[name].real).max()
        assert np.max(bound.radii) < 1e4 * max(seen, np.spacing(np.abs(bound.values).max()))
        assert outside(bound, [expected[name].real * (1 + 1e5 * np.finfo(dtype).eps)])[0]


def test_spectra_hold_the_exact_ones_and_vectors_have_no_bound() -> None:
    a = positive(4)
    with mpmath.workdps(40):
        expected = np.array(
            [float(x) for x in mpmath.eigsy(mpmath.matrix(a.tolist()), eigvals_only=True)]
        )
    bound = error_bound(lambda a: tnf.linalg.eigh(a), a)
    assert outside(bound, [np.sort(expected), np.asarray(bound.values[1])]) == [0, 0]
    assert np.max(bound.radii[0]) < 1e-12
    assert np.isinf(bound.radii[1]).all()
    singular = error_bound(lambda a: tnf.linalg.svd(a)[1], a)
    assert not outside(singular, [np.sort(expected)[::-1]])[0]


def test_transforms_hold_the_exact_ones() -> None:
    x, y = RNG.standard_normal(12), RNG.standard_normal(12)
    bound = holds(lambda x, y: (tnf.fft.rfft(x * y), tnf.fft.irfft(tnf.fft.rfft(x * y))), x, y)
    with mpmath.workdps(40):
        terms = [mpmath.mpf(float(a)) * float(b) for a, b in zip(x, y, strict=True)]
        exact = [
            complex(
                sum(t * mpmath.expjpi(-2 * mpmath.mpf(j * k) / 12) for j, t in enumerate(terms))
            )
            for k in range(7)
        ]
    assert outside(bound, [np.array(exact), np.array([float(t) for t in terms])]) == [0, 0]
    assert np.max(bound.radii[0]) < 1e-12
    assert outside(bound, [np.array(exact) * (1 + 1e-11), np.asarray(bound.values[1])])[0] > 4


def test_an_op_of_another_package_has_no_bound_and_is_named() -> None:
    bound = error_bound(lambda a: tnf.linalg.qr(a)[1] + 1.0, RNG.standard_normal((3, 3)))
    assert not bound.is_finite
    assert len(bound.unbounded) == 1
    assert "qr" in bound.unbounded[0].op
    assert __file__ in bound.unbounded[0].line
    assert bound.to_dict()["outputs"][0]["unbounded"] == 9


# ---- the parity check ----------------------------------------------------------------------------


class Changed:
    """Executor that runs XLA, and then changes the results by the function `change`."""

    platform = "cpu"

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def run(self, program: Any, *arrays: Any) -> Any:
        results, tree = flatten(xla_peer.XlaExecutor().run(program, *arrays))
        return unflatten(tree, [np.asarray(self.change(y)).astype(y.dtype) for y in results])


def proven(
    fn: Any, *arrays: Any, change: Callable[[Any], Any] = lambda y: y, **options: Any
) -> Any:
    return check_parity(
        fn, *arrays, executor=Changed(change), bound="proven", interpreter=False, **options
    )


def test_a_proven_bound_accepts_xla_and_refuses_what_is_wrong() -> None:
    x, w = RNG.standard_normal((6, 4)), RNG.standard_normal((4, 5))

    def network(x: Any, w: Any) -> Any:
        h = tnf.tanh(x @ w)
        return h, tnf.argmax(h, axis=1), tnf.sum(tnf.exp(h))

    assert proven(network, x, w, grad=True).ok
    wrong = proven(network, x, w, change=lambda y: y + y.dtype.type(1e-11) * (y.dtype.kind == "f"))
    assert [output.verdict for output in wrong.outputs] == ["wrong", "equal", "wrong"]
    assert wrong.first_divergence.op.startswith(("Tanh", "DotGeneral"))
    indices = proven(network, x, w, change=lambda y: y + (y.dtype.kind == "i"), locate=False)
    assert [output.verdict for output in indices.outputs][1] == "wrong"


def test_both_sides_of_a_tie_are_accepted_by_proof_and_a_third_value_is_not() -> None:
    a, b, c = near_tie()
    fn = lambda a, b, c: tnf.argmax(tnf.stack([a + b, c, a], axis=0) * 1.0, axis=0)
    for index, verdict in ((0, "equal"), (1, "unstable"), (2, "wrong")):
        report = proven(fn, a, b, c, change=lambda y, index=index: 0 * y + index, locate=False)
        assert report.outputs[0].verdict == verdict


def test_nan_of_both_paths_has_a_bound_and_of_one_is_wrong() -> None:
    x = np.array([-1.0, 2.0])
    assert proven(tnf.log, x).outputs[0].verdict in ("equal", "rounding")
    report = proven(tnf.log, x, change=lambda y: np.where(y != y, 1.0, y), locate=False)
    assert report.outputs[0].verdict == "wrong"


def test_an_output_without_a_bound_is_not_decidable_and_the_op_is_named() -> None:
    x = np.array([0.3, 1.0])
    fn = lambda x: 1.0 / (x * 7 - 2.1)
    report = proven(fn, x, change=lambda y: np.where(np.arange(2) == 0, 1e16, y), locate=False)
    assert report.outputs[0].verdict == "not decidable here"
    assert not report.ok
    assert "Divide" in str(report)
    assert __file__ in str(report)
    assert not proven(fn, x, change=lambda y: y * 1.001, locate=False).ok


def test_a_bound_is_sampled_or_proven() -> None:
    x = np.ones(3)
    with pytest.raises(InvalidConfigError, match="sampled"):
        check_parity(lambda x: x, x, bound="rigorous")
    with pytest.raises(InvalidConfigError, match="leave these out"):
        check_parity(lambda x: x, x, bound="proven", ulps=4)


def test_alternatives_hold_both_programs() -> None:
    x = np.random.default_rng(3).standard_normal(33).astype(np.float32)
    fn = lambda x: tnf.associative_scan(tnf.add, x)
    bound = error_bound(fn, x)
    value, radius = np.asarray(bound.values), bound.radii
    exact = np.cumsum(x.astype(np.float64))
    assert np.all(np.isfinite(radius))
    assert np.all(np.abs(value - exact) <= radius)
    assert np.all(
        np.abs(np.asarray(xla_peer.XlaExecutor().run(tnf.compile(fn, x), x)) - value) <= radius
    )


def test_the_summary_of_values_that_cancel() -> None:
    """If values cancel to 0, their radius in ulps must be reported as finite.

    This number of ulps may exceed the largest float.
    """
    x = np.linspace(0.1, 2.0, 40).reshape(20, 2)
    for pair in x:
        bound = error_bound(lambda x: (x * 1.1 + x) - (x * 1.1 + x) * 1.0, pair)
        assert not np.asarray(bound.values).any()
        assert bound.outputs[0].largest > 0
