"""`tenferro.special` must equal definitions with 50 digits, natively and through PJRT.

This includes the ends of domains. Signatures must be those of JAX.
"""

from __future__ import annotations

import doctest
import inspect
import math
from typing import Any

import jax.scipy.special
import ml_dtypes
import numpy as np
import pytest
import scipy.special

import tenferro as tnf
import xla_peer
from tenferro import errors, special
from tenferro.special.functions import TABLE, SpecialFunction
from tests.levels import version_of
from tests.special.samples import (
    AT_ENDS,
    CALLS,
    FRACTION,
    OF_SCIPY,
    OTHER,
    SHAPE,
    SLOPES_AT_ENDS,
    Definition,
    digits,
)

DTYPES = (np.float64, np.float32)


def exact(sample: Definition, points: tuple[Any, ...]) -> Any:
    return sample.definition(*map(digits.mpf, points))


def distance_in_ulps(y: Any, wanted: Any, dtype: Any) -> float:
    """Return the error of y in ulps of the exact value.

    If the exact value overflows the dtype, the error of an infinity is 0.
    """
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


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("name", [name for name, sample in CALLS.items() if sample.smooth])
def test_derivatives_to_second_order(name: str, every: int) -> None:
    sample, function = CALLS[name], getattr(special, name)
    arrays = [x[: sample.smooth : every] for x in sample.points]
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
            if abs(wanted) > np.finfo(dtype).tiny:  # because XLA flushes smaller numbers to zero
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


def test_polygamma_functions_of_tensors_of_orders() -> None:
    n = np.array([0.0, 1, 2, 3, 4, 7, 20, 1, 2, 0, 3])
    x = np.array([0.3, 2.5, 1e-3, 40, -0.3, -7.75, 3.1, -1e-9, -20.4, -3.2, 1.0])
    wanted = np.array(
        [float(digits.polygamma(int(k), float(z))) for k, z in zip(n, x, strict=True)]
    )
    np.testing.assert_allclose(special.polygamma(n, x), wanted, rtol=2e-14)
    np.testing.assert_allclose(tnf.lax.polygamma(n, x), wanted, rtol=2e-14)
    np.testing.assert_allclose(tnf.jit(special.polygamma)(n.astype(int), x), wanted, rtol=2e-14)
    program = tnf.compile(special.polygamma, n, x)
    np.testing.assert_allclose(xla_peer.XlaExecutor().run(program, n, x), wanted, rtol=1e-13)
    slope = tnf.grad(lambda x: tnf.sum(special.polygamma(n, x)))(x)
    raised = [float(digits.polygamma(int(k) + 1, float(z))) for k, z in zip(n, x, strict=True)]
    np.testing.assert_allclose(slope, raised, rtol=2e-13)
    ends = [0.0, -1.0, -np.inf, np.inf, 1.0, 1.0, np.nan], [1, 2, 3, 2, 0.5, -1, 1]
    expected = [np.inf, np.nan, np.inf, 0, np.nan, np.nan, np.nan]
    for function in (special.polygamma, TABLE["polygamma"].expansion):
        program = tnf.compile(function, *map(np.array, ends[::-1]))
        np.testing.assert_array_equal(program.run(*map(np.array, ends[::-1])), expected)
    with pytest.raises(errors.ADRuleUnsupportedError, match="no derivative in n"):
        tnf.grad(lambda n: tnf.sum(special.polygamma(n, x)))(n)


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
    if not hasattr(jax.scipy.special, name):
        assert hasattr(scipy.special, name)
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
    # These functions suffice: all other functions are composed of them, or are a single op.
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


WITH_EXPANSION = [
    name for name in OF_SCIPY if TABLE[name].expansion is not None and name not in ("hyp2f1",)
]


