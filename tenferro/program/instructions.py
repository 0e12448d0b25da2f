"""Functions on lists of instructions: select those that outputs need, renumber values, and copy into a graph.

Every list is in topological order: each value is computed once, before an instruction reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from operator import attrgetter, not_
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.graph import Graph, Instruction, Mark, Opaque, SourceLine
from tenferro.ops.control import ControlOp
from tenferro.types import TensorSpec

__all__ = [
    "copy_into",
    "dependents",
    "instructions_between",
    "instructions_of",
    "last_uses",
    "makers",
    "needed",
    "pruned",
    "readers",
    "renumber",
    "without_marks",
]

Narrow = Callable[[Instruction, Collection[int]], Instruction]
Rule = Callable[[Any, tuple[int, ...], "SourceLine | None"], "tuple[int, ...] | None"]

_OPERANDS = attrgetter("inputs")
_new: Any = (
    tuple.__new__
)  # faster than `Instruction(..)`, which matters because programs have many instructions


def needed(
    instructions: Sequence[Instruction | None],
    outputs: Iterable[int],
    *,
    available: Collection[int] = (),
    start: int = 0,
    narrow: Narrow | None = None,
) -> dict[int, Instruction]:
    """Return the instructions that compute `outputs`, in order, by their positions. None is before position `start`.

    Args:
        available: values that are available without being computed.
        narrow: function of an instruction and the set of needed values. It returns the part of the instruction that
            computes these values.

    >>> add = [Instruction("f", (0,), (1,)), Instruction("g", (0,), (2,)), Instruction("h", (1,), (3,))]
    >>> list(needed(add, [3]))
    [0, 2]
    """
    available = frozenset(available)
    wanted = set(outputs) - available
    numbered: list[tuple[int, Instruction]] = []
    for index in range(len(instructions) - 1, start - 1, -1):
        instruction = instructions[index]
        if instruction is None or wanted.isdisjoint(instruction.outputs):
            continue
        if narrow is not None:
            instruction = narrow(instruction, wanted)
        numbered.append((index, instruction))
        wanted.update(set(instruction.inputs) - available)
    numbered.reverse()
    return dict(numbered)


def pruned(instruction: Instruction, wanted: Collection[int]) -> Instruction:
    """Return a loop or conditional that computes only the outputs in `wanted`; any other instruction is unchanged."""
    op, inputs, outputs, last_use, source = instruction
    if not isinstance(op, ControlOp):
        return instruction
    smaller, kept_inputs, kept_outputs = op.pruned([value in wanted for value in outputs])
    if smaller is op:
        return instruction
    return Instruction(
        smaller,
        tuple([inputs[position] for position in kept_inputs]),
        tuple([outputs[position] for position in kept_outputs]),
        last_use,
        source,
    )


def dependents(instructions: Iterable[Instruction], values: Iterable[int]) -> set[int]:
    """Return `values`, and all values that depend on them."""
    reached = set(values)
    for instruction in instructions:
        if not reached.isdisjoint(instruction.inputs):
            reached.update(instruction.outputs)
    return reached


def last_uses(reads: Sequence[Sequence[int]], outputs: Iterable[int]) -> list[tuple[bool, ...]]:
    """Return, for each value that each step reads, whether the step is the last to read it; never true for `outputs`.

    Args:
        reads: a list of steps; each entry lists the values that the step reads.

    >>> last_uses([(0, 0), (0, 1), (2, 1)], [2])
    [(False, False), (True, False), (False, True)]
    """
    wanted = set(outputs)
    last: list[tuple[bool, ...]] = []
    for values in reversed(reads):
        last.append(tuple(map(not_, map(wanted.__contains__, values))))
        wanted.update(values)
    last.reverse()
    return last


def renumber(
    instructions: Iterable[Instruction], inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[tuple[Instruction, ...], list[int], tuple[int, ...]]:
    """Replace the numbers of values by slots.

    Slots 0 .. n-1 are the n inputs, even if an instruction computes one of them.

    Return the renumbered instructions with `last_use` computed again, a list of the former number of each slot, and the
    slots of the outputs.

    Raises:
        KeyError: an instruction or output needs a value that no instruction computes.

    >>> code, values, slots = renumber([Instruction("f", (7, 5), (9,))], [5, 7], [9])
    >>> code[0].inputs, code[0].outputs, values, slots
    ((1, 0), (2,), [5, 7, 9], (2,))
    """
    instructions = list(instructions)
    last = last_uses(list(map(_OPERANDS, instructions)), outputs)
    values = list(inputs)
    slot_of = dict(zip(values, range(len(values)), strict=True))
    code: list[Instruction] = []
    for (op, operands, results, _, source), last_use in zip(instructions, last, strict=True):
        slots = tuple(map(slot_of.__getitem__, operands))
        first = len(values)
        values += results
        # A value that is an input keeps the slot of the input, even if an instruction computes it, too.
        for slot, value in enumerate(results, first):
            slot_of.setdefault(value, slot)
        code.append(
            _new(Instruction, (op, slots, tuple(range(first, len(values))), last_use, source))
        )
    return tuple(code), values, tuple(map(slot_of.__getitem__, outputs))


def copy_into(
    graph: Graph,
    instructions: Iterable[Instruction],
    values: MutableMapping[int, int] | list[int],
    rule: Rule | None = None,
    source: SourceLine | None = None,
    types: Sequence[TensorSpec] | None = None,
) -> None:
    """Copy instructions, including marks, into a graph.

    Args:
        values: a map from values of the instructions to values of the graph. It must contain the inputs; the outputs of
            the instructions are added to it.
        rule: function of an op, its inputs and its source line. It returns the values that replace the op's outputs, or
            None to copy the op.
        source: the source line for instructions that have none.
        types: the type of each value of the instructions, if the instructions add no guards to the graph. The output
            types of an op are then not inferred again if its inputs in the graph have the same types.

    Raises:
        TenferroError: an op does not accept its inputs.
    """
    for op, operands, results, _, line in instructions:
        inputs = tuple([values[value] for value in operands])
        line = line or source
        outputs = None if rule is None else rule(op, inputs, line)
        if outputs is None:
            specs = None
            if (
                types is not None
                and not isinstance(op, Mark | Opaque)
                and [types[value] for value in operands] == [graph.types[value] for value in inputs]
            ):
                specs = tuple([types[value] for value in results])
            outputs = graph.add(op, inputs, line, specs)
        for result, value in zip(results, outputs, strict=True):
            values[result] = value


def makers(instructions: Iterable[Instruction]) -> dict[int, Instruction]:
    """Return a map from each value to the instruction that computes it."""
    return {value: instruction for instruction in instructions for value in instruction.outputs}


def readers(instructions: Iterable[Instruction]) -> dict[int, list[Instruction]]:
    """Return a map from each value to the instructions that read it. Each instruction is listed once."""
    reading: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        for value in dict.fromkeys(instruction.inputs):
            reading.setdefault(value, []).append(instruction)
    return reading


def without_marks(
    graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[list[Instruction | None], list[int]]:
    """Return the instructions and outputs of a graph after undoing the renaming of values by marks.

    In the list of instructions, None replaces each mark, and each instruction that equals an earlier one after the
    renaming.
    """
    same = list(range(len(graph.types)))
    input_set = set(inputs)
    renamed: dict[Any, tuple[int, ...]] = {}
    instructions: list[Instruction | None] = []
    for instruction in graph.instructions:
        op, operands, results, _, _ = instruction
        resolved = tuple(map(same.__getitem__, operands))
        if isinstance(op, Mark):
            instructions.append(None)
            for position, value in zip(op.takes, results, strict=True):
                if value not in input_set:
                    same[value] = resolved[position]
        elif results and same[results[0]] != results[0]:
            instructions.append(None)
        elif resolved == operands:
            instructions.append(instruction)
        elif isinstance(op, Opaque) or op.has_effects or not input_set.isdisjoint(results):
            instructions.append(instruction._replace(inputs=resolved))
        else:
            twin = graph.find(op, resolved)
            if twin is None or not input_set.isdisjoint(twin):
                twin = renamed.setdefault((op.token, resolved), results)
            first, second = sorted([results, tuple(map(same.__getitem__, twin))])
            instructions.append(instruction._replace(inputs=resolved) if first == results else None)
            for value, original in zip(second, first, strict=False):
                same[value] = original
    return instructions, [same[value] for value in outputs]


def instructions_of(
    graph: Graph, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[tuple[Instruction, ...], list[int], tuple[int, ...]]:
    """Return the instructions that compute `outputs`, without marks, in the form that `renumber` returns.

    Raises:
        InvalidConfigError: an output depends on a value that is not an input, and that no instruction computes.
        ADRuleUnsupportedError: an output depends on a linear map that has only a transpose.
    """
    code: Sequence[Instruction | None] = graph.instructions
    if graph.marked:
        code, outputs = without_marks(graph, inputs, outputs)
    return instructions_between(code, graph.types, inputs, outputs)


def instructions_between(
    code: Sequence[Instruction | None],
    types: Sequence[TensorSpec],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> tuple[tuple[Instruction, ...], list[int], tuple[int, ...]]:
    """Return the instructions that compute `outputs`, in the form that `renumber` returns.

    Raises:
        InvalidConfigError, ADRuleUnsupportedError: as for `instructions_of`.
    """
    part = needed(code, outputs, available=inputs, narrow=pruned).values()
    for instruction in part:
        if isinstance(instruction.op, Opaque):
            raise instruction.op.refuse().at(instruction.source)
    try:
        return renumber(part, inputs, outputs)
    except KeyError as error:
        value = error.args[0]
        reader = next((i.op.name for i in part if value in i.inputs), "an output")
        raise InvalidConfigError(
            f"{reader} needs a value of type {types[value]} which is not an input of the program"
        ) from None
