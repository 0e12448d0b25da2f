"""jaxlib's MLIR and StableHLO bindings: the one file of `lowering` that imports jaxlib.

The imports are inside functions, because writing text needs none of them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = [
    "MlirDiagnosticError",
    "artifact_version",
    "bytecode",
    "canonical",
    "deserialize_portable_artifact",
    "evaluate",
    "legalize_chlo",
    "main_type",
    "module_tree",
    "parse_and_verify",
    "portable_artifact",
    "refined",
    "string_attribute",
    "text_of",
    "version_window",
]

WINDOWS = ("week4", "week12", "minimum", "current")


class MlirDiagnosticError(TenferroError, ValueError):
    """MLIR refused a module; `diagnostics` holds (message, location) pairs."""

    def __init__(self, diagnostics: list[tuple[str, str]]) -> None:
        self.diagnostics = diagnostics
        shown = "\n".join(f"{message} ({location})" for message, location in diagnostics[:5])
        super().__init__(f"MLIR refused the module:\n{shown}")


def _jaxlib() -> Any:
    """jaxlib.mlir's modules.

    Raises:
        ImportError: jaxlib is not installed; the message names the extra.
    """
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, func, sdy, stablehlo
    except ImportError as error:
        raise ImportError(
            "parsing, verifying and serialising StableHLO needs jaxlib: "
            "pip install 'tenferro[xla]'; the text itself does not"
        ) from error
    return ir, passmanager, _jax_mlir_ext, chlo, func, stablehlo, sdy


@cache
def _context() -> Any:
    """One context per process, with the dialects that modules use."""
    ir, _, extension, chlo, _, stablehlo, sdy = _jaxlib()
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    return context


def _parsed(text: str | bytes) -> Any:
    ir = _jaxlib()[0]
    try:
        with _context():
            return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise MlirDiagnosticError(
            [(item.message, str(item.location)) for item in error.error_diagnostics]
        ) from None


def parse_and_verify(text: str | bytes) -> None:
    """Parse text or bytecode; parsing verifies.

    Raises:
        MlirDiagnosticError: with MLIR's messages and places.
        ImportError: jaxlib is not installed.
    """
    _parsed(text)


def bytecode(text: str | bytes) -> bytes:
    """The module as MLIR bytecode."""
    module = _parsed(text)
    buffer = io.BytesIO()
    with _context():
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def portable_artifact(text: str | bytes, target_version: str | None = None) -> bytes:
    """The module as a StableHLO portable artifact.

    Args:
        target_version: a version such as "1.8.0", or a window: "week4", "week12", "minimum",
            "current"; None is "week12".

    Raises:
        InvalidConfigError: a version that this jaxlib does not write.
    """
    stablehlo = _jaxlib()[5]
    version = artifact_version(target_version)
    module = _parsed(text)
    try:
        with _context():
            if "sdy.mesh" in str(module):
                return _mixed_artifact(module, version)
            # It turns the module into VHLO in place, which is why it gets one of its own.
            return bytes(stablehlo.serialize_portable_artifact(module, version))
    except UnsupportedError:
        raise
    except Exception as error:
        raise InvalidConfigError(
            f"target_version {version}: this jaxlib writes versions "
            f"{stablehlo.get_minimum_version()} to {stablehlo.get_current_version()}: {error}"
        ) from None


def _mixed_artifact(module: Any, target: str) -> bytes:
    """StableHLO in its versioned form, Shardy, which has none, as it is."""
    from jaxlib import _jax, version  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    try:
        return bytes(_jax.mlir.serialize_portable_artifact(module, target, True))
    except TypeError:
        raise UnsupportedError(
            f"portable_artifact: of a partitioned program, jaxlib writes one from 0.10.1 on, and this is "
            f"{version.__version__}"
        ) from None


def artifact_version(name: str | None) -> str:
    """The version of StableHLO that a window stands for; a version is itself."""
    stablehlo = _jaxlib()[5]
    name = "week12" if name is None else name
    if name == "current":
        return stablehlo.get_current_version()
    if name == "minimum":
        return stablehlo.get_minimum_version()
    if name in ("week4", "week12"):
        requirement = stablehlo.StablehloCompatibilityRequirement
        wanted = requirement.WEEK_4 if name == "week4" else requirement.WEEK_12
        return stablehlo.get_version_from_compatibility_requirement(wanted)
    return name


def deserialize_portable_artifact(artifact: bytes) -> str:
    """The text of a portable artifact.

    Raises:
        MlirDiagnosticError: bytes that are none, or of a version too new.
    """
    ir, stablehlo = _jaxlib()[0], _jaxlib()[5]
    if not artifact.startswith(b"ML\xefR"):  # because MLIR would read other bytes as text
        raise MlirDiagnosticError([("the bytes are no MLIR bytecode", "artifact")])
    found: list[tuple[str, str]] = []

    def note(diagnostic: Any) -> bool:
        found.append((diagnostic.message, str(diagnostic.location)))
        return True

    with _context() as context:
        handler = context.attach_diagnostic_handler(note)
        try:
            return str(stablehlo.deserialize_portable_artifact(context, artifact))
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            raise MlirDiagnosticError(found or [(str(error), "artifact")]) from None
        finally:
            handler.detach()


@cache
def _register_passes() -> None:
    _jaxlib()[5].register_stablehlo_passes()


def canonical(text: str) -> str:
    """The text without CHLO, deprecated operations, and shapes as operands where these are constants.

    Raises:
        MlirDiagnosticError: what a pass refuses.
    """
    _register_passes()
    ir, passmanager = _jaxlib()[0], _jaxlib()[1]
    module = _parsed(text)
    pipeline = (
        "builtin.module(func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
        "stablehlo-canonicalize-dynamism),canonicalize)"
    )
    try:
        with _context():
            passmanager.PassManager.parse(pipeline).run(module.operation)
            return str(module)
    except ir.MLIRError as error:
        raise MlirDiagnosticError(
            [(item.message, str(item.location)) for item in error.error_diagnostics]
        ) from None


def legalize_chlo(text: str) -> str:
    """The text with CHLO ops expanded into StableHLO."""
    _register_passes()
    passmanager = _jaxlib()[1]
    module = _parsed(text)
    with _context():
        pipeline = "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize,cse)"
        passmanager.PassManager.parse(pipeline).run(module.operation)
        return str(module)


def refined(text: str, types: Sequence[str]) -> str:
    """A module with symbolic extents for arguments of these types, every shape a number.

    Its assertions are dropped: who calls has checked that the shapes fit.

    Raises:
        MlirDiagnosticError: shapes that contradict each other.
    """
    _register_passes()
    ir, passmanager = _jaxlib()[0], _jaxlib()[1]
    kept = [
        line for line in text.splitlines() if "stablehlo.custom_call @shape_assertion" not in line
    ]
    module = _parsed("\n".join(kept))
    pipeline = (
        f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}},stablehlo-refine-shapes,"
        "func.func(stablehlo-canonicalize-dynamism),canonicalize,cse)"
    )
    try:
        with _context():
            passmanager.PassManager.parse(pipeline).run(module.operation)
            return str(module)
    except ir.MLIRError as error:
        raise MlirDiagnosticError(
            [(item.message, str(item.location)) for item in error.error_diagnostics]
        ) from None


def string_attribute(text: str | bytes, name: str) -> str | None:
    """A string attribute of a module; None where it has no such attribute."""
    ir = _jaxlib()[0]
    module = _parsed(text)
    with _context():
        attributes = module.operation.attributes
        return ir.StringAttr(attributes[name]).value if name in attributes else None


def evaluate(text: str, inputs: Sequence[Any]) -> list[Any]:
    """The results of `main` by StableHLO's reference interpreter, which may end the process.

    Inputs and outputs are arrays of integers and of float32 and float64.
    """
    import numpy as np

    ir, _, _, _, _, stablehlo, _ = _jaxlib()
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        found = stablehlo.eval_module(module, [_dense(ir, x) for x in inputs])
        shapes = [tuple(ir.RankedTensorType(item.type).shape) for item in found]
        return [np.array(item).reshape(shape) for item, shape in zip(found, shapes, strict=True)]


def _dense(ir: Any, x: Any) -> Any:
    if x.dtype.kind != "u":
        return ir.DenseElementsAttr.get(x)
    element = ir.IntegerType.get_unsigned(8 * x.dtype.itemsize)
    return ir.DenseElementsAttr.get(x, type=ir.RankedTensorType.get(list(x.shape), element))


def main_type(text: str | bytes) -> str:
    """The type of the function `main`; empty where there is none."""
    ir = _jaxlib()[0]
    module = _parsed(text)
    with _context():
        for op in module.body.operations:
            if (
                "sym_name" in op.attributes
                and ir.StringAttr(op.attributes["sym_name"]).value == "main"
            ):
                return str(ir.TypeAttr(op.attributes["function_type"]).value)
    return ""


def version_window() -> tuple[str, str]:
    """The oldest and the newest version of StableHLO that artifacts are read and written in."""
    stablehlo = _jaxlib()[5]
    return stablehlo.get_minimum_version(), stablehlo.get_current_version()


# ---- modules as plain data -------------------------------------------------------------------------


def text_of(data: bytes) -> str:
    """The text of bytecode or of a portable artifact. Malformed bytes may end the process.

    Raises:
        MlirDiagnosticError: with MLIR's messages and places.
    """
    if b"StableHLO_v" in data[:64]:
        return deserialize_portable_artifact(data)
    module = _parsed(data)
    with _context():
        return str(module)


def module_tree(text: str) -> ModuleTree:
    """The module as plain data.

    Raises:
        MlirDiagnosticError: with MLIR's messages and places.
        InvalidConfigError: nested deeper than a reader may follow.
    """
    ir = _jaxlib()[0]
    require_shallow(text)
    module = _parsed(text)
    with _context():
        attributes = _attributes(ir, module.operation.attributes)
        tree = ModuleTree(str(attributes.pop("sym_name", "main")), attributes=attributes)
        for op in module.body.operations:
            if op.operation.name == "func.func":
                function = _Numbering(ir).function(op)
                tree.functions[function.name] = function
    return tree


DEEPEST = 256
"""How deep brackets may stand in brackets: the parser calls itself for each."""


def require_shallow(text: str) -> None:
    """Raises InvalidConfigError for brackets nested deeper than `DEEPEST`."""
    import numpy as np

    letters = np.frombuffer(text.encode(), np.uint8)
    for opening, closing in ("()", "[]", "{}", "<>"):
        steps = (letters == ord(opening)).astype(np.int8)
        ends = letters == ord(closing)
        if closing == ">":
            ends[1:] &= letters[:-1] != ord("-")
        steps -= ends
        if letters.size and np.cumsum(steps, dtype=np.int64).max() > DEEPEST:
            raise InvalidConfigError(
                f"the module nests {opening}{closing} more than {DEEPEST} deep, which no program needs"
            )


class _Numbering:
    """Numbers for the values of one function, by MLIR's identity of them."""

    def __init__(self, ir: Any) -> None:
        self.ir = ir
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def function(self, op: Any) -> Function:
        ir = self.ir
        attributes = _attributes(ir, op.attributes)
        kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        is_declared = len(op.regions[0].blocks) == 0
        if is_declared:
            raise UnsupportedError(f"@{attributes['sym_name']} is declared and has no body")
        body = self.block(op.regions[0])
        given = attributes.get("arg_attrs", ())
        made = attributes.get("res_attrs", ())
        return Function(
            name=attributes["sym_name"],
            body=body,
            result_types=tuple([_type(ir, item) for item in kind.results]),
            argument_names=_names(given, ("jax.arg_info", "tenferro.name"), len(body.arguments)),
            result_names=_names(made, ("jax.result_info", "tenferro.name"), len(kind.results)),
        )

    def block(self, region: Any) -> Block:
        if len(region.blocks) != 1:
            raise UnsupportedError(f"a region of {len(region.blocks)} blocks; StableHLO's have one")
        block = region.blocks[0]
        arguments = tuple([self.number(item) for item in block.arguments])
        types = tuple([_type(self.ir, item.type) for item in block.arguments])
        return Block(arguments, types, [self.operation(op.operation) for op in block.operations])

    def attributes(self, op: Any) -> dict[str, Any]:
        found = _attributes(self.ir, op.attributes)
        if op.name == "stablehlo.constant" and found.get("value") is None:
            spec = _type(self.ir, op.results[0].type)
            if isinstance(spec, TensorSpec):
                found["value"] = _printed_elements(op.get_asm(print_generic_op_form=True), spec)
        return found

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


