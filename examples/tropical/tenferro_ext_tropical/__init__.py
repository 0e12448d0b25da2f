"""Tropical algebra for tenferro."""

from tenferro_ext_tropical.algebras import MAX_PLUS, MAX_TIMES, MIN_PLUS, Algebra
from tenferro_ext_tropical.einsum import einsum
from tenferro_ext_tropical.matmul import FusedMatmul, matmul
from tenferro_ext_tropical.paths import shortest_paths
from tenferro_ext_tropical.rules import shared_ties
from tenferro_ext_tropical.scalars import MaxPlus, MaxTimes, MinPlus
from tenferro_ext_tropical.viterbi import best_score, best_sequence

__all__ = [
    "FAMILIES",
    "MAX_PLUS",
    "MAX_TIMES",
    "MIN_PLUS",
    "Algebra",
    "FusedMatmul",
    "MaxPlus",
    "MaxTimes",
    "MinPlus",
    "best_score",
    "best_sequence",
    "einsum",
    "matmul",
    "shared_ties",
    "shortest_paths",
]

FAMILIES = [FusedMatmul.family]
