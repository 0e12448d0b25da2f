"""Fourier transforms as an extension family: descriptor, native runtime, derivative rule."""

from tenferro.ext.fft import families
from tenferro.ext.fft.rules import rule_set
from tenferro.ext.fft.runtime import runtimes

__all__ = ["families", "rule_set", "runtimes"]
