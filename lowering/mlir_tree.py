"""Conversion of modules that MLIR has parsed to plain data, with the classes of `lowering.module_tree`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering.mlir_bindings import context, jaxlib_modules, parsed
from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation
from lowering.syntax.elements import dense_elements, resource_elements
from lowering.syntax.nesting import require_shallow
from lowering.types import element_type
from tenferro.dims import UNKNOWN
from tenferro.errors import UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = ["module_tree"]


def module_tree(text: str) -> ModuleTree:
    """Convert a module to plain data.

    Elements of constants that are stored outside the text are missing in the tree;
    `lowering.syntax.elements.with_elements` adds them.

    Raises:
        MlirDiagnosticError: the module is malformed; the error contains MLIR's messages and locations.
        InvalidConfigError: regions are nested more deeply than readers allow.
    """
    ir = jaxlib_modules()[0]
    require_shallow(text)
    module = parsed(text)
    with context():
        attributes = _attributes(ir, module.operation.attributes)
        tree = ModuleTree(str(attributes.pop("sym_name", "main")), attributes=attributes)
        # MLIR renames a resource if an earlier module of this process used the same name. So the names of resources are
        # read from the text that MLIR prints, not from the original text.
        blobs = _resources(str(module)) if "dense_resource<" in text else {}
        for op in module.body.operations:
            if op.operation.name == "func.func":
                function = _Numbering(ir, blobs).function(op)
                tree.functions[function.name] = function
            elif op.operation.name == "sdy.mesh":
                name = ir.StringAttr(op.attributes["sym_name"]).value
                tree.meshes[name] = str(op.attributes["mesh"]).removeprefix("#sdy.mesh")
    return tree


class _Numbering:
    """Converter of one function, which numbers the function's values in the order of their first occurrence."""

    def __init__(self, ir: Any, blobs: Mapping[str, str]) -> None:
        self.ir = ir
        self.blobs = blobs
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def function(self, op: Any) -> Function:
        ir = self.ir
        attributes = _attributes(ir, op.attributes)
        kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        if len(op.regions[0].blocks):
            body = self.block(op.regions[0])
        else:
            types = tuple([_type(ir, item) for item in kind.inputs])
            body = Block(tuple(range(len(types))), types, [])
        argument_attributes = attributes.get("arg_attrs", ())
        result_attributes = attributes.get("res_attrs", ())
        return Function(
            name=attributes["sym_name"],
            body=body,
            result_types=tuple([_type(ir, item) for item in kind.results]),
            argument_names=_names(
                argument_attributes, ("jax.arg_info", "tenferro.name"), len(body.arguments)
            ),
            result_names=_names(
                result_attributes, ("jax.result_info", "tenferro.name"), len(kind.results)
            ),
        )

    def block(self, region: Any) -> Block:
        if len(region.blocks) != 1:
            raise UnsupportedError(
                f"a region of {len(region.blocks)} blocks; StableHLO's regions have one"
            )
        block = region.blocks[0]
        arguments = tuple([self.number(item) for item in block.arguments])
        types = tuple([_type(self.ir, item.type) for item in block.arguments])
        return Block(arguments, types, [self.operation(op.operation) for op in block.operations])

    def attributes(self, op: Any) -> dict[str, Any]:
        attributes = _attributes(self.ir, op.attributes)
        if op.name == "stablehlo.constant" and attributes.get("value") is None:
            spec = _type(self.ir, op.results[0].type)
            if isinstance(spec, TensorSpec):
                attributes["value"] = _printed_elements(
                    op.get_asm(print_generic_op_form=True), spec
                )
        resource = (
            _RESOURCE.match(str(attributes["value"])) if _holds_text(op, attributes) else None
        )
        if resource is not None:
            spec = _type(self.ir, op.results[0].type)
            if isinstance(spec, TensorSpec):
                elements = resource_elements(self.blobs, resource[1].strip('"'), spec)
                if elements is not None:
                    attributes["value"] = elements
        return attributes

    def operation(self, op: Any) -> Operation:
        ir = self.ir
        return Operation(
            name=op.name,
            operands=tuple([self.number(item) for item in op.operands]),
            results=tuple([self.number(item) for item in op.results]),
            types=tuple([_type(ir, item.type) for item in op.results]),
            attributes=self.attributes(op),
            regions=tuple([self.block(region) for region in op.regions if len(region.blocks)]),
            location=str(op.location).removeprefix("loc(").removesuffix(")"),
        )


def _holds_text(op: Any, attributes: Mapping[str, Any]) -> bool:
    return op.name == "stablehlo.constant" and isinstance(attributes.get("value"), str)


_RESOURCE = re.compile(r'dense_resource<("[^"]*"|[^>]*)>')
_BLOB = re.compile(r'("[^"]*"|[\w$.]+)\s*:\s*"0x([0-9A-Fa-f]*)"')


def _resources(text: str) -> dict[str, str]:
    """Return a dictionary from the names of the resources at the end of a module's text to their hexadecimal digits."""
    start = text.rfind("{-#")
    if start < 0:
        return {}
    return {match[1].strip('"'): match[2] for match in _BLOB.finditer(text, start)}


def _names(attributes: Any, keys: Sequence[str], count: int) -> tuple[str, ...]:
    names = [
        next((str(entry[name]) for name in keys if name in entry), "") for entry in attributes or ()
    ]
    return tuple(names) if len(names) == count else ("",) * count


_ELEMENTS = {element_type(dtype): dtype for dtype in DType}


