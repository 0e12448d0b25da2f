"""Running execution IR: as generated Python, or one kernel after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.errors import BackendFailureError, NonFiniteError, TenferroError
from tenferro.exec.finite import strange
from tenferro.exec.quiet import BUFFER
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.exec_program import ExecInstruction, ExecProgram

__all__ = ["execute", "failure", "repeated", "result_failure", "run_instructions"]

Slots = list[Any]


def run_instructions(
    program: ExecProgram,
    leaves: Sequence[Any],
    segmented: bool = True,
    check_finite: bool = False,
) -> list[Any]:
    """Execute the IR on arrays that fit it; results as the kernels left them.

    Raises:
        BackendFailureError: a kernel failed, with op and user line.
        NonFiniteError: under `check_finite`, an op made what is not finite of what was.
    """
    if segmented and not check_finite and program.is_worth_generating():
        with np.errstate(all="ignore"):
            if program.has_long_loops:
                np.setbufsize(BUFFER)  # until the end of this block
            return _run_straight(program, leaves)
    slots: Slots = [None] * program.n_slots
    for slot, leaf in zip(program.input_slots, leaves, strict=True):
        slots[slot] = leaf
    with np.errstate(all="ignore"):
        np.setbufsize(BUFFER)
        step = _execute_checked if check_finite else execute
        for instruction, function in zip(program.instructions, program.functions, strict=True):
            step(instruction, function, slots)
    return [slots[slot] for slot in program.output_slots]


def repeated(program: ExecProgram) -> Callable[[Sequence[Any]], list[Any]]:
    """A program as a function to be called at every turn of a loop, which has silenced NumPy already."""
    functions: list[Callable[..., list[Any]]] = []

    def run(leaves: Sequence[Any]) -> list[Any]:
        if not functions:
            if not program.is_worth_generating():
                return run_instructions(program, leaves)
            line = program.straight_line
            one, *others = line.parts
            if others or line.memory.size:
                return _run_straight(program, leaves)
            functions.append(one.function)
        try:
            return functions[0](*leaves)
        except Exception as error:
            laid = _laid(program, error)
            raise laid from (None if laid is error else error)

    return run


def _run_straight(program: ExecProgram, leaves: Sequence[Any]) -> list[Any]:
    """Run the generated functions; what fails is laid to the user's line."""
    line = program.straight_line
    arena = program.resources.arena
    piece = arena.take(line.memory.size) if line.memory.size else None
    try:
        return line.run(leaves, piece)
    except Exception as error:
        laid = _laid(program, error)
        raise laid from (None if laid is error else error)
    finally:
        if piece is not None:
            arena.give(piece)


def _laid(program: ExecProgram, error: Exception) -> Exception:
    """An exception of generated code, laid to the user's line; that of a signal handler as it is."""
    if is_interruption(error):
        return error
    index = program.straight_line.failed(error.__traceback__)
    if index is None:
        return error
    instruction = program.instructions[index]
    if isinstance(error, TenferroError):
        return error.at(str(instruction.source) if instruction.source else None)
    return _failure(instruction, error)


def execute(instruction: ExecInstruction, function: Callable[..., Any], slots: Slots) -> None:
    """Run one bound kernel, and drop each buffer at its last use."""
    inputs = instruction.input_slots
    try:
        result = function(*[slots[slot] for slot in inputs])
    except TenferroError as error:
        raise error.at(str(instruction.source) if instruction.source else None) from None
    except Exception as error:
        if is_interruption(error):
            raise
        raise _failure(instruction, error) from error
    for slot, last in zip(inputs, instruction.last_use, strict=True):
        if last:
            slots[slot] = None
    if len(instruction.output_slots) == 1:
        slots[instruction.output_slots[0]] = np.asarray(result)
    else:
        for slot, array in zip(instruction.output_slots, result, strict=True):
            slots[slot] = np.asarray(array)


def _execute_checked(
    instruction: ExecInstruction, function: Callable[..., Any], slots: Slots
) -> None:
    """Run one kernel, and look at what it made."""
    operands = [slots[slot] for slot in instruction.input_slots]
    execute(instruction, function, slots)
    for slot in instruction.output_slots:
        made = strange(slots[slot], operands)
        if made is not None:
            raise NonFiniteError(f"{instruction.op.name}: {made}").at(
                str(instruction.source) if instruction.source else None
            )


def _failure(instruction: ExecInstruction, error: Exception) -> TenferroError:
    found = failure(instruction.op, instruction.output_types, error)
    return found.at(str(instruction.source) if instruction.source else None)


def result_failure(program: ExecProgram, place: int, error: MemoryError) -> TenferroError:
    """What is raised where a result, a view until then, does not fit in memory; with the op and line of it."""
    slot = program.output_slots[place]
    for instruction in program.instructions:
        if slot in instruction.output_slots:
            return _failure(instruction, error)
    spec = program.input_types[program.input_slots.index(slot)]
    return BackendFailureError(f"result {place}, a copy of an input {spec}: {error}")


def is_foreign(op: Any) -> bool:
    """True for ops whose kernels may call tenferro in turn."""
    return isinstance(op, Extension | ControlOp)


def failure(op: StdTensorOp, types: Sequence[TensorSpec], error: Exception) -> BackendFailureError:
    """What is raised where a kernel failed."""
    made = ", ".join(map(str, types))
    return BackendFailureError(
        f"{op.name}: the kernel for {made} failed: {type(error).__name__}: {error}"
    )
