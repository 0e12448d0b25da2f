"""Python code of loops and conditionals, written as statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, tuple_of
from lowering.numpy_source.reduction import axes_of
from tenferro.ops import control as ops
from tenferro.ops.reduction import ReduceMax
from tenferro.program.subprogram import Subprogram
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["LIBRARY", "ROWS"]

LIBRARY = "<functions.py>"
"""File of the source lines of a sub-program that a function in `functions.py` computes."""
STRING = r"""("(\\.|[^"\\])*"|'(\\.|[^'\\])*')"""
"""Regular expression for a string in Python code."""


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


def _carries(
    w: Writer, body: Subprogram, first: int, values: Sequence[Expression], hint: str
) -> tuple[list[str], list[Expression]]:
    """Write the statement that assigns the first values of a loop's carries; return their names and expressions.

    A carry has the name to which the user's statements assign its next value. A carry that no iteration changes has the
    name of its value.

    Args:
        first: the position of the first carry among the inputs of the body.
    """
    program, names = body.program, []
    sources = {slot: i.source for i in program.instructions if i.inputs for slot in i.outputs}
    for number, value in enumerate(values):
        slot = program.output_slots[number]
        if slot == program.input_slots[first + number]:
            names.append(w.named(value))
            continue
        source = sources.get(slot)
        is_of_loop = source is None or source == w.source
        names.append(w.fresh((not is_of_loop and w.statements.target(source)) or hint))
    _assigned(w, names, values)
    return names, [
        Expression(Code(name, free=True), value.spec)
        for name, value in zip(names, values, strict=True)
    ]


def _assign_carry(
    w: Writer,
    first: int,
    names: Sequence[str],
    carry: Sequence[Expression],
    rows: Sequence[Expression],
) -> None:
    """Let the last statement of an iteration assign the only carry that changes, if nothing reads its old value later.

    Args:
        first: the number of lines before the iteration.
        names, carry: the names of the carries, and their new values.
        rows: other results of the iteration.
    """
    changed = [(name, x) for name, x in zip(names, carry, strict=True) if name != str(x)]
    line = re.fullmatch(r"(\s*)(\w+)( = .*)", w.lines[-1])
    if len(changed) != 1 or len(w.lines) == first or line is None:
        return
    ((name, value),) = changed
    indent, old, assigned = line.groups()
    words = {word for row in rows if str(row) != old for word in re.findall(r"\w+", str(row))}
    is_keyword = not re.fullmatch(rf"{name}_\d+", old)  # or perhaps an attribute
    if old != str(value) or indent != w.indent or name in words or (old in words and is_keyword):
        return
    w.lines[-1] = f"{indent}{name}{assigned}"
    for x in (value, *rows):
        text = re.sub(rf"{STRING}|\b{old}\b", lambda m: name if m[0] == old else m[0], str(x))
        x.code = Code(text, x.code.level)


def cond(op: ops.Cond, w: Writer, index: Expression, *operands: Expression) -> Any:
    """Write `if` and `else`, with `elif` if there are more than two branches; write one branch as a function."""
    if len(op.branches) == 1 and not any(i.op.parts for i in op.branches[0].program.instructions):
        (part,) = op.branches
        source = part.program.instructions[-1].source
        if source is not None and source.file == LIBRARY:
            return _library_call(w, source.function, part, operands)
        code = call(w.definition(part, operands), *operands)
        return code if len(part.output_specs) == 1 else code.text
    inner, is_read = _invariant(w, operands), w.is_read
    is_bool = index.spec.dtype.is_bool
    if not is_bool:
        w.named(index)
    order = list(op.branches)[::-1] if is_bool else list(op.branches)
    tests = [str(index) if is_bool else f"{index} == {number}" for number in range(len(order))]
    groups = [[*each] for _, each in groupby(range(len(order)), key=order.__getitem__)]
    if len(groups) == 1:
        return [result.code for result in w.program(order[0].program, inner)]
    names = [w.fresh("chosen") if each else "_" for each in is_read]
    for numbers in groups:
        branch = order[numbers[0]]
        several = " | ".join([f"({tests[number]})" for number in numbers])
        test = several if len(numbers) > 1 else tests[numbers[0]]
        head = "else:" if numbers is groups[-1] else f"if {test}:"
        with w.block(f"el{head}" if numbers[0] and head != "else:" else head):
            results = w.program(branch.program, inner)
            read = [k for k, each in enumerate(is_read) if each]
            _assigned(w, [names[k] for k in read], [results[k] for k in read])
    return [Code(name) for name in names]


def _library_call(w: Writer, name: str, part: Subprogram, operands: Sequence[Expression]) -> Code:
    """Write a call of the function `name` of `functions.py`, along the axes that the sub-program reduces."""
    x, (spec,) = operands[0], part.output_specs
    reductions = [i.op for i in part.program.instructions if isinstance(i.op, ReduceMax)]
    axis = axes_of(reductions[0], x) if reductions else None
    keepdims = True if name == "logsumexp" and spec.rank == x.spec.rank else None
    return call(w.function(name), *operands, axis=axis, keepdims=keepdims)


def alternatives(op: ops.Alternatives, w: Writer, *operands: Expression) -> list[Code]:
    """Write the sub-program `op.parallel`: unlike the op's sequential sub-program, it needs no loop in Python."""
    results = w.program(op.parallel.program, _invariant(w, operands))
    return [Code(w.named(result)) for result in results]


def while_(op: ops.While, w: Writer, *operands: Expression) -> list[Code]:
    """Write `while condition:`; a condition that needs statements is computed in the body of `while True:`."""
    n = op.num_consts
    consts = _invariant(w, operands[:n])
    names, carry = _carries(w, op.body, n, operands[n:], "state")
    before = len(w.lines)
    (condition,) = w.program(op.cond.program, [*consts, *carry])
    head = w.lines[before:]
    if not head:
        with w.block(f"while {condition}:"):
            before = len(w.lines)
            results = w.program(op.body.program, [*consts, *carry])
            _assign_carry(w, before, names, results, ())
            _assigned(w, names, results)
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
    length = w.extent(op.length)
    consts = _invariant(w, operands[:n])
    counter = next((x for x in operands[first:] if _counts(x, length)), None)
    xs = [x if x is counter else _invariant(w, [x])[0] for x in operands[first:]]
    names, carry = _carries(w, op.body, n, operands[n:first], "carry")
    rows = op.body.output_specs[m:]
    is_joint = len(rows) > 1 and isinstance(op.length, int) and op.length > 0
    lists, _ = _names(w, rows[:1] if is_joint else rows, "rows")
    if lists:
        w.say(f"{', '.join(lists)} = {', '.join(['[]'] * len(lists))}")
    index = w.fresh("t") if xs else "_"
    steps = f"reversed(range({length}))" if op.reverse else f"range({length})"
    if counter is not None:
        steps = f"{counter}[::-1]" if op.reverse else str(counter)
    with w.block(f"for {index} in {steps}:"):
        slices = [
            Expression(Code(index if x is counter else f"{x}[{index}]", free=True), spec)
            for x, spec in zip(xs, op.body.input_specs[first:], strict=True)
        ]
        before = len(w.lines)
        results = w.program(op.body.program, [*consts, *carry, *slices])
        _assign_carry(w, before, names, results[:m], results[m:])
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


def _counts(x: Expression, length: str) -> bool:
    """Return whether the slices of x are the numbers of the iterations of a loop."""
    return re.fullmatch(rf"np\.arange\({re.escape(length)}(, dtype=np\.\w+)?\)", str(x)) is not None


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
