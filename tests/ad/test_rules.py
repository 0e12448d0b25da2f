"""Every derivative rule must equal a derivative that is computed from the op's definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.ad.rules import AD_RULES
from tenferro.definitions import definition_of
from tenferro.dispatch import apply_one
from tenferro.exec.kernels import KERNELS
from tenferro.graph import GraphBuilder
from tenferro.ops import (
    STD_OPS,
    StdTensorOp,
    contraction,
    control,
    elementwise,
    indexing,
    reduction,
    source,
    structural,
)
from tenferro.ops import analytic as an
from tenferro.program import Subprogram
from tenferro.types import DType
from tests.ad.cases import SKIPPED, Case, case_of, cases, direction_like, inner
from tests.ledger.recording import Passes
from tests.samples import SAMPLES
from tests.samples.analytic import COMPLEX_POINTS, DOMAINS, POINTS
from tests.samples.contraction import OTHER_CONVOLUTIONS, OTHER_DOTS
from tests.samples.sample import OpSample

WIDE = {DType.F64, DType.C64}
NARROW = {DType.F16, DType.BF16, DType.F32, DType.C32}
STEP = 1e-6

ALL_WIDE = cases(WIDE, 5)
each_wide_case = pytest.mark.parametrize("case", ALL_WIDE, ids=str)
each_smooth_case = pytest.mark.parametrize(
    "case", [case for case in ALL_WIDE if case.is_smooth], ids=str
)

ANALYTIC_OPS: set[type[StdTensorOp]] = {
    elementwise.Add,
    elementwise.Subtract,
    elementwise.Multiply,
    elementwise.Divide,
    elementwise.Negate,
    *(set(structural.CARDS) - {structural.OptimizationBarrier}),
    reduction.ReduceSum,
    reduction.ReduceProd,
    reduction.CumSum,
    reduction.CumProd,
    *contraction.CARDS,
    indexing.Gather,
    indexing.GatherDynamicSliceSizes,
    indexing.DynamicSlice,
    indexing.DynamicUpdateSlice,
}
"""Ops that are polynomials or rational functions, so that the same formula holds for real and for complex numbers."""


CLOSED = {
    an.Erf: lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
    an.Erfc: lambda x: -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
}
"""Closed forms of the derivatives of functions that are very flat: finite differences would need hundreds of digits."""


def moved(case: Case, directions: Any, step: float) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        return case.fn(*[x + step * v for x, v in zip(case.primals, directions, strict=True)])


def assert_near(actual: Any, expected: Any, tolerance: float) -> None:
    assert actual.shape == expected.shape
    if actual.size:
        error = np.abs(actual - expected) / (1 + np.abs(expected))
        assert np.max(error) < tolerance


@each_smooth_case
def test_jvp_is_the_central_difference(case: Case, ledger: Passes) -> None:
    directions = [direction_like(x, 1) for x in case.primals]
    _, y_dots = tnf.jvp(case.fn, case.primals, directions)
    after, before = moved(case, directions, STEP), moved(case, directions, -STEP)
    for y_dot, b, a in zip(y_dots, after, before, strict=True):
        assert_near(y_dot, (b - a) / (2 * STEP), 1e-6)
    ledger.passed("jvp", case.sample)


@pytest.mark.parametrize("case", [case for case in ALL_WIDE if not case.is_smooth], ids=str)
def test_the_tangent_of_rounding_is_the_direction_rounded(case: Case, ledger: Passes) -> None:
    (direction,) = [direction_like(x, 1) for x in case.primals]
    _, (y_dot,) = tnf.jvp(case.fn, case.primals, [direction])
    expected = direction if y_dot.dtype.kind == "c" else direction.real
    assert_near(doubled(y_dot), expected, 2 * case.epsilon)
    ledger.passed("jvp", case.sample)


@pytest.mark.parametrize(
    "case",
    [case for case in cases({DType.F64}, 8) if type(case.sample.op) in ANALYTIC_OPS],
    ids=str,
)
def test_jvp_is_the_complex_step(case: Case) -> None:
    directions = [direction_like(x, 1) for x in case.primals]
    _, y_dots = tnf.jvp(case.fn, case.primals, directions)
    step = 1e-30
    operands = [x.astype(complex) if x.dtype.kind == "f" else x for x in case.inputs]
    for index, v in zip(case.active, directions, strict=True):
        operands[index] = operands[index] + 1j * step * v
    with np.errstate(all="ignore"):
        result = KERNELS[type(case.sample.op)](case.sample.op, *operands)
    (y_dot,) = y_dots
    assert_near(y_dot, np.asarray(result).imag / step, 1e-13)


@pytest.mark.parametrize("card", DOMAINS, ids=lambda card: card.__name__)
def test_analytic_derivatives_to_thirteen_digits(card: Any) -> None:
    function, domain = definition_of(card()), DOMAINS[card]
    inside = [p for p in POINTS if domain(p) and domain(p + 1e-9) and domain(p - 1e-9)]
    points: list[tuple[Any, list[Any]]] = [(np.float64, inside)]
    if DType.C64 in card.accepts:
        points.append((np.complex128, COMPLEX_POINTS))
    for dtype, values in points:
        x = np.array(values, dtype)
        y, y_dot = tnf.jvp(lambda x: apply_one(card(), x), (x,), (np.ones_like(x),))
        with mpmath.workdps(60):
            derivative = CLOSED.get(card, lambda p: mpmath.diff(function, p))
            expected = [derivative(mpmath.mpmathify(p)) for p in values]
        # The tolerance includes the effect of rounding the input to the dtype, an error of half an ulp that no rule
        # can avoid.
        second = np.abs(
            tnf.jvp(
                lambda x, d=y_dot: tnf.jvp(
                    lambda x: apply_one(card(), x), (x,), (np.ones_like(d),)
                )[1],
                (x,),
                (np.ones_like(x),),
            )[1]
        )
        assert np.isfinite(y).all()
        for got, want, bend, at in zip(y_dot, expected, second, values, strict=True):
            want = complex(want) if dtype is np.complex128 else float(want)
            allowed = 1e-13 * abs(want) + 4e-16 * bend * abs(at) + 1e-300
            assert abs(got - want) <= allowed, (card.__name__, at, got, want)


@each_wide_case
def test_vjp_is_the_adjoint(case: Case, ledger: Passes) -> None:
    directions = [direction_like(x, 1) for x in case.primals]
    y, y_dots = tnf.jvp(case.fn, case.primals, directions)
    _, pull = tnf.vjp(case.fn, *case.primals)
    y_bars = tuple(direction_like(np.asarray(leaf), 2) for leaf in y)
    x_bars = pull(y_bars)
    left = sum(inner(bar, dot) for bar, dot in zip(y_bars, y_dots, strict=True))
    right = sum(inner(bar, dot) for bar, dot in zip(x_bars, directions, strict=True))
    size = sum(
        float(np.sum(np.abs(b) * np.abs(d))) for b, d in zip(x_bars, directions, strict=True)
    )
    assert abs(left - right) <= max(1e-12, 8 * case.epsilon) * (1 + size)
    for x_bar, x in zip(x_bars, case.primals, strict=True):
        assert (x_bar.dtype, x_bar.shape) == (x.dtype, x.shape)
    ledger.passed("vjp", case.sample)


WINDOWS = [
    sample
    for card in (contraction.DotGeneral, contraction.Convolution, indexing.Gather, indexing.Scatter)
    for sample in SAMPLES[card]
    if sample.inputs[0].dtype == np.float64
    and str(sample) not in {str(case.sample) for case in ALL_WIDE}
]


@pytest.mark.parametrize("sample", [*WINDOWS, *OTHER_DOTS, *OTHER_CONVOLUTIONS], ids=str)
def test_windows_and_axes_of_every_kind_have_adjoints(sample: OpSample) -> None:
    case = case_of(sample, tamed=True)
    assert case is not None
    directions = [direction_like(x, 1) for x in case.primals]
    y, y_dots = tnf.jvp(case.fn, case.primals, directions)
    after, before = moved(case, directions, STEP), moved(case, directions, -STEP)
    for y_dot, a, b in zip(y_dots, after, before, strict=True):
        assert_near(y_dot, (a - b) / (2 * STEP), 1e-6)
    y_bars = tuple(direction_like(np.asarray(leaf), 2) for leaf in y)
    x_bars = tnf.vjp(case.fn, *case.primals)[1](y_bars)
    left = sum(inner(bar, dot) for bar, dot in zip(y_bars, y_dots, strict=True))
    right = sum(inner(bar, dot) for bar, dot in zip(x_bars, directions, strict=True))
    size = sum(
        float(np.sum(np.abs(b) * np.abs(d))) for b, d in zip(x_bars, directions, strict=True)
    )
    assert abs(left - right) <= 1e-12 * (1 + size)


@each_smooth_case
def test_second_order_both_ways(case: Case) -> None:
    directions = [direction_like(x, 1) for x in case.primals]
    y = [np.asarray(leaf) for leaf in case.fn(*case.primals)]
    y_bars = tuple(direction_like(leaf, 2) for leaf in y)

    def gradient(*xs: Any) -> Any:
        return tnf.vjp(case.fn, *xs)[1](y_bars)

    _, forward = tnf.jvp(gradient, case.primals, directions)
    with np.errstate(all="ignore"):
        pair = [(x + STEP * v, x - STEP * v) for x, v in zip(case.primals, directions, strict=True)]
        after, before = gradient(*[p for p, _ in pair]), gradient(*[m for _, m in pair])
    for got, b, a in zip(forward, after, before, strict=True):
        assert_near(got, (b - a) / (2 * STEP), 1e-5)
    _, pull = tnf.vjp(gradient, *case.primals)
    others = tuple(direction_like(x, 3) for x in case.primals)
    backward = pull(others)
    left = sum(inner(bar, dot) for bar, dot in zip(others, forward, strict=True))
    right = sum(inner(bar, dot) for bar, dot in zip(backward, directions, strict=True))
    assert abs(left - right) <= 1e-9 * (1 + abs(left))


SMALL = [
    case
    for case in cases(WIDE, 4)
    if sum(x.size for x in case.primals) * sum(y.size for y in case.sample.expected) < 300
    and len({x.dtype.kind for x in (*case.primals, *case.sample.expected)}) == 1
    and case.is_smooth
    and not case.sample.op.name.startswith(("Dynamic", "PadTo"))
]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_jacobians_by_column_and_by_row(case: Case) -> None:
    holomorphic = case.primals[0].dtype.kind == "c"
    if holomorphic and case.sample.op.name in ("Conj", "Sign"):
        pytest.skip("not holomorphic")
    everywhere = tuple(range(len(case.primals)))
    columns = tnf.jacfwd(case.fn, everywhere, holomorphic=holomorphic)(*case.primals)
    rows = tnf.jacrev(case.fn, everywhere, holomorphic=holomorphic)(*case.primals)
    directions = [direction_like(x, 1) for x in case.primals]
    _, y_dots = tnf.jvp(case.fn, case.primals, directions)
    for by_column, by_row, y_dot in zip(columns, rows, y_dots, strict=True):
        pushed = sum(
            np.tensordot(block, v, v.ndim) for block, v in zip(by_column, directions, strict=True)
        )
        assert_near(np.asarray(pushed), y_dot, 1e-11)
        for left, right in zip(by_column, by_row, strict=True):
            assert_near(left, right, 1e-11)


each_narrow_case = pytest.mark.parametrize("case", cases(NARROW, 2), ids=str)


def doubled(x: Any) -> Any:
    """Return x converted to double precision, or to complex128 if x is complex."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def in_double(op: Any) -> Any:
    """Return the op with its sub-programs, if it has any, converted to double precision."""
    if not isinstance(op, control.ControlOp):
        return op
    parts: list[Subprogram] = []
    for part in op.parts:
        builder = GraphBuilder()
        values = [builder.input(s.shape, doubled(np.zeros((), s.dtype.dtype)).dtype)
                  if s.dtype.is_inexact else builder.input(s.shape, s.dtype)
                  for s in part.input_specs]  # fmt: skip
        inputs = list(values)
        for step in part.instructions:
            held = isinstance(step.op, source.Constant) and step.op.dtype.is_inexact
            inner = source.Constant.of(doubled(step.op.array)) if held else in_double(step.op)
            values += builder.apply(inner, *[values[i] for i in step.inputs])
        parts.append(Subprogram.of(builder.graph, inputs, [values[i] for i in part.output_slots]))
    return op.with_parts(*parts)


