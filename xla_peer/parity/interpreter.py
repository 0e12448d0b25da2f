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

__all__ = ["LARGEST", "interpreted", "interpreted_text"]

LARGEST = 100_000
"""Maximum total number of elements of all values of a program; the interpreter is too slow for more."""
SECONDS = 60


def interpreted(program: GraphProgram, leaves: Sequence[Any]) -> list[Any] | str:
    """Compute the outputs of a program by the reference interpreter, or return the reason why it cannot."""
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    if refusal := _refusal(static):
        return refusal
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


def interpreted_text(program: GraphProgram, leaves: Sequence[Any]) -> list[Any] | str:
    """Compute the outputs of an imported program by the reference interpreter, from the original text of its module.

    Return the reason if it cannot. Arguments and outputs must have dtypes that the interpreter accepts.
    """
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    if refusal := _refusal(static):
        return refusal
    dtypes = [spec.dtype for spec in (*static.input_specs, *static.output_specs)]
    odd = [dtype for dtype in dtypes if dtype.is_complex or dtype.is_bool or not _is_plain(dtype)]
    if odd or program.origin is None:
        return f"it does not read {odd[0]}" if odd else "there is no original text"
    try:
        module = program.origin.refined([leaf.shape for leaf in leaves])
    except TenferroError as error:
        return str(error).splitlines()[0]
    return _asked(module.plain_text, leaves)


def _refusal(program: GraphProgram) -> str:
    """Return why the interpreter does not run a program, which is that it has too many elements; "" if it runs it."""
    size = sum(int(np.prod(spec.shape)) for spec in program.types)
    if size <= LARGEST:
        return ""
    return f"{size} elements in all, and it is asked for at most {LARGEST}"


def _is_plain(dtype: DType) -> bool:
    return not dtype.is_narrow and dtype not in (DType.F16, DType.BF16)


def _plain(x: Any) -> list[Any]:
    """Convert x to dtypes that the interpreter accepts: complex numbers to parts, narrow numbers to wider ones."""
    dtype = DType.of(x.dtype)
    if dtype.is_complex:
        return [tnf.real(x), tnf.imag(x)]
    if dtype.is_bool:
        return [tnf.astype(x, np.uint8)]
    return [x if _is_plain(dtype) else tnf.astype(x, np.float32 if dtype.is_inexact else np.int32)]


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
