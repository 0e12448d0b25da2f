"""Estimated costs of ops and loops. The unit is the time of one NumPy call."""

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.costs import COSTS, ELEMENTS, WHILE_ITERATIONS, estimated_calls, estimated_cost
from tenferro.facts import FACTS, Fact
from tenferro.ops import control as cf
from tenferro.ops import reduction as re
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.extension import Extension
from tenferro.program import Subprogram

VECTOR, MATRIX = np.ones(500), np.ones((10, 50))
SUM = 1 + 500 / ELEMENTS
"""Estimated cost of the sum of two vectors, in NumPy calls."""
BODY = COSTS[cf.Scan].calls


def halves(x: Any, iterations: int = 10) -> Any:
    return tnf.scan(lambda c, _: (c + c, None), x, None, length=iterations)[0]


def last(fn: Any, arrays: Any) -> Any:
    """Return the op of a program's last instruction, and the types of its inputs and outputs."""
    program = tnf.compile(fn, *arrays)
    step = program.instructions[-1]
    types = program.types
    return step.op, [types[x] for x in step.inputs], [types[y] for y in step.outputs]


@pytest.mark.parametrize(
    ("fn", "arrays", "calls", "elements"),
    [
        (lambda x: x + x, [VECTOR], 1, 500 / ELEMENTS),
        # The cost of a reduction depends on the number of elements of its operand, not of its result.
        (tnf.sum, [VECTOR], COSTS[re.ReduceSum].calls, 500 / ELEMENTS),
        (tnf.sort, [VECTOR], COSTS[re.Sort].calls, 500 / ELEMENTS),
        (lambda a, b: a @ b, [MATRIX, MATRIX.T], COSTS[DotGeneral].calls, 500 / ELEMENTS),
        # A view reads no elements. It costs only the call.
        (tnf.transpose, [MATRIX], 0.5, 0),
        # An extension costs one call for each matrix of the batch.
        (tnf.linalg.cholesky, [np.ones((7, 5, 5))], 7 * COSTS[Extension].calls, 7 * 175 / ELEMENTS),
        # A loop costs as much as all its iterations. If their number is unknown, a constant estimate is used.
        (halves, [VECTOR], 10 * (BODY + 1), 10 * 500 / ELEMENTS),
        (lambda x: halves(x, 0), [VECTOR], 0, 0),
        (
            lambda x: tnf.scan(lambda c, _: (halves(c, 5), None), x, None, length=10)[0],
            [VECTOR], 10 * (BODY + 5 * (BODY + 1)), 50 * 500 / ELEMENTS,
        ),
        (
            lambda x: tnf.while_loop(lambda c: tnf.all(c < c), lambda c: c + c, x),
            [VECTOR], WHILE_ITERATIONS * (BODY + 1 + COSTS[re.ReduceAnd].calls + 1), WHILE_ITERATIONS * 3 * 500 / ELEMENTS,
        ),
        # A conditional costs the average of its branches, because only one of them runs.
        (
            lambda x, p: tnf.cond(p, lambda c: c + c, lambda c: c * c + c, x),
            [VECTOR, np.True_], COSTS[cf.Cond].calls + 1.5, 1.5 * 500 / ELEMENTS,
        ),
    ],
)  # fmt: skip
def test_estimates(fn: Any, arrays: list[Any], calls: float, elements: float) -> None:
    assert estimated_calls(*last(fn, arrays)) == pytest.approx(calls)
    assert estimated_cost(*last(fn, arrays)) == pytest.approx(calls + elements)


def test_the_first_of_several_alternatives_runs() -> None:
    add, twice = (tnf.compile(fn, VECTOR) for fn in (lambda x: x + x, lambda x: (x + x) + x))
    for programs, expected in (((add, twice), 1), ((twice, add), 2)):
        op = cf.Alternatives(*map(Subprogram.of_program, programs))
        assert estimated_calls(op, (), ()) == COSTS[cf.Alternatives].calls + expected


def test_ops_that_cost_no_more_than_reading_are_one_call() -> None:
    slow = [
        op.__name__ for op, facts in FACTS.items() if facts & Fact.CHEAP and COSTS[op].calls > 40
    ]
    assert slow == []
