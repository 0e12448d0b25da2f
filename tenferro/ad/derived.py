"""Derivatives and batches of an extension op that follow from its expansion into standard ops.

The derivatives are computed from the ops of the expansion. Therefore they satisfy the laws of `linearize`,
`transpose` and `batch`, and only standard ops are emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenferro.ad.algebra import Value
from tenferro.ad.subprograms import batched, linearized, transposed
from tenferro.ops.extension import Extension
from tenferro.program import Subprogram, expansion_of

__all__ = ["batches", "cotangents", "tangents", "written"]

Values = Sequence[Value]
Tangents = Sequence[Value | None]


def expansion(op: Extension, inputs: Values, batched: Sequence[bool] | None = None) -> Subprogram:
    """Return the expansion of `op` into standard ops, for inputs of the types of `inputs`.

    If `batched` flags inputs that have a leading batch axis, the expansion is for one slice of these inputs.

    Raises:
        UnsupportedError, ExtensionLoweringError: `expand_extensions` raised this error.
    """
    specs = [x.type for x in inputs]
    if batched is not None:
        specs = [
            type(spec).of(spec.shape[1:], spec.dtype) if has else spec
            for spec, has in zip(specs, batched, strict=True)
        ]
    return Subprogram.of_program(expansion_of(op, specs, keep=lambda family: False))


def written(part: Subprogram, like: Value, operands: Values) -> list[Value]:
    """Emit the sub-program `part`, applied to `operands`, and return its outputs."""
    emitter = like.emitter
    handles = part.emit(emitter.graph, [x.handle for x in operands], emitter.source)
    return [Value(emitter, handle) for handle in handles]


def tangents(op: Extension, inputs: Values, x_dots: Tangents) -> Tangents:
    """Return the tangents of the outputs of `op`; None for an output that depends on no active input."""
    active = [x_dot is not None for x_dot in x_dots]
    inner = linearized(expansion(op, inputs), active, inputs[0].emitter)
    dots = [dot for dot in inner.dots if dot is not None]
    nonzero = [y_dot for y_dot in inner.y_dots if y_dot is not None]
    part = Subprogram.of(inner.graph, [*inner.inputs, *dots], nonzero)
    present = [x_dot for x_dot in x_dots if x_dot is not None]
    y_dots = iter(written(part, inputs[0], [*inputs, *present]))
    return tuple([None if y_dot is None else next(y_dots) for y_dot in inner.y_dots])


def cotangents(op: Extension, inputs: Values, linear: Sequence[bool], y_bars: Tangents) -> Tangents:
    """Return the cotangents of the inputs that `linear` flags; None for other inputs."""
    asked = [y_bar is not None for y_bar in y_bars]
    inner, nonlinear, bars, pulled = transposed(
        expansion(op, inputs), linear, asked, inputs[0].emitter
    )
    part = Subprogram.of(inner.graph, [*nonlinear, *bars], [x for x in pulled if x is not None])
    operands = [x for x, is_linear in zip(inputs, linear, strict=True) if not is_linear]
    present = [y_bar for y_bar in y_bars if y_bar is not None]
    values = iter(written(part, inputs[0], [*operands, *present]))
    x_bars = iter([None if x is None else next(values) for x in pulled])
    return tuple([next(x_bars) if is_linear else None for is_linear in linear])


def batches(op: Extension, inputs: Values, mask: Sequence[bool]) -> tuple[Value, ...]:
    """Return the outputs of the batched op, with a leading axis; `mask` flags the inputs that have a leading axis."""
    size = inputs[mask.index(True)].shape[0]
    part = expansion(op, inputs, mask)
    whole = batched(part, mask, size, [True] * op.output_count, inputs[0].emitter)
    return tuple(written(whole.part, inputs[0], inputs))
