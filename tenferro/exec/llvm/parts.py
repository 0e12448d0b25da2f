"""Parts: loops inside of a compiled one that come several times, written once as a function of the text.

What an imported program calls a function is written out in the place of each call; the generator of random numbers of
JAX, a loop of fifty steps, so comes once for each sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tenferro.exec.llvm.code import Part
from tenferro.exec.llvm.python_calls import FAILED
from tenferro.exec.llvm.tensor import Body, Memory, Tensor
from tenferro.ops.control import ControlOp, Scan, While
from tenferro.types import DType, TensorSpec

__all__ = ["Parts", "repeated_in"]

FEWEST = 30
"""Steps of a loop that is worth a function."""
Write = Callable[[Any, Sequence[Tensor]], Sequence[Tensor]]


def repeated_in(op: ControlOp) -> frozenset[ControlOp]:
    """Loops inside of an op that come more than once, and have many steps."""
    alike: dict[Any, list[ControlOp]] = {}
    left: list[ControlOp] = [op]
    while left:
        for part in left.pop().parts:
            for step in part.program.instructions:
                inner = step.op
                if not isinstance(inner, ControlOp):
                    continue
                left.append(inner)
                counts = tuple([len(each.program.instructions) for each in inner.parts])
                if isinstance(inner, Scan | While) and sum(counts) >= FEWEST:
                    alike.setdefault((type(inner), counts), []).append(inner)
    repeated: set[ControlOp] = set()
    for ops in alike.values():
        # To compare them takes long enough that only those are which look alike.
        seen: set[ControlOp] = set()
        for each in ops if len(ops) > 1 else ():
            (repeated if each in seen else seen).add(each)
    return frozenset(repeated)


class _Called(NamedTuple):
    """A part, the bytes of its scratch, and the constants that it takes beside operands and results."""

    part: Part
    scratch: int
    constants: tuple[str, ...]


class Parts:
    """The parts of one text.

    Args:
        repeated: the loops that are written as parts.
    """

    def __init__(self, body: Body, repeated: frozenset[ControlOp]) -> None:
        self.body, self.repeated = body, repeated
        self._parts: dict[ControlOp, _Called] = {}
        # Of each function that is being written: the parts that it calls, with their scratch.
        self._callees: list[dict[str, tuple[_Called, str]]] = [{}]

    def call(
        self, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec], write: Write
    ) -> list[Tensor] | None:
        """The results of a loop that is a part; None for any other.

        Args:
            write: writes the loop in its place.
        """
        if not self.repeated or op not in self.repeated:
            return None
        body, code = self.body, self.body.code
        called = self._parts.get(op)  # whose body tells the types of operands
        if called is None:
            calls = 0 if body.host is None else len(body.host.sites)
            called = self._written(op, operands, types, write)
            # Who calls kernels is written again, because these name the user's line in errors.
            if body.host is None or len(body.host.sites) == calls:
                self._parts[op] = called
        memories = [body.dense(x) for x in operands]
        results = [body.memory(spec) for spec in types]
        callees, name = self._callees[-1], called.part.name
        if name not in callees:
            spec = TensorSpec((called.scratch,), DType.U8)
            callees[name] = called, body.memory(spec).pointer if called.scratch else "null"
        scratch = callees[name][1]
        pointers = [
            *[memory.pointer for memory in (*memories, *results)], *called.constants, *self._host(),
        ]  # fmt: skip
        status = code.call_part(called.part, pointers, scratch)
        code.leave_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)
        return [body.stored(memory) for memory in results]

    def _host(self) -> list[str]:
        return [] if self.body.host is None else ["%host"]

    def _written(
        self, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec], write: Write
    ) -> _Called:
        body, code = self.body, self.body.code
        name = code.name("loop")[1:]
        first = len(body.constants)
        with code.part(name) as part, body.apart():
            self._callees.append({})
            names = [f"%p{number}" for number in range(len(operands))]
            inputs = [
                body.read(Memory(each, x.spec)) for each, x in zip(names, operands, strict=True)
            ]
            results = [Memory(f"%r{number}", spec) for number, spec in enumerate(types)]
            for y, memory in zip(write(op, inputs), results, strict=True):
                body.write(y, memory)
            constants = dict.fromkeys([each for each, _ in body.constants[first:]])
            for callee, _ in self._callees.pop().values():
                constants.update(dict.fromkeys(callee.constants))
            places = [memory.pointer for memory in results]
            part.pointers = (*names, *places, *constants, *self._host())
            scratch = body.scratch_bytes
        return _Called(part, scratch, tuple(constants))