def test_expansions_agree_on_the_peer() -> None:
    arrays = [CALLS[name].points for name in WITH_EXPANSION]

    def every(arrays: Any) -> Any:
        return [
            getattr(special, name)(*xs) for name, xs in zip(WITH_EXPANSION, arrays, strict=True)
        ]

    program = tnf.compile(every, arrays)
    peer = xla_peer.XlaExecutor().run(program, arrays)
    for name, actual, native in zip(WITH_EXPANSION, peer, program.run(arrays), strict=True):
        np.testing.assert_allclose(actual, native, rtol=2e-12, atol=1e-15, err_msg=name)


ENDS = {
    "gammainc": ([0.0, 1, 2, -1, np.nan, np.inf, 1, 2], [1.0, 0, np.inf, 1, 1, 1, np.nan, -1]),
    "gammaincc": ([0.0, 1, 2, -1, np.nan, np.inf, 1, 2], [1.0, 0, np.inf, 1, 1, 1, np.nan, -1]),
    "betainc": ([1.0, 2, 2, -1], [2.0, 3, 1, 1], [0.0, 1, 1.5, 0.5]),
    "betaincc": ([1.0, 2, 2, -1], [2.0, 3, 1, 1], [0.0, 1, 1.5, 0.5]),
    "expn": ([0.0, 1, 2, 3, 1, 1.5, -1], [0.0, 0, 0, np.inf, -1, 1, 1]),
    "exp1": ([0.0, np.inf, -1, np.nan],),
    "expi": ([0.0, -0.0, np.inf, -np.inf, np.nan],),
    "erfcx": ([0.0, np.inf, -np.inf, np.nan, -30, 1e300],),
    "kve": ([0.5, 0.5, 1, 0.5, np.nan], [0.0, np.inf, -1, np.nan, 1]),
}
"""Arguments at the ends of domains, where the expansion must equal the native kernel."""


@pytest.mark.parametrize("name", ENDS)
def test_expansions_have_the_values_of_kernels_at_the_ends_of_domains(name: str) -> None:
    operands = [np.array(x) for x in ENDS[name]]
    expansion = TABLE[name].expansion
    expanded = tnf.compile(lambda *xs: expansion(*xs), *operands).run(*operands)
    np.testing.assert_allclose(expanded, getattr(special, name)(*operands), rtol=1e-13)


def test_derivatives_of_inverses_and_of_functions_without_a_definition_in_mpmath() -> None:
    x = np.array([1.9])
    for function, operands in (
        (special.gammaincinv, (SHAPE[1:2], FRACTION[1:2])),
        (special.gammainccinv, (SHAPE[1:2], FRACTION[1:2])),
        (special.betaincinv, (SHAPE[1:2], OTHER[1:2], FRACTION[1:2])),
        (lambda x: special.expn(np.array([0.0, 3.0]), x[[0, 0]]), (x,)),
        (lambda x: special.sici(x), (x,)),
        (lambda x: special.jv(0.5, x) + special.yv(0.5, x), (x,)),
        (lambda x: special.iv(0.5, x) + special.ive(1.5, x), (x,)),
        (lambda x: special.bessel_jn(x, v=3), (x,)),
        (lambda t, p: tnf.real(special.sph_harm_y([3, 2], [-1, 2], t, p)), (x, x)),
    ):
        report = tnf.check_grads(function, operands, order=2)
        assert report.ok, report


def test_tuples_and_harmonics_are_scipys() -> None:
    x = np.array([-3.0, 0.2, 1.0, 40.0])
    for name in ("sici", "fresnel"):
        for actual, wanted in zip(
            getattr(special, name)(x), getattr(scipy.special, name)(x), strict=True
        ):
            np.testing.assert_array_equal(actual, wanted)
    n, m, theta = np.array([0, 3, 3, 12]), np.array([0, -2, 3, 7]), np.array([0.1, 1.0, 3.0, 0.0])
    wanted = scipy.special.sph_harm_y(n, m, theta, 0.7)
    np.testing.assert_allclose(special.sph_harm_y(n, m, theta, 0.7), wanted, rtol=1e-13, atol=1e-16)
    assert np.isnan(special.sph_harm_y(1, 2, 0.1, 0.2))
    np.testing.assert_allclose(special.bernoulli(20), scipy.special.bernoulli(20), rtol=1e-14)
    np.testing.assert_array_equal(special.expn([1.0, 2.0], 1.5), scipy.special.expn([1, 2], 1.5))


