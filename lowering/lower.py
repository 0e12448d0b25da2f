"""`lower_to_stablehlo`: writes a program as StableHLO text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.composite import emit_composite
from lowering.emission import emit_instructions
from lowering.emit import EMITTERS
from lowering.extensions import PLATFORMS, lowering_of
from lowering.extents import Extents
from lowering.families.callbacks import FAMILY
from lowering.module import StableHloModule
from lowering.operations import Literal
from lowering.printer import printed
from lowering.sharding import Partitioning, sharding_attribute
from lowering.writer import Value, Writer
from tenferro.dims import is_static
from tenferro.errors import InvalidConfigError, NonStaticShapeError
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, expand_extensions, prune_outputs
from tenferro.types import PartitionSpec, TensorSpec

__all__ = ["PLATFORMS", "PRECISIONS", "lower_to_stablehlo"]

PRECISIONS = ("highest", "high", "default")


def lower_to_stablehlo(
    program: GraphProgram,
    platform: str = "cpu",
    precision: str = "highest",
    *,
    specs: Sequence[Any] | None = None,
    extensions: str = "expand",
    linalg: str = "library",
    input_orders: Sequence[str] = (),
    output_orders: Sequence[str] = (),
    donate: Sequence[str] = (),
    symbolic: bool = False,
    annotate: bool = False,
    partitioning: Partitioning | None = None,
    callbacks: list[Any] | None = None,
) -> StableHloModule:
    """Lower a program to a StableHLO module, without jaxlib.

    Args:
        program: the result of `tenferro.compile`.
        platform: the platform that will run the text. The text of extension ops and of linear algebra depends on it.
        precision: precision of dot products and convolutions without an explicit precision. "highest" keeps float32
            products in float32; "default" lets an accelerator use TF32 or bfloat16.
        specs: concrete specs (or arrays), one per input, to which a symbolic program is specialised.
        extensions: "expand" writes an op of an extension family by its registered lowering, or else its expansion.
            "composite" writes a `stablehlo.composite` with the family id and the payload; its decomposition is the
            lowering or expansion.
        linalg: "library" calls the platform's routines (of LAPACK, cuSOLVER, hipSOLVER or the TPU compiler). "inline"
            writes standard StableHLO operations, for compilers without custom calls.
        input_orders, output_orders: "C" or "F" for each leaf; by default "C" for all. A tensor in F order is
            passed as its row-major transpose. The compiler folds the transposition into operations that use the
            tensor.
        donate: names of inputs whose memory the compiler may reuse for results.
        symbolic: keep symbolic extents. The module asserts at run time that the shapes of its arguments fit. It is
            for tools that refine shapes before they compile; see `StableHloModule.refined`.
        annotate: write the names of inputs and outputs, as `jax.arg_info` and `jax.result_info`.
        partitioning: a mesh, and the sharding of inputs and outputs. They are written as Shardy's attributes, and the
            constraints of `tenferro.lax.with_sharding_constraint` as Shardy's operations. XLA's partitioner then
            derives one program per device. Without a mesh the constraints are omitted.
        callbacks: a list to which the program's Python callbacks are appended; the module calls each by its
            index. If it is None, `tenferro.pure_callback` raises an error. A module with callbacks runs only in this
            process, on the CPU.

    Raises:
        NonStaticShapeError: an extent is symbolic, or depends on the data.
        InvalidConfigError: the platform, the precision or another option is unknown.
        UnsupportedError: StableHLO cannot express an op. One error lists all such ops of extensions.
        ExtensionLoweringError: the types of an expansion or lowering differ from the types that the op declares.

    >>> import tenferro as tnf
    >>> program = tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "float64"))
    >>> print(lower_to_stablehlo(program))
    module @main {
      func.func public @main(%arg0: tensor<2xf64>) -> (tensor<2xf64>) {
        %0 = stablehlo.add %arg0, %arg0 : tensor<2xf64>
        return %0 : tensor<2xf64>
      }
    }
    <BLANKLINE>

    Source: StableHLO spec; the lowering view: docs/specification/expansion.md.
    """
    if platform not in PLATFORMS:
        raise InvalidConfigError(f"platform must be one of {PLATFORMS}, got {platform!r}")
    if precision not in PRECISIONS:
        raise InvalidConfigError(f"precision must be one of {PRECISIONS}, got {precision!r}")
    if specs is not None:
        program = program.specialize_to(specs)
    if extensions not in ("expand", "composite"):
        raise InvalidConfigError(f'extensions must be "expand" or "composite", got {extensions!r}')
    if linalg not in ("library", "inline"):
        raise InvalidConfigError(f'linalg must be "library" or "inline", got {linalg!r}')
    wrapped = extensions == "composite"
    program = prune_outputs(program)
    calls = callbacks is not None and platform == "cpu" and not wrapped
    expanded = expand_extensions(
        program,
        keep=lambda op: (
            lowering_of(op, platform, linalg) is not None or (calls and op.family_id == FAMILY)
        ),
    )  # also for composites: the expansion raises one error for all ops that cannot be lowered
    program = program if wrapped else expanded
    view = program.lowering_view()
    if not symbolic:
        _require_static_inputs(view)
    specs_in = [view.types[slot] for slot in view.input_slots]
    orders_in = _orders("input_orders", input_orders, len(specs_in))
    orders_out = _orders("output_orders", output_orders, len(view.output_slots))
    _require_inputs(donate, view.input_names)
    passed = [_passed(spec, order) for spec, order in zip(specs_in, orders_in, strict=True)]
    emitters = {**EMITTERS, Extension: emit_composite} if wrapped else EMITTERS
    writer = Writer(passed, precision, platform, linalg, emitters)
    writer.callbacks = callbacks if calls else None
    writer.mesh = None if partitioning is None else dict(partitioning.mesh)
    if symbolic:
        writer.extents = Extents(writer)
        writer.extents.assert_inputs(view.input_names)
        writer.extents.assert_guards(view.guards)
    inputs = _with_reversed_axes(writer, writer.arguments, orders_in)
    outputs = _with_reversed_axes(writer, emit_instructions(view, writer, inputs), orders_out)
    of_arguments, of_results = (
        [dict[str, Any]({key: name} if annotate else {}) for name in names]
        for key, names in (
            ("jax.arg_info", view.input_names),
            ("jax.result_info", view.output_names),
        )
    )
    for attributes, name in zip(of_arguments, view.input_names, strict=True):
        if name in donate:
            attributes["jax.buffer_donor"] = True
    if partitioning is not None:
        specs_out = [view.types[slot] for slot in view.output_slots]
        _shard(of_arguments, view.input_names, specs_in, partitioning, partitioning.inputs)
        _shard(of_results, view.output_names, specs_out, partitioning, partitioning.outputs)
    mesh = () if partitioning is None else partitioning.mesh
    text, plain_text = printed(writer.module(outputs, of_arguments, of_results, mesh))
    return StableHloModule(
        text=text,
        plain_text=plain_text,
        platform=platform,
        input_specs=program.input_specs,
        output_specs=program.output_specs,
        input_names=view.input_names,
        output_names=view.output_names,
        guards=view.guards if symbolic else (),
        trusted=program.trusted,
    )


def _require_static_inputs(view: GraphProgram) -> None:
    for slot, name in zip(view.input_slots, view.input_names, strict=True):
        for axis, extent in enumerate(view.types[slot].shape):
            if not is_static(extent):
                raise NonStaticShapeError(
                    f"input {name}: axis {axis} has the symbolic extent {extent}; give concrete "
                    "specs=, one per input, to specialise the program"
                )


def _orders(name: str, orders: Sequence[str], count: int) -> list[str]:
    if orders and (len(orders) != count or not set(orders) <= {"C", "F"}):
        raise InvalidConfigError(
            f'{name} must be "C" or "F" for each of {count} leaves, got {orders!r}'
        )
    return list(orders) or ["C"] * count


def _shard(
    attributes: Sequence[dict[str, Any]],
    names: Sequence[str],
    types: Sequence[TensorSpec],
    partitioning: Partitioning,
    specs: Sequence[PartitionSpec],
) -> None:
    """Add the sharding of each input or output as the attribute `sdy.sharding` to its dictionary in `attributes`."""
    mesh = dict(partitioning.mesh)
    for own, name, leaf, spec in zip(attributes, names, types, specs, strict=True):
        spec.extents(leaf.shape, mesh, name)
        own["sdy.sharding"] = Literal(sharding_attribute(spec, leaf.rank))


def _require_inputs(names: Sequence[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise InvalidConfigError(
                f"donate: no input is named {name!r}; they are {list(allowed)}"
            )


def _passed(spec: TensorSpec, order: str) -> TensorSpec:
    return spec if order == "C" else TensorSpec.of(spec.shape[::-1], spec.dtype)


def _with_reversed_axes(
    writer: Writer, values: Sequence[Value], orders: Sequence[str]
) -> list[Value]:
    """Emit a transpose with reversed axes for each value whose order is "F"; return the others unchanged."""
    return [
        writer.transpose(value, range(value.rank)[::-1]) if order == "F" else value
        for value, order in zip(values, orders, strict=True)
    ]
