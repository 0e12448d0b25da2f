"""At which levels of optimisation XLA compiles what the tests run through PJRT."""

from __future__ import annotations

import pytest

LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""XLA's own passes are the same at level 0, and LLVM's take most of the time; the sweep has both."""
