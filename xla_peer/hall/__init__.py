"""Test cases for compilers: programs that reproduce public reports of wrong values and crashes, with right values."""

from xla_peer.hall.inductor import INDUCTOR
from xla_peer.hall.iree import IREE
from xla_peer.hall.llvm import LLVM
from xla_peer.hall.onnxruntime import ONNXRUNTIME
from xla_peer.hall.report import Report
from xla_peer.hall.searches import ELSEWHERE, SEARCHES
from xla_peer.hall.tvm import TVM
from xla_peer.hall.xla import XLA

__all__ = ["ELSEWHERE", "REPORTS", "SEARCHES", "Report"]

REPORTS: tuple[Report, ...] = (*XLA, *IREE, *INDUCTOR, *ONNXRUNTIME, *TVM, *LLVM)
"""All reports, in the order of tables."""
