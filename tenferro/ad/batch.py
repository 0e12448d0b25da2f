"""Batch a function along a leading axis.

Law: slice i of each result is the function applied to slice i of the inputs. For example, a pushforward that is
batched over all unit tensors returns the Jacobian matrix. A batched pullback also returns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tenferro.ad.algebra import Value, lead, reduce_sum
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.linearize import missing_rule
from tenferro.errors import TenferroError
from tenferro.graph import Alias, Mark, Opaque
from tenferro.ops import StdTensorOp
from tenferro.ops.source import ShapeOf
from tenferro.ops.structural import OptimizationBarrier
from tenferro.program import GraphProgram, needed
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.ad.context import AdContext

__all__ = ["batch", "batch_all", "batch_program", "batch_some", "marked"]


def batch(
    emitter: GraphEmitter, start: int, inputs: Mapping[int, int], outputs: Sequence[int | None]
) -> list[int | None]:
    """Return the batched form of each value in `outputs`: the same value with a leading axis.

    The result is None for an output that is None, or that does not depend on a batched input.

    Args:
        start: the number of instructions in the graph when the inputs were created.
        inputs: a map from each batched input to its batched form, a value with a leading axis.

    Raises:
        ADRuleUnsupportedError: an op has no batch rule.
        UnsupportedError: the batch rule of an op does not support operands that differ between slices.
    """
    wanted = [value for value in outputs if value is not None]
    batched, _ = _sweep(emitter, start, inputs, wanted)
    return [None if value is None else batched.get(value) for value in outputs]


def batch_all(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int],
    size: object,
) -> list[int]:
    """Batch as `batch` does, but repeat an output `size` times if it does not depend on a batched input."""
    many, one = _sweep(emitter, start, inputs, outputs)
    return [
        many[value] if value in many else lead(Value(emitter, one.get(value, value)), size).handle
        for value in outputs
    ]


def batch_some(
    emitter: GraphEmitter,
    start: int,
    inputs: Mapping[int, int],
    outputs: Sequence[int],
    size: object,
    wanted: Sequence[bool],
) -> tuple[list[int], list[bool]]:
    """Batch as `batch_all` does, but repeat an output that depends on no batched input only if `wanted` flags it.

    Also return a mask of the outputs that have the leading axis.
    """
    many, one = _sweep(emitter, start, inputs, outputs)
    results: list[int] = []
    for value, is_wanted in zip(outputs, wanted, strict=True):
        if value in many:
            results.append(many[value])
        else:
            alone = one.get(value, value)
            results.append(lead(Value(emitter, alone), size).handle if is_wanted else alone)
    has = [v in many or w for v, w in zip(outputs, wanted, strict=True)]
    return results, has


def _sweep(
    emitter: GraphEmitter, start: int, inputs: Mapping[int, int], outputs: Sequence[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return two maps: from values to their batched forms, and from values to copies without a leading axis.

    Both maps contain only values on which `outputs` depend.
    """
    graph = emitter.graph
    batched: dict[int, int] = dict(inputs)  # maps each value to its batched form
    again: dict[
        int, int
    ] = {}  # maps values that no batched input reaches, except through a barrier or an extent, to their copies
    for index in needed(graph.instructions, outputs, start=start):
        node = graph.instructions[index]
        mask = tuple([value in batched for value in node.inputs])
        if not any(mask) and not any([value in again for value in node.inputs]):
            continue
        emitter.source = node.source
        handles = [batched.get(value, again.get(value, value)) for value in node.inputs]
        op = node.op
        if isinstance(op, Alias):
            for position, value in zip(op.takes, node.outputs, strict=True):
                (batched if mask[position] else again)[value] = handles[position]
        elif isinstance(op, Mark | Opaque) and not any(mask):
            again.update(zip(node.outputs, graph.add(op, tuple(handles)), strict=True))
        elif isinstance(op, Mark | Opaque):
            results = marked(emitter, op, handles, mask)
            batched.update(zip(node.outputs, results, strict=True))
        elif isinstance(op, OptimizationBarrier):
            results = graph.add(op, tuple(handles), emitter.source)
            for here, value, new in zip(mask, node.outputs, results, strict=True):
                (batched if here else again)[value] = new
        elif isinstance(op, ShapeOf) and any(mask):  # an extent is that of every slice
            results = graph.add(replace(op, axis=op.axis + 1), tuple(handles), emitter.source)
            again.update(zip(node.outputs, results, strict=True))
        elif not any(mask):
            results = graph.add(op, tuple(handles), emitter.source)
            again.update(zip(node.outputs, results, strict=True))
        else:
            values = _batch_of(emitter, op, handles, mask)
            batched.update({v: x.handle for v, x in zip(node.outputs, values, strict=True)})
    emitter.source = None
    return batched, again


