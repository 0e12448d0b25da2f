"""The examples run, and so does the README's code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / name], check=True, capture_output=True)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/artifacts.md",
        "docs/extensions.md",
        "docs/jax.md",
        "docs/parity.md",
        "docs/sharding.md",
        "docs/xla.md",
        "examples/tropical/README.md",
    ],
)
def test_code_in_the_documents(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {"__name__": "document"})
    printed = capsys.readouterr().out
    assert "FAILED" not in printed
    assert "DISAGREE" not in printed
    if name == "docs/extensions.md":
        assert "keeps the contract" in printed
        assert len([line for line in blocks[0].splitlines() if line.strip()]) < 60
