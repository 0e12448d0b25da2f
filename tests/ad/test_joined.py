"""Gradients of slices, shifts and windows are merged into few ops. Tests run natively, through PJRT, and in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro.ops.control import Scan
from tenferro.ops.structural import Pad

RNG = np.random.default_rng(5)


def three_points(x: Any) -> Any:
    return x[1:-1] * 0.5 + (x[:-2] + x[2:]) * 0.25


def ring(x: Any) -> Any:
    return tnf.roll(x, 1, 0) + tnf.roll(x, -1, 0) - 2 * x


def heat(x: Any) -> Any:
    inner = x[1:-1, 1:-1] + 0.1 * (x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
    return x.at[1:-1, 1:-1].set(inner)


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "three points": (three_points, (9,)),
    "ring": (ring, (8,)),
    "heat": (heat, (6, 7)),
    "twice": (lambda x: heat(heat(x)), (6, 7)),
    "an extent of one": (lambda x: x[:1] * 2 + x[-1:], (1,)),
    "nothing left": (lambda x: x[3:] + x[:0], (3,)),
}


def pads(program: Any) -> int:
    return sum(type(step.op) is Pad for step in program.instructions)


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_differences(name: str) -> None:
    fn, shape = CASES[name]
    x = RNG.standard_normal(shape)
    square = tnf.jit(lambda x: tnf.sum(fn(x) ** 2))
    grad = np.asarray(tnf.grad(square)(x))
    for index in np.ndindex(*shape):
        step = np.zeros(shape)
        step[index] = 1e-6
        slope = (float(square(x + step)) - float(square(x - step))) / 2e-6
        assert grad[index] == pytest.approx(slope, abs=1e-7)
    # `square` is a quadratic form. Its Hessian times v must therefore equal its gradient at v.
    v = RNG.standard_normal(shape)
    hessian_v = tnf.jvp(tnf.grad(square), (x,), (v,))[1]
    assert np.allclose(hessian_v, np.asarray(tnf.grad(square)(v)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "most"), [("three points", 2), ("ring", 2), ("heat", 2)])
def test_each_tensor_is_padded_once(name: str, most: int) -> None:
    fn, shape = CASES[name]
    spec = tnf.TensorSpec(shape, "float64")
    program = tnf.compile(tnf.grad(lambda x: tnf.sum(fn(x) ** 2)), spec)
    assert pads(program) <= most
    assert lower_to_stablehlo(program).plain_text.count("stablehlo.pad") <= most


def test_in_loops() -> None:
    spec = tnf.TensorSpec((6, 7), "float64")
    loss = lambda x: tnf.sum(tnf.fori_loop(0, 3, lambda _, x: heat(x), x) ** 2)
    program = tnf.compile(tnf.grad(loss), spec)
    loops = [step.op for step in program.instructions if isinstance(step.op, Scan)]
    assert max(pads(loop.body.program) for loop in loops) <= 2
    x = RNG.standard_normal((6, 7))
    written_out = tnf.grad(lambda x: tnf.sum(heat(heat(heat(x))) ** 2))
    assert np.allclose(program.run(x), written_out(x), rtol=1e-13, atol=1e-13)


def test_symbolic_extents_stay_as_the_rules_write_them() -> None:
    program = tnf.compile(
        tnf.grad(lambda x: tnf.sum(three_points(x) ** 2)), tnf.TensorSpec(("n",), "float64")
    )
    x = RNG.standard_normal(9)
    assert np.allclose(program.run(x), tnf.grad(lambda x: tnf.sum(three_points(x) ** 2))(x))


@pytest.mark.parametrize("in_loop", [False, True])
def test_rules_of_ones_own_stay_in_the_second_derivative(in_loop: bool) -> None:
    """Joining the terms of a gradient must keep custom rules.

    The rule `bwd` calls a function with a custom derivative, and the second derivative must use it.
    """

    @tnf.custom_jvp
    def seven(x: Any) -> Any:
        return tnf.sin(x)

    seven.defjvp(lambda primals, tangents: (tnf.sin(primals[0]), 7.0 * tangents[0]))

    @tnf.custom_vjp
    def fn(x: Any) -> Any:
        return x * x

    def slope(x: Any) -> Any:
        return tnf.fori_loop(0, 1, lambda _, c: seven(x), x) if in_loop else seven(x)

    fn.defvjp(lambda x: (x * x, x), lambda x, y_bar: (y_bar * slope(x),))

    def loss(x: Any) -> Any:
        return tnf.sum(fn(x[2:] + x[1:-1] + x[:-2]))

    x = np.array([0.5, 1.0, 2.0, -1.0])
    spread = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    assert np.allclose(tnf.grad(loss)(x), np.sin(spread @ x) @ spread)
    second = tnf.grad(lambda x: tnf.sum(tnf.grad(loss)(x)))(x)
    assert np.allclose(second, 7 * spread.T @ spread @ np.ones(4))
