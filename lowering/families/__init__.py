"""StableHLO of the extension families that come with the package; registered on import."""

from lowering.families import fft, linalg

__all__ = ["fft", "linalg"]

fft.register()
linalg.register()
