"""Settings of XLA in tests: platform, optimisation level, processor and version."""

from __future__ import annotations

import os
import re
from importlib import metadata

import pytest

from xla_peer import XlaExecutor

HAS_FLOAT16 = "max_isa=SSE" not in os.environ.get("XLA_FLAGS", "")
"""Whether XLA may use float16 conversions of the processor. XLA has no substitute for them."""

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""Optimisation levels of XLA in the tests.

Level 0 runs fewer of LLVM's passes, which take most of the time. The sweep adds the default level. XLA's own passes
are the same at both levels.
"""


def version_of(package: str) -> tuple[int, ...]:
    """Return the installed version of a package as numbers: major, minor and patch."""
    return tuple(map(int, re.findall(r"\d+", metadata.version(package))[:3]))


def platform_of(request: pytest.FixtureRequest) -> str:
    """Return the platform that the option `--tenferro-platform` names, by default the CPU."""
    return str(request.config.getoption("--tenferro-platform"))


def peer_of(request: pytest.FixtureRequest) -> XlaExecutor:
    """Return an executor on the platform that the option names.

    The parameter of the fixture is its optimisation level.
    """
    return XlaExecutor(platform_of(request), optimization_level=request.param)
