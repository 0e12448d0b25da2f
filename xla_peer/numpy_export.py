"""Export of programs as Python files that need only NumPy, with recorded results for a check of each file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowering.to_numpy import NumpySource, Recorded, to_numpy
from tenferro.api import tree_files
from tenferro.errors import InvalidConfigError
from tenferro.files import replacing, target_of
from tenferro.program import GraphProgram
from xla_peer.manifest import weights_name
from xla_peer.numpy_simplification import simplified
from xla_peer.vectors import vectors_of

__all__ = ["export_numpy", "require_suffix", "save_numpy"]

SUFFIX = ".py"


def require_suffix(path: Any, suffix: str, what: str) -> None:
    """Raise an error if a path does not end in `suffix`; the path None is allowed.

    Raises:
        InvalidConfigError: the path does not end in `suffix`.
    """
    if path is not None and Path(path).suffix != suffix:
        raise InvalidConfigError(f"export: {what} must be a {suffix} file, got {str(path)!r}")


def export_numpy(
    program: GraphProgram, cases: Sequence[Sequence[Any]], path: Any = None, weights: str = ""
) -> NumpySource:
    """Convert a program to the source of a Python file with recorded results, and write it to `path` if given.

    Args:
        cases: for each recorded result, the leaves of the arguments.
        weights: the name of a `.safetensors` file for the arrays, in the folder of the Python file.

    Raises:
        InvalidConfigError: the suffix is not `.py`.
        UnsupportedError, NonStaticShapeError: see `lowering.to_numpy`.
    """
    require_suffix(path, SUFFIX, "NumPy source")
    recorded = [_recorded(vector) for vector in vectors_of(program, cases)]
    source = to_numpy(simplified(program), recorded, weights_name(weights))
    if path is not None:
        save_numpy(source, path)
    return source


def _recorded(vector: Any) -> Recorded:
    limits: list[Any] = []
    others: list[Any] = []
    for y, (limit, (places, values), *_) in zip(vector.outputs, vector.allowed, strict=True):
        limits.append(np.broadcast_to(np.where(np.isfinite(limit), limit, 0.0), np.shape(y)))
        others.append((places, values) if len(places) else None)
    inputs, outputs = (list(map(np.asarray, part)) for part in (vector.inputs, vector.outputs))
    return Recorded(inputs, outputs, limits, others)


def save_numpy(source: NumpySource, path: Any) -> None:
    """Write the arrays to an `.npz` file of the same name, or to a safetensors file, and then write the Python file.

    Raises:
        InvalidConfigError: the suffix is not `.py`, or the path is a folder, a pipe or a device.
        OSError: the folder does not exist, or the disk is full.
    """
    require_suffix(path, SUFFIX, "NumPy source")
    beside = source.beside(path)
    for each in (path, beside):
        target_of(each)
    if source.constants and source.weights:
        tree_files.save(source.constants, beside)
    elif source.constants:
        with replacing(beside) as file:
            np.savez(file, **source.constants)
    with replacing(path) as file:
        file.write(source.text.encode())
