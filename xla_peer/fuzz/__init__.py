"""Random typed programs on both paths, until they part: `tenferro fuzz`."""

from xla_peer.fuzz.campaign import FuzzReport, Group, fuzz
from xla_peer.fuzz.program import Case, random_case
from xla_peer.parity.explanations import EXPLANATIONS, Explanation

__all__ = ["EXPLANATIONS", "Case", "Explanation", "FuzzReport", "Group", "fuzz", "random_case"]
