"""At which levels of optimisation XLA compiles what the tests run through PJRT, and for what processor."""

from __future__ import annotations

import os

import pytest

HAS_FLOAT16 = "max_isa=SSE" not in os.environ.get("XLA_FLAGS", "")
"""Whether XLA was told to compile for a processor without conversions of float16: it does not bring any."""

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""XLA's own passes are the same at level 0, and LLVM's take most of the time; the sweep has both."""
