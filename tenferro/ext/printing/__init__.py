"""Printing while a program runs, as an extension family: descriptor, native runtime, batches."""

from tenferro.ext.printing import families
from tenferro.ext.printing.rules import rule_set
from tenferro.ext.printing.runtime import runtimes

__all__ = ["families", "rule_set", "runtimes"]
