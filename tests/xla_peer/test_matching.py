"""Comparison of a program that has a planted fault with the right program.

It must name the first op that differs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from xla_peer import check_parity

X = np.array([[0.3, -1.2, 3e38, 0.7], [1.5, 2.5, -0.4, -2.0]])


def chosen(x: Any, fault: bool) -> Any:
    """Select by a `where`, whose operands are exchanged if `fault`.

    The faulty program also computes the right operand, so that the values alone do not show the fault.
    """
    y = tnf.sin(x) * 2.0
    nothing = x * 0.0 + 3.25
    here = tnf.abs(x) < 1.0
    return tnf.exp(tnf.where(here, nothing, y) if fault else tnf.where(here, y, nothing))


def counted(x: Any, fault: bool) -> Any:
    """Compute an argmax, or an argmin if `fault`.

    All right indices are 0. Other values of the program are 0, too.
    """
    zeros = tnf.astype(x * 0.0, "int64")
    y = tnf.cos(x) + np.array([[3.0], [0.0]])
    return (tnf.argmin(y, axis=0) if fault else tnf.argmax(y, axis=0)) + zeros[0]


def huge(x: Any, fault: bool) -> Any:
    """Add two values, or subtract them if `fault`.

    One element of each value is much larger than all others.
    """
    y = tnf.cbrt(x) * x
    return y - tnf.floor(x) if fault else y + tnf.floor(x)


def dropped(x: Any, fault: bool) -> Any:
    """Add two terms, or only one if `fault`; then the ops that compute the other term are also missing."""
    term = tnf.tanh(tnf.sin(x) + 0.5) * 3.0
    return tnf.exp(tnf.cos(x) if fault else tnf.cos(x) + term)


def in_a_chain(x: Any, fault: bool) -> Any:
    """Add four terms in a chain; if `fault`, one of them is missing."""
    y = tnf.sin(x) + tnf.cos(x)
    return (y if fault else y + tnf.floor(x)) + tnf.tanh(x)


def swapped(x: Any, fault: bool) -> Any:
    """Divide two values, with exchanged operands if `fault`."""
    y, z = tnf.sin(x), tnf.cos(x) + 2.0
    return tnf.exp(z / y if fault else y / z)


def compared(x: Any, fault: bool) -> Any:
    """Select by a comparison, or by the opposite comparison if `fault`.

    Another value of the faulty program equals the right comparison.
    """
    y = tnf.sin(x)
    both = tnf.logical_and(x < 100.0, x > 0.0)
    return tnf.where(both, y, 0.0) + tnf.where(y <= 0.5 if fault else y > 0.5, 1.0, 2.0)


def rounded(x: Any, fault: bool) -> Any:
    """Use a value twice; if `fault`, it is rounded before one of the uses.

    The other use reads the value without rounding.
    """
    y = tnf.sin(x) @ tnf.cos(x).T  # the fault rounds this value
    z = tnf.lax.reduce_precision(y, exponent_bits=5, mantissa_bits=5) if fault else y
    return tnf.exp(z) + y


def constant(x: Any, fault: bool) -> Any:
    """Multiply by a factor, which is slightly different if `fault`."""
    return tnf.exp(tnf.sin(x) * (0.7507 if fault else 0.75)) + 1.0


def reordered(x: Any, fault: bool) -> Any:
    """Compute the square root of a sum, or its cube root if `fault`.

    The faulty program also adds the terms in another order, which is no fault.
    """
    terms = [tnf.sin(x), tnf.cos(x), tnf.tanh(x)]
    y = sum(terms[::-1] if fault else terms, 2.0)  # reordering is no fault
    return tnf.cbrt(tnf.abs(y)) if fault else tnf.sqrt(tnf.abs(y))


def replaced(x: Any, fault: bool) -> Any:
    """The faulty program computes a cosine in place of a sine; both programs have this cosine elsewhere, too."""
    y = tnf.cos(x) if fault else tnf.sin(x)
    return tnf.exp(y * tnf.cos(x))


def moved(x: Any, fault: bool) -> Any:
    """The faulty program slices the wrong column, which both programs read elsewhere, too."""
    y = x[:, 1:2] if fault else x[:, 0:1]
    return tnf.exp(tnf.tanh(y) + tnf.tanh(x[:, 1:2]))


def shared(x: Any, fault: bool) -> Any:
    """The faulty program changes one of two equal comparisons."""
    here, there = x > 0.5, (x <= 0.5 if fault else x > 0.5)
    return tnf.where(there, tnf.sin(x), tnf.where(here, tnf.cos(x), 2.0))


def slight(x: Any, fault: bool) -> Any:
    """The faulty program uses a factor that differs in its last digits."""
    y = tnf.sin(x) * (0.75 + 1e-13 if fault else 0.75)
    return tnf.sqrt(y + 1.0)


def repeated(x: Any, fault: bool) -> Any:
    """The faulty program adds where both programs subtract, and subtracts elsewhere, too."""
    mean = tnf.mean(x, axis=1, keepdims=True)
    apart = x + mean if fault else x - mean
    return apart / tnf.sqrt(tnf.mean(tnf.tanh(x - mean) ** 2))


FAULTS: dict[Callable[..., Any], str] = {
    chosen: "Select",
    counted: "Arg",
    huge: "Add",
    dropped: "Add",
    in_a_chain: "Add",
    swapped: "Divide",
    rounded: "DotGeneral",
    compared: "Compare",
    constant: "Constant",
    reordered: "Sqrt",
    replaced: "Sin",
    moved: "Slice",
    shared: "Compare",
    slight: "Constant",
    repeated: "Subtract",
}


@pytest.mark.parametrize("fn", FAULTS, ids=lambda fn: fn.__name__)
def test_the_changed_op_is_named(fn: Callable[..., Any]) -> None:
    right, wrong = (tnf.compile(lambda x, f=f: fn(x, f), X) for f in (False, True))
    report = check_parity(right, X, against=wrong, interpreter=False)
    divergence = report.first_divergence
    assert not report.ok
    assert divergence is not None
    assert divergence.op.startswith(FAULTS[fn]), divergence
    body, start = inspect.getsourcelines(fn)
    lines = [
        number
        for number, text in enumerate(body, start)
        if ("fault else" in text and "no fault" not in text) or "the fault rounds" in text
    ]
    (line,) = re.findall(r"test_matching\.py:(\d+)", divergence.line)
    assert int(line) in lines, divergence


def rows_of(xs: Any, steps: int, is_written: bool = True) -> Any:
    """Compute `steps` states of a recurrence, and write each to a row, as JAX lowers a scan."""

    def step(carry: Any) -> Any:
        at, state, rows = carry
        row = tnf.lax.dynamic_index_in_dim(
            xs, at, keepdims=False
        )  # the index is clamped to the last row
        state = tnf.tanh(state + row)
        written = tnf.lax.dynamic_update_index_in_dim(rows, state, at, 0)
        return at + 1, state, written if is_written else rows

    start = np.int64(0), tnf.zeros(xs.shape[1]), tnf.zeros(xs.shape)
    return tnf.while_loop(lambda carry: carry[0] < steps, step, start)[2]


@pytest.mark.parametrize(("steps", "is_written"), [(5, True), (4, False)])
def test_a_loop_is_named_that_runs_too_often_or_writes_no_rows(
    steps: int, is_written: bool
) -> None:
    xs = X[:, :3].repeat(2, axis=0)
    loop = lambda xs, *how: rows_of(xs, *how) + 1.0
    text, other = (
        lower_to_stablehlo(tnf.compile(lambda xs, how=how: loop(xs, *how), xs)).plain_text
        for how in ((4,), (steps, is_written))
    )
    report = check_parity(import_stablehlo(text), xs, against=other, interpreter=False)
    divergence = report.first_divergence
    assert divergence is not None
    assert divergence.op.startswith(("Scan", "While")), divergence
    assert not divergence.iterations
    (line,) = re.findall(r"<stablehlo>:(\d+)", divergence.line)
    assert "stablehlo.while" in text.splitlines()[int(line) - 1]
    assert "0 ulps apart" not in str(divergence)
