"""Rewriting of modules with quantised types, before they are read, to modules with storage types only.

A value of the type `!quant.uniform<storage:expressed, scale:zero_point>` is replaced by a tensor of the storage type.
As the specification defines, an operation on quantised values is replaced by three steps. The operands are dequantised,
the operation is computed on the expressed type, and the results are quantised. Operations that only move elements are
applied to the stored integers.

    dequantize(q) = (q - zero_point) scale
    quantize(x)   = round_nearest_even(clamp(storage_min, x / scale + zero_point, storage_max))

Here q is the stored integer, and x the represented float. The difference q - zero_point is computed in 64 bits, because
it may overflow the storage type.

Source: StableHLO spec, sections "Quantized types" and "Quantization computations"; #uniform_quantize, #uniform_dequantize.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation, Type
from lowering.read.reader import MALFORMED
from lowering.syntax.attributes import ELEMENTS
from lowering.syntax.elements import dense_elements
from tenferro.dims import UNKNOWN
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = ["QuantizedType", "quantized_type", "without_quantized_types"]

STORED = frozenset([
    *("func.call", "func.return", "stablehlo.return", "stablehlo.composite"),
    *[f"stablehlo.{name}" for name in (
        "after_all", "all_gather", "all_reduce", "all_to_all", "bitcast_convert", "broadcast", "broadcast_in_dim",
        "case", "collective_broadcast", "collective_permute", "concatenate", "constant", "custom_call",
        "dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad", "dynamic_reshape", "dynamic_slice",
        "dynamic_update_slice", "gather", "get_dimension_size", "get_tuple_element", "if", "map", "optimization_barrier",
        "pad", "real_dynamic_slice", "reduce", "reduce_scatter", "reduce_window", "reshape", "reverse", "scatter",
        "select", "select_and_scatter", "slice", "sort", "transpose", "tuple", "while",
    )],
])  # fmt: skip
"""Operations that only move elements or pass them to regions or functions; they are applied to stored integers."""

ALONG_AXES = frozenset([
    *("func.call", "func.return", "stablehlo.return", "stablehlo.composite"),
    *[f"stablehlo.{name}" for name in (
        "bitcast_convert", "broadcast_in_dim", "case", "constant", "convolution", "custom_call", "dot", "dot_general",
        "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_reshape", "get_dimension_size", "get_tuple_element", "if",
        "reshape", "transpose", "tuple", "uniform_dequantize", "uniform_quantize", "while",
    )],
])  # fmt: skip
"""Operations that accept types with a scale for each index along an axis.

