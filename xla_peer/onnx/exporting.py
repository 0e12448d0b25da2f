"""`to_onnx` converts a program to an ONNX model, and `run` runs a model on arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tenferro
from tenferro.api import tree_files
from tenferro.dims import SymDim
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.files import replacing, target_of
from tenferro.ops.elements import LARGE
from tenferro.program import GraphProgram, expand_extensions, prune_outputs
from tenferro.types import DType, TensorSpec
from xla_peer.manifest import weights_name
from xla_peer.onnx.emit import NODES
from xla_peer.onnx.emit.extension import is_written
from xla_peer.onnx.writer import Value, Writer, element_type, typed

__all__ = ["export_onnx", "require_onnx", "run", "to_onnx"]

ENGINES = ("reference", "onnxruntime")
BESIDE = 64 << 20
"""Total size of constants, in bytes, above which `export_onnx` writes them to a separate file, to save copies."""
LARGEST_MODEL = (1 << 31) - (1 << 24)
"""Maximum size in bytes of the constants in a model; protobuf is limited to 2 GiB."""
OPSETS = (26, 28)
"""Lowest and highest supported opset. Opset 26 introduced BitCast and CumProd, which the nodes of some ops use."""


def to_onnx(program: GraphProgram, opset: int | None = None) -> Any:
    """Convert a program to an ONNX model, which the `onnx` package checks.

    Loops become Loop, conditionals become If, and symbolic extents become named dimensions. The special functions that
    ONNX lacks are written as formulas. A model does not check guards on symbolic extents.

    Args:
        opset: the version of ONNX's operators; by default the newest version that the installed `onnx` supports, up to
            28.

    Raises:
        UnsupportedError: ops have no counterpart in ONNX, which one error lists with types and lines; or the program
            has bfloat16 or complex numbers.
        InvalidConfigError: the opset is not supported.
        ModuleNotFoundError: the package `onnx` is not installed.
    """
    model, constants = _model(program, opset)
    size = sum([array.nbytes for array in constants.values()])
    if size > LARGEST_MODEL:
        raise InvalidConfigError(
            f"to_onnx: {program.name} has {size} bytes of constants, and a model holds less than 2 GiB; "
            "export it to a path, beside which they are written"
        )
    numpy_helper = import_module("onnx.numpy_helper")
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _model(program: GraphProgram, opset: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Return a checked model without initializers, and the arrays of the initializers by name.

    Raises:
        UnsupportedError, InvalidConfigError, ModuleNotFoundError: as `to_onnx`.
    """
    onnx = require_onnx()
    newest: int = min(onnx.defs.onnx_opset_version(), OPSETS[1])
    opset = newest if opset is None else opset
    if not OPSETS[0] <= opset <= newest:
        raise InvalidConfigError(
            f"to_onnx: opset must be from {OPSETS[0]} to {newest}, got {opset}"
        )
    program = expand_extensions(prune_outputs(program), keep=is_written)
    _require_real(program)
    writer = Writer(NODES)
    names = _names(program.input_names)
    inputs = [Value(name, spec) for name, spec in zip(names, program.input_specs, strict=True)]
    for value in inputs:
        for axis, extent in enumerate(value.spec.shape):
            if isinstance(extent, SymDim) and extent.as_leaf() is not None:
                writer.symbols.setdefault(str(extent), (value.name, axis))
    results = writer.program(program, inputs)
    if writer.missing:
        lines = "\n  ".join(dict.fromkeys(writer.missing))
        raise UnsupportedError(
            f"to_onnx: {program.name} has ops without a counterpart in ONNX:\n  {lines}"
        )
    outputs: list[Value] = []
    for name, value in zip(_names(program.output_names, names), results, strict=True):
        writer.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
        outputs.append(Value(name, value.spec))
    graph = onnx.helper.make_graph(
        writer.nodes, program.name, list(map(typed, inputs)), list(map(typed, outputs))
    )
    read = _names_read(graph)
    constants = {name: array for name, array in writer.constants.items() if name in read}
    operators = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(
        graph,
        opset_imports=operators,
        ir_version=onnx.helper.find_min_ir_version_for(operators),
        producer_name="tenferro",
        producer_version=tenferro.__version__,
    )
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    for name, array in constants.items():
        if array.nbytes < LARGE:
            checked.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        else:  # declare a large array as an input, because the checker copies the model
            spec = TensorSpec.of(array.shape, DType.of(array.dtype))
            checked.graph.input.append(typed(Value(name, spec)))
    try:
        onnx.checker.check_model(checked, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnsupportedError(
            f"to_onnx: opset {opset} does not take the model: {error}"
        ) from error
    return model, constants


def _names_read(graph: Any) -> set[str]:
    """Return the names that the nodes of a graph read, including nodes of bodies and branches."""
    names = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            names |= _names_read(attribute.g) | {y.name for y in attribute.g.output}
    return names


def export_onnx(program: GraphProgram, path: Any = None, weights: str = "") -> Any:
    """Convert a program to an ONNX model, and write the model to a `.onnx` file if a path is given.

    If all constants together have more than `BESIDE` bytes, each constant of 64 KiB or more is written to
    `<path>.safetensors` instead of the model, as ONNX's external data.

    Args:
        weights: the name of a `.safetensors` file in the model's folder, to which constants of more than 16 elements
            are written.

    Raises:
        InvalidConfigError: the path has another suffix or is a folder, a pipe or a device; or `weights` is given
            without a path.
        UnsupportedError: as `to_onnx`.
    """
    if weights and path is None:
        raise InvalidConfigError(f"export: weights={weights!r} are beside a file; give its path")
    if path is not None:
        if Path(path).suffix != ".onnx":
            raise InvalidConfigError(
                f"export: an ONNX model must be a .onnx file, got {str(path)!r}"
            )
        target_of(path)
    if path is None:
        return to_onnx(program)
    numpy_helper = require_onnx().numpy_helper
    model, constants = _model(program)
    beside = _external_arrays(constants, weights)
    file_path = weights_path(path, weights)
    located = tree_files.save_located(beside, file_path) if beside else {}
    for name, array in constants.items():
        if name in located:
            tensor = _external(name, array, file_path.name, *located[name])
        else:
            tensor = numpy_helper.from_array(array, name)
        model.graph.initializer.append(tensor)
    with replacing(path) as file:
        file.write(model.SerializeToString())
    return model


def weights_path(path: Any, weights: str = "") -> Path:
    """Return the path of the file with the external data of a model.

    >>> print(weights_path("model.onnx"), weights_path("model.onnx", "w.safetensors"))
    model.onnx.safetensors w.safetensors
    """
    return Path(path).with_name(weights_name(weights) or f"{Path(path).name}.safetensors")


def _external_arrays(constants: Mapping[str, Any], weights: str) -> dict[str, Any]:
    """Select the constants to write to a safetensors file.

    Only dtypes that have the same bytes in ONNX and in safetensors are selected.
    """
    size = sum([array.nbytes for array in constants.values()])
    if not weights and size <= BESIDE:
        return {}
    known = tree_files.DTYPES.values()
    return {
        name: array
        for name, array in constants.items()
        if DType.of(array.dtype) in known
        and (array.size > 16 if weights else array.nbytes >= LARGE)
    }


def _external(name: str, array: Any, location: str, offset: int, length: int) -> Any:
    """Return an initializer whose elements are a range of bytes of the file `location` in the model's folder."""
    onnx = require_onnx()
    tensor = onnx.TensorProto(
        name=name,
        dims=array.shape,
        data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def run(model: Any, arrays: Sequence[Any], engine: str = "reference") -> list[Any]:
    """Run an ONNX model on arrays, one per input, and return its outputs in order.

    Args:
        model: a `ModelProto`, or the path of a model, which may have external data.
        engine: "reference" for `onnx.reference`, or "onnxruntime".

    Raises:
        InvalidConfigError: the engine is unknown, or the number of arrays is wrong.
        UnsupportedError: the engine has no kernel for a node of the model.
        ModuleNotFoundError: the package of the engine is not installed.
    """
    if engine not in ENGINES:
        raise InvalidConfigError(f"onnx.run: engine must be one of {ENGINES}, got {engine!r}")
    content = source = model
    if isinstance(model, str | os.PathLike):
        source = os.fspath(model)
        content = require_onnx().load(source, load_external_data=False)
    elif any(tensor.data_location == tensor.EXTERNAL for tensor in model.graph.initializer):
        raise InvalidConfigError("onnx.run: the model has arrays beside its file; give the path")
    names = [value.name for value in content.graph.input]
    if len(names) != len(arrays):
        raise InvalidConfigError(
            f"onnx.run: the model takes {len(names)} arrays, got {len(arrays)}"
        )
    feeds = {name: np.asarray(x) for name, x in zip(names, arrays, strict=True)}
    if engine == "reference":
        require_onnx()
        from onnx.reference import ReferenceEvaluator

        with np.errstate(all="ignore"):
            return [np.asarray(y) for y in ReferenceEvaluator(source).run(None, feeds)]
    import onnxruntime  # pyright: ignore[reportMissingImports]  # because it is optional

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(
            source if isinstance(source, str) else source.SerializeToString(),
            options,
            providers=providers,
        )
    except Exception as error:  # because onnxruntime's error classes are private
        raise UnsupportedError(f"onnxruntime: {error}") from error
    return list(session.run(None, feeds))


def require_onnx() -> Any:
    """Import and return the package `onnx`, with the submodules that are used.

    Raises:
        ModuleNotFoundError: the package is not installed; the message says how to install it.
    """
    try:
        onnx = import_module("onnx")
        for name in ("checker", "helper", "numpy_helper", "shape_inference"):
            import_module(f"onnx.{name}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "ONNX models need the package onnx: pip install '.[onnx]'", name="onnx"
        ) from error
    return onnx


def _require_real(program: GraphProgram) -> None:
    inner = [part.program for i in program.instructions for part in i.op.parts]
    types = {spec.dtype for each in (program, *inner) for spec in each.types}
    for dtype in types:
        if dtype.is_complex or dtype is DType.BF16:
            raise UnsupportedError(
                f"to_onnx: {program.name} has values of {dtype}, which are not written"
            )
    for dtype in types:
        element_type(dtype)


def _names(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Convert names to distinct identifiers for ONNX values.

    The identifiers differ from the names in `taken` and from names that `Writer.fresh` returns.
    """
    result: list[str] = []
    for name in names:
        base = re.sub(r"\W+", "_", name).strip("_") or "x"
        unique, number = base, 1
        while unique in result or unique in taken or re.fullmatch(r"[vc]\d+", unique):
            number += 1
            unique = f"{base}_{number}"
        result.append(unique)
    return result
