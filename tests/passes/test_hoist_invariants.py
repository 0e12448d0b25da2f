"""Loop invariants must move before the loop, with the same bits, unless they may fail or may never end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.control import ControlOp, Scan, While
from tenferro.passes import hoist_invariants
from tenferro.program import GraphProgram
from xla_peer import XlaExecutor

X, W = np.linspace(-1.0, 2.0, 6), np.arange(36.0).reshape(6, 6) / 36
UNTOUCHED = tnf.GraphExecutor(passes=(), compiled=False)
PLAIN = tnf.GraphExecutor(passes=(hoist_invariants,), compiled=False)


def loops(program: GraphProgram) -> list[Any]:
    return [step.op for step in program.instructions if isinstance(step.op, ControlOp)]


def names(program: GraphProgram) -> list[str]:
    return [step.op.name for step in program.instructions]


def scanned(body: Callable[..., Any], length: int = 4) -> Callable[..., Any]:
    return lambda x, w: tnf.scan(lambda c, _: (body(c, x, w), None), x, None, length=length)[0]


BODIES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a product": (lambda c, x, w: c + w @ x, ["Add"]),
    "two that depend on each other": (lambda c, x, w: c * tnf.exp(w @ x), ["Multiply"]),
    "a total that is repeated": (lambda c, x, w: c + tnf.sum(w), ["BroadcastInDim", "Add"]),
    "a transpose stays": (lambda c, x, w: w.T @ c, ["Transpose", "DotGeneral"]),
    "a product of what is repeated stays": (
        lambda c, x, w: c + tnf.sum((x[:, None] * x[None, :]) * c[:, None], axis=1),
        [],
    ),
    "arithmetic on constants of one size": (lambda c, x, w: c + x * x, ["Add"]),
    "one output of two": (lambda c, x, w: c + tnf.linalg.qr(w)[1] @ x, ["Add"]),
}


@pytest.mark.parametrize("name", BODIES)
def test_scans(name: str) -> None:
    body, inside = BODIES[name]
    program = tnf.compile(scanned(body), X, W)
    (scan,) = loops(hoist_invariants(program))
    rest = [each for each in names(scan.body.program) if each != "Constant"]
    assert rest == inside or not inside
    if not inside:
        assert rest == names(loops(program)[0].body.program)
    expected = UNTOUCHED.run(program, X, W)
    assert PLAIN.run(program, X, W).tobytes() == expected.tobytes()
    np.testing.assert_allclose(
        tnf.GraphExecutor(compiled="auto").run(program, X, W), expected, rtol=1e-13
    )
    np.testing.assert_allclose(XlaExecutor().run(program, X, W), expected, rtol=1e-12)


def test_a_carry_that_is_handed_on_stays_the_same() -> None:
    def body(c: Any, _: Any) -> Any:
        x, w = c
        return (x + tnf.tanh(w) @ x, w), x

    program = tnf.compile(lambda x, w: tnf.scan(body, (x, w), None, length=3), X, W)
    (scan,) = loops(hoist_invariants(program))
    assert "Tanh" not in names(scan.body.program)
    for y, z in zip(tnf.tree.leaves(PLAIN.run(program, X, W)), tnf.tree.leaves(UNTOUCHED.run(program, X, W)), strict=True):  # fmt: skip
        assert y.tobytes() == z.tobytes()


def test_inner_loops_first() -> None:
    """A value that is invariant in both loops must move before the outer loop.

    Others must move before the inner loop.
    """

    def outer(c: Any, x: Any, w: Any) -> Any:
        return tnf.fori_loop(0, 3, lambda i, y: y + w @ x + tnf.sin(c), c)

    program = tnf.compile(scanned(outer), X, W)
    hoisted = hoist_invariants(program)
    (scan,) = loops(hoisted)
    (inner,) = loops(scan.body.program)
    assert "DotGeneral" in names(hoisted)
    assert "Sin" in names(scan.body.program)
    body = inner.parts[-1].program
    assert not {"DotGeneral", "Sin"} & set(names(body))
    assert PLAIN.run(program, X, W).tobytes() == UNTOUCHED.run(program, X, W).tobytes()


def test_a_while_loop_may_not_run() -> None:
    """If a loop's body may not run, its loops and extensions must stay inside.

    Ops that cannot fail must move, and so must the condition's ops.
    """

    def f(x: Any, w: Any) -> Any:
        def body(c: Any) -> Any:
            n, y = c
            endless = tnf.while_loop(lambda s: s < 1.0, lambda s: s * 1.0, tnf.sum(w) * 0.0)
            return n + 1, y + tnf.linalg.inv(w) @ x + tnf.exp(x) + endless

        return tnf.while_loop(lambda c: c[0] < tnf.max(x), body, (10, x))[1]

    program = tnf.compile(f, X, W)
    hoisted = hoist_invariants(program)
    (loop,) = loops(hoisted)
    assert "Exp" in names(hoisted)
    assert "ReduceMax" in names(hoisted)
    assert isinstance(loop, While)
    assert len(loops(loop.body.program)) == 1
    np.testing.assert_array_equal(tnf.GraphExecutor().run(program, X, W), X)


def test_effects_happen_in_every_iteration(capfd: pytest.CaptureFixture[str]) -> None:
    def body(c: Any, x: Any, w: Any) -> Any:
        tnf.debug_print("here {}", tnf.sum(x))
        return c + tnf.exp(x)

    program = tnf.compile(scanned(body, 3), X, W)
    PLAIN.run(program, X, W)
    assert capfd.readouterr().out.count("here 3") == 3


@pytest.mark.parametrize("length", [0, 1, 5])
def test_lengths(length: int) -> None:
    program = tnf.compile(scanned(lambda c, x, w: c + tnf.linalg.inv(w + tnf.eye(6)) @ x, length), X, W)  # fmt: skip
    (scan,) = loops(hoist_invariants(program))
    assert isinstance(scan, Scan)
    assert (len(scan.body.program.instructions) == 1) == (length > 0)
    assert PLAIN.run(program, X, W).tobytes() == UNTOUCHED.run(program, X, W).tobytes()


def test_gradients_and_stacks() -> None:
    def loss(x: Any, w: Any) -> Any:
        ys = tnf.scan(lambda c, v: (c * tnf.sum(tnf.cos(w)) / 9 + v, c * v), 0.5, x)[1]
        return tnf.sum(ys**2)

    program = tnf.compile(tnf.grad(loss, (0, 1)), X, W)
    for y, z in zip(PLAIN.run(program, X, W), UNTOUCHED.run(program, X, W), strict=True):
        assert y.tobytes() == z.tobytes()
    tnf.check_grads(loss, (X, W), order=2)


def test_nothing_to_hoist_is_the_same_program() -> None:
    program = tnf.compile(scanned(lambda c, x, w: c * x), X, W)
    assert hoist_invariants(program) is program


def test_deep_nests_take_a_time_that_grows_with_the_depth() -> None:
    def nested(depth: int) -> Callable[..., Any]:
        if not depth:
            return lambda c, x: c + tnf.sin(x)
        inner = nested(depth - 1)
        return lambda c, x: tnf.fori_loop(0, 1, lambda i, y: inner(y, x), c)

    program = tnf.compile(nested(30), X, X)
    assert "Sin" in names(hoist_invariants(program))


def test_a_carry_of_a_while_loop_that_is_handed_on() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(carry: Any) -> Any:
            i, y, w = carry
            return i + 1, y * tnf.sin(w), w

        return tnf.while_loop(lambda carry: carry[0] < 3, body, (0, x, w))

    program = tnf.compile(f, X, X)
    # The body may not run, so that its extensions and loops must stay. Its arithmetic must move before the loop.
    assert "Sin" in names(hoist_invariants(program))
    for y, z in zip(PLAIN.run(program, X, X), UNTOUCHED.run(program, X, X), strict=True):
        assert y.tobytes() == z.tobytes()
