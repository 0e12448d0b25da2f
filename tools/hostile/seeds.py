"""Valid files (seeds), from which mutants are derived.

Each seed is a folder with a file and all files to which it refers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lowering
import tenferro as tnf
import xla_peer
from tenferro.compile_cache import CompileCache

__all__ = ["Seed", "written_seeds"]


class Seed(NamedTuple):
    """A valid file from which mutants are derived.

    Attributes:
        kind: the name of the function in `tools.hostile.doors` that reads the file.
        main: the name of the file that is read.
        files: the contents of the file `main` and of the files to which it refers, by name.
    """

    kind: str
    main: str
    files: dict[str, bytes]


class Pair(NamedTuple):
    """Named tuple that a seed program returns. Files of programs must be able to store named tuples."""

    left: Any
    right: Any


def _plain(x: Any, y: Any) -> Any:
    return {"sum": tnf.sum(x @ y, axis=0), "parts": (x[0], None)}


def _padded(x: Any) -> Any:
    return tnf.pad(x, 1)[1:, ::2].at[0].set(1.0)


def _looped(x: Any) -> Any:
    total, _ = tnf.scan(lambda c, row: (c + tnf.sin(row), c), x[0], x)
    return Pair(tnf.cond(tnf.sum(total) > 0, tnf.exp, lambda v: v * 2.0, total), tnf.sort(x[0]))


def _decomposed(x: Any) -> Any:
    return tnf.linalg.svd(x @ x.T).S, tnf.einsum("ij,kj->ik", x, x), tnf.fft.fft(x)


def _constants(x: Any) -> Any:
    small = np.array([True, False, True])
    return tnf.where(small, x * np.arange(3.0), x + np.arange(3.0).astype("f4").astype("f8"))


MATRIX = np.arange(6.0).reshape(2, 3)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "plain": (_plain, (tnf.TensorSpec(("n", 3), "f8"), tnf.TensorSpec((3, "m"), "f8"))),
    "padded": (_padded, (MATRIX,)),
    "looped": (_looped, (MATRIX,)),
    "decomposed": (_decomposed, (MATRIX,)),
    "constants": (_constants, (np.ones(3),)),
}
EXPORTED = ("plain", "padded", "constants")


def written_seeds(folder: Path) -> list[Seed]:
    """Write the seeds below a folder, unless an earlier run has done so, and return all of them."""
    if not (folder / "done").exists():
        _write(folder)
        (folder / "done").touch()
    return [
        Seed(kind, (place / "main").read_text(), {
            path.name: path.read_bytes() for path in sorted(place.iterdir()) if path.name != "main"
        })
        for kind, place in sorted((p.parent.name, p) for p in folder.glob("*/*"))
    ]  # fmt: skip


def _write(folder: Path) -> None:
    for name, (fn, specs) in PROGRAMS.items():
        program = tnf.compile(fn, *specs)
        tnf.save(program, _place(folder, "program", name, "program.tnf"))
        if program.is_static:
            module = lowering.lower_to_stablehlo(program)
            _place(folder, "text", name, "module.mlir").write_text(module.text)
            bytecode = _place(folder, "bytecode", name, "module.mlirbc")
            bytecode.write_bytes(module.portable_artifact())
        if name in EXPORTED:
            _export(folder, name, program)
    np.savez(_place(folder, "inputs", "stored", "inputs.npz"), x=MATRIX, y=np.arange(4, dtype="i2"))
    packed = _place(folder, "inputs", "deflated", "inputs.npz")
    np.savez_compressed(packed, x=MATRIX, y=np.asfortranarray(MATRIX))
    np.save(_place(folder, "inputs", "one", "inputs.npy"), MATRIX.astype("c8"))
    entry = _place(folder, "cache", "entry", f"{'0' * 64}.xla")
    CompileCache(entry.parent).store(entry.stem, b"executable" * 100)


def _export(folder: Path, name: str, program: Any) -> None:
    options = {"largest_constant": 0} if name == "constants" else {}
    for kind, file in (("artifact_text", "module.mlir"), ("artifact", "module.mlirbc")):
        path = _place(folder, kind, name, file)
        artifact = xla_peer.export(
            program, path=path, vectors=0 if name == "plain" else 1, **options
        )
    manifest = artifact.manifest
    _place(folder, "manifest", name, "manifest.json").write_text(manifest.to_json())
    if name == "plain":
        return
    vectors = _place(folder, "vectors", name, "vectors.npz")
    vectors.write_bytes(Path(f"{path}.vectors.npz").read_bytes())
    types = {
        "inputs": [str(spec) for _, spec in manifest.inputs],
        "outputs": [str(spec) for _, spec in manifest.outputs],
    }
    vectors.with_name("types.json").write_text(json.dumps(types))


def _place(folder: Path, kind: str, name: str, main: str) -> Path:
    """Create the folder of a seed, and return the path of its main file.

    The file `main` in the folder stores the name of the main file.
    """
    place = folder / kind / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "main").write_text(main)
    return place / main
