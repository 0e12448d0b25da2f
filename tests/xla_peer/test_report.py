"""Parity reports must show the element that is closest to its bound.

If a bound is not informative, they must show a text.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from xla_peer import check_parity
from xla_peer.json_values import json_value
from xla_peer.parity.comparison import OutputParity, compare
from xla_peer.parity.report import ParityReport


def compared(native: Any, other: Any, limit: Any) -> OutputParity:
    native, other = np.asarray(native), np.asarray(other)
    return compare("y", native, other, np.broadcast_to(np.asarray(limit, float), native.shape))


def report_of(*outputs: OutputParity) -> ParityReport:
    return ParityReport("f", "cpu", outputs)


def row(output: OutputParity) -> dict[str, str]:
    report = report_of(output)
    return dict(zip(report.HEADER, report.rows()[0], strict=True))


def test_the_element_is_that_of_the_largest_share() -> None:
    """The report must show element 2, which is closest to its bound, although element 0 differs more."""
    output = compared([1.0, 2.0, 4.0], [1.5, 2.0, 4.1], [2.0, 2.0, 0.125])
    assert output.worst == (2,)
    assert output.share == pytest.approx(0.1 / 0.125)
    assert (output.native, output.xla) == (4.0, 4.1)
    assert output.allowed == pytest.approx(0.125 / np.spacing(4.0))
    assert output.ulps == pytest.approx(0.1 / np.spacing(4.0))
    shown = row(output)
    assert (shown["of its bound"], shown["at"]) == ("80%", "[2]")
    assert (shown["native"], shown["other"], shown["notes"]) == ("4.0", "4.1", "ok")


def test_the_distance_relative_to_the_norm() -> None:
    output = compared([[3.0, 0.0], [0.0, 4.0]], [[3.0, 0.0], [0.3, 4.4]], 1.0)
    assert output.of_norm == pytest.approx(0.5 / 5.0)
    assert row(output)["of the norm"] == "1.0e-01"
    assert compared([1e300, 1e300], [1e300, 1.001e300], 1e299).of_norm == pytest.approx(
        7.07e-4, rel=1e-2
    )
    assert compared([0.0, 0.0], [0.0, 1.0], 0.0).of_norm == np.inf
    assert compared([0.0], [0.0], 0.0).of_norm == 0.0


def test_a_bound_that_says_nothing_is_no_number() -> None:
    limit = [np.finfo(float).max, 1e-15, 1e-15]
    output = compared([0.5, 1.0, 2.0], [0.7, 1.0, 2.0], limit)
    assert not output.ok
    assert output.verdict == "not decidable here"
    assert (output.undecided, output.share) == (1, 0.0)
    shown = row(output)
    assert shown["of its bound"] == "not decidable"
    assert shown["notes"] == "1 not decidable: any value would do"
    assert "e+30" not in str(report_of(output))
    decided = compared([0.5, 1.0, 2.0], [0.7, 1.0, 2.0 + 1e-15], limit)
    assert (decided.worst, decided.undecided) == ((2,), 1)


def test_equal_elements_need_no_decision() -> None:
    output = compared([0.0, 1.0], [0.0, 1.0], np.finfo(float).max)
    assert (output.undecided, row(output)["of its bound"], row(output)["notes"]) == (
        0,
        "equal",
        "ok",
    )


@pytest.mark.parametrize(
    ("native", "other", "limit", "words"),
    [
        ([1.0], [2.0], 0.0, "none allowed"),
        ([1.0], [np.nan], 0.5, "beyond any"),
        ([1], [2], 0.0, "none allowed"),
        ([1.0], [1.0 + 1e-9], 1e-3, "< 1%"),
        ([1.0], [2.0], 0.25, "400%"),
        ([1.0], [2.0], 1e-3, "1e+03 times"),
        (np.zeros(0), np.zeros(0), 0.0, "empty"),
    ],
)
def test_shares_in_words(native: Any, other: Any, limit: float, words: str) -> None:
    assert row(compared(native, other, limit))["of its bound"] == words


def test_every_form_says_the_same() -> None:
    outputs = [
        compared(np.array([1 + 2j, 3.0]), np.array([1 + 2j, 3.5]), 1.0),
        compared([np.inf, 1.0], [np.nan, 1.0], 0.0),
        compared(np.float32([0.37717244]), np.float32([0.3771724]), 1.0),
        compared([True, False], [True, True], 0.0),
    ]
    report = report_of(*outputs)
    loaded = json.loads(report.to_json())
    assert not loaded["ok"]
    first, second, third, fourth = loaded["outputs"]
    assert (first["native"], first["xla"], first["share"]) == ([3.0, 0.0], [3.5, 0.0], 0.5)
    assert (second["native"], second["xla"], second["share"]) == ("inf", "nan", "inf")
    assert third["native"] == float(np.float32(0.37717244))
    assert (fourth["native"], fourth["xla"]) == (False, True)
    assert "np." not in report.to_json()
    assert "np." not in str(report)
    for cells in report.rows():
        for cell in filter(None, cells):
            assert cell.replace("<", "&lt;").replace("'", "&#x27;") in report.to_html()


def test_json_has_no_form_for_objects() -> None:
    with pytest.raises(TypeError, match=r"object .* has no form in JSON"):
        json_value({"x": object()})


def test_integers_that_differ_must_be_equal_and_programs_have_no_bound() -> None:
    x = np.arange(3)
    report = check_parity(lambda x: x + 1, x, against=lambda x: x + 2, interpreter=False)
    assert "native 1, other 2, must be equal; 3 of 3 elements are beyond the bound" in str(report)
    floats = check_parity(lambda x: x + 1.0, x * 1.0, against=lambda x: x + 2.0, interpreter=False)
    divergence = str(floats.first_divergence)
    assert "ulps apart" in divergence
    assert "allowed" not in divergence
    assert "only the native one computes its result" in divergence
