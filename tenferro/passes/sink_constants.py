"""Constant sinking: write scalar constants into the loops that read them.

Law: the bits of results do not change. A number that is written inside a body can be used to simplify and compile the
body; for example, an integer division by 2 becomes a shift. Larger constants remain operands of the loop, because
bodies cannot contain arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenferro.graph import Graph, SourceLine
from tenferro.ops.control import Scan, While
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Subprogram
from tenferro.program.rewrite import Producers, Values, rewrite

__all__ = ["sink_constants"]


def sink_constants(program: GraphProgram) -> GraphProgram:
    """Return the program with scalar constants copied into the loops that read them.

    Outer loops are processed first.
    """
    return rewrite(program, {Scan: _sunk, While: _sunk})


def _sunk(
    producers: Producers, op: Scan | While, inputs: Values, line: SourceLine | None
) -> Values | None:
    makers = [producers.of(value, Constant) for value in inputs[: op.num_consts]]
    scalars = {
        i: maker.op
        for i, maker in enumerate(makers)
        if maker is not None and isinstance(maker.op, Constant) and maker.op.shape == ()
    }
    parts = [_with_scalars(part, scalars) for part in op.parts]
    if all([new is old for new, old in zip(parts, op.parts, strict=True)]):
        return None
    loop = replace(op.with_parts(*parts), num_consts=op.num_consts - len(scalars))
    operands = tuple([value for i, value in enumerate(inputs) if i not in scalars])
    return producers.apply(loop, operands, line)


def _with_scalars(part: Subprogram, scalars: Mapping[int, Constant]) -> Subprogram:
    """Return a condition or body in which constants replace the inputs at the positions in `scalars`.

    Inner loops also get copies of the constants.
    """
    if scalars:
        graph = Graph(part.trusted)
        values = [
            graph.add(scalars[i], ())[0] if i in scalars else graph.add_input(spec)
            for i, spec in enumerate(part.input_specs)
        ]
        inputs = [value for i, value in enumerate(values) if i not in scalars]
        part = Subprogram.of(graph, inputs, part.emit(graph, values))
    program = sink_constants(part.program)
    return part if program is part.program else Subprogram.of_program(program)
