"""Random loop bodies that update memory in place while other ops read it must have the results of NumPy's copies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import indexing, link

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
N = 5
TURNS = 4
MODULUS = 1009
"""Modulus of all values, so that no integer overflows."""


@dataclass(frozen=True)
class Form:
    """An operation on two matrices u and v and two integers s and t below N, in NumPy and in tenferro."""

    by_hand: Callable[..., Any]
    traced: Callable[..., Any]


def changed(u: Any, place: Any, value: Any) -> Any:
    copy = u.copy()
    copy[place] = value
    return copy


def added(u: Any, rows: Any, value: Any) -> Any:
    copy = u.copy()
    np.add.at(copy, rows, value)
    return copy % MODULUS


def same(write: Callable[[Any, Any, Any, Any, Any], Any]) -> Form:
    """Return an operation with one definition, a function of the namespace, NumPy or tenferro, and the operands."""
    return Form(lambda *xs: write(np, *xs), lambda *xs: write(tnf, *xs))


def rows_by_formula(u: Any, v: Any, s: Any, t: Any) -> Any:
    for i in range(N):
        u = changed(u, i, (u[s] + v[i] + i) % MODULUS)
    return u


def rows_in_a_loop(u: Any, v: Any, s: Any, t: Any) -> Any:
    return tnf.fori_loop(0, N, lambda i, u: u.at[i].set((u[s] + v[i] + i) % MODULUS), u)


def swapped(u: Any, v: Any, s: Any, t: Any) -> Any:
    for _ in range(3):
        u, v = changed(v, s, u[t]), u
    return (u * 3 + v) % MODULUS


def swapped_in_a_loop(u: Any, v: Any, s: Any, t: Any) -> Any:
    u, v = tnf.fori_loop(0, 3, lambda _, c: (c[1].at[s].set(c[0][t]), c[0]), (u, v))
    return (u * 3 + v) % MODULUS


TWICE, ONCE = np.array([3, 1, 3]), np.array([4, 0, 2])
FORMS: dict[str, Form] = {
    "sum": same(lambda n, u, v, s, t: (u + v) % MODULUS),
    "product": same(lambda n, u, v, s, t: u * v % MODULUS),
    "number": same(lambda n, u, v, s, t: (u + v[s, t]) % MODULUS),
    "transpose": same(lambda n, u, v, s, t: n.transpose(u)),
    "turned": same(lambda n, u, v, s, t: n.flip(u, 1)),
    "rolled": same(lambda n, u, v, s, t: n.roll(u, 2, 0)),
    "joined": same(lambda n, u, v, s, t: n.concatenate([u[2:], v[:2]], 0)),
    "chosen": same(lambda n, u, v, s, t: n.where(u > v, u, v)),
    "sorted": same(lambda n, u, v, s, t: n.sort(u, axis=1)),
    "running": same(lambda n, u, v, s, t: n.cumsum(u, axis=0) % MODULUS),
    "extreme": same(lambda n, u, v, s, t: n.max(u, axis=0, keepdims=True) - v + MODULUS),
    "total": same(lambda n, u, v, s, t: (u + n.sum(v, axis=1, keepdims=True)) % MODULUS),
    "spread": same(lambda n, u, v, s, t: n.broadcast_to(u[s], (N, N))),
    "rows": same(lambda n, u, v, s, t: u[TWICE.repeat(2)[:N]]),
    "row": Form(lambda u, v, s, t: changed(u, s, v[t]), lambda u, v, s, t: u.at[s].set(v[t])),
    "column": Form(
        lambda u, v, s, t: changed(u, (slice(None), s), u[:, t]),
        lambda u, v, s, t: u.at[:, s].set(u[:, t]),
    ),
    "element": Form(
        lambda u, v, s, t: changed(u, (s, t), v[t, s]), lambda u, v, s, t: u.at[s, t].set(v[t, s])
    ),
    "exchanged": Form(
        lambda u, v, s, t: changed(changed(u, s, u[t]), t, u[s]),
        lambda u, v, s, t: u.at[s].set(u[t]).at[t].set(u[s]),
    ),
    "window": Form(
        lambda u, v, s, t: changed(u, (slice(1, 4), slice(0, 3)), v[2:5, 1:4]),
        lambda u, v, s, t: tnf.lax.dynamic_update_slice(u, v[2:5, 1:4], (1, 0)),
    ),
    "own window": Form(
        lambda u, v, s, t: changed(u, slice(1, 4), u[0:3]), lambda u, v, s, t: u.at[1:4].set(u[0:3])
    ),
    "several": Form(
        lambda u, v, s, t: changed(u, ONCE, v[TWICE]), lambda u, v, s, t: u.at[ONCE].set(v[TWICE])
    ),
    "added": Form(
        lambda u, v, s, t: added(u, TWICE, v[ONCE]),
        lambda u, v, s, t: u.at[TWICE].add(v[ONCE]) % MODULUS,
    ),
    "branch": Form(
        lambda u, v, s, t: changed(u, s, v[t]) if u[s, t] % 2 else (u + v) % MODULUS,
        lambda u, v, s, t: tnf.cond(
            u[s, t] % 2 == 1, lambda: u.at[s].set(v[t]), lambda: (u + v) % MODULUS
        ),
    ),
    "loop": Form(rows_by_formula, rows_in_a_loop),
    "swap": Form(swapped, swapped_in_a_loop),
}


@dataclass(frozen=True)
class Step:
    """One operation of a random loop body: the form's name, the indices of u and v, and s and t.

    For s and t, None means the iteration counter.
    """

    form: str
    u: int
    v: int
    s: int | None
    t: int | None


def steps_of(pick: random.Random, count: int) -> list[Step]:
    number = lambda: pick.choice([None, pick.randrange(N)])
    names = list(FORMS)
    return [
        Step(pick.choice(names), pick.randrange(3 + k), pick.randrange(3 + k), number(), number())
        for k in range(count)
    ]


def iteration(steps: Sequence[Step], is_traced: bool, values: list[Any], i: Any) -> list[Any]:
    """Return `values`, followed by the result of each step in one iteration."""
    for step in steps:
        form = FORMS[step.form]
        s, t = (i + 2 if step.s is None else step.s), (i if step.t is None else step.t)
        u, v = values[step.u], values[step.v]
        if not is_traced:
            values.append(np.array(form.by_hand(u, v, s % N, t % N)))
        else:
            values.append(form.traced(u, v, s % N, t % N))
    return values


@pytest.mark.parametrize("seed", range(60))
def test_reads_precede_writes_of_the_same_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For every second seed, updates of small windows are not written to memory first.
    monkeypatch.setattr(indexing, "MIN_FUSED_WINDOW", seed % 2 * indexing.MIN_FUSED_WINDOW)
    pick = random.Random(seed)
    steps = steps_of(pick, pick.randrange(3, 9))
    last = 3 + len(steps)
    # The outputs include values whose memory a later step might overwrite by mistake.
    ends = [pick.randrange(last - 3, last), pick.randrange(last), *pick.choices(range(last), k=3)]
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, MODULUS, (2, N, N))
    xs = rng.integers(0, MODULUS, (TURNS, N, N))

    def loop(a: Any, b: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            i, a, b = carry
            values = iteration(steps, True, [a, b, x], i)
            first, second, *others = [values[end] for end in ends]
            return (i + 1, first, second), others

        return tnf.scan(body, (0, a, b), xs)

    carry = [a, b]
    stacks: list[list[Any]] = [[], [], []]
    for i in range(TURNS):
        values = iteration(steps, False, [*carry, xs[i]], i)
        carry = [values[end] for end in ends[:2]]
        for stack, end in zip(stacks, ends[2:], strict=True):
            stack.append(values[end])
    kept = [a.copy(), b.copy(), xs.copy()]
    executor = tnf.GraphExecutor("C", compiled=True)
    program = tnf.compile(loop, a, b, xs)
    assert "# compiled" in str(executor.compile(program))
    for _ in range(2):
        (_, *ends_of_carry), others = executor.run(program, a, b, xs)
        for y, expected in zip(
            [*ends_of_carry, *others], [*carry, *map(np.stack, stacks)], strict=True
        ):
            np.testing.assert_array_equal(y, expected, err_msg=str(steps))
    for x, before in zip((a, b, xs), kept, strict=True):
        np.testing.assert_array_equal(x, before)
