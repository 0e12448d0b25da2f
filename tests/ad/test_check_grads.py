"""The gradient checker finds what is wrong, and says where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ad.rules import AD_RULES
from tenferro.errors import GradientMismatchError, InvalidConfigError
from tenferro.ops import analytic, contraction
from xla_peer import XlaExecutor

X = np.linspace(0.3, 1.7, 6).reshape(2, 3)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_right_derivatives_pass_in_every_dtype(dtype: str) -> None:
    def fn(p: Any, n: Any) -> Any:
        return {"y": tnf.sum(tnf.tanh(p["x"]) * p["x"]) / n, "n": n}

    report = tnf.check_grads(fn, ({"x": X.astype(dtype)}, 3), order=2)
    assert report.ok
    assert len(report.checks) == 6


def test_methods() -> None:
    analytic_one = tnf.check_grads(tnf.sin, (X,), order=1)
    assert [check.method for check in analytic_one.checks] == ["complex step", "adjoint identity"]
    kinked = tnf.check_grads(tnf.abs, (X,), order=1, modes=("fwd",))
    assert [check.method for check in kinked.checks] == ["central difference"]
    both = tnf.check_grads(tnf.sin, (X,), order=1, executor=XlaExecutor())
    assert "the same on cpu" in [check.method for check in both.checks]


@pytest.mark.parametrize("part", ["jvp", "transpose"])
def test_a_planted_fault_is_named(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    card: Any = analytic.Exp if part == "jvp" else contraction.DotGeneral
    rule = AD_RULES[card]
    if part == "jvp":
        wrong = replace(rule, jvp=lambda op, xs, ys, dots: (dots[0],))
    else:
        right: Any = rule.transpose
        wrong = replace(rule, transpose=lambda *a: tuple(x if x is None else -x for x in right(*a)))
    monkeypatch.setitem(AD_RULES._cells, card, wrong)

    def fn(x: Any, y: Any) -> Any:
        return tnf.sum(tnf.sin(x) @ tnf.exp(y))

    with pytest.raises(GradientMismatchError) as caught:
        tnf.check_grads(fn, (X, X.T.copy()), order=1)
    assert f"first op whose rule disagrees: {card.__name__}" in str(caught.value)
    assert "test_check_grads.py" in str(caught.value)
    if part == "jvp":
        assert "WRONG, most for argument [1]" in str(caught.value)


def test_a_wrong_custom_rule_is_found() -> None:
    @tnf.custom_vjp
    def fn(x: Any) -> Any:
        return x * x

    fn.defvjp(lambda x: (x * x, x), lambda x, y_bar: (x * y_bar,))
    with pytest.raises(AssertionError, match="custom"):
        tnf.check_grads(lambda x: tnf.sum(fn(x)), (X,), order=1, modes=("rev",), rtol=1e-6)


def test_a_branch_not_taken_gets_advice() -> None:
    with pytest.raises(GradientMismatchError, match=r"where\(ok, f\(where\(ok, x, 1\)\), 0\)"):
        tnf.check_grads(
            lambda x: tnf.where(x > 0, tnf.sqrt(x), 0.0), (np.array([-1.0, 1.0]),), order=1
        )


def test_options_are_checked() -> None:
    for options in ({"order": 0}, {"modes": ("up",)}, {"modes": ()}):
        with pytest.raises(InvalidConfigError):
            tnf.check_grads(tnf.sin, (X,), **options)
    with pytest.raises(InvalidConfigError, match="no argument"):
        tnf.check_grads(lambda x: x, (3,))
    with pytest.raises(InvalidConfigError, match="tuple"):
        tnf.check_grads(tnf.sin, X)
