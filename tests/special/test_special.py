"""`tenferro.special` against definitions with 50 digits, the ends of domains, JAX's signatures, and the peer."""

from __future__ import annotations

import inspect
import math
from typing import Any

import jax.scipy.special
import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors, special
from tests.levels import version_of
from tests.special.samples import AT_ENDS, CALLS, SLOPES_AT_ENDS, Definition, digits

DTYPES = (np.float64, np.float32)


def exact(sample: Definition, points: tuple[Any, ...]) -> Any:
    return sample.definition(*map(digits.mpf, points))


def distance_in_ulps(y: Any, wanted: Any, dtype: Any) -> float:
    """How far y is off in the spacing of numbers at the value wanted; 0 where that does not fit the dtype."""
    info = np.finfo(dtype)
    if abs(wanted) > float(info.max):
        return 0.0 if np.isinf(y) else math.inf
    spacing = float(np.spacing(dtype(max(abs(float(wanted)), float(info.tiny)))))
    return float(abs(digits.mpf(float(y)) - wanted) / spacing)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_within_their_bounds(name: str, dtype: Any) -> None:
    sample = CALLS[name]
    arrays = [x.astype(dtype) for x in sample.points]
    result = np.asarray(getattr(special, name)(*arrays))
    assert result.dtype == dtype
    for y, *points in zip(result, *[x.tolist() for x in arrays], strict=True):
        wanted = exact(sample, tuple(points))
        bound = sample.ulps(*points, wanted) if callable(sample.ulps) else sample.ulps
        assert distance_in_ulps(y, wanted, dtype) <= bound, (points, y, wanted)


@pytest.mark.parametrize("name", CALLS)
def test_single_precision_is_not_widened(name: str) -> None:
    function, arrays = getattr(special, name), [x.astype("f") for x in CALLS[name].points]
    pull = lambda *xs: tnf.vjp(function, *xs)[1](xs[0])
    push = lambda *xs: tnf.jvp(function, xs, xs)
    for transformed in (function, push, pull) if CALLS[name].smooth else (function,):
        assert "f64" not in str(tnf.compile(transformed, *arrays))


@pytest.mark.parametrize("name", [name for name, sample in CALLS.items() if sample.smooth])
def test_derivatives_to_second_order(name: str) -> None:
    sample, function = CALLS[name], getattr(special, name)
    arrays = [x[: sample.smooth] for x in sample.points]
    for position in range(len(arrays)):
        first = tnf.grad(lambda *xs: tnf.sum(function(*xs)), argnums=position)
        second = tnf.grad(
            lambda *xs, first=first, position=position: tnf.sum(first(*xs)), argnums=position
        )
        orders = [0] * len(arrays)
        results = [np.asarray(f(*arrays)) for f in (first, second)]
        for place, points in enumerate(zip(*[x.tolist() for x in arrays], strict=True)):
            for order, result in enumerate(results, 1):
                orders[position] = order
                numbers = tuple(map(digits.mpf, points))
                step = (abs(numbers[position]) or 1) * digits.mpf(10) ** -16
                wanted = digits.diff(sample.definition, numbers, tuple(orders), h=step)
                size = abs(exact(sample, points)) / (abs(numbers[position]) or 1) ** order
                error = abs(digits.mpf(float(result[place])) - wanted)
                assert error <= 1e-11 * max(abs(wanted), 1e-3 * size, 1e-3), (
                    points,
                    order,
                    result[place],
                )


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_of_the_normal_distribution_keep_their_digits(dtype: Any) -> None:
    x = np.linspace(-37, 6, 173) if dtype is np.float64 else np.linspace(-12.5, 6, 75)
    x = x.astype(dtype)
    ones = np.ones_like(x)
    numbers = [digits.mpf(float(each)) for each in x]
    for name in ("ndtr", "log_ndtr"):
        function = getattr(special, name)
        pull = lambda x, function=function: tnf.vjp(function, x)[1](ones)[0]
        push = lambda f, x=x: tnf.jvp(f, (x,), (ones,))[1]
        density = [digits.npdf(z) for z in numbers]
        first = density
        second = [-z * d for z, d in zip(numbers, density, strict=True)]
        if name == "log_ndtr":
            first = [d / digits.ncdf(z) for z, d in zip(numbers, density, strict=True)]
            second = [-h * (z + h) for z, h in zip(numbers, first, strict=True)]
        for results, wanted in (
            ((push(function), pull(x)), first),
            ((push(pull), tnf.vjp(pull, x)[1](ones)[0]), second),
        ):
            for result in results:
                off = map(distance_in_ulps, np.asarray(result), wanted, [dtype] * len(x))
                assert max(off) <= 16, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_normal_distribution_keeps_its_digits_on_the_peer(dtype: Any) -> None:
    (normal,) = CALLS["ndtr"].points
    x = np.append(normal, [0.2997677143308069, 0.3466, 0.24]).astype(dtype)
    for name in ("ndtr", "log_ndtr"):
        sample = CALLS[name]
        result = xla_peer.XlaExecutor().run(tnf.compile(getattr(special, name), x), x)
        for point, y in zip(x.tolist(), np.asarray(result), strict=True):
            wanted = exact(sample, (point,))
            if abs(wanted) > np.finfo(dtype).tiny:  # because XLA takes smaller numbers for zero
                assert distance_in_ulps(y, wanted, dtype) <= 16, (name, point)


