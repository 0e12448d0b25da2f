"""Ops for which a running program calls Python: checks of conditions, and callbacks."""

from tenferro.ext.host import families
from tenferro.ext.host.rules import CallbackRule, CheckRule
from tenferro.ext.host.runtime import CallbackRuntime, CheckRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (
    Family(families.Check, CheckRuntime, CheckRule),
    Family(families.Callback, CallbackRuntime, CallbackRule),
)