def within_range(case: Case) -> tuple[Case, Any, Any]:
    """Return a case, a random direction, and the tangents in this direction.

    If a tangent overflows, the returned case has large elements replaced by moderate ones, so that its tangents are
    finite.
    """
    directions = [direction_like(x, 1) for x in case.primals]
    _, y_dots = tnf.jvp(case.fn, case.primals, directions)
    if all(np.isfinite(y_dot).all() for y_dot in y_dots):
        return case, directions, y_dots
    tamed = case_of(case.sample, tamed=True)
    assert tamed is not None
    return tamed, directions, tnf.jvp(tamed.fn, tamed.primals, directions)[1]


@each_narrow_case
def test_narrow_tangents_are_the_wide_ones_rounded(case: Case, ledger: Passes) -> None:
    case, directions, y_dots = within_range(case)
    inputs = [doubled(x) if DType.of(x.dtype).is_inexact else x for x in case.inputs]
    sample = replace(case.sample, op=in_double(case.sample.op))
    wide = replace(case, sample=sample, inputs=tuple(inputs))
    _, wanted = tnf.jvp(wide.fn, wide.primals, [doubled(v) for v in directions])
    for y_dot, want in zip(y_dots, wanted, strict=True):
        assert_near(doubled(y_dot), doubled(want), 16 * case.epsilon)
    ledger.passed("jvp", case.sample)


