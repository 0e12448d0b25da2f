"""Loops as machine code: a column of ops on scalars in LLVM's text, and the linker.

Nothing here is imported before something is to be compiled, but this file, which says whether llvmlite is there.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["OLDEST", "installed_version", "is_installed"]

OLDEST = 0, 45
"""Version of llvmlite, whose LLVM is the first one there that reads pointers without types."""


@cache
def installed_version() -> tuple[int, int]:
    """Return the version of llvmlite; zeros where it is not there."""
    try:
        import llvmlite  # because it is an extra; what loads LLVM is its `binding`
    except ImportError:
        return 0, 0
    numbers = re.match(r"(\d+)\.(\d+)", getattr(llvmlite, "__version__", ""))
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def is_installed() -> bool:
    """Return whether llvmlite is there, and no older than texts need."""
    return installed_version() >= OLDEST
