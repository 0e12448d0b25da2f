"""Derivatives of the control-flow ops: loops, conditionals and alternatives.

Differentiation replaces a loop or conditional by two ops. The first op is the loop or conditional itself, extended so
that it also returns the residuals, which are the values that the tangent needs (`GraphEmitter.extend`). The second
op is linear in the tangents and reads the residuals. The transpose of a linear scan runs in the opposite direction.

Source: Radul, Paszke, Frostig, Johnson and Maclaurin, "You only linearize once", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.ad.algebra import Value, apply, apply_one, broadcast, compare, lead, select, zeros
from tenferro.ad.algebra import transpose as permute
from tenferro.ad.batch import marked
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.rule import AdRows, AdRule, Tangents, Values
from tenferro.ad.subprograms import (
    Linearized,
    batched,
    cheapest_residuals,
    linearized,
    residuals,
    stored,
    transposed,
    transposed_body,
)
from tenferro.ad.while_reversal import transposed_while
from tenferro.graph import Graph, Mark
from tenferro.ops.control import Alternatives, Cond, Scan, While
from tenferro.ops.reduction import ReduceOr
from tenferro.program import Subprogram, dependents
from tenferro.types import TensorSpec

__all__ = ["ROWS"]

Mask = Sequence[bool]


def _picked(values: Sequence[Any], mask: Mask) -> list[Any]:
    return [x for x, is_picked in zip(values, mask, strict=True) if is_picked]


def _at(mask: Mask) -> list[int]:
    return [i for i, is_picked in enumerate(mask) if is_picked]


def _present(values: Sequence[Any]) -> list[Any]:
    return [x for x in values if x is not None]


def _or_zeros(dots: Sequence[Value | None], like: Sequence[Value]) -> list[Value]:
    return [zeros(x) if dot is None else dot for dot, x in zip(dots, like, strict=True)]


def _placed(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """Return a list of `count` elements with `values` at the indices `places`, and None elsewhere."""
    listed: list[Any] = [None] * count
    for position, value in zip(places, values, strict=True):
        listed[position] = value
    return listed


# ---- scan ------------------------------------------------------------------------------------------


def _active_carry(
    body: Subprogram, active: Sequence[bool], n: int, m: int, emitter: GraphEmitter
) -> tuple[list[bool], Linearized]:
    """Find the inputs that have a tangent in some iteration. Return a mask of these inputs, and the linearised body.

    The mask is a fixed point: whenever the body computes a tangent for a carry, that carry's input is also active.
    """
    active = list(active)
    while True:
        both = linearized(body, active, emitter)
        grown = [active[n + i] or both.y_dots[i] is not None for i in range(m)]
        if grown == active[n : n + m]:
            return active, both
        active[n : n + m] = grown


def scan_jvp(op: Scan, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Emit the tangents of a scan: extend the scan to stack the residuals of each iteration, and add a linear scan."""
    emitter: GraphEmitter = inputs[0].emitter
    n, m, first = op.num_consts, op.num_carry, op.first_xs
    has_tangent = [dot is not None for dot in tangents]
    active, both = _active_carry(op.body, has_tangent, n, m, emitter)
    graph = both.graph
    moving = [i for i in range(m) if active[n + i]]
    stacked = [j for j in range(m, len(both.outputs)) if both.y_dots[j] is not None]
    results = [both.filled(i) for i in (*moving, *stacked)]
    saved = residuals(graph, both.inputs[n:], _present(both.dots), results)
    at_hand = {*both.inputs[:n], *both.inputs[first:], *both.outputs[m:]}
    saved = cheapest_residuals(graph, saved, both.inputs[n:], at_hand)
    # A residual that is an input or output of the loop is stored already, so that it need not be stacked again.
    slices = [v for v in saved if v in both.inputs[first:]]
    stacked_already = [v for v in saved if v in both.outputs[m:] and v not in slices]
    extra = [v for v in saved if v not in slices and v not in stacked_already]
    whole = Subprogram.of(graph, both.inputs, [*both.outputs, *stored(graph, extra, results)])
    primals = emitter.values(emitter.extend(op.with_parts(whole)))
    dots = both.dots
    linear = Subprogram.of(
        graph,
        [
            *both.inputs[:n],
            *_present(dots[:n]),
            *_present(dots[n:first]),
            *slices,
            *stacked_already,
            *extra,
            *_present(dots[first:]),
        ],
        results,
    )
    consts = [*inputs[:n], *_present(tangents[:n])]
    carry = _picked(_or_zeros(tangents[n:first], inputs[n:first]), active[n:first])
    xs = [
        *[inputs[both.inputs.index(v)] for v in slices],
        *[primals[m + both.outputs[m:].index(v)] for v in stacked_already],
        *primals[len(primals) - len(extra) :],
        *_present(tangents[first:]),
    ]
    y_dots = apply(
        Scan(linear, op.length, len(consts), len(carry), op.reverse), *consts, *carry, *xs
    )
    return _placed(y_dots, [*moving, *stacked], len(outputs))


