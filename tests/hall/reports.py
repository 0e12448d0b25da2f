"""Public reports of miscompilations. They are run natively and by XLA, and judged by the parity check."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo
from tenferro.errors import PeerEndedError
from tenferro.types import flatten
from xla_peer import ParityReport, check_parity
from xla_peer.hall import REPORTS, Report
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity.contenders import original_outputs

__all__ = ["REPORTS", "Report", "Visit", "visit"]


class Visit(NamedTuple):
    """Outcome of running a report of a miscompilation with the installed jaxlib.

    native:     the native result
    state:      "right", "wrong", or the signal that ended XLA's process
    parity:     the verdict of the parity check; None if XLA returned no values, or if its result is right and the
                report is about another compiler
    """

    native: Any
    state: str
    parity: ParityReport | None


def visit(report: Report, peer: IsolatedExecutor) -> Visit:
    """Run a report natively and by XLA, and judge XLA's result.

    XLA runs in a child process, because it may crash.
    """
    if isinstance(report.function, str):
        program = import_stablehlo(report.function)
    else:
        program = tnf.compile(report.function, *report.arrays)
    with np.errstate(all="ignore"):
        native = np.asarray(flatten(program.run(*report.arrays))[0][0])
    try:
        written = original_outputs(program, report.arrays, peer)
        other = peer.run(program, *report.arrays) if written is None else written[0]
    except PeerEndedError as error:
        return Visit(native, f"ended by {error.ending}", None)
    is_right = np.allclose(np.asarray(other), report.expected, rtol=1e-6, atol=0, equal_nan=True)
    if is_right and report.compiler != "XLA":
        return Visit(native, "right", None)
    parity = check_parity(program, *report.arrays, executor=peer, interpreter=False)
    return Visit(native, "right" if is_right else "wrong", parity)
