"""Each report that still happens is judged wrong, and each that does not is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hall.reports import REPORTS, Report, visit


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name.replace(" ", "-"))
def test_reports(report: Report) -> None:
    native, happens, parity = visit(report)
    assert native.dtype == report.expected.dtype
    np.testing.assert_allclose(native, report.expected, rtol=1e-6)
    is_wrong = any(output.verdict.startswith("wrong") for output in parity.outputs)
    assert is_wrong == (happens and not report.rounding), str(parity)
    if is_wrong:
        assert parity.first_divergence is not None