def test_the_normal_distribution_of_zero_is_a_half() -> None:
    for dtype in DTYPES:
        assert special.ndtr(np.array([0.0, -0.0], dtype)).tolist() == [0.5, 0.5]


def ends(function: Any, table: Any) -> None:
    points, wanted = table
    for dtype in DTYPES:
        if dtype is np.float32:
            points = [x for x in points if not 0 < abs(x) < 1e-30 and not 1e30 < abs(x) < np.inf]
        result = np.asarray(function(np.array(points, dtype)), np.float64)
        expected = [
            y
            for x, y in zip(table[0], wanted, strict=True)
            if any(x is p or x == p for p in points)
        ]
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-30)
        signs = np.isfinite(result) & (np.array(expected) == 0)
        assert (np.signbit(result) == np.signbit(expected))[signs].all()


@pytest.mark.parametrize("name", AT_ENDS)
def test_values_at_the_ends_of_domains(name: str) -> None:
    ends(getattr(special, name), AT_ENDS[name])


@pytest.mark.parametrize("name", SLOPES_AT_ENDS)
def test_slopes_at_the_ends_of_domains(name: str) -> None:
    function = getattr(special, name)
    ends(tnf.grad(lambda x: tnf.sum(function(x))), SLOPES_AT_ENDS[name])


