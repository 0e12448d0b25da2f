"""Plans: what runs for arrays of known types, and what the tape writes down for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenferro.errors import TenferroError
from tenferro.exec.quiet import quietly
from tenferro.exec.run import failure, is_foreign
from tenferro.graph import Graph, Instruction, Mark, Opaque, SourceLine
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.program import GraphProgram, Subprogram
from tenferro.types import ArrayLike, TensorSpec

__all__ = ["Bind", "Plan"]

Bind = Callable[[StdTensorOp, tuple[TensorSpec, ...]], Callable[..., Any]]
"""Gives the kernel of an op as a function of arrays of these types."""


class Result(NamedTuple):
    """What is known of a result.

    Attributes:
        spec: its type where that is exact; None for what the array itself must tell.
    """

    position: int
    spec: TensorSpec | None
    is_inexact: bool


class Plan:
    """A part of a graph as a function of arrays of known types.

    Attributes:
        key: what two plans that come to the same have in common; None where that cannot be said.
        types: of the results; where the data decide an extent, a bound.

    Raises:
        ADRuleUnsupportedError: a value that only a transposition has.
    """

    __slots__ = ("is_foreign", "is_inexact", "key", "part", "results", "run", "types")

    def __init__(self, part: Subprogram, bind: Bind) -> None:
        self.part = part
        self.key = _key_of(part)
        self.run = _runner(part.program, bind)
        self.types = part.output_specs
        self.results = tuple([
            Result(position, spec if spec.is_static else None, spec.dtype.is_inexact)
            for position, spec in enumerate(self.types)
        ])  # fmt: skip
        self.is_inexact = any([result.is_inexact for result in self.results])
        self.is_foreign = any([is_foreign(i.op) for i in part.instructions])

    def outputs(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What it makes of the arrays.

        Raises:
            BackendFailureError: a kernel failed.
        """
        try:
            result = quietly(self.run, arrays, self.is_foreign)
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            op: Any = self.part.instructions[-1].op  # because several know which of them failed
            raise failure(op, self.types, error) from error
        if type(result) is np.ndarray:
            return (result,)
        return (np.asarray(result),) if len(self.types) == 1 else tuple(map(np.asarray, result))

    def write(self, graph: Graph, inputs: Sequence[int], source: SourceLine | None) -> list[int]:
        """The results in a graph; the line is that of instructions that have none of their own."""
        return self.part.emit(graph, inputs, source)


def _key_of(part: Subprogram) -> Any:
    named: list[Any] = []
    for op, inputs, _, _, _ in part.instructions:
        key = op.key if isinstance(op, Mark | Opaque) else op
        if key is None:
            return None
        named.append((type(op), key, inputs))
    return (tuple(named), len(part.input_slots), part.output_slots)


def _runner(program: GraphProgram, bind: Bind) -> Callable[..., Any]:
    """The kernels, one after the other; the kernel itself where there is just one."""
    types = program.types
    kernels = [bind(i.op, tuple([types[slot] for slot in i.inputs])) for i in program.instructions]
    if len(kernels) == 1:
        (only,) = program.instructions
        slots = (*only.inputs, *only.outputs)
        if slots == tuple(range(program.n_slots)) and only.outputs == program.output_slots:
            return kernels[0]
    return _in_order(program, kernels)


def _in_order(program: GraphProgram, kernels: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    instructions: list[tuple[Instruction, Callable[..., Any]]] = list(
        zip(program.instructions, kernels, strict=True)
    )
    output_slots = program.output_slots

    def run(*arrays: ArrayLike) -> Any:
        values = list(arrays)
        for (op, inputs, outputs, _, _), kernel in instructions:
            try:
                result = kernel(*[values[slot] for slot in inputs])
            except TenferroError:
                raise
            except Exception as error:
                if is_interruption(error):
                    raise
                types = [program.types[slot] for slot in outputs]
                raise failure(op, tuple(types), error) from error
            if type(result) is np.ndarray:
                values.append(result)
            elif len(outputs) == 1:
                values.append(np.asarray(result))
            else:
                values += map(np.asarray, result)
        results = [values[slot] for slot in output_slots]
        return results[0] if len(results) == 1 else results

    return run
