"""Products deferred: those that a scan adds up turn by turn are one product over all its turns, behind it.

Law: the same sum, in another order. The gradient of a loop adds a product to the cotangent of each constant in every turn,
as that of a matrix that multiplies a vector, whose outer products are much larger than their operands: the sum is read
and written in every turn, where the operands of all turns are one product, which reads them once.

A sum is deferred where nothing else reads it, and where the operands of all turns take little memory beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenferro.graph import Graph, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.control import Scan
from tenferro.ops.elementwise import Add
from tenferro.program import GraphProgram, Subprogram, dependents, makers
from tenferro.program.instructions import copy_into, needed
from tenferro.program.rewrite import Producers, Values, emit_again
from tenferro.types import DType

__all__ = ["defer_products"]

DTYPES = (DType.F32, DType.F64, DType.C32, DType.C64)
"""Of sums that are rounded in each turn as at the end."""
SMALLEST = 1 << 12
"""Elements of a sum that is worth it."""
SMALLER = 2
"""How often the operands of a product go into it, at least."""
MOST = 8
"""How often a sum goes into what is stacked for it, at most."""


def defer_products(program: GraphProgram) -> GraphProgram:
    """The program with the products that its scans add up behind them."""
    plans: dict[int, _Plan] = {}
    for step in program.instructions:
        if isinstance(step.op, Scan):
            sums = _sums(step.op)
            if sums:
                plans[id(step.op)] = _Plan(step.op, tuple(sums))

    def rule(
        producers: Producers, op: StdTensorOp, inputs: Values, line: SourceLine | None
    ) -> Values | None:
        plan = plans.get(id(op))
        return None if plan is None else plan.written(producers, inputs, line)

    return emit_again(program, rule) if plans else program


@dataclass(frozen=True)
class _Product:
    """A product of two values of the body."""

    op: DotGeneral
    operands: tuple[int, ...]

    @property
    def of_all_turns(self) -> DotGeneral:
        """Of stacks, which have the turns in front; their axis is summed too."""
        shifted = {
            name: tuple([axis + 1 for axis in getattr(self.op, name)])
            for name in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
        }
        for name in ("lhs_contracting", "rhs_contracting"):
            shifted[name] = (0, *shifted[name])
        return replace(self.op, **shifted)


@dataclass(frozen=True)
class _Sum:
    """A carry to which a turn adds.

    Attributes:
        number: of the carry.
        terms: what stays in the loop.
        products: what is deferred.
    """

    number: int
    terms: tuple[int, ...]
    products: tuple[_Product, ...]


@dataclass(frozen=True)
class _Plan:
    """A scan, and the sums of it that are deferred."""

    op: Scan
    sums: tuple[_Sum, ...]

    def written(self, producers: Producers, inputs: Values, line: SourceLine | None) -> Values:
        """Its results, with the deferred products added."""
        op, body = self.op, self.op.body.program
        n, first = op.num_consts, op.first_xs
        ended = {each.number for each in self.sums if not each.terms}
        carries = [number for number in range(op.num_carry) if number not in ended]
        stacked = self._stacked()
        ys = [*body.output_slots[op.num_carry :], *stacked]
        scan = Scan(self._body(carries, ys), op.length, n, len(carries), op.reverse)
        operands = (*inputs[:n], *[inputs[n + number] for number in carries], *inputs[first:])
        results = producers.apply(scan, operands, line)
        last = dict(zip(carries, results, strict=False))
        stacks = dict(zip(ys, results[len(carries) :], strict=True))
        stacks |= dict(zip(body.input_slots[first:], inputs[first:], strict=True))
        for each in self.sums:
            total = last.get(each.number, inputs[n + each.number])
            for product in each.products:
                factors = tuple([stacks[slot] for slot in product.operands])
                (y,) = producers.apply(product.of_all_turns, factors, line)
                (total,) = producers.apply(Add(), (total, y), line)
            last[each.number] = total
        count = len(op.body.output_specs) - op.num_carry
        return (
            *[last[number] for number in range(op.num_carry)],
            *results[len(carries) : len(carries) + count],
        )

    def _stacked(self) -> list[int]:
        """The operands of products that the loop neither takes nor gives turn by turn."""
        body = self.op.body.program
        at_hand = {*body.input_slots[self.op.first_xs :], *body.output_slots[self.op.num_carry :]}
        operands = [x for each in self.sums for product in each.products for x in product.operands]
        return [slot for slot in dict.fromkeys(operands) if slot not in at_hand]

    def _body(self, carries: Sequence[int], ys: Sequence[int]) -> Subprogram:
        """A turn, without the deferred products."""
        op, program = self.op, self.op.body.program
        graph = Graph(program.trusted)
        n, first = op.num_consts, op.first_xs
        sums = {each.number: each for each in self.sums}
        slots = [
            *program.input_slots[:n],
            *[program.input_slots[n + number] for number in carries],
            *program.input_slots[first:],
        ]
        values = {slot: graph.add_input(program.types[slot]) for slot in slots}
        inputs = list(values.values())
        own = [program.output_slots[number] for number in carries if number not in sums]
        terms = [slot for each in self.sums for slot in each.terms]
        copy_into(graph, needed(program.instructions, [*own, *terms, *ys]).values(), values)
        outputs: list[int] = []
        for number in carries:
            each = sums.get(number)
            if each is None:
                outputs.append(values[program.output_slots[number]])
                continue
            total = values[program.input_slots[n + number]]
            for term in each.terms:
                (total,) = graph.add(Add(), (total, values[term]))
            outputs.append(total)
        return Subprogram.of(graph, inputs, [*outputs, *[values[slot] for slot in ys]])


def _sums(op: Scan) -> list[_Sum]:
    """The carries to which products are added that are worth deferring."""
    if not isinstance(op.length, int) or op.has_effects:
        return []
    body = op.body.program
    maker_of: Any = makers(body.instructions)
    reads = Counter([slot for step in body.instructions for slot in step.inputs])
    reads.update(body.output_slots)
    changing = dependents(body.instructions, body.input_slots[op.num_consts :])
    at_hand = {*body.input_slots[op.first_xs :], *body.output_slots[op.num_carry :]}

    def is_deferred(slot: int) -> bool:
        step, y = maker_of.get(slot), body.types[slot]
        if step is None or not isinstance(step.op, DotGeneral) or reads[slot] > 1:
            return False
        types = [body.types[x] for x in step.inputs]
        is_plain = y.dtype in DTYPES and all(
            [each.is_static and each.dtype is y.dtype for each in types]
        )
        if not is_plain or not changing.issuperset(step.inputs) or y.size < SMALLEST:
            return False
        stacked = sum([body.types[x].size for x in step.inputs if x not in at_hand])
        return (
            SMALLER * sum([each.size for each in types]) <= y.size
            and op.length * stacked <= MOST * y.size
        )

    sums: list[_Sum] = []
    for number in range(op.num_carry):
        carry = body.input_slots[op.num_consts + number]
        terms = _terms(body.output_slots[number], maker_of, reads)
        if reads[carry] != 1 or carry not in terms:
            continue
        terms.remove(carry)
        products = tuple(
            [_Product(maker_of[x].op, maker_of[x].inputs) for x in terms if is_deferred(x)]
        )
        if products:
            rest = tuple([x for x in terms if not is_deferred(x)])
            sums.append(_Sum(number, rest, products))
    return sums


def _terms(slot: int, maker_of: Any, reads: Counter[int]) -> list[int]:
    """The terms of a value, if neither it nor the sums on the way have other readers."""
    terms: list[int] = []
    stack = [slot]
    while stack:
        value = stack.pop()
        step = maker_of.get(value)
        if step is not None and isinstance(step.op, Add) and reads[value] == 1:
            stack += step.inputs
        else:
            terms.append(value)
    return terms
