"""StableHLO of the extension families that come with the package; registered on import."""

from lowering.families import fft, lapack, linalg

__all__ = ["fft", "lapack", "linalg"]

fft.register()
lapack.register()
linalg.register()
