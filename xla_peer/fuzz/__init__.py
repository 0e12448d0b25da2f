"""Random typed programs on both paths, until they part: `tenferro fuzz`."""

from xla_peer.fuzz.campaign import FuzzReport, Group, fuzz
from xla_peer.fuzz.explanations import EXPLANATIONS, Explanation
from xla_peer.fuzz.program import Case, random_case

__all__ = ["EXPLANATIONS", "Case", "Explanation", "FuzzReport", "Group", "fuzz", "random_case"]
