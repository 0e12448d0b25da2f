"""Random bits as an extension family: op with its expansion, native runtime and batch rule."""

from tenferro.ext.random import families
from tenferro.ext.random.rules import ThreefryRule
from tenferro.ext.random.runtime import ThreefryRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (Family(families.Threefry2x32, ThreefryRuntime, ThreefryRule),)
