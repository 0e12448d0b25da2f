"""StableHLO: programs as text and as artifacts.

Sees programs, never graphs, derivative rules or kernels. Text needs no jaxlib.
"""

from lowering import families
from lowering.extensions import register_extension_lowering
from lowering.importing import import_stablehlo
from lowering.lower import PLATFORMS, lower_to_stablehlo
from lowering.module import StableHloModule
from lowering.read.composites import register_composite_reader
from lowering.refusals import refusal
from lowering.sharding import Partitioning, PartitionSpec
from tenferro.counterparts import open_namespace
from tenferro.program import install_platforms

__all__ = [
    "PLATFORMS",
    "PartitionSpec",
    "Partitioning",
    "StableHloModule",
    "families",
    "import_stablehlo",
    "lower_to_stablehlo",
    "register_composite_reader",
    "register_extension_lowering",
]

install_platforms(PLATFORMS, refusal)
open_namespace(globals(), __all__, "lowering")
