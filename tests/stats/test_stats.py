"""`tenferro.stats` must equal SciPy and JAX: values, derivatives, ends of supports, and sample statistics."""

from __future__ import annotations

import inspect
import types
from typing import Any

import jax
import jax.scipy.stats
import numpy as np
import pytest
import scipy.stats

import tenferro as tnf
import xla_peer
from tenferro import errors, stats

CONTINUOUS: dict[str, tuple[float, ...]] = {
    "norm": (),
    "truncnorm": (-1.0, 2.0),
    "cauchy": (),
    "laplace": (),
    "logistic": (),
    "gumbel_r": (),
    "gumbel_l": (),
    "expon": (),
    "uniform": (),
    "pareto": (1.5,),
    "gamma": (2.3,),
    "chi2": (3.0,),
    "beta": (0.5, 2.0),
    "t": (4.0,),
    "gennorm": (1.7,),
    "vonmises": (1.2,),
    "wrapcauchy": (0.4,),
}
DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,),
    "binom": (7.0, 0.3),
    "nbinom": (2.5, 0.4),
    "geom": (0.3,),
    "betabinom": (6.0, 1.5, 2.0),
    "poisson": (3.5,),
}
X = np.array([-np.inf, -40, -3, -0.2, 0, 0.3, 0.8, 1, 1.7, 2, 5, 6, 40, np.inf, np.nan])
Q = np.array([0, 1e-12, 0.01, 0.2, 0.5, 0.7, 1, 1.2, -0.1, np.nan])
K = np.array([-1.0, 0, 1, 2, 2.5, 5, 6, 7, 8, 30, np.nan])


def close(actual: Any, wanted: Any, shown: Any, rtol: float = 1e-11) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=1e-14, err_msg=str(shown))


# SciPy's beta distribution warns of its root finding.
@pytest.mark.filterwarnings("ignore:.*Root finding:RuntimeWarning")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_are_scipys(name: str) -> None:
    distribution, shapes = getattr(stats, name), CONTINUOUS[name]
    for method in distribution.__all__:
        points = Q if method in ("ppf", "isf") else X
        for loc, scale in ((0.0, 1.0), (0.1, 2.0), (0.0, -1.0)):
            with np.errstate(all="ignore"):
                wanted = getattr(getattr(scipy.stats, name), method)(points, *shapes, loc, scale)
            actual = np.asarray(getattr(distribution, method)(points, *shapes, loc, scale))
            if method in ("pdf", "logpdf") and scale > 0:
                # The density is 0 at infinities, where SciPy's formulas may return NaN.
                limit = 0.0 if method == "pdf" else -np.inf
                np.testing.assert_array_equal(actual[np.isinf(X)], limit)
                actual, wanted = actual[np.isfinite(X)], wanted[np.isfinite(X)]
            if name == "truncnorm" and method in ("ppf", "isf"):
                # Here SciPy is less accurate. It computes a lower tail of 1e-12 as a difference of rounded numbers.
                close(actual, wanted, (method, loc, scale), rtol=1e-9)
            else:
                close(actual, wanted, (method, loc, scale))


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions_are_scipys(name: str) -> None:
    distribution, shapes = getattr(stats, name), DISCRETE[name]
    for method in distribution.__all__:
        if method == "entropy":
            continue
        points = Q[1:] if method == "ppf" else K
        for loc in (0.0, 2.0):
            wanted = getattr(getattr(scipy.stats, name), method)(points, *shapes, loc)
            close(getattr(distribution, method)(points, *shapes, loc), wanted, (method, loc))


def test_the_entropy_of_poissons_distribution() -> None:
    mu = np.array([0.0, 0.1, 3.5, 199.0, 201.0])
    close(stats.poisson.entropy(mu)[:4], scipy.stats.poisson.entropy(mu[:4]), "entropy", 1e-12)
    close(stats.poisson.entropy(mu)[4:], scipy.stats.poisson.entropy(mu[4:]), "entropy", 1e-9)
    close(stats.poisson.entropy(1e12), 0.5 * np.log(2e12 * np.pi * np.e), "the normal limit", 1e-12)
    assert np.isnan(stats.poisson.entropy(-1.0))


