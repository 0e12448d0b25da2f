"""Lowerings of the linear algebra families, to calls of the platform's library or to standard StableHLO operations."""

from __future__ import annotations

from typing import Any

from lowering.extensions import register_extension_lowering
from lowering.families.linalg import inline, library, tpu
from lowering.families.linalg.factors import lu_solve
from lowering.families.linalg.matrix import without_complex128_on_tpu
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError

__all__ = ["register"]


def distinct(op: Any, w: Writer, values: Value) -> Any:
    """Raise `UnsupportedError`: a compiled module cannot raise an error that depends on the data."""
    raise UnsupportedError(
        f'Distinct: {values.spec}: degenerate="raise" runs natively only; use "zero", or "nan" and look '
        "at the result"
    )


def register() -> None:
    """Register the families' lowerings with `lower_to_stablehlo`."""
    for platform in ("cpu", "cuda", "rocm"):
        for family_id, rule in library.RULES.items():
            register_extension_lowering(family_id, rule, platform)
    for family_id, rule in tpu.RULES.items():
        register_extension_lowering(family_id, rule, "tpu")
    for family_id, rule in inline.RULES.items():
        register_extension_lowering(family_id, rule, "inline")
    register_extension_lowering("tenferro.distinct.v1", distinct)
    for family, rule in (("triangular_solve", library.triangular_solve), ("lu_solve", lu_solve)):
        checked = without_complex128_on_tpu(rule)
        register_extension_lowering(f"tenferro.{family}.v1", checked)