All other operations accept only types with a single scale.
"""
CONTRACTIONS = frozenset([
    f"stablehlo.{name}" for name in ("convolution", "dot", "dot_general", "dynamic_conv")
])  # fmt: skip
MOVES = frozenset([
    f"stablehlo.{name}" for name in (
        "all_gather", "all_to_all", "broadcast", "collective_broadcast", "collective_permute", "concatenate",
        "dynamic_gather", "dynamic_pad", "dynamic_slice", "dynamic_update_slice", "gather", "optimization_barrier", "pad",
        "real_dynamic_slice", "reverse", "select", "slice",
    )
])  # fmt: skip
"""Operations whose operands and results must all have the same quantised element type."""
SHAPES = frozenset([
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "dynamic_broadcast_in_dim", "dynamic_reshape", "reshape", "transpose")
])  # fmt: skip
"""Operations that preserve the scales, but may move the axis along which scales differ."""
UNIFORM_ONLY = "of quantised types, uniform ones per tensor and per axis are read"
_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(!quant\.uniform<.*>)>", re.DOTALL)
_UNIFORM = re.compile(
    r"!quant\.uniform<(?P<storage>[a-z]+\d+)(?:<(?P<low>-?\d+):(?P<high>-?\d+)>)?:(?P<expressed>[a-z]+\d+)"
    r"(?::(?P<axis>\d+))?,(?P<parameters>.+)>"
)
_PARAMETER = re.compile(r"(?P<scale>[-+0-9.eE]+)(?::(?P<zero>-?\d+))?")


@dataclass(frozen=True)
class QuantizedType:
    """A uniform quantised element type.

    Attributes:
        storage, expressed: dtypes of the stored integer, and of the represented float.
        low, high: the least and the largest stored integer.
        scales, zero_points: one number for all elements, or one number for each index along `axis`.
        axis: the axis along which scales differ; None if there is a single scale.

    >>> quantized_type("!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:3}>").zero_points
    (0, 3)
    """

    storage: DType
    expressed: DType
    low: int
    high: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None


def quantized_type(text: str) -> QuantizedType:
    """Parse a quantised element type from MLIR's text.

    Raises:
        UnsupportedError: the type is not supported, for example because it has a scale for each block of elements.
        InvalidConfigError: a scale is not positive and finite, or the bounds exceed the storage type.
    """
    match = _UNIFORM.fullmatch("".join(text.split()))
    if match is None:
        raise UnsupportedError(f"{text[:120]}: {UNIFORM_ONLY}")
    name = match["storage"].removeprefix("s")
    storage = ELEMENTS.get(
        f"u{name.replace('u', 'i')}" if name.startswith("u") and not name.startswith("ui") else name
    )
    expressed = ELEMENTS.get(match["expressed"])
    if storage is None or expressed is None or not (storage.is_integer and expressed.is_float):
        raise UnsupportedError(
            f"{text[:120]}: must store an integer and express a float, both of supported dtypes"
        )
    least, largest = storage.extremes
    low = least if match["low"] is None else int(match["low"])
    high = largest if match["high"] is None else int(match["high"])
    axis = None if match["axis"] is None else int(match["axis"])
    listed = match["parameters"]
    if (axis is not None) != listed.startswith("{"):
        raise UnsupportedError(
            f"{text[:120]}: an axis has a list of scales in braces, and only an axis has one"
        )
    parameters = [_PARAMETER.fullmatch(part) for part in listed.strip("{}").split(",")]
    if not all(parameters):
        raise UnsupportedError(
            f"{text[:120]}: scales must be numbers, with a zero point or without"
        )
    scales = tuple([float(one["scale"]) for one in parameters if one is not None])
    zeros = tuple([int(one["zero"] or 0) for one in parameters if one is not None])
    if not all([math.isfinite(scale) and scale > 0 for scale in scales]):
        raise InvalidConfigError(f"{text[:120]}: scales must be positive and finite")
    if not least <= low < high <= largest or not all([low <= zero <= high for zero in zeros]):
        raise InvalidConfigError(
            f"{text[:120]}: bounds and zero points must be within {storage}, and in order"
        )
    return QuantizedType(storage, expressed, low, high, scales, zeros, axis)


@dataclass(frozen=True)
class _Tensor:
    """The type of a tensor with a quantised element type."""

    shape: tuple[Any, ...]
    element: QuantizedType

    @property
    def stored(self) -> TensorSpec:
        return TensorSpec.of(self.shape, self.element.storage)

    @property
    def expressed(self) -> TensorSpec:
        return TensorSpec.of(self.shape, self.element.expressed)


def _quantized(kind: Type) -> _Tensor | None:
    """Parse the type of a quantised tensor; return None for any type that is not quantised.

    Raises:
        UnsupportedError: the quantised type is not supported.
        InvalidConfigError: the tensor lacks the axis of its scales, or the axis's extent is not the number of scales.
    """
    match = _TENSOR.fullmatch(kind.text) if isinstance(kind, ForeignType) else None
    if match is None:
        if isinstance(kind, ForeignType) and "!quant." in kind.text:
            raise UnsupportedError(f"{kind.text[:120]}: {UNIFORM_ONLY}")
        return None
    element = quantized_type(match[2])
    shape = tuple([UNKNOWN if part == "?" else int(part) for part in match[1].split("x")[:-1]])
    if element.axis is not None:
        extent = shape[element.axis] if element.axis < len(shape) else None
        if extent not in (len(element.scales), UNKNOWN):
            raise InvalidConfigError(
                f"{kind}: {len(element.scales)} scales for axis {element.axis}"
            )
    return _Tensor(shape, element)


def without_quantized_types(tree: ModuleTree) -> ModuleTree:
    """Return the module with storage types in place of quantised types; without quantised types, the module itself."""
    if not any([_has_quantized_types(function) for function in tree.functions.values()]):
        return tree
    functions = {name: _Rewriter(function).function() for name, function in tree.functions.items()}
    return replace(tree, functions=functions)


def _has_quantized_types(function: Function) -> bool:
    types = [*function.body.types]
    for operation in function.body.walk():
        types += operation.types
        types += [kind for region in operation.regions for kind in region.types]
    return any([isinstance(kind, ForeignType) and "!quant." in kind.text for kind in types])


def _stored(types: Sequence[Type]) -> tuple[Type, ...]:
    quantized = map(_quantized, types)
    return tuple(
        [kind if q is None else q.stored for kind, q in zip(types, quantized, strict=True)]
    )


class _Rewriter:
    """Rewriter of the quantised types of one function; values that it adds get new numbers."""

    def __init__(self, source: Function) -> None:
        self.source = source
        self.types: dict[int, Type] = {}
        self.next = 1 + max(source.body.values(), default=0)
        self.operations: list[Operation] = []
        self.location = ""

    def function(self) -> Function:
        return replace(
            self.source,
            body=self.block(self.source.body),
            result_types=_stored(self.source.result_types),
        )

    def block(self, block: Block) -> Block:
        self.types.update(zip(block.arguments, block.types, strict=True))
        surrounding, self.operations = self.operations, []
        for operation in block.operations:
            self.location = operation.location
            try:
                self.rewrite(operation)
            except TenferroError as error:
                error.at(operation.location)
                raise
            except MALFORMED as error:
                raise InvalidConfigError(
                    f"{operation.name} is malformed: {type(error).__name__}: {error}"
                ).at(operation.location) from error
        operations, self.operations = self.operations, surrounding
        return Block(block.arguments, _stored(block.types), operations)

    def rewrite(self, operation: Operation) -> None:
        """Append an operation to the new block.

        Without quantised values it is unchanged. Else it is applied to storage types, or to expressed types between a
        dequantisation and a quantisation.
        """
        self.types.update(zip(operation.results, operation.types, strict=True))
        operands = [_quantized(self.types[number]) for number in operation.operands]
        results = [_quantized(kind) for kind in operation.types]
        wrong = _wrong(operation, operands, results)
        if wrong is not None:
            raise InvalidConfigError(f"{operation.name}: {wrong}")
        regions = tuple([self.block(region) for region in operation.regions])
        if not any(operands) and not any(results):
            self.operations.append(replace(operation, regions=regions))
        elif operation.name in STORED:
            self.operations.append(
                replace(
                    operation,
                    types=_stored(operation.types),
                    regions=regions,
                    attributes=_constant(operation, results),
                )
            )
        elif regions:
            raise UnsupportedError(f"{operation.name}: has no meaning on quantised types")
        else:
            self.on_expressed(operation, operands, results)

    def on_expressed(
        self,
        operation: Operation,
        operands: Sequence[_Tensor | None],
        results: Sequence[_Tensor | None],
    ) -> None:
        """Append the dequantisation of the operands, the operation on expressed types, and the quantisation.

        For `uniform_quantize` and `uniform_dequantize`, which are such conversions themselves, no other operation is
        appended.
        """
        values = [
            number if tensor is None else self.dequantized(number, tensor)
            for number, tensor in zip(operation.operands, operands, strict=True)
        ]
        if operation.name == "stablehlo.uniform_dequantize":
            self.append("convert", values, _type_of(operation, results), results=operation.results)
            return
        if operation.name == "stablehlo.uniform_quantize":
            (tensor,) = results
            if tensor is None:
                raise InvalidConfigError(
                    "stablehlo.uniform_quantize: its result is of no quantised type"
                )
            self.quantized(values[0], tensor, operation.results[0])
            return
        numbers = tuple([
            number if tensor is None else self.number()
            for number, tensor in zip(operation.results, results, strict=True)
        ])  # fmt: skip
        types = tuple([
            kind if tensor is None else tensor.expressed
            for kind, tensor in zip(operation.types, results, strict=True)
        ])  # fmt: skip
        self.operations.append(
            replace(operation, operands=tuple(values), results=numbers, types=types)
        )
        for number, tensor, result in zip(numbers, results, operation.results, strict=True):
            if tensor is not None:
                self.quantized(number, tensor, result)

    # ---- the two conversions ---------------------------------------------------------------------

    def dequantized(self, number: int, tensor: _Tensor) -> int:
        """Append the dequantisation (q - zero_point) scale of the value `number`, and return the result's number."""
        element, expressed = tensor.element, tensor.expressed
        wide = TensorSpec.of(tensor.shape, DType.I64)
        x = self.append("convert", [number], wide)
        if any(element.zero_points):
            x = self.append(
                "subtract", [x, self.parameter(element.zero_points, tensor, wide)], wide
            )
        x = self.append("convert", [x], expressed)
        return self.append(
            "multiply", [x, self.parameter(element.scales, tensor, expressed)], expressed
        )

    def quantized(self, number: int, tensor: _Tensor, result: int) -> None:
        """Append the quantisation of the value `number`, whose result gets the number `result`.

        It is round_nearest_even(clamp(low, x / scale + zero_point, high)).
        """
        element, expressed = tensor.element, tensor.expressed
        x = self.append(
            "divide", [number, self.parameter(element.scales, tensor, expressed)], expressed
        )
        if any(element.zero_points):
            x = self.append(
                "add", [x, self.parameter(element.zero_points, tensor, expressed)], expressed
            )
        scalar = TensorSpec.of((), expressed.dtype)
        bounds = [self.constant(np.array(bound), scalar) for bound in (element.low, element.high)]
        x = self.append("clamp", [bounds[0], x, bounds[1]], expressed)
        x = self.append("round_nearest_even", [x], expressed)
        self.append("convert", [x], tensor.stored, results=(result,))

    def parameter(self, values: Sequence[float], tensor: _Tensor, spec: TensorSpec) -> int:
        """Append scales or zero points as a constant of the type `spec`, broadcast to the tensor's shape."""
        axis = tensor.element.axis
        if not spec.is_static:
            raise UnsupportedError(
                f"a quantised type in a tensor of open extents, {spec}: give numbers for them"
            )
        if axis is None:
            return self.constant(
                np.broadcast_to(np.array(values[0], spec.dtype.dtype), spec.shape), spec
            )
        vector = self.constant(
            np.array(values, spec.dtype.dtype), TensorSpec.of((len(values),), spec.dtype)
        )
        return self.append("broadcast_in_dim", [vector], spec, broadcast_dimensions=(axis,))

    # ---- writing -----------------------------------------------------------------------------------

    def number(self) -> int:
        self.next += 1
        return self.next - 1

    def constant(self, array: Any, spec: TensorSpec) -> int:
        value = array if array.dtype == spec.dtype.dtype else array.astype(spec.dtype.dtype)
        return self.append("constant", [], spec, value=value)

    def append(
        self,
        name: str,
        operands: Sequence[int],
        kind: Type,
        results: tuple[int, ...] = (),
        **attributes: Any,
    ) -> int:
        results = results or (self.number(),)
        self.operations.append(
            Operation(
                f"stablehlo.{name}",
                tuple(operands),
                results,
                (kind,),
                attributes,
                (),
                self.location,
            )
        )
        return results[0]


