"""The tape of a loop: the values that it stacks for its backward pass, as pages and profiles show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.program.tape import Tape, TapeValue, tapes_of


def step(u: Any, _: Any) -> Any:
    return tnf.sin(tnf.exp(u)), None


def gradient(body: Any, n: int = 5) -> Any:
    return tnf.compile(tnf.grad(lambda u: tnf.sum(tnf.scan(body, u, length=n)[0])), np.ones(4))


def test_residuals_are_stacked() -> None:
    forward, *_ = tapes_of(gradient(step)).values()
    assert {(str(v.spec), v.op) for v in forward.stacked} == {("f64[4]", "Cos"), ("f64[4]", "Exp")}
    assert forward.iteration_bytes == 32 * len(forward.stacked)
    assert forward.nbytes == 5 * forward.iteration_bytes
    assert all("test_tapes.py:15 in step" in v.source for v in forward.stacked)


def test_a_checkpoint_keeps_the_carry_and_computes_the_rest_again() -> None:
    forward, backward = tapes_of(gradient(tnf.checkpoint(step))).values()
    assert [v.op for v in forward.stacked] == ["an input of the iteration"]
    assert (forward.iteration_bytes, forward.nbytes) == (32, 160)
    assert forward.passing == 1  # exp is neither stacked nor carried, so it is recomputed
    assert [v.op for v in backward.recomputed] == ["Exp"]
    assert not backward.stacked


def test_pages_and_profiles_show_it() -> None:
    program = gradient(tnf.checkpoint(step))
    page = program.to_html()
    assert "stacks 32 B of each iteration, 160 B of 5 iterations" in page
    assert "computed again: f64[4] = Exp at" in page
    profile = program.profile(np.ones(4))
    assert "stacks 32 B of each iteration, 160 B of 5 iterations" in str(profile)
    assert "stacks 32 B of each iteration" in profile.to_html()
    assert "stacks" not in tnf.compile(lambda x: x + 1, np.ones(4)).to_html()


def test_loops_with_a_bound_are_while_loops_that_write_rows() -> None:
    def root(a: Any) -> Any:
        more = lambda s: s * s > 2.0 * a
        return tnf.while_loop(more, lambda s: 0.5 * (s + a / s), 9.0, max_steps=20)

    program = tnf.GraphExecutor().profile(tnf.compile(tnf.grad(root), 4.0), 4.0).program
    tape = next(iter(tapes_of(program).values()))
    assert tape.iterations == 20
    assert tape.nbytes == 20 * tape.iteration_bytes > 0


def value(op: str) -> TapeValue:
    return TapeValue(tnf.TensorSpec((3,), "f8"), op, "model.py:7")


@pytest.mark.parametrize(
    ("tape", "lines"),
    [
        (Tape(5, (), (), 3), []),
        (Tape(5, (value("Sin"),), (), 0),
         ["stacks 24 B of each iteration, 120 B of 5 iterations", f"stacked: {value('Sin')}"]),
        (Tape("n", (value("Sin"), value("Cos")), (value("Exp"),), 2),
         ["stacks 48 B of each iteration, a number of bytes that depends on symbols of n iterations",
          f"stacked: {value('Sin')}", f"stacked: {value('Cos')}", f"computed again: {value('Exp')}",
          "not kept: 2 other values of an iteration"]),
        (Tape(5, (), (value("Exp"),), 1), [f"computed again: {value('Exp')}", "not kept: 1 other values of an iteration"]),
    ],
)  # fmt: skip
def test_the_lines_of_a_tape(tape: Tape, lines: list[str]) -> None:
    assert tape.lines() == lines
