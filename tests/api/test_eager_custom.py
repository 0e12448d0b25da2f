"""Custom rules, stopped gradients and checkpoints must have the same derivatives on eager tensors as in traces."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors

RT = tnf.EagerRuntime()
X = np.array([0.5, -1.0, 2.0])


@tnf.custom_jvp
def cube(x: Any) -> Any:
    """Return x^3.

    The custom rule has the wrong tangent 5 x^2, so that a test can tell whether the rule was used.
    """
    return x * x * x


@cube.defjvp
def _cube_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return cube(x), 5.0 * square(x) * x_dot


@tnf.custom_jvp
def square(x: Any) -> Any:
    return x * x


@square.defjvp
def _square_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return square(x), 7.0 * x * x_dot


@tnf.custom_vjp
def scaled(tree: Any, factor: Any) -> Any:
    return {"y": tree["a"] * factor, "z": tree["b"][0]}


scaled.defvjp(
    lambda tree, factor: (scaled(tree, factor), (tree, factor)),
    lambda kept, bar: (
        {"a": 3.0 * bar["y"] * kept[1], "b": [11.0 * bar["z"]]},
        tnf.sum(13.0 * bar["y"] * cube(kept[0]["a"])),
    ),
)


def powered(n: int, x: Any) -> Any:
    return x**n


stepped = tnf.custom_jvp(powered, nondiff_argnums=(0,))
stepped.defjvp(lambda n, primals, tangents: (stepped(n, *primals), n * tangents[0]))


@tnf.checkpoint
def layer(x: Any) -> Any:
    return {"y": tnf.sin(tnf.sin(x)), "n": tnf.sum(tnf.cos(x))}


def of_tree(x: Any) -> Any:
    found = scaled({"a": x, "b": [2.0 * x]}, tnf.sum(x))
    return found["y"] * found["z"]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "custom_jvp": cube,
    "custom_jvp among ops": lambda x: tnf.exp(cube(2.0 * x)) + x,
    "custom_jvp twice": lambda x: cube(square(x)) * square(x),
    "custom_vjp of trees": of_tree,
    "nondiff_argnums": lambda x: stepped(4, x) * x,
    "stop_gradient": lambda x: x * tnf.stop_gradient(x) * x,
    "stop_gradient of the variable": lambda x: x * tnf.stop_gradient(x),
    "checkpoint": lambda x: layer(x)["y"] * layer(2.0 * x)["n"],
    "a rule in a checkpoint": tnf.checkpoint(lambda x: cube(tnf.sin(x)) * x),
    "a checkpoint in a rule's function": lambda x: cube(layer(x)["y"]),
}


def loss(name: str) -> Callable[[Any], Any]:
    return lambda x: tnf.sum(FUNCTIONS[name](x) * np.array([1.0, 10.0, 100.0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_traces(name: str) -> None:
    f = loss(name)
    for _ in range(2):
        x: Any = RT.variable(X)
        y = f(x)
        assert y.is_tracked
        np.testing.assert_allclose(y.numpy(), f(X), rtol=1e-14)
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), tnf.grad(f)(X), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_those_of_traces(name: str) -> None:
    f = loss(name)

    def slope(gradient: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: tnf.sum(gradient(x) * np.array([1.0, 2.0, 3.0]))

    def pulled(x: Any) -> Any:
        y, pull = tnf.vjp(f, x)
        return y * pull(2.0)[0]

    for gradient in (tnf.grad(f), pulled):
        x: Any = RT.variable(X)
        slope(gradient)(x).backward()
        wanted = tnf.grad(slope(gradient))(X)
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_third_derivatives_use_the_rules_of_rules() -> None:
    second = tnf.grad(lambda x: tnf.grad(cube)(x))
    x: Any = RT.variable(2.0)
    second(x).backward()
    assert x.grad.item() == tnf.grad(second)(2.0) == 35.0


def test_the_rule_is_called_only_where_something_is_tracked() -> None:
    assert not cube(RT.constant(X)).is_tracked
    assert isinstance(cube(RT.constant(X)), tnf.EagerTensor)
    seen: list[Any] = []

    @tnf.custom_jvp
    def shown(x: Any) -> Any:
        seen.append(type(x))
        return x

    shown.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    shown(RT.constant(X))
    shown(RT.variable(X))
    assert seen == [tnf.EagerTensor, tnf.TracedTensor]


def test_plain_rules_make_one_program() -> None:
    rt = tnf.EagerRuntime()
    for _ in range(3):
        tnf.sum(cube(rt.variable(X))).backward()
    assert (rt.cache_stats().misses, rt.cache_stats().hits) == (1, 2)


def test_a_checkpoint_keeps_nothing_from_within() -> None:
    inner: list[Any] = []

    def two(x: Any) -> Any:
        inner.append(tnf.sin(x))
        return tnf.sin(inner[-1])

    x: Any = RT.variable(X)
    y = tnf.checkpoint(two)(x)
    assert isinstance(inner[0], tnf.TracedTensor)
    assert [operand.variable for operand in y.record.operands] == [x]
    result = weakref.ref(y)
    tnf.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.sin(X)) * np.cos(X))
    del y
    gc.collect()
    assert result() is None


def test_what_a_checkpoint_closes_over_has_its_gradient() -> None:
    x: Any = RT.variable(X)
    c: Any = RT.variable(2.0 * X)
    tnf.sum(tnf.checkpoint(lambda a: a * c)(x)).backward()
    assert (x.grad.tolist(), c.grad.tolist()) == ((2.0 * X).tolist(), X.tolist())


def test_captured_variables_have_the_derivative_of_the_function() -> None:
    x: Any = RT.variable(X)
    c: Any = RT.variable(X)
    d = RT.variable(2.0 * X)

    @tnf.custom_jvp
    def by_jvp(a: Any) -> Any:
        return a * c

    by_jvp.defjvp(lambda primals, tangents: (by_jvp(*primals), 5.0 * tangents[0] * d))
    tnf.sum(by_jvp(x)).backward()
    assert (x.grad.tolist(), c.grad.tolist()) == ((10.0 * X).tolist(), X.tolist())

    x, c = RT.variable(X), RT.variable(X)
    by_vjp = tnf.custom_vjp(lambda a: a * c)
    by_vjp.defvjp(lambda a: (by_vjp(a), None), lambda _, bar: (5.0 * bar * d,))
    tnf.sum(by_vjp(x)).backward()
    assert (x.grad.tolist(), c.grad.tolist()) == ((10.0 * X).tolist(), X.tolist())


def test_what_is_refused() -> None:
    x, c = RT.variable(X), RT.variable(X)
    without = tnf.custom_jvp(lambda a: a)
    with pytest.raises(errors.ADRuleUnsupportedError, match="has no rule; call defjvp first"):
        without(x)

    @tnf.custom_jvp
    def fixed(a: Any) -> Any:
        return a * tnf.stop_gradient(c)

    fixed.defjvp(lambda primals, tangents: (fixed(*primals), 3.0 * tangents[0]))
    tnf.sum(fixed(x)).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 3

    @tnf.custom_vjp
    def short(a: Any, b: Any) -> Any:
        return a * b

    short.defvjp(lambda a, b: (a * b, None), lambda _, bar: (bar,))
    with pytest.raises(errors.ArityError, match="must return a tuple of 2 cotangents"):
        tnf.sum(short(x, c)).backward()
    with pytest.raises(errors.ADRuleUnsupportedError, match="has a pullback and no tangent"):
        tnf.jvp(lambda a: short(a, c), (x,), (x,))
    added = tnf.checkpoint(lambda a, b: a + b)
    with pytest.raises(errors.InvalidConfigError, match="two EagerRuntimes"):
        added(x, tnf.EagerRuntime().variable(X))
