"""Einstein summation as an extension family: notation, plan, expansion, runtime and derivative rule."""

from tenferro.ext.einsum import families
from tenferro.ext.einsum.expansion import expand
from tenferro.ext.einsum.families import Einsum
from tenferro.ext.einsum.notation import NOTATIONS, Notation, interleaved, read
from tenferro.ext.einsum.plan import (
    PLANS,
    TYPICAL_EXTENT,
    checked_optimize,
    plan,
    plan_info,
    waits_for_extents,
)
from tenferro.ext.einsum.rules import EinsumRule
from tenferro.ext.einsum.runtime import EinsumRuntime
from tenferro.extension import Family

__all__ = [
    "FAMILIES",
    "NOTATIONS",
    "PLANS",
    "TYPICAL_EXTENT",
    "Einsum",
    "Notation",
    "checked_optimize",
    "expand",
    "families",
    "interleaved",
    "plan",
    "plan_info",
    "read",
    "waits_for_extents",
]

FAMILIES = (Family(Einsum, EinsumRuntime, EinsumRule),)
