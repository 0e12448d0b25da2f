"""`checkpoint(body, levels=k)` must limit the number of states that a reverse pass saves, and keep gradients."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import GraphExecutor
from tenferro.errors import InvalidConfigError
from tenferro.ops.control import ControlOp, Scan
from xla_peer import XlaExecutor

STATE = 64
RATES = np.random.default_rng(0).uniform(0.9, 1.1, (100,))


def step(u: Any, rate: Any) -> Any:
    return tnf.sin(rate * u) + 0.1 * tnf.roll(u, 1), tnf.sum(u)


def loss_of(body: Any, reverse: bool = False) -> Any:
    def loss(u: Any, rates: Any) -> Any:
        u, sums = tnf.scan(body, u, rates, reverse=reverse)
        return tnf.sum(u * u) + tnf.sum(sums**3)

    return loss


def stacked_bytes(program: Any) -> int:
    """Return the bytes of the stacked residuals that exist at the same time.

    They are those of this program, plus the largest number among its loop bodies.
    """
    own, inner = 0, [0]
    for step in program.instructions:
        if isinstance(step.op, Scan):
            own += sum(program.types[slot].nbytes for slot in step.outputs[step.op.num_carry :])
        if isinstance(step.op, ControlOp):
            inner += [stacked_bytes(part.program) for part in step.op.parts]
    return own + max(inner)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_without_checkpoints(levels: int, reverse: bool) -> None:
    u = np.linspace(0.1, 1.0, 4)
    wanted = tnf.jit(tnf.grad(loss_of(step, reverse), (0, 1)))(u, RATES)
    body = tnf.checkpoint(step, levels=levels)
    got = tnf.jit(tnf.grad(loss_of(body, reverse), (0, 1)))(u, RATES)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        loss_of(body, reverse)(u, RATES), loss_of(step, reverse)(u, RATES), rtol=1e-12
    )


def test_through_xla_and_twice() -> None:
    u, rates = np.linspace(0.1, 1.0, 4), RATES[:11]
    losses = loss_of(tnf.checkpoint(step, levels=2)), loss_of(step)
    executor: Any = XlaExecutor("cpu", notices=False)
    ours, plain = (tnf.jit(tnf.grad(f), executor=executor)(u, rates) for f in losses)
    np.testing.assert_allclose(ours, plain, rtol=1e-12)
    ours, plain = (tnf.jvp(tnf.grad(f), (u, rates), (u, rates))[1] for f in losses)
    np.testing.assert_allclose(ours, plain, rtol=1e-10)


@pytest.mark.parametrize("n", [100, 1000])
def test_states_that_are_stacked(n: int) -> None:
    def states(levels: int | None) -> float:
        body: Any = lambda u, _: (tnf.sin(tnf.cos(u) * u), None)
        if levels is not None:
            body = tnf.checkpoint(body, levels=levels)
        loss = lambda u: tnf.sum(tnf.scan(body, u, length=n)[0])
        return stacked_bytes(tnf.compile(tnf.grad(loss), np.ones(STATE))) / (8 * STATE)

    assert states(None) >= 2 * n
    assert n <= states(0) < n + 2
    for levels in (1, 2, 3):
        assert states(levels) <= (levels + 1) * (n ** (1 / (levels + 1)) + 1)
    assert states(1) > states(2) >= states(3)


def test_bounded_whiles_and_counted_loops() -> None:
    def root(levels: int) -> Any:
        body = tnf.checkpoint(lambda s: (0.5 * (s[0] + s[1] / s[0]), s[1]), levels=levels)
        more = lambda s: tnf.abs(s[0] * s[0] - s[1]) > 1e-13 * s[1]
        return lambda a: tnf.while_loop(more, body, (1.0, a), max_steps=20)[0]

    np.testing.assert_allclose(tnf.jit(tnf.grad(root(2)))(4.0), 0.25, rtol=1e-12)
    power = lambda x: tnf.fori_loop(1, 8, tnf.checkpoint(lambda i, y: y * x * i, levels=1), 1.0)
    np.testing.assert_allclose(tnf.grad(power)(1.1), 5040 * 7 * 1.1**6, rtol=1e-12)
    upto = lambda x, n: tnf.fori_loop(
        0, n, tnf.checkpoint(lambda i, y: y * x, levels=1), 1.0, max_steps=9
    )
    np.testing.assert_allclose(tnf.jit(tnf.grad(upto))(1.1, np.int64(7)), 7 * 1.1**6, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_iterations(n: int) -> None:
    body = tnf.checkpoint(lambda x, _: (x * x, x), levels=2)
    gradient = tnf.grad(lambda x: tnf.scan(body, x, length=n)[0])(1.5)
    np.testing.assert_allclose(gradient, 2**n * 1.5 ** (2**n - 1))


def test_what_levels_cannot_mean() -> None:
    body = tnf.checkpoint(tnf.sin, levels=1)
    with pytest.raises(InvalidConfigError, match="levels=1 is for the body of scan"):
        body(1.0)
    with pytest.raises(InvalidConfigError, match=r"levels=1.* needs max_steps"):
        tnf.while_loop(lambda x: x > 1.0, body, 3.0)
    refused: tuple[Any, ...] = (-1, 1.5, True)
    for levels in refused:
        with pytest.raises(InvalidConfigError, match="checkpoint: levels"):
            tnf.checkpoint(tnf.sin, levels=levels)
    again = pickle.loads(pickle.dumps(body))
    with pytest.raises(InvalidConfigError, match="levels=1 is for"):
        again(1.0)


def test_an_executor_runs_it_on_arrays() -> None:
    body = tnf.checkpoint(step, levels=1)
    u, sums = tnf.scan(body, np.ones(3), RATES, executor=GraphExecutor(compiled=False))
    wanted, wanted_sums = tnf.scan(step, np.ones(3), RATES)
    np.testing.assert_allclose(u, wanted, rtol=1e-12)
    np.testing.assert_allclose(sums, wanted_sums, rtol=1e-12)
