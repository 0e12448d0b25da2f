"""Programs that are lowered to StableHLO and imported again must have the derivatives of the original programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from tests.ad.cases import Case
from tests.ad.test_rules import WIDE, cases, direction_like

CASES = [
    case
    for case in cases(WIDE, 2)
    if case.is_smooth
    and all([x.size for x in case.primals])
    and not case.sample.op.name.startswith("Dynamic")
]


def read_again(program: tnf.GraphProgram) -> Any:
    """Lower a program, import its text, and return the imported program as a function."""
    program = import_stablehlo(lower_to_stablehlo(program).text, trusted=True)
    return lambda *xs: tuple(tnf.tree.leaves(program(*xs)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_op_keeps_its_derivatives(case: Case) -> None:
    fn = read_again(tnf.compile(case.fn, *case.primals))
    x_dots = [direction_like(x, 1) for x in case.primals]
    y, y_dots = tnf.jvp(case.fn, case.primals, x_dots)
    y_bars = tuple(direction_like(np.asarray(leaf), 2) for leaf in y)
    wanted = [*y_dots, *tnf.vjp(case.fn, *case.primals)[1](y_bars)]
    derivatives = [*tnf.jvp(fn, case.primals, x_dots)[1], *tnf.vjp(fn, *case.primals)[1](y_bars)]
    for read, own in zip(derivatives, wanted, strict=True):
        np.testing.assert_allclose(
            read, own, rtol=1e-6, atol=1e-9 * (1 + np.abs(own).max(initial=0.0))
        )


@pytest.mark.parametrize("name", ["det", "slogdet", "trace", "diagonal"])
def test_a_diagonal_keeps_its_derivatives(name: str) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    functions: Any = tnf.linalg if name in ("det", "slogdet") else tnf
    fn = lambda x: tnf.tree.leaves(getattr(functions, name)(x))[-1]
    read = read_again(tnf.compile(fn, x))
    gradient, wanted = (
        tnf.grad(lambda x, f=f: tnf.sum(f(x)))(x) for f in (lambda x: read(x)[0], fn)
    )
    np.testing.assert_allclose(gradient, wanted, rtol=1e-13)


def test_zeros_of_the_cotangent_have_slopes() -> None:
    """The derivative of polygamma(2, x) must be right where the function cot(pi x) is zero.

    The reflection formula, evaluated for all x, contains cot(pi x). It is zero at -1/2, with which positive x are
    replaced in the formula.
    """
    x = np.array([-0.5, -1.5, 1.0, 2.0])
    fn = lambda x: tnf.polygamma(2, x)
    read = read_again(tnf.compile(fn, x))
    gradient, wanted = (
        tnf.grad(lambda x, f=f: tnf.sum(f(x)))(x) for f in (lambda x: read(x)[0], fn)
    )
    np.testing.assert_allclose(gradient, wanted, rtol=1e-12)
