"""Bounds of special functions must include XLA's errors near zeros, poles and overflow.

XLA's expansions lose digits there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from xla_peer import XlaExecutor, check_parity, error_bound
from xla_peer.parity.comparison import explained


class Point(NamedTuple):
    """An op whose expansion by XLA is inaccurate at some arguments.

    The record has the op, its exact function, these arguments, and a relative error that must be rejected.
    """

    op: Any
    exact: Any
    at: tuple[float, ...]
    fault: float


def log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


POINTS = {
    "sinh near overflow": Point(an.Sinh(), mpmath.sinh, (-709.74, 700.3, 710.4), 1e-11),
    "cosh near overflow": Point(an.Cosh(), mpmath.cosh, (-709.74, 700.3, 710.4), 1e-11),
    "sinh in the middle": Point(an.Sinh(), mpmath.sinh, (0.5, 1.5, -3.0), 1e-12),
    "log gamma near zeros": Point(an.Lgamma(), log_gamma, (2.0000001594694616, -2.457024739763317), 1e-3),
    "log gamma elsewhere": Point(an.Lgamma(), log_gamma, (0.4, 5.5, 40.0), 1e-11),
    "digamma near its zero": Point(an.Digamma(), mpmath.digamma, (1.4616321443460218,), 1e-2),
    "digamma near a pole": Point(an.Digamma(), mpmath.digamma, (-26.999999980145514,), 1e-2),
    "log1p near -0.41": Point(an.Log1p(), mpmath.log1p, (-0.4130055701845059, -0.4083030459), 1e-12),
    "atanh near 0.41": Point(an.Atanh(), mpmath.atanh, (0.4130103497, -0.4137067276943609), 1e-12),
    "the inverse of erf near 1": Point(an.ErfInv(), mpmath.erfinv, (0.9999999922, 0.99999983930), 1e-6),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS)
def test_expansions_are_within_the_bound_and_faults_are_not(name: str) -> None:
    op, exact, at, fault = POINTS[name]
    x = np.array(at)

    def fn(x: Any) -> Any:
        return apply_one(op, x)

    assert check_parity(fn, x, interpreter=False).ok
    with mpmath.workdps(40):
        truth = np.array([float(exact(mpmath.mpf(v))) for v in at])
    assert check_parity(fn, x, against=lambda x: truth, interpreter=False).ok
    wrong = check_parity(fn, x, against=lambda x: truth * (1 + fault), interpreter=False)
    assert wrong.outputs[0].outside == len(at)


@pytest.mark.parametrize("name", POINTS)
def test_expansions_are_within_the_proven_bound(name: str) -> None:
    op, exact, at, _ = POINTS[name]
    x = np.array(at)
    program = tnf.compile(lambda x: apply_one(op, x), x)
    bound = error_bound(program, x)
    with mpmath.workdps(40):
        truth = np.array([float(exact(mpmath.mpf(v))) for v in at])
    for results in (truth, np.asarray(XlaExecutor().run(program, x))):
        assert (np.abs(results - np.asarray(bound.values)) <= np.asarray(bound.radii)).all()


def test_a_run_that_leaves_an_element_alone_is_no_side_of_a_decision() -> None:
    """An element that all random runs move is no decision.

    This must hold even if a further run leaves it unchanged. An element that jumps in one of four random runs is a
    decision.
    """
    native = np.array([1e-6])
    drawn = [native + away for away in (1e-11, -1e-11, 2e-11, -1.5e-11)]
    limit = explained(native, [native, *drawn, native], drawn=4).limit
    assert limit[0] >= 2e-11
    tipped = explained(native, [native, native, native, native, native + 1e-3], drawn=4)
    assert tipped.limit[0] < 1e-12
    assert tipped.alternatives.values.tolist() == [1e-6 + 1e-3]


def test_a_decision_that_tips_in_every_random_run_is_one_where_there_are_any() -> None:
    native = np.array([1.0])
    runs = [native, *[native + away for away in (0.3, -0.2, 0.4, -0.1)], native]
    assert explained(native, runs, drawn=4).limit[0] < 1e-9
    assert explained(native, runs, drawn=4, flips=False).limit[0] >= 0.4


def test_beside_zeros_alone_no_movement_says_that_a_decision_tipped() -> None:
    """If every random run moves a value near zero, no decision has flipped.

    For example, lgamma(2) is such a value.
    """
    native = np.zeros(1)
    runs = [native, *[native + away for away in (3e-16, -2e-16, 4e-16, -1e-16)], native]
    assert explained(native, runs, drawn=4).limit[0] >= 4e-16


def test_a_term_left_out_behind_a_tie_is_wrong() -> None:
    """Each point is assigned to its nearest centre.

    Rounding may flip ties, but a missing term must still be found.
    """
    rng = np.random.default_rng(0)
    points, centres = rng.standard_normal((20, 2)), rng.standard_normal((3, 2))

    def counts(x: Any, c: Any, both: bool) -> Any:
        far = tnf.sum(x * x, axis=1, keepdims=True) + tnf.sum(c * c, axis=1) - 2 * x @ c.T
        near = tnf.astype(far == tnf.min(far, axis=1, keepdims=True), "float64")
        number = tnf.sum(near, axis=0)
        return (near.T @ x) / tnf.expand_dims(number + number if both else number, 1)

    right, wrong = (
        tnf.compile(lambda x, c, both=both: counts(x, c, both), points, centres)
        for both in (True, False)
    )
    report = check_parity(right, points, centres, against=wrong, interpreter=False)
    assert report.outputs[0].verdict == "wrong: program"


def test_nothing_is_left_of_what_a_whole_number_was_rounded_from() -> None:
    """A `round` removes earlier rounding errors.

    After it, atanh(1) must be exactly infinite.
    """
    x = np.array([0.97, 0.3])

    def fn(x: Any) -> Any:
        return tnf.atanh(tnf.round(tnf.sin(x * 1.5)))

    assert check_parity(fn, x, interpreter=False).ok
    wrong = check_parity(fn, x, against=lambda x: np.array([np.nan, 0.0]), interpreter=False)
    assert wrong.outputs[0].outside == 1


def test_bits_of_an_integer_are_not_flushed() -> None:
    """The bits of the integer 1 are those of a subnormal float64.

    A bitcast must keep them: only arithmetic may flush to zero.
    """
    n = np.array([1, 0, 3], np.int64)

    def fn(n: Any) -> Any:
        return tnf.reshape(apply_one(el.BitcastConvert(tnf.DType.F64), n), (3, 1))

    assert check_parity(fn, n, interpreter=False).outputs[0].verdict == "equal"
    wrong = check_parity(fn, n, against=lambda n: fn(n * 0), interpreter=False)
    assert wrong.outputs[0].outside == 2
    flushed = check_parity(lambda n: fn(n) * 1.5, n, interpreter=False)
    assert flushed.outputs[0].verdict == "peer departs"
