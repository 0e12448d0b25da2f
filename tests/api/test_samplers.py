"""Samplers must return the samples of `jax.random` for equal keys.

The samples must have the moments of the distribution.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.special

import tenferro as tnf
from tenferro import errors, random

A = np.array([[0.3, 1.0, 4.5], [12.0, 0.05, 2.0]])
COV = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
MEAN = np.array([[1.0, -2.0, 0.5]])

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("cauchy", ((7,),), {}), ("laplace", ((7,),), {}), ("logistic", ((7,),), {}), ("lognormal", (0.5, (7,)), {}), ("lognormal", (A,), {}), ("maxwell", ((4,),), {}),
    ("double_sided_maxwell", (A, 2.0), {}), ("double_sided_maxwell", (1.0, A, (2,)), {}), ("pareto", (A,), {}), ("rayleigh", (A, (4, 2, 3)), {}), ("triangular", (-1.0, 0.5, A + 1), {}),
    ("truncated_normal", (-A, A), {}), ("wald", (A,), {}), ("weibull_min", (2.0, 1.5, (7,)), {}),
    *[("multivariate_normal", (MEAN, COV, (4, 1)), {"method": method}) for method in ("cholesky",)], ("orthogonal", (3, (2,)), {}), ("orthogonal", (3,), {"m": 4}),
    ("gamma", (A,), {}), ("gamma", (A, (4, 2, 3)), {}), ("loggamma", (A,), {}), ("loggamma", (1e-3, (5,)), {}), ("beta", (A, 0.5), {}), ("chisquare", (A,), {}), ("dirichlet", (A, (5, 2)), {}), ("f", (A, 3.0), {}),
    ("generalized_normal", (1.5, (6,)), {}), ("ball", (3,), {"shape": (5,)}), ("ball", (2, 1, (4,)), {}), ("t", (A, (2, 3)), {}),
    ("rademacher", ((9,),), {}), ("geometric", (np.array([0.1, 0.9, 1.0]),), {}), ("poisson", (A,), {}), ("poisson", (np.array([0.0, 3.0, 11.0, 400.0]), (5, 4)), {}),
]  # fmt: skip


LOOPS = {"double_sided_maxwell", "gamma", "loggamma", "beta", "chisquare", "dirichlet", "f", "generalized_normal", "ball", "t", "poisson"}  # fmt: skip
"""Samplers by rejection: they run a loop until a draw is accepted."""


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[f"{c[0]}-{i}" for i, c in enumerate(CALLS)])  # fmt: skip
def test_samples_are_jaxs(number: int) -> None:
    name, args, kwargs = CALLS[number]
    key = random.fold_in(random.key(7), number)
    ours, theirs = getattr(random, name), getattr(jax.random, name)
    is_discrete = name in ("rademacher", "geometric", "poisson")
    dtypes = ("int64", "int32") if is_discrete else ("float64", "float32")
    # Test the samplers of LOOPS with one dtype only. JAX compiles a loop for each dtype, which would take most of the
    # test's time.
    is_slow = name in LOOPS
    for dtype in dtypes[number % 2 :][:1] if is_slow else dtypes:
        with jax.enable_x64(True):
            in_dtype = [
                x.astype(dtype) if isinstance(x, np.ndarray) and not is_discrete else x
                for x in args
            ]
            wanted = np.asarray(
                theirs(jax.random.wrap_key_data(key), *in_dtype, **kwargs, dtype=dtype)
            )
        found = ours(key, *args, **kwargs, dtype=dtype)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        rtol = 1e-9 if dtype != "float32" else 2e-4
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
    if number % 3 == 0:
        program = tnf.compile(lambda key: ours(key, *args, **kwargs), key)
        np.testing.assert_allclose(program.run(key), ours(key, *args, **kwargs), rtol=1e-9)


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_covariances(method: str) -> None:
    x = random.multivariate_normal(random.key(1), MEAN[0], COV, (20000,), method=method)
    np.testing.assert_allclose(x.mean(0), MEAN[0], atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), COV, atol=0.08)


def test_derivatives_of_parameters() -> None:
    key = random.key(3)
    for f in (
        lambda s: random.lognormal(key, s, (4,)),
        lambda s: random.rayleigh(key, s, (4,)),
        lambda s: random.wald(key, s, (4,)),
        lambda s: random.truncated_normal(key, -s, s, (4,)),
        lambda s: random.triangular(key, 0.0, 0.5, s, (4,)),
    ):
        slope = tnf.jacfwd(f)(2.0)
        wanted = (f(2.0 + 1e-6) - f(2.0 - 1e-6)) / 2e-6
        np.testing.assert_allclose(slope, wanted, rtol=1e-5)


def test_samples_of_gamma_follow_their_parameter_as_jaxs() -> None:
    a = np.array([1e-3, 0.04, 0.7, 1.0, 3.0, 40.0, 1e4])
    key = random.key(5)
    x = random.gamma(key, a)
    slope = tnf.jvp(lambda a: random.gamma(key, a), (a,), (np.ones_like(a),))[1]
    with jax.enable_x64(True):
        wanted = jax.lax.random_gamma_grad(a, np.asarray(x))
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)
    relative = tnf.jvp(lambda a: random.loggamma(key, a), (a,), (np.ones_like(a),))[1]
    np.testing.assert_allclose(relative * np.exp(random.loggamma(key, a)), slope, rtol=1e-9)
    assert np.isfinite(relative).all()


def test_samples_keep_their_quantiles_when_parameters_change() -> None:
    """The derivative of a sample is that of a quantile with a fixed probability.

    It must equal a central difference of SciPy's quantile function.
    """
    key, a, h = random.key(11), np.array([0.3, 1.5, 20.0]), 1e-5
    x, x_dot = tnf.jvp(lambda a: random.gamma(key, a), (a,), (np.ones(3),))
    p = scipy.special.gammainc(a, x)
    wanted = (scipy.special.gammaincinv(a + h, p) - scipy.special.gammaincinv(a - h, p)) / (2 * h)
    np.testing.assert_allclose(x_dot, wanted, rtol=1e-6)
    y, y_dot = tnf.jvp(lambda a: random.chisquare(key, a), (a,), (np.ones(3),))
    p = scipy.special.gammainc(a / 2, y / 2)
    moved = [2 * scipy.special.gammaincinv(b / 2, p) for b in (a + h, a - h)]
    np.testing.assert_allclose(y_dot, (moved[0] - moved[1]) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize(
    ("sample", "mean"),
    [
        (lambda key, a: random.beta(key, a, 2.0, (4000,)), lambda a: a / (a + 2)),
        (lambda key, a: random.dirichlet(key, tnf.stack([a, 1.0, 2.0]), (4000,))[:, 0], lambda a: a / (a + 3)),
        (lambda key, a: random.t(key, a, (4000,)) ** 2, lambda a: a / (a - 2)),
    ],
)  # fmt: skip
def test_gradients_of_means_are_those_of_expectations(sample: Any, mean: Any) -> None:
    a = 9.0
    slope = tnf.grad(lambda a: tnf.mean(sample(random.key(2), a)))(a)
    wanted = (mean(a + 1e-5) - mean(a - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, wanted, rtol=0.15)


N = np.array([0.0, 3.0, 12.0, 50.0, 1000.0, np.nan, -1.0])
P = np.array([[0.3], [0.9], [0.0], [1.0], [np.nan]])


def test_binomial_numbers_are_jaxs() -> None:
    key, shares = random.key(4), np.random.default_rng(0).dirichlet(np.ones(4), 3)
    few, n, p = np.array([5.0, 0, 200]), N.astype("float32"), P.astype("float32")
    with jax.enable_x64(True):
        theirs = jax.random.wrap_key_data(key)
        wanted = [
            jax.random.binomial(theirs, n, p, dtype="float32"),
            jax.random.multinomial(theirs, few, shares, shape=(2, 3, 4), dtype="float64"),
        ]
    actual = [
        random.binomial(key, n, p, dtype="float32"),
        random.multinomial(key, few, shares, shape=(2, 3, 4)),
    ]
    for ours, jaxs in zip(actual, wanted, strict=True):
        assert ours.dtype == jaxs.dtype
        np.testing.assert_array_equal(ours, jaxs)
    assert (actual[1].sum(-1) == few).all()


def test_binomial_numbers_have_the_moments_of_their_distribution() -> None:
    assert random.binomial(random.key(1), np.inf, 0.5) == np.inf
    for n, p in ((20.0, 0.1), (400.0, 0.7)):
        x = random.binomial(random.key(1), n, p, (20000,))
        np.testing.assert_allclose([x.mean(), x.var()], [n * p, n * p * (1 - p)], rtol=0.05)
    assert np.all(tnf.grad(lambda p: tnf.sum(random.binomial(random.key(1), 9.0, p)))(P[:2]) == 0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda key: random.cauchy(key, (2,), "int32"), errors.DTypeError),
        (lambda key: random.poisson(key, 1.0, (2,), "float32"), errors.DTypeError),
        (lambda key: random.pareto(key, A, (3,)), errors.ShapeError),
        (lambda key: random.multivariate_normal(key, MEAN, COV[:2]), errors.ShapeError),
        (lambda key: random.multivariate_normal(key, MEAN, COV, method="lu"), errors.InvalidConfigError),
        (lambda key: random.dirichlet(key, 1.0), errors.ShapeError),
        (lambda key: random.generalized_normal(key, 0), errors.InvalidConfigError),
        (lambda key: random.binomial(key, 5, 0.5, (2,), "int32"), errors.DTypeError),
        (lambda key: random.binomial(key, A, 0.5, (3,)), errors.ShapeError),
        (lambda key: random.multinomial(key, 5, 0.5), errors.ShapeError),
        (lambda key: random.multinomial(key, A, np.ones(3) / 3), errors.ShapeError),
        (lambda key: random.laplace(np.zeros(3, np.uint32)), errors.TenferroError),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(random.key(0))
