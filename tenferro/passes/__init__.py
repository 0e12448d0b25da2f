"""Passes of native programs: pure functions from program to program. Each is in a file named after its rewrite.

No pass merges common subexpressions, because graphs merge equal instructions. No pass removes dead code, because only
needed instructions become part of a program. The attribute `last_use` of an instruction tells which of its operands no
later instruction reads.
"""

from collections.abc import Callable

from tenferro.passes.choose_alternatives import choose_alternatives
from tenferro.passes.clean_up import clean_up
from tenferro.passes.contract_convolutions import contract_convolutions
from tenferro.passes.decompose_dots import decompose_dots
from tenferro.passes.defer_products import defer_products
from tenferro.passes.fold_transposes import fold_transposes
from tenferro.passes.fuse_scans import fuse_scans
from tenferro.passes.hoist_invariants import hoist_invariants
from tenferro.passes.join_pieces import join_pieces
from tenferro.passes.share_loops import share_loops
from tenferro.passes.shrink_dots import shrink_dots
from tenferro.passes.sink_constants import sink_constants
from tenferro.passes.sort_dot_dimensions import sort_dot_dimensions
from tenferro.passes.stop_early import stop_early
from tenferro.passes.widen_narrow import is_widened, widen_narrow
from tenferro.program import GraphProgram, prune_outputs

__all__ = [
    "NATIVE_PASSES",
    "choose_alternatives",
    "clean_up",
    "contract_convolutions",
    "decompose_dots",
    "defer_products",
    "fold_transposes",
    "fuse_scans",
    "hoist_invariants",
    "is_widened",
    "join_pieces",
    "prune_outputs",
    "share_loops",
    "shrink_dots",
    "sink_constants",
    "sort_dot_dimensions",
    "stop_early",
    "widen_narrow",
]

NATIVE_PASSES: tuple[Callable[[GraphProgram], GraphProgram], ...] = (
    prune_outputs,
    stop_early,
    fuse_scans,
    share_loops,
    hoist_invariants,
    defer_products,
    clean_up,
    sink_constants,
    join_pieces,
    contract_convolutions,
    sort_dot_dimensions,
    fold_transposes,
    shrink_dots,
)
"""The passes of native compilation, in the order in which they run.

`decompose_dots` is not one of these passes, because the native kernel of DotGeneral merges axes itself. Only the
kernel knows the strides. `decompose_dots` is for backends that have only batched matrix products.
"""
