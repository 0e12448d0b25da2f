"""Random bits as an extension family: descriptor, native runtime, and its expansion."""

from tenferro.ext.random import families
from tenferro.ext.random.rules import rule_set
from tenferro.ext.random.runtime import runtimes

__all__ = ["families", "rule_set", "runtimes"]
