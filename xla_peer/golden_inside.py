"""Native execution of a module that reports the values inside of loops, branches and called functions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowering.importing import NamedValue, TextTree, text_tree_of
from lowering.module_tree import Block, Operation
from lowering.read import READERS, Reader, note_extents
from tenferro.errors import ArityError, InvalidConfigError, ShapeError
from tenferro.exec.interpreter import interpret
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.program import GraphProgram, native_executor
from tenferro.types import DType, TensorSpec

__all__ = ["Step", "steps"]

DEEPEST = 100
"""Maximum nesting depth of calls and regions."""


@dataclass(frozen=True)
class Step:
    """Value that an operation of the module computed in a run.

    Attributes:
        value: the name of the value with its path: `%4/2/%w` is `%w` in iteration 2 of the loop `%4`.
        array: the elements.
        program: the operation alone, as a program of its operands; None for a loop, a branch or a call.
        operands: pairs of a name and an array for the inputs of `program`; a value without a name has the name "".
        place: the index of the value among the outputs of `program`.
    """

    value: NamedValue
    array: Any
    program: GraphProgram | None = None
    operands: Sequence[tuple[str, Any]] = ()
    place: int = 0


@dataclass
class _NamedArray:
    """Value of the current run: its array, its name with its path, and whether it is a constant of the module."""

    array: Any
    name: str = ""
    is_constant: bool = False


Scope = MutableMapping[int, _NamedArray]


def steps(module: Any, inputs: Sequence[Any], visit: Callable[[Step], None]) -> None:
    """Run `main` natively, operation by operation, and call `visit` with each value and its path.

    A path contains the number of a loop's iteration, counted from 0, followed by `cond` for values of the condition.
    For a branch it contains `true`, `false` or the index, and for a called function `@name`. Values in regions of other
    operations are not reported.

    Raises:
        UnsupportedError: the module is bytecode and jaxlib is missing, or an operation is not supported.
        ArityError, DTypeError, ShapeError: the inputs do not fit.
        InvalidConfigError: calls and regions are nested deeper than `DEEPEST`.
    """
    texts = text_tree_of(module)
    _Run(texts, visit).main([np.asarray(x) for x in inputs])


class _Run:
    def __init__(self, texts: TextTree, visit: Callable[[Step], None]) -> None:
        self.texts, self.visit = texts, visit
        self.programs: dict[Any, GraphProgram] = {}
        self.schedules: dict[int, Any] = {}
        self.own: frozenset[int] = frozenset()

    def main(self, inputs: Sequence[Any]) -> None:
        entry = self.texts.main()
        if len(inputs) != len(entry.body.types):
            raise ArityError(
                f"golden: main takes {len(entry.body.types)} arguments, got {len(inputs)}"
            )
        for x, declared in zip(inputs, entry.body.types, strict=True):
            spec = TensorSpec.of(x.shape, DType.of(x.dtype))
            if not isinstance(declared, TensorSpec) or not _fits(spec, declared):
                raise ShapeError(f"golden: an argument is {declared} in the module, got {spec}")
        self.own = self.texts.own[entry.name]
        with numpy_state():
            self.block(entry.body, [_NamedArray(x) for x in inputs], {}, "", 0)

    def block(
        self, block: Block, arguments: Sequence[_NamedArray], outer: Scope, path: str, depth: int
    ) -> list[_NamedArray]:
        """Run the operations of a block, report their values, and return the block's results.

        Args:
            outer: the values outside of the block that its operations may use, by number.
            path: the prefix of the names of the block's values.
            depth: the number of regions and calls around the block.
        """
        if depth > DEEPEST:
            raise InvalidConfigError(
                f"golden: regions and calls are nested more than {DEEPEST} deep"
            )
        own: dict[int, _NamedArray] = dict(zip(block.arguments, arguments, strict=True))
        scope: Scope = ChainMap(own, outer)
        for operation in block.operations[:-1]:
            names = self.texts.names(operation)
            inside = (
                f"{path}{names[0].partition('#')[0] if names else self.texts.place(operation)}/"
            )
            step = _CONTROL.get(operation.name)
            if step is not None:
                results = step(self, operation, scope, inside, depth + 1)
                program, varying = None, list[_NamedArray]()
            else:
                program, varying, results = self.computed(operation, scope)
            for place, (number, known) in enumerate(zip(operation.results, results, strict=True)):
                scope[number] = known
                if not isinstance(operation.types[place], TensorSpec) or number not in self.own:
                    continue
                name = f"{path}{names[place]}"
                scope[number] = replace(known, name=name)
                line, text = self.texts.line(operation)
                value = NamedValue(name, line, text)
                operands = [(x.name, x.array) for x in varying]
                self.visit(Step(value, known.array, program, operands, place))
        return [scope[number] for number in block.operations[-1].operands]

    def computed(
        self, operation: Operation, scope: Mapping[int, _NamedArray]
    ) -> tuple[GraphProgram | None, list[_NamedArray], list[_NamedArray]]:
        """Run one operation as a program. Return the program, its operands other than constants, and its results.

        A constant operand is part of the program, because an operation may require its value, for example as a shape.
        """
        used = _used(operation)
        given = {number: scope[number] for number in used}
        key = (id(operation), *[
            (x.array.shape, x.array.dtype, x.array.tobytes() if x.is_constant else None)
            for x in given.values()
        ])  # fmt: skip
        varying = [x for x in given.values() if not x.is_constant]
        if key not in self.programs:
            self.programs[key] = self._program(operation, given)
        program = self.programs[key]
        arrays = self._run(program, [x.array for x in varying])
        is_constant = not varying or operation.name == "stablehlo.get_dimension_size"
        return program, varying, [_NamedArray(y, "", is_constant) for y in arrays]

    def _program(self, operation: Operation, given: Mapping[int, _NamedArray]) -> GraphProgram:
        reader = Reader(self.texts.tree, READERS, note_extents, trusted=False)
        values: dict[int, int] = {}
        inputs: list[int] = []
        for number, x in given.items():
            if x.is_constant:
                values[number] = reader.constant(x.array)
            else:
                spec = TensorSpec.of(x.array.shape, DType.of(x.array.dtype))
                values[number] = reader.builder.input(spec)
                inputs.append(values[number])
        outputs = reader.operation(operation, values)
        return reader.builder.finish(outputs, inputs=inputs)

    def _run(self, program: GraphProgram, arrays: Sequence[Any]) -> list[Any]:
        schedule = self.schedules.get(id(program))
        if schedule is None:
            schedule = replace(native_executor().binder, passes=(), plan=()).bind(program)
            self.schedules[id(program)] = schedule
        return [np.asarray(y) for y in interpret(schedule, arrays)]

    # ---- operations with regions or functions whose values are reported ------------------------

    def call(self, operation: Operation, scope: Scope, path: str, depth: int) -> list[_NamedArray]:
        name = operation.attributes["callee"]
        function = self.texts.tree.functions.get(name)
        if function is None or not function.body.operations:
            raise InvalidConfigError(f"golden: the module has no function @{name} with a body")
        arguments = [scope[number] for number in operation.operands]
        own, self.own = self.own, self.texts.own[name]
        results = self.block(function.body, arguments, {}, f"{path}@{name}/", depth)
        self.own = own
        return results

    def while_(
        self, operation: Operation, scope: Scope, path: str, depth: int
    ) -> list[_NamedArray]:
        condition, body = operation.regions
        states = [replace(scope[number], is_constant=False) for number in operation.operands]
        iteration = 0
        while True:
            (test,) = self.block(condition, states, scope, f"{path}{iteration}/cond/", depth)
            if not test.array:
                return states
            states = self.block(body, states, scope, f"{path}{iteration}/", depth)
            states = [replace(x, is_constant=False) for x in states]
            iteration += 1

    def if_(self, operation: Operation, scope: Scope, path: str, depth: int) -> list[_NamedArray]:
        holds = bool(scope[operation.operands[0]].array)
        region = operation.regions[0 if holds else 1]
        return self.block(region, (), scope, f"{path}{str(holds).lower()}/", depth)

    def case(self, operation: Operation, scope: Scope, path: str, depth: int) -> list[_NamedArray]:
        index, count = int(scope[operation.operands[0]].array), len(operation.regions)
        index = index if 0 <= index < count else count - 1
        return self.block(operation.regions[index], (), scope, f"{path}{index}/", depth)


_CONTROL: Mapping[str, Callable[[_Run, Operation, Scope, str, int], list[_NamedArray]]] = {
    "func.call": _Run.call,
    "stablehlo.case": _Run.case,
    "stablehlo.if": _Run.if_,
    "stablehlo.while": _Run.while_,
}


def _fits(spec: TensorSpec, declared: TensorSpec) -> bool:
    """Return whether `spec` has the dtype, rank and extents of `declared`; an open extent accepts any number."""
    if spec.dtype is not declared.dtype or spec.rank != declared.rank:
        return False
    pairs = zip(spec.shape, declared.shape, strict=True)
    return all(not isinstance(wanted, int) or extent == wanted for extent, wanted in pairs)


def _used(operation: Operation) -> list[int]:
    """Return the numbers of the values that an operation uses, including the values that its regions capture."""
    used = dict.fromkeys(operation.operands)
    inside: set[int] = set()
    waiting = list(operation.regions)
    while waiting:
        block = waiting.pop()
        inside.update(block.arguments)
        for inner in block.operations:
            inside.update(inner.results)
            used |= dict.fromkeys(inner.operands)
            waiting += inner.regions
    return [number for number in used if number not in inside]