def _wrong(
    operation: Operation, operands: Sequence[_Tensor | None], results: Sequence[_Tensor | None]
) -> str | None:
    """Describe how an operation violates the specification's constraints on quantised types; None if it does not."""
    name = operation.name
    inside = [tensor for tensor in operands if tensor is not None]
    outside = [tensor for tensor in results if tensor is not None]
    elements = [tensor.element for tensor in (*inside, *outside)]
    if not elements:
        return None
    if name == "stablehlo.uniform_dequantize" and inside:
        kind = operation.types[0]
        if isinstance(kind, TensorSpec) and kind.dtype is not inside[0].element.expressed:
            return f"its result is of the expressed type, {inside[0].element.expressed}"
    along = [element for element in elements if element.axis is not None]
    if along and name not in ALONG_AXES:
        return "takes one scale for all elements, and not one for each index of an axis"
    if name in CONTRACTIONS:
        return _wrong_contraction(operands, results, elements)
    if name in MOVES and len({*elements}) > 1:
        return f"its operands and results must be of one type, got {[*{*elements}]}"
    if name in SHAPES and inside and outside:
        return _wrong_shape(operation, inside[0], outside[0])
    if name in STORED or name.startswith("stablehlo.uniform_"):
        return None
    if len({element.expressed for element in elements}) > 1:
        return "its operands and results express floats of one type"
    if inside and any([tensor.element.storage is not elements[0].storage for tensor in outside]):
        return "its results store integers of the type that its first operand stores"
    return None