def test_tails_do_not_underflow() -> None:
    np.testing.assert_allclose(special.log_ndtr(-1e6), -5.00000000014735e11, rtol=1e-14)
    np.testing.assert_allclose(special.betainc(0.5, 2.0, 1e-300), 1.5e-150, rtol=1e-14)
    slope = tnf.grad(lambda x: special.betainc(0.5, 2.0, x))(1e-300)
    np.testing.assert_allclose(slope, 0.75e150, rtol=1e-12)
    np.testing.assert_allclose(special.gammaincc(1.0, 700.0), math.exp(-700), rtol=1e-12)


def test_slopes_where_expansions_change() -> None:
    """Derivatives must be right where an expansion changes its formula.

    These points are the start of Stirling's series, x = a, x = 1, and the mean a / (a + b).
    """
    for a, x in ((10.0, 7.0), (10.0, 10.0), (1.0, 1.0), (3.0, 3.0), (0.5, 1.0)):
        wanted = digits.diff(lambda a, x=x: digits.gammainc(a, 0, x, regularized=True), a)
        slope = tnf.grad(special.gammainc)(a, x)
        np.testing.assert_allclose(slope, float(wanted), rtol=1e-12)
    for a, b, x in ((10.0, 10.0, 0.5), (10.0, 3.0, 0.2), (1.0, 1.0, 0.5), (7.0, 3.0, 0.7)):
        wanted = digits.diff(lambda a, b=b, x=x: digits.betainc(a, b, 0, x, regularized=True), a)
        slope = tnf.grad(special.betainc)(a, b, x)
        np.testing.assert_allclose(slope, float(wanted), rtol=1e-12)


def test_a_program_with_functions_of_the_table_is_saved(tmp_path: Any) -> None:
    x = np.array([0.5, 2.0])
    tnf.save(tnf.compile(tnf.vmap(special.erfcx), x), tmp_path / "program")
    np.testing.assert_array_equal(tnf.load(tmp_path / "program").run(x), special.erfcx(x))


def test_what_has_no_derivative_or_no_expansion_says_so() -> None:
    with pytest.raises(errors.ADRuleUnsupportedError, match=r"special\.expn: no derivative in n"):
        tnf.grad(lambda n: special.expn(n, 1.0))(2.0)
    with pytest.raises(errors.InvalidConfigError, match="SpecialFunction: name must be one of"):
        SpecialFunction("nothing")
    with pytest.raises(errors.UnsupportedError, match="diff_n"):
        special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1)
    with pytest.raises(errors.DTypeError, match=r"special\.gammainc: takes real numbers"):
        special.gammainc(1j, 1.0)


def test_examples_of_functions_of_the_table_are_right() -> None:
    """Examples in the docstrings of generated functions must be right.

    pytest finds examples only in functions that are written with `def`.
    """
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names = {name: getattr(special, name) for name in special.__all__} | {"np": np}
    for name in TABLE.keys() & names.keys():
        test = doctest.DocTestParser().get_doctest(names[name].__doc__, dict(names), name, None, 0)
        runner.run(test)
    assert runner.summarize().failed == 0
    assert runner.summarize().attempted > 20