def test_every_function_of_jaxs_is_here_with_its_parameters() -> None:
    names = [name for name in dir(jax.scipy.stats) if name[0] != "_"]
    assert set(names) <= set(stats.__all__)
    for name in names:
        module = getattr(jax.scipy.stats, name)
        if not isinstance(module, types.ModuleType):
            continue
        for method in [m for m in dir(module) if m[0] != "_"]:
            ours = inspect.signature(getattr(getattr(stats, name), method)).parameters
            theirs = inspect.signature(getattr(module, method)).parameters
            # JAX calls the first parameter of Gumbel's quantile functions p, and SciPy calls it q.
            assert list(ours)[1 : len(theirs)] == list(theirs)[1:], (name, method)
            for parameter, known in list(theirs.items())[1:]:
                assert ours[parameter].default == known.default, (name, method, parameter)


INNER = {
    "pareto": np.array([1.2, 4.0]),
    "truncnorm": np.array([-0.3, 0.7]),
    "beta": np.array([0.2, 0.7]),
    "uniform": np.array([0.2, 0.7]),
}


POINTS = {"ppf": 0.3, "isf": 0.6}
DIFFERENTIATED = {
    **{name: [*shapes, 0.01, 1.1] for name, shapes in CONTINUOUS.items()},
    **{name: [*shapes, 0.0] for name, shapes in DISCRETE.items()},
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_tangents_in_all_parameters_are_central_differences_of_scipys(name: str) -> None:
    distribution, known = getattr(stats, name), getattr(scipy.stats, name)
    operands = np.array(DIFFERENTIATED[name])
    direction = np.random.default_rng(7).uniform(0.5, 1.5, len(operands))
    if name in DISCRETE:
        direction[-1] = 0.0
        if name in ("binom", "betabinom"):
            direction[0] = 0.0
    methods = [
        m for m in ("logpdf", "logpmf", "cdf", "logsf", "ppf", "isf") if m in distribution.__all__
    ]
    methods = [m for m in methods if name in CONTINUOUS or m != "ppf"]
    points = [
        POINTS.get(m, 0.7 if name in CONTINUOUS else float(name != "bernoulli")) for m in methods
    ]
    points = [
        3.0 if name == "pareto" and m not in POINTS else x
        for m, x in zip(methods, points, strict=True)
    ]

    def every(*operands: Any) -> Any:
        return [
            getattr(distribution, m)(x, *operands) for m, x in zip(methods, points, strict=True)
        ]

    _, tangents = tnf.jvp(every, tuple(operands), tuple(direction))
    for method, x, tangent in zip(methods, points, tangents, strict=True):
        high, low = (getattr(known, method)(x, *(operands + h * direction)) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(
            tangent, (high - low) / 2e-5, rtol=2e-7, atol=1e-9, err_msg=method
        )


@pytest.mark.parametrize("name", ["gamma", "t", "beta", "truncnorm", "binom"])
def test_derivatives_are_jaxs(name: str) -> None:
    shapes = {**CONTINUOUS, **DISCRETE}[name]
    method = "logpmf" if name == "binom" else "logpdf"
    at = {"binom": 2.0, "beta": 0.3}.get(name, 0.7)
    ours = tnf.grad(
        lambda *p: getattr(getattr(stats, name), method)(at, *p), argnums=tuple(range(len(shapes)))
    )
    theirs = jax.grad(
        lambda *p: getattr(getattr(jax.scipy.stats, name), method)(at, *p),
        argnums=tuple(range(len(shapes))),
    )
    with jax.enable_x64(True):
        close(ours(*shapes), theirs(*shapes), name, 1e-9)


def test_single_precision_is_not_widened() -> None:
    for name, shapes in {**CONTINUOUS, **DISCRETE}.items():
        distribution, operands = getattr(stats, name), [np.float32(x) for x in (0.5, *shapes)]
        for method in distribution.__all__:
            operands_of = operands[1:] if method == "entropy" else operands
            program = tnf.compile(getattr(distribution, method), *operands_of)
            assert "f64" not in str(program), (name, method)
    assert stats.norm.pdf(np.float16(0.5)).dtype == np.float16


def test_tails_keep_their_digits() -> None:
    close(stats.norm.logsf(1e6), scipy.stats.norm.logsf(1e6), "norm", 1e-14)
    close(
        stats.truncnorm.logpdf(30.5, 30.0, 31.0),
        scipy.stats.truncnorm.logpdf(30.5, 30.0, 31.0),
        "truncnorm",
    )
    close(stats.cauchy.cdf(-1e300), 1e-300 / np.pi, "cauchy", 1e-14)
    close(stats.cauchy.logpdf(1e200), -2 * 200 * np.log(10) - np.log(np.pi), "cauchy", 1e-14)
    close(stats.gumbel_r.sf(50.0), np.exp(-50.0), "gumbel_r", 1e-14)
    close(stats.beta.sf(0.9, 2.0, 300.0), scipy.special.betaincc(2.0, 300.0, 0.9), "beta", 1e-13)
    assert stats.beta.sf(0.9, 2.0, 300.0) > 0


@pytest.mark.parametrize(
    ("method", "at", "shapes", "slopes"),
    [
        (stats.laplace.cdf, 0.0, (), [0.5]),
        (stats.laplace.logcdf, 0.0, (), [1.0]),
        (stats.laplace.logsf, 0.0, (), [-1.0]),
        (stats.gennorm.cdf, 0.0, (1.0,), [0.5, 0.0]),
        (stats.gennorm.sf, 0.0, (2.0,), [-(np.pi**-0.5), 0.0]),
        (stats.gennorm.ppf, 0.5, (2.0,), [np.pi**0.5, 0.0]),
        (stats.gennorm.isf, 0.5, (0.5,), [-4.0, 0.0]),
        (tnf.grad(stats.gennorm.logpdf), 0.0, (2.0,), [-2.0, 0.0]),
        (tnf.grad(stats.logistic.logpdf), 0.0, (), [-0.5]),
    ],
)
def test_symmetric_distributions_have_derivatives_in_the_middle(
    method: Any, at: float, shapes: Any, slopes: Any
) -> None:
    places = tuple(range(1 + len(shapes)))
    close(tnf.grad(method, argnums=places)(at, *shapes), slopes, "by definition", 1e-14)


def test_a_cusp_has_derivative_zero_and_keeps_those_of_other_parameters() -> None:
    slopes = tnf.grad(stats.gennorm.logpdf, argnums=(0, 2, 3))(0.0, 0.5, 0.0, 1.0)
    np.testing.assert_array_equal(slopes, [0.0, 0.0, -1.0])


def test_the_truncated_normal_distribution_far_from_its_middle() -> None:
    reference = scipy.stats.truncnorm
    q = np.array([1e-10, 0.1, 0.5, 0.9])
    for a, b in ((40.0, 41.0), (9.0, np.inf), (-np.inf, -300.0), (-41.0, -40.0)):
        close(stats.truncnorm.ppf(q, a, b), reference.ppf(q, a, b), "ppf")
        # SciPy's isf would compute 1 - q and lose digits. The test compares with the lower quantile for the reflected
        # limits.
        close(stats.truncnorm.isf(q, a, b), -reference.ppf(q, -b, -a), "isf")
        x = stats.truncnorm.ppf(0.3, a, b)
        slope = tnf.grad(stats.truncnorm.ppf)(0.3, a, b)
        close(
            slope * stats.truncnorm.pdf(x, a, b), 1.0, "the density is the quantile's slope", 1e-9
        )
    assert stats.truncnorm.cdf(-1e300, -np.inf, 1.0) == 0.0
    assert stats.truncnorm.logsf(1e300, 0.5, np.inf) == -np.inf
    # p = ndtr(-30) / ndtr(-1/2) is small, so that log(1 - p) is about -p.
    wanted = -scipy.special.ndtr(-30.0) / scipy.special.ndtr(-0.5)
    close(stats.truncnorm.logcdf(30.0, 0.5, np.inf) / wanted, 1.0, "logcdf")


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-np.inf, 1.0), (0.5, np.inf), (-np.inf, np.inf)])
@pytest.mark.parametrize("method", ["logpdf", "pdf", "cdf", "sf"])
def test_truncated_normals_have_no_nan_among_their_derivatives(method: str, limits: Any) -> None:
    value = getattr(stats.truncnorm, method)
    x = np.array([-7.0, 0.7, 7.0])
    slopes = tnf.grad(lambda *p: tnf.sum(value(*p)), argnums=(0, 1, 2))(x, *limits)
    assert all(np.isfinite(slope).all() for slope in slopes), slopes
    for slope, limit in zip(slopes[1:], limits, strict=True):
        assert np.isfinite(limit) or slope == 0.0


