"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONG = ("demo.py", "heat_capacity.py", "sharded.py", "tensor_networks.py", "train_digits.py")
EXAMPLES = [
    pytest.param(path.name, marks=[pytest.mark.sweep] if path.name in LONG else [])
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / name], check=True, capture_output=True)
