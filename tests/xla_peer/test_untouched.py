"""Outcomes of decisions that the given arguments never cause.

A search must find arguments that cause them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.errors import InvalidConfigError
from xla_peer import check_parity
from xla_peer.parity.untouched import reaching, untouched

X = np.arange(4.0)


def sides(fn: Any, *arrays: Any) -> list[tuple[str, str]]:
    program = tnf.compile(fn, *arrays)
    return [(each.op.partition("(")[0].strip(), each.side) for each in untouched(program, arrays)]


def test_choices_that_are_reached_are_not_listed() -> None:
    assert sides(lambda x: tnf.where(x < 2, x, x * 2), X) == []
    assert sides(lambda x: tnf.clip(x, 1, 2), X) == []
    assert sides(lambda x: tnf.maximum(x, 1.5), X) == []
    # The predicate is constant.
    assert sides(lambda x: tnf.where(np.arange(4) > 9, x, 1.0), X) == []


def test_choices_with_a_side_that_is_not_reached() -> None:
    assert sides(lambda x: tnf.where(x < 9, x, x * 2), X) == [("Compare", "is never false")]
    assert sides(lambda x: tnf.where(x > 9, x, x * 2), X) == [("Compare", "is never true")]
    assert sides(lambda x: tnf.clip(x, 1, 9), X) == [("Clamp", "never meets its upper bound")]
    assert sides(lambda x: tnf.minimum(x, 9.0), X) == [
        ("Minimum", "never takes its second operand")
    ]
    assert sides(lambda x: tnf.cond(tnf.sum(x) > 99, tnf.sin, tnf.cos, x), X) == [
        ("Cond", "never takes branch 1")
    ]
    loop = lambda x: tnf.while_loop(lambda c: c[0] > 9, lambda c: c / 2, x)
    assert sides(loop, X) == [("While", "never runs its body")]


def test_every_iteration_of_a_loop_counts() -> None:
    def body(carry: Any, t: Any) -> Any:
        return tnf.where(carry > 5, carry / 3, carry * 2), t

    def fn(x: Any) -> Any:
        return tnf.scan(body, x, np.arange(3.0))[0]

    assert sides(fn, X) == []
    (one,) = untouched(tnf.compile(fn, X), [X * 0.1])
    assert (one.side, one.place.partition(" at ")[0]) == ("is never true", "Scan")
    assert "test_untouched.py" in one.line


def test_an_imported_choice_has_its_name_in_the_text() -> None:
    text = lowering.lower_to_stablehlo(tnf.compile(lambda x: tnf.minimum(x, 9.0), X)).plain_text
    (one,) = untouched(lowering.import_stablehlo(text), [X])
    assert one.name.startswith("%")
    assert f"{one.name} = stablehlo.minimum" in text
    assert str(one).startswith(f"{one.name} = Minimum")


def clipped(x: Any) -> Any:
    return tnf.where(x > 700.0, x * 0.5, tnf.minimum(x, 30.0))


def test_the_search_reaches_sides_and_is_the_same_again() -> None:
    program = tnf.compile(clipped, X)
    assert len(untouched(program, [X])) == 2
    runs = [list(reaching(program, [X], 40, seed=3)) for _ in range(2)]
    assert {each.side for each, _ in runs[0]} == {"is never true", "never takes its second operand"}
    for (_, one), (_, other) in zip(*runs, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    assert list(reaching(program, [X], 0)) == []


def test_a_fault_that_only_the_search_reaches() -> None:
    def faulty(x: Any) -> Any:
        return np.where(x > 700.0, x * 0.25, np.minimum(x, 30.0))

    missed = check_parity(clipped, X, against=faulty, interpreter=False)
    assert missed.ok
    assert "is never true" in str(missed)
    report = check_parity(clipped, X, against=faulty, interpreter=False, search=40, seed=3)
    assert not report.ok
    assert report.notes[0].startswith("on arguments of the search")
    assert report.leaves[0].max() > 700
    (honest,) = (check_parity(clipped, X, against=clipped, interpreter=False, search=40, seed=3),)
    assert honest.ok
    assert honest.untouched == ()
    assert "the paths agree there" in honest.notes[-1]
    with pytest.raises(InvalidConfigError, match="search must be a number"):
        check_parity(clipped, X, search=-1)
