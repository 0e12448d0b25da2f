"""The interpreter of schedules, which runs one step after the other. It defines the meaning of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from tenferro.errors import BackendFailureError, TenferroError
from tenferro.exec.planned import Control
from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, InPlace, Pooled
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Observer", "failure", "interpret", "located", "results_of"]

Observer: TypeAlias = Callable[
    [ExecProgram, ExecInstruction, Sequence[Any], Callable[..., Sequence[Any]]], Sequence[Any]
]
"""Function `around(program, step, operands, call)`, which runs one step of a schedule and returns its results.

`call(operands)` calls the step's kernel.
"""


def interpret(
    program: ExecProgram, leaves: Sequence[Any], around: Observer | None = None
) -> list[Any]:
    """Run a schedule, and return its results.

    Args:
        leaves: arrays of the types of the schedule's inputs.
        around: an observer, which runs each step, also in the bodies of loops and conditionals.

    Raises:
        BackendFailureError: a kernel failed; the error names the op and the user's line.
    """
    memory, size = program.resources.memory, program.memory.size
    slots, arena = program.start(leaves), memory.acquire(size) if size else None
    try:
        for step in program.instructions:
            operands = [slots[slot] for slot in step.input_slots]
            call = partial(_call, program, step, _function(step, around), slots, arena)
            try:
                results = (
                    call(operands) if around is None else around(program, step, operands, call)
                )
            except Exception as error:
                laid = located(step, error)
                if laid is error:
                    raise
                raise laid from error
            for slot, result in zip(step.output_slots, results, strict=True):
                slots[slot] = result
            del operands, call, results  # so that the arrays can be freed before the next step
            for slot in step.frees:
                slots[slot] = None
        return [slots[slot] for slot in program.output_slots]
    finally:
        if arena is not None:
            memory.release(arena)


def _call(
    program: ExecProgram,
    step: ExecInstruction,
    function: Callable[..., Any],
    slots: Sequence[Any],
    arena: Any,
    operands: Sequence[Any],
) -> Sequence[Any]:
    """Run one step, and return its results, in the memory that the schedule plans for them.

    Args:
        slots: the value of each slot.
        arena: the bytes of the arena, or None if the schedule has no arena.
    """
    options: dict[str, Any] = {}
    if step.out is not None:
        options["out"] = slots[step.out]
    elif step.places:
        memory = program.resources.memory
        options["into"] = [
            arena[target.offset : target.offset + target.size] if isinstance(target, Arena)
            else memory.allocate(target.size) if isinstance(target, Pooled)
            else slots[target.slot] if isinstance(target, InPlace)
            else None
            for target in step.places
        ]  # fmt: skip
    results = results_of(step.op, function(*operands, **options), len(step.output_slots))
    return list(map(program.resources.as_array, results))


def results_of(op: Any, result: Any, count: int) -> Sequence[Any]:
    """Convert the result of an op's kernel to a sequence of `count` arrays, one per output.

    Raises:
        BackendFailureError: the kernel returned None, or the wrong number of results.
    """
    results = (result,) if count == 1 else () if result is None else result
    if len(results) != count:
        raise BackendFailureError(
            f"{op.name}: the kernel gives {len(results)} results, the op has {count}"
        )
    if any([one is None for one in results]):
        raise BackendFailureError(f"{op.name}: the kernel gives None in place of an array")
    return results


def _function(step: ExecInstruction, around: Observer | None) -> Callable[..., Any]:
    """Return the function that runs a step; with an observer, the observer runs the steps of a control op's bodies."""
    control = step.inner_op
    if around is None or not isinstance(control, Control):
        return step.function
    runs = [partial(interpret, body, around=around) for body in control.schedules]
    return control.bind_programs(step.kernels, runs)


def located(step: ExecInstruction, error: Exception) -> Exception:
    """Return the error of a step with the op and the user's line; a signal handler's exception is unchanged."""
    if is_interruption(error):
        return error
    line = str(step.source) if step.source else None
    if isinstance(error, TenferroError):
        return error.at(line)
    return failure(step.op, step.output_types, error).at(line)


def failure(
    op: StdTensorOp | Any, types: Sequence[TensorSpec], error: Exception
) -> BackendFailureError:
    """Return the error for an op whose kernel, for results of these types, raised an exception."""
    shown = ", ".join(map(str, types))
    return BackendFailureError(
        f"{op.name}: the kernel for {shown} failed: {type(error).__name__}: {error}"
    )
