"""`lower_to_stablehlo`: a program as StableHLO text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.composite import emit_composite
from lowering.emission import Emitters, emit_instructions
from lowering.emit import EMITTERS
from lowering.extensions import lowering_of
from lowering.module import StableHloModule
from lowering.writer import Writer
from tenferro.dims import is_static
from tenferro.errors import InvalidConfigError, NonStaticShapeError
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, LoweringView, expand_extensions

__all__ = ["PLATFORMS", "PRECISIONS", "lower_to_stablehlo"]

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
PRECISIONS = ("highest", "high", "default")


def lower_to_stablehlo(
    program: GraphProgram,
    platform: str = "cpu",
    precision: str = "highest",
    *,
    specs: Sequence[Any] | None = None,
    extensions: str = "expand",
    linalg: str = "library",
) -> StableHloModule:
    """The program as a StableHLO module; needs no jaxlib.

    Args:
        program: what `tenferro.compile` returns.
        platform: whom the text is for; standard ops read the same on all.
        precision: of dots whose op does not say. "highest" keeps float32 products in float32;
            "default" lets an accelerator use TF32 or bfloat16.
        specs: concrete specs (or arrays) to specialise a symbolic program to.
        extensions: "expand" writes an op of an extension family by its registered lowering, else by
            its expansion; "composite" keeps it as a `stablehlo.composite` with family id and payload,
            the expansion as its decomposition.
        linalg: "library" calls what the platform has (LAPACK, cuSOLVER, the TPU's own); "inline"
            writes plain StableHLO, for a compiler that knows no custom call.

    Raises:
        NonStaticShapeError: an extent that is symbolic, or that the data decide.
        InvalidConfigError: an unknown platform, precision, or choice.
        UnsupportedError: an op that StableHLO cannot express; of extensions, all of them at once.
        ExtensionLoweringError: an expansion or lowering that disagrees with the declared types.

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

    Source: StableHLO spec; design of the lowering view: seed 002, sections I and VIII.
    """
    if platform not in PLATFORMS:
        raise InvalidConfigError(f"platform is one of {PLATFORMS}, got {platform!r}")
    if precision not in PRECISIONS:
        raise InvalidConfigError(f"precision is one of {PRECISIONS}, got {precision!r}")
    if specs is not None:
        program = program.specialize_to(specs)
    if extensions not in ("expand", "composite"):
        raise InvalidConfigError(f'extensions is "expand" or "composite", got {extensions!r}')
    if linalg not in ("library", "inline"):
        raise InvalidConfigError(f'linalg is "library" or "inline", got {linalg!r}')
    wrapped = extensions == "composite"
    expanded = expand_extensions(
        program, keep=lambda op: lowering_of(op.family_id, platform, linalg) is not None
    )  # also where composites wrap them, so that all that cannot be lowered are listed
    program = program if wrapped else expanded
    view = program.lowering_view()
    _require_static_inputs(view)
    writer = Writer([view.types[slot] for slot in view.input_slots], precision, platform, linalg)
    emitters: Emitters = {**EMITTERS, Extension: emit_composite} if wrapped else EMITTERS
    outputs = emit_instructions(view, writer, emitters)
    return StableHloModule(
        text=writer.print(outputs, "main", locations=True),
        plain_text=writer.print(outputs, "main", locations=False),
        platform=platform,
        input_specs=program.input_specs,
        output_specs=program.output_specs,
        input_names=view.input_names,
        output_names=view.output_names,
    )


def _require_static_inputs(view: LoweringView) -> None:
    for slot, name in zip(view.input_slots, view.input_names, strict=True):
        for axis, extent in enumerate(view.types[slot].shape):
            if not is_static(extent):
                raise NonStaticShapeError(
                    f"input {name}: axis {axis} has the symbolic extent {extent}; give concrete "
                    "specs=, one per input, to specialise the program"
                )
