"""Writing of programs to files, for `tenferro export` and `tenferro convert`.

The suffix of the path selects the format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tenferro as tnf
import xla_peer
from lowering import Partitioning
from tenferro.errors import InvalidConfigError
from tenferro.program import GraphProgram
from xla_peer.command_line.target import find_target
from xla_peer.mesh import PARTITIONING
from xla_peer.onnx import external_files
from xla_peer.tracing import traced

__all__ = ["FORMS", "Written", "read_back", "write_program"]

FORMS = {
    ".py": "numpy",
    ".onnx": "onnx",
    ".mlir": "stablehlo",
    ".mlirbc": "stablehlo",
    ".tnf": "program",
}
"""The format that `export` writes for each suffix of a file."""
LARGEST_BESIDE_WEIGHTS = 128
"""Maximum size in bytes of an array that is written in the text although weights go to a file: 16 float64 elements."""


@dataclass(frozen=True)
class Written:
    """A program that was written to files.

    Attributes:
        files: the paths of the files.
        summary: a line of text that describes the files, for people.
        document: the same description, for JSON.
    """

    files: tuple[str, ...]
    summary: str
    document: dict[str, Any]


def write_program(
    function: GraphProgram | Callable[..., Any],
    types: Sequence[Any],
    output: str,
    *,
    vectors: int = 0,
    seed: int = 0,
    weights: str = "",
    partitioning: Partitioning | None = None,
    **options: Any,
) -> Written:
    """Write a program to the file that `output` names, in the format of its suffix.

    Args:
        function: a program, or a function that is traced on `types`.
        vectors, seed, weights, partitioning: see `xla_peer.export`.
        options: options of `xla_peer.export` that only StableHLO artifacts have.

    Raises:
        InvalidConfigError: the suffix is unknown, or the format lacks a requested option.
        TenferroError: see `xla_peer.export`.
    """
    form = FORMS.get(Path(output).suffix)
    if form is None:
        raise InvalidConfigError(f"{output}: a path must end in one of {', '.join(FORMS)}")
    if partitioning is not None and form in ("numpy", "onnx"):
        raise InvalidConfigError(
            f"{output}: this format is for one device, and the program is partitioned over {dict(partitioning.mesh)}; "
            "--mesh none writes the program of one device"
        )
    if form == "program":
        if weights:
            raise InvalidConfigError(f"--weights {weights}: {output} holds its own arrays")
        program = traced(function, *types)
        attributes: dict[str, Any] = {}
        if partitioning is not None:
            inputs = list(zip(program.input_names, program.input_specs, strict=True))
            outputs = list(zip(program.output_names, program.output_specs, strict=True))
            partitioning.require_fits(inputs, outputs)
            attributes = {PARTITIONING: partitioning.to_document()}
        tnf.save(program, output, attributes=attributes)
        return Written((output,), repr(program), {"name": program.name, "files": [output]})
    if form == "numpy":
        source = xla_peer.export(
            function,
            *types,
            format="numpy",
            path=output,
            vectors=vectors,
            seed=seed,
            weights=weights,
        )
        files = (output, *([str(source.beside(output))] if source.constants else ()))
        document = {"name": source.name, "files": [*files], "statements": source.statements}
        return Written(files, f"{source.name}: {source.statements} statements", document)
    if form == "onnx":
        model = xla_peer.export(function, *types, format="onnx", path=output, weights=weights)
        name, nodes = model.graph.name, len(model.graph.node)
        files = (output, *external_files(model, output))
        return Written(files, f"{name}: {nodes} nodes", {"name": name, "files": [*files]})
    if weights:
        options = {"largest_constant": LARGEST_BESIDE_WEIGHTS, **options}
    options = {**options, "weights": weights, "partitioning": partitioning}
    artifact = xla_peer.export(function, *types, path=output, vectors=vectors, seed=seed, **options)
    manifest = artifact.manifest
    paths = artifact.paths(output)
    document = {
        "name": manifest.name,
        "platforms": manifest.platforms,
        "inputs": [[name, str(spec)] for name, spec in manifest.inputs],
        "outputs": [[name, str(spec)] for name, spec in manifest.outputs],
        "files": paths,
    }
    return Written(tuple(paths), repr(artifact)[1:-1], document)


def read_back(output: str) -> Any:
    """Return the program in a file that `write_program` wrote, or the function of a NumPy file.

    Raises:
        TenferroError: see `find_target`.
    """
    target = find_target(output)
    return target.function if target.function is not None else target.compiled(())
