"""`export` and `load`, which write programs to StableHLO files that other tools can read, and read them back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

import tenferro
from lowering import (
    PLATFORMS,
    Partitioning,
    PartitionSpec,
    StableHloModule,
    lower_to_stablehlo,
    mlir_bindings,
)
from lowering.extensions import GPUS
from lowering.guarded import perform
from lowering.to_numpy import NumpySource
from tenferro.ad import AdContext
from tenferro.api import tree_files
from tenferro.errors import DTypeError, InvalidConfigError, TenferroError
from tenferro.files import content_of
from tenferro.interruption import is_interruption
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, hoist_constants
from tenferro.types import DType, TensorSpec, flatten, unflatten
from xla_peer.artifact import Artifact
from xla_peer.manifest import ATTRIBUTE, Manifest, StoredConstant, weights_name
from xla_peer.mesh import PartitionedProgram
from xla_peer.numpy_export import export_numpy
from xla_peer.onnx import export_onnx
from xla_peer.pullback import active, float_vjp
from xla_peer.sampling import random_array, random_arrays
from xla_peer.storage import (
    archived,
    constants_path,
    digest_of,
    gradient_path,
    installed_versions,
    restored,
    suffix_of,
)
from xla_peer.tracing import traced
from xla_peer.vectors import vectors_of, vectors_path, write_vectors

__all__ = ["as_program", "export", "load", "module_for"]

LARGEST_CONSTANT = 1 << 16
"""Default maximum size of a constant that is written in the text of a module, in bytes."""


@overload
def export(
    fn_or_program: GraphProgram | PartitionedProgram | Callable[..., Any],
    *specs: Any,
    format: Literal["stablehlo"] = "stablehlo",
    platforms: Sequence[str] = ("cpu",),
    target: str = "week12",
    path: Any = None,
    precision: str = "highest",
    linalg: str = "auto",
    largest_constant: int = LARGEST_CONSTANT,
    vectors: int | Sequence[Sequence[Any]] = 0,
    gradient: bool = False,
    seed: int = 0,
    context: AdContext | None = None,
    weights: str = "",
    partitioning: Partitioning | None = None,
) -> Artifact: ...


@overload
def export(
    fn_or_program: GraphProgram | Callable[..., Any],
    *specs: Any,
    format: Literal["numpy"],
    path: Any = None,
    vectors: int | Sequence[Sequence[Any]] = 0,
    seed: int = 0,
    weights: str = "",
) -> NumpySource: ...


@overload
def export(
    fn_or_program: GraphProgram | Callable[..., Any],
    *specs: Any,
    format: Literal["onnx"],
    path: Any = None,
    weights: str = "",
) -> Any: ...


def export(
    fn_or_program: GraphProgram | PartitionedProgram | Callable[..., Any],
    *specs: Any,
    format: str = "stablehlo",
    platforms: Sequence[str] = ("cpu",),
    target: str = "week12",
    path: Any = None,
    precision: str = "highest",
    linalg: str = "auto",
    largest_constant: int = LARGEST_CONSTANT,
    vectors: int | Sequence[Sequence[Any]] = 0,
    gradient: bool = False,
    seed: int = 0,
    context: AdContext | None = None,
    weights: str = "",
    partitioning: Partitioning | None = None,
) -> Any:
    """Export a program as a portable StableHLO artifact, which contains its names, structure and versions.

    Args:
        fn_or_program: a program, which may be partitioned, or a function to trace on `specs`.
        specs: for a function, one tree of specs per argument. For a program with symbolic extents, one concrete spec
            per input; without specs, the module has symbolic extents, and assertions that check them.
        format: "stablehlo" for an artifact; "numpy" for the source of a Python file that needs only NumPy, or "onnx"
            for a model. The formats "numpy" and "onnx" lack most of the options of artifacts: see docs/travel.md.
        platforms: any of "cpu", "cuda", "rocm", "tpu".
        target: the oldest StableHLO version that must be able to read a `.mlirbc` file: "week4", "week12", "minimum",
            "current", or a version such as "1.8.0". A `.mlir` file is text of the current version.
        path: the file to write: `.mlir` for text, `.mlirbc` for a portable artifact, `.py` for NumPy, `.onnx` for a
            model.
        precision: precision of dots; see `lowering.lower_to_stablehlo`.
        linalg: "library" calls the platform's routines; "inline" writes plain StableHLO; "auto" selects "library" if
            one text with such calls runs on all the platforms, else "inline".
        largest_constant: maximum size of a constant in the text, in bytes; larger constants become arguments of
            `main`, which are stored in a separate file.
        vectors: test vectors in the artifact, for `xla_peer.verify`: the number of vectors with random arguments, or
            a list with the tuple of arguments of each vector.
        gradient: also export the derivative, with test vectors of its own.
        seed: the seed of random arguments and cotangents.
        context: the context with the rules for `gradient`.
        weights: the name of a `.safetensors` file in the folder of `path` for the constants that are not written in the
            text. By default these constants are stored in an `.npz` file; an ONNX model itself contains up to 64 MiB of
            them.
        partitioning: the partition of inputs and outputs over a mesh, whose devices need not exist; by default the
            partition of a partitioned program. The module expresses it in the Shardy dialect.

    Raises:
        InvalidConfigError: weights are in another folder; a platform, target or suffix is unknown; the platforms need
            separate texts; or a gradient is requested, but there are no float inputs or outputs.
        UnsupportedError, NonStaticShapeError: StableHLO cannot express the program.

    >>> import numpy as np, tenferro as tnf
    >>> artifact = export(lambda x, y: x @ y, np.ones((2, 3)), np.ones((3, 4)), platforms=("cpu", "tpu"))
    >>> artifact.manifest.outputs
    (('result', f64[2,4]),)

    Source: StableHLO spec, "Portable artifacts"; docs/specification/files.md.
    """
    if isinstance(fn_or_program, PartitionedProgram):
        fn_or_program, partitioning = fn_or_program.program, fn_or_program.partitioning
    if partitioning is not None and (format != "stablehlo" or gradient):
        what = "a gradient beside it" if gradient else f'format="{format}"'
        raise InvalidConfigError(
            f"export: {what} is not partitioned; export the program of one device"
        )
    if format in ("numpy", "onnx"):
        _require_defaults(format, platforms, target, precision, linalg, largest_constant, gradient)
        program = as_program(fn_or_program, specs)
        if format == "onnx":
            if vectors:
                raise InvalidConfigError(
                    "export: an ONNX model contains no test vectors; compare by xla_peer.onnx.run"
                )
            return export_onnx(program, path, weights)
        cases = _cases(program, vectors, np.random.default_rng(seed))
        return export_numpy(program, cases, path, weights)
    if format != "stablehlo":
        raise InvalidConfigError(
            f'export: format must be "stablehlo", "numpy" or "onnx", got {format!r}'
        )
    if path is not None:
        suffix_of(path)
    weights_name(weights)
    program = as_program(fn_or_program, specs)
    versions = {"stablehlo": mlir_bindings.artifact_version(target), **installed_versions()}
    generator = np.random.default_rng(seed)
    cases = _cases(program, vectors, generator)
    # GPUs compute with larger rounding errors than CPUs. So if the artifact is for a GPU too, the tolerances of its
    # test vectors are computed for the GPU.
    widest = next((platform for platform in platforms if platform in GPUS), "cpu")
    proof = vectors_of(program, cases, widest)
    vectors_file = write_vectors(proof, seed, versions) if cases else b""
    beside = None
    if gradient:
        pulled, pulled_cases = _pulled(program, cases, generator, context)
        beside = export(
            pulled,
            platforms=platforms,
            target=target,
            precision=precision,
            linalg=linalg,
            largest_constant=largest_constant,
            vectors=pulled_cases,
            seed=seed,
            weights=f"{Path(weights).stem}.gradient.safetensors" if weights else "",
        )
    hoisted, constants = hoist_constants(program, largest_constant)
    inputs = tuple(zip(program.input_names, program.input_specs, strict=True))
    outputs = tuple(zip(program.output_names, program.output_specs, strict=True))
    cut = None
    if partitioning is not None:
        partitioning.require_fits(inputs, outputs)
        whole = (PartitionSpec(),) * len(constants)
        cut = replace(partitioning, inputs=(*partitioning.inputs, *whole))
    module, chosen = module_for(hoisted, platforms, precision, linalg, cut)
    manifest = Manifest(
        name=program.name,
        platforms=tuple(platforms),
        linalg=chosen,
        inputs=inputs,
        outputs=outputs,
        in_tree=program.in_tree,
        out_tree=program.out_tree,
        constants=tuple(
            StoredConstant(
                name, TensorSpec.of(array.shape, DType.of(array.dtype)), digest_of(array)
            )
            for name, array in constants.items()
        ),
        guards=program.guards,
        versions=versions,
        vectors=hashlib.sha256(vectors_file).hexdigest() if cases else "",
        has_gradient=gradient,
        weights=weights,
        partitioning=partitioning,
    )
    described = module.with_attributes({ATTRIBUTE: manifest.to_json()})
    bytecode = described.portable_artifact(target)
    artifact = Artifact(manifest, described, bytecode, constants, vectors_file, beside)
    if path is not None:
        artifact.save(path)
    return artifact


def _require_defaults(
    format: str,
    platforms: Any,
    target: Any,
    precision: Any,
    linalg: Any,
    largest_constant: Any,
    gradient: Any,
) -> None:
    options = {
        "platforms": tuple(platforms) == ("cpu",),
        "target": target == "week12",
        "precision": precision == "highest",
        "linalg": linalg == "auto",
        "largest_constant": largest_constant == LARGEST_CONSTANT,
        "gradient": not gradient,
    }
    for name, is_default in options.items():
        if not is_default:
            advice = "; export tenferro.grad of the function" if name == "gradient" else ""
            raise InvalidConfigError(
                f'export: {name} is an option of artifacts, and not of format="{format}"{advice}'
            )


def _cases(
    program: GraphProgram, vectors: int | Sequence[Sequence[Any]], generator: np.random.Generator
) -> list[list[Any]]:
    """Return the leaves of the arguments of each test vector."""
    if isinstance(vectors, int):
        if isinstance(vectors, bool) or vectors < 0:
            raise InvalidConfigError(f"export: vectors must be at least 0, got {vectors!r}")
        return [random_arrays(program, generator) for _ in range(vectors)]
    return [program.check_arguments(tuple(arguments)) for arguments in vectors]


def _pulled(
    program: GraphProgram,
    cases: Sequence[Sequence[Any]],
    generator: np.random.Generator,
    context: AdContext | None,
) -> tuple[GraphProgram, list[list[Any]]]:
    """Return the derivative of a program, and the arguments of the derivative's test vectors.

    The derivative maps inputs and cotangents of the float outputs to gradients.
    """
    seeded = [program.output_specs[number] for number in active(program.output_specs)]
    has_inputs = bool(active(program.input_specs))
    if not has_inputs or not seeded:
        what = "outputs" if has_inputs else "inputs"
        raise InvalidConfigError(f"export: {program.name} has no gradient: it has no float {what}")
    count = len(program.input_specs)

    def pull(*leaves: Any) -> tuple[Any, ...]:
        _, pulling = float_vjp(program, leaves[:count], context)
        return pulling(tuple(leaves[count:]))

    pulled = tenferro.compile(pull, *program.input_specs, *seeded, name=f"{program.name}_gradient")
    cotangents = [f"{program.output_names[i]}_bar" for i in active(program.output_specs)]
    pulled = replace(
        pulled,
        input_names=(*program.input_names, *cotangents),
        output_names=tuple([f"{program.input_names[i]}_bar" for i in active(program.input_specs)]),
    )
    pulled_cases: list[list[Any]] = []
    for inputs in cases:
        outputs, _ = flatten(program.run(*unflatten(program.in_tree, inputs)))
        types = [TensorSpec.of(y.shape, DType.of(y.dtype)) for y in outputs]
        bars = [random_array(spec, generator) for spec in types if spec.dtype.is_inexact]
        pulled_cases.append([*inputs, *bars])
    return pulled, pulled_cases


def as_program(fn_or_program: Any, specs: Sequence[Any]) -> GraphProgram:
    """Trace a function on `specs`, or specialise a program to `specs` if there are any; return the program."""
    if not isinstance(fn_or_program, GraphProgram):
        return traced(fn_or_program, *specs)
    return fn_or_program.specialize_to(specs) if specs else fn_or_program


def module_for(
    program: GraphProgram,
    platforms: Sequence[str],
    precision: str,
    linalg: str,
    partitioning: Partitioning | None = None,
) -> tuple[StableHloModule, str]:
    """Lower a program to one module for all platforms; return the module and its `linalg`, "library" or "inline".

    Raises:
        InvalidConfigError: no platform is given, a platform is unknown, or the platforms need different modules.
    """
    if isinstance(platforms, str) or not platforms or not set(platforms) <= set(PLATFORMS):
        raise InvalidConfigError(
            f"platforms must be a tuple of some of {PLATFORMS}, got {platforms!r}"
        )
    for choice in ("library", "inline") if linalg == "auto" else (linalg,):
        modules = [
            lower_to_stablehlo(
                program,
                platform,
                precision,
                linalg=choice,
                symbolic=not program.is_static,
                annotate=True,
                partitioning=partitioning,
            )
            for platform in platforms
        ]
        if len({module.plain_text for module in modules}) == 1:
            return modules[0], choice
    raise InvalidConfigError(
        f"export: {', '.join(platforms)} need separate texts; export one artifact for each, or "
        'with linalg="inline"'
    )


def load(path: Any, *, trusted: bool = False) -> Artifact:
    """Load an artifact from a file that `export` wrote.

    Args:
        path: the `.mlir` or `.mlirbc` file.
        trusted: read the file in the calling process, which a damaged file may crash; otherwise a separate process
            reads it, with limits on time and memory.

    Raises:
        FileNotFoundError: the file, or the file of its constants or test vectors, does not exist.
        InvalidConfigError: tenferro did not write the file, the file is truncated or for a later version, or the
            constants or test vectors were changed.
    """
    suffix = suffix_of(path)
    content = content_of(path)
    try:
        text, bytecode = (
            _from_bytecode(path, content, trusted)
            if suffix == ".mlirbc"
            else _from_text(content, trusted)
        )
        manifest_json, main_type = perform("description", text, ATTRIBUTE, trusted=trusted)
    except (mlir_bindings.MlirDiagnosticError, UnicodeDecodeError) as error:
        raise InvalidConfigError(
            f"load: {path} is truncated, or is no StableHLO: {error}"
        ) from None
    if manifest_json is None:
        raise InvalidConfigError(
            f"load: {path} is StableHLO, but not written by tenferro: it has no {ATTRIBUTE}; "
            "lowering.import_stablehlo reads it as a program"
        )
    manifest = Manifest.from_json(manifest_json)
    named = [*manifest.inputs, *((item.name, item.spec) for item in manifest.constants)]
    module = StableHloModule(
        text=text,
        plain_text=text,
        platform=manifest.platforms[0],
        input_specs=tuple([spec for _, spec in named]),
        output_specs=tuple([spec for _, spec in manifest.outputs]),
        input_names=tuple([name for name, _ in named]),
        output_names=tuple([name for name, _ in manifest.outputs]),
        guards=manifest.guards,
        trusted=trusted,
    )
    _require_types(path, module, main_type)
    gradient = load(gradient_path(path), trusted=trusted) if manifest.has_gradient else None
    vectors_file = _vectors(path, manifest)
    return Artifact(manifest, module, bytecode, _constants(path, manifest), vectors_file, gradient)


def _vectors(path: Any, manifest: Manifest) -> bytes:
    if not manifest.vectors:
        return b""
    file = vectors_path(path)
    content = content_of(file)
    if hashlib.sha256(content).hexdigest() != manifest.vectors:
        raise InvalidConfigError(
            f"load: {file} is not the file with which the artifact was exported"
        )
    return content


def _from_bytecode(path: Any, content: bytes, trusted: bool) -> tuple[str, bytes]:
    written = re.match(rb"ML\xefR.StableHLO_v(\d+)\.(\d+)\.(\d+)\x00", content, re.DOTALL)
    if written is not None:
        oldest, newest = mlir_bindings.version_window()
        version = tuple(map(int, written.groups()))
        if not _numbers(oldest) <= version <= _numbers(newest):
            raise InvalidConfigError(
                f"load: {path} is written for StableHLO {'.'.join(map(str, version))}, this jaxlib "
                f"reads {oldest} to {newest}; upgrade jaxlib, or export with a lower target"
            )
    if not content.startswith(mlir_bindings.MAGIC):  # because MLIR reads any other bytes as text
        raise mlir_bindings.MlirDiagnosticError([("the bytes are not MLIR bytecode", "artifact")])
    return perform("text", content, trusted=trusted), content


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _from_text(content: bytes, trusted: bool) -> tuple[str, bytes]:
    text = content.decode()
    return text, perform("portable artifact", text, None, trusted=trusted)


def _require_types(path: Any, module: StableHloModule, main_type: str) -> None:
    """Raise InvalidConfigError unless the module's types equal the types in the manifest."""
    declared = module.signature()
    if declared != main_type:
        raise InvalidConfigError(f"load: {path}: the manifest says {declared}, main is {main_type}")


