"""Fourier transforms as an extension family: op, native runtime and derivative rule."""

from tenferro.ext.fft import families
from tenferro.ext.fft.rules import FftRule
from tenferro.ext.fft.runtime import FftRuntime
from tenferro.extension import Family

__all__ = ["FAMILIES", "families"]

FAMILIES = (Family(families.Fft, FftRuntime, FftRule),)
