"""If native and PJRT disagree, the definition of the function must decide which of the two is wrong."""

from __future__ import annotations

import sys
from typing import Any

import mpmath
import numpy as np
import pytest

import lowering.lower
import tenferro as tnf
from lowering import lower_to_stablehlo
from lowering.emit import EMITTERS
from tenferro.definitions import DEFINITIONS
from tenferro.dispatch import apply_one
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from xla_peer import check_parity, judge
from xla_peer.parity.comparison import compare
from xla_peer.parity.definitions import by_definition
from xla_peer.parity.divergence import Divergence
from xla_peer.parity.opinion import NATIVE, PEER

X = np.array([0.3, 0.7])
SECOND = (an.Atan2, el.Power)


def parting(op: Any, native: Any, peer: Any, *arrays: Any) -> Divergence:
    program = tnf.compile(lambda *xs: apply_one(op, *xs), *arrays)
    output = compare(program.output_names[0], native, peer, np.zeros(native.shape))
    return Divergence("", "", output, "", program, arrays)


@pytest.mark.parametrize("card", DEFINITIONS, ids=lambda card: card.__name__)
def test_the_side_that_is_off_is_wrong(card: Any) -> None:
    op = card(2) if card is an.Polygamma else card()
    x = X + 1 if card is an.Acosh else X
    arrays = (x, x[::-1].copy()) if card in SECOND else (x,)
    native = np.asarray(tnf.compile(lambda *xs: apply_one(op, *xs), *arrays).run(*arrays))
    off = native * (1 + 1e-9)
    for pair, side in (((native, off), PEER), ((off, native), NATIVE)):
        opinion = by_definition(parting(op, *pair, *arrays))
        assert opinion is not None
        assert opinion.alone == side, opinion.words
    both = by_definition(parting(op, native * (1 - 1e-9), off, *arrays))
    assert both is not None
    assert not both.alone


def test_what_no_definition_decides() -> None:
    ones = np.ones(1)
    assert by_definition(parting(an.Lgamma(), ones, 2 * ones, np.zeros(1))) is None
    assert by_definition(parting(an.Exp(), ones, 2 * ones, np.array([np.inf]))) is None
    assert by_definition(parting(an.Log(), ones, 2 * ones, -ones)) is None
    assert by_definition(parting(el.Add(), ones, 2 * ones, ones, ones)) is None
    assert by_definition(parting(an.Exp(), ones + 0j, 2j * ones, ones + 0j)) is None


def test_overflow_is_right_where_the_exact_value_is_that_large() -> None:
    x = np.array([800.0])
    opinion = by_definition(parting(an.Exp(), np.array([np.inf]), np.array([1e308]), x))
    assert opinion is not None
    assert opinion.alone == PEER


def test_without_mpmath_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)
    opinion = by_definition(parting(an.Exp(), np.exp(X), np.exp(X) + 1, X))
    assert opinion is not None
    assert not opinion.alone
    assert "mpmath is not installed" in opinion.words


def test_the_report_blames_by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the emitter of erf is wrong, the report must blame it.

    The reference interpreter runs the same wrong text, so only the definition can tell.
    """
    wrong = {an.Erf: lambda op, w, x: w.op("tanh", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    report = check_parity(lambda x: tnf.erf(x) * 2, X, interpreter=False)
    assert report.outputs[0].verdict == "wrong: cpu"
    divergence = report.first_divergence
    assert divergence is not None
    assert divergence.output.worst is not None
    at = divergence.output.worst[0]
    with mpmath.workdps(30):
        exact = mpmath.nstr(mpmath.erf(X[at]), 12)
    assert f"by its definition Erf at {X[at]} is {exact}" in str(report)


def test_judge_knows_by_definition_which_of_two_opinions_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = {an.Sin: lambda op, w, x: w.op("tanh", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    program = tnf.compile(lambda x: tnf.sin(x) + 1, X)
    report = judge(program, [X], [np.sin(X) + 1], [np.tanh(X) + 1], interpreter=False)
    assert report.outputs[0].verdict == "wrong: b"
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Sin")
    assert lower_to_stablehlo(program).plain_text.count("tanh") == 1