def _names(attributes: Any, known: Sequence[str], count: int) -> tuple[str, ...]:
    found = [
        next((str(entry[name]) for name in known if name in entry), "")
        for entry in attributes or ()
    ]
    return tuple(found) if len(found) == count else ("",) * count


@cache
def _element_types() -> dict[str, DType]:
    short = {
        "i1": DType.Bool,
        "f16": DType.F16,
        "bf16": DType.BF16,
        "f32": DType.F32,
        "f64": DType.F64,
    }
    signed = {f"i{n}": DType.of(f"int{n}") for n in (8, 16, 32, 64)}
    unsigned = {f"ui{n}": DType.of(f"uint{n}") for n in (8, 16, 32, 64)}
    return {**short, **signed, **unsigned, "complex<f32>": DType.C32, "complex<f64>": DType.C64}


def _type(ir: Any, found: Any) -> Any:
    """A `TensorSpec`, or what MLIR prints."""
    if isinstance(found, ir.RankedTensorType):
        ranked = ir.RankedTensorType(found)
        dtype = _element_types().get(str(ranked.element_type))
        if dtype is not None and ranked.has_static_shape:
            return TensorSpec.of(tuple(ranked.shape), dtype)
    return ForeignType(str(found))


def _attributes(ir: Any, attributes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in attributes:  # names in some versions of jaxlib, named attributes in others
        name = item if isinstance(item, str) else item.name
        try:
            found[name] = _attribute(ir, attributes[name])
        except TypeError:  # because complex elements have no class there
            found[name] = None
    return found


def _attribute(ir: Any, attribute: Any) -> Any:
    """An attribute as Python data; as MLIR prints it where there is none for it."""
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
    view = getattr(_jaxlib()[5], numbers[0])(attribute)
    return {name: _plain(getattr(view, name)) for name in numbers[1]}


def _plain(value: Any) -> Any:
    return tuple(value) if hasattr(value, "__iter__") and not isinstance(value, str) else value


def _elements(ir: Any, attribute: Any) -> Any:
    """An array; of a splat, one element repeated without memory for each."""
    import numpy as np

    spec = _type(ir, attribute.type)
    if isinstance(spec, ForeignType):
        if "index" in spec.text:
            return np.array(attribute)
        return str(attribute)
    if spec.dtype is DType.BF16:
        return _printed_elements(str(attribute), spec)
    found = np.asarray(attribute)
    if attribute.is_splat and spec.size > 1:
        one = found.reshape(-1)[:1].reshape(()).astype(spec.dtype.dtype)
        return np.broadcast_to(one, spec.shape)
    return found.astype(spec.dtype.dtype, copy=False).reshape(spec.shape)


_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d+\.\d+(?:[eE][-+]?\d+)?")


def _printed_elements(text: str, spec: TensorSpec) -> Any:
    """Elements of dtypes to which MLIR's Python bindings give no access, from their print."""
    import numpy as np

    dtype = spec.dtype.dtype
    inside = text[text.index("dense<") + 6 : text.rindex("> : ")]
    if inside.startswith('"'):
        data = np.frombuffer(bytes.fromhex(inside.strip('"')[2:]), dtype)
    else:
        data = _parts(_NUMBER.findall(inside), spec.dtype.real.dtype).view(dtype)
    if data.size != spec.size:
        return np.broadcast_to(data.reshape(()), spec.shape)
    return data.reshape(spec.shape)


def _parts(printed: list[str], dtype: Any) -> Any:
    """Real numbers; what is printed as 0x.. are their bits."""
    import numpy as np

    data = np.zeros(len(printed), dtype)
    bits = data.view(f"u{dtype.itemsize}")
    for place, one in enumerate(printed):
        if one.startswith("0x"):
            bits[place] = int(one, 16)
        else:
            data[place] = float(one)
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
