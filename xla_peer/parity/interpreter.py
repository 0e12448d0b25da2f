"""Computation of a third result by StableHLO's reference interpreter, in a separate process, because it may crash.

    python -m xla_peer.parity.interpreter FOLDER

reads `module.mlir` and `inputs.npz` in the folder, and writes `outputs.npz`. The interpreter shares no code with XLA or
NumPy, but it runs the same text as XLA. It does not support custom calls. It crashes on complex results, so the module
returns a complex result as two real arrays.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import lower_to_stablehlo, mlir_bindings
from tenferro.dispatch import apply_one
from tenferro.errors import TenferroError
from tenferro.ops.elementwise import Complex
from tenferro.program import GraphProgram
from tenferro.types import DType, flatten, unflatten

__all__ = ["LARGEST", "interpreted"]

LARGEST = 100_000
"""Maximum total number of elements of all values of a program; the interpreter is too slow for more."""
SECONDS = 60


def interpreted(program: GraphProgram, leaves: Sequence[Any]) -> list[Any] | str:
    """Compute the outputs of a program by the reference interpreter, or return the reason why it cannot."""
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    size = sum(int(np.prod(spec.shape)) for spec in static.types)
    if size > LARGEST:
        return f"{size} elements in all, and it is asked for at most {LARGEST}"
    plain = [part for leaf in leaves for part in _plain(leaf)]
    try:
        program = tnf.compile(lambda *xs: _outputs(static, leaves, xs), *plain)
        text = lower_to_stablehlo(program, linalg="inline").plain_text
    except TenferroError as error:
        return str(error).splitlines()[0]
    values = _asked(text, plain)
    if isinstance(values, str):
        return values
    rest = iter(values)
    return [_as(spec.dtype, rest) for spec in static.output_specs]


def _plain(x: Any) -> list[Any]:
    """Convert x to dtypes that the interpreter accepts: complex numbers to parts, narrow numbers to wider ones."""
    dtype = DType.of(x.dtype)
    if dtype.is_complex:
        return [tnf.real(x), tnf.imag(x)]
    if dtype.is_bool:
        return [tnf.astype(x, np.uint8)]
    is_plain = not dtype.is_narrow and dtype not in (DType.F16, DType.BF16)
    return [x if is_plain else tnf.astype(x, np.float32 if dtype.is_inexact else np.int32)]


def _outputs(program: GraphProgram, leaves: Sequence[Any], plain: Sequence[Any]) -> list[Any]:
    """Run the program on arguments that `_plain` converted, and convert its results by `_plain`."""
    rest = iter(plain)
    inputs = [_as(DType.of(leaf.dtype), rest) for leaf in leaves]
    results, _ = flatten(program.run(*unflatten(program.in_tree, inputs)))
    return [part for y in results for part in _plain(y)]


def _as(dtype: DType, parts: Iterator[Any]) -> Any:
    """Convert the next arrays of `parts`, which `_plain` returned, back to one array of `dtype`."""
    if dtype.is_complex:
        return apply_one(Complex(), next(parts), next(parts))
    return tnf.astype(next(parts), dtype)


def _asked(text: str, leaves: Sequence[Any]) -> list[Any] | str:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "module.mlir").write_text(text)
        dense: dict[str, Any] = {f"x{i}": np.asarray(x, order="C") for i, x in enumerate(leaves)}
        np.savez(directory / "inputs.npz", **dense)
        command = [sys.executable, "-m", "xla_peer.parity.interpreter", folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"gave no answer in {SECONDS} s"
        if done.returncode:
            words = done.stderr.strip().splitlines()
            return f"ended with status {done.returncode}: {words[-1] if words else 'no words'}"
        with np.load(directory / "outputs.npz", allow_pickle=False) as file:
            return [file[f"y{i}"] for i in range(len(file.files))]


def main(folder: str) -> None:
    """Evaluate the module in a folder, and write the outputs there; this runs in the child process."""
    directory = Path(folder)
    text = (directory / "module.mlir").read_text()
    with np.load(directory / "inputs.npz", allow_pickle=False) as file:
        inputs = [file[f"x{i}"] for i in range(len(file.files))]
    outputs = mlir_bindings.evaluate(text, inputs)
    np.savez(directory / "outputs.npz", **{f"y{i}": y for i, y in enumerate(outputs)})


if __name__ == "__main__":
    main(sys.argv[1])