def test_parameters_at_the_ends_of_their_domain() -> None:
    x = np.array([-3.0, 0.0, 2.0])
    close(stats.t.logpdf(x, np.inf), scipy.stats.norm.logpdf(x), "t")
    np.testing.assert_array_equal(
        tnf.grad(stats.t.logpdf, argnums=(0, 1))(2.0, np.inf), [-2.0, 0.0]
    )
    close(stats.vonmises.pdf(x, 0.0), np.full(3, 0.5 / np.pi), "vonmises", 1e-15)
    close(stats.vonmises.logpdf(1e-5, 1e10), scipy.stats.vonmises.logpdf(1e-5, 1e10), "vonmises")
    close(stats.wrapcauchy.pdf(0.0, 1 - 2.0**-40), (2.0**41 - 1) / (2 * np.pi), "wrapcauchy", 1e-14)
    close(stats.geom.logsf(1e10, 0.3), 1e10 * np.log1p(-0.3), "geom", 1e-15)
    # For q near 1, the upper quantile is approximately (a B(a, b) (1 - q))^(1/a).
    small = np.exp((np.log(0.1 * 2.0**-20) + scipy.special.betaln(0.1, 5.0)) / 0.1)
    close(stats.beta.isf(1 - 2.0**-20, 0.1, 5.0) / small, 1.0, "beta")
    close(stats.beta.isf(1e-30, 2.0, 1e5), scipy.stats.beta.isf(1e-30, 2.0, 1e5), "beta")


