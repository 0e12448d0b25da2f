"""Plans of eager operations: a schedule for arrays of fixed types, and the graph from which derivatives are derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.errors import TenferroError
from tenferro.exec.interpreter import failure, interpret
from tenferro.exec.plan import Binder
from tenferro.exec.runtime.numpy_state import call_in_numpy_state
from tenferro.graph import Graph, Mark, Opaque, SourceLine
from tenferro.interruption import is_interruption
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import ArrayLike, TensorSpec

__all__ = ["Plan"]


class Result(NamedTuple):
    """Description of one result of a plan.

    Attributes:
        position: the index of the result.
        spec: the type of the result if all its extents are numbers; None if an extent depends on the elements.
        is_inexact: whether the dtype is float or complex.
    """

    position: int
    spec: TensorSpec | None
    is_inexact: bool


class Plan:
    """Part of a graph, compiled as a function of arrays of fixed types.

    Attributes:
        key: a key that is equal for plans of equal programs; None if a mark of the program has no key.
        types: the types of the results, with bounds for data-dependent extents.

    Raises:
        ADRuleUnsupportedError: the part needs the value of a linear map of which only the transpose is defined.
    """

    __slots__ = ("is_foreign", "is_inexact", "key", "part", "results", "run", "types")

    def __init__(self, part: Subprogram, binder: Binder) -> None:
        self.part = part
        self.key = _key_of(part)
        self.run = _runner(part.program, binder)
        self.types = part.output_specs
        self.results = tuple([
            Result(position, spec if spec.is_static else None, spec.dtype.is_inexact)
            for position, spec in enumerate(self.types)
        ])  # fmt: skip
        self.is_inexact = any([result.is_inexact for result in self.results])
        self.is_foreign = any([isinstance(i.op, Extension | ControlOp) for i in part.instructions])

    def outputs(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run the plan on arrays, which have the types of the plan, and return the results.

        Raises:
            BackendFailureError: a kernel failed.
        """
        try:
            result = call_in_numpy_state(self.run, arrays, self.is_foreign)
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            # An interpreter of several instructions names the failed one itself, so this plan has only one instruction.
            op: Any = self.part.instructions[-1].op
            raise failure(op, self.types, error) from error
        if type(result) is np.ndarray:
            return (result,)
        return (np.asarray(result),) if len(self.types) == 1 else tuple(map(np.asarray, result))

    def write(self, graph: Graph, inputs: Sequence[int], source: SourceLine | None) -> list[int]:
        """Add the plan's instructions to a graph, and return the graph values of its results.

        Args:
            inputs: the graph values of the operands.
            source: the source line of instructions that have none.
        """
        return self.part.emit(graph, inputs, source)


def _key_of(part: Subprogram) -> Any:
    named: list[Any] = []
    for op, inputs, _, _, _ in part.instructions:
        key = op.key if isinstance(op, Mark | Opaque) else op
        if key is None:
            return None
        named.append((type(op), key, inputs))
    return (tuple(named), len(part.input_slots), part.output_slots)


def _runner(program: GraphProgram, binder: Binder) -> Callable[..., Any]:
    """Return a function that runs the program: the kernel itself for a single instruction, otherwise an interpreter."""
    schedule = binder.bind(program)
    if len(schedule.instructions) == 1:
        (only,) = schedule.instructions
        slots = (*only.input_slots, *only.output_slots)
        if slots == tuple(range(program.n_slots)) and only.output_slots == program.output_slots:
            return only.function

    def run(*arrays: ArrayLike) -> Any:
        results = interpret(schedule, arrays)
        return results[0] if len(results) == 1 else results

    return run
