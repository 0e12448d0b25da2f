"""Interface for operations from other packages. tenferro's own extension families also use it.

An `ExtensionOp` declares an op, and `apply` adds the op to a program. The op's `Family` has a runtime for native
execution, an `ExtensionAdRule` for derivatives, and a lowering for other peers. An op may define
`lower_to_standard_ops` instead, which can replace all three.

Source: seeds 000, 001, 003; docs/specification.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tenferro.ad.extension_rule import ExtensionAdRule, ExtensionRuleSet, RuleBuilder
from tenferro.counterparts import open_namespace
from tenferro.extension.application import apply
from tenferro.extension.extension_op import ExtensionOp, check_family_id, extension_family
from tenferro.ops.extension import Extension
from tenferro.program import (
    ExtensionCacheKey,
    ExtensionCaches,
    ExtensionFactory,
    ExtensionRuntime,
    Family,
    HostReferenceRuntime,
    OpFactory,
    Routine,
    family_of,
    lookup_extension_factory,
    register_extension,
    registered_families,
)
from tenferro.rules.requirements import require

if TYPE_CHECKING:
    from tenferro.blas import one_blas_thread
    from tenferro.exec.expansion_runtime import ExpansionRuntime
    from tenferro.exec.kernels.copying import Dense
    from tenferro.extension.check import ExtensionReport, check_extension

__all__ = [
    "Dense",
    "ExpansionRuntime",
    "Extension",
    "ExtensionAdRule",
    "ExtensionCacheKey",
    "ExtensionCaches",
    "ExtensionFactory",
    "ExtensionOp",
    "ExtensionReport",
    "ExtensionRuleSet",
    "ExtensionRuntime",
    "Family",
    "HostReferenceRuntime",
    "OpFactory",
    "Routine",
    "RuleBuilder",
    "apply",
    "check_extension",
    "check_family_id",
    "extension_family",
    "family_of",
    "lookup_extension_factory",
    "one_blas_thread",
    "register_extension",
    "registered_families",
    "require",
]


# The modules of these names load the executor or are rarely needed, so they are imported when a name is first used.
_LATER = {
    "Dense": "tenferro.exec.kernels.copying",
    "ExpansionRuntime": "tenferro.exec.expansion_runtime",
    "ExtensionReport": "tenferro.extension.check",
    "check_extension": "tenferro.extension.check",
    "one_blas_thread": "tenferro.blas",
}


def _load(name: str) -> Any:
    """Import the module of a name in `_LATER`, and return the object. Raise KeyError for any other name."""
    return getattr(importlib.import_module(_LATER[name]), name)


open_namespace(globals(), __all__, "tnf.extension", _load)