@each_narrow_case
def test_narrow_dtypes_keep_their_dtype_and_the_adjoint(case: Case, ledger: Passes) -> None:
    case, directions, y_dots = within_range(case)
    y, pull = tnf.vjp(case.fn, *case.primals)
    y_bars = tuple(direction_like(np.asarray(leaf), 2) for leaf in y)
    x_bars = pull(y_bars)
    for x_bar, x in zip(x_bars, case.primals, strict=True):
        assert x_bar.dtype == x.dtype
    left = sum(inner(bar, dot) for bar, dot in zip(y_bars, y_dots, strict=True))
    right = sum(inner(bar, dot) for bar, dot in zip(x_bars, directions, strict=True))
    size = sum(
        float(np.sum(np.abs(b).astype(float) * np.abs(d).astype(float)))
        for b, d in zip((*x_bars, *y_bars), (*directions, *y_dots), strict=True)
    )
    assert abs(left - right) <= 16 * case.epsilon * (1 + size)
    ledger.passed("vjp", case.sample)


def test_every_rule_is_there_or_says_why_not() -> None:
    for card in STD_OPS:
        rule = AD_RULES[card]
        assert rule.jvp is not None or rule.reason, card


def test_every_op_with_a_tangent_is_tested() -> None:
    tested = {type(case.sample.op) for case in cases(WIDE, 1)}
    for card in STD_OPS:
        if AD_RULES[card].jvp is not None:
            assert card in tested or card in SKIPPED, card


def test_acosh_is_accurate_where_its_square_overflows() -> None:
    for fn, x, expected in (
        (tnf.acosh, 1e200, 1e-200),
        (tnf.asinh, 1e200, 1e-200),
        (tnf.tanh, 20.0, 1.6993417021166355e-17),
        (lambda x: tnf.atan2(x, 1e200), 1e200, 0.5e-200),
    ):
        assert tnf.grad(fn)(x) == pytest.approx(expected, rel=1e-12)


def test_sorting_nothing_has_a_derivative() -> None:
    x = np.zeros((3, 0))
    y, y_dot = tnf.jvp(lambda x: tnf.sort(x, axis=1), (x,), (x,))
    assert y.shape == y_dot.shape == (3, 0)
    (x_bar,) = tnf.vjp(lambda x: tnf.sort(x, axis=1), x)[1](x)
    assert x_bar.shape == (3, 0)
