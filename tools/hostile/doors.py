"""Functions that read a file of each kind as a user would, and then use the result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lowering
import tenferro as tnf
import xla_peer
from tenferro.compile_cache import CompileCache
from tenferro.ops.control import ControlOp
from tenferro.types import unflatten
from xla_peer.command_line.inputs import read_inputs
from xla_peer.manifest import Manifest
from xla_peer.vectors import read_vectors

__all__ = ["DOORS"]

MOST_ELEMENTS = 100_000
"""Maximum number of elements that all values of a program may have together; larger programs are not run."""


def _program(path: Path) -> None:
    _use(tnf.load(path), path)


def _module(path: Path) -> None:
    _use(lowering.import_stablehlo(path), path)


def _use(program: Any, path: Path) -> None:
    """Print a program, compute its fingerprint, and save it; run it if it is small and has no control flow."""
    assert str(program)
    assert program.fingerprint
    tnf.save(program, path.with_name("again.tnf"))
    if not program.is_static or any([isinstance(s.op, ControlOp) for s in program.instructions]):
        return
    extents = [[max(extent, 1) for extent in spec.shape] for spec in program.types]
    # The limit also excludes shapes that NumPy rejects, such as (0, 2^62).
    if sum(map(math.prod, extents)) > MOST_ELEMENTS:
        return
    leaves = [np.ones(spec.shape, spec.dtype.dtype) for spec in program.input_specs]
    arguments = unflatten(program.in_tree, leaves)
    program.run(*(arguments if isinstance(arguments, tuple) else (arguments,)))


def _artifact(path: Path) -> None:
    artifact = xla_peer.load(path)
    assert repr(artifact)
    assert artifact.vectors is not None


def _manifest(path: Path) -> None:
    manifest = Manifest.from_json(path.read_bytes().decode(errors="replace"))
    text = manifest.to_json()
    assert Manifest.from_json(text).to_json() == text


def _vectors(path: Path) -> None:
    types = json.loads((path.parent / "types.json").read_text())
    inputs, outputs = (
        [tnf.TensorSpec.parse(t) for t in types[part]] for part in ("inputs", "outputs")
    )
    read_vectors(path.read_bytes(), inputs, outputs)


def _inputs(path: Path) -> None:
    read_inputs([str(path)], ["x", "y"])


def _cache(path: Path) -> None:
    CompileCache(path.parent).load(path.stem)


DOORS: dict[str, Callable[[Path], None]] = {
    "program": _program,
    "manifest": _manifest,
    "inputs": _inputs,
    "vectors": _vectors,
    "cache": _cache,
    "text": _module,
    "bytecode": _module,
    "artifact_text": _artifact,
    "artifact": _artifact,
}
