"""StableHLO of the extension families that come with the package; registered on import."""

from lowering.families import accuracy, fft, lapack, linalg

__all__ = ["accuracy", "fft", "lapack", "linalg"]

accuracy.register()
fft.register()
lapack.register()
linalg.register()
