"""jaxlib's MLIR and StableHLO bindings; no other file of `lowering` imports jaxlib.

The imports are inside functions, because writing text does not need jaxlib.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.interruption import is_interruption

__all__ = [
    "MAGIC",
    "MlirDiagnosticError",
    "artifact_version",
    "bytecode",
    "canonical",
    "compile_for_trial",
    "context",
    "deserialize_portable_artifact",
    "evaluate",
    "is_jaxlib_installed",
    "jaxlib_modules",
    "legalize_chlo",
    "main_type",
    "parse_and_verify",
    "parsed",
    "portable_artifact",
    "refined",
    "string_attribute",
    "text_of",
    "version_window",
]

MAGIC = b"ML\xefR"
"""First bytes of MLIR's bytecode."""
WINDOWS = ("week4", "week12", "minimum", "current")


class MlirDiagnosticError(TenferroError, ValueError):
    """Error: MLIR's parser or `lowering.syntax` rejected a module; `diagnostics` lists pairs (message, location)."""

    def __init__(self, diagnostics: list[tuple[str, str]]) -> None:
        self.diagnostics = diagnostics
        shown = "\n".join(f"{message} ({location})" for message, location in diagnostics[:5])
        super().__init__(f"the module is malformed:\n{shown}")


def is_jaxlib_installed() -> bool:
    """Return whether jaxlib can be imported."""
    try:
        return find_spec("jaxlib") is not None
    except (ImportError, ValueError):  # the import of jaxlib may be blocked, for example in a test
        return False


def jaxlib_modules() -> Any:
    """Import the modules of `jaxlib.mlir`.

    Raises:
        ImportError: jaxlib is not installed; the message says how to install it.
    """
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, func, sdy, stablehlo
    except ImportError as error:
        raise ImportError(
            "parsing, verifying and serialising StableHLO needs jaxlib: "
            "pip install '.[xla]' in tenferro's checkout; the text itself does not"
        ) from error
    return ir, passmanager, _jax_mlir_ext, chlo, func, stablehlo, sdy


@cache
def context() -> Any:
    """Return the MLIR context of this process, with CHLO, StableHLO, Shardy and standard dialects registered."""
    ir, _, extension, chlo, _, stablehlo, sdy = jaxlib_modules()
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    return context


def parsed(text: str | bytes) -> Any:
    """Parse a module by MLIR, and verify it.

    Raises:
        MlirDiagnosticError: the module is malformed; the error contains MLIR's messages and locations.
    """
    ir = jaxlib_modules()[0]
    try:
        with context():
            return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise _refused(error) from None


def compile_for_trial(text: str, options: str, devices: int) -> None:
    """Compile a module as PJRT would, to test whether compilation crashes the process.

    Errors of the compiler are ignored, because PJRT reports them when it compiles the module later. Custom calls need
    no handlers here, because the code is not run.

    Args:
        options: jaxlib's serialised CompileOptions for the CPU, in hexadecimal. If it is "", the module is for another
            platform, and is only converted to HLO.
        devices: the number of devices of the PJRT client.

    Relies on jaxlib._jax.mlir.mlir_module_to_xla_computation, xla_client.make_cpu_client and
    CompileOptions.ParseFromString.
    """
    from jaxlib import _jax, xla_client  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    with suppress(RuntimeError, ValueError):
        if not options:
            _jax.mlir.mlir_module_to_xla_computation(text)
            return
        client = xla_client.make_cpu_client(num_devices=devices, asynchronous=False)
        parsed_options = xla_client.CompileOptions.ParseFromString(bytes.fromhex(options))
        client.compile_and_load(text, client.devices(), parsed_options)


def _refused(error: Any) -> MlirDiagnosticError:
    """Return a `MlirDiagnosticError` with the messages and locations of MLIR's own error."""
    return MlirDiagnosticError(
        [(item.message, str(item.location)) for item in error.error_diagnostics]
    )


