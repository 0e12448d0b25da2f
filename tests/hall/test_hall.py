"""Each report that still happens is judged wrong, and each that does not is accepted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.hall.reports import ELSEWHERE, REPORTS, Report, visit
from tools.parity_score import hall


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name.replace(" ", "-"))
def test_reports(report: Report) -> None:
    native, happens, parity = visit(report)
    assert native.dtype == report.expected.dtype
    np.testing.assert_allclose(native, report.expected, rtol=1e-6)
    is_wrong = any(output.verdict.startswith("wrong") for output in parity.outputs)
    assert is_wrong == (happens and not report.rounding), str(parity)
    if is_wrong:
        assert parity.first_divergence is not None


def test_the_section_has_every_report_and_each_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[report.link, report.words, "wrong", "wrong, at Log"] for report in REPORTS]
    versions = {sys.executable: "1.0", __file__: "0.5"}
    monkeypatch.setattr(hall, "visited_by", lambda python: (versions[python], rows))
    text = hall.hall_section(oldest=Path(__file__))
    assert "| jaxlib 1.0 | jaxlib 0.5 |" in text
    assert text.count("| wrong: wrong, at Log | wrong: wrong, at Log |") == len(REPORTS)
    assert all(name in text for name, _ in ELSEWHERE)
    assert "jaxlib 0.5" not in hall.hall_section(oldest=Path("no environment"))
