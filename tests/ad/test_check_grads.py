"""`check_grads` must find wrong derivative rules, and name them in the error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ad.rules import AD_RULES
from tenferro.errors import GradientMismatchError, InvalidConfigError
from tenferro.ext.linalg import families, rules
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


def test_a_direction_is_not_the_tensor_itself() -> None:
    @tnf.custom_jvp
    def direction_of(x: Any) -> Any:
        return x / tnf.linalg.norm(x)

    @direction_of.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        ((x,), (v,)) = primals, tangents
        return direction_of(x), v - x * (
            tnf.sum(x * v) / tnf.sum(x * x)
        )  # a wrong derivative: it lacks the division by the norm

    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=4)
        with pytest.raises(GradientMismatchError):
            tnf.check_grads(direction_of, (x,), order=1, seed=seed)


def complex_matrix(m: int, n: int, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(m, n)) + 1j * generator.normal(size=(m, n))


def hermitian_part(a: Any) -> Any:
    return a + tnf.conj(a).T


def of_svd(a: Any) -> Any:
    u, _, vh = tnf.linalg.svd(a, full_matrices=False)
    return tnf.abs(tnf.sum(u + vh))


PHASE_DEPENDENT = {
    "svd": of_svd,
    "eigh": lambda a: tnf.abs(tnf.sum(tnf.linalg.eigh(hermitian_part(a))[1])),
    "eig": lambda a: tnf.real(tnf.sum(tnf.linalg.eig(a)[1])),
    "batched": lambda a: of_svd(tnf.stack([a, 2.0 * a])),
}


@pytest.mark.parametrize("name", PHASE_DEPENDENT)
def test_functions_of_phases_have_no_derivative(name: str) -> None:
    with pytest.raises(GradientMismatchError) as caught:
        tnf.check_grads(PHASE_DEPENDENT[name], (complex_matrix(3, 3),), order=1)
    text = str(caught.value)
    assert "derivatives are not defined" in text
    assert "depends on the phases of the vectors that Extension(" in text
    assert "test_check_grads.py" in text
    assert "WRONG" not in text
    assert "rule disagrees" not in text


def of_projectors(a: Any) -> Any:
    u, s, vh = tnf.linalg.svd(a, full_matrices=False)
    product = u @ ((s**2)[:, None] * vh)
    return tnf.abs(product[0, 1]) + tnf.sum(tnf.abs(u[0]) ** 4) + tnf.sum(tnf.abs(vh[0]) ** 4)


@pytest.mark.parametrize(
    "fn",
    [
        of_projectors,
        lambda a: tnf.sum(tnf.abs(tnf.linalg.eigh(hermitian_part(a))[1][0]) ** 4),
        lambda a: tnf.sum(tnf.abs(tnf.linalg.eig(a)[1][0]) ** 4),
    ],
)
def test_a_fault_beside_vectors_is_not_laid_to_them(
    fn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = complex_matrix(3, 3)
    assert tnf.check_grads(fn, (a,), order=1).ok
    wrong = replace(AD_RULES[analytic.Exp], jvp=lambda op, xs, ys, dots: (dots[0],))
    monkeypatch.setitem(AD_RULES._cells, analytic.Exp, wrong)
    with pytest.raises(GradientMismatchError, match="first op whose rule disagrees: Exp"):
        tnf.check_grads(lambda a: tnf.exp(0.1 * fn(a)), (a,), order=1)


def doubled(rule: type[Any], output: int) -> tnf.AdContext:
    """Return a context in which the rule's tangent of one output is doubled, an error that `check_grads` must find."""

    class Doubled(rule):
        family_id = getattr(families, rule.__name__.removesuffix("Rule")).family_id

        def linearize(self, *arguments: Any) -> Any:
            dots = list(super().linearize(*arguments))
            dots[output] = 2.0 * dots[output]
            return tuple(dots)

    return tnf.AdContext(tnf.ExtensionRuleSet([Doubled()]))


def of_full_svd(a: Any) -> Any:
    u, s, _ = tnf.linalg.svd(a)
    return tnf.sum(s) + tnf.sum(tnf.abs((u[:, 2:] @ tnf.conj(u[:, 2:]).T)[0]) ** 2)


@pytest.mark.parametrize("is_complex", [True, False])
@pytest.mark.parametrize(
    ("fn", "rule", "output", "shape"),
    [
        (of_projectors, rules.SvdRule, 0, (3, 2)),
        (of_projectors, rules.SvdRule, 2, (2, 3)),
        (of_full_svd, rules.SvdRule, 0, (3, 2)),
        (lambda a: tnf.sum(tnf.abs(tnf.linalg.eigh(a)[1][0]) ** 4), rules.EighRule, 1, (3, 3)),
        (lambda a: tnf.sum(tnf.abs(tnf.linalg.eig(a)[1][0]) ** 4), rules.EigRule, 1, (3, 3)),
    ],
)
def test_a_fault_of_vectors_is_laid_to_them(
    fn: Any, rule: Any, output: int, shape: Any, is_complex: bool
) -> None:
    a = complex_matrix(*shape)
    a = a if is_complex else a.real
    assert tnf.check_grads(fn, (a,), order=1).ok
    with pytest.raises(GradientMismatchError, match=r"WRONG(?s:.*)rule disagrees: Extension\("):
        tnf.check_grads(fn, (a,), order=1, context=doubled(rule, output))


def test_a_point_beside_a_kink_is_no_fault() -> None:
    x = np.array([0.5, -0.23415, -0.23415 + 1.6e-5, 1.0])
    tnf.check_grads(tnf.sort, (x,), order=2)
