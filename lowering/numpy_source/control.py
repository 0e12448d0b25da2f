"""Python code of loops and conditionals, written as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, tuple_of
from tenferro.ops import control as ops
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def _invariant(w: Writer, values: Sequence[Expression]) -> list[Expression]:
    """Assign each value to a name, unless its expression may be repeated without cost; return the values.

    A branch or loop body may use the values several times.
    """
    for value in values:
        w.named(value)
    return list(values)


def _assigned(w: Writer, names: Sequence[str], values: Sequence[Expression]) -> None:
    """Write one statement that assigns `values` to `names`; omit each name that already has its value."""
    changed = [(name, str(x)) for name, x in zip(names, values, strict=True) if name != str(x)]
    if changed:
        w.say(
            f"{', '.join(name for name, _ in changed)} = {', '.join(text for _, text in changed)}"
        )


def _names(w: Writer, specs: Sequence[TensorSpec], hint: str) -> tuple[list[str], list[Expression]]:
    """Return a new name for each type, and the names as expressions of these types."""
    names = [w.fresh(hint) for _ in specs]
    return names, [Expression(Code(name), spec) for name, spec in zip(names, specs, strict=True)]


def cond(op: ops.Cond, w: Writer, index: Expression, *operands: Expression) -> list[Code]:
    """Write `if` and `else`, with `elif` if there are more than two branches."""
    inner = _invariant(w, operands)
    names, _ = _names(w, op.branches[0].output_specs, "chosen")
    is_bool = index.spec.dtype.is_bool
    if not is_bool:
        w.named(index)
    order = list(op.branches)[::-1] if is_bool else list(op.branches)
    for number, branch in enumerate(order):
        is_last = number == len(order) - 1
        head = "else:" if is_last else f"if {index}:" if is_bool else f"if {index} == {number}:"
        if is_last and number == 0:
            results = w.program(branch.program, inner)
            _assigned(w, names, results)
            break
        with w.block(f"el{head}" if number and not is_last else head):
            _assigned(w, names, w.program(branch.program, inner))
    return [Code(name) for name in names]


def alternatives(op: ops.Alternatives, w: Writer, *operands: Expression) -> list[Code]:
    """Write the sub-program `op.parallel`: unlike the op's sequential sub-program, it needs no loop in Python."""
    results = w.program(op.parallel.program, _invariant(w, operands))
    return [Code(w.named(result)) for result in results]


def while_(op: ops.While, w: Writer, *operands: Expression) -> list[Code]:
    """Write `while condition:`; a condition that needs statements is computed in the body of `while True:`."""
    n = op.num_consts
    consts = _invariant(w, operands[:n])
    names, carry = _names(w, op.body.input_specs[n:], "state")
    _assigned(w, names, operands[n:])
    before = len(w.lines)
    (condition,) = w.program(op.cond.program, [*consts, *carry])
    head = w.lines[before:]
    if not head:
        with w.block(f"while {condition}:"):
            _assigned(w, names, w.program(op.body.program, [*consts, *carry]))
        return [Code(name) for name in names]
    del w.lines[before:]
    with w.block("while True:"):
        w.lines += [f"    {line}" for line in head]
        with w.block(f"if not {condition.at(Level.COMPARISON)}:"):
            w.say("break")
        _assigned(w, names, w.program(op.body.program, [*consts, *carry]))
    return [Code(name) for name in names]


def scan(op: ops.Scan, w: Writer, *operands: Expression) -> list[Code]:
    """Write `for`, which appends the results of each iteration to lists; after the loop each list is stacked.

    If there are several lists and at least one iteration, one list of tuples replaces the lists.
    """
    n, first, m = op.num_consts, op.first_xs, op.num_carry
    consts, xs = _invariant(w, operands[:n]), _invariant(w, operands[first:])
    names, carry = _names(w, op.body.input_specs[n:first], "carry")
    rows = op.body.output_specs[m:]
    is_joint = len(rows) > 1 and isinstance(op.length, int) and op.length > 0
    lists, _ = _names(w, rows[:1] if is_joint else rows, "rows")
    _assigned(w, names, operands[n:first])
    if lists:
        w.say(f"{', '.join(lists)} = {', '.join(['[]'] * len(lists))}")
    length = w.extent(op.length)
    index = w.fresh("t") if xs else "_"
    steps = f"reversed(range({length}))" if op.reverse else f"range({length})"
    with w.block(f"for {index} in {steps}:"):
        slices = [
            Expression(Code(f"{x}[{index}]", free=True), spec)
            for x, spec in zip(xs, op.body.input_specs[first:], strict=True)
        ]
        results = w.program(op.body.program, [*consts, *carry, *slices])
        if is_joint:
            w.say(f"{lists[0]}.append({tuple_of(results[m:])})")
        else:
            for each, result in zip(lists, results[m:], strict=True):
                w.say(f"{each}.append({result})")
        _assigned(w, names, results[:m])
    order = "[::-1]" if op.reverse else ""
    if is_joint:
        stacks, _ = _names(w, rows, "scan")
        parts = f"zip(*{lists[0]}{order}, strict=True)"
        w.say(f"{', '.join(stacks)} = [np.stack(each) for each in {parts}]")
        return [*map(Code, names), *map(Code, stacks)]
    return [
        *map(Code, names),
        *[_stacked(w, op, f"{each}{order}", row) for each, row in zip(lists, rows, strict=True)],
    ]


def _stacked(w: Writer, op: ops.Scan, rows: str, row: TensorSpec) -> Code:
    """Return the code of an array that stacks the list `rows`, a Python variable.

    `np.stack` fails for an empty list. So if the list may be empty, `stacked` of `functions.py` is called instead, with
    the shape and dtype of the empty result.
    """
    stacked = call("np.stack", rows)
    if isinstance(op.length, int) and op.length > 0:
        return stacked
    shape = w.shape((0, *row.shape))
    return call(w.function("stacked"), rows, shape, w.dtype(row.dtype))


ROWS: Rows = {ops.Cond: cond, ops.While: while_, ops.Scan: scan, ops.Alternatives: alternatives}