def parse_and_verify(text: str | bytes) -> None:
    """Parse text or bytecode, and verify the module; return nothing.

    Raises:
        MlirDiagnosticError: the module is malformed; the error contains MLIR's messages and locations.
        ImportError: jaxlib is not installed.
    """
    parsed(text)


def bytecode(text: str | bytes) -> bytes:
    """Convert the module to MLIR bytecode."""
    module = parsed(text)
    buffer = io.BytesIO()
    with context():
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def portable_artifact(text: str | bytes, target_version: str | None = None) -> bytes:
    """Convert the module to a StableHLO portable artifact.

    Args:
        target_version: a version such as "1.8.0", or a compatibility window: "week4", "week12", "minimum" or
            "current". None means "week12".

    Raises:
        InvalidConfigError: the installed jaxlib cannot write the version.
    """
    stablehlo = jaxlib_modules()[5]
    version = artifact_version(target_version)
    module = parsed(text)
    try:
        with context():
            if "sdy.mesh" in str(module):
                return _mixed_artifact(module, version)
            # The serialisation changes its argument to the VHLO dialect. That is safe here, because nothing else uses
            # `module`.
            return bytes(stablehlo.serialize_portable_artifact(module, version))
    except UnsupportedError:
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(
            f"target_version {version}: this jaxlib writes versions "
            f"{stablehlo.get_minimum_version()} to {stablehlo.get_current_version()}: {error}"
        ) from None


def _mixed_artifact(module: Any, target: str) -> bytes:
    """Convert a module that also has Shardy operations to a portable artifact.

    StableHLO operations are stored in their versioned form. Shardy's operations have no such form, and are stored
    unchanged.
    """
    from jaxlib import _jax, version  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    try:
        return bytes(_jax.mlir.serialize_portable_artifact(module, target, True))
    except TypeError:
        raise UnsupportedError(
            f"portable_artifact: of a partitioned program, jaxlib writes one from 0.10.1 on, and this is "
            f"{version.__version__}"
        ) from None


def artifact_version(name: str | None) -> str:
    """Return the StableHLO version, such as "1.8.0", of a compatibility window such as "week12".

    A `name` that is no window is taken as a version, and returned unchanged.
    """
    stablehlo = jaxlib_modules()[5]
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
    """Convert a portable artifact to text.

    Raises:
        MlirDiagnosticError: the bytes are not an artifact, or its version is too new.
    """
    ir, stablehlo = jaxlib_modules()[0], jaxlib_modules()[5]
    if not artifact.startswith(MAGIC):  # MLIR would parse any other bytes as text
        raise MlirDiagnosticError([("the bytes are not MLIR bytecode", "artifact")])
    diagnostics: list[tuple[str, str]] = []

    def note(diagnostic: Any) -> bool:
        diagnostics.append((diagnostic.message, str(diagnostic.location)))
        return True

    with context() as attached:
        handler = attached.attach_diagnostic_handler(note)
        try:
            return str(stablehlo.deserialize_portable_artifact(attached, artifact))
        except (ir.MLIRError, ValueError, RuntimeError) as error:
            raise MlirDiagnosticError(diagnostics or [(str(error), "artifact")]) from None
        finally:
            handler.detach()


@cache
def _register_passes() -> None:
    jaxlib_modules()[5].register_stablehlo_passes()


def _rewritten(text: str, pipeline: str) -> str:
    """Run a pipeline of MLIR's passes on a module, and return the new text.

    Raises:
        MlirDiagnosticError: a pass rejects the module.
    """
    _register_passes()
    ir, passmanager = jaxlib_modules()[:2]
    module = parsed(text)
    try:
        with context():
            passmanager.PassManager.parse(pipeline).run(module.operation)
            return str(module)
    except ir.MLIRError as error:
        raise _refused(error) from None


def canonical(text: str) -> str:
    """Rewrite CHLO, deprecated operations, and dynamic operations with constant shapes as plain StableHLO.

    Raises:
        MlirDiagnosticError: a pass rejects the module.
    """
    pipeline = (
        "builtin.module(func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
        "stablehlo-canonicalize-dynamism),canonicalize)"
    )
    return _rewritten(text, pipeline)


