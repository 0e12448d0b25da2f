"""Versions of jaxlib whose XLA computes wrong values on CPUs, with public reports of the faults."""

from __future__ import annotations

from importlib import metadata

__all__ = ["KNOWN_FAULTS", "known_fault"]

KNOWN_FAULTS = {
    "0.10.2": "XLA computes some sums of squares and products wrongly, and crashes on others of rank 7 and 8 "
    "(github.com/jax-ml/jax/issues/39103 and 39257)",
    "0.11.0": "XLA computes some sums of products of rank 7 and 8 wrongly, and crashes on others "
    "(github.com/jax-ml/jax/issues/39257)",
}
"""Faults of jaxlib's CPU compiler with their public reports, by version; pyproject.toml excludes these versions."""


def known_fault(platform: str) -> str:
    """Describe the known fault of the installed jaxlib on a platform, and the command that installs a better jaxlib.

    The description is empty if no fault is known.

    >>> known_fault("cuda")
    ''
    """
    if platform != "cpu":
        return ""
    try:
        version = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return ""
    fault = KNOWN_FAULTS.get(version)
    if fault is None:
        return ""
    return f"jaxlib {version}: {fault}; pip install --upgrade '.[xla]' in tenferro's checkout installs another"
