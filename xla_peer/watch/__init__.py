"""Implementation of `tenferro watch`, which runs public miscompiles and ordinary programs with several compilers."""

from xla_peer.watch.bisection import Bisection, bisect
from xla_peer.watch.cases import Case, hall_cases, ordinary_cases
from xla_peer.watch.passes import PassFault, fault_of
from xla_peer.watch.table import Entry, Table
from xla_peer.watch.watching import judged, watch

__all__ = [
    "Bisection",
    "Case",
    "Entry",
    "PassFault",
    "Table",
    "bisect",
    "fault_of",
    "hall_cases",
    "judged",
    "ordinary_cases",
    "watch",
]
