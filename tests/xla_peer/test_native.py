"""`xla_peer.native` runs JAX functions on the native executor.

Results and derivatives must agree with JAX's.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import io_callback

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo, register_custom_call
from tenferro.errors import (
    ADRuleUnsupportedError,
    BackendFailureError,
    DTypeError,
    InvalidConfigError,
    UnsupportedError,
)
from xla_peer import native


@pytest.fixture(autouse=True)
def narrow_numbers() -> Iterator[None]:
    """Disable JAX's 64-bit dtypes, whatever other tests of this process have set."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", False)  # this sets the option for all threads
    yield
    jax.config.update("jax_enable_x64", before)


class Pair(NamedTuple):
    first: Any
    second: Any


@partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["activation"])
@dataclass
class Layer:
    w: Any
    b: Any
    activation: str = "tanh"


@jax.tree_util.register_pytree_node_class
class Stack:
    """JAX pytree with arrays as leaves and with static data. Modules of equinox and flax are such pytrees."""

    def __init__(self, layers: Any, name: str) -> None:
        self.layers = layers
        self.name = name

    def tree_flatten(self) -> Any:
        return (self.layers,), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Stack:
        return cls(children[0], name)


def array(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def alike(actual: Any, expected: Any, rtol: float = 2e-5) -> None:
    """Require equal trees, dtypes and shapes, and values that are equal within `rtol`."""
    actual_leaves, actual_tree = jax.tree.flatten(actual)
    leaves, tree = jax.tree.flatten(expected)
    assert actual_tree == tree
    for x, y in zip(actual_leaves, leaves, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-6)


def mlp(stack: Stack, x: Any) -> Any:
    for layer in stack.layers:
        x = getattr(jnp, layer.activation)(x @ layer.w + layer.b)
    return x


STACK = Stack((Layer(array(3, 4), array(4)), Layer(array(4, 2, seed=1), array(2), "sin")), "mlp")
TREES = {
    "array": (lambda x: x * 2, (array(3),)),
    "named tuple": (lambda p: Pair(p.second, {"a": p.first}), (Pair(array(2), array(3)),)),
    "dataclass": (
        lambda layer: Layer(layer.w.T, layer.b * 2, layer.activation),
        (STACK.layers[0],),
    ),
    "class": (mlp, (STACK, array(5, 3))),
    "ordered": (lambda d: OrderedDict(z=d["b"], a=d["a"]), (OrderedDict(b=array(2), a=array(3)),)),
    "none": (lambda x, y: (x, None, [y]), (array(2), None)),
    "empty": (lambda x: (), (array(2),)),
    "constant": (lambda x: (x, 3, True, np.arange(3)), (array(2),)),
    "same twice": (lambda x: (x, x), (array(2),)),
    "rank 0": (jnp.sin, (np.float32(2.0),)),
    "extent 0": (lambda x: jnp.sum(x, 0), (array(0, 3),)),
    "extent 1": (lambda x: x / x, (array(1),)),
    "special values": (
        lambda x: (1 / x, jnp.maximum(x, 0)),
        (np.array([-0.0, np.inf, -np.inf, np.nan], "float32"),),
    ),
    "bool": (lambda x: ~x, (np.array([True, False]),)),
    "int": (lambda x: x // 2 + x % 3, (np.arange(-5, 5, dtype="int32"),)),
    "bfloat16": (lambda x: x * 3, (jnp.arange(4, dtype="bfloat16"),)),
    "complex": (lambda z: z * z.conj(), (np.array([1 + 2j, 3j], "complex64"),)),
}


@pytest.mark.parametrize("name", TREES)
def test_results_are_those_of_jit(name: str) -> None:
    f, arguments = TREES[name]
    function = native(f)
    for _ in range(3):
        alike(function(*arguments), jax.jit(f)(*arguments))
    assert function.cache_stats().misses == 1


@pytest.mark.parametrize("name", TREES)
def test_arrays_of_jax_are_taken_and_given(name: str) -> None:
    f, arguments = TREES[name]
    arguments = jax.tree.map(jnp.asarray, arguments)
    function = native(f, results="jax")
    for _ in range(2):
        results = function(*arguments)
        alike(results, jax.jit(f)(*arguments))
        assert all(isinstance(y, jax.Array) for y in jax.tree.leaves(results))


@pytest.mark.parametrize("x", [2, 2.5, True, 2j, np.float32(2), np.int8(3), np.float64(1.5)])
@pytest.mark.parametrize("y", [array(2), np.ones(2, "float16"), np.ones(2, "int8"), 3, 1.5])
def test_dtypes_are_promoted_as_in_jit(x: Any, y: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y, x + 1, y + 0.5

    function = native(f)
    for _ in range(2):
        alike(function(x, y), jax.jit(f)(x, y), rtol=1e-2)


def test_a_weak_array_of_jax_stays_weak() -> None:
    x = jnp.asarray(2.0)
    assert x.weak_type
    alike(native(lambda x, y: x * y)(x, np.ones(2, "float16")), np.full(2, 2, "float16"))


@pytest.mark.parametrize("is_wide", [False, True])
def test_64_bits_are_as_jax_has_set_them(is_wide: bool) -> None:
    def f(x: Any, n: Any) -> Any:
        return x / 3, n * 2, 1.0

    function = native(f)
    arguments = array(2, dtype="float64"), np.arange(3)
    with jax.enable_x64(is_wide):
        for _ in range(2):
            alike(function(*arguments), jax.jit(f)(*arguments))
    with jax.enable_x64(not is_wide):  # the function must be traced again, with other dtypes
        assert function(*arguments)[0].dtype == ("float32" if is_wide else "float64")


def test_keyword_and_static_arguments() -> None:
    def f(x: Any, n: int, *, how: str = "sum", scale: Any = 1.0) -> Any:
        return getattr(jnp, how)(x) * n * scale

    function = native(f, static_argnums=1, static_argnames="how")
    expected = jax.jit(f, static_argnums=1, static_argnames="how")
    x = array(3)
    for _ in range(2):
        alike(function(x, 2), expected(x, 2))
        alike(function(x, 3, how="max", scale=2.0), expected(x, 3, how="max", scale=2.0))
        alike(function(x, n=3), expected(x, n=3))
    assert function.cache_stats().misses == 3
    with pytest.raises(
        InvalidConfigError, match=r"native: the static argument n of .* has no hash"
    ):
        function(x, [1])


def test_what_is_no_array_is_named() -> None:
    with pytest.raises(DTypeError, match=r"native: how of .* is 'sum', .*static_argnames='how'"):
        native(lambda x, how: x)(array(2), "sum")
    with pytest.raises(DTypeError, match=r"x\['a'\]"):
        native(lambda x: x)({"a": object()})


def test_a_mask_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"native: x of .* is a masked array, .* x\.filled"):
        native(lambda x: x)(np.ma.array([1.0, 2.0], mask=[True, False]))


@pytest.mark.parametrize("number", [IntEnum("Order", "first")["first"], type("Real", (float,), {})(3)])  # fmt: skip
def test_subclasses_of_numbers_are_weak(number: Any) -> None:
    f, x = (lambda n, x: n * x), jnp.ones(2, "bfloat16")
    alike(native(f)(number, x), jax.jit(f)(number, x))


def test_python_numbers_under_grad() -> None:
    alike(jax.grad(native(lambda x, n: (x * n).sum()))(X, 3), np.full_like(X, 3))
    value = jax.grad(native(lambda x, n: (x * n).sum()), allow_int=True, argnums=(0, 1))(X, 3)
    alike(value[0], np.full_like(X, 3))


@pytest.mark.parametrize(
    "options", [{"results": "torch"}, {"static_argnums": 7}, {"donate_argnames": "y"}]
)
def test_options_that_mean_nothing(options: Any) -> None:
    with pytest.raises(InvalidConfigError):
        native(lambda x: x, **options)


def test_donated_arrays_are_deleted() -> None:
    @partial(native, donate_argnums=0, donate_argnames="extra")
    def step(state: Any, x: Any, extra: Any = 0.0) -> Any:
        return jax.tree.map(lambda s: s + x + extra, state)

    x = jnp.ones(())
    state: dict[str, Any] = {"a": jnp.ones(2), "b": np.ones(3, "float32")}
    alike(step(state, x), {"a": np.full(2, 2, "float32"), "b": np.full(3, 2, "float32")})
    assert state["a"].is_deleted()
    assert state["b"].sum() == 3
    assert not x.is_deleted()
    extra = jnp.ones(())
    step({"a": jnp.ones(2)}, x, extra=extra)
    assert extra.is_deleted()


def test_new_shapes_are_new_programs_in_a_bounded_cache() -> None:
    function = native(lambda x: x + 1, cache_size=2)
    for n in (1, 2, 3, 3, 1):
        alike(function(array(n)), array(n) + 1)
    stats = function.cache_stats()
    assert (stats.misses, stats.hits, stats.evictions, stats.entries) == (4, 1, 2, 2)
    function.cache_clear()
    assert function.cache_stats().entries == 0
    alike(function(array(3)), array(3) + 1)


def test_symbols_are_one_program() -> None:
    spec = tnf.TensorSpec(("rows", 3), "float32")
    function = native(lambda x: {"mean": jnp.mean(x, 0)}, specs=[spec])
    for n in (1, 4, 7, 4):
        alike(function(array(n, 3)), {"mean": array(n, 3).mean(0)})
    assert function.cache_stats().misses == 1
    with pytest.raises(DTypeError, match="x is int32, and its spec"):
        function(np.ones((2, 3), "int32"))
    with pytest.raises(InvalidConfigError, match="specs of"):
        function([array(2, 3)])


def test_random_keys_are_arguments_and_results() -> None:
    def f(key: Any) -> Any:
        return jax.random.split(key), jax.random.uniform(key, (3,))

    key = jax.random.key(3)
    keys, numbers = native(f)(key)
    expected_keys, expected = jax.jit(f)(key)
    alike(numbers, expected)
    assert keys.dtype == expected_keys.dtype
    alike(jax.random.key_data(keys), jax.random.key_data(expected_keys))


def test_steps_of_optax_with_its_state() -> None:
    optimizer: Any = optax.adamw(optax.cosine_decay_schedule(1e-2, 10))

    def step(params: Any, state: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda p: jnp.mean(mlp(p, x) ** 2))(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    mine = theirs = (STACK, optimizer.init(STACK))
    function, expected = native(step), jax.jit(step)
    for _ in range(3):
        mine, theirs = function(*mine, array(5, 3)), expected(*theirs, array(5, 3))
        alike(mine, theirs, rtol=1e-4)
        mine, theirs = mine[:2], theirs[:2]
    assert function.cache_stats().entries <= 2


# ---- under JAX's transformations ---------------------------------------------------------------


def loss(stack: Stack, x: Any) -> Any:
    return jnp.mean(mlp(stack, x) ** 2)


X = array(5, 3)
TRANSFORMED = {
    "grad": lambda f: jax.grad(f)(STACK, X),
    "value_and_grad": lambda f: jax.value_and_grad(f, (0, 1))(STACK, X),
    "jvp": lambda f: jax.jvp(f, (STACK, X), (STACK, X)),
    "vjp": lambda f: jax.vjp(f, STACK, X)[1](jnp.float32(2)),
    "hessian": lambda f: jax.hessian(f, 1)(STACK, X),
    "jacfwd of jacrev": lambda f: jax.jacfwd(jax.jacrev(f, 1), 1)(STACK, X),
    "third": lambda f: jax.grad(lambda x: jax.hessian(f, 1)(STACK, x).sum())(X),
    "vmap": lambda f: jax.vmap(f, (None, 0))(STACK, array(4, 5, 3)),
    "vmap along another axis": lambda f: jax.vmap(f, (None, 1))(STACK, array(5, 4, 3)),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f), (None, 0))(STACK, array(4, 5, 3)),
    "grad of vmap": lambda f: jax.grad(
        lambda s: jax.vmap(f, (None, 0))(s, array(4, 5, 3)).sum()
    )(STACK),
    "jit": lambda f: jax.jit(f)(STACK, X),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(STACK, X),
    "jit with work around": lambda f: jax.jit(lambda x: 2 * f(STACK, jnp.sin(x)))(X),
    "scan": lambda f: jax.lax.scan(lambda c, x: (c + f(STACK, x), c), 0.0, array(3, 5, 3)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(STACK, X),
    "cond": lambda f: jax.jit(lambda x: jax.lax.cond(x[0, 0] > 0, f, loss, STACK, x))(X),
    "eval_shape": lambda f: jax.eval_shape(f, STACK, X),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_are_jax_s(name: str) -> None:
    transformed = TRANSFORMED[name]
    if name == "eval_shape":
        assert transformed(native(loss)) == transformed(loss)
        return
    alike(transformed(native(loss)), transformed(loss), rtol=1e-3)


CLOSURES = {
    "jit": lambda call: jax.jit(lambda x: call(lambda y: y * x)(x + 1))(X),
    "jit of an integer": lambda call: jax.jit(lambda n: call(lambda y: y * n)(2.0))(np.int32(3)),
    "jit of a key": lambda call: jax.jit(
        lambda k: call(lambda y: jax.random.normal(k, (2,)) * y)(2.0)
    )(jax.random.key(0)),
    "vmap of grad": lambda call: jax.vmap(jax.grad(lambda x: call(lambda y: y * x**3)(2.0)))(X[0]),
    "hessian": lambda call: jax.hessian(lambda x: call(lambda: (x**3).sum())())(X[0]),
    "scan": lambda call: jax.lax.scan(lambda c, x: (call(lambda y: y + c)(x), c), 0.0, X[0]),
    "native": lambda call: call(lambda x: call(lambda y: y * x)(x + 1))(X),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_over_tracers(name: str) -> None:
    alike(CLOSURES[name](native), CLOSURES[name](jax.jit), rtol=1e-5)


def test_a_tracer_that_has_escaped() -> None:
    escaped: list[Any] = []
    jax.jit(lambda x: escaped.append(x) or x)(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        native(lambda x: x + escaped[0])(X)


def test_gradients_under_jit_run_natively() -> None:
    function = native(lambda x: jnp.sum(x**3))
    gradient = jax.jit(jax.grad(function))
    alike(gradient(np.ones(2, "float32")), np.full(2, 3, "float32"))
    assert function.report().derived.entries == 2  # the program of the tangent, and its transpose
    text = gradient.lower(np.ones(2, "float32")).as_text()
    assert "callback" in text
    assert "multiply" not in text


def test_large_arrays_pass_a_callback() -> None:
    x = np.ones((1024, 1024), "float32")
    alike(jax.jit(native(lambda x: x + 1))(x), x + 1)


def test_integers_have_no_tangent() -> None:
    def f(x: Any, n: Any) -> Any:
        return {"y": x * n, "n": n + 1}

    def value(x: Any, f: Any) -> Any:
        return f(x, np.int32(3))["y"]

    alike(jax.grad(value)(2.0, native(f)), np.float32(3))
    result, dots = jax.jvp(lambda x: native(f)(x, np.int32(3)), (2.0,), (1.0,))
    assert int(result["n"]) == 4
    assert dots["n"].dtype == jax.dtypes.float0
    assert float(dots["y"]) == 3


def test_complex_derivatives_are_in_jax_s_convention() -> None:
    z = np.array([1 + 2j, -0.5 + 0.3j], "complex64")

    def f(z: Any) -> Any:
        return jnp.sum(jnp.abs(z) ** 2 + jnp.real(z * z))

    alike(jax.grad(native(f))(z), jax.grad(f)(z))
    alike(native(jax.grad(f))(z), jax.grad(f)(z))


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), None), lambda _, bar: (jnp.clip(bar, -1, 1),))


def test_rules_that_jax_states_hold() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(5 * clipped(x) + jax.lax.stop_gradient(x) * x)

    x = array(3)
    expected = jax.grad(f)(x)
    np.testing.assert_allclose(expected, 1 + x, rtol=1e-6)
    alike(native(jax.grad(f))(x), expected)
    alike(jax.grad(native(f))(x), expected)
    alike(jax.jit(jax.grad(native(f)))(x), expected)
    alike(jax.vmap(jax.grad(native(f)))(x[:, None]), expected[:, None])


# ---- what its report shows ----------------------------------------------------------------------


def test_programs_are_shown() -> None:
    function = native(loss)
    assert repr(function) == "<native of loss: 0 programs>"
    function(STACK, X)
    assert repr(function) == "<native of loss: 1 program>"
    report = function.report()
    assert report.programs[0][0] == "f32[3,4], f32[4], f32[4,2], f32[2], f32[5,3]"
    assert "1 traced" in str(report)
    assert function.lower(STACK, x=X).input_names[-1] == "x"


def test_a_lowered_program_has_the_trees() -> None:
    program = native(loss).lower(STACK, tnf.TensorSpec((5, 3), "float32"))
    alike(program.run(STACK, X), jax.jit(loss)(STACK, X))
    assert program.name == "loss"
    assert native(lambda x, *, y: x + y).lower(1.0, y=2.0).input_names == ("x", "y")


def test_a_program_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="a program runs natively already"):
        native(tnf.compile(lambda x: x, 1.0))


def test_methods_are_bound() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @partial(native, static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return self.scale * x

    alike(Model(2.0)(array(2)), 2 * array(2))
    assert Model(2.0).__call__.eval_shape(array(2)).shape == (2,)


def test_pickled_by_name_or_recipe() -> None:
    again = pickle.loads(pickle.dumps(native(loss, results="jax")))
    assert isinstance(again(STACK, X), jax.Array)


def test_a_jitted_function_and_partials_are_taken() -> None:
    alike(native(jax.jit(loss))(STACK, X), loss(STACK, X))
    alike(native(partial(loss, STACK))(X), loss(STACK, X))


def test_called_in_a_trace_of_tenferro() -> None:
    f = native(lambda x: jnp.sum(jnp.sin(x) * x))
    x = array(3)
    alike(tnf.jit(lambda x: f(x) + 1)(x), jnp.sum(jnp.sin(x) * x) + 1)
    alike(tnf.grad(f)(x), np.sin(x) + x * np.cos(x))


FORKED = """
import os
import numpy as np
import jax.numpy as jnp
from jax._src import xla_bridge
from xla_peer import native

f = native(lambda x: jnp.sum(x * 2))
assert not xla_bridge.backends_are_initialized()
f(np.ones(3, "float32"))
child = os.fork()
if child == 0:
    assert f(np.ones(3, "float32")) == 6
    try:
        f(np.ones(4, "float32"))
    except Exception as error:
        assert type(error).__name__ == "PlatformUnavailableError", error
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_runs_what_was_traced_and_refuses_to_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "7\n", done.stderr


def test_threads_trace_once() -> None:
    function = native(lambda x: jnp.sum(jnp.sin(x)))
    sizes = [1 + i % 4 for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: float(function(np.ones(n, "float32"))), sizes))
    np.testing.assert_allclose(results, np.sin(1) * np.array(sizes), rtol=1e-6)
    assert function.cache_stats().misses == 4


def test_machine_code_is_kept_in_a_folder(tmp_path: Any) -> None:
    function = native(loss, cache_dir=tmp_path)
    alike(function(STACK, X), loss(STACK, X))
    assert any(tmp_path.iterdir())


def doubled(x: Any, calls: list[float]) -> Any:
    """Return 2 x.

    A callback computes it, and appends x to `calls`.
    """

    def call(x: Any) -> Any:
        calls.append(float(x))
        return np.float32(2) * x

    return jax.pure_callback(call, jax.ShapeDtypeStruct((), np.float32), x)


def test_callbacks_run_where_the_program_reaches_them() -> None:
    calls: list[float] = []

    @native
    def function(x: Any) -> Any:
        def step(carry: Any, t: Any) -> Any:
            carry = jax.lax.cond(t > 1, lambda: doubled(carry, calls), lambda: carry + 1)
            return carry, carry

        return jax.lax.scan(step, x, jnp.arange(4))[1]

    for _ in range(2):
        calls.clear()
        np.testing.assert_array_equal(function(np.float32(1)), [2, 3, 6, 12])
        assert calls == [3, 6]


def test_effects_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[float] = []

    def noted(x: Any) -> Any:
        calls.append(float(x))
        return np.float32(len(calls))

    @native
    def function(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            jax.lax.cond(carry > 1, lambda: jax.debug.print("at {}", carry), lambda: None)
            result = jax.ShapeDtypeStruct((), np.float32)
            count = io_callback(noted, result, carry, ordered=True)
            io_callback(lambda x: calls.append(-float(x)), None, carry, ordered=True)
            return carry + 1, count

        jax.debug.print("begin")
        return jax.lax.scan(step, x, None, length=3)

    total, counts = function(np.float32(0))
    assert total == 3
    np.testing.assert_array_equal(counts, [1, 3, 5])
    assert calls == [0, -0.0, 1, -1, 2, -2]
    assert capsys.readouterr().out == "begin\nat 2.0\n"


def test_a_callback_that_raises() -> None:
    """A callback's exception must be raised only if the branch with the callback runs.

    equinox writes runtime checks as such callbacks.
    """

    def refuse(x: Any) -> Any:
        raise ValueError(f"{x} is negative")

    @native
    def root(x: Any) -> Any:
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        checked = jax.lax.cond(
            jnp.any(x < 0), lambda: jax.pure_callback(refuse, result, x), lambda: x
        )
        return jnp.sqrt(checked)

    assert root(np.float32(4)) == 2
    with pytest.raises(BackendFailureError, match=r"-4\.0 is negative") as caught:
        root(np.float32(-4))
    assert isinstance(caught.value.__cause__, ValueError)
    assert root(np.float32(9)) == 3


def test_callbacks_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x + 1

    def double(x: Any) -> Any:
        return doubled(x, [])

    program = xla_peer.from_jax(printed, np.float32(1))
    assert tnf.grad(program.run)(np.float32(3)) == 1
    np.testing.assert_array_equal(tnf.vmap(program.run)(np.array([1, 2], "f4")), [2, 3])
    with pytest.raises(UnsupportedError, match="no lowering registered"):
        lower_to_stablehlo(program)
    assert float(program.without_effects().run(np.float32(1))) == 2
    assert capsys.readouterr().out.splitlines() == ["3.0", "1.0", "2.0"]
    program = xla_peer.from_jax(double, np.float32(1))
    with pytest.raises(ADRuleUnsupportedError, match="derivative of a Python function"):
        tnf.grad(program.run)(np.float32(3))
    assert program.origin is None
    report = xla_peer.check_parity(double, np.float32(3), against=jax.jit(double), isolated=False)
    assert report.ok
    text = jax.jit(double).lower(np.float32(1)).as_text()
    with pytest.raises(UnsupportedError, match=r"a module does not have the functions; from_jax"):
        import_stablehlo(text, trusted=True)


def test_entries_of_a_foreign_call_are_keywords() -> None:
    register_custom_call("tests.scaled", lambda x, factor: x * np.float32(factor), replace=True)

    def scaled(x: Any) -> Any:
        call = jax.ffi.ffi_call("tests.scaled", jax.ShapeDtypeStruct(x.shape, x.dtype))
        return call(x, factor=np.float32(3))

    np.testing.assert_array_equal(native(scaled)(array(2)), 3 * array(2))


def test_a_leaf_that_is_no_array_is_named_with_what_to_do() -> None:
    with pytest.raises(
        DTypeError, match=r"static_argnames='m'\); as for jax\.jit.*equinox\.partition\(m, "
    ):
        native(lambda m, x: m["f"](x))({"f": jnp.sin}, array(3))
    with pytest.raises(DTypeError, match=r"static_argnames='f'\)$"):
        native(lambda f, x: f(x))(jnp.sin, array(3))