def test_parameters_without_a_meaning_give_nan() -> None:
    assert np.isnan(stats.gamma.logpdf(1.0, -1.0))
    assert np.isnan(stats.gamma.ppf(0.5, 0.0))
    assert np.isnan(stats.truncnorm.cdf(0.0, 1.0, -1.0))
    assert np.isnan(stats.binom.pmf(1, 3, 1.5))
    assert np.isnan(stats.wrapcauchy.pdf(1.0, 1.0))
    assert np.isnan(stats.norm.pdf(0.0, 0.0, 0.0))


def test_the_peer_agrees() -> None:
    x = np.array([0.3, 0.8, 1.2])

    def every(x: Any) -> Any:
        return [
            getattr(getattr(stats, name), method)(x, *shapes)
            for name, shapes in CONTINUOUS.items()
            if name not in ("t", "beta", "truncnorm")
            for method in ("logpdf", "cdf", "logsf")
            if method in getattr(stats, name).__all__
        ]

    program = tnf.compile(every, x)
    for peer, native in zip(xla_peer.XlaExecutor().run(program, x), program.run(x), strict=True):
        np.testing.assert_allclose(peer, native, rtol=1e-11, atol=1e-15)


def test_vectors() -> None:
    rng = np.random.default_rng(3)
    alpha = np.array([0.7, 2.0, 3.5])
    x = rng.dirichlet(alpha, 4).T
    close(stats.dirichlet.logpdf(x, alpha), scipy.stats.dirichlet.logpdf(x, alpha), "dirichlet")
    close(stats.dirichlet.pdf(x[:2], alpha), scipy.stats.dirichlet.pdf(x, alpha), "n - 1")
    assert stats.dirichlet.logpdf([0.2, 0.2, 0.2], alpha) == -np.inf
    assert np.isnan(stats.dirichlet.logpdf([0.2, 0.8], [1.0, -1.0]))
    p, counts = np.array([0.2, 0.3, 0.5]), np.array([[1, 2, 3], [0, 6, 0], [1, 1, 1], [-1, 4, 3]])
    close(
        stats.multinomial.pmf(counts, 6, p), [*scipy.stats.multinomial.pmf(counts[:3], 6, p), 0], ""
    )
    root = rng.normal(size=(2, 3, 3))
    covariance = root @ root.swapaxes(1, 2) + np.eye(3)
    points, mean = rng.normal(size=(5, 1, 3)), np.array([0.1, -0.2, 0.3])
    wanted = np.stack(
        [scipy.stats.multivariate_normal.logpdf(points[:, 0], mean, c) for c in covariance], -1
    )
    close(stats.multivariate_normal.logpdf(points, mean, covariance), wanted, "normal")
    close(
        stats.multivariate_normal.entropy(mean, covariance[0]),
        scipy.stats.multivariate_normal.entropy(mean, covariance[0]),
        "entropy",
    )
    close(stats.multivariate_normal.entropy(0.0, 2.0), scipy.stats.norm.entropy(0, 2**0.5), "")
    close(
        stats.multivariate_normal.pdf(0.4, 0.1, 2.0, allow_singular=False),
        scipy.stats.norm.pdf(0.4, 0.1, 2**0.5),
        "",
    )
    close(
        stats.multivariate_normal.logpdf(points[:, 0], mean, 2.0),
        scipy.stats.multivariate_normal.logpdf(points[:, 0], mean, 2.0),
        "a number for the covariance",
    )
    for function, operands in (
        (stats.dirichlet.logpdf, (x[:2, 0], alpha)),
        (lambda p: stats.multinomial.logpmf(counts[0], 6, p), (p,)),
        (stats.multivariate_normal.logpdf, (points[0, 0], mean, covariance[0])),
    ):
        report = tnf.check_grads(function, operands)
        assert report.ok, report


