"""StableHLO of the extension families that come with the package; registered on import."""

from lowering.families import linalg

linalg.register()
