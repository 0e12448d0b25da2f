"""Options, attributes and errors of `jax.jit` that its users expect from `native`."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError, UnsupportedError
from xla_peer import native

X = np.array([1.0, 2.0, 3.0], "float32")


# ---- options and attributes --------------------------------------------------------------------


def test_options_without_effect_are_accepted() -> None:
    function: Any = native
    f = function(lambda x: x * 2, inline=True, keep_unused=True, device=None, compiler_options={})
    np.testing.assert_array_equal(f(X), 2 * X)


def test_options_of_xla_are_refused() -> None:
    function: Any = native
    with pytest.raises(InvalidConfigError, match=r"backend is an option of XLA.*jax\.jit"):
        function(jnp.sin, backend="cpu")
    with pytest.raises(TypeError, match="unexpected keyword argument 'fast'"):
        function(jnp.sin, fast=True)


def test_every_option_of_jit_is_known() -> None:
    function: Any = native
    for name in list(inspect.signature(jax.jit).parameters)[1:]:
        if not name.startswith(("static", "donate")):
            assert function(jnp.sin, **{name: None})(np.float32(0)) == 0


@pytest.mark.parametrize("positions", [{1}, (1,), range(1, 2), np.array([1])])
def test_positions_are_any_integers(positions: Any) -> None:
    for decorate in (native, jax.jit):
        np.testing.assert_array_equal(
            decorate(lambda x, n: x[:n], static_argnums=positions)(X, 2), X[:2]
        )


def test_no_positions_may_be_none() -> None:
    f = native(
        jnp.sin,
        static_argnums=None,
        static_argnames=None,
        donate_argnums=None,
        donate_argnames=None,
    )
    np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)


def test_wrong_donations_are_named() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(InvalidConfigError, match="donate_argnums has 3, and f takes 2 arguments"):
        native(f, donate_argnums=3)
    with pytest.raises(InvalidConfigError, match="donate_argnames has 'z'"):
        native(f, donate_argnames="z")
    with pytest.raises(InvalidConfigError, match=r"the parameter y of .*f is static and donated"):
        native(f, static_argnums=1, donate_argnames="y")


def test_shapes_are_evaluated() -> None:
    def f(x: Any, n: int, *, y: Any) -> Any:
        return {"a": jnp.zeros((n, *x.shape)) + y}

    function = native(f, static_argnames="n")
    types = jax.ShapeDtypeStruct((3,), "float16")
    expected = jax.jit(f, static_argnames="n").eval_shape(types, 2, y=1.0)
    assert function.eval_shape(types, 2, y=1.0) == expected
    assert function.cache_stats().misses == 0


@pytest.mark.parametrize(
    ("name", "advice"), [("trace", "jax.make_jaxpr"), ("clear_cache", "cache_clear")]
)
def test_attributes_of_jit_are_named(name: str, advice: str) -> None:
    function = native(jnp.sin)
    assert not hasattr(function, name)
    with pytest.raises(AttributeError, match=advice):
        getattr(function, name)


@pytest.mark.parametrize("name", ["compile", "as_text", "cost_analysis", "out_info"])
def test_attributes_of_what_jit_lowers_to_are_named(name: str) -> None:
    assert hasattr(jax.jit(jnp.sin).lower(X), name)
    with pytest.raises(AttributeError, match=f"programs have no {name}: "):
        getattr(native(jnp.sin).lower(X), name)


# ---- semantics ---------------------------------------------------------------------------------

WEAK = {
    "scalar": (lambda x: x * 2, (3.0,)),
    "array": (lambda x: jnp.full((3,), x), (3.0,)),
    "integer": (lambda n: (n + 1, n * 1.5), (3,)),
    "constants": (lambda x: (1, 2.0, True, x), (X,)),
    "promoted": (lambda x, y: (x * y, x), (X, 2.0)),
}


@pytest.mark.parametrize("name", WEAK)
def test_results_are_weakly_typed_as_in_jit(name: str) -> None:
    f, arguments = WEAK[name]
    function = native(f, results="jax")
    for _ in range(2):
        actual = jax.tree.map(lambda y: (y.dtype, y.weak_type), function(*arguments))
        assert actual == jax.tree.map(lambda y: (y.dtype, y.weak_type), jax.jit(f)(*arguments))


def test_derivatives_are_weakly_typed_as_in_jit() -> None:
    def f(x: Any) -> Any:
        return x * x

    assert jax.grad(native(f))(2.0).weak_type == jax.grad(jax.jit(f))(2.0).weak_type
    assert jax.jvp(native(f), (2.0,), (1.0,))[0].weak_type


@pytest.mark.parametrize("order", [lambda f: f, lambda f: jax.grad(lambda x: f(x)[0] + f(x)[1])])
def test_weakly_typed_slices_are_promoted_as_in_jit(order: Any) -> None:
    def f(x: Any) -> Any:
        return x * 2, x * jnp.bfloat16(1.5)

    weak = jnp.stack([jnp.asarray(1.0), jnp.asarray(2.0)])
    assert weak.weak_type
    actual, expected = (jax.vmap(order(g(f)))(weak) for g in (native, jax.jit))
    for y, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (y.dtype, y.weak_type) == (e.dtype, e.weak_type)
        np.testing.assert_array_equal(y, e)


def test_nothing_is_traced_where_jit_is_disabled() -> None:
    seen: list[Any] = []

    @native
    def f(x: Any) -> Any:
        seen.append(x)
        return {"y": jnp.sum(x), "n": 1.0}

    expected = f(X)
    with jax.disable_jit():
        result = f(X)
    assert isinstance(seen[-1], np.ndarray)
    assert {key: (type(y), y.dtype) for key, y in result.items()} == {
        key: (type(y), y.dtype) for key, y in expected.items()
    }
    with jax.disable_jit():
        assert float(jax.grad(lambda x: f(x)["y"])(X)[0]) == 1
        assert isinstance(native(jnp.sin, results="jax")(X), jax.Array)


def test_results_without_slices_stay_unbatched() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"product": x * y, "double": 2 * y, "count": 3}

    axes = {"product": 0, "double": None, "count": None}
    actual, expected = (jax.vmap(g(f), (0, None), axes)(X, 2.0) for g in (native, jax.jit))
    assert jax.tree.map(np.shape, actual) == {"product": (3,), "double": (), "count": ()}
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


COUNTS = np.arange(3, dtype="int32")
NO_TANGENT = np.zeros(3, jax.dtypes.float0)


def step(p: Any, bar: Any) -> Any:
    return jax.tree.map(lambda x, g: x if g.dtype == jax.dtypes.float0 else x - g, p, bar)


FLOAT0 = {
    "gradient": (jax.grad(lambda x, n: jnp.sum(x * n), argnums=(0, 1), allow_int=True), (X, COUNTS)),
    "tangent": (lambda x, n: jax.jvp(lambda a, b: (a * b, b), (x, n), (x, NO_TANGENT)), (X, COUNTS)),
    "arguments": (step, ({"a": X, "n": COUNTS}, {"a": X, "n": NO_TANGENT})),
    "both": (lambda t, x: (t, x.sum(), t.reshape(1, 3)), (NO_TANGENT, X)),
}  # fmt: skip


@pytest.mark.parametrize("results", ["numpy", "jax"])
@pytest.mark.parametrize("name", FLOAT0)
def test_tangents_of_integers_have_float0(name: str, results: Any) -> None:
    f, arguments = FLOAT0[name]
    function = native(f, results=results)
    types = jax.tree.map(lambda y: (y.dtype, y.shape), jax.jit(f)(*arguments))
    for call in (function, function, jax.jit(function)):
        assert jax.tree.map(lambda y: (y.dtype, y.shape), call(*arguments)) == types
    with jax.disable_jit():
        assert jax.tree.map(lambda y: (y.dtype, y.shape), function(*arguments)) == types


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_a_lowered_program_takes_the_data_of_keys(impl: str) -> None:
    def f(key: Any) -> Any:
        return jnp.ones(key.shape), {"keys": jax.random.split(key, 3).at[0].set(key)}

    key = jax.random.key(3, impl=impl)
    actual, expected = native(f).lower(key)(jax.random.key_data(key)), f(key)
    assert actual[0].shape == expected[0].shape
    np.testing.assert_array_equal(actual[1]["keys"], jax.random.key_data(expected[1]["keys"]))


ROWS = tnf.TensorSpec(("rows",), "float32")
INSIDE = {
    "jit": lambda f: jax.jit(f)(X),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(X),
    "vmap": lambda f: jax.vmap(f)(np.stack([X, X])),
}


@pytest.mark.parametrize("name", INSIDE)
def test_functions_with_symbols_are_transformed(name: str) -> None:
    def f(x: Any) -> Any:
        return jnp.cumsum(x * x)

    np.testing.assert_allclose(INSIDE[name](native(f, specs=[ROWS])), INSIDE[name](f), rtol=1e-6)


def test_specs_are_checked_inside_transformations() -> None:
    function = native(jnp.sin, specs=[ROWS])
    with pytest.raises(DTypeError, match="int32, and its spec"):
        jax.jit(function)(np.ones(3, "int32"))
    function = native(jnp.sin, specs=[tnf.TensorSpec(("rows", 3), "float32")])
    for shape in ((2, 4), (3,)):
        for call in (function, jax.jit(function)):
            with pytest.raises(
                ShapeError, match=r"x has shape \(.*, and its spec is f32\[rows,3\]"
            ):
                call(np.ones(shape, "float32"))


# ---- errors ------------------------------------------------------------------------------------


def test_a_captured_tracer_is_named() -> None:
    def outer(scale: Any) -> Any:
        return native(lambda x: x * scale, specs=[ROWS])(X)

    with pytest.raises(UnsupportedError, match=r"captures float32\[\].*as an argument"):
        jax.jit(outer)(np.float32(2))
    with pytest.raises(UnsupportedError, match=r"captures float32\[\]"):
        jax.jit(lambda s: xla_peer.from_jax(lambda x: x * s, X) and s)(np.float32(2))


def test_an_outer_axis_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"axis 'i' of an outer.*axis_name='i'"):
        jax.vmap(native(lambda x: x - jax.lax.pmean(x, "i")), axis_name="i")(X)
    whole = native(jax.vmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i"))
    np.testing.assert_allclose(whole(X), [-1, 0, 1])


def branch(params: Any, x: Any) -> Any:
    return x if params["w"][0] > 0 else -x


def test_errors_of_tracing_name_the_function_and_the_argument() -> None:
    line = inspect.getsourcelines(branch)[1]
    message = rf"branch at .*{__name__.rpartition('.')[2]}\.py:{line} (.|\n)*argument params_w\."
    with pytest.raises(jax.errors.TracerBoolConversionError, match=message):
        native(branch)({"w": X}, X)
    with pytest.raises(jax.errors.TracerArrayConversionError, match="argument y"):
        native(lambda x, *, y: np.sin(y))(X, y=X)
    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"argument arguments\[0\]"):
        native(lambda d: 1 if d["a b"] > 0 else 2)({"a_b": 1.0, "a b": 2.0})


def test_a_mistake_in_a_native_function_gets_no_advice_to_make_it_native() -> None:
    for function in (native(lambda x, y: x + y), lambda *xs: xla_peer.from_jax(jnp.add, *xs)):
        with pytest.raises(TypeError, match="incompatible shapes") as caught:
            function(X, X[:2])
        assert not any("native" in note for note in getattr(caught.value, "__notes__", ()))


def test_a_result_that_is_no_array_is_named() -> None:
    with pytest.raises(DTypeError, match=r"returns 'hello' at \['a'\]\[0\], which is not an array"):
        native(lambda x: {"a": ("hello", x)})(X)


@pytest.mark.parametrize(
    "x", [np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "datetime64[D]")]
)
def test_an_argument_of_another_dtype_is_named(x: Any) -> None:
    with pytest.raises(DTypeError, match=rf"p\['k'\] of .* whose dtype {x.dtype} JAX lacks".replace("[D]", r"\[D\]")):  # fmt: skip
        native(lambda p: p)({"k": x})
