"""Compilation to machine code by LLVM: the lowering of ops to LLVM IR, and the linker.

The modules of this package are imported at the first compilation. This file only tests whether llvmlite is installed.
"""

from __future__ import annotations

from functools import cache

__all__ = ["OLDEST", "installed_version", "is_installed"]

OLDEST = 0, 45
"""Lowest supported version of llvmlite; earlier versions cannot parse LLVM's pointer type `ptr`."""


@cache
def installed_version() -> tuple[int, int]:
    """Return the major and minor version of llvmlite; zeros if it is not installed or has an unusual version."""
    try:
        import llvmlite  # an optional package; LLVM is loaded by `llvmlite.binding`
    except ImportError:
        return 0, 0
    major, _, rest = getattr(llvmlite, "__version__", "").partition(".")
    minor, _, _ = rest.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def is_installed() -> bool:
    """Return whether a supported version of llvmlite is installed."""
    return installed_version() >= OLDEST
