"""Lowerings of tenferro's own extension families. Importing this package registers all of them."""

from lowering.families import accuracy, fft, lapack, linalg, sharding

__all__ = ["accuracy", "fft", "lapack", "linalg", "sharding"]

accuracy.register()
fft.register()
lapack.register()
linalg.register()
sharding.register()
