"""Scalar constants must move into the loops that read them, with the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.graph import Graph
from tenferro.ops.control import Scan, While
from tenferro.ops.elementwise import Convert
from tenferro.ops.source import Constant
from tenferro.passes import clean_up, sink_constants
from tenferro.program import GraphProgram, Subprogram

UNTOUCHED = tnf.GraphExecutor(passes=(), compiled=False)
PLAIN = tnf.GraphExecutor(passes=(clean_up, sink_constants), compiled=False)


def loop_of(program: GraphProgram) -> Any:
    """Return the op of the loop in a program that has exactly one loop."""
    (op,) = [step.op for step in program.instructions if isinstance(step.op, Scan | While)]
    return op


def program_of(loop: Any, constants: Sequence[Any], carry: Any, to: str) -> GraphProgram:
    """Return a program whose loop reads constants.

    The constants are converted before the loop, as in modules that JAX lowers.
    """
    graph = Graph()
    values = [
        graph.add(Convert(tnf.DType.of(to)), graph.add(Constant.of(np.asarray(x)), ()))[0]
        for x in constants
    ]
    x = graph.add_input(tnf.TensorSpec.of(carry.shape, tnf.DType.of(carry.dtype)))
    return GraphProgram.from_graph(graph, graph.add(loop, (*values, x)))


def part(function: Any, *arrays: Any) -> Subprogram:
    return Subprogram.of_program(tnf.compile(function, *arrays))


def require_same_bits(program: GraphProgram, x: Any) -> None:
    (y,), (expected,) = PLAIN.run(program, x), UNTOUCHED.run(program, x)
    assert y.tobytes() == expected.tobytes()


def test_a_converted_scalar_goes_into_the_loop_and_a_table_does_not() -> None:
    """A scalar divisor must move into the loop, and a table must not.

    JAX lowers a binary search to such a loop.
    """
    bounds = np.array([1, 7, 2**31, 2**32 - 1, 0], np.uint32)
    body = part(lambda two, table, c: c // two + table, np.uint32(2), bounds, bounds)
    loop = Scan(body, 3, 2, 1, False)
    program = program_of(loop, [np.int32(2), np.arange(5, dtype=np.int32)], bounds, "uint32")
    sunk = loop_of(sink_constants(clean_up(program)))
    assert sunk.num_consts == 1
    assert [spec.shape for spec in sunk.body.input_specs] == [(5,), (5,)]
    require_same_bits(program, bounds)


def test_loops_inside_of_loops_and_conditions() -> None:
    """A constant bound must move into the condition of an inner loop. The other operand of the loop must stay."""
    i = np.int64(3)
    inner = While(
        part(lambda limit, step, c: c < limit, i, i, i),
        part(lambda limit, step, c: c * step, i, i, i),
        2,
    )
    graph = Graph()
    values = [graph.add_input(tnf.TensorSpec.parse("i64[]")) for _ in range(3)]
    loop = Scan(Subprogram.of(graph, values, graph.add(inner, tuple(values))), 2, 2, 1, False)
    program = program_of(loop, [np.int32(100), np.int32(7)], i, "int64")
    outer = loop_of(sink_constants(clean_up(program)))
    assert outer.num_consts == loop_of(outer.body.program).num_consts == 0
    assert PLAIN.run(program, i)[0] == 147
    require_same_bits(program, i)


def test_a_loop_without_scalars_stays() -> None:
    def loop(x: Any, y: Any) -> Any:
        return tnf.scan(lambda c, _: (c + y, None), x, None, length=2)

    program = tnf.compile(loop, 1.0, 2.0)
    assert sink_constants(program) is program
