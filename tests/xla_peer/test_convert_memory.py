"""`tenferro convert` must hold the arrays of a model only once. tracemalloc measures the allocations."""

from __future__ import annotations

import importlib.util
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram
from xla_peer.command_line.target import find_target
from xla_peer.command_line.writing import write_program
from xla_peer.onnx import exporting

ROWS = 200
"""Number of rows of each of eight arrays. A row has 1,024 float64 numbers.

The arrays have 12.5 MiB in all, much more than one array, or one piece that is written at a time.
"""
HAS_ONNX = importlib.util.find_spec("onnx") is not None


def model(folder: Path) -> tuple[Path, int]:
    """Write a model to a folder.

    Return the path of the model, and the total size of its arrays in bytes.
    """
    rows = [np.random.default_rng(n).normal(size=(ROWS, 1024)) for n in range(8)]

    def total(x: Any) -> Any:
        return tnf.sum(sum([tnf.tanh(x * row) for row in rows]))

    tnf.save(tnf.compile(total, tnf.TensorSpec((1024,), "f8")), folder / "source.tnf")
    return folder / "source.tnf", sum([row.nbytes for row in rows])


def peak_of_conversion(source: Path, output: Path, weights: str = "") -> int:
    """Convert a model.

    Return the largest growth of memory, in bytes, between the start of reading and the end of writing.
    """
    tracemalloc.start()
    try:
        target = find_target(str(source))
        program = target.compiled(target.arguments((), 0, keep_types=True))
        write_program(program, (), str(output), weights=weights)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def large_constants(program: GraphProgram) -> set[bytes]:
    """Return the hashes of a program's large constants."""
    operations = [instruction.op for instruction in program.instructions]
    return {op.digest for op in operations if isinstance(op, Constant) and op.array.nbytes > 1e6}


@pytest.mark.parametrize("suffix", [".tnf", ".mlir", ".mlirbc", ".py", ".onnx"])
def test_the_arrays_of_a_model_are_held_once(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == ".onnx" and not HAS_ONNX:
        pytest.skip("the package onnx is not installed")
    monkeypatch.setattr(exporting, "BESIDE", 1 << 20)
    source, size = model(tmp_path)
    there, back = tmp_path / f"there{suffix}", tmp_path / "back.tnf"
    weights = "" if suffix == ".tnf" else "w.safetensors"
    # This conversion imports all modules, so that the measurement does not include them.
    write_program(tnf.load(source), (), str(there))
    assert peak_of_conversion(source, there) < 1.2 * size + PIECES
    assert peak_of_conversion(source, there, weights) < 1.2 * size + PIECES
    assert peak_of_conversion(there, back) < 1.2 * size + PIECES
    assert large_constants(tnf.load(back)) >= large_constants(tnf.load(source))


PIECES = 6 << 20
"""Additional allowed bytes, for write buffers, texts and traces, which do not grow with the model."""
