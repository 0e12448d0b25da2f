"""Optimisers must take the same steps as those of optax.

They run on arrays, compiled natively, on eager tensors, and through PJRT.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np
import optax
import pytest

import tenferro as tnf
from tenferro import optim
from tests.pairs import in_turn
from xla_peer import XlaExecutor

STEPS = 20


def params_of(dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "w": rng.standard_normal((3, 2)).astype(dtype),
        "b": (rng.standard_normal(2).astype(dtype), np.asarray(0.5, dtype)),
    }


def grads_of(dtype: str) -> list[dict[str, Any]]:
    """Return one tree of gradients for each step.

    Some elements are zero, and the magnitudes differ by powers of ten.
    """
    rng = np.random.default_rng(11)
    trees = []
    for _ in range(STEPS):
        w = rng.standard_normal((3, 2)) * 10.0 ** rng.integers(-3, 2, (3, 2))
        w[0, 0] = 0
        trees.append({
            "w": w.astype(dtype),
            "b": (rng.standard_normal(2).astype(dtype), np.asarray(rng.standard_normal(), dtype)),
        })  # fmt: skip
    return trees


WARM = {
    "init_value": 0.0,
    "peak_value": 0.3,
    "warmup_steps": 5,
    "decay_steps": 15,
    "end_value": 0.01,
}
CASES: dict[str, Any] = {
    "sgd": lambda o: o.sgd(0.1),
    "momentum": lambda o: o.sgd(0.1, momentum=0.9),
    "nesterov": lambda o: o.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda o: o.adam(1e-2),
    "adam, nesterov": lambda o: o.adam(1e-2, b1=0.8, b2=0.99, eps_root=1e-6, nesterov=True),
    "adam without first moments": lambda o: o.adam(1e-2, b1=0.0),
    "adamw": lambda o: o.adamw(1e-2, weight_decay=0.1),
    "adamw, masked": lambda o: o.adamw(1e-2, weight_decay=0.1, mask={"w": True, "b": False}),
    "adamw, masked by a function": lambda o: o.adamw(
        1e-2, weight_decay=0.1, mask=lambda p: {"w": False, "b": (True, False)}
    ),
    "adamw, scheduled": lambda o: o.adamw(o.warmup_cosine_decay_schedule(**WARM)),
    "lion": lambda o: o.lion(1e-3),
    "lion, smooth": lambda o: o.scale_by_lion(mode="smooth", smooth_beta=2.0),
    "lion, refined": lambda o: o.scale_by_lion(mode="refined"),
    "rmsprop": lambda o: o.rmsprop(1e-2),
    "rmsprop, all of it": lambda o: o.rmsprop(
        1e-2, decay=0.8, initial_scale=0.5, eps_in_sqrt=False, centered=True, momentum=0.9,
        nesterov=True, bias_correction=True,
    ),
    "rmsprop, corrected": lambda o: o.rmsprop(1e-2, bias_correction=True),
    "adagrad": lambda o: o.adagrad(0.1),
    "adagrad from nothing": lambda o: o.adagrad(0.1, initial_accumulator_value=0.0),
    "clip": lambda o: o.chain(o.clip(0.5), o.scale(-0.1)),
    "clip by norm": lambda o: o.chain(o.clip_by_global_norm(2.0), o.adam(1e-2)),
    "decayed weights": lambda o: o.chain(o.add_decayed_weights(0.01), o.sgd(0.1)),
    "trace in float32": lambda o: o.trace(0.9, accumulator_dtype="float32"),
    "nothing": lambda o: o.chain(o.set_to_zero(), o.identity()),
    "decay by steps": lambda o: o.sgd(o.exponential_decay(0.1, 4, 0.5, staircase=True)),
}  # fmt: skip


def descent(library: Any, optimizer: Any, dtype: str, params: Any = None) -> Any:
    """Take all steps of an optimiser of tenferro or optax.

    Return the final parameters and the state of the optimiser.
    """
    params = params_of(dtype) if params is None else params
    state = optimizer.init(params)
    for grads in grads_of(dtype):
        updates, state = optimizer.update(grads, state, params)
        params = library.apply_updates(params, updates)
    return params, state


def assert_close(actual: Any, expected: Any, rtol: float) -> None:
    ours, theirs = tnf.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert np.asarray(mine).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=rtol, atol=rtol * 1e-2)


@in_turn("name", CASES, "dtype", ["float32", "float64"])
def test_steps_are_those_of_optax(name: str, dtype: str) -> None:
    with jax.enable_x64(True):
        expected = descent(optax, CASES[name](optax), dtype)
    actual = descent(optim, CASES[name](optim), dtype)
    # optax computes a schedule in float32, because its step count is an int32. The tolerance must allow for this.
    is_scheduled = name in ("adamw, scheduled", "decay by steps")
    assert_close(actual, expected, 1e-5 if dtype == "float32" or is_scheduled else 1e-13)


@in_turn("name", CASES, "dtype", ["float16", "bfloat16"])
def test_narrow_floats_have_the_dtypes_of_optax(name: str, dtype: str) -> None:
    def step(library: Any, params: Any, grads: Any) -> Any:
        optimizer = CASES[name](library)
        return optimizer.update(grads, optimizer.init(params), params)

    trees = params_of(dtype), grads_of(dtype)[0]
    with jax.enable_x64(True):
        theirs = step(optax, *jax.tree.map(jax.numpy.asarray, trees))
    expected = [leaf.dtype for leaf in jax.tree.leaves(theirs)]
    ours = tnf.tree.leaves(step(optim, *trees))
    assert [np.asarray(leaf).dtype for leaf in ours] == expected


def test_decay_by_a_schedule_keeps_float16() -> None:
    optimizer = optim.add_decayed_weights(optim.cosine_decay_schedule(0.5, 10))
    x = np.array([1.0, -2.0], np.float16)
    updates, _ = optimizer.update(x, optimizer.init(x), x)
    np.testing.assert_array_equal(updates, np.array([1.5, -3.0], np.float16), strict=True)


def test_gradients_of_another_shape_are_refused_on_arrays() -> None:
    optimizer = optim.sgd(0.1, momentum=0.9)
    with pytest.raises(tnf.errors.ShapeError, match="do not broadcast"):
        optimizer.update(np.ones(2), optimizer.init(np.ones(3)))


def test_complex_parameters_step_like_those_of_optax() -> None:
    rng = np.random.default_rng(3)
    params = rng.standard_normal(4) + 1j * rng.standard_normal(4)
    grads = [rng.standard_normal(4) + 1j * rng.standard_normal(4) for _ in range(STEPS)]

    def steps(library: Any) -> Any:
        optimizer = library.chain(library.clip_by_global_norm(1.0), library.adamw(0.1))
        p, state = params, optimizer.init(params)
        for g in grads:
            updates, state = optimizer.update(g, state, p)
            p = library.apply_updates(p, updates)
        return p

    with jax.enable_x64(True):
        expected = np.asarray(steps(optax))
    np.testing.assert_allclose(steps(optim), expected, rtol=1e-12)
    assert not np.allclose(expected.imag, params.imag)


def test_complex_parameters_go_down_their_gradient() -> None:
    target = np.array([1 + 2j, -3j])
    optimizer = optim.adam(0.1)

    @tnf.jit
    def step(z: Any, state: Any) -> Any:
        grads = tnf.grad(lambda z: tnf.sum(tnf.abs(z - target) ** 2))(z)
        updates, state = optimizer.update(grads, state, z)
        return optim.apply_updates(z, updates), state

    z = np.zeros(2, complex)
    state = optimizer.init(z)
    for _ in range(300):
        z, state = step(z, state)
    np.testing.assert_allclose(z, target, atol=1e-2)


def test_values_without_an_order_are_not_clipped() -> None:
    clip = optim.clip(1.0)
    with pytest.raises(tnf.errors.DTypeError, match="complex"):
        clip.update(np.array([1j]), clip.init(np.array([1j])))


def test_parameters_keep_their_dtype() -> None:
    params = {"n": np.arange(3), "x": np.ones(2, np.float32)}
    updates = {"n": np.array([0.6, 1.6, -0.6]), "x": np.full(2, 0.5)}
    ours = optim.apply_updates(params, updates)
    with jax.enable_x64(True):
        theirs = optax.apply_updates(params, updates)
    assert_close(ours, theirs, 0.0)


def test_updates_that_are_none_stay_none() -> None:
    params, grads = {"a": np.ones(2), "b": np.ones(2)}, {"a": np.ones(2), "b": None}
    ours = optim.chain(optim.add_decayed_weights(0.5), optim.sgd(0.1, momentum=0.9))
    theirs = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1, momentum=0.9))
    actual, _ = ours.update(grads, ours.init(params), params)
    with jax.enable_x64(True):
        expected, _ = theirs.update(grads, theirs.init(params), params)
    assert actual["b"] is None
    np.testing.assert_allclose(actual["a"], expected["a"])


FAMILIES = [
    name for name in optim.__all__ if name not in ("EmptyState", "GradientTransformation", "masked")
]


@pytest.mark.parametrize("name", FAMILIES)
def test_signatures_are_those_of_optax(name: str) -> None:
    def shape(fn: Any) -> list[Any]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(fn).parameters.values()]

    assert shape(getattr(optim, name)) == shape(getattr(optax, name))


SCHEDULES: dict[str, Any] = {
    "constant": lambda o: o.constant_schedule(0.3),
    "linear": lambda o: o.linear_schedule(1.0, 0.1, 6, transition_begin=3),
    "no steps": lambda o: o.linear_schedule(1.0, 0.1, 0),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 3, 8, 2),
    "piecewise": lambda o: o.piecewise_constant_schedule(1.0, {3: 0.5, 7: 0.1}),
    "piecewise, one": lambda o: o.piecewise_constant_schedule(1.0),
    "exponential": lambda o: o.exponential_decay(1.0, 5, 0.5, transition_begin=2),
    "exponential, bounded": lambda o: o.exponential_decay(1.0, 2, 0.5, end_value=0.1),
    "exponential, growing": lambda o: o.exponential_decay(1.0, 2, 1.5, end_value=4.0),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 10, alpha=0.1, exponent=2.0),
    "warm-up": lambda o: o.warmup_cosine_decay_schedule(**WARM),
    "joined": lambda o: o.join_schedules(
        [o.constant_schedule(1.0), o.linear_schedule(1.0, 0.0, 4), o.constant_schedule(0.5)], [4, 9]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_optax(name: str) -> None:
    ours, theirs = SCHEDULES[name](optim), SCHEDULES[name](optax)
    counts = np.arange(16, dtype=np.int32)
    with jax.enable_x64(True):
        expected = np.array([float(theirs(float(count))) for count in counts])
    actual = np.array([float(ours(int(count))) for count in counts])
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-16)
    traced = tnf.jit(lambda count: tnf.asarray(ours(count)))
    np.testing.assert_allclose([float(traced(count)) for count in counts], actual, rtol=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.cosine_decay_schedule(1.0, 0),
        lambda: optim.linear_schedule(1.0, 0.0, -1),
        lambda: optim.exponential_decay(1.0, 5, 0.0),
        lambda: optim.exponential_decay(1.0, 5, 0.5, transition_begin=-1),
        lambda: optim.piecewise_constant_schedule(1.0, {3: -0.5}),
        lambda: optim.join_schedules([optim.constant_schedule(1.0)], [3]),
        lambda: optim.scale_by_lion(mode="soft"),
        lambda: optim.adam(0.1, b2=1.0).update([1.0], optim.adam(0.1, b2=1.0).init([1.0])),
        lambda: optim.add_decayed_weights(0.1).update([1.0], optim.EmptyState()),
        lambda: optim.chain(optim.scale(1.0)).update([1.0], ()),
    ],
)
def test_what_means_nothing_is_refused(make: Any) -> None:
    with pytest.raises(tnf.errors.InvalidConfigError):
        make()


@pytest.mark.parametrize("executor", [None, XlaExecutor()], ids=["native", "PJRT"])
def test_one_program_steps_like_the_arrays(executor: Any) -> None:
    optimizer = CASES["clip by norm"](optim)
    expected, _ = descent(optim, optimizer, "float64")

    def step(params: Any, state: Any, grads: Any) -> Any:
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    jitted = tnf.jit(step) if executor is None else tnf.jit(step, executor=executor)
    params = params_of("float64")
    state = optimizer.init(params)
    for grads in grads_of("float64"):
        params, state = jitted(params, state, grads)
    assert jitted.cache_stats().misses == 1
    assert_close(params, expected, 1e-12)


def test_steps_in_a_scan() -> None:
    optimizer = optim.adamw(optim.cosine_decay_schedule(0.1, 20))
    params, grads = params_of("float64"), grads_of("float64")
    expected, _ = descent(optim, optimizer, "float64")
    stacked = tnf.tree.map(lambda *leaves: np.stack(leaves), *grads)

    def step(carry: Any, grads: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(grads, state, params)
        return (optim.apply_updates(params, updates), state), None

    (last, _), _ = tnf.scan(step, (params, optimizer.init(params)), stacked)
    assert_close(last, expected, 1e-12)


def test_eager_tensors_step_like_the_arrays() -> None:
    runtime = tnf.EagerRuntime()
    optimizer = CASES["adamw"](optim)
    params = tnf.tree.map(runtime.constant, params_of("float64"))
    last, _ = descent(optim, optimizer, "float64", params)
    expected, _ = descent(optim, optimizer, "float64")
    assert all(type(leaf) is tnf.EagerTensor for leaf in tnf.tree.leaves(last))
    assert_close(tnf.tree.map(np.asarray, last), expected, 1e-13)


def test_float32_stays_float32_in_the_program() -> None:
    optimizer = optim.adam(0.1)
    params = np.ones(3, np.float32)
    program = tnf.compile(lambda g, s: optimizer.update(g, s), params, optimizer.init(params))
    assert "f64" not in str(program)


def test_the_bias_of_a_long_mean_is_exact_in_float32() -> None:
    optimizer = optim.scale_by_adam(b2=0.9999, eps=0.0)
    params = np.array([3.0], np.float32)
    updates, _ = optimizer.update(params, optimizer.init(params))
    np.testing.assert_allclose(updates, 1.0, rtol=1e-6)


def test_optax_chains_these_transformations() -> None:
    params, grads = np.ones(2), np.array([3.0, 4.0])
    mixed = optax.chain(optim.clip_by_global_norm(1.0), optax.scale(-1.0))
    with jax.enable_x64(True):
        updates, _ = mixed.update(grads, mixed.init(params), params)
    np.testing.assert_allclose(updates, [-0.6, -0.8])
