"""Elementwise functions with the accuracy that an imported StableHLO module demands."""

from tenferro.ext.accuracy import families
from tenferro.ext.accuracy.families import ResultAccuracy
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (Family(ResultAccuracy, batch=families.batched),)