def scan_transpose(
    op: Scan, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Emit the cotangents by a scan in the opposite direction.

    The scan carries the cotangents of the carries, and the sums of the cotangents of the constants. A carry whose
    cotangent is zero in every iteration is omitted. Carries that depend on no linear input, such as a counter, are
    computed first by a separate scan, which stacks their values.
    """
    emitter: GraphEmitter = inputs[0].emitter
    n, m, first = op.num_consts, op.num_carry, op.first_xs
    carries = _nonlinear_carries(op, linear)
    if carries:
        return _transpose_after_nonlinear(op, inputs, linear, y_bars, carries)
    mask = [*linear[:n], *[True] * m, *linear[first:]]
    back = transposed_body(op.body, n, m, mask, [bar is not None for bar in y_bars], emitter)
    x_bars, moving = back.x_bars, back.moving
    sliced = [i for i in range(first, len(mask)) if i in x_bars]
    n_nonlinear, count = mask[:n].count(False), len(moving)
    body = Subprogram.of(
        back.emitter.graph,
        [
            *back.nonlinear[:n_nonlinear],
            *back.bars[:count],
            *back.sums,
            *back.nonlinear[n_nonlinear:],
            *back.bars[count:],
        ],
        [*back.carry, *back.totals, *[x_bars[i] for i in sliced]],
    )
    consts = [x for x, is_linear in zip(inputs[:n], mask, strict=False) if not is_linear]
    start = [
        *_or_zeros([y_bars[i] for i in moving], [inputs[n + i] for i in moving]),
        *[zeros(inputs[i]) for i in back.summed],
    ]
    xs = [x for x, is_linear in zip(inputs[first:], mask[first:], strict=True) if not is_linear]
    backward = Scan(body, op.length, len(consts), len(start), not op.reverse)
    results = apply(backward, *consts, *start, *xs, *_present(y_bars[m:]))
    return _placed(results, [*[n + i for i in moving], *back.summed, *sliced], len(inputs))


def _nonlinear_carries(op: Scan, linear: Mask) -> list[int]:
    """Return the positions of the carries that depend on no linear input in any iteration."""
    body, n, m = op.body, op.num_consts, op.num_carry
    mask = list(linear)
    while True:
        reached = dependents(body.instructions, [body.input_slots[i] for i in _at(mask)])
        grown = [mask[n + i] or body.output_slots[i] in reached for i in range(m)]
        if grown == mask[n : n + m]:
            return [i for i in range(m) if not grown[i]]
        mask[n : n + m] = grown


def _transpose_after_nonlinear(
    op: Scan, inputs: Values, linear: Mask, y_bars: Tangents, carries: Sequence[int]
) -> Tangents:
    """Emit a scan that stacks the nonlinear carries of each iteration. Transpose a second scan, which reads them."""
    n, m, first = op.num_consts, op.num_carry, op.first_xs
    graph = Graph()
    arguments = [graph.add_input(spec) for spec in op.body.input_specs]
    outputs = op.body.emit(graph, arguments)
    carried = [n + i for i in carries]
    consts = [i for i in range(n) if not linear[i]]
    xs = [i for i in range(first, len(inputs)) if not linear[i]]
    operands = [*consts, *carried, *xs]
    body = Subprogram.of(
        graph,
        [arguments[i] for i in operands],
        [*[outputs[i] for i in carries], *[arguments[i] for i in carried]],
    )
    forward = Scan(body, op.length, len(consts), len(carries), op.reverse)
    values = apply(forward, *[inputs[i] for i in operands])[len(carries) :]
    moving = [i for i in range(m) if i not in carries]
    places = [*range(n), *[n + i for i in moving], *range(first, len(inputs))]
    body = Subprogram.of(
        graph,
        [arguments[i] for i in (*places, *carried)],
        [outputs[i] for i in (*moving, *range(m, len(outputs)))],
    )
    x_bars = scan_transpose(
        Scan(body, op.length, n, len(moving), op.reverse),
        (*[inputs[i] for i in places], *values),
        (*[linear[i] for i in places], *[False] * len(carries)),
        (*[y_bars[i] for i in moving], *y_bars[m:]),
    )
    return _placed(x_bars[: len(places)], places, len(inputs))


def scan_batch(op: Scan, inputs: Values, mask: tuple[bool, ...]) -> Values:
    """Emit a scan of the batched body. In stacked inputs and outputs, the batch axis follows the axis of iterations."""
    emitter: GraphEmitter = inputs[0].emitter
    n, m, first = op.num_consts, op.num_carry, op.first_xs
    size = inputs[mask.index(True)].shape[0]
    carry = list(mask[n:first])
    rest = [False] * (len(op.body.output_slots) - m)
    while True:
        within = [*mask[:n], *carry, *mask[first:]]
        body = batched(op.body, within, size, [*carry, *rest], emitter)
        grown = [a or b for a, b in zip(carry, body.outputs, strict=False)]
        if grown == carry:
            break
        carry = grown
    operands = [
        lead(x, size) if needs and not has else x
        for x, needs, has in zip(inputs[:first], within, mask, strict=False)
    ]
    xs = [_swapped(x) if has else x for x, has in zip(inputs[first:], mask[first:], strict=True)]
    results = apply(op.with_parts(body.part), *operands, *xs)
    return tuple([
        (y if i < m else _swapped(y)) if has else lead(y, size)
        for i, (y, has) in enumerate(zip(results, body.outputs, strict=True))
    ])  # fmt: skip


def _swapped(x: Value) -> Value:
    """Exchange the first two axes of x."""
    return permute(x, (1, 0, *range(2, x.rank)))


# ---- conditionals ------------------------------------------------------------------------------------


def cond_jvp(op: Cond, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Emit a conditional that also returns the residuals of its branch, and a conditional between linear branches.

    The outputs for residuals are common to all branches. A branch returns zeros for residuals that it does not need.
    """
    emitter: GraphEmitter = inputs[0].emitter
    index, *operands = inputs
    active = [dot is not None for dot in tangents[1:]]
    branches = [linearized(branch, active, emitter) for branch in op.branches]
    moving = [
        j for j in range(len(outputs)) if any([both.y_dots[j] is not None for both in branches])
    ]
    results = [[both.filled(j) for j in moving] for both in branches]
    saved = [
        [v for v in residuals(both.graph, both.inputs, _present(both.dots), ys)
         if v not in both.inputs]
        for both, ys in zip(branches, results, strict=True)
    ]  # fmt: skip
    places, types = _shared_places(branches, saved)
    whole, linear = [], []
    for both, ys, mine, values in zip(branches, results, places, saved, strict=True):
        at = dict(zip(mine, values, strict=True))
        graph = both.graph
        named = dict(zip(mine, stored(graph, values, ys), strict=True))
        filled = [
            named[i] if i in named else both.emitter.zeros(spec) for i, spec in enumerate(types)
        ]
        whole.append(Subprogram.of(graph, both.inputs, [*both.outputs, *filled]))
        read = [at[i] if i in at else graph.add_input(spec) for i, spec in enumerate(types)]
        arguments = [*both.inputs, *read, *_present(both.dots)]
        linear.append(Subprogram.of(graph, arguments, ys))
    primals = emitter.values(emitter.extend(op.with_parts(*whole)))
    places_read = primals[len(primals) - len(types) :] if types else ()
    y_dots = apply(Cond(tuple(linear)), index, *operands, *places_read, *_present(tangents[1:]))
    return _placed(y_dots, moving, len(outputs))


def _shared_places(
    branches: Sequence[Linearized], saved: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[TensorSpec]]:
    """Assign the residuals of all branches to outputs that the branches share.

    Return two lists. The first contains, for each branch, the position of the output for each of its residuals. The
    second contains the types of all outputs.
    """
    types: list[TensorSpec] = []
    places: list[list[int]] = []
    for both, values in zip(branches, saved, strict=True):
        free = list(range(len(types)))
        mine: list[int] = []
        for value in values:
            spec = both.graph.types[value]
            position = next((i for i in free if types[i] == spec), None)
            if position is None:
                position = len(types)
                types.append(spec)
            else:
                free.remove(position)
            mine.append(position)
        places.append(mine)
    return places, types


def cond_transpose(
    op: Cond, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Emit a conditional whose branches are the transposes of the branches of `op`."""
    index, *operands = inputs
    branches, wanted = _transposes(op.branches, linear[1:], y_bars, index.emitter)
    if not wanted:
        return (None,) * len(inputs)
    nonlinear = [x for x, is_linear in zip(operands, linear[1:], strict=True) if not is_linear]
    results = apply(Cond(tuple(branches)), index, *nonlinear, *_present(y_bars))
    return _placed(results, [1 + i for i in wanted], len(inputs))


def _transposes(
    parts: Sequence[Subprogram], mask: Mask, y_bars: Tangents, emitter: GraphEmitter
) -> tuple[list[Subprogram], list[int]]:
    """Return the transposes of linear sub-programs with common operands, and the positions of operands with cotangents.

    The inputs of a transpose are the nonlinear operands, then the cotangents in `y_bars` that are not None.
    """
    asked = [y_bar is not None for y_bar in y_bars]
    transposes = [transposed(part, mask, asked, emitter) for part in parts]
    specs, places = _picked(parts[0].input_specs, mask), _at(mask)
    wanted = [
        i for i in range(len(specs)) if any([x_bars[i] is not None for *_, x_bars in transposes])
    ]
    results: list[Subprogram] = []
    for inner, nonlinear, bars, x_bars in transposes:
        outputs = [inner.zeros(specs[i]) if (bar := x_bars[i]) is None else bar for i in wanted]
        results.append(Subprogram.of(inner.graph, [*nonlinear, *bars], outputs))
    return results, [places[i] for i in wanted]


def cond_batch(op: Cond, inputs: Values, mask: tuple[bool, ...]) -> Values:
    """Emit a conditional whose branches are batched.

    If the index differs between slices, all branches are computed, and a select chooses between their results.
    """
    emitter: GraphEmitter = inputs[0].emitter
    index, *operands = inputs
    size = inputs[mask.index(True)].shape[0]
    everything = [True] * len(op.branches[0].output_slots)
    parts = [batched(branch, mask[1:], size, everything, emitter).part for branch in op.branches]
    if not mask[0]:
        return apply(op.with_parts(*parts), *inputs)
    handles = [x.handle for x in operands]
    results = [emitter.values(part.emit(emitter.graph, handles)) for part in parts]
    chosen = results[-1]
    for number in reversed(range(len(parts) - 1)):
        here = compare(index, "EQ", False if index.dtype.is_bool else number)
        chosen = tuple([
            select(broadcast(here, a, (0,)), a, b)
            for a, b in zip(results[number], chosen, strict=True)
        ])  # fmt: skip
    return _of_chosen_branches(op, inputs, mask, chosen)


def _of_chosen_branches(op: Cond, inputs: Values, mask: Mask, chosen: Values) -> Values:
    """Mark the results `chosen`, selected from all branches, so that they are differentiated like a conditional's."""
    emitter: GraphEmitter = inputs[0].emitter
    handles = [x.handle for x in (*inputs, *chosen)]
    mark = Chosen(op, len(inputs), len(chosen))
    return emitter.values(marked(emitter, mark, handles, [*mask, *[True] * len(chosen)]))


class Chosen(Mark):
    """Mark of a batched conditional.

    Its inputs are the operands and the results of the conditional. It returns the results.

    The derivative of the mark is that of a conditional. If all branches were differentiated op by op, a slice would
    have zero cotangents in branches that it does not take. Zero times an infinite slope would then be NaN.
    """

    __slots__ = ("conditional",)

    def __init__(self, conditional: Cond, inputs: int, outputs: int) -> None:
        super().__init__(tuple(range(inputs, inputs + outputs)))
        self.conditional = conditional

    @property
    def key(self) -> Any:
        """Key by which equal marks are merged. It omits the branches, because the mark's inputs determine them."""
        return (Chosen, self.takes)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the operands of the branches, which are all inputs but the index and the results."""
        return tuple(range(1, self.takes[0]))

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Emit a conditional whose branches compute the tangents of the original branches, and return its outputs."""
        count = self.takes[0]
        active = [dot is not None for dot in tangents[1:count]]
        branches, moving = _tangents_of(self.conditional.branches, active, emitter)
        if not moving:
            return (None,) * len(outputs)
        y_dots = apply(Cond(tuple(branches)), *inputs[:count], *_present(tangents[1:count]))
        return _placed(y_dots, moving, len(outputs))

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Emit a conditional whose branches are the transposes of the original branches, and return its outputs."""
        count = self.takes[0]
        x_bars = cond_transpose(self.conditional, inputs[:count], tuple(linear[:count]), y_bars)
        return (*x_bars, *[None] * len(self.takes))


# ---- alternatives ------------------------------------------------------------------------------------


def alternatives_jvp(
    op: Alternatives, inputs: Values, outputs: Values, tangents: Tangents
) -> Tangents:
    """Emit alternatives that compute the tangents, one for each alternative of `op`.

    Residuals are not saved: each alternative computes the primal values again from the operands. If the executor
    chooses the same alternative for the value and the tangent, equal instructions are merged.
    """
    active = [dot is not None for dot in tangents]
    linear, moving = _tangents_of(op.parts, active, inputs[0].emitter)
    if not moving:
        return (None,) * len(outputs)
    y_dots = apply(op.with_parts(*linear), *inputs, *_present(tangents))
    return _placed(y_dots, moving, len(outputs))


def _tangents_of(
    parts: Sequence[Subprogram], active: Mask, emitter: GraphEmitter
) -> tuple[list[Subprogram], list[int]]:
    """Return the tangent program of each part, and the positions of the outputs that have tangents."""
    forms = [linearized(part, active, emitter) for part in parts]
    count = len(parts[0].output_slots)
    moving = [j for j in range(count) if any([form.y_dots[j] is not None for form in forms])]
    linear = [
        Subprogram.of(
            form.graph, [*form.inputs, *_present(form.dots)], [form.filled(j) for j in moving]
        )
        for form in forms
    ]
    return linear, moving


def alternatives_transpose(
    op: Alternatives, inputs: Values, linear: tuple[bool, ...], y_bars: Tangents
) -> Tangents:
    """Emit alternatives that compute the cotangents: each is the transpose of an alternative of `op`."""
    parts, wanted = _transposes(op.parts, linear, y_bars, inputs[0].emitter)
    if not wanted:
        return (None,) * len(inputs)
    nonlinear = [x for x, is_linear in zip(inputs, linear, strict=True) if not is_linear]
    results = apply(op.with_parts(*parts), *nonlinear, *_present(y_bars))
    return _placed(results, wanted, len(inputs))


def alternatives_batch(op: Alternatives, inputs: Values, mask: tuple[bool, ...]) -> Values:
    """Emit alternatives that are the batched forms of the alternatives of `op`."""
    emitter: GraphEmitter = inputs[0].emitter
    size = inputs[mask.index(True)].shape[0]
    everything = [True] * len(op.parts[0].output_slots)
    parts = [batched(part, mask, size, everything, emitter).part for part in op.parts]
    return apply(op.with_parts(*parts), *inputs)


# ---- while -------------------------------------------------------------------------------------------


def while_jvp(op: While, inputs: Values, outputs: Values, tangents: Tangents) -> Tangents:
    """Emit a while loop that also carries the tangents of the carries."""
    emitter: GraphEmitter = inputs[0].emitter
    n = op.num_consts
    has_tangent = [dot is not None for dot in tangents]
    active, both = _active_carry(op.body, has_tangent, n, len(outputs), emitter)
    moving = [i for i in range(len(outputs)) if active[n + i]]
    arguments = [
        *both.inputs[:n],
        *_present(both.dots[:n]),
        *both.inputs[n:],
        *_present(both.dots[n:]),
    ]
    body = Subprogram.of(both.graph, arguments, [*both.outputs, *[both.filled(i) for i in moving]])
    test = Graph()
    asked = [test.add_input(spec) for spec in body.input_specs]
    n_dots = len(_present(both.dots[:n]))
    own = [*asked[:n], *asked[n + n_dots : n + n_dots + len(outputs)]]
    cond = Subprogram.of(test, asked, op.cond.emit(test, own))
    carry = _picked(_or_zeros(tangents[n:], inputs[n:]), active[n:])
    results = apply(
        While(cond, body, n + n_dots), *inputs[:n], *_present(tangents[:n]), *inputs[n:], *carry
    )
    return _placed(results[len(outputs) :], moving, len(outputs))


def while_batch(op: While, inputs: Values, mask: tuple[bool, ...]) -> Values:
    """Emit a while loop that runs until the condition is false for every slice. A stopped slice keeps its carry."""
    emitter: GraphEmitter = inputs[0].emitter
    n, size = op.num_consts, inputs[mask.index(True)].shape[0]
    carry = list(mask[n:])
    while True:
        within = [*mask[:n], *carry]
        test = batched(op.cond, within, size, [False], emitter)
        grown = [True] * len(carry) if test.outputs[0] else carry
        body = batched(op.body, [*mask[:n], *grown], size, grown, emitter)
        grown = [a or b for a, b in zip(grown, body.outputs, strict=True)]
        if grown == carry:
            break
        carry = grown
    op = (
        _until_all_stop(op, test.part, body.part, [*mask[:n], *carry], emitter)
        if test.outputs[0]
        else While(test.part, body.part, n)
    )
    operands = [
        lead(x, size) if needs and not has else x
        for x, needs, has in zip(inputs, [*mask[:n], *carry], mask, strict=True)
    ]
    results = apply(op, *operands)
    return tuple([y if has else lead(y, size) for y, has in zip(results, carry, strict=True)])


def _until_all_stop(
    op: While, test: Subprogram, body: Subprogram, mask: Mask, surroundings: GraphEmitter
) -> While:
    """Return a loop over a batch that runs while the condition of any slice is true; `test` returns one bool per slice.

    In each iteration, a slice whose condition is false keeps its carry. Other slices get the result of the body.
    """
    n = op.num_consts
    graph = Graph()
    inner = surroundings.inner(graph)
    inputs = [graph.add_input(spec) for spec in test.input_specs]
    goes_on = inner.values(test.emit(graph, inputs))[0]
    any_goes_on = apply_one(ReduceOr((0,)), goes_on)
    cond = Subprogram.of(graph, inputs, [any_goes_on.handle])
    old = inner.values(inputs[n:])
    new = inner.values(body.emit(graph, inputs))
    chosen = tuple([
        select(broadcast(goes_on, b, (0,)), b, a) for a, b in zip(old, new, strict=True)
    ])  # fmt: skip
    still = Graph()
    arguments = [still.add_input(spec) for spec in op.body.input_specs]
    iteration = Cond((Subprogram.of(still, arguments, arguments[n:]), op.body))
    chosen = _of_chosen_branches(iteration, (goes_on, *inner.values(inputs)), [True, *mask], chosen)
    return While(cond, Subprogram.of(graph, inputs, [y.handle for y in chosen]), n)


ROWS: AdRows = {
    Alternatives: AdRule(alternatives_jvp, alternatives_transpose, alternatives_batch),
    Cond: AdRule(cond_jvp, cond_transpose, cond_batch),
    Scan: AdRule(scan_jvp, scan_transpose, scan_batch),
    While: AdRule(while_jvp, transposed_while, while_batch),
}