def legalize_chlo(text: str) -> str:
    """Expand the CHLO operations of a module into StableHLO operations."""
    return _rewritten(
        text, "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize,cse)"
    )


def refined(text: str, types: Sequence[str]) -> str:
    """Specialise a module with symbolic extents to arguments of static types, so that all shapes are static.

    The result still contains the assertions about shapes; their conditions are constants.

    Raises:
        MlirDiagnosticError: the shapes contradict each other.
    """
    pipeline = (
        f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}},stablehlo-refine-shapes,"
        "func.func(stablehlo-canonicalize-dynamism),canonicalize,cse)"
    )
    return _rewritten(text, pipeline)


def until(text: str, number: int) -> str:
    """Cut a module's `main` after one of its operations, so that `main` returns the results of this operation.

    Args:
        number: the number of the operation, counted from 0 among the operations of `main` that have results.
    """
    ir, _, _, _, func, _, _ = jaxlib_modules()
    module = parsed(text)
    with context(), ir.Location.unknown():
        (main,) = [op for op in module.body.operations if _is_main(ir, op)]
        (block,) = main.regions[0].blocks
        operations = list(block.operations)
        last = [op for op in operations if len(op.results)][number]
        for op in reversed(operations[operations.index(last) + 1 :]):
            op.operation.erase()
        results = list(last.results)
        with ir.InsertionPoint(block):
            func.ReturnOp(results)
        inputs = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
        signature = ir.FunctionType.get(inputs, [y.type for y in results])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)
        if "res_attrs" in main.attributes:
            del main.attributes["res_attrs"]
        return str(module)


def string_attribute(text: str | bytes, name: str) -> str | None:
    """Return the string attribute `name` of a module; None if the module has no attribute of this name."""
    ir = jaxlib_modules()[0]
    module = parsed(text)
    with context():
        attributes = module.operation.attributes
        return ir.StringAttr(attributes[name]).value if name in attributes else None


def evaluate(text: str, inputs: Sequence[Any]) -> list[Any]:
    """Evaluate `main` by StableHLO's reference interpreter, which may abort the process.

    Inputs and outputs are arrays of integers, float32 or float64.
    """
    import numpy as np

    ir, _, _, _, _, stablehlo, _ = jaxlib_modules()
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        outputs = stablehlo.eval_module(module, [_dense(ir, x) for x in inputs])
        shapes = [tuple(ir.RankedTensorType(item.type).shape) for item in outputs]
        return [np.array(item).reshape(shape) for item, shape in zip(outputs, shapes, strict=True)]


def _dense(ir: Any, x: Any) -> Any:
    if x.dtype.kind != "u":
        return ir.DenseElementsAttr.get(x)
    element = ir.IntegerType.get_unsigned(8 * x.dtype.itemsize)
    return ir.DenseElementsAttr.get(x, type=ir.RankedTensorType.get(list(x.shape), element))


def _is_main(ir: Any, op: Any) -> bool:
    return "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == "main"


def main_type(text: str | bytes) -> str:
    """Return the type of the function `main` as MLIR prints it; "" if the module has no such function."""
    ir = jaxlib_modules()[0]
    module = parsed(text)
    with context():
        for op in module.body.operations:
            if _is_main(ir, op):
                return str(ir.TypeAttr(op.attributes["function_type"]).value)
    return ""


def version_window() -> tuple[str, str]:
    """Return the oldest and the newest version of StableHLO artifacts that the installed jaxlib can read and write."""
    stablehlo = jaxlib_modules()[5]
    return stablehlo.get_minimum_version(), stablehlo.get_current_version()


def text_of(data: bytes) -> str:
    """Convert bytecode or a portable artifact to text. Malformed bytes may abort the process.

    Raises:
        MlirDiagnosticError: the bytes are malformed; the error contains MLIR's messages and locations.
    """
    if b"StableHLO_v" in data[:64]:
        return deserialize_portable_artifact(data)
    module = parsed(data)
    with context():
        return str(module)
