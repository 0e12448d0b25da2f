"""Each report that still happens is judged wrong, and each that does not is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.hall.reports import ELSEWHERE, REPORTS, Report, visit
from tools.parity_score import hall
from xla_peer.isolated import IsolatedExecutor
from xla_peer.known_faults import KNOWN_FAULTS, known_fault
from xla_peer.peer_process import PeerProcess


@pytest.fixture(scope="module")
def peer() -> Iterator[IsolatedExecutor]:
    with IsolatedExecutor() as executor:
        yield executor


def is_excluded(report: Report) -> bool:
    """Whether jaxlibs with this fault are excluded."""
    return any(report.name.split()[1] in fault for fault in KNOWN_FAULTS.values())


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name.replace(" ", "-"))
def test_reports(report: Report, peer: IsolatedExecutor) -> None:
    native, state, parity = visit(report, peer)
    assert native.dtype == report.expected.dtype
    np.testing.assert_allclose(native, report.expected, rtol=1e-6)
    if is_excluded(report) and not known_fault("cpu"):
        assert state == "right"
    if parity is None:
        assert state.startswith("ended by SIG")
        return
    is_wrong = any(output.verdict.startswith("wrong") for output in parity.outputs)
    assert is_wrong == (state == "wrong" and not report.rounding), str(parity)
    if is_wrong:
        assert parity.first_divergence is not None


def test_a_report_that_ends_the_process_of_xla() -> None:
    process = PeerProcess("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with IsolatedExecutor(process=process) as executor:
        visited = visit(REPORTS[0], executor)
    assert visited[1:] == ("ended by SIGSEGV", None)


def test_each_known_fault_is_in_the_hall() -> None:
    names = [report.name.split()[1] for report in REPORTS if is_excluded(report)]
    assert set(names) == {"39103", "39257"}


def test_the_section_has_every_report_and_each_jaxlib(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [[report.link, report.words, "wrong: wrong, at Log"] for report in REPORTS]
    versions = {"one": "0.10.2", "other": "0.9.2"}
    monkeypatch.setattr(hall, "visited_by", lambda python: (versions[python], rows))
    text = hall.hall_section(["one", "other"])
    assert "| jaxlib 0.9.2 | jaxlib 0.10.2 |" in text
    assert text.count("| wrong: wrong, at Log | wrong: wrong, at Log |") == len(REPORTS)
    assert all(name in text for name, _ in ELSEWHERE)
    page = tmp_path / "verdicts.md"
    page.write_text(f"# Verdicts\n\nAs they are.\n\n{hall.TITLE}\nold\n")
    monkeypatch.setattr(hall, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["hall", "--write", "one", "other"])
    hall.main()
    assert page.read_text() == f"# Verdicts\n\nAs they are.\n\n{text}"
