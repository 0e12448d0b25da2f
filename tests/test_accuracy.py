"""Native functions must be within the declared bounds, at arguments near which they change their formulas."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from tenferro.ops import analytic
from tools.accuracy.arguments import CHUNK, chunks, dtype_of, structured
from tools.accuracy.engines import run_of
from tools.accuracy.errors import error_of, estimates, exact_values, unit
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.page import written

OF_CARDS = {"Polygamma": "polygamma(2, x)"}


def test_every_function_of_the_vocabulary_has_a_row() -> None:
    for card in analytic.CARDS:
        assert OF_CARDS.get(card.__name__, card.__name__.lower()) in FUNCTIONS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sample_is_within_the_bound(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    some = rng.choice(CHUNK, 2000)
    xs = [x[some] for x in next(iter(chunks(function, dtype, 0)))]
    run = run_of(function, "NumPy", dtype, len(some))
    assert run is not None
    with np.errstate(all="ignore"):
        y = run(xs)
        rough = estimates(exact_values(function.reference, xs), y)
    worst, sample = np.argsort(-rough)[:5], range(5)
    for i in [*worst, *sample]:
        arguments = [float(x[i]) for x in xs]
        smallest = float(np.finfo(dtype).tiny)
        if any(0 < abs(x) < smallest for x in (*arguments, float(y[i]))):
            continue  # because subnormal numbers have fewer digits
        error = error_of(function, arguments, float(y[i]), dtype_of(dtype))
        assert error <= function.ulps, (arguments, float(y[i]))


def test_compiled_functions_are_measured_where_there_is_compiled_code() -> None:
    xs = [np.linspace(0.5, 2.0, 16)]
    run = run_of(FUNCTIONS["exp"], "compiled", "float64", 16)
    assert run is not None
    np.testing.assert_allclose(run(xs), np.exp(xs[0]), rtol=1e-15)
    assert run_of(FUNCTIONS["polygamma(2, x)"], "compiled", "float64", 16) is None


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("logistic", -709.8411959894131),  # e^-x overflows, and the result is subnormal
        ("logistic", -745.0),
        ("erfc", 16.982105923718656),  # rounding x^2 causes an error of about x^2 ulps
        ("erfc", 26.5),
        ("lgamma", -5.30498948e-315),  # 1 / x overflows
        ("lgamma", 5e-324),
        # Rounding x / sqrt(2) causes an error of about x^2 ulps.
        ("special.ndtr", -35.45165863246384),
        ("special.ndtr", -36.99999999999999),
        ("special.log_ndtr", 36.433752451896154),
        ("nn.silu", -745.1300000000003),  # the value of the logistic function is subnormal
        ("nn.silu", -713.25),
        ("lgamma", 1.000000228649431),  # near a zero of lgamma
        ("lgamma", 0.9999806733762971),
        ("lgamma", 0.9999999999999988),
        ("lgamma", 1.9894534218551),
        ("lgamma", 0.7268409863388242),
        ("nn.gelu", -35.45165863246384),  # rounding x causes an error of about x^2 ulps
        ("digamma", -26.99999998),  # near a pole of digamma
        ("digamma", -3.0000000001),
        ("digamma", -60.25),
    ],
)
def test_arguments_that_were_wrong(name: str, x: float) -> None:
    function = FUNCTIONS[name]
    for engine in ("NumPy", "compiled"):
        run = run_of(function, engine, "float64", 1)
        if run is not None:
            y = run([np.full(1, x)])[0]
            assert error_of(function, [x], float(y), np.dtype("float64")) <= 8


def test_errors_are_in_units_in_the_last_place() -> None:
    exp = FUNCTIONS["exp"]
    for dtype in ("float32", "float64"):
        kind: Any = np.dtype(dtype)
        for x in (0.5, -20.25, 80.0):
            with mpmath.workdps(40):
                y = kind.type(float(mpmath.exp(x)))
            up = float(np.nextafter(y, kind.type(np.inf)))
            near, off = error_of(exp, [x], float(y), kind), error_of(exp, [x], up, kind)
            assert near <= 0.501
            assert off == pytest.approx(1, abs=0.501)
            xs, ys = [np.array([x], dtype)], np.array([up], dtype)
            assert estimates(exact_values(exp.reference, xs), ys)[0] == pytest.approx(off, abs=0.01)
        assert unit(1.0, kind) == np.finfo(dtype).eps
        assert math.isinf(error_of(exp, [1.0], math.nan, kind))
        assert error_of(exp, [1e4], math.inf, kind) == 0
        assert math.isinf(error_of(exp, [1.0], math.inf, kind))


def test_arguments_hold_neighbours_and_every_number_of_16_bits() -> None:
    log = FUNCTIONS["log"]
    x = structured(log, np.dtype("float64"))
    for point in (1.0, 2.0, 0.5, math.pi):
        assert {point, np.nextafter(point, 9), np.nextafter(point, 0)} <= set(x.tolist())
    assert x.min() == 0
    every = next(iter(chunks(FUNCTIONS["exp"], "bfloat16", 0)))[0]
    assert len(np.unique(every.view(np.uint16))) >= (1 << 16) - 2 * 128


def test_the_page_names_every_function() -> None:
    page = written([])
    assert all(f"| {name} |" in page for name in FUNCTIONS)
