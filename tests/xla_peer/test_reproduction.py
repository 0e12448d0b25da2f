"""A failing program must be saved as a folder that runs with JAX alone. Its triage is the text of a bug report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import errors
from xla_peer.cli import app
from xla_peer.parity.reproduction import save_reproduction, triage

X = np.array([1.0, 2.0, 3.0])
B = np.array([1.5, -2.0, 4.0], ml_dtypes.bfloat16)


def layer(x: Any, b: Any) -> Any:
    return x * 2 + 1, b + b


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a program and its arguments as a folder. This program does not fail."""
    program = tnf.compile(layer, X, B)
    text = lower_to_stablehlo(program).text
    return save_reproduction(tmp_path_factory.mktemp("case"), program, [X, B], text)


def run(folder: Path) -> str:
    command = [sys.executable, "repro_jax.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jax_alone_runs_it_and_says_where_it_differs(folder: Path) -> None:
    assert "tenferro" not in (folder / "repro_jax.py").read_text()
    assert run(folder).splitlines()[1].startswith("result 1: 0 of 3 elements differ")
    y, z = np.load(folder / "expected.npz").values()
    np.testing.assert_array_equal(y, X * 2 + 1)
    content = (folder / "expected.npz").read_bytes()
    y[1] += 0.5
    np.savez(folder / "expected.npz", y, z)
    assert run(folder).startswith("result 0: 1 of 3 elements differ; at [1] jax ")
    (folder / "expected.npz").write_bytes(content)


def test_the_folder_says_what_it_was_found_with(folder: Path) -> None:
    about = json.loads((folder / "about.json").read_text())
    assert set(about["versions"]) >= {"python", "jaxlib", "numpy"}
    assert len(about["digest"]) == 64
    assert "Multiply" in about["program"]


def test_triage_is_the_text_of_an_issue(folder: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho started\necho 'F0000 Check failed' >&2\nkill -SEGV $$\n")
    python.chmod(0o755)
    text = triage(folder, [str(python)])
    assert "stablehlo.multiply" in text
    assert "started\nended with status -11: F0000 Check failed" in text
    assert "jaxlib" in text
    done = CliRunner().invoke(app, ["triage", str(folder), "--python", str(python), "--json"])
    assert json.loads(done.output)["text"] == text
    with pytest.raises(errors.InvalidConfigError, match=r"no about\.json"):
        triage(tmp_path)
