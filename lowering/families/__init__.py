"""Lowerings of tenferro's own extension families; they are registered on import."""

from lowering.families import accuracy, fft, lapack, linalg

__all__ = ["accuracy", "fft", "lapack", "linalg"]

accuracy.register()
fft.register()
lapack.register()
linalg.register()
