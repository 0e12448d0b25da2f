"""Plans: what runs for arrays of known types, and what the tape writes down for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tenferro.ad import Region
from tenferro.errors import TenferroError
from tenferro.exec.dispatch import is_foreign
from tenferro.exec.quiet import quietly
from tenferro.exec.run import failure
from tenferro.graph import Graph, Mark, Node, Opaque, SourceLine
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.types import TensorSpec

__all__ = ["Bind", "Plan", "region_of_op"]

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
    """A region of a graph as a function of arrays of known types.

    Args:
        types: of all values of the graph.

    Attributes:
        key: what two plans that come to the same have in common; None where that cannot be said.
        types: of the results; where the data decide an extent, a bound.

    Raises:
        ADRuleUnsupportedError: a value that only a transposition has.
    """

    __slots__ = ("is_foreign", "is_inexact", "key", "region", "results", "run", "types")

    def __init__(self, region: Region, types: Sequence[TensorSpec], bind: Bind) -> None:
        self.region = region
        self.key = _key_of(region)
        self.run = _runner(region, types, bind)
        self.types = tuple([types[value] for value in region.outputs])
        self.results = tuple([
            Result(position, spec if spec.is_static else None, spec.dtype.is_inexact)
            for position, spec in enumerate(self.types)
        ])  # fmt: skip
        self.is_inexact = any([result.is_inexact for result in self.results])
        self.is_foreign = any([is_foreign(node.op) for node, _ in region.nodes])

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
            op: Any = self.region.nodes[-1][0].op  # because several know which of them failed
            raise failure(op, self.types, error) from error
        if type(result) is np.ndarray:
            return (result,)
        return (np.asarray(result),) if len(self.types) == 1 else tuple(map(np.asarray, result))

    def write(self, graph: Graph, inputs: Sequence[int], source: SourceLine | None) -> list[int]:
        """The results in a graph; the line is that of nodes that have none of their own."""
        nodes = tuple([(node, place or source) for node, place in self.region.nodes])
        return replace(self.region, nodes=nodes).emit(graph, inputs)


def region_of_op(op: StdTensorOp, arity: int, count: int) -> Region:
    """One op: the operands are values from 0 on, then come the results."""
    taken, made = tuple(range(arity)), tuple(range(arity, arity + count))
    return Region(taken, ((Node(op, taken, made), None),), made)


def _key_of(region: Region) -> Any:
    named: list[Any] = []
    for node, _ in region.nodes:
        op = node.op.key if isinstance(node.op, Mark | Opaque) else node.op
        if op is None:
            return None
        named.append((type(op), op, node.inputs, node.outputs))
    return (tuple(named), region.frontier, region.outputs)


class _Step(NamedTuple):
    """A node: its kernel, the places of what it takes, and the types of its results."""

    op: StdTensorOp
    kernel: Callable[..., Any]
    takes: tuple[int, ...]
    types: tuple[TensorSpec, ...]


def _runner(region: Region, types: Sequence[TensorSpec], bind: Bind) -> Callable[..., Any]:
    """The kernels of the nodes, one after the other; the kernel itself where there is just one."""
    steps, gives = _steps(region, types, bind)
    if len(steps) == 1 and (*steps[0].takes, *gives) == tuple(
        range(len(region.frontier) + len(gives))
    ):
        return steps[0].kernel
    return _in_order(steps, gives)


def _steps(
    region: Region, types: Sequence[TensorSpec], bind: Bind
) -> tuple[list[_Step], tuple[int, ...]]:
    """What runs, and the places of the results; places are the arguments, then what each step makes."""
    steps: list[_Step] = []
    place = {value: i for i, value in enumerate(region.frontier)}
    count = len(place)
    for node, _ in region.nodes:
        op = node.op
        if isinstance(op, Opaque):
            raise op.refuse()
        if isinstance(op, Mark):
            renamed = [place[node.inputs[i]] for i in op.takes]
            place.update(zip(node.outputs, renamed, strict=True))
            continue
        takes = tuple([place[value] for value in node.inputs])
        made = tuple([types[value] for value in node.outputs])
        kernel = bind(op, tuple([types[value] for value in node.inputs]))
        steps.append(_Step(op, kernel, takes, made))
        place.update({value: count + i for i, value in enumerate(node.outputs)})
        count += len(made)
    return steps, tuple([place[value] for value in region.outputs])


def _in_order(steps: list[_Step], gives: tuple[int, ...]) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        values = list(arrays)
        for op, kernel, takes, types in steps:
            try:
                result = kernel(*[values[place] for place in takes])
            except TenferroError:
                raise
            except Exception as error:
                if is_interruption(error):
                    raise
                raise failure(op, types, error) from error
            if type(result) is np.ndarray:
                values.append(result)
            elif len(types) == 1:
                values.append(np.asarray(result))
            else:
                values += map(np.asarray, result)
        found = [values[place] for place in gives]
        return found[0] if len(found) == 1 else found

    return run
