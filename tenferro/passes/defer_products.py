"""Defer products that a scan accumulates: compute them by one product over all iterations, after the loop.

Law: each sum has the same terms, but they are added in another order.

The derivative of a loop adds a product to the cotangent of each constant in every iteration. If the constant is a
matrix that multiplies a vector, the product is an outer product, which is much larger than its operands. The loop
would read and write the whole sum in every iteration. This pass stacks the operands instead. After the loop, one
product of the stacks computes the sum.

A product is deferred if no other instruction reads the sum, and if the stacked operands are small compared to the sum.
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
from tenferro.ops.structural import Transpose
from tenferro.passes.fold_transposes import exchanged_dot
from tenferro.program import GraphProgram, Subprogram, dependents, makers
from tenferro.program.instructions import copy_into, needed
from tenferro.program.rewrite import Producers, Values, emit_again
from tenferro.types import DType

__all__ = ["defer_products"]

DTYPES = (DType.F32, DType.F64, DType.C32, DType.C64)
"""Dtypes of sums whose products are deferred.

Sums of narrower dtypes are rounded in each iteration, which must stay.
"""
MIN_SUM_ELEMENTS = 1 << 12
"""Minimum number of elements of a sum whose products are deferred."""
MIN_EXPANSION = 2
"""Minimum ratio of the number of elements of a product to the number of elements of its operands."""
MAX_STACK_RATIO = 8
"""Maximum ratio of the number of elements stacked for a product to the number of elements of the sum."""


def defer_products(program: GraphProgram) -> GraphProgram:
    """Return the program in which products that scans accumulate are computed after the scans."""
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
    """A product of two values in the body of a scan."""

    op: DotGeneral
    operands: tuple[int, ...]

    @property
    def stacked(self) -> DotGeneral:
        """The product of the stacked operands. It also sums over the leading axis, the axis of iterations."""
        shifted = {
            name: tuple([axis + 1 for axis in getattr(self.op, name)])
            for name in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
        }
        for name in ("lhs_contracting", "rhs_contracting"):
            shifted[name] = (0, *shifted[name])
        return replace(self.op, **shifted)


@dataclass(frozen=True)
class _Sum:
    """Sum in the carry of a scan, to which each iteration adds terms.

    Attributes:
        number: the position of the carry.
        terms: the slots of the terms that are still added inside the loop.
        products: the terms that are products, which are added after the loop.
    """

    number: int
    terms: tuple[int, ...]
    products: tuple[_Product, ...]


@dataclass(frozen=True)
class _Plan:
    """Scan, with the sums in its carry whose products are deferred."""

    op: Scan
    sums: tuple[_Sum, ...]

    def written(self, producers: Producers, inputs: Values, line: SourceLine | None) -> Values:
        """Emit the loop and the deferred products, and return the results that replace those of the scan."""
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
                (y,) = producers.apply(product.stacked, factors, line)
                (total,) = producers.apply(Add(), (total, y), line)
            last[each.number] = total
        count = len(op.body.output_specs) - op.num_carry
        return (
            *[last[number] for number in range(op.num_carry)],
            *results[len(carries) : len(carries) + count],
        )

    def _stacked(self) -> list[int]:
        """Return the operands of deferred products that must be stacked.

        An operand that is an input slice or a stacked output of the scan is available as a stack already.
        """
        body = self.op.body.program
        at_hand = {*body.input_slots[self.op.first_xs :], *body.output_slots[self.op.num_carry :]}
        operands = [x for each in self.sums for product in each.products for x in product.operands]
        return [slot for slot in dict.fromkeys(operands) if slot not in at_hand]

    def _body(self, carries: Sequence[int], ys: Sequence[int]) -> Subprogram:
        """Return the body without the deferred products."""
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
    """Return the sums of a scan: the carries to which an iteration adds products that can be deferred."""
    if not isinstance(op.length, int) or op.has_effects:
        return []
    body = op.body.program
    maker_of: Any = makers(body.instructions)
    reads = Counter([slot for step in body.instructions for slot in step.inputs])
    reads.update(body.output_slots)
    changing = dependents(body.instructions, body.input_slots[op.num_consts :])
    at_hand = {*body.input_slots[op.first_xs :], *body.output_slots[op.num_carry :]}

    def product_of(slot: int) -> _Product | None:
        """Return the product that is equal to a term or to its transpose; None if the term is no product."""
        step, dot = maker_of.get(slot), None
        if step is not None and isinstance(step.op, Transpose) and reads[slot] == 1:
            dot = maker_of.get(step.inputs[0])
            slot = step.inputs[0]
        if reads[slot] > 1:
            return None
        if step is not None and dot is not None and isinstance(dot.op, DotGeneral):
            exchanged = exchanged_dot(dot.op, step.op, body.types[dot.inputs[0]].rank)
            return exchanged and _Product(exchanged, dot.inputs[::-1])
        if step is not None and isinstance(step.op, DotGeneral):
            return _Product(step.op, step.inputs)
        return None

    def deferred(slot: int) -> _Product | None:
        product, y = product_of(slot), body.types[slot]
        if product is None:
            return None
        types = [body.types[x] for x in product.operands]
        is_plain = y.dtype in DTYPES and all(
            [each.is_static and each.dtype is y.dtype for each in types]
        )
        if not is_plain or not changing.issuperset(product.operands) or y.size < MIN_SUM_ELEMENTS:
            return None
        stacked = sum([body.types[x].size for x in product.operands if x not in at_hand])
        is_small = (
            MIN_EXPANSION * sum([each.size for each in types]) <= y.size
            and op.length * stacked <= MAX_STACK_RATIO * y.size
        )
        return product if is_small else None

    sums: list[_Sum] = []
    for number in range(op.num_carry):
        carry = body.input_slots[op.num_consts + number]
        terms = _terms(body.output_slots[number], maker_of, reads)
        if reads[carry] != 1 or carry not in terms:
            continue
        terms.remove(carry)
        products = {x: product for x in terms if (product := deferred(x)) is not None}
        if products:
            rest = tuple([x for x in terms if x not in products])
            sums.append(_Sum(number, rest, tuple(products.values())))
    return sums


def _terms(slot: int, maker_of: Any, reads: Counter[int]) -> list[int]:
    """Return the terms of a sum. A term that is itself a sum, and has no other reader, is replaced by its terms."""
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
