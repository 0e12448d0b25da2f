"""Sub-programs, which are the bodies of loops and branches, and their instructions."""

from __future__ import annotations

import pytest

from tenferro.graph import Graph
from tenferro.graph.mark import StopGradient
from tenferro.ops.control import Alternatives, Cond, ControlOp, Scan, While
from tenferro.ops.elementwise import Add, Compare, Multiply
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import Subprogram
from tenferro.types import TensorSpec

NUMBER = TensorSpec.parse("f64[]")
X = TensorSpec.parse("f64[3]")


def body(*, marked: bool = False) -> Subprogram:
    """Return a sub-program of x and y that computes x + y and x * y.

    If `marked`, x has a mark.
    """
    graph = Graph()
    x, y = graph.add_input(X), graph.add_input(X)
    (term,) = graph.add(StopGradient((0,)), (x,)) if marked else (x,)
    return Subprogram.of(
        graph, [x, y], [*graph.add(Add(), (term, y)), *graph.add(Multiply(), (x, y))]
    )


def test_the_program_of_a_plain_part_has_its_instructions() -> None:
    program = body().program
    part = Subprogram.of_program(program)
    assert part.program.instructions is program.instructions
    assert (part.program.input_names, part.program.output_names) == (("x0", "x1"), ("y0", "y1"))


def test_the_program_of_a_part_has_no_marks_and_the_part_keeps_them() -> None:
    part = body(marked=True)
    assert [i.op.name for i in part.instructions] == ["StopGradient", "Add", "Multiply"]
    assert [(i.op.name, i.inputs) for i in part.program.instructions] == [
        ("Add", (0, 1)),
        ("Multiply", (0, 1)),
    ]


def test_a_part_of_fewer_outputs_has_fewer_inputs_and_no_more_than_it_needs() -> None:
    graph = Graph()
    x, y, z = (graph.add_input(X) for _ in range(3))
    (total,) = graph.add(Add(), (x, z))
    (product,) = graph.add(Multiply(), (y, z))
    part = Subprogram.of(graph, [x, y, z], [total, product])
    assert part.reads([1]) == {1, 2}
    smaller = part.restricted([1, 2], [1])
    assert [(i.op.name, i.inputs, i.outputs) for i in smaller.instructions] == [
        ("Multiply", (0, 1), (2,))
    ]
    assert (smaller.input_specs, smaller.output_slots) == ((X, X), (2,))
    assert part.restricted([1, 2], [1]) is smaller


def test_instructions_that_numbers_make_equal_are_one() -> None:
    graph = Graph()
    x, *extents = [
        graph.add_input(TensorSpec.parse(text)) for text in ("f64[]", "f64[n]", "f64[m]")
    ]
    repeated = [graph.add(BroadcastInDim(graph.types[y].shape, ()), (x,))[0] for y in extents]
    part = Subprogram.of_program(Subprogram.of(graph, graph.inputs, repeated).program)
    assert len(part.program.instructions) == 2
    numbers = part.program.bind([(), (3,), (3,)])
    (one,) = part.specialize(numbers).program.instructions
    assert one.op == BroadcastInDim((3,), ())


def plain(*outputs: str) -> Subprogram:
    """Return a sub-program of two scalars x and y.

    `outputs` names its results, out of "x + y", "y" and "x > y".
    """
    graph = Graph()
    x, y = graph.add_input(NUMBER), graph.add_input(NUMBER)
    values = {
        "y": y,
        "x + y": graph.add(Add(), (x, y))[0],
        "x > y": graph.add(Compare("GT"), (x, y))[0],
    }
    program = Subprogram.of(graph, [x, y], [values[name] for name in outputs]).program
    return Subprogram.of_program(program)


OPS = (
    Scan(plain("x + y", "x + y"), 4, num_consts=0, num_carry=1),
    While(plain("x > y"), plain("x + y", "x + y"), num_consts=0),
    Cond((plain("x + y", "y"), plain("y", "y"))),
    Alternatives(plain("x + y", "y"), plain("y", "y")),
)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_that_keeps_all_outputs_is_itself(op: ControlOp) -> None:
    pruned, inputs, outputs = op.pruned([True, True])
    assert pruned is op
    assert (inputs, outputs) == (tuple(range(op.input_count)), (0, 1))


@pytest.mark.parametrize(
    ("op", "inputs"), [(OPS[0], (0, 1)), (OPS[2], (0, 2)), (OPS[3], (1,))], ids=lambda x: str(x)[:9]
)
def test_an_op_without_an_output_is_another(op: ControlOp, inputs: tuple[int, ...]) -> None:
    needed = [True, False] if isinstance(op, Scan) else [False, True]
    pruned, kept, outputs = op.pruned(needed)
    assert type(pruned) is type(op)
    assert pruned.output_count == 1
    assert (kept, outputs) == (inputs, (needed.index(True),))
