"""Derivatives along curves must equal Taylor series that mpmath computes."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import ArityError, DTypeError, ShapeError

CURVE = [0.7, 0.3, -0.4, 0.9, 0.2, -0.5]
"""Value of the curve x(t) at t = 0, followed by its derivatives there."""

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exp": (tnf.exp, mpmath.exp),
    "log": (tnf.log, mpmath.log),
    "sin": (tnf.sin, mpmath.sin),
    "tan": (tnf.tan, mpmath.tan),
    "tanh": (tnf.tanh, mpmath.tanh),
    "logistic": (tnf.nn.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "sqrt": (tnf.sqrt, mpmath.sqrt),
    "erf": (tnf.special.erf, mpmath.erf),
    "asin": (tnf.asin, mpmath.asin),
    "cosh": (tnf.cosh, mpmath.cosh),
    "quotient": (lambda x: x / (1 + x * x), lambda x: x / (1 + x * x)),
    "power": (lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5)),
    "nested": (lambda x: tnf.tanh(tnf.tanh(3 * x)), lambda x: mpmath.tanh(mpmath.tanh(3 * x))),
    "scan": (
        lambda x: tnf.scan(lambda c, y: (tnf.sin(c * x), None), x, length=2)[0],
        lambda x: mpmath.sin(mpmath.sin(x * x) * x),
    ),
}


def curve_at(t: Any) -> Any:
    return sum((mpmath.mpf(x) * t**k / factorial(k) for k, x in enumerate(CURVE)), mpmath.mpf(0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_along_a_curve(name: str) -> None:
    fn, definition = FUNCTIONS[name]
    order = 3 if name == "scan" else 5
    y, terms = tnf.jet(fn, (CURVE[0],), (CURVE[1 : order + 1],))
    with mpmath.workdps(60):
        coefficients = mpmath.taylor(lambda t: definition(curve_at(t)), 0, order)
    wanted = [float(c * factorial(k)) for k, c in enumerate(coefficients)]
    np.testing.assert_allclose([y, *terms], wanted, rtol=1e-11)


@pytest.mark.parametrize("x", [20.0, -20.0, 400.0, 0.0])
def test_derivatives_of_saturated_functions_keep_their_digits(x: float) -> None:
    _, terms = tnf.jet(tnf.tanh, (x,), ([1.0, 0.0, 0.0],))
    with mpmath.workdps(600):
        wanted = [float(mpmath.diff(mpmath.tanh, x, k)) for k in (1, 2, 3)]
    np.testing.assert_allclose(terms, wanted, rtol=1e-13, atol=1e-300)


def test_trees_and_several_arguments() -> None:
    def fn(p: Any, z: Any) -> Any:
        return {"product": p["a"] * z, "count": tnf.sum(p["a"] > 0)}, p["b"]

    p, dp = {"a": np.array([2.0, 3.0]), "b": 1.0}, {"a": np.array([1.0, 0.0]), "b": 4.0}
    zero = {"a": np.zeros(2), "b": 0.0}
    (y, b), (terms, b_terms) = tnf.jet(fn, (p, 5.0), ([dp, zero], [1.0, 2.0]))
    np.testing.assert_allclose(y["product"], [10, 15])
    np.testing.assert_allclose(terms["product"], [[7, 3], [6, 6]])
    assert [int(term) for term in terms["count"]] == [0, 0]
    np.testing.assert_allclose(b_terms, [4, 0])
    assert b == 1


def test_without_terms_it_is_the_value() -> None:
    y, terms = tnf.jet(tnf.exp, (0.0,), ([],))
    assert y == 1
    assert terms == []


def test_it_is_traced_differentiated_and_batched() -> None:
    def third(x: Any) -> Any:
        return tnf.jet(lambda x: tnf.sin(2 * x), (x,), ([tnf.ones_like(x), 0 * x, 0 * x],))[1][2]

    x = np.array([0.3, 0.8])
    np.testing.assert_allclose(tnf.jit(third)(x), -8 * np.cos(2 * x), rtol=1e-13)
    np.testing.assert_allclose(
        tnf.grad(lambda x: tnf.sum(third(x)))(x), 16 * np.sin(2 * x), rtol=1e-13
    )
    np.testing.assert_allclose(tnf.vmap(third)(x), -8 * np.cos(2 * x), rtol=1e-13)


def test_custom_rules_hold_at_every_order() -> None:
    @tnf.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda primals, dots: (cube(primals[0]), 30 * primals[0] ** 2 * dots[0]))
    _, terms = tnf.jet(cube, (2.0,), ([1.0, 0.0, 0.0],))
    np.testing.assert_allclose(terms, [120, 120, 60])


def test_values_are_shared_between_orders() -> None:
    def along(x: Any) -> Any:
        return tnf.jet(lambda x: tnf.exp(tnf.sin(x)), (x,), ([x, x, x, x],))

    names = [i.op.name for i in tnf.compile(along, np.ones(3)).instructions]
    assert [names.count(name) for name in ("Exp", "Sin", "Cos")] == [1, 1, 1]
    twice = tnf.compile(tnf.jacfwd(tnf.jacfwd(lambda x: tnf.sum(tnf.exp(x) * x))), np.ones(3))
    assert [i.op.name for i in twice.instructions].count("Exp") == 1


def test_refusals() -> None:
    with pytest.raises(ArityError, match="2 primals and 1 series"):
        tnf.jet(tnf.add, (1.0, 2.0), ([1.0],))
    with pytest.raises(ArityError, match="different lengths"):
        tnf.jet(tnf.add, (1.0, 2.0), ([1.0], [1.0, 2.0]))
    with pytest.raises(ArityError, match="series"):
        tnf.jet(tnf.sin, (1.0,), (1.0,))
    with pytest.raises(ShapeError, match="term 2 of series"):
        tnf.jet(tnf.sin, (np.ones(2),), ([np.ones(2), np.ones(3)],))
    with pytest.raises(DTypeError, match="only float and complex"):
        tnf.jet(tnf.sin, (1,), ([1.0],))
