"""StableHLO: programs as text and as artifacts.

Sees programs, never graphs, derivative rules or kernels. Text needs no jaxlib.
"""

import lowering.families  # noqa: F401  # because importing it registers them
from lowering.extensions import register_extension_lowering
from lowering.lower import lower_to_stablehlo
from lowering.module import StableHloModule

__all__ = ["StableHloModule", "lower_to_stablehlo", "register_extension_lowering"]
