"""Shared functions: inner loops that occur several times, written once as a function of the text.

Importers inline functions at each call. JAX's random number generator, a loop of fifty steps, occurs once for each
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tenferro.exec.llvm.code import SharedFunction
from tenferro.exec.llvm.python_calls import FAILED
from tenferro.exec.llvm.tensor import Body, Memory, Specs, Tensor, Tensors
from tenferro.facts import FACTS, Fact
from tenferro.ops.control import ControlOp
from tenferro.types import DType, TensorSpec

__all__ = ["SharedFunctions", "repeated_loops"]

MIN_INSTRUCTIONS = 30
"""Minimum number of instructions of a loop that becomes a shared function."""
Write = Callable[[Any, Sequence[Tensor]], Sequence[Tensor]]


def repeated_loops(op: ControlOp) -> frozenset[ControlOp]:
    """Return the inner loops of an op that occur more than once and have many instructions."""
    candidates: dict[Any, list[ControlOp]] = {}
    left: list[ControlOp] = [op]
    while left:
        for subprogram in left.pop().parts:
            for step in subprogram.program.instructions:
                inner = step.op
                if not inner.parts:
                    continue
                left.append(inner)
                counts = tuple([len(subprogram.program.instructions) for subprogram in inner.parts])
                if Fact.ITERATES in FACTS.cell(inner) and sum(counts) >= MIN_INSTRUCTIONS:
                    candidates.setdefault((type(inner), counts), []).append(inner)
    repeated: set[ControlOp] = set()
    for ops in candidates.values():
        # Comparisons are slow: ops are compared only if their instruction counts are equal.
        seen: set[ControlOp] = set()
        for loop in ops if len(ops) > 1 else ():
            (repeated if loop in seen else seen).add(loop)
    return frozenset(repeated)


class _Definition(NamedTuple):
    """Shared function, the size of its scratch memory in bytes, and its arguments that are constants."""

    function: SharedFunction
    scratch: int
    constants: tuple[str, ...]


class SharedFunctions:
    """Shared functions of one text.

    Args:
        repeated: loops that are written as shared functions.
    """

    def __init__(self, body: Body, repeated: frozenset[ControlOp]) -> None:
        self.body, self.repeated = body, repeated
        self._definitions: dict[ControlOp, _Definition] = {}
        # For each function that is being written: its callees and their scratch memory.
        self._callees: list[dict[str, tuple[_Definition, str]]] = [{}]

    def call(self, op: Any, operands: Tensors, types: Specs, write: Write) -> list[Tensor] | None:
        """Write the call of a repeated loop and return its results; None for any other loop.

        Args:
            write: writes the loop inline.
        """
        if not self.repeated or op not in self.repeated:
            return None
        body, code = self.body, self.body.code
        definition = self._definitions.get(op)  # its body determines the types of operands
        if definition is None:
            calls = 0 if body.host is None else len(body.host.sites)
            definition = self._define(op, operands, types, write)
            # A loop with kernels is written at each call, because their errors name the line of the user's code.
            if body.host is None or len(body.host.sites) == calls:
                self._definitions[op] = definition
        memories = [body.dense(x) for x in operands]
        results = [body.memory(spec) for spec in types]
        callees, name = self._callees[-1], definition.function.name
        if name not in callees:
            spec = TensorSpec((definition.scratch,), DType.U8)
            pointer = body.memory(spec).pointer if definition.scratch else "null"
            callees[name] = definition, pointer
        scratch = callees[name][1]
        pointers = [
            *[memory.pointer for memory in (*memories, *results)], *definition.constants, *self._host(),
        ]  # fmt: skip
        status = code.call_shared(definition.function, pointers, scratch)
        code.return_if(code.icmp("ne", status, 0), FAILED)
        return [body.stored(memory) for memory in results]

    def _host(self) -> list[str]:
        return [] if self.body.host is None else ["%host"]

    def _define(self, op: Any, operands: Tensors, types: Specs, write: Write) -> _Definition:
        body, code = self.body, self.body.code
        name = code.name("loop")[1:]
        first = len(body.constants)
        with code.shared_function(name) as function, body.new_function():
            self._callees.append({})
            names = [f"%p{number}" for number in range(len(operands))]
            inputs = [
                body.read(Memory(pointer, x.spec))
                for pointer, x in zip(names, operands, strict=True)
            ]
            results = [Memory(f"%r{number}", spec) for number, spec in enumerate(types)]
            for y, memory in zip(write(op, inputs), results, strict=True):
                body.write(y, memory)
            constants = dict.fromkeys([pointer for pointer, _ in body.constants[first:]])
            for callee, _ in self._callees.pop().values():
                constants.update(dict.fromkeys(callee.constants))
            outputs = [memory.pointer for memory in results]
            function.pointers = (*names, *outputs, *constants, *self._host())
            scratch = body.scratch_bytes
        return _Definition(function, scratch, tuple(constants))