def _type(ir: Any, mlir_type: Any) -> Any:
    """Convert an MLIR type to a `TensorSpec` if it is a tensor of a supported dtype, else to a `ForeignType`."""
    if isinstance(mlir_type, ir.RankedTensorType):
        ranked = ir.RankedTensorType(mlir_type)
        dtype = _ELEMENTS.get(str(ranked.element_type))
        if dtype is not None and (ranked.has_static_shape or ranked.encoding is None):
            axes = range(ranked.rank)
            shape = [UNKNOWN if ranked.is_dynamic_dim(i) else ranked.shape[i] for i in axes]
            return TensorSpec.of(tuple(shape), dtype)
    return ForeignType(str(mlir_type))


def _attributes(ir: Any, attributes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in (
        attributes
    ):  # an item is a name in some versions of jaxlib, and a named attribute in others
        name = item if isinstance(item, str) else item.name
        try:
            values[name] = _attribute(ir, attributes[name])
        except TypeError:  # the bindings have no class for constants of complex elements
            values[name] = None
    return values


def _attribute(ir: Any, attribute: Any) -> Any:
    """Convert an attribute to Python data, or to the text that MLIR prints if its class has no reader in `_READERS`."""
    kind = type(attribute).__name__
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(ir, attribute)
    text = str(attribute)
    word = _WORD.fullmatch(text)
    if word is not None:
        return word[1]
    numbers = _NUMBERS.get(text.partition("<")[0])
    if numbers is None:
        return text
    view = getattr(jaxlib_modules()[5], numbers[0])(attribute)
    return {name: _plain(getattr(view, name)) for name in numbers[1]}


def _plain(value: Any) -> Any:
    return tuple(value) if hasattr(value, "__iter__") and not isinstance(value, str) else value


def _elements(ir: Any, attribute: Any) -> Any:
    """Convert the elements of a constant to an array; equal elements become a broadcast view of one element."""
    spec = _type(ir, attribute.type)
    if isinstance(spec, ForeignType):
        if "index" in spec.text:
            return np.array(attribute)
        return str(attribute)
    if spec.dtype is DType.BF16 or spec.dtype.is_narrow:
        return _printed_elements(str(attribute), spec)
    elements = np.asarray(attribute)
    if attribute.is_splat and spec.size > 1:
        one = elements[(0,) * elements.ndim].astype(spec.dtype.dtype)
        return np.broadcast_to(one, spec.shape)
    return elements.astype(spec.dtype.dtype, copy=False).reshape(spec.shape)


_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d+\.\d+(?:[eE][-+]?\d+)?")


def _printed_elements(text: str, spec: TensorSpec) -> Any:
    """Parse the elements of a constant from its text, for dtypes that MLIR's Python bindings cannot access."""
    dtype = spec.dtype.dtype
    inside = text[text.index("dense<") + 6 : text.index("> : tensor<")]
    if spec.dtype.is_narrow:
        return dense_elements(inside, spec)
    if inside.startswith('"'):
        data = np.frombuffer(bytes.fromhex(inside.strip('"')[2:]), dtype)
    else:
        data = _parts(_NUMBER.findall(inside), spec.dtype.real.dtype).view(dtype)
    if data.size != spec.size:
        return np.broadcast_to(data.reshape(()), spec.shape)
    return data.reshape(spec.shape)


def _parts(printed: list[str], dtype: Any) -> Any:
    """Parse the texts of real numbers; a text with the prefix 0x is the bit pattern of a number."""
    data = np.zeros(len(printed), dtype)
    bits = data.view(f"u{dtype.itemsize}")
    for i, one in enumerate(printed):
        if one.startswith("0x"):
            bits[i] = int(one, 16)
        else:
            data[i] = float(one)
    return data


def _many(ir: Any, attribute: Any) -> tuple[Any, ...]:
    return tuple([_attribute(ir, item) for item in attribute])


def _value(ir: Any, attribute: Any) -> Any:
    return attribute.value


_READERS: dict[str, Any] = {
    "ArrayAttr": _many,
    "BoolAttr": lambda ir, a: bool(a.value),
    "DenseElementsAttr": _elements,
    "DenseFPElementsAttr": _elements,
    "DenseIntElementsAttr": _elements,
    "DictAttr": _attributes,
    "FlatSymbolRefAttr": _value,
    "FloatAttr": _value,
    "IntegerAttr": _value,
    "StringAttr": _value,
    "TypeAttr": lambda ir, a: str(a.value),
    "UnitAttr": lambda ir, a: True,
    **dict.fromkeys(
        [f"Dense{kind}ArrayAttr" for kind in ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")],
        lambda ir, a: tuple(a),
    ),
}
_WORD = re.compile(r"#(?:stablehlo|chlo)<\w+ (\w+)>")
_NUMBERS = {
    "#stablehlo.conv": ("ConvDimensionNumbers", (
        "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
        "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions",
        "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
    )),
    "#stablehlo.dot": ("DotDimensionNumbers", (
        "lhs_batching_dimensions", "lhs_contracting_dimensions", "rhs_batching_dimensions",
        "rhs_contracting_dimensions",
    )),
    "#stablehlo.gather": ("GatherDimensionNumbers", (
        "collapsed_slice_dims", "index_vector_dim", "offset_dims", "operand_batching_dims",
        "start_index_map", "start_indices_batching_dims",
    )),
    "#stablehlo.scatter": ("ScatterDimensionNumbers", (
        "index_vector_dim", "input_batching_dims", "inserted_window_dims", "scatter_indices_batching_dims",
        "scattered_dims_to_operand_dims", "update_window_dims",
    )),
}  # fmt: skip