def _batch_of(
    emitter: GraphEmitter, op: StdTensorOp, handles: Sequence[int], mask: tuple[bool, ...]
) -> tuple[Value, ...]:
    """Apply the batch rule of `op`. An error of the rule names the user's line that created the batched instruction."""
    source, rule = emitter.source, emitter.rules[type(op)]
    try:
        if rule.batch is None:
            raise missing_rule(op, "batch")
        return rule.batch(op, emitter.values(handles), mask)
    except TenferroError as error:
        error.at(source)
        raise


# ---- marks ---------------------------------------------------------------------------------------


def marked(
    emitter: GraphEmitter, op: Mark | Opaque, handles: Sequence[int], mask: Sequence[bool]
) -> tuple[int, ...]:
    """Add the batched form of a mark or opaque map: its rules are those of `op`, applied to each slice.

    All outputs get the leading axis.
    """
    graph, operands, has = emitter.graph, list(handles), list(mask)
    size = graph.types[operands[has.index(True)]].shape[0]
    if isinstance(op, Opaque):
        return graph.add(_BatchedOpaque(op, tuple(has), size), tuple(operands), emitter.source)
    for position in op.takes:
        if not has[position]:
            operands[position] = lead(Value(emitter, operands[position]), size).handle
            has[position] = True
    return graph.add(_BatchedMark(op, tuple(has)), tuple(operands), emitter.source)


class _Slices:
    """Adapter that applies a rule for a single slice to batched values.

    The rule acts on placeholders for one slice, which the method `of` returns. The method `together` then batches the
    results of the rule.
    """

    def __init__(self, emitter: GraphEmitter) -> None:
        self._emitter = emitter
        self._source = emitter.source
        self._start = len(emitter.graph)
        self._given: dict[int, int] = {}

    def of(
        self, values: Sequence[Value | None], mask: Sequence[bool], primals: Sequence[Any] = ()
    ) -> list[Any]:
        """Return one placeholder per value, which stands for a slice of it; `primals` are the primals of tangents."""
        emitter = self._emitter
        slices: list[Value | None] = []
        for x, has in zip(values, mask, strict=True):
            if x is None or not has:
                slices.append(x)
                continue
            one = emitter.graph.add_stand_in(TensorSpec.of(x.shape[1:], x.dtype))
            self._given[one] = x.handle
            slices.append(Value(emitter, one))
        for dot, x in zip(slices, primals, strict=False):
            if dot is not None:
                emitter.primal_of.setdefault(dot.handle, x.handle)
        return slices

    def together(self, values: Sequence[Value | None], size: object) -> list[Value | None]:
        """Batch the values that a rule computed from placeholders, and return their forms with the leading axis."""
        emitter = self._emitter
        outputs = [x.handle for x in values if x is not None]
        stacked = iter(batch_all(emitter, self._start, self._given, outputs, size))
        emitter.source = self._source
        return [None if x is None else Value(emitter, next(stacked)) for x in values]