def test_parameter_derivatives_of_kummers_function_for_large_arguments() -> None:
    """The derivatives must be right if one of the two series is finite or vanishes.

    The series is finite for integer parameters, and vanishes if a = b or a = 0.
    """
    a = np.array([0.7, 5.5, -3.2, -2.0, 0.0, 1.5, 2.0, 0.5])
    b = np.array([2.5, 1.2, 4.4, 1.5, 2.0, 1.5, 1.0, 1.5])
    x = np.array([150.0, -120.0, 300.0, 200.0, -300.0, -150.0, -150.0, -1e5])
    for position in (0, 1):
        result = tnf.grad(lambda *xs: tnf.sum(special.hyp1f1(*xs)), argnums=position)(a, b, x)
        for y, *point in zip(np.asarray(result), a, b, x, strict=True):
            orders = [0, 0, 0]
            orders[position] = 1
            numbers = tuple(map(digits.mpf, point))
            wanted = digits.diff(digits.hyp1f1, numbers, tuple(orders))
            assert abs(digits.mpf(float(y)) - wanted) <= 1e-12 * abs(wanted), point
    far = tnf.compile(lambda *xs: TABLE["hyp1f1"].expansion(*xs), a, b, x).run(a, b, x)  # pyright: ignore[reportOptionalCall]
    np.testing.assert_allclose(far, special.hyp1f1(a, b, x), rtol=1e-11, atol=1e-60)


def test_parameter_derivatives_without_a_series_are_nan() -> None:
    """If no series converges, derivatives must be NaN.

    If the rule selected a constant NaN, the next derivative would be zero.
    """
    call = lambda a: special.hyp1f1(a, 0.2, -110.0)
    assert np.isnan(tnf.grad(call)(29.0))
    assert np.isnan(tnf.jvp(call, (29.0,), (1.0,))[1])
    assert np.isfinite(tnf.grad(special.hyp1f1)(29.0, 0.2, -3.0))
    # A NaN in one element must not affect other elements. NaN arise for a third derivative, and for x > 1, where F is
    # not real.
    third = tnf.grad(tnf.grad(tnf.grad(special.hyp2f1)))
    for function, x in ((third, 0.95), (tnf.grad(special.hyp2f1), 1.5)):
        mapped = tnf.vmap(function, in_axes=(None, None, None, 0))
        assert np.isnan(mapped(1.0, 1.0, 2.0, np.array([0.5, x]))).tolist() == [False, True]


GAUSS_POINTS = (
    (0.7, 1.2, 2.3, 0.3), (29.0, 1.0, 2.0, 0.95), (29.0, 1.0, 2.0, -20.0), (1.0, 1.0, 2.0, 0.9999), (0.5, 0.5, 1.0, 0.99),
    (2.0, 1.0, 3.0, -1e8), (-4.2, 5.1, 0.3, 0.97), (-4.5, -4.1, 4.7, 0.999), (0.3, -0.9, 2.0, -500.0), (-2.0, 1.5, 2.5, 0.99),
    (0.0, 1.0, 2.0, 0.95), (1.0, 2.0, 3.0, 0.0), (0.5, 0.5, -0.5, 0.3), (1.5, 2.5, 2.5, -3.0), (1.0, 2.0, 2.0, 0.6),
)  # fmt: skip
"""Points (a, b, c, x).

Some have x near 1, an integer c - a - b or a - b, or a transformed series that is finite.
"""


def test_parameter_derivatives_of_gauss_function() -> None:
    operands = tuple(map(np.array, zip(*GAUSS_POINTS, strict=True)))
    for names in ("a", "b", "c", "aa", "ab", "bc", "cc", "ax", "cx"):
        function, orders = special.hyp2f1, [0, 0, 0, 0]
        for name in names:
            function = tnf.grad(function, argnums="abcx".index(name))
            orders["abcx".index(name)] += 1
        result = np.asarray(tnf.vmap(function)(*operands))
        # For second derivatives, check only every third point, because mpmath is slow.
        checked = slice(None, None, 1 if len(names) == 1 else 3)
        for y, point in zip(result.tolist()[checked], GAUSS_POINTS[checked], strict=True):
            numbers = tuple(map(digits.mpf, point))
            step = digits.mpf(10) ** -14 * min(1, abs(1 - numbers[3]))
            wanted = digits.diff(digits.hyp2f1, numbers, tuple(orders), h=step)
            error = abs(digits.mpf(y) - wanted)
            assert error <= (2e-12, 1e-10)[len(names) - 1] * max(
                abs(wanted), 1e-6 * abs(digits.hyp2f1(*numbers))
            ), (names, point, y)


