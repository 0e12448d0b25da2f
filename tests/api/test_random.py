"""Random numbers must equal published vectors and JAX's bits, and be equal on all executors.

They must also have the right distributions.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import lowering
import tenferro as tnf
from tenferro import errors, random
from tenferro.ext.random.families import Threefry2x32
from tenferro.extension import apply, check_extension
from tenferro.program.expand import expand_extensions
from xla_peer import XlaExecutor

KEY = random.key(7)
XLA = XlaExecutor()
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
LOGITS = np.random.default_rng(0).normal(size=(4, 5))


def test_the_published_vectors() -> None:
    """The generator must return the known answers that Random123 publishes for Threefry-2x32 with 20 rounds."""
    vectors = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]
    for key, (x0, x1), wanted in vectors:
        words = [np.array(word, np.uint32) for word in (x0, x1)]
        assert tuple(map(int, apply(Threefry2x32(), np.array(key, np.uint32), *words))) == wanted


def test_the_family_keeps_its_contract() -> None:
    words = np.arange(6, dtype=np.uint32).reshape(2, 3)
    for key in (KEY, np.stack([KEY, KEY + 1])):
        check_extension(Threefry2x32(), (key, words, words[::-1].copy()))


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(
    ("batch", "each"), [((), ()), ((), (4,)), ((), (2, 3)), ((2,), ()), ((2,), (3,)), ((2, 3), (4,)), ((2, 3), ()), ((2,), (3, 4))]
)  # fmt: skip
def test_a_key_for_each_leading_axis(batch: Any, each: Any, expanded: bool) -> None:
    """If several keys are passed, the words of each key must equal those of a call with this key alone."""
    generator = np.random.default_rng(3)
    keys = generator.integers(0, 2**32, (*batch, 2), np.uint32)
    x0, x1 = generator.integers(0, 2**32, (2, *batch, *each), np.uint32)
    program = tnf.compile(lambda *xs: apply(Threefry2x32(), *xs), keys, x0, x1)
    y0, y1 = (expand_extensions(program) if expanded else program).run(keys, x0, x1)
    assert y0.shape == y1.shape == x0.shape
    for index in np.ndindex(*x0.shape):
        words = apply(Threefry2x32(), keys[index[: len(batch)]], x0[index], x1[index])
        assert (y0[index], y1[index]) == words


@pytest.mark.parametrize(
    ("key", "x0", "x1"),
    [
        ((), (), ()), ((3,), (), ()), ((2, 1), (2,), (2,)), ((2,), (3,), (4,)), ((2,), (3,), ()),
        ((3, 2), (), ()), ((3, 2), (2,), (2,)), ((3, 2), (2, 3), (2, 3)), ((3, 4, 2), (3,), (3,)),
        ((3, 4, 2), (3, 5), (3, 5)), ((3, 4, 2), (5, 4), (5, 4)), ((3, 4, 2), (4, 3), (4, 3)),
    ],
)  # fmt: skip
def test_words_that_a_key_does_not_fit(key: Any, x0: Any, x1: Any) -> None:
    arrays = [np.zeros(shape, np.uint32) for shape in (key, x0, x1)]
    with pytest.raises(errors.ShapeError, match=r"takes a key \[B\.\., 2\]"):
        apply(Threefry2x32(), *arrays)


# ---- JAX -----------------------------------------------------------------------------------------

JAX_CALLS: dict[str, Any] = {
    "key": lambda r, k: k,
    "split": lambda r, k: r.split(k),
    "split to a shape": lambda r, k: r.split(k, (2, 3)),
    "fold in": lambda r, k: r.fold_in(k, 12345),
    **{f"bits {d}": lambda r, k, d=d: r.bits(k, (3, 5), d) for d in ("uint8", "uint16", "uint32", "uint64")},
    **{
        f"uniform {d}": lambda r, k, d=d: r.uniform(k, (3, 5), d)
        for d in ("float16", "bfloat16", "float32", "float64")
    },
    "no shape": lambda r, k: r.uniform(k),
    "no elements": lambda r, k: r.bits(k, (2, 0, 3), "uint32"),
    **{
        f"randint {d} {low} {high}": lambda r, k, d=d, e=(low, high): r.randint(k, (50,), *e, d)
        for d in ("int8", "uint8", "int16", "int32", "int64", "uint64")
        for low, high in ((0, 10), (-5, 300), (5, 5), (7, 3), (0, 256), (-128, 128), (0, 30000))
    },
    "randint of arrays": lambda r, k: r.randint(
        k, (2, 3), np.array([0, 5, 9]), np.array([[3], [700]]), "int16"
    ),
    "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (40,)),
    "bernoulli of an array": lambda r, k: r.bernoulli(k, WEIGHTS),
    "categorical": lambda r, k: r.categorical(k, LOGITS),
    "categorical of an axis": lambda r, k: r.categorical(k, LOGITS, axis=0, shape=(3, 5)),
    "bernoulli of many bits": lambda r, k: r.bernoulli(k, np.float32(0.3), (40,), mode="high"),
    "categorical of many bits": lambda r, k: r.categorical(k, LOGITS, shape=(50, *LOGITS.shape[:1]), mode="high"),
    "categorical without replacement": lambda r, k: r.categorical(k, LOGITS, 0, (2, *LOGITS.shape[1:]), replace=False).astype("int64"),
    "permutation": lambda r, k: r.permutation(k, 100),
    "permutation of rows": lambda r, k: r.permutation(k, LOGITS),
    "permutation of columns": lambda r, k: r.permutation(k, LOGITS, axis=1),
    "independent permutations": lambda r, k: r.permutation(k, LOGITS, axis=1, independent=True),
    "choice": lambda r, k: r.choice(k, 10, (2, 3)),
    "choice by weight": lambda r, k: r.choice(k, 4, (6,), p=WEIGHTS),
    "choice of columns": lambda r, k: r.choice(k, LOGITS, (2, 2), axis=1),
    "choice without replacement": lambda r, k: r.choice(k, LOGITS, (3,), replace=False, axis=1),
    "choice by weight without replacement": lambda r, k: r.choice(k, 4, (3,), p=WEIGHTS, replace=False),
    "no choice": lambda r, k: r.choice(k, 0, (0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", JAX_CALLS)
def test_as_jax(name: str) -> None:
    with jax.enable_x64(True):
        wanted = np.asarray(JAX_CALLS[name](jax.random, jax.random.PRNGKey(7)))
    found = JAX_CALLS[name](random, KEY)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", [0, 1, -5, 2**31, 2**40 + 3, 2**63 - 1, -(2**63)])
def test_seeds_as_jax(seed: int) -> None:
    with jax.enable_x64(True):
        wanted = np.asarray(jax.random.PRNGKey(seed))
    np.testing.assert_array_equal(random.key(seed), wanted)
    np.testing.assert_array_equal(random.key(np.int64(seed)), wanted)
    np.testing.assert_array_equal(
        tnf.compile(random.key, np.int64(seed)).run(np.int64(seed)), wanted
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("name", ["normal", "gumbel", "exponential"])
def test_near_jax(name: str, dtype: str) -> None:
    if dtype == "complex128" and name != "normal":
        return
    with jax.enable_x64(True):
        wanted = np.asarray(getattr(jax.random, name)(jax.random.PRNGKey(7), (300,), dtype))
    found = getattr(random, name)(KEY, (300,), dtype)
    eps = tnf.finfo(dtype).eps
    kind = complex if dtype == "complex128" else float
    np.testing.assert_allclose(
        found.astype(kind), wanted.astype(kind), rtol=200 * eps, atol=4 * eps
    )


# ---- equal bits everywhere -----------------------------------------------------------------------

STREAMS: dict[str, Any] = {
    "bits": lambda k: random.bits(k, (1000,), "uint64"),
    "uniform": lambda k: random.uniform(k, (10, 100), "float32", -3.0, 2.5),
    "uniform float64": lambda k: random.uniform(k, (1000,), minval=-0.1, maxval=7.3),
    "uniform float16": lambda k: random.uniform(k, (1000,), "float16", -3.0, 2.5),
    "randint": lambda k: random.randint(k, (1000,), -7, 1000),
    "bernoulli": lambda k: random.bernoulli(k, WEIGHTS, (250, 4)),
    "permutation": lambda k: random.permutation(k, 1000),
    "split": lambda k: random.split(random.fold_in(k, 3), (7,)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_same_bits_at_once_in_programs_eagerly_and_on_the_peer(name: str) -> None:
    fn = STREAMS[name]
    wanted = fn(KEY)
    program = tnf.compile(fn, KEY)
    rt = tnf.EagerRuntime()
    for found in (program.run(KEY), XLA.run(program, KEY), fn(rt.constant(KEY)).numpy()):
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_agree_on_both_peers(dtype: str) -> None:
    program = tnf.compile(lambda k: random.normal(k, (1000,), dtype), KEY)
    eps = tnf.finfo(dtype).eps
    np.testing.assert_allclose(program.run(KEY), XLA.run(program, KEY), rtol=60 * eps)


def test_programs_are_plain_stablehlo() -> None:
    program = tnf.compile(lambda k: random.normal(k, (3,)), KEY)
    assert "custom_call" not in lowering.lower_to_stablehlo(program).text


def test_many_keys_at_once() -> None:
    keys = random.split(KEY, 5)
    wanted = np.stack([random.uniform(k, (2, 3)) for k in keys])
    np.testing.assert_array_equal(tnf.vmap(lambda k: random.uniform(k, (2, 3)))(keys), wanted)
    program = tnf.compile(tnf.vmap(lambda k: random.uniform(k, (2, 3))), keys)
    np.testing.assert_array_equal(XLA.run(program, keys), wanted)
    long = tnf.vmap(lambda k: random.bits(k, (20000,)))(keys)
    np.testing.assert_array_equal(long[3], random.bits(keys[3], (20000,)))


def test_symbolic_shapes() -> None:
    program = tnf.compile(
        lambda k, x: random.uniform(k, (x.shape[0], 2)), KEY, tnf.TensorSpec(("n",), "float64")
    )
    for n in (0, 3, 70000):
        np.testing.assert_array_equal(program.run(KEY, np.zeros(n)), random.uniform(KEY, (n, 2)))


def test_large_counts_use_both_words() -> None:
    key, high, low = KEY, np.array([1], np.uint32), np.array([5], np.uint32)
    assert apply(Threefry2x32(), key, high, low) != apply(Threefry2x32(), key, 0 * high, low)


# ---- distributions -------------------------------------------------------------------------------

COUNT = 20000
CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "uniform": (lambda k: random.uniform(k, (COUNT,), minval=-2.0, maxval=3.0), stats.uniform(-2, 5).cdf),
    "normal": (lambda k: random.normal(k, (COUNT,)), stats.norm.cdf),
    "normal float32": (lambda k: random.normal(k, (COUNT,), "float32"), stats.norm.cdf),
    "exponential": (lambda k: random.exponential(k, (COUNT,)), stats.expon.cdf),
    "gumbel": (lambda k: random.gumbel(k, (COUNT,)), stats.gumbel_r.cdf),
    **{
        f"gamma {a}": (lambda k, a=a: random.gamma(k, a, (COUNT,)), stats.gamma(a).cdf)
        for a in (0.05, 0.5, 1.0, 1.7, 30.0)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    draw, cdf = CONTINUOUS[name]
    assert stats.kstest(np.asarray(draw(random.key(1))), cdf).pvalue > 1e-3


def test_discrete_distributions() -> None:
    counts = {
        "randint": (random.randint(KEY, (COUNT,), 0, 4), np.full(4, 0.25)),
        "choice": (random.choice(KEY, 4, (COUNT,), p=WEIGHTS), WEIGHTS),
        "categorical": (random.categorical(KEY, np.log(WEIGHTS), shape=(COUNT,)), WEIGHTS),
        "bernoulli": (random.bernoulli(KEY, 0.3, (COUNT,)).astype(int), np.array([0.7, 0.3])),
    }
    for name, (found, weights) in counts.items():
        seen = np.bincount(found, minlength=len(weights))
        assert stats.chisquare(seen, weights * COUNT).pvalue > 1e-3, name
    orders = np.array([random.permutation(k, 3) for k in random.split(KEY, 3000)]) @ [9, 3, 1]
    assert stats.chisquare(np.unique(orders, return_counts=True)[1]).pvalue > 1e-3


def test_ends_beyond_the_range_are_moved_to_it() -> None:
    everything = random.randint(KEY, (COUNT,), -(2**70), 2**70, "int8")
    assert (everything.min(), everything.max()) == (-128, 127)
    words = random.randint(KEY, (COUNT,), 0, 2**64, "uint64")
    assert words.max() > 2**63
    np.testing.assert_array_equal(
        random.randint(KEY, (9,), 0, np.uint64(300), "int8"),
        random.randint(KEY, (9,), 0, 128, "int8"),
    )


def test_gamma_parameters_broadcast() -> None:
    a = np.array([[0.5], [20.0]])
    found = random.gamma(KEY, a, (2, 4000))
    np.testing.assert_allclose(found.mean(axis=1), a[:, 0], rtol=0.1)


# ---- derivatives and errors ----------------------------------------------------------------------


def test_bounds_have_derivatives() -> None:
    u = random.uniform(KEY, (3,))
    gradient = tnf.grad(
        lambda low, high: tnf.sum(random.uniform(KEY, (3,), minval=low, maxval=high)),
        argnums=(0, 1),
    )(1.0, 4.0)
    np.testing.assert_allclose(gradient, [np.sum(1 - u), np.sum(u)])


def test_the_parameter_of_gamma_can_be_a_constant() -> None:
    stopped = tnf.grad(lambda a: tnf.sum(a * random.gamma(KEY, tnf.stop_gradient(a))))(np.ones(3))
    np.testing.assert_array_equal(stopped, random.gamma(KEY, np.ones(3)))


MISUSE: dict[str, tuple[Any, type[Exception], str]] = {
    "no key": (lambda: random.uniform(np.zeros(2)), errors.DTypeError, "random.key"),
    "many keys": (lambda: random.uniform(random.split(KEY)), errors.DTypeError, r"u32\[2\]"),
    "float seed": (lambda: random.key(1.5), errors.DTypeError, "integer"),
    "large seed": (lambda: random.key(2**64), errors.InvalidConfigError, "64 bits"),
    "low seed": (lambda: random.key(-(2**63) - 1), errors.InvalidConfigError, "64 bits"),
    "integers below a negative one": (lambda: random.permutation(KEY, -3), errors.InvalidConfigError, "-3"),
    "negative extent": (lambda: random.bits(KEY, (-1,)), errors.InvalidConfigError, "-1"),
    "signed bits": (lambda: random.bits(KEY, (), "int32"), errors.DTypeError, "unsigned"),
    "integer uniform": (lambda: random.uniform(KEY, (), "int32"), errors.DTypeError, "float"),
    "float randint": (lambda: random.randint(KEY, (), 0, 1, "float32"), errors.DTypeError, "integer"),
    "float bound": (lambda: random.randint(KEY, (), 0, 1.5), errors.DTypeError, "bounds"),
    "bounds": (lambda: random.uniform(KEY, (2,), minval=np.zeros(3)), errors.ShapeError, "broadcast"),
    "data": (lambda: random.fold_in(KEY, 2**32), errors.InvalidConfigError, "32 bits"),
    "mode": (lambda: random.gumbel(KEY, mode="highest"), errors.InvalidConfigError, "mode must be"),
    "draws of indices": (lambda: random.categorical(KEY, WEIGHTS, shape=(9,), replace=False), errors.InvalidConfigError, "9 draws from"),
    "end of shape": (lambda: random.categorical(KEY, LOGITS, shape=(3,)), errors.ShapeError, "end"),
    "draws": (lambda: random.choice(KEY, 3, (4,), replace=False), errors.InvalidConfigError, "4 draws"),
    "draws from none": (lambda: random.choice(KEY, 0, (4,)), errors.InvalidConfigError, "from 0"),
    "weights": (lambda: random.choice(KEY, 3, (), p=WEIGHTS), errors.ShapeError, r"\(3,\)"),
    "scalar": (lambda: random.permutation(KEY, np.array(1.5)), errors.DTypeError, "axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name: str) -> None:
    call, kind, match = MISUSE[name]
    with pytest.raises(kind, match=match):
        call()
