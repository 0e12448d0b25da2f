"""A program for which there is no memory is an error, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are set from /proc")
def test_results_without_memory_are_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.xla_peer.starved"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "passed\n"
