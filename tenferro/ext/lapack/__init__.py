"""LAPACK's own forms as extension families: packed factors, pivots, failures as numbers."""

from tenferro.ext.lapack import families
from tenferro.ext.lapack.rules import rule_set
from tenferro.ext.lapack.runtime import runtimes

__all__ = ["families", "rule_set", "runtimes"]
