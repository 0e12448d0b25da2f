"""Replay of instructions on tensors or arrays, in order and without a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple

from tenferro.dispatch.application import apply
from tenferro.dispatch.operands import as_constant_of, as_operand, is_traced, spec_of
from tenferro.errors import ArityError, DTypeError, TenferroError
from tenferro.graph import Instruction
from tenferro.program import GraphProgram, as_extents
from tenferro.types import agree, difference, flatten

__all__ = ["Application", "applied", "replay"]


class Application(NamedTuple):
    """Instruction that was applied, with its operands and results."""

    instruction: Instruction
    operands: list[Any]
    results: tuple[Any, ...]


def applied(
    instructions: Iterable[Instruction], values: MutableMapping[int, Any], like: Any = None
) -> Iterator[Application]:
    """Apply the instructions in order. Yield each with its operands and results before the next one is applied.

    Args:
        values: a map from slots to their values. The results are added to the map.
        like: for instructions without operands, a tensor of the trace or runtime, as in `apply`.

    Raises:
        TenferroError: as for `apply`; the message also names the source line of the instruction.
    """
    for instruction in instructions:
        op, inputs, outputs, _, source = instruction
        operands = [values[slot] for slot in inputs]
        try:
            results = apply(op, *operands, like=None if inputs else like)
        except TenferroError as error:
            error.at(source)
            raise
        values.update(zip(outputs, results, strict=True))
        yield Application(instruction, operands, results)


def replay(program: GraphProgram, arguments: tuple[Any, ...]) -> Any:
    """Apply a program's instructions to tensors of a trace, and return the tree of results.

    Symbols of the program are bound to extents of the arguments, which may be symbols of the trace.

    Raises:
        ArityError, ShapeError, DTypeError, GuardError: the arguments do not match the program's inputs.
    """
    leaves, tree = flatten(arguments)
    if not agree(tree, program.in_tree):
        parting = difference(program.in_tree, tree, ("expected", "got"))
        raise ArityError(f"the arguments have another structure: {parting}")
    pairs = zip(leaves, program.input_specs, program.input_names, strict=True)
    operands = [as_operand(as_extents(leaf, spec, name)) for leaf, spec, name in pairs]
    tensor: Any = next(x for x in operands if is_traced(x))
    operands = [as_constant_of(tensor, x) for x in operands]
    specs = [spec_of(operand) for operand in operands]
    for name, wanted, actual in zip(program.input_names, program.input_specs, specs, strict=True):
        if actual.dtype is not wanted.dtype:
            raise DTypeError(f"{name}: expected {wanted}, got {actual}")
    bound = program.specialize(program.bind([spec.shape for spec in specs], tensor.guards))
    if not program.trusted:
        tensor.__tenferro_distrust__()
    marked = bound.marked
    if marked is not None and any([getattr(x, "is_tracked", False) for x in operands]):
        return program.pack(tensor.runtime.noted(marked, operands))
    is_eager = hasattr(tensor, "runtime")
    code = bound if marked is None or is_eager else marked
    values = dict(zip(code.input_slots, operands, strict=True))
    # By `like`, ops without operands are added to the tensor's trace, so broadcasts of their results stay broadcasts.
    for _ in applied(code.instructions, values, like=tensor):
        pass
    return program.pack([values[slot] for slot in code.output_slots])
