"""Lowering of programs: to StableHLO, as text and artifacts, and to Python source that needs only NumPy.

The input of each lowering is a compiled program; no module here imports graphs, derivative rules or kernels. Writing
StableHLO text needs no jaxlib.
"""

from lowering import families
from lowering.extensions import register_extension_lowering
from lowering.importing import import_stablehlo
from lowering.lower import PLATFORMS, lower_to_stablehlo
from lowering.module import StableHloModule
from lowering.read.composites import register_composite_reader
from lowering.read.python_calls import register_custom_call
from lowering.refusals import refusal
from lowering.sharding import Partitioning
from lowering.to_numpy import NumpySource, to_numpy
from tenferro.counterparts import open_namespace
from tenferro.program import install_platforms
from tenferro.types import PartitionSpec

__all__ = [
    "PLATFORMS",
    "NumpySource",
    "PartitionSpec",
    "Partitioning",
    "StableHloModule",
    "families",
    "import_stablehlo",
    "lower_to_stablehlo",
    "register_composite_reader",
    "register_custom_call",
    "register_extension_lowering",
    "to_numpy",
]

install_platforms(PLATFORMS, refusal)
open_namespace(globals(), __all__, "lowering")
