"""Parity check: comparison of native results with those of another compiler, and search for the first wrong op."""

from xla_peer.parity.check import check_parity
from xla_peer.parity.comparison import OutputParity, Tolerance
from xla_peer.parity.decisions import Decision
from xla_peer.parity.divergence import Divergence
from xla_peer.parity.error_bound import ErrorBound, error_bound
from xla_peer.parity.judging import judge
from xla_peer.parity.report import ParityReport
from xla_peer.parity.rounding import ROUNDING, Rounding
from xla_peer.parity.significance import Digits, digits
from xla_peer.parity.transformation import TransformationReport, check_transformation

__all__ = [
    "ROUNDING",
    "Decision",
    "Digits",
    "Divergence",
    "ErrorBound",
    "OutputParity",
    "ParityReport",
    "Rounding",
    "Tolerance",
    "TransformationReport",
    "check_parity",
    "check_transformation",
    "digits",
    "error_bound",
    "judge",
]
