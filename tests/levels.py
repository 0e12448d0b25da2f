"""Where and how XLA runs what the tests run through PJRT: platform, levels of optimisation, processor and version."""

from __future__ import annotations

import os
import re
from importlib import metadata

import pytest

from xla_peer import XlaExecutor

HAS_FLOAT16 = "max_isa=SSE" not in os.environ.get("XLA_FLAGS", "")
"""Whether XLA was told to compile for a processor without conversions of float16: it does not bring any."""

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""XLA's own passes are the same at level 0, and LLVM's take most of the time; the sweep has both."""


def version_of(package: str) -> tuple[int, ...]:
    """The release of what is installed: major, minor and patch number."""
    return tuple(map(int, re.findall(r"\d+", metadata.version(package))[:3]))


def platform_of(request: pytest.FixtureRequest) -> str:
    """The platform of `--tenferro-platform`, the CPU unless a GPU's owner says otherwise."""
    return str(request.config.getoption("--tenferro-platform"))


def peer_of(request: pytest.FixtureRequest) -> XlaExecutor:
    """The executor on that platform, at the level that is this fixture's parameter."""
    return XlaExecutor(platform_of(request), optimization_level=request.param)