def _constants(path: Any, manifest: Manifest) -> dict[str, Any]:
    if not manifest.constants:
        return {}
    file_path = constants_path(path, manifest.weights)
    if manifest.weights:
        arrays = tree_files.load(file_path, nested=False)
        if missing := [item.name for item in manifest.constants if item.name not in arrays]:
            raise InvalidConfigError(f"load: {file_path} lacks {', '.join(missing)}")
        return {item.name: _constant(arrays[item.name], item) for item in manifest.constants}
    expected = sum(_bytes(item.spec) + 4096 for item in manifest.constants)
    try:
        with archived(file_path, expected, f"load: {file_path}") as file:
            return {item.name: _constant(file[item.name], item) for item in manifest.constants}
    except (TenferroError, FileNotFoundError):
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(
            f"load: {file_path} does not contain the constants: {error!r}"
        ) from error


def _bytes(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape, dtype=object)) * spec.dtype.itemsize


def _constant(array: Any, item: StoredConstant) -> Any:
    wanted = item.spec
    value = restored(array, wanted.dtype)
    if value.dtype != wanted.dtype.dtype or value.shape != wanted.shape:
        raise DTypeError(f"load: {item.name} is {array.dtype}{list(array.shape)}, not {wanted}")
    # The constant uses the memory of the array, so that a program made from the artifact does not copy it.
    constant = Constant.adopting(np.asarray(value, order="C"))
    if constant.digest.hex() != item.digest:
        raise InvalidConfigError(
            f"load: {item.name} differs from the constant with which the artifact was exported"
        )
    return constant.array
