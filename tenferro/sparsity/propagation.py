"""Propagate sets of input elements through a program.

Law: the set of a result's element contains every input element on which that element depends: its derivative with
respect to the input element is not zero for some values. Without data dependence the sets are exact. Ops that move
elements, and ops whose positions and conditions depend on no input, contribute only the elements that they read. If
positions or conditions depend on data, a set is the union over all possibilities.

A loop is followed iteration by iteration, up to a maximum number of steps, while its condition and counters do not
depend on inputs. Otherwise the sets of its carries are the least fixpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.errors import NonStaticShapeError, UnsupportedError
from tenferro.graph import Graph, Instruction
from tenferro.ops import control as cf
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, expansion_of
from tenferro.sparsity.reads import READS, Operands, independent_slices, run_kernel
from tenferro.sparsity.relations import Groups, Pattern, identity, kept, stacked, union
from tenferro.types import TensorSpec

__all__ = ["dependencies"]

MAX_UNROLLED_STEPS = 20_000
"""Maximum number of instructions that are followed one by one in the iterations of a loop."""

MAX_ROUNDS = 64
"""Maximum number of rounds in which the fixpoint for the carry of a loop is computed."""

Array = np.ndarray[Any, Any]
Known = Sequence[Array | None]
Patterns = Sequence[Pattern]


def dependencies(
    program: GraphProgram, patterns: Patterns, known: Known
) -> tuple[list[Pattern], list[Array | None]]:
    """Compute, for each output, the pattern of the input elements on which its elements depend.

    Also return, for each output, its array if it depends on no input, else None.

    Args:
        patterns: for each input of the program, its pattern: the input elements on which each of its elements depends.
            None is the empty pattern.
        known: for each input of the program, its array if it is the same in every run, else None.

    Raises:
        NonStaticShapeError: an extent is not a number.
        UnsupportedError: a pattern has too many nonzeros, or an extent depends on the data.
    """
    columns = next((p.shape[1] for p in patterns if p is not None), 0)
    return _Propagation(columns).run(program, patterns, known)


class _Propagation:
    """Propagation of patterns that have `columns` columns, one for each input element."""

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def run(
        self, program: GraphProgram, patterns: Patterns, known: Known
    ) -> tuple[list[Pattern], list[Array | None]]:
        """Compute the patterns of the outputs, and the arrays of outputs that depend on no input.

        Patterns and arrays of intermediate values are dropped after their last use.
        """
        if not all([spec.is_static for spec in program.types]):
            raise NonStaticShapeError(
                "sparsity: the program has extents that are symbols, or depend on the data; give arrays, and mask "
                "with where in place of truncating"
            )
        last = _last_uses(program)
        pattern: dict[int, Pattern] = dict(zip(program.input_slots, patterns, strict=True))
        array: dict[int, Array | None] = dict(zip(program.input_slots, known, strict=True))
        for number, step in enumerate(program.instructions):
            p, k = [pattern[x] for x in step.inputs], [array[x] for x in step.inputs]
            new_patterns, new_arrays = self.step(program, step, p, k)
            pattern.update(zip(step.outputs, new_patterns, strict=True))
            array.update(zip(step.outputs, new_arrays, strict=True))
            for slot in last.get(number, ()):
                del pattern[slot], array[slot]
        slots = program.output_slots
        return [pattern[slot] for slot in slots], [array[slot] for slot in slots]

    def step(
        self, program: GraphProgram, step: Instruction, patterns: Patterns, known: Known
    ) -> tuple[Patterns, Known]:
        """Compute the patterns of the results of one instruction, and the arrays of results that depend on no input."""
        op, none = step.op, [None] * len(step.outputs)
        types = [program.types[slot] for slot in step.inputs]
        results = [program.types[slot] for slot in step.outputs]
        is_active = any([pattern is not None for pattern in patterns])
        if not is_active and not op.has_effects and all([array is not None for array in known]):
            return none, _evaluated(op, types, known)
        if isinstance(op, cf.ControlOp):
            return self.control(op, patterns, known)
        if not is_active:
            return none, none
        if isinstance(op, Extension):
            return self.extension(op, types, results, patterns, known), none
        operands, totals = Operands(types, known, results), list(none)
        for position, pattern in enumerate(patterns):
            if pattern is None:
                continue
            relations = READS.cell(op)(op, operands, position)
            for number, relation in enumerate(relations):
                if relation is not None:
                    totals[number] = union(totals[number], kept(relation.of(pattern)))
        return totals, none

    # ---- extensions ------------------------------------------------------------------------------

    def extension(
        self,
        op: Extension,
        types: Sequence[TensorSpec],
        results: Sequence[TensorSpec],
        patterns: Patterns,
        known: Known,
    ) -> Patterns:
        """Propagate patterns through the expansion of an op.

        If the op has no expansion, each slice of a result depends on the whole slice of each operand with the same
        index.
        """
        try:
            expansion = expansion_of(op, types, lambda inner: inner is not op and inner != op)
        except UnsupportedError:
            expansion = None
        if expansion is not None and not any([i.op == op for i in expansion.instructions]):
            return self.run(expansion, patterns, known)[0]
        axes = op.op.independent_axes([spec.shape for spec in types])
        totals: list[Pattern] = []
        for result in results:
            total: Pattern = None
            for position, pattern in enumerate(patterns):
                if pattern is not None:
                    relation = independent_slices(types, result, position, axes)
                    total = union(total, kept(relation.of(pattern)))
            totals.append(total)
        return totals

    # ---- conditionals and loops --------------------------------------------------------------------

    def control(self, op: cf.ControlOp, patterns: Patterns, known: Known) -> tuple[Patterns, Known]:
        """Compute the patterns and constant arrays of the results of a loop, conditional or alternatives."""
        if isinstance(op, cf.Cond):
            return self.cond(op, patterns, known)
        if isinstance(op, cf.Alternatives):
            return self.run(op.parallel.program, patterns, known)
        if isinstance(op, cf.Scan):
            return self.scan(op, patterns, known)
        assert isinstance(op, cf.While)
        return self.while_loop(op, patterns, known)

    def cond(self, op: cf.Cond, patterns: Patterns, known: Known) -> tuple[Patterns, Known]:
        """Return the union of the patterns of all branches that the conditional may take."""
        branches, index = op.branches, known[0]
        if index is not None:
            chosen = int(index)
            in_range = 0 <= chosen < len(branches)
            branches = (branches[chosen if in_range else -1],)
        runs = [self.run(branch.program, patterns[1:], known[1:]) for branch in branches]
        if len(runs) == 1:
            return runs[0]
        count = len(op.branches[0].output_specs)
        return [union(*[run[0][i] for run in runs]) for i in range(count)], [None] * count

    def scan(self, op: cf.Scan, patterns: Patterns, known: Known) -> tuple[Patterns, Known]:
        """Propagate patterns through a scan iteration by iteration.

        If that takes too many steps, compute the fixpoint of the carry instead.
        """
        body, n, first, length = op.body.program, op.num_consts, op.first_xs, op.length
        sizes = [spec.size for spec in body.input_specs]
        if length * max(len(body.instructions), 1) > MAX_UNROLLED_STEPS:
            return self.scan_fixpoint(op, patterns, known)
        carry, carried = list(patterns[n:first]), list(known[n:first])
        ys: list[list[Pattern]] = [[] for _ in body.output_specs[op.num_carry :]]
        arrays: list[list[Array | None]] = [[] for _ in ys]
        times = range(length)
        for t in reversed(times) if op.reverse else times:
            slices = [
                None if p is None else kept(p[t * size : (t + 1) * size])
                for p, size in zip(patterns[first:], sizes[first:], strict=True)
            ]
            at = [None if array is None else array[t] for array in known[first:]]
            new, values = self.run(
                body, [*patterns[:n], *carry, *slices], [*known[:n], *carried, *at]
            )
            carry, carried = list(new[: op.num_carry]), list(values[: op.num_carry])
            for y, here in zip(ys, new[op.num_carry :], strict=True):
                y.append(here)
            for y, here in zip(arrays, values[op.num_carry :], strict=True):
                y.append(here)
        specs = body.output_specs[op.num_carry :]
        order = -1 if op.reverse else 1
        rows = [
            stacked(y[::order], spec.size, self.columns) for y, spec in zip(ys, specs, strict=True)
        ]
        together = [_joined(y[::order], length) for y in arrays]
        return [*carry, *rows], [*carried, *together]

    def scan_fixpoint(
        self, op: cf.Scan, patterns: Patterns, known: Known
    ) -> tuple[Patterns, Known]:
        """Compute the fixpoint of the carry.

        Slice t of a stacked output depends on the carry, and on slice t of the xs.
        """
        n, m, first, length = op.num_consts, op.num_carry, op.first_xs, op.length
        local = _Local(op.body.program, list(known[:n]), n)
        sources = [
            *patterns[:n],
            *[None] * m,
            *[
                None if p is None else _any_slice(p, spec.size)
                for p, spec in zip(patterns[first:], local.inputs[first:], strict=True)
            ],
        ]
        carry = local.closure(m, n, sources, patterns[n:first], self.columns)
        ys: list[Pattern] = []
        for number, spec in enumerate(local.outputs[m:], m):
            constant = local.read(
                number, [*patterns[:n], *carry, *[None] * (len(patterns) - first)]
            )
            total = None if constant is None else _repeated(constant, spec.size, length)
            for position in range(first, len(patterns)):
                total = union(
                    total, local.read_slices(number, position, patterns[position], length)
                )
            ys.append(total)
        return [*carry, *ys], [None] * (m + len(ys))

    def while_loop(self, op: cf.While, patterns: Patterns, known: Known) -> tuple[Patterns, Known]:
        """Propagate patterns through a while loop by iteration while its condition is known.

        When the condition depends on inputs, compute the fixpoint of the carry.
        """
        n, cond, body = op.num_consts, op.cond.program, op.body.program
        carry, carried = list(patterns[n:]), list(known[n:])
        cost = max(len(body.instructions) + len(cond.instructions), 1)
        for _ in range(MAX_UNROLLED_STEPS // cost):
            _, (goes_on,) = self.run(cond, [None] * len(known), [*known[:n], *carried])
            if goes_on is None:
                break
            if not goes_on:
                return carry, carried
            new, values = self.run(body, [*patterns[:n], *carry], [*known[:n], *carried])
            carry, carried = list(new), list(values)
        local = _Local(body, list(known[:n]), n)
        sources = [*patterns[:n], *[None] * len(carry)]
        result = local.closure(len(carry), n, sources, carry, self.columns)
        return result, [None] * len(carry)


class _Local:
    """Relation of a loop body: which elements of its inputs each element of its outputs reads."""

    def __init__(self, body: GraphProgram, consts: list[Array | None], num_consts: int) -> None:
        self.inputs, self.outputs = body.input_specs, body.output_specs
        self.starts = np.cumsum([0, *[spec.size for spec in self.inputs]])
        total = int(self.starts[-1])
        patterns = [
            identity(spec.size, int(start), total) if spec.dtype.is_inexact else None
            for spec, start in zip(self.inputs, self.starts, strict=False)
        ]
        known = [*consts, *[None] * (len(self.inputs) - num_consts)]
        patterns = [p if k is None else None for p, k in zip(patterns, known, strict=True)]
        self.rows, _ = _Propagation(total).run(body, patterns, known)

    def part(self, output: int, position: int) -> Pattern:
        """Return the relation of an output to the input at `position`, as a pattern; None if it reads no element."""
        row = self.rows[output]
        if row is None:
            return None
        start, stop = self.starts[position], self.starts[position + 1]
        return kept(row[:, int(start) : int(stop)].tocsr())

    def read(self, output: int, patterns: Patterns) -> Pattern:
        """Compute the pattern of an output from the patterns of the inputs."""
        total: Pattern = None
        for position, pattern in enumerate(patterns):
            part = None if pattern is None else self.part(output, position)
            if part is not None:
                total = union(total, kept(part @ pattern))
        return total

    def read_slices(self, output: int, position: int, pattern: Pattern, length: int) -> Pattern:
        """Compute the pattern of a stacked output from a stacked input.

        Slice t of the output reads slice t of the input.
        """
        part = None if pattern is None else self.part(output, position)
        if part is None:
            return None
        local = part.tocoo()
        t = np.repeat(np.arange(length), local.nnz)
        rows = np.tile(local.coords[0], length) + t * part.shape[0]
        columns = np.tile(local.coords[1], length) + t * part.shape[1]
        size = (length * part.shape[0], length * part.shape[1])
        matrix = type(part)((np.ones(rows.size, bool), (rows, columns)), size)
        return kept(matrix @ pattern)

    def closure(
        self, count: int, first: int, sources: Patterns, init: Patterns, columns: int
    ) -> list[Pattern]:
        """Compute patterns of the carry after any number of iterations.

        They contain the initial patterns `init`, and the patterns that the body returns for them. They are the least
        such patterns if `MAX_ROUNDS` rounds reach a fixpoint. Otherwise each element depends on all input elements.
        """
        carry = list(init)
        for _ in range(MAX_ROUNDS):
            inputs = [*sources[:first], *carry, *sources[first + count :]]
            new = [union(carry[i], self.read(i, inputs)) for i in range(count)]
            if all([_count(old) == _count(now) for old, now in zip(carry, new, strict=True)]):
                return carry
            carry = new
        every = union(*[_any_slice(p, 1) for p in (*sources, *carry) if p is not None])
        return [
            None if p is None else _repeated(every, 1, spec.size)
            for p, spec in zip(carry, self.outputs, strict=False)
        ]


def _count(pattern: Pattern) -> int:
    return 0 if pattern is None else pattern.nnz


def _any_slice(pattern: Pattern, size: int) -> Pattern:
    """Return the union of the patterns of all slices of a stacked tensor; a slice has `size` elements."""
    members = np.arange(pattern.shape[0]) % max(size, 1)
    return kept(Groups(None, members, size).of(pattern))


def _repeated(pattern: Pattern, size: int, length: int) -> Pattern:
    return stacked([pattern] * length, size, pattern.shape[1])


def _joined(arrays: Sequence[Array | None], length: int) -> Array | None:
    known = [y for y in arrays if y is not None]
    return np.stack(known) if length and len(known) == len(arrays) else None


def _last_uses(program: GraphProgram) -> dict[int, list[int]]:
    """Return the slots that each instruction is the last to use, by the position of the instruction."""
    last: dict[int, int] = {}
    for number, step in enumerate(program.instructions):
        last.update(dict.fromkeys((*step.inputs, *step.outputs), number))
    uses: dict[int, list[int]] = {}
    for slot, number in last.items():
        if slot not in program.output_slots:
            uses.setdefault(number, []).append(slot)
    return uses


def _evaluated(op: Any, types: Sequence[TensorSpec], arrays: Sequence[Any]) -> list[Array | None]:
    """Compute the results of an instruction whose operands all have known arrays."""
    if not isinstance(op, cf.ControlOp | Extension):
        return list(run_kernel(op, arrays))
    graph = Graph()
    inputs = [graph.add_input(spec) for spec in types]
    program = GraphProgram.from_graph(graph, graph.add(op, tuple(inputs)), name="known")
    return [np.asarray(y) for y in program.run(*arrays)]