def test_zeros_of_products_with_logarithms() -> None:
    assert [float(y) for y in special.xlogy([0.0, 0.0, 0.0], [0.0, np.inf, 2.0])] == [0, 0, 0]
    assert np.isnan(special.xlogy(0.0, np.nan))
    assert np.isnan(special.xlog1py(0.0, np.nan))
    for function, y, slopes in (
        (special.xlogy, 0.0, (-np.inf, 0.0)),
        (special.xlog1py, -1.0, (-np.inf, 0.0)),
        (special.kl_div, 1.0, (-np.inf, 1.0)),
        (special.rel_entr, 1.0, (-np.inf, 0.0)),
    ):
        assert tuple(map(float, tnf.grad(function, argnums=(0, 1))(0.0, y))) == slopes
    p, q = np.array([0.0, 0.0, 1.0, -1.0, np.nan]), np.array([0.0, 2.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(special.rel_entr(p, q), [0, 0, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(special.kl_div(p, q), [0, 2, np.inf, np.inf, np.nan])


def test_whole_numbers_are_exact() -> None:
    assert special.factorial(np.arange(19)).tolist() == [math.factorial(n) for n in range(19)]
    assert special.comb([5, 5, 5, -1, 5], [0, 2, 6, 1, -1]).tolist() == [1, 10, 0, 0, 0]
    assert special.comb(4, [0, 2, 3], repetition=True).tolist() == [1, 10, 20]
    assert special.comb(0, 0, repetition=True) == 1
    np.testing.assert_allclose(special.comb(500.0, 100.0), float(math.comb(500, 100)), rtol=1e-12)


def test_functions_with_whole_parameters() -> None:
    a = np.array([2.5, 7.0])
    wanted = [
        sum(digits.loggamma(float(x) - digits.mpf(j) / 2) for j in range(3))
        + digits.log(digits.pi) * 1.5
        for x in a
    ]
    np.testing.assert_allclose(special.multigammaln(a, 3), np.array(wanted, float), rtol=1e-15)
    np.testing.assert_allclose(
        special.polygamma(2, a), [float(digits.polygamma(2, float(x))) for x in a], rtol=1e-14
    )
    np.testing.assert_allclose(special.zeta(2.0), math.pi**2 / 6, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    x = np.array([0.5, 3.0, 7.25], dtype)
    for name in ("gamma", "i1", "log_ndtr", "digamma"):
        wide = getattr(special, name)(x.astype(np.float32))
        np.testing.assert_array_equal(getattr(special, name)(x), wide.astype(dtype))


@pytest.mark.parametrize("name", special.__all__)
def test_signatures_are_jaxs(name: str) -> None:
    if name == "psi":
        return
    if name == "comb" and version_of("jax") < (0, 10, 2):
        pytest.skip("jax has it since 0.10.2")
    ours, theirs = (
        inspect.signature(getattr(module, name)).parameters
        for module in (special, jax.scipy.special)
    )
    assert list(ours) == [name for name in theirs if name != "series_order"]
    for parameter, mine in ours.items():
        if parameter != "axis":
            assert mine.default == theirs[parameter].default


def test_the_peer_agrees() -> None:
    # Every other one is made of these, or is one op.
    names = ["gamma", "betaln", "zeta", "i0", "i1e", "log_ndtr", "ndtri", "logit", "rel_entr"]
    arrays = [[x[:12] for x in CALLS[name].points] for name in names]

    def every(arrays: Any) -> Any:
        return [getattr(special, name)(*xs) for name, xs in zip(names, arrays, strict=True)]

    program = tnf.compile(every, arrays)
    results = zip(
        names, xla_peer.XlaExecutor().run(program, arrays), program.run(arrays), strict=True
    )
    for name, peer, native in results:
        np.testing.assert_allclose(peer, native, rtol=1e-12, atol=1e-15, err_msg=name)


def test_eager_tensors_and_vmap() -> None:
    x = np.array([0.5, 2.0])
    variable = tnf.EagerRuntime().variable(x)
    tnf.sum(special.gamma(variable) * special.i0(variable)).backward()
    wanted = tnf.grad(lambda x: tnf.sum(special.gamma(x) * special.i0(x)))(x)
    np.testing.assert_allclose(np.asarray(variable.grad), wanted, rtol=1e-14)
    np.testing.assert_array_equal(tnf.vmap(special.ndtri)(x / 3), special.ndtri(x / 3))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: special.gamma(1j), errors.DTypeError, "special.gamma: takes real numbers, got c128[]"),
        (lambda: special.xlogy(1.0, 1j), errors.DTypeError, "special.xlogy: takes real numbers, got f64[], c128[]"),
        (lambda: special.factorial(3, exact=True), errors.UnsupportedError, "math.factorial"),
        (lambda: special.polygamma(0.5, 1.0), errors.InvalidConfigError, "n must be an int of at least 0, got 0.5"),
        (lambda: special.multigammaln(1.0, 0), errors.InvalidConfigError, "d must be an int of at least 1, got 0"),
    ],
)  # fmt: skip
def test_refusals(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
