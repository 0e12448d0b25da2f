"""Loops as machine code: a column of ops on scalars in LLVM's IR, and the linker.

Only this file, which tells whether llvmlite is installed, is imported before the first compilation.
"""

from __future__ import annotations

from functools import cache

__all__ = ["OLDEST", "installed_version", "is_installed"]

OLDEST = 0, 45
"""Lowest supported version of llvmlite: the first whose LLVM reads pointers without types."""


@cache
def installed_version() -> tuple[int, int]:
    """Return the version of llvmlite; zeros if it is not installed."""
    try:
        import llvmlite  # because llvmlite is an extra; only its `binding` loads LLVM
    except ImportError:
        return 0, 0
    major, _, rest = getattr(llvmlite, "__version__", "").partition(".")
    minor, _, _ = rest.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def is_installed() -> bool:
    """Return whether llvmlite is installed in a version that can read this package's LLVM text."""
    return installed_version() >= OLDEST
