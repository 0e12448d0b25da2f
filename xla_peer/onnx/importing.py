"""`import_onnx`, which converts an ONNX model to a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec
from xla_peer.onnx.exporting import require_onnx
from xla_peer.onnx.files import Place, initializers, read_model
from xla_peer.onnx.images import IMAGES
from xla_peer.onnx.layers import LAYERS
from xla_peer.onnx.readers import READERS, dtype_of, ints
from xla_peer.onnx.selection import SELECTIONS
from xla_peer.onnx.signals import SIGNALS

__all__ = ["import_onnx"]

OPERATORS = {**READERS, **LAYERS, **IMAGES, **SIGNALS, **SELECTIONS}
"""Functions that compute an ONNX operator, by name, for all but the operators in `CONTROL`, which contain graphs."""
CONTROL = ("If", "Loop", "Scan")
TEXTS = (".json", ".onnxjson", ".textproto", ".prototxt", ".pbtxt", ".onnxtxt", ".onnxtext")
"""Suffixes of files that contain a model as text."""


def import_onnx(
    model: Any, *specs: Any, constants: Mapping[str, Any] | None = None
) -> GraphProgram:
    """Convert an ONNX model to a program, which can be run, differentiated and exported.

    Args:
        model: a `ModelProto`, or the path of a file.
        specs: types of the inputs that are not in `constants`, in order; by default the types that the model declares,
            with symbols for named dimensions.
        constants: arrays by name, for inputs that determine shapes: ONNX passes shapes, axes and counts as inputs.

    Raises:
        UnsupportedError: the model has unsupported operators, which one error lists; a shape depends on an input that
            is not in `constants`; or tenferro lacks an element type.
        InvalidConfigError: the file is not a model, or a name in `constants` is not an input.
        ModuleNotFoundError: the package `onnx` is not installed.
    """
    onnx = require_onnx()
    places: dict[str, Place] = {}
    if isinstance(model, str | Path):
        try:
            if Path(model).suffix in TEXTS:
                model = onnx.load(model)
            else:
                model, places = read_model(Path(model))
        except Exception as error:
            if isinstance(error, OSError | TenferroError):
                raise
            raise InvalidConfigError(
                f"import_onnx: {model} is not an ONNX model: {error}"
            ) from error
    if not model.HasField("graph"):
        raise InvalidConfigError("import_onnx: the model has no graph; the file may be empty")
    missing = sorted(set(_missing(model.graph, {f.name for f in model.functions})))
    if missing:
        raise UnsupportedError(f"import_onnx: operators that are not read: {', '.join(missing)}")
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    opset = max(versions, default=1)
    initial = initializers(model.graph, places)
    known = dict(constants or {})
    names = [value.name for value in model.graph.input]
    if strange := known.keys() - set(names):
        raise InvalidConfigError(
            f"import_onnx: {', '.join(sorted(strange))} in constants is not an input of the model"
        )
    inputs = [
        value
        for value in model.graph.input
        if value.name not in known and value.name not in initial
    ]
    types = list(specs) or [_declared(value) for value in inputs]

    def function(*xs: Any) -> Any:
        values: dict[str, Any] = {"": None, **initial}
        values.update({name: np.asarray(x) for name, x in known.items()})
        values.update({value.name: x for value, x in zip(inputs, xs, strict=True)})
        return tuple(_results(model.graph, values, opset))

    function.__name__ = model.graph.name or "main"
    with np.errstate(all="ignore"):
        program = tnf.compile(function, *types)
    return replace(
        program,
        input_names=tuple([value.name for value in inputs]),
        output_names=tuple([value.name for value in model.graph.output]),
    )


def _declared(value: Any) -> TensorSpec:
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedError(f"import_onnx: input {value.name} is not a tensor")
    kind = value.type.tensor_type
    shape = [
        dim.dim_value
        if dim.WhichOneof("value") == "dim_value"
        else dim.dim_param or f"{value.name}_{i}"
        for i, dim in enumerate(kind.shape.dim)
    ]
    return TensorSpec(tuple(shape), dtype_of(kind.elem_type))


def _missing(graph: Any, functions: set[str]) -> Any:
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or (
            node.op_type not in OPERATORS and node.op_type not in CONTROL
        ):
            yield f"{node.domain}.{node.op_type}".lstrip(".")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _missing(attribute.g, functions)


def _evaluated(graph: Any, values: dict[str, Any], opset: int) -> list[Any]:
    """Compute the outputs of a graph that is an attribute of a node, such as a branch.

    `values` contains the values of the enclosing graphs by name; the graph's initializers are added to it.
    """
    values.update(initializers(graph, {}))
    return _results(graph, values, opset)


def _results(graph: Any, values: dict[str, Any], opset: int) -> list[Any]:
    """Compute the outputs of a graph.

    A value that depends only on constants is a NumPy array; any other value is a traced tensor.

    Two entries are added to the attributes of each node: `outputs`, the number of the node's outputs, and `opset`, the
    version of the model's operators.
    """
    helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    for node in graph.node:
        raw = {
            each.name: numpy_helper.to_array(each.t)
            if each.HasField("t")
            else helper.get_attribute_value(each)
            for each in node.attribute
        }
        attributes: dict[str, Any] = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in raw.items()
        }
        attributes |= {"outputs": len(node.output), "opset": opset}
        operands = [values[name] for name in node.input]
        if opset < 7 and "axis" in attributes and attributes.get("broadcast"):
            operands[1] = _aligned(operands[0], operands[1], attributes["axis"])
        if node.op_type in CONTROL:
            results = {"If": _if, "Loop": _loop, "Scan": _scan}[node.op_type](
                attributes, operands, values
            )
        else:
            results = OPERATORS[node.op_type](attributes, *operands)
        results = results if isinstance(results, list) else [results]
        values.update(zip(node.output, results, strict=False))
    return [values[value.name] for value in graph.output]


def _aligned(x: Any, y: Any, axis: int) -> Any:
    """Append axes to y, so that its first axis is broadcast against the axis number `axis` of x.

    Operators before opset 7 broadcast in this way.
    """
    trailing = np.ndim(x) - axis % np.ndim(x) - np.ndim(y)
    return np.reshape(y, (*y.shape, *[1] * trailing))


def _branch(graph: Any, values: Mapping[str, Any], opset: int) -> Callable[..., Any]:
    return lambda: tuple(_evaluated(graph, dict(values), opset))


def _if(
    attributes: Mapping[str, Any], operands: Sequence[Any], values: Mapping[str, Any]
) -> list[Any]:
    """Read If: trace only the selected branch if the condition is constant, else trace a conditional."""
    (flag,) = operands
    then_branch, else_branch = (
        _branch(attributes[name], values, attributes["opset"])
        for name in ("then_branch", "else_branch")
    )
    if isinstance(flag, np.ndarray | np.generic):
        return list(then_branch() if np.ravel(flag)[0] else else_branch())
    return list(tnf.cond(np.reshape(flag, ()), then_branch, else_branch))


def _loop(
    attributes: Mapping[str, Any], operands: Sequence[Any], values: Mapping[str, Any]
) -> list[Any]:
    """Read Loop as a scan if its trip count and its condition are constant, else as a while loop.

    A while loop cannot stack the outputs of its iterations.
    """
    body = attributes["body"]
    count, flag, *carry = operands
    m = len(carry)
    names = [value.name for value in body.input]
    start = list(carry)

    def step(t: Any, flag: Any, carry: Sequence[Any]) -> list[Any]:
        inner = dict(values)
        inner.update(zip(names, [t, flag, *carry], strict=True))
        return _evaluated(body, inner, attributes["opset"])

    producers = {name: node for node in body.node for name in node.output}
    source = body.output[0].name
    while source in producers and producers[source].op_type == "Identity":
        source = producers[source].input[0]
    is_counted = source == names[1] and isinstance(count, np.ndarray | np.generic)
    if is_counted and (flag is None or isinstance(flag, np.ndarray | np.generic)):
        n = ints(count, "a trip count")[0] if flag is None or bool(np.ravel(flag)[0]) else 0
        true = np.asarray(True)

        def scanned(carry: Any, t: Any) -> Any:
            results = step(t, true, carry)[1:]
            return tuple(results[:m]), tuple(results[m:])

        final, rows = tnf.scan(scanned, tuple(start), tnf.arange(n))
        return [*final, *rows]
    if len(body.output) > 1 + m:
        raise UnsupportedError(
            "import_onnx: Loop: rows are stacked only where the trip count is known; give the inputs that it depends "
            "on in constants="
        )
    first = np.asarray(True) if flag is None else np.reshape(flag, ())

    def going(state: Any) -> Any:
        t, flag, _ = state
        return flag if count is None else flag & (t < np.reshape(count, ()))

    def after(state: Any) -> Any:
        t, flag, carry = state
        flag, *carry = step(t, flag, carry)
        return t + 1, np.reshape(flag, ()), tuple(carry)

    return list(tnf.while_loop(going, after, (np.int64(0), first, tuple(start)))[2])


def _scan(
    attributes: Mapping[str, Any], operands: Sequence[Any], values: Mapping[str, Any]
) -> list[Any]:
    """Read Scan: the first operands are the carry, and each iteration reads a slice of each remaining operand.

    The first results are the final carry; the remaining results stack the outputs of all iterations.
    """
    body, count = attributes["body"], attributes["num_scan_inputs"]
    m = len(operands) - count
    names = [value.name for value in body.input]
    if len(names) != len(operands):
        raise UnsupportedError("import_onnx: Scan: the form of opset 8, with batches, is not read")
    start = tuple(operands[:m])
    axes = attributes.get("scan_input_axes", [0] * count)
    backwards = attributes.get("scan_input_directions", [0] * count)
    xs = [
        np.flip(np.moveaxis(x, axis, 0), 0) if back else np.moveaxis(x, axis, 0)
        for x, axis, back in zip(operands[m:], axes, backwards, strict=True)
    ]

    def step(carry: Any, slices: Any) -> Any:
        inner = dict(values)
        inner.update(zip(names, [*carry, *slices], strict=True))
        results = _evaluated(body, inner, attributes["opset"])
        return tuple(results[:m]), tuple(results[m:])

    final, rows = tnf.scan(step, start, tuple(xs))
    out_axes = attributes.get("scan_output_axes", [0] * len(rows))
    out_backwards = attributes.get("scan_output_directions", [0] * len(rows))
    stacked = [
        np.moveaxis(np.flip(y, 0) if back else y, 0, axis)
        for y, axis, back in zip(rows, out_axes, out_backwards, strict=True)
    ]
    return [*final, *stacked]
