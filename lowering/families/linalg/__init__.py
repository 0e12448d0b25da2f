"""The linalg families in StableHLO: by the platform's library, or in plain statements."""

from __future__ import annotations

from lowering.extensions import register_extension_lowering
from lowering.families.linalg import inline, library, tpu

__all__ = ["register"]


def register() -> None:
    """Make the families known to `lower_to_stablehlo`."""
    for platform in ("cpu", "cuda", "rocm"):
        for family_id, rule in library.RULES.items():
            register_extension_lowering(family_id, rule, platform)
    for family_id, rule in tpu.RULES.items():
        register_extension_lowering(family_id, rule, "tpu")
    for family_id, rule in inline.RULES.items():
        register_extension_lowering(family_id, rule, "inline")
    register_extension_lowering("tenferro.triangular_solve.v1", library.triangular_solve)
