"""The XLA peer: programs through StableHLO and PJRT, and the question whether both paths agree."""

from xla_peer.executor import XlaExecutor
from xla_peer.parity import ParityReport, check_parity

__all__ = ["ParityReport", "XlaExecutor", "check_parity"]