class _BatchedMark(Mark):
    """Mark of a batch: it applies the rule of the original mark to one slice, and batches the result."""

    __slots__ = ("mark", "mask")

    def __init__(self, mark: Mark, mask: tuple[bool, ...]) -> None:
        super().__init__(mark.takes)
        self.mark = mark
        self.mask = mask

    @property
    def name(self) -> str:
        """The name of the mark."""
        return self.mark.name

    @property
    def is_kept(self) -> bool:
        """Whether the original mark is kept in programs."""
        return self.mark.is_kept

    def kept_part(self, graph: Any, inputs: Sequence[int], outputs: Sequence[int]) -> Any:
        """Return the form of the original mark that programs contain."""
        mark: Any = self.mark
        return mark.kept_part(graph, inputs, outputs)

    @property
    def key(self) -> Any:
        """The key of the original mark, and the mask of batched operands; None if the original mark has no key."""
        key = self.mark.key
        return None if key is None else (_BatchedMark, key, self.mask)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the inputs whose tangents the original mark needs."""
        return self.mark.differentiates(mode)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Return batched tangents, which are computed by the original mark's rule for one slice."""
        slices = _Slices(emitter)
        xs = slices.of(inputs, self.mask)
        ys = slices.of(outputs, [True] * len(outputs))
        y_dots = self.mark.linearize(emitter, xs, ys, slices.of(tangents, self.mask, xs), mode)
        return slices.together(y_dots, outputs[0].shape[0])

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return batched cotangents, which are computed by the original mark's rule for one slice."""
        return _transposed_slices(emitter, self.mark, self.mask, inputs, linear, y_bars)


class _BatchedOpaque(Opaque):
    """Batched form of an opaque linear map. The original map defines only its transpose, for one slice."""

    __slots__ = ("map", "mask")

    def __init__(self, of_one: Opaque, mask: tuple[bool, ...], size: Any) -> None:
        types = [TensorSpec.of((size, *spec.shape), spec.dtype) for spec in of_one.types]
        super().__init__(tuple(types), of_one.first_linear, of_one.refusal)
        self.map = of_one
        self.mask = mask

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Return batched cotangents, which are computed by the original map's transpose for one slice."""
        return _transposed_slices(emitter, self.map, self.mask, inputs, linear, y_bars)


def _transposed_slices(
    emitter: GraphEmitter,
    of_one: Mark | Opaque,
    mask: Sequence[bool],
    inputs: Sequence[Value],
    linear: Sequence[bool],
    y_bars: Sequence[Value | None],
) -> Any:
    """Return batched cotangents of the operands, by batching the transpose that `of_one` defines for one slice.

    The cotangent of an operand without a batch axis is the sum of its cotangents for the slices.
    """
    slices = _Slices(emitter)
    xs = slices.of(inputs, mask)
    size = next(y_bar.shape[0] for y_bar in y_bars if y_bar is not None)
    bars = slices.of(y_bars, [True] * len(y_bars))
    sums = slices.together(of_one.transpose(emitter, xs, linear, bars), size)
    return tuple([
        x_bar if x_bar is None or has else reduce_sum(x_bar, (0,))
        for x_bar, has in zip(sums, mask, strict=True)
    ])  # fmt: skip


# ---- programs ------------------------------------------------------------------------------------


def batch_program(
    program: GraphProgram, batched: Sequence[bool], size: object, context: AdContext
) -> GraphProgram:
    """Return a program that computes `size` slices at once.

    The inputs that `batched` flags, and all outputs, get a leading axis.

    Raises:
        ADRuleUnsupportedError, UnsupportedError: an op has no batch rule for these operands.
    """
    graph, values = (program if program.marked is None else program.marked).to_graph()
    emitter = context.emitter(graph)
    shared = [values[slot] for slot in program.input_slots]
    leading = [
        graph.add_input(TensorSpec.of((size, *graph.types[value].shape), graph.types[value].dtype))
        if here
        else value
        for value, here in zip(shared, batched, strict=True)
    ]
    leading_of = {value: new for value, new in zip(shared, leading, strict=True) if value != new}
    slots = program.output_slots if program.marked is None else program.marked.output_slots
    outputs = [values[slot] for slot in slots]
    many, one = _sweep(emitter, 0, leading_of, outputs)
    results = [
        many[value] if value in many else lead(Value(emitter, one.get(value, value)), size).handle
        for value in outputs
    ]
    return GraphProgram.from_graph(
        graph,
        results,
        name=f"batch_{program.name}",
        inputs=leading,
        in_tree=program.in_tree,
        out_tree=program.out_tree,
        input_names=program.input_names,
        output_names=program.output_names,
        guards=graph.guards.guards,
    )
