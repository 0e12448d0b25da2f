"""Linear algebra as extension families: descriptors, native runtimes, derivative rules."""

from tenferro.ext.linalg import families
from tenferro.ext.linalg.rules import rule_set
from tenferro.ext.linalg.runtime import runtimes

__all__ = ["families", "rule_set", "runtimes"]