def test_normal_distributions_of_singular_covariances() -> None:
    rng = np.random.default_rng(0)
    normal, reference = stats.multivariate_normal, scipy.stats.multivariate_normal
    root, mean = rng.normal(size=(4, 2)), rng.normal(size=4)
    points = mean + rng.normal(size=(3, 2)) @ root.T
    for scale in (1.0, 1e-12, 1e10):
        scaled, covariance = mean + (points - mean) * scale**0.5, scale * root @ root.T
        wanted = reference.logpdf(scaled, mean, covariance, allow_singular=True)
        found = normal.logpdf(scaled, mean, covariance, allow_singular=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    densities = normal.pdf(
        points + np.array([0, 0, 0, 1]), mean, root @ root.T, allow_singular=True
    )
    np.testing.assert_array_equal(densities, 0)
    regular = np.stack([root @ root.T + np.eye(4), np.diag([1.0, 2.0, 3.0, 4.0])])
    close(
        normal.logpdf(points[:, None], mean, regular, allow_singular=True),
        normal.logpdf(points[:, None], mean, regular),
        "of full rank",
    )
    close(normal.logpdf(points, mean, 2.0, True), normal.logpdf(points, mean, 2.0), "a number")
    assert normal.pdf(0.5, 0.5, 0.0, allow_singular=True) == 1
    assert np.isnan(normal.pdf([0.0, 0.0], 0.0, np.diag([1.0, -1.0]), allow_singular=True))
    of_root = lambda z, b: normal.logpdf(mean + b @ z, mean, b @ b.T, allow_singular=True)
    report = tnf.check_grads(of_root, (rng.normal(size=2), root), rtol=1e-8)
    assert report.ok, report


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_statistics_of_samples_are_scipys(axis: Any) -> None:
    rng = np.random.default_rng(0)
    integers = rng.integers(0, 4, (5, 3))
    floats = integers.astype(float)
    floats[1, 2] = np.nan
    for a in (integers, floats):
        for keepdims in (False, True):
            actual = stats.mode(a, axis, keepdims=keepdims)
            wanted = scipy.stats.mode(a, axis, keepdims=keepdims)
            np.testing.assert_array_equal(actual.mode, wanted.mode)
            np.testing.assert_array_equal(actual.count, wanted.count)
        for method in ("average", "min", "max", "dense", "ordinal"):
            wanted = scipy.stats.rankdata(a, method, axis=axis)
            np.testing.assert_array_equal(stats.rankdata(a, method, axis=axis), wanted)
        close(stats.sem(a, axis, ddof=2), scipy.stats.sem(a, axis, ddof=2), "sem")
        omitted = scipy.stats.sem(a, axis, nan_policy="omit")
        close(stats.sem(a, axis, nan_policy="omit"), omitted, "sem without NaN")
    assert stats.sem(floats, axis, keepdims=True).ndim == 2


@pytest.mark.parametrize("method", [None, "silverman", 0.3, lambda kde: 0.7])
def test_densities_by_kernels_are_scipys(method: Any) -> None:
    rng = np.random.default_rng(1)
    data, weights, points = rng.normal(size=(2, 9)), rng.uniform(1, 2, 9), rng.normal(size=(2, 4))
    ours, theirs = (module.gaussian_kde(data, method, weights) for module in (stats, scipy.stats))
    close(ours(points), theirs(points), "evaluate")
    close(ours.logpdf(points), theirs.logpdf(points), "logpdf")
    normal = np.array([0.1, 0.2]), np.array([[1.0, 0.2], [0.2, 2.0]])
    close(ours.integrate_gaussian(*normal), theirs.integrate_gaussian(*normal), "gaussian")
    close(ours.integrate_kde(ours), theirs.integrate_kde(theirs), "kde")
    line, known = (module.gaussian_kde(data[0], method) for module in (stats, scipy.stats))
    close(line.pdf(0.3), known.pdf(0.3), "a number")
    close(line.integrate_box_1d(-1.0, 0.5), known.integrate_box_1d(-1.0, 0.5), "box")
    draws = ours.resample(tnf.random.key(0), (2000,))
    assert draws.shape == (2, 2000)
    centre = data @ weights / weights.sum()
    assert np.all(np.abs(np.mean(draws, 1) - centre) < 0.2)
    slope = tnf.grad(lambda data: tnf.sum(stats.gaussian_kde(data).logpdf(points)))
    moved = np.zeros_like(data)
    moved[1, 4] = 1e-6
    high, low = (
        np.sum(scipy.stats.gaussian_kde(x).logpdf(points)) for x in (data + moved, data - moved)
    )
    np.testing.assert_allclose(slope(data)[1, 4], (high - low) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: stats.norm.pdf(1j), errors.DTypeError, "norm.pdf: takes real numbers, got c128[]"),
        (lambda: stats.nothing, errors.MissingNameError, "nothing"),
        (lambda: stats.gamma.pdf(1.0), TypeError, "missing a required argument: 'a'"),
        (lambda: stats.mode([1], nan_policy="omit"), errors.UnsupportedError, "stats.mode: nan_policy"),
        (lambda: stats.mode(np.zeros((0, 2))), errors.ShapeError, "stats.mode: takes an axis with elements"),
        (lambda: stats.rankdata([1], "middle"), errors.InvalidConfigError, "method must be one of average"),
        (lambda: stats.dirichlet.pdf([0.5], [[1.0]]), errors.ShapeError, "stats.dirichlet: takes x"),
        (lambda: stats.dirichlet.pdf([0.5], [1j]), errors.DTypeError, "dirichlet.logpdf: takes real numbers"),
        (lambda: stats.multivariate_normal.pdf([0.0], [0.0], np.eye(2)), errors.ShapeError, "stats.multivariate_normal"),
        (lambda: stats.gaussian_kde([1.0]), errors.ShapeError, "takes two numbers at least"),
        (lambda: stats.gaussian_kde([1.0, 2.0], "wide"), errors.InvalidConfigError, "bw_method"),
        (lambda: stats.gaussian_kde([1.0, 2.0], weights=[1.0]), errors.ShapeError, "weights must be"),
        (lambda: stats.gaussian_kde(np.eye(2))(np.eye(3)), errors.ShapeError, "points must be"),
        (lambda: stats.gaussian_kde([1j, 2.0]), errors.DTypeError, "takes real points"),
    ],
)  # fmt: skip
def test_refusals(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
