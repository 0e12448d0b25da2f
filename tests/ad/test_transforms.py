"""Transforms such as grad, jvp and vjp: the structure of their results, nested transforms, traces, and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.ext.linalg import families

F8 = "float64"
X = np.array([0.5, -1.25, 2.0])


def test_pytrees_argnums_and_aux() -> None:
    params = {"w": np.array([1.0, 2.0]), "b": (np.array(3.0), None)}

    def loss(p: Any, x: Any) -> Any:
        y = tnf.sum(p["w"] * x) + p["b"][0]
        return y * y, {"y": y, "note": "kept", "x": x}

    (value, aux), (p_bar, x_bar) = tnf.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
        params, np.array([1.0, 1.0])
    )
    assert value == 36.0
    assert aux["note"] == "kept"
    assert aux["y"] == 6.0
    np.testing.assert_array_equal(p_bar["w"], [12.0, 12.0])
    assert p_bar["b"] == (12.0, None)
    np.testing.assert_array_equal(x_bar, [12.0, 24.0])
    grads, aux = tnf.grad(loss, has_aux=True)(params, np.ones(2))
    assert grads["b"][0] == 12.0
    assert aux["y"] == 6.0
    assert tnf.grad(lambda x, y: x * y, argnums=-1)(2.0, 3.0) == 2.0
    assert tnf.grad(lambda x, y: x * y, argnums=[0])(2.0, 3.0) == (3.0,)


def test_other_arguments_stay_what_they_are() -> None:
    def power(x: Any, n: int, *, scale: float) -> Any:
        for _ in range(n - 1):
            x = x * x
        return scale * x

    assert tnf.grad(power)(3.0, 2, scale=0.5) == 3.0


def test_unreachable_arguments_get_zeros_of_their_type() -> None:
    x, y = np.ones((2, 3), "f4"), np.ones(4, "c16")
    x_bar, y_bar = tnf.grad(lambda x, y: tnf.sum(x), argnums=(0, 1))(x, y)
    assert (y_bar.shape, y_bar.dtype) == ((4,), np.complex128)
    assert not y_bar.any()
    assert x_bar.dtype == np.float32
    assert tnf.grad(lambda x: 3.0)(1.0) == 0.0
    y, y_dot = tnf.jvp(lambda x: np.ones(2), (1.0,), (1.0,))
    np.testing.assert_array_equal(y_dot, [0.0, 0.0])


def test_nothing_is_confused_with_an_outer_derivative() -> None:
    # d/dx (x * d/dy (x + y)) is 1. A system that confuses the outer tangent of x with a tangent of y would return 2.
    assert tnf.grad(lambda x: x * tnf.grad(lambda y: x + y)(1.0))(1.0) == 1.0

    # The inner derivative is with respect to z alone. `seen` must be a constant in it, although z and `seen` both
    # depend on x.
    def outer(x: Any) -> Any:
        seen = tnf.sin(x)
        return tnf.grad(lambda z: z * seen)(x)

    assert tnf.grad(outer)(0.3) == pytest.approx(np.cos(0.3))
    product = tnf.jvp(lambda x: x * tnf.jvp(lambda y: x * y, (3.0,), (1.0,))[1], (2.0,), (1.0,))
    assert product == (4.0, 4.0)


def test_derivatives_of_any_order_in_any_nesting() -> None:
    def d(fn: Any, mode: str) -> Any:
        if mode == "rev":
            return tnf.grad(fn)
        return lambda x: tnf.jvp(fn, (x,), (1.0,))[1]

    for modes in (
        ("rev", "rev", "fwd"),
        ("fwd", "rev", "rev"),
        ("fwd", "fwd", "fwd"),
        ("rev",) * 3,
    ):
        # `Any`, because the loop replaces the function by its derivatives.
        fn: Any = lambda x: tnf.sin(x) * tnf.exp(x)
        for mode in modes:
            fn = d(fn, mode)
        expected = 2 * np.exp(0.4) * (np.cos(0.4) - np.sin(0.4))
        assert fn(0.4) == pytest.approx(expected, rel=1e-13)


def test_one_variable_in_two_places_and_one_value_as_two_variables() -> None:
    assert tnf.grad(lambda x: x * x * x)(2.0) == 12.0

    def twice(x: Any) -> Any:
        return tnf.jvp(lambda a, b: a * b, (x, x), (x, 1.0))[1]

    assert tnf.compile(twice, tnf.TensorSpec((), F8)).run(3.0) == 12.0
    assert tnf.grad(twice)(3.0) == 7.0


def test_inside_jit_and_compile_and_with_symbols() -> None:
    def fn(x: Any) -> Any:
        return tnf.sum(tnf.tanh(x) ** 2)

    expected = tnf.grad(fn)(X)
    np.testing.assert_allclose(tnf.jit(tnf.grad(fn))(X), expected, rtol=1e-14)
    np.testing.assert_allclose(tnf.grad(tnf.jit(fn))(X), expected, rtol=1e-14)
    program = tnf.compile(tnf.value_and_grad(fn), tnf.TensorSpec(("n",), F8))
    for n in (0, 1, 5):
        x = np.linspace(-1, 1, n)
        value, gradient = program.run(x)
        np.testing.assert_allclose(gradient, tnf.grad(fn)(x), rtol=1e-14)
        np.testing.assert_allclose(value, np.sum(np.tanh(x) ** 2), rtol=1e-14)
    symbolic = tnf.compile(
        lambda x: (tnf.jacfwd(tnf.sin)(x), tnf.jacrev(tnf.sin)(x), tnf.hessian(fn)(x)),
        tnf.TensorSpec(("n", 2), F8),
    )
    x = np.linspace(-1, 1, 6).reshape(3, 2)
    for got, want in zip(
        symbolic.run(x),
        (tnf.jacfwd(tnf.sin)(x), tnf.jacrev(tnf.sin)(x), tnf.hessian(fn)(x)),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, atol=1e-15)


def test_transforms_on_arrays_inside_a_trace_belong_to_it() -> None:
    program = tnf.compile(lambda x: tnf.grad(lambda y: tnf.sum(x * y))(np.ones(3)), X)
    np.testing.assert_array_equal(program.run(X), X)


def test_vjp_evaluates_once_and_pulls_often() -> None:
    calls = []

    def fn(x: Any, y: Any) -> Any:
        calls.append(None)
        return {"p": x * y, "s": tnf.sum(x)}

    y, pull = tnf.vjp(fn, X, 2 * X)
    assert len(calls) == 1
    for scale in (1.0, -2.0):
        x_bar, y_bar = pull({"p": scale * np.ones(3), "s": 0.0})
        np.testing.assert_array_equal(x_bar, scale * 2 * X)
        np.testing.assert_array_equal(y_bar, scale * X)
    np.testing.assert_array_equal(y["p"], 2 * X * X)
    y, push = tnf.linearize(fn, X, 2 * X)
    np.testing.assert_array_equal(push(np.ones(3), np.zeros(3))["p"], 2 * X)
    assert len(calls) == 2
    traced = tnf.compile(lambda x, w: tnf.vjp(tnf.sin, x)[1](w)[0], X, X)
    np.testing.assert_allclose(traced.run(X, X), np.cos(X) * X)
    value, pull, aux = tnf.vjp(lambda x: (x * x, {"x": x}), 3.0, has_aux=True)
    assert (value, pull(1.0), aux) == (9.0, (6.0,), {"x": 3.0})


def test_integer_results_have_no_cotangent() -> None:
    (index, y), pull = tnf.vjp(lambda x: (tnf.argmax(x), tnf.max(x)), X)
    assert index == 2
    np.testing.assert_array_equal(pull((0, 1.0))[0], [0.0, 0.0, 1.0])
    _, (index_dot, y_dot) = tnf.jvp(lambda x: (tnf.argmax(x), tnf.max(x)), (X,), (np.ones(3),))
    assert index_dot == 0
    assert y_dot == 1.0
    assert y == 2.0


def test_complex_convention() -> None:
    z = np.array([1 + 2j, -0.5j])
    np.testing.assert_allclose(tnf.grad(lambda z: tnf.sum(tnf.abs(z) ** 2))(z), 2 * z)
    y, pull = tnf.vjp(lambda z: z * z, z)
    np.testing.assert_allclose(pull(np.ones(2, complex))[0], np.conj(2 * z))
    np.testing.assert_allclose(tnf.jvp(lambda z: z * z, (z,), (np.full(2, 1j),))[1], 2j * z)
    x_bar = tnf.grad(lambda x: tnf.real(tnf.sum(x * z)))(np.ones(2))
    assert x_bar.dtype == np.float64
    np.testing.assert_allclose(x_bar, z.real)
    np.testing.assert_allclose(tnf.jacfwd(tnf.sin, holomorphic=True)(z), np.diag(np.cos(z)))
    np.testing.assert_allclose(tnf.jacrev(tnf.sin, holomorphic=True)(z), np.diag(np.cos(z)))
    np.testing.assert_allclose(
        tnf.grad(lambda z: z * z, holomorphic=True)(1 + 2j), np.conj(2 * (1 + 2j))
    )
    np.testing.assert_allclose(y, z * z)


def test_jacobians_of_trees() -> None:
    def fn(p: Any, x: Any) -> Any:
        return {"y": p["a"] * x, "z": tnf.sum(x)}

    p, x = {"a": np.array(2.0)}, np.array([1.0, 3.0])
    for jacobian in (tnf.jacfwd, tnf.jacrev):
        result = jacobian(fn, argnums=(0, 1))(p, x)
        np.testing.assert_array_equal(result["y"][0]["a"], x)
        np.testing.assert_array_equal(result["y"][1], 2 * np.eye(2))
        np.testing.assert_array_equal(result["z"][1], np.ones(2))
        assert result["z"][0]["a"] == 0.0
    blocks, aux = tnf.jacrev(lambda x: (x * x, {"x": x}), has_aux=True)(x)
    np.testing.assert_array_equal(blocks, np.diag(2 * x))
    np.testing.assert_array_equal(aux["x"], x)
    tensor = np.arange(6.0).reshape(2, 3)
    jacobian = tnf.jacfwd(lambda x: x.T * 2)(tensor)
    assert jacobian.shape == (3, 2, 2, 3)
    for i, j in np.ndindex(2, 3):
        assert jacobian[j, i, i, j] == 2.0
    assert jacobian.sum() == 12.0


def test_hessian_and_its_product_with_a_vector() -> None:
    def fn(x: Any) -> Any:
        return tnf.sum(x**3) + x[0] * x[1]

    v = np.array([1.0, 2.0, 3.0])
    full = tnf.hessian(fn)(X)
    expected = np.diag(6 * X)
    expected[0, 1] = expected[1, 0] = 1.0
    np.testing.assert_allclose(full, expected)
    np.testing.assert_allclose(tnf.hvp(fn, (X,), (v,)), expected @ v)
    a, b = tnf.hvp(lambda x, y: tnf.sum(x * y * y), (X, v), (v, X))
    np.testing.assert_allclose(a, 2 * v * X)
    np.testing.assert_allclose(b, 2 * X * X + 2 * v * v)


def test_stop_gradient() -> None:
    assert tnf.grad(lambda x: x * tnf.stop_gradient(x))(3.0) == 3.0
    assert tnf.grad(lambda x: tnf.stop_gradient({"x": x})["x"] * 2)(3.0) == 0.0
    program = tnf.compile(lambda x: tnf.stop_gradient(x) + x, tnf.TensorSpec((), F8))
    assert [i.op.name for i in program.instructions] == ["Add"]
    np.testing.assert_array_equal(tnf.stop_gradient(X), X)


# ---- custom rules of users -------------------------------------------------------------------------------


def test_custom_jvp_is_used_in_both_modes_and_at_every_order() -> None:
    @tnf.custom_jvp
    def fn(x: Any, y: Any) -> Any:
        return x * x * y

    @fn.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        return fn(x, y), 10.0 * x * y * x_dot + x * x * y_dot

    assert fn(3.0, 2.0) == 18.0
    assert tnf.jvp(fn, (3.0, 2.0), (1.0, 0.0)) == (18.0, 60.0)
    assert tnf.grad(fn, argnums=(0, 1))(3.0, 2.0) == (60.0, 9.0)
    assert tnf.grad(tnf.grad(fn))(3.0, 2.0) == 20.0
    program = tnf.compile(lambda x: tnf.grad(lambda x: fn(x, 2.0))(x), tnf.TensorSpec((), F8))
    assert program.run(3.0) == 60.0
    fn.defjvps(lambda x_dot, out, x, y: x_dot * y, None)
    assert tnf.grad(fn)(3.0, 2.0) == 2.0


def test_custom_jvp_with_arguments_that_are_no_tensors() -> None:
    import functools

    @functools.partial(tnf.custom_jvp, nondiff_argnums=(0,))
    def apply(f: Any, x: Any) -> Any:
        return f(x)

    @apply.defjvp
    def rule(f: Any, primals: Any, tangents: Any) -> Any:
        return f(primals[0]), 7.0 * tangents[0]

    assert tnf.grad(lambda x: apply(tnf.sin, x))(0.0) == 7.0


def test_custom_vjp() -> None:
    seen = []

    @tnf.custom_vjp
    def fn(p: Any, x: Any) -> Any:
        return {"y": p["a"] * x}

    def fwd(p: Any, x: Any) -> Any:
        return {"y": p["a"] * x}, (p["a"], x)

    def bwd(residuals: Any, y_bar: Any) -> Any:
        seen.append(None)
        _, x = residuals
        return {"a": 100.0 * y_bar["y"] * x}, None

    fn.defvjp(fwd, bwd)
    p_bar, x_bar = tnf.grad(lambda p, x: fn(p, x)["y"] * 2.0, argnums=(0, 1))({"a": 3.0}, 5.0)
    assert p_bar["a"] == 1000.0
    assert x_bar == 0.0
    assert fn({"a": 3.0}, 5.0) == {"y": 15.0}
    assert seen
    with pytest.raises(errors.ADRuleUnsupportedError, match="custom_jvp instead"):
        tnf.jvp(lambda x: fn({"a": x}, x)["y"], (1.0,), (1.0,))


def test_custom_vjp_of_second_order() -> None:
    @tnf.custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(lambda x: (x * x * x, x), lambda x, y_bar: (3.0 * x * x * y_bar,))
    assert tnf.grad(tnf.grad(cube))(2.0) == 12.0
    assert tnf.hessian(cube)(2.0) == 12.0


@pytest.mark.parametrize(
    ("bwd", "error", "words"),
    [
        (lambda r, y_bar: y_bar, errors.ArityError, "tuple of 1"),
        (lambda r, y_bar: (y_bar, y_bar), errors.ArityError, "of 2"),
        (lambda r, y_bar: (np.ones(2),), errors.ShapeError, r"f64\[\], got f64\[2\]"),
    ],
)
def test_a_malformed_pullback_is_named(bwd: Any, error: type, words: str) -> None:
    @tnf.custom_vjp
    def named(x: Any) -> Any:
        return x

    named.defvjp(lambda x: (x, None), bwd)
    with pytest.raises(error, match=words) as caught:
        tnf.grad(named)(1.0)
    assert "named" in str(caught.value)


BESIDE = {
    "shape": (lambda x: np.ones(2) * x, errors.ShapeError),
    "dtype": (lambda x: tnf.astype(x, "float32"), errors.ShapeError),
    "tree": (lambda x: (x, x), errors.ArityError),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_what_a_rule_gives_for_the_value_has_the_types_of_the_value(kind: str) -> None:
    change, error = BESIDE[kind]
    pushed, pulled = tnf.custom_jvp(lambda x: x * x), tnf.custom_vjp(lambda x: x * x)
    pushed.defjvp(lambda xs, dots: (change(xs[0]), dots[0]))
    pulled.defvjp(lambda x: (change(x), x), lambda x, y_bar: (y_bar * x,))
    for fn, what in ((pushed, "custom_jvp: y of the rule"), (pulled, "custom_vjp: y of fwd")):
        for call in (fn, lambda x, fn=fn: tnf.scan(lambda c, _: (fn(c), None), x, length=2)[0]):
            with pytest.raises(error, match=f"{what} of .*<lambda>"):
                tnf.grad(call)(2.0)


NOT_LINEAR = {
    "product": lambda dot: dot * dot,
    "choice": lambda dot: tnf.where(dot > 0, dot, 2 * dot),
    "reciprocal": lambda dot: 1 / dot,
    "function": tnf.exp,
    "largest": lambda dot: tnf.maximum(dot, 0.0),
    "place": lambda dot: tnf.take(tnf.stack([dot, -dot]), tnf.astype(dot > 0, "int64")),
}
ASKED = {
    "grad": lambda fn: tnf.grad(fn)(2.0),
    "vjp": lambda fn: tnf.vjp(fn, 2.0)[1](1.0),
    "hessian": lambda fn: tnf.hessian(fn)(2.0),
    "linearize": lambda fn: tnf.linearize(fn, 2.0),
    "scan": lambda fn: tnf.grad(
        lambda x: tnf.scan(lambda c, _: (fn(c), None), x, length=2)[0]
    )(2.0),
    "cond": lambda fn: tnf.grad(lambda x: tnf.cond(x > 0, fn, tnf.sin, x))(2.0),
    "vmap of grad": lambda fn: tnf.vmap(tnf.grad(fn))(np.ones(2)),
    "grad of vmap": lambda fn: tnf.grad(lambda x: tnf.sum(tnf.vmap(fn)(x)))(np.ones(2)),
    "tape": lambda fn: fn(tnf.EagerRuntime().variable(2.0)).backward(),
}  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", NOT_LINEAR)
def test_a_rule_that_is_not_linear_is_refused(kind: str, asked: str) -> None:
    @tnf.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda xs, dots: (xs[0] ** 3, NOT_LINEAR[kind](dots[0])))
    with pytest.raises(
        errors.ADRuleUnsupportedError, match=r"test_transforms.*custom_jvp of .*cube"
    ):
        ASKED[asked](cube)


@pytest.mark.parametrize("kind", ["product", "choice"])
def test_a_familys_rule_that_is_not_linear_is_refused(kind: str) -> None:
    class Wrong(tnf.ExtensionAdRule):
        family_id = families.Cholesky.family_id

        def linearize(
            self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any
        ) -> Any:
            return NOT_LINEAR[kind](tangents[0])

    context = tnf.AdContext(tnf.ExtensionRuleSet([Wrong()]))
    total = lambda a: tnf.sum(tnf.linalg.cholesky(a))
    for transform in (
        tnf.grad,
        tnf.hessian,
        lambda fn, context: lambda a: tnf.linearize(fn, a, context=context),
    ):
        with pytest.raises(errors.ADRuleUnsupportedError, match=r"test_transforms.*cholesky"):
            transform(total, context=context)(np.eye(2))


def test_the_value_is_the_functions_own() -> None:
    fn = tnf.custom_jvp(lambda x: x * x)
    fn.defjvp(lambda xs, dots: (9 * xs[0], dots[0]))
    assert tnf.jvp(fn, (2.0,), (1.0,)) == (4.0, 1.0)
    assert tnf.value_and_grad(fn)(2.0) == (4.0, 1.0)


def closing(kind: str) -> Any:
    """Return x, c -> x c^3 sin(x), whose rule for x has the wrong factor 7; c is captured."""

    def by_jvp(x: Any, c: Any) -> Any:
        inner = tnf.custom_jvp(lambda y: y * c**3 * tnf.sin(x))
        inner.defjvp(lambda primals, dots: (inner(*primals), 7.0 * dots[0] * c))
        return inner(x)

    def by_vjp(x: Any, c: Any) -> Any:
        inner = tnf.custom_vjp(lambda y: y * c**3 * tnf.sin(x))
        inner.defvjp(lambda y: (inner(y), c), lambda c, bar: (7.0 * bar * c,))
        return inner(x)

    return by_jvp if kind == "jvp" else by_vjp


def scanned(f: Any) -> Any:
    return lambda x, c: tnf.scan(lambda s, v: (s + f(v, c), None), 0.0, tnf.stack([x, x]))[0] / 2


def batched(f: Any) -> Any:
    return lambda x, c: tnf.mean(tnf.vmap(f)(tnf.stack([x, x]), tnf.stack([c, c])))


@pytest.mark.parametrize("around", [lambda f: f, tnf.checkpoint, tnf.jit, scanned, batched])
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_captured_tensors_have_the_derivative_of_the_function(kind: str, around: Any) -> None:
    f = around(closing(kind))
    # The rule gives 7 c for y, and the function itself gives y c^3 cos(x) and 3 y c^2 sin(x) for what it captures.
    x, c = 0.5, 1.5
    by_x = 7.0 * c + x * c**3 * np.cos(x)
    by_c = 3.0 * x * c**2 * np.sin(x)
    np.testing.assert_allclose(tnf.grad(f, argnums=(0, 1))(x, c), (by_x, by_c), rtol=1e-14)
    many = tnf.vmap(tnf.grad(f, argnums=(0, 1)), in_axes=(0, None))(np.array([x, x]), c)
    np.testing.assert_allclose(many, ((by_x, by_x), (by_c, by_c)), rtol=1e-14)
    second = tnf.grad(lambda c: tnf.grad(f, argnums=1)(x, c))(c)
    np.testing.assert_allclose(second, 6.0 * x * c * np.sin(x), rtol=1e-14)
    # No argument has a tangent, so that forward mode needs no pullback.
    np.testing.assert_allclose(tnf.jvp(lambda c: f(x, c), (c,), (2.0,))[1], 2 * by_c, rtol=1e-14)
    if kind == "jvp":
        np.testing.assert_allclose(tnf.jvp(f, (x, c), (1.0, 2.0))[1], by_x + 2 * by_c, rtol=1e-14)


@pytest.mark.parametrize("around", [lambda f: f, tnf.jit, scanned, batched])
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_only_the_rule_captures(kind: str, around: Any) -> None:
    def f(x: Any, c: Any) -> Any:
        scale = 2.0 * c + x
        if kind == "jvp":
            inner = tnf.custom_jvp(lambda y: y * 1.0)
            inner.defjvp(lambda primals, dots: (inner(*primals), dots[0] * (3.0 * scale)))
        else:
            inner = tnf.custom_vjp(lambda y: y * 1.0)
            inner.defvjp(lambda y: (inner(y), None), lambda _, bar: (bar * (3.0 * scale),))
        return inner(x)

    slope = tnf.grad(around(f))
    np.testing.assert_allclose(slope(0.5, 0.7), 3.0 * (2.0 * 0.7 + 0.5), rtol=1e-14)
    np.testing.assert_allclose(tnf.grad(slope, argnums=(0, 1))(0.5, 0.7), (3.0, 6.0), rtol=1e-14)


def test_a_rule_that_reads_another_trace_through_an_object_is_refused() -> None:
    def body(carry: Any, x: Any) -> Any:
        holder = SimpleNamespace(scale=2.0 * x)
        inner = tnf.custom_vjp(lambda y: y * 1.0)
        inner.defvjp(lambda y: (inner(y), None), lambda _, bar: (bar * holder.scale,))
        return carry + inner(x), None

    with pytest.raises(errors.InvalidConfigError, match="reads it through an object"):
        tnf.grad(lambda x: tnf.scan(body, 0.0, x)[0])(X)


def test_a_rule_that_is_missing_is_refused() -> None:
    with pytest.raises(errors.ADRuleUnsupportedError, match="defjvp"):
        tnf.grad(tnf.custom_jvp(lambda x: x))(1.0)


# ---- checkpoint -----------------------------------------------------------------------------------


def layer(x: Any) -> Any:
    for _ in range(4):
        x = tnf.sin(x) * 1.1
    return x


def test_checkpoint_changes_no_value_and_no_derivative() -> None:
    for order in (1, 2, 3):
        plain: Any = lambda x: tnf.sum(layer(layer(x)))
        marked: Any = lambda x: tnf.sum(tnf.checkpoint(layer)(tnf.checkpoint(layer)(x)))
        for _ in range(order - 1):
            plain, marked = (lambda x, f=f: tnf.sum(tnf.grad(f)(x) ** 2) for f in (plain, marked))
        np.testing.assert_allclose(tnf.grad(marked)(X), tnf.grad(plain)(X), rtol=1e-13)
        np.testing.assert_allclose(
            tnf.jvp(marked, (X,), (X,))[1], tnf.jvp(plain, (X,), (X,))[1], rtol=1e-13
        )


def test_checkpoint_computes_again_and_keeps_less() -> None:
    plain = tnf.compile(tnf.value_and_grad(lambda x: tnf.sum(layer(x))), X)
    marked = tnf.compile(tnf.value_and_grad(lambda x: tnf.sum(tnf.checkpoint(layer)(x))), X)
    names = [[i.op.name for i in program.instructions] for program in (plain, marked)]
    # With the checkpoint, four sines compute the value. Three of them are recomputed, because the cosines in the
    # derivative need them as arguments.
    assert [name.count("Sin") for name in names] == [4, 7]
    assert [name.count("Cos") for name in names] == [4, 4]

    barrier = names[1].index("OptimizationBarrier")
    computed, kept = set(marked.input_slots), set()
    for instruction in marked.instructions[:barrier]:
        if computed & set(instruction.inputs):
            computed |= set(instruction.outputs)
    for instruction in marked.instructions[barrier:]:
        kept |= computed & set(instruction.inputs)
    assert kept == set(marked.input_slots)
    forward = tnf.compile(lambda x: tnf.checkpoint(layer)(x), X)
    assert all(i.op.name != "OptimizationBarrier" for i in forward.instructions)


def test_checkpoint_with_closures_trees_and_nesting() -> None:
    w = np.array([1.0, 2.0, 3.0])

    def loss(w: Any, x: Any, mark: Any) -> Any:
        inner = mark(lambda p: {"y": tnf.sin(p["x"] * w)})
        outer = mark(lambda x: tnf.sum(inner({"x": x})["y"] * w))
        return outer(x)

    plain = tnf.grad(lambda w, x: loss(w, x, lambda f: f), argnums=(0, 1))(w, X)
    marked = tnf.grad(lambda w, x: loss(w, x, tnf.checkpoint), argnums=(0, 1))(w, X)
    for a, b in zip(plain, marked, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    jacobian = tnf.jacrev(lambda x: tnf.checkpoint(layer)(x))(X)
    np.testing.assert_allclose(jacobian, tnf.jacrev(layer)(X), rtol=1e-14)


# ---- caches ---------------------------------------------------------------------------------------


def test_derivative_programs_are_kept_by_structure_and_arrays_are_not() -> None:
    context = tnf.AdContext(cache_size=2)

    def fit(x: Any, data: Any) -> Any:
        return tnf.sum((x - data) ** 2)

    gradient = tnf.grad(fit, context=context)
    for seed in range(3):
        data = np.random.default_rng(seed).normal(size=3)
        np.testing.assert_allclose(gradient(X, data), 2 * (X - data))
    stats = context.cache_stats()
    assert (stats.misses, stats.hits) == (1, 2)
    for n in (1, 2, 3, 4):
        gradient(np.ones(n), np.zeros(n))
    assert context.cache_stats().entries == 2
    context.cache_clear()
    assert context.cache_stats().entries == 0


# ---- errors ----------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "no scalar": (lambda: tnf.grad(lambda x: x)(X), errors.ShapeError, ["f64[3]", "jacrev"]),
    "two results": (lambda: tnf.grad(lambda x: (x, x))(1.0), errors.ShapeError, ["one scalar"]),
    "integer": (
        lambda: tnf.grad(lambda p: p["n"] * 1.0)({"n": 3}),
        errors.DTypeError,
        ["argument 0['n']", "i64[]"],
    ),
    "integer is TypeError": (lambda: tnf.grad(lambda n: n * 1.0)(3), TypeError, []),
    "bool": (lambda: tnf.vjp(lambda x: x, True), errors.DTypeError, ["bool"]),
    "text": (lambda: tnf.grad(lambda x: x)("word"), errors.DTypeError, ["argument 0", "word"]),
    "complex result": (
        lambda: tnf.grad(lambda x: x * 1j)(1.0),
        errors.DTypeError,
        ["c128[]", "holomorphic"],
    ),
    "holomorphic of real": (
        lambda: tnf.grad(lambda x: x, holomorphic=True)(1.0),
        errors.DTypeError,
        ["holomorphic"],
    ),
    "columns of complex": (lambda: tnf.jacfwd(tnf.abs)(1j), errors.DTypeError, ["holomorphic"]),
    "argnums": (
        lambda: tnf.grad(lambda x: x, argnums=1)(1.0),
        errors.InvalidConfigError,
        ["argnums 1", "there are 1"],
    ),
    "argnums twice": (
        lambda: tnf.grad(lambda x: x, argnums=(0, 0))(1.0),
        errors.InvalidConfigError,
        ["twice"],
    ),
    "argnums of another kind": (
        lambda: tnf.grad(lambda x: x, argnums="x")(1.0),
        errors.InvalidConfigError,
        ["integers"],
    ),
    "no function": (lambda: tnf.grad(3.0), errors.InvalidConfigError, ["3.0"]),
    "aux": (lambda: tnf.grad(lambda x: x, has_aux=True)(1.0), errors.ArityError, ["aux"]),
    "tangent shape": (
        lambda: tnf.jvp(tnf.sin, (X,), (np.ones(2),)),
        errors.ShapeError,
        ["f64[3]", "f64[2]"],
    ),
    "tangent dtype": (
        lambda: tnf.jvp(tnf.sin, (X,), (np.ones(3, "f4"),)),
        errors.DTypeError,
        ["f64[3]", "f32[3]"],
    ),
    "tangent tree": (lambda: tnf.jvp(tnf.sin, (X,), (X, X)), errors.ArityError, ["structure"]),
    "bare primal": (lambda: tnf.jvp(tnf.sin, X, X), errors.ArityError, ["tuple"]),
    "cotangent": (lambda: tnf.vjp(tnf.sin, X)[1](1.0), errors.ShapeError, ["f64[3]", "f64[]"]),
    "no primals": (lambda: tnf.vjp(lambda: 1.0), errors.ArityError, ["at least one"]),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: Any) -> None:
    attempt, kind, words = case
    with pytest.raises(kind) as caught:
        attempt()
    assert isinstance(caught.value, errors.TenferroError)
    for word in words:
        assert word in str(caught.value)


def test_an_op_without_a_rule_is_named_with_its_line() -> None:
    from tenferro.dispatch import apply_one
    from tenferro.ops.elementwise import BitcastConvert

    with pytest.raises(errors.ADRuleUnsupportedError) as caught:
        tnf.grad(lambda x: apply_one(BitcastConvert(tnf.DType.F64), x) * 2.0)(1.0)
    assert "BitcastConvert: has no linearize rule" in str(caught.value)
    assert "test_transforms.py" in str(caught.value)


def test_an_error_in_the_function_names_its_line() -> None:
    with pytest.raises(errors.ShapeError, match=r"test_transforms.py:\d+"):
        tnf.grad(lambda x: tnf.sum(x + np.ones(4)))(X)


def test_the_cotangent_one_multiplies_nothing() -> None:
    """The backward pass of a sum starts with cotangents of one.

    They must not be multiplied with anything: a multiplication by one changes nothing, except complex infinities.
    """

    def ops_of(x: Any) -> list[str]:
        program = tnf.compile(tnf.grad(lambda x: tnf.real(tnf.sum(x * x))), x)
        return [instruction.op.name for instruction in program.instructions]

    assert ops_of(np.ones(3)) == ["Add"]
    assert "Multiply" in ops_of(np.ones(3, "c16"))


def test_an_update_is_linear_in_each_operand_alone() -> None:
    x, update, weights = np.arange(6.0), np.array([10.0, 20.0]), np.arange(1.0, 7.0)

    def loss(x: Any, update: Any, start: Any) -> Any:
        return tnf.sum(weights * tnf.lax.dynamic_update_slice(x, update, (start,)))

    np.testing.assert_array_equal(tnf.grad(loss)(x, update, 2), [1, 2, 0, 0, 5, 6])
    np.testing.assert_array_equal(tnf.grad(loss, 1)(x, update, 2), [3, 4])
    x_bar, update_bar = tnf.grad(loss, (0, 1))(x, update, 2)
    np.testing.assert_array_equal(x_bar, [1, 2, 0, 0, 5, 6])
    np.testing.assert_array_equal(update_bar, [3, 4])


def test_updates_that_tie_share_a_tangent() -> None:
    """If several elements and updates are all equal to the maximum, its tangent must be the mean of their tangents."""

    def largest(x: Any, updates: Any) -> Any:
        return x.at[np.array([0, 0, 1, 2])].max(updates)

    y, y_dot = tnf.jvp(
        largest,
        (np.array([1.0, 5.0, 4.0]), np.array([2.0, 2.0, 3.0, 4.0])),
        (np.array([7.0, 8.0, 30.0]), np.array([1.0, 4.0, 9.0, 50.0])),
    )
    np.testing.assert_array_equal(y, [2, 5, 4])
    np.testing.assert_array_equal(y_dot, [2.5, 8, 40])


@pytest.mark.parametrize("reverse", [False, True])
def test_running_maxima_of_symbolic_lengths(reverse: bool) -> None:
    from tenferro.dispatch import apply_one
    from tenferro.ops.reduction import CumMax

    def running(x: Any) -> Any:
        return apply_one(CumMax(0, reverse), x)

    x = np.array([1.0, 3.0, 3.0, 2.0, 5.0])
    program = tnf.compile(
        lambda x, x_dot: tnf.jvp(running, (x,), (x_dot,))[1],
        tnf.TensorSpec(("n",), F8),
        tnf.TensorSpec(("n",), F8),
    )
    x_dot = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    wanted = [10000.0] * 5 if reverse else [1.0, 10.0, 55.0, 55.0, 10000.0]
    np.testing.assert_array_equal(program.run(x, x_dot), wanted)
    np.testing.assert_array_equal(tnf.jvp(running, (x,), (x_dot,))[1], wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_cotangents_of_a_product_in_a_wider_dtype(dtype: str) -> None:
    """If a product accumulates in a wider dtype, its cotangents must do so, too, and be rounded only once."""
    rng = np.random.default_rng(0)
    lhs, rhs = (
        np.asarray(tnf.asarray(rng.integers(-4, 5, shape), dtype=dtype))
        for shape in ((2, 3), (3, 4))
    )
    weights = rng.integers(-4, 5, (2, 4)).astype(F8)

    def loss(lhs: Any, rhs: Any) -> Any:
        y = tnf.lax.dot_general(lhs, rhs, (((1,), (0,)), ((), ())), preferred_element_type=F8)
        return tnf.sum(y * weights)

    lhs_bar, rhs_bar = tnf.grad(loss, (0, 1))(lhs, rhs)
    assert (lhs_bar.dtype, rhs_bar.dtype) == (lhs.dtype, rhs.dtype)
    np.testing.assert_array_equal(lhs_bar.astype(F8), weights @ rhs.astype(F8).T)
    np.testing.assert_array_equal(rhs_bar.astype(F8), lhs.astype(F8).T @ weights)
