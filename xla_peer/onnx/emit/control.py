"""ONNX nodes of conditionals and loops: If and Loop. The bodies of these nodes use outer values by name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tenferro.ops import control as ops
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]

COUNT, FLAG = TensorSpec.of((), DType.I64), TensorSpec.of((), DType.Bool)


def cond(op: ops.Cond, w: Writer, index: Value, *operands: Value) -> list[Value]:
    """Emit If for a bool predicate, and nested Ifs for an integer that selects one of several branches."""
    specs = w.specs
    if index.dtype.is_bool:
        return _chosen(w, index, op.branches[1], op.branches[0], operands, specs)
    return _switched(w, index, list(op.branches), 0, operands, specs)


def _switched(
    w: Writer,
    index: Value,
    branches: Sequence[object],
    number: int,
    operands: Sequence[Value],
    specs: Sequence[TensorSpec],
) -> list[Value]:
    """Write nested Ifs that select one of `branches`, and return the outputs.

    The first of `branches` runs if `index` equals `number`, the second if `index` equals `number` + 1, and so on. The
    last branch runs for any other index.
    """
    first, *rest = branches
    if not rest:
        return w.program(first.program, operands)  # pyright: ignore[reportAttributeAccessIssue]  # because branches are sub-programs
    is_first = w.op("Equal", index, w.number(number, index.dtype), spec=FLAG)
    then = w.graph("branch", [], lambda: w.program(first.program, operands))  # pyright: ignore[reportAttributeAccessIssue]  # as above
    other = w.graph("branches", [], lambda: _switched(w, index, rest, number + 1, operands, specs))
    names = w.nodes_of("If", [is_first], len(specs), then_branch=then, else_branch=other)
    return [Value(name, spec) for name, spec in zip(names, specs, strict=True)]


def _chosen(
    w: Writer,
    flag: Value,
    on_true: object,
    on_false: object,
    operands: Sequence[Value],
    specs: Sequence[TensorSpec],
) -> list[Value]:
    graphs = [
        w.graph(name, [], lambda part=part: w.program(part.program, operands))  # pyright: ignore[reportAttributeAccessIssue]  # as above
        for name, part in (("then", on_true), ("else", on_false))
    ]
    names = w.nodes_of("If", [flag], len(specs), then_branch=graphs[0], else_branch=graphs[1])
    return [Value(name, spec) for name, spec in zip(names, specs, strict=True)]


def while_(op: ops.While, w: Writer, *operands: Value) -> list[Value]:
    """Emit Loop without a trip count. The condition is computed before the loop, and at the end of each iteration."""
    n, specs = op.num_consts, w.specs
    consts, first = operands[:n], operands[n:]
    (before,) = w.program(op.cond.program, operands)
    count, flag = Value(w.fresh(), COUNT), Value(w.fresh(), FLAG)
    carry = [Value(w.fresh(), spec) for spec in specs]

    def write() -> list[Value]:
        after = w.program(op.body.program, [*consts, *carry])
        return [*w.program(op.cond.program, [*consts, *after]), *after]

    body = w.graph("body", [count, flag, *carry], write)
    names = w.nodes_of("Loop", ["", before, *first], len(specs), body=body)
    return [Value(name, spec) for name, spec in zip(names, specs, strict=True)]


def scan(op: ops.Scan, w: Writer, *operands: Value) -> list[Value]:
    """Emit Loop with a trip count. The body gathers the slices of `xs`, and Loop stacks the outputs."""
    n, first, m, specs = op.num_consts, op.first_xs, op.num_carry, w.specs
    consts, start, xs = operands[:n], operands[n:first], operands[first:]
    length = w.op("Squeeze", w.extent(op.length), spec=COUNT)
    count, flag = Value(w.fresh(), COUNT), Value(w.fresh(), FLAG)
    carry = [Value(w.fresh(), spec) for spec in op.body.input_specs[n:first]]

    def write() -> list[Value]:
        t = count
        if op.reverse:
            t = w.op("Sub", w.op("Sub", length, w.number(1, DType.I64)), count)
        slices = [
            w.op("Gather", x, t, spec=TensorSpec.of(x.spec.shape[1:], x.dtype), axis=0) for x in xs
        ]
        results = w.program(op.body.program, [*consts, *carry, *slices])
        # Each output of an iteration is reshaped to a vector: the engine `onnx.reference` stacks only vectors in the
        # way that ONNX specifies. It treats scalars as vectors of one element, and concatenates matrices.
        rows = [y if y.rank == 1 else w.reshape(y, (prod(y.spec.shape),)) for y in results[m:]]
        return [flag, *results[:m], *rows]

    body = w.graph("body", [count, flag, *carry], write)
    names = w.nodes_of("Loop", [length, w.number(True, DType.Bool), *start], len(specs), body=body)
    results = [Value(name, spec) for name, spec in zip(names, specs, strict=True)]
    steps = w.integers(-1)
    rows: list[Value] = []
    for y in results[m:]:
        length, *shape = y.spec.shape
        row = y
        if len(shape) != 1:
            flat = Value(y.name, TensorSpec.of((length, prod(shape)), y.dtype))
            row = w.reshape(flat, (length, *shape))
        if op.reverse:
            row = w.op("Slice", row, steps, w.integers(-(2**62)), w.integers(0), steps)
        rows.append(row)
    return [*results[:m], *rows]


def alternatives(op: ops.Alternatives, w: Writer, *operands: Value) -> list[Value]:
    """Write the nodes of the sub-program `op.parallel`, which has no loop over the elements."""
    return w.program(op.parallel.program, operands)


ROWS: Rows = {ops.Cond: cond, ops.While: while_, ops.Scan: scan, ops.Alternatives: alternatives}
