"""At which levels of optimisation XLA compiles what the tests run through PJRT, for what processor, and which XLA."""

from __future__ import annotations

import os
from importlib import metadata

import pytest

HAS_FLOAT16 = "max_isa=SSE" not in os.environ.get("XLA_FLAGS", "")
"""Whether XLA was told to compile for a processor without conversions of float16: it does not bring any."""

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""XLA's own passes are the same at level 0, and LLVM's take most of the time; the sweep has both."""


def version_of(package: str) -> tuple[int, ...]:
    """Major and minor version of what is installed."""
    return tuple(map(int, metadata.version(package).split(".")[:2]))
