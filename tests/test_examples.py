"""All examples must run without an error."""

from __future__ import annotations

import difflib
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
LONG = (
    "cluster.py",
    "demo.py",
    "heat_capacity.py",
    "sharded.py",
    "tensor_networks.py",
    "train_digits.py",
    "transformer_jax.py",
)
EXAMPLES = [
    pytest.param(path.name, marks=[pytest.mark.sweep] if path.name in LONG else [])
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / name], check=True, capture_output=True)


@pytest.mark.parametrize("engine", ["joblib", "dask", "ray"])
def test_a_compiled_derivative_is_mapped(engine: str) -> None:
    """The example must work with each engine.

    Another test runs it with concurrent.futures, the default.
    """
    pytest.importorskip({"dask": "dask.distributed"}.get(engine, engine))
    command = [sys.executable, ROOT / "examples" / "cluster.py", engine]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"of {engine}, 1 compilation in each" in done.stdout


def test_a_transformer_of_jax_needs_less_than_ten_other_lines() -> None:
    files = [ROOT / "examples" / name for name in ("transformer_jax.py", "transformer.py")]
    lines = list(difflib.ndiff(*[file.read_text().splitlines() for file in files]))
    assert len([line for line in lines if line.startswith("+ ")]) < 10
    assert len([line for line in lines if line.startswith("- ")]) < 10
    losses = []
    for file in files:
        train = runpy.run_path(str(file))["train"]
        train.__globals__["STEPS"] = 8
        losses.append(train())
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4)
    assert losses[0][-1] != losses[0][0]


def test_a_network_with_dropout_and_checkpoints_has_less_than_60_lines_of_code() -> None:
    lines = (ROOT / "examples/cnn.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) < 60
