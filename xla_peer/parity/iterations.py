"""Native runs of the iterations of a loop, one by one, to find the iteration and the op that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.program import GraphProgram
from tenferro.types import flatten, unflatten

__all__ = ["MAX_ITERATIONS", "iterations_of", "native_outputs"]

MAX_ITERATIONS = 1000
"""Maximum number of iterations of one loop that are examined."""


def iterations_of(
    op: Any, operands: Sequence[Any]
) -> Iterator[tuple[str, int, GraphProgram, list[Any]]]:
    """Yield a tuple for each iteration of a loop in a native run, or for the branch that a conditional takes.

    The tuple contains the name of the iteration, the index of the sub-program in the op, the sub-program, and its
    arguments.
    """
    if isinstance(op, Alternatives):
        yield "the parallel one of Alternatives", 1, op.parallel.program, list(operands)
        return
    iterations = _branch(op, operands) if isinstance(op, Cond) else _loop_iterations(op, operands)
    yield from islice(iterations, MAX_ITERATIONS)


def _branch(
    op: Cond, operands: Sequence[Any]
) -> Iterator[tuple[str, int, GraphProgram, list[Any]]]:
    index, count = int(operands[0]), len(op.parts)
    chosen = index if 0 <= index < count else count - 1
    yield f"branch {chosen} of Cond", chosen, op.parts[chosen].program, list(operands[1:])


def _loop_iterations(
    op: Scan | While, operands: Sequence[Any]
) -> Iterator[tuple[str, int, GraphProgram, list[Any]]]:
    if isinstance(op, While):
        cond, body = (part.program for part in op.parts)
        consts, carry = list(operands[: op.num_consts]), list(operands[op.num_consts :])
        iteration = 0
        while True:
            yield f"the condition before iteration {iteration} of While", 0, cond, [*consts, *carry]
            if not native_outputs(cond, [*consts, *carry])[0]:
                return
            yield f"iteration {iteration} of While", 1, body, [*consts, *carry]
            carry = native_outputs(body, [*consts, *carry])
            iteration += 1
    (body,) = (part.program for part in op.parts)
    n, first = op.num_consts, op.first_xs
    consts, carry, xs = list(operands[:n]), list(operands[n:first]), operands[first:]
    for iteration, t in enumerate(range(op.length)[:: -1 if op.reverse else 1]):
        arguments = [*consts, *carry, *[np.asarray(x[t]) for x in xs]]
        yield f"iteration {iteration} of Scan", 0, body, arguments
        carry = native_outputs(body, arguments)[: op.num_carry]


def native_outputs(program: GraphProgram, leaves: Sequence[Any]) -> list[Any]:
    """Run a program natively on the leaves of its arguments, and return the leaves of its result as arrays."""
    results, _ = flatten(program.run(*unflatten(program.in_tree, leaves)))
    return list(map(np.asarray, results))
