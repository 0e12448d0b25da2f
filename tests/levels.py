"""Configuration of XLA in tests: platform, optimisation level, processor and version."""

from __future__ import annotations

import os
import re
from importlib import metadata

import pytest

from xla_peer import XlaExecutor

HAS_FLOAT16 = "max_isa=SSE" not in os.environ.get("XLA_FLAGS", "")
"""Whether XLA may use float16 conversions of the processor: it has no substitute for them."""

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""At level 0 XLA's own passes are the same, and LLVM's, which dominate the time, are fewer; the sweep has both."""


def version_of(package: str) -> tuple[int, ...]:
    """Return the installed release: major, minor and patch number."""
    return tuple(map(int, re.findall(r"\d+", metadata.version(package))[:3]))


def platform_of(request: pytest.FixtureRequest) -> str:
    """Return the platform of `--tenferro-platform`, by default the CPU."""
    return str(request.config.getoption("--tenferro-platform"))


def peer_of(request: pytest.FixtureRequest) -> XlaExecutor:
    """Return the executor on that platform, at the level of this fixture's parameter."""
    return XlaExecutor(platform_of(request), optimization_level=request.param)
