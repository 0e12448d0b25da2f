"""The parity check must call XLA wrong on reports that still occur, and accept reports that have been fixed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.hall.reports import REPORTS, Report, visit
from xla_peer.hall import ELSEWHERE
from xla_peer.isolated import IsolatedExecutor
from xla_peer.known_faults import KNOWN_FAULTS, known_fault
from xla_peer.peer_process import PeerProcess


@pytest.fixture(scope="module")
def peer() -> Iterator[IsolatedExecutor]:
    with IsolatedExecutor() as executor:
        yield executor


def is_excluded(report: Report) -> bool:
    """Return whether tenferro rejects all versions of jaxlib that have this fault."""
    return any(report.name.split()[1] in fault for fault in KNOWN_FAULTS.values())


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name.replace(" ", "-"))
def test_reports(report: Report, peer: IsolatedExecutor) -> None:
    native, state, parity = visit(report, peer)
    assert native.dtype == report.expected.dtype
    np.testing.assert_allclose(native, report.expected, rtol=1e-6)
    if is_excluded(report) and not known_fault("cpu"):
        assert state == "right"
    if parity is None:
        assert state.startswith("ended by SIG") or (state == "right" and report.compiler != "XLA")
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


def test_there_are_reports_of_several_compilers() -> None:
    assert len(REPORTS) >= 60
    assert len({report.compiler for report in REPORTS}) >= 4
    names = [(report.name, report.words) for report in REPORTS]
    assert len(set(names)) == len(names)
    assert not any(name in report.name for report in REPORTS for name, _ in ELSEWHERE)
