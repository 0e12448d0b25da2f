"""Implementation of `tenferro fuzz`, which runs random programs natively and through XLA, and reports differences."""

from xla_peer.fuzz.campaign import FuzzReport, Group, fuzz
from xla_peer.fuzz.program import random_case
from xla_peer.parity.explanations import EXPLANATIONS, Explanation
from xla_peer.parity.shrinking import Case

__all__ = ["EXPLANATIONS", "Case", "Explanation", "FuzzReport", "Group", "fuzz", "random_case"]
