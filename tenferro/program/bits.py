"""`note_bits`: marks floats that are computed from the bits of other floats, so that differentiating them warns.

Arithmetic on the bits of a float has no derivative in tenferro, although the function that it computes may have one.
An example is multiplication by a power of two. An imported module does not contain the derivative rule of such a
function. Without the marks, the derivative would silently be zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenferro.errors import LostDerivativeWarning
from tenferro.graph import Graph, Instruction
from tenferro.ops.control import ControlOp
from tenferro.ops.elementwise import BitcastConvert
from tenferro.program.program import GraphProgram
from tenferro.program.subprogram import KeptMark, Subprogram
from tenferro.types import TensorSpec

__all__ = ["note_bits"]


def note_bits(program: GraphProgram) -> GraphProgram:
    """Return the program with a mark at each float that is computed from the bits of other floats.

    If there are no such floats, the program itself is returned. Bits are not followed into or out of the body of a loop
    or branch.

    >>> import numpy as np, tenferro as tnf
    >>> program = tnf.compile(lambda x: (x.view("int64") + 1).view("float64"), np.ones(2))
    >>> note_bits(program).marked is None, note_bits(tnf.compile(tnf.sin, 1.0)).marked is None
    (False, True)
    """
    marked = _marked(program)
    return program if marked is None else replace(program, marked=marked)


def _marked(program: GraphProgram) -> Subprogram | None:
    """Return the computation of a program with marks; None if no float is computed from bits."""
    parts = {
        index: changed
        for index, instruction in enumerate(program.instructions)
        if isinstance(instruction.op, ControlOp)
        and (changed := _with_marked_parts(instruction.op)) is not instruction.op
    }
    sources = _sources(program.instructions, program.types)
    if not parts and not sources:
        return None
    graph = Graph(program.trusted)
    values: dict[int, int] = {
        slot: graph.add_input(program.types[slot]) for slot in program.input_slots
    }
    for index, (op, inputs, outputs, _, source) in enumerate(program.instructions):
        op = parts.get(index, op)
        results = graph.add(op, tuple([values[slot] for slot in inputs]), source)
        values.update(zip(outputs, results, strict=True))
        if index in sources:
            (result,) = results
            floats = tuple([values[slot] for slot in sources[index]])
            mark = _Bits(str(source or ""), 1 + len(floats))
            (values[outputs[0]],) = graph.add(mark, (result, *floats), source)
    inputs = [values[slot] for slot in program.input_slots]
    return Subprogram.of(graph, inputs, [values[slot] for slot in program.output_slots])


def _with_marked_parts(op: ControlOp) -> ControlOp:
    """Return a loop or branch with marks in its sub-programs; the op itself if they need no marks."""
    parts = [_marked(part.program) for part in op.parts]
    if all([part is None for part in parts]):
        return op
    pairs = zip(parts, op.parts, strict=True)
    return op.with_parts(*[old if new is None else new for new, old in pairs])


def _sources(
    instructions: Sequence[Instruction], types: Sequence[TensorSpec]
) -> dict[int, tuple[int, ...]]:
    """Return a map from each instruction that converts bits to floats to the float values whose bits it uses."""
    bits_of: dict[int, frozenset[int]] = {}
    sources: dict[int, tuple[int, ...]] = {}
    for index, (op, inputs, outputs, _, _) in enumerate(instructions):
        own = frozenset().union(*[bits_of.get(slot, frozenset()) for slot in inputs])
        if isinstance(op, BitcastConvert):
            is_read, is_made = (types[slot].dtype.is_inexact for slot in (inputs[0], outputs[0]))
            if is_made and own:
                sources[index] = tuple(sorted(own))
            elif is_read and not is_made:
                own = frozenset(inputs)
        if own:
            for slot in outputs:
                dtype = types[slot].dtype
                if not dtype.is_inexact and not dtype.is_bool:
                    bits_of[slot] = own
    return sources


class _Bits(KeptMark):
    """Mark of a float that is computed from the bits of other floats."""

    __slots__ = ("count", "line")

    def __init__(self, line: str, count: int) -> None:
        super().__init__((0,))
        self.line = line
        self.count = count

    def __reduce__(self) -> Any:
        return _Bits, (self.line, self.count)

    @property
    def name(self) -> str:
        """The name of the mark in a printed program."""
        return "bits of a float"

    @property
    def key(self) -> Any:
        """The source line that the warning names, and the number of inputs of the mark."""
        return (_Bits, self.line, self.count)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of all inputs: the float, and the floats whose bits it uses."""
        return tuple(range(self.count))

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Warn if the derivative depends on one of the floats whose bits are used."""
        if any([dot is not None for dot in tangents[1:]]):
            at = f" at {self.line}" if self.line else ""
            warnings.warn(
                f"a float{at} is made of the bits of a float by arithmetic on integers, and its derivative is taken "
                "for zero; a rule that a function of JAX had is in no module: import the function by "
                "xla_peer.from_jax, or its derivative",
                LostDerivativeWarning,
                stacklevel=2,
            )
        return (tangents[0],)