def test_parameter_derivatives_of_gauss_function_at_one_and_of_polynomials() -> None:
    at_one = (1.0, 0.5, 3.5, 1.0)
    polynomial = (-2.0, 1.5, 2.5, 3.0)
    for position, point in (
        (0, at_one),
        (1, at_one),
        (2, at_one),
        (1, polynomial),
        (2, polynomial),
    ):
        numbers, orders = tuple(map(digits.mpf, point)), [0, 0, 0, 0]
        orders[position] = 1
        wanted = digits.re(digits.diff(digits.hyp2f1, numbers, tuple(orders)))
        slope = tnf.grad(special.hyp2f1, argnums=position)(*point)
        np.testing.assert_allclose(slope, float(wanted), rtol=1e-12)


def test_derivatives_of_gauss_function_agree_on_the_peer() -> None:
    operands = tuple(map(np.array, ([1.3, 0.7], [0.4, 2.2], [2.1, 1.7], [0.5, -3.0])))
    program = tnf.compile(tnf.vmap(tnf.grad(tnf.grad(special.hyp2f1), argnums=1)), *operands)
    peer = xla_peer.XlaExecutor().run(program, *operands)
    np.testing.assert_allclose(peer, program.run(*operands), rtol=1e-11)
    # The third derivative of the native kernel is computed by the expansion.
    numbers = [
        tuple(map(digits.mpf, point))
        for point in zip(*map(np.ndarray.tolist, operands), strict=True)
    ]
    wanted = [float(digits.diff(digits.hyp2f1, point, (3, 0, 0, 0), h=1e-12)) for point in numbers]
    third = tnf.grad(tnf.grad(tnf.grad(special.hyp2f1)))
    np.testing.assert_allclose(tnf.vmap(third)(*operands), wanted, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_error_functions_of_complex_numbers(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    angles = np.exp(2j * np.pi * rng.uniform(0, 1, 40))
    z = np.concatenate([10 ** rng.uniform(-5, 0.9, 40) * angles, 8j * rng.uniform(-1, 1, 9)])
    z = np.concatenate([z, rng.uniform(-6, 6, 9), [0.0, 7.0, 1.5j, -7.0 + 0.1j]]).astype(dtype)
    unit = np.finfo(dtype).eps
    for name in ("erf", "erfc"):
        values = np.asarray(getattr(special, name)(z))
        assert values.dtype == dtype
        for x, y in zip(z.tolist(), values.tolist(), strict=True):
            wanted = getattr(digits, name)(digits.mpc(x))
            size = abs(wanted) + (abs(digits.exp(-(digits.mpc(x) ** 2))) if name == "erf" else 0)
            size += 2 if name == "erfc" and x.real < 0 else 0
            assert abs(digits.mpc(y) - wanted) <= (16 + abs(x) ** 2) * unit * size, (name, x)


def test_complex_error_functions_at_infinity_and_their_derivatives() -> None:
    ends = np.array([np.inf, -np.inf, 1e300, -30.0]) + 0j
    np.testing.assert_array_equal(special.erf(ends), [1, -1, 1, -1])
    np.testing.assert_array_equal(special.erfc(ends), [0, 2, 0, 2])
    z = np.array([0.3 - 1.1j, -2.0 + 0.5j])
    for function in (special.erf, special.erfc):
        tnf.check_grads(function, (z,), executor=xla_peer.XlaExecutor())


def scaled_bessel(name: str) -> Any:
    """Return the definition of a Bessel function, scaled as its name implies: `ive` and `kve` are scaled."""
    of = getattr(digits, "bessel" + name[0])
    scale = {"ive": -1, "kve": 1}.get(name, 0)
    return lambda v, x: of(v, x) * digits.exp(scale * x)


BESSEL = ("jv", "yv", "iv", "ive", "kv", "kve")
ORDERS = np.array([0, 1, 2, -2, -3, 0.5, -0.5, 7.5, 1e-6, -1e-6, 0.2, -3.3, 30.25, 100.0])
AT_ORDERS = {
    "jv": np.array([1e-300, 1e-9, 0.1, 0.95, 1.5, 12.0, 30.0, 700.0]),
    "iv": np.array([1e-300, 1e-9, 0.1, 1.5, 59.0, 61.0, 600.0]),
    "ive": np.array([1e-9, 1.5, 59.0, 61.0, 5000.0, 1e6]),
    "kv": np.array([1e-300, 1e-9, 0.1, 1.5, 59.0, 600.0]),
    "kve": np.array([1e-100, 0.1, 1.5, 5000.0, 1e6]),
}
AT_ORDERS["yv"] = AT_ORDERS["jv"]


PEER_ORDERS = np.array([0.0, 0.3, 1.0, 2.5, 7.0, 20.5, 50.0, -0.5, -3.3, -4.0])
PEER_POINTS = np.array([1e-30, 1e-3, 0.1, 2.9, 9.0, 16.3, 49.9, 61.0, 300.0, 1e3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive"])
def test_bessel_functions_on_the_peer(name: str, dtype: Any) -> None:
    """Values must be right on both sides of each bound at which the algorithm changes.

    The algorithms are a series, an integral, a continued fraction, and an asymptotic series.
    """
    v, x = (each.ravel().astype(dtype) for each in np.meshgrid(PEER_ORDERS, PEER_POINTS))
    program = tnf.compile(getattr(special, name), v, x)
    result = np.asarray(xla_peer.XlaExecutor().run(program, v, x))
    assert result.dtype == dtype
    of, info = scaled_bessel(name), np.finfo(dtype)
    for y, a, b in zip(result.tolist(), v.tolist(), x.tolist(), strict=True):
        with digits.extradps(40):  # because differences at negative orders cancel
            wanted = digits.re(of(digits.mpf(a), digits.mpf(b)))
        size = abs(wanted)
        if name in ("jv", "yv"):  # errors are relative to the amplitude of the oscillation
            size = max(size, digits.sqrt(2 / (digits.pi * b)) if b > abs(a) else 0)
        if info.tiny * 1e3 < size < info.max / 1e3 and abs(wanted) < info.max:
            assert abs(digits.mpf(y) - wanted) <= (2e-13 if dtype is np.float64 else 1e-4) * size, (a, b, y)  # fmt: skip


@pytest.mark.parametrize("name", ["jv", "yv", "iv"])
def test_the_order_derivatives_of_bessel_functions_on_the_peer(name: str) -> None:
    """The oracle is the native kernel, which other tests compare with mpmath."""
    v, x = (each.ravel() for each in np.meshgrid(PEER_ORDERS, [1e-30, *PEER_POINTS[1::2], 0.0]))
    function = getattr(special, name)
    first = tnf.vmap(tnf.grad(function))
    second = tnf.vmap(tnf.grad(tnf.grad(function)))
    program = tnf.compile(lambda v, x: (function(v, x), first(v, x), second(v, x)), v, x)
    value, *natives = program.run(v, x)
    _, *peers = xla_peer.XlaExecutor().run(program, v, x)
    for native, peer in zip(natives, peers, strict=True):
        np.testing.assert_array_equal(np.isnan(peer), np.isnan(native))
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.fmax(abs(value), abs(native))
            if name in ("jv", "yv"):
                size = np.fmax(size, np.where(x > abs(v), np.sqrt(2 / (np.pi * x)), 0))
            is_near = abs(peer - native) <= 2e-13 * size
        assert is_near[(abs(native) > 1e-290) & (abs(native) < 1e290)].all()
        np.testing.assert_array_equal(peer[x == 0], native[x == 0])


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"])  # fmt: skip
def test_bessel_functions_on_the_peer_at_the_ends_of_domains(name: str) -> None:
    v = np.array([0.0, 0, 0, 1, 1, 3, 4, 2, 2, np.nan, 1, 2, 0])
    x = np.array([0.0, np.inf, -0.0, 0, np.inf, -2, -2, -np.inf, np.nan, 1, 1e-100, 1e9, 1e-300])
    if not name.startswith("spherical"):
        v = np.append(v, [-0.5, -1.5, -1, -2, -3, 1.5, 0.3])
        x = np.append(x, [0.0, 0.0, 0, 0, 2, 0, -1])
    program = tnf.compile(getattr(special, name), v, x)
    peer = xla_peer.XlaExecutor().run(program, v, x)
    np.testing.assert_allclose(peer, program.run(v, x), rtol=1e-12)


def test_spherical_bessel_functions_have_derivatives() -> None:
    n, z = np.array([0.0, 1, 2, 5]), np.array([0.7, -1.3, 2.0, 4.0])
    for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
        function = getattr(special, name)
        report = tnf.check_grads(lambda z, f=function: f(n, z), (z,), order=2)
        assert report.ok, report
        wanted = getattr(scipy.special, name)(n.astype(int), z, derivative=True)
        np.testing.assert_allclose(function(n, z, derivative=True), wanted, rtol=1e-12)
        with pytest.raises(errors.ADRuleUnsupportedError, match="no derivative in n"):
            tnf.grad(function)(1.0, 2.0)
    slopes = tnf.vmap(tnf.grad(special.spherical_jn, argnums=1))(n, np.zeros(4))
    np.testing.assert_allclose(slopes, [0.0, 1 / 3, 0.0, 0.0], atol=1e-15)
    assert np.isnan(special.spherical_jn([-1, 0.5], 1.0)).all()


def test_hankel_functions_are_complex_with_derivatives() -> None:
    v, z = np.array([0.3, 2.0, 7.5]), np.array([0.5, 3.0, 9.0])
    for name in ("hankel1", "hankel2"):
        function = getattr(special, name)
        np.testing.assert_allclose(function(v, z), getattr(scipy.special, name)(v, z), rtol=1e-12)
        assert tnf.check_grads(function, (v, z), order=2).ok
    assert special.hankel1(np.float16(1), np.float16(2)).dtype == np.complex64


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("name", BESSEL)
def test_derivatives_of_bessel_functions_in_their_order(name: str, every: int) -> None:
    """Derivatives with respect to the order must be right for integer, half-integer and negative orders.

    Other points are orders near 0, tiny arguments, and arguments where the algorithm changes.
    """
    function = getattr(special, name)
    v, x = (each.ravel()[::every] for each in np.meshgrid(ORDERS, AT_ORDERS[name]))
    first = tnf.grad(lambda v, x: tnf.sum(function(v, x)))
    second = tnf.grad(lambda v, x: tnf.sum(first(v, x)))
    results = [np.asarray(f(v, x)) for f in (first, second)]
    of = scaled_bessel(name)
    for order, result in enumerate(results, 1):
        for y, a, b in zip(result.tolist(), v.tolist(), x.tolist(), strict=True):
            numbers = (digits.mpf(a), digits.mpf(b))
            with digits.extradps(30 if b < 1e4 else 60):
                step = digits.mpf(10) ** (-18 if order == 1 else -15)
                wanted = digits.re(
                    digits.diff(lambda v, b=numbers[1]: of(v, b), numbers[0], order, h=step)
                )
            if not 1e-290 < abs(wanted) < 1e300:
                continue
            # The result is the difference of two products of the size `envelope`. The tolerance is therefore relative
            # to this size.
            envelope = abs(of(*numbers)) / max(b, 1) ** order if name[0] == "i" else 0
            if name[0] in "jy" and b > abs(a):
                envelope = digits.sqrt(2 / (digits.pi * b))
            error = abs(digits.mpf(y) - wanted)
            assert error <= 2e-13 * max(abs(wanted), envelope), (a, b, order, y, float(wanted))


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_have_all_derivatives_by_every_transform(name: str) -> None:
    function = getattr(special, name)
    v, x = np.array([0.4, 1.5, 2.0, -1.3]), np.array([0.6, 2.0, 3.0, 4.0])
    assert tnf.check_grads(function, (v, x), order=2).ok
    ones = np.ones_like(v)
    pushed = tnf.jvp(lambda v: function(v, x), (v,), (ones,))[1]
    pulled = tnf.vjp(function, v, x)[1](ones)[0]
    mapped = tnf.vmap(tnf.grad(function))(v, x)
    jitted = tnf.jit(tnf.vmap(tnf.grad(function)))(v, x)
    for result in (pulled, mapped, jitted):
        np.testing.assert_array_equal(pushed, result)
    assert "f64" not in str(tnf.compile(tnf.grad(function), np.float32(0.5), np.float32(2)))


def test_derivatives_in_the_order_at_the_ends_of_domains() -> None:
    """Derivatives with respect to the order v at the ends of domains.

    At x = 0, the derivative of (x / 2)^v is 0 for v > 0, and log(x / 2) at v = 0. For x < 0, the functions are real
    only if v is an integer.
    """
    v, x = (
        np.array([1.5, 0.0, -0.5, 1.0, np.nan, 1.0, 1e9, 2.0]),
        np.array([0, 0, 0, -1.0, 1, np.nan, 1, np.inf]),
    )
    wanted = {
        "jv": [0, -np.inf, *[np.nan] * 5, 0],
        "yv": [*[np.nan] * 7, 0],
        "ive": [0, -np.inf, *[np.nan] * 5, 0],
        "kve": [*[np.nan] * 7, 0],
    }
    for name, values in wanted.items():
        slopes = tnf.vmap(tnf.grad(getattr(special, name)))(v, x)
        np.testing.assert_array_equal(slopes, values, name)


def test_the_order_derivative_of_macdonalds_function_agrees_on_the_peer() -> None:
    v, x = np.array([0.0, 0.3, 2.5, -7.0]), np.array([1e-6, 0.1, 3.0, 40.0])
    for function in (special.kv, special.kve):
        program = tnf.compile(tnf.vmap(tnf.grad(tnf.grad(function))), v, x)
        peer = xla_peer.XlaExecutor().run(program, v, x)
        np.testing.assert_allclose(peer, program.run(v, x), rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_macdonalds_function_of_tiny_arguments_on_the_peer(dtype: Any) -> None:
    """For tiny x, the integrand of K is flat up to log(2 / x).

    The quadrature must therefore have nodes up to this point.
    """
    v = np.array([0.0, 0.1, 0.49, 0.7, 1.0], dtype)
    x = np.array([1e-30, 1e-25, 1e-12, 1e-30, 2e-10], dtype)
    for function, order in ((special.kv, 0), (tnf.vmap(tnf.grad(special.kv)), 1)):
        program = tnf.compile(function, v, x)
        peer = np.asarray(xla_peer.XlaExecutor().run(program, v, x))
        assert peer.dtype == dtype
        for y, a, b in zip(peer.tolist(), v.tolist(), x.tolist(), strict=True):
            at = lambda a, b=b: digits.besselk(a, b)
            wanted = digits.diff(at, digits.mpf(a), order) if order and a else at(a)
            if not order or a:
                assert abs(y / wanted - 1) < 1e3 * np.finfo(dtype).eps, (a, b, order)


def test_kummers_function_of_huge_arguments_takes_no_time() -> None:
    a, b = np.array([1.5, 1.5, -3.0, 1.5, 1.5]), np.array([2.5, 2.5, 2.5, -0.5, 2.5])
    x = np.array([2.0**100, -(2.0**100), 1e9, 1e7, -2e5])
    wanted = [
        np.inf,
        9.3140132226019046e-46,
        -2.5396825053968255e25,
        -np.inf,
        1.4862477366022541e-8,
    ]
    np.testing.assert_allclose(special.hyp1f1(a, b, x), wanted, rtol=1e-14)
