"""Automatic differentiation on graphs: linearise, transpose, batch, and one rule per op.

`rules/` has the derivative rules. Every transform, from `grad` to `hessian`, is composed of the three sweeps
`linearize`, `transpose` and `batch`. `tenferro.api` handles functions and pytrees.
"""

from tenferro.ad.batch import batch, batch_program, batch_some
from tenferro.ad.checkpoint import POLICIES, Checkpoint
from tenferro.ad.context import AdContext
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import linearize
from tenferro.ad.subprograms import own_effects, pushed, residuals
from tenferro.ad.transpose import require_linear, transpose

__all__ = [
    "POLICIES",
    "AdContext",
    "Checkpoint",
    "GraphEmitter",
    "batch",
    "batch_program",
    "batch_some",
    "linearize",
    "own_effects",
    "pushed",
    "require_linear",
    "residuals",
    "transpose",
]
