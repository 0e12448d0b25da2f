"""Printing while a program runs, as an extension family: op, native runtime and batch rule."""

from tenferro.ext.printing import families
from tenferro.ext.printing.rules import DebugPrintRule
from tenferro.ext.printing.runtime import DebugPrintRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (Family(families.DebugPrint, DebugPrintRuntime, DebugPrintRule),)
