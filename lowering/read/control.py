"""Readers of calls, composites, custom calls, conditionals, loops and scans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lowering.module_tree import Block, Operation
from lowering.read.composites import composite, rebound
from lowering.read.counted import counted_loop
from lowering.read.custom_calls import CUSTOM_CALLS, unknown_targets
from lowering.read.python_calls import python_call
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import UnsupportedError
from tenferro.ops.control import Cond, Scan, While
from tenferro.types import TensorSpec

__all__ = ["MOST_ITERATIONS", "ROWS", "chosen_branch", "evaluated_values", "has_next"]

MOST_ITERATIONS = 400
"""Maximum total number of iterations of the loops that are unrolled.

A loop is unrolled if it contains checks, probes or messages.

Each iteration evaluates the loop's condition, so more iterations would take more than a second.
"""


def call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    return r.call(operation.attributes["callee"], operands)


def custom_call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a custom call by the reader of its target, or as an op of the family that its attributes name."""
    a = operation.attributes
    target = a["call_target_name"]
    read = CUSTOM_CALLS.get(target)
    if read is not None:
        results = read(r, operation, operands)
        return (results,) if isinstance(results, int) else results
    named = operation.config if isinstance(operation.config, dict) else {}
    outputs = rebound(r, operation, operands, target, named)
    if outputs is None:
        outputs = python_call(r, operation, operands)
    if outputs is None:
        raise UnsupportedError(unknown_targets(r.tree))
    return outputs


def nothing(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Return the constant False for each result: the results are tokens, which order side effects and have no value."""
    return [r.constant(False) for _ in operation.results]


def while_(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a loop as `Scan` if its trip count can be computed, else as `While`.

    A `Scan` has forward and reverse derivatives.
    """
    condition, body = operation.regions
    if any([_observes(region) for region in operation.regions]):
        (decision,) = r.block(condition, operands, r.surroundings)
        if r.evaluated(decision) is not None:
            return _observed(r, operation, operands, decision)
    specs = [r.spec(value) for value in operands]
    (test, step), captured = r.parts((condition, specs), (body, specs))
    loop = While(test, step, len(captured))
    values = [*captured, *operands]
    results = counted_loop(r, loop, values)
    return r.apply(loop, *values) if results is None else results


def _observes(region: Block) -> bool:
    """Return whether a region contains checks or probes of StableHLO's reference interpreter."""
    return any([each.name.startswith(("check.", "interpreter.")) for each in region.walk()])


def _observed(
    r: Reader, operation: Operation, operands: Sequence[int], decision: int
) -> Sequence[int]:
    """Read a loop as its unrolled iterations, so that checks and probes are performed in each iteration.

    Raises:
        UnsupportedError: the condition depends on arguments, or the module's unrolled loops have more than
            `MOST_ITERATIONS` iterations.
    """
    condition, body = operation.regions
    values = list(operands)
    while (continues := has_next(r, decision)) is not None:
        if not continues:
            return values
        values = evaluated_values(r, r.block(body, values, r.surroundings))
        (decision,) = r.block(condition, values, r.surroundings)
    raise UnsupportedError(
        f"{operation.name}: with checks or probes, at most {MOST_ITERATIONS} iterations, which no argument decides"
    )


def has_next(r: Reader, decision: int) -> bool | None:
    """Return whether an unrolled loop has another iteration.

    Return None if that depends on arguments, or after `MOST_ITERATIONS` iterations.
    """
    continues = r.evaluated(decision)
    r.unrolled += bool(continues)
    return None if continues is None or r.unrolled > MOST_ITERATIONS else bool(continues)


def evaluated_values(r: Reader, values: Sequence[int]) -> list[int]:
    """Return `values`, with a constant in place of each value that depends on no argument."""
    arrays = [r.evaluated(value) for value in values]
    return [
        value if array is None else r.constant(array)
        for value, array in zip(values, arrays, strict=True)
    ]


def chosen_branch(index: int, count: int) -> int:
    """Return the number of the branch that `index` selects; an index out of range selects the last branch."""
    return index if 0 <= index < count else count - 1


def if_(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a conditional on a bool; the regions are reversed, because in `stablehlo.if` the first is for true."""
    return _case(r, operation, operands[0], operation.regions[::-1])


def case(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a conditional on an integer; an integer out of range selects the last branch."""
    return _case(r, operation, operands[0], operation.regions)


def _case(r: Reader, operation: Operation, index: int, regions: Sequence[Block]) -> Sequence[int]:
    constant = r.constant_array(index)
    if constant is not None:
        chosen = regions[chosen_branch(int(constant), len(regions))]
        return r.block(chosen, (), r.surroundings)
    if operation.types:
        branches, captured = r.parts(*[(region, ()) for region in regions])
        return r.apply(Cond(tuple(branches)), index, *captured)
    branches, captured = r.parts(*[(partial(_for_effects, r, region), ()) for region in regions])
    if any([branch.has_effects for branch in branches]):
        r.apply(Cond(tuple(branches)), index, *captured)
    return ()


def _for_effects(r: Reader, region: Block, arguments: Sequence[int]) -> Sequence[int]:
    """Read a region without results, for its side effects; return the constant False, because a branch has a result."""
    r.block(region, arguments, r.surroundings)
    return [r.constant(False)]


def scan(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Read a scan along an axis.

    The region maps slices along this axis and the carry to output slices and the new carry. The op `Scan` expects the
    carry before the slices, and the scanned axis as the leading axis. So the arguments are reordered, and the axes
    transposed.
    """
    a, block = operation.attributes, operation.regions[0]
    count = int(a["operandSegmentSizes"][0])
    axis = int(a["dimension"])
    xs, carry = [], list(operands[count:])
    for value in operands[:count]:
        rest = [i for i in range(len(r.spec(value).shape)) if i != axis]
        xs.append(r.transpose(value, [axis, *rest]))
    length = r.spec(xs[0]).shape[0] if xs else int(a["scan_dim_size"])

    def step(arguments: Sequence[int]) -> Sequence[int]:
        inputs, states = arguments[len(carry) :], arguments[: len(carry)]
        results = r.block(block, [*inputs, *states], r.surroundings)
        first = len(results) - len(carry)
        return [*results[first:], *results[:first]]

    slices = [TensorSpec.of(r.spec(x).shape[1:], r.spec(x).dtype) for x in xs]
    specs = [*map(r.spec, carry), *slices]
    (body,), captured = r.parts((step, specs))
    loop = Scan(body, length, len(captured), len(carry), bool(a.get("is_reverse", False)))
    results = r.apply(loop, *captured, *carry, *xs)
    stacked = []
    for value in results[len(carry) :]:
        rank = len(r.spec(value).shape)
        stacked.append(r.transpose(value, [*range(1, axis + 1), 0, *range(axis + 1, rank)]))
    return [*stacked, *results[: len(carry)]]


ROWS: ReadRows = {
    "chlo.scan": scan,
    "func.call": call,
    "stablehlo.after_all": nothing,
    "stablehlo.case": case,
    "stablehlo.composite": composite,
    "stablehlo.create_token": nothing,
    "stablehlo.custom_call": custom_call,
    "stablehlo.if": if_,
    "stablehlo.while": while_,
}