def _wrong_contraction(
    operands: Sequence[_Tensor | None],
    results: Sequence[_Tensor | None],
    elements: Sequence[QuantizedType],
) -> str | None:
    """Describe a violation of the specification, #dot_general (C14) to (C20), #convolution (C28) to (C33), or None."""
    lhs, rhs = operands[:2]
    if lhs is not None and lhs.element.axis is not None:
        return "its left side has one scale for all elements"
    if rhs is None or (lhs is None) != (results[0] is None):
        return "both sides and the result are quantised, or the right side alone"
    if lhs is not None and lhs.element.storage is not rhs.element.storage:
        return "its sides store integers of one type"
    if len({element.expressed for element in elements}) > 1:
        return "its sides and its result express floats of one type"
    return None


def _wrong_shape(operation: Operation, x: _Tensor, y: _Tensor) -> str | None:
    """Describe a violation of #broadcast_in_dim (C1), (C6), #reshape (C1), (C3), #transpose (C1), (C4), or None."""
    one, other = x.element, y.element
    if (one.storage, one.expressed) != (other.storage, other.expressed):
        return "keeps the stored and the expressed type"
    if (one.axis is None) != (other.axis is None):
        return "keeps scales along an axis, or one for all elements"
    pairs = zip(one.scales, one.zero_points, strict=True)
    is_spread = len(one.scales) == 1 and operation.name.endswith("broadcast_in_dim")
    wanted = list(pairs) * (len(other.scales) if is_spread else 1)
    if wanted != list(zip(other.scales, other.zero_points, strict=True)):
        return "keeps scales and zero points"
    if one.axis is None:
        return None
    if operation.name == "stablehlo.transpose":
        place = list(operation.attributes["permutation"]).index(one.axis)
    elif operation.name.endswith("broadcast_in_dim"):
        place = int(operation.attributes["broadcast_dimensions"][one.axis])
    else:
        return None
    return None if place == other.axis else f"its scales belong to axis {place}, got {other.axis}"


def _type_of(operation: Operation, results: Sequence[_Tensor | None]) -> Type:
    if any(results):
        raise InvalidConfigError(f"{operation.name}: its result is of a quantised type")
    return operation.types[0]


def _constant(operation: Operation, results: Sequence[_Tensor | None]) -> dict[str, Any]:
    """Return an operation's attributes; the elements of a quantised constant are parsed as its stored integers."""
    value = operation.attributes.get("value")
    (tensor,) = results if len(results) == 1 else (None,)
    if operation.name != "stablehlo.constant" or tensor is None or not isinstance(value, str):
        return operation.attributes
    inside = value[value.index("dense<") + 6 : value.rindex("> : ")]
    try:
        return {**operation.attributes, "value": dense_elements(inside, tensor.stored)}
    except ValueError as error:
        raise InvalidConfigError(f"stablehlo.constant: {error}") from None
