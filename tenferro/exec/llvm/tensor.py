"""Values of a body while it is compiled: how to compute an element, or where all of them lie."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import (
    LOW,
    Code,
    Element,
    Flat,
    Index,
    literal,
    memory_type,
)
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.llvm.host import HostCalls

__all__ = [
    "SMALL",
    "Body",
    "Memory",
    "Store",
    "Tensor",
    "Writer",
    "by_axes",
    "in_float32",
    "moved_axes",
    "same_place",
    "with_axes",
]

SMALL = 32
"""Elements of a value that lies in memory of the function's own, which becomes registers."""
LARGEST_SCRATCH = 1 << 26
"""Bytes of all other values in the middle."""
_NUMBERS = count()
Writer: TypeAlias = (
    "Callable[[Body, Any, Sequence[Tensor], Sequence[TensorSpec]], Sequence[Tensor]]"
)
"""`write(body, op, operands, types)` gives the results of an op."""
Store: TypeAlias = Callable[[tuple[Index, ...], Element], None]
"""`store(index, value)` writes an element."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Dense elements, the last axis fastest."""

    pointer: str
    spec: TensorSpec


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value.

    Attributes:
        element: its element at an index, as code is written.
        reads: the memory that the elements are read from, until they lie in memory of their own.
        aligned: those of it of which an element reads the one at its own place alone, so that the value may be
            written over it.
        memory: where they lie.
        is_cheap: whether an element costs no more than to read it.
        is_flat: whether elements are known by their numbers too.
    """

    spec: TensorSpec
    element: Callable[[tuple[Index, ...]], Element]
    reads: frozenset[Memory] = frozenset()
    aligned: frozenset[Memory] = frozenset()
    memory: Memory | None = None
    is_cheap: bool = False
    is_flat: bool = False
    number: int = field(default_factory=lambda: next(_NUMBERS))


def same_place(
    spec: TensorSpec, element: Callable[[tuple[Index, ...]], Element], operands: Sequence[Tensor]
) -> Tensor:
    """A value of which each element is computed of the operands' at the same index."""
    reads = frozenset[Memory]().union(*[x.reads for x in operands])
    elsewhere = frozenset[Memory]().union(*[x.reads - x.aligned for x in operands])
    is_flat = all([x.is_flat and x.spec.shape == spec.shape for x in operands])
    return Tensor(spec, element, reads, reads - elsewhere, is_flat=is_flat)


def by_axes(axes: Iterable[int], indices: Iterable[Index]) -> tuple[Index, ...]:
    """The index that has each of these along its axis; all axes are named, each once.

    >>> by_axes((2, 0, 1), (5, 6, 7))
    (6, 7, 5)
    """
    along = dict(zip(axes, indices, strict=True))
    return tuple([along[axis] for axis in range(len(along))])


def moved_axes(spec: TensorSpec, order: Sequence[int]) -> TensorSpec:
    """The type with its axes in an order."""
    return TensorSpec.of(tuple([spec.shape[axis] for axis in order]), spec.dtype)


def with_axes(body: Body, x: Tensor, order: Sequence[int]) -> Tensor:
    """The value with its axes in an order."""
    return Tensor(
        moved_axes(x.spec, order), lambda index: body.at(x, by_axes(order, index)), x.reads
    )


def in_float32(write: Writer) -> Writer:
    """`write` with float16 and bfloat16 computed in float32, and results rounded once."""

    def widened(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        if not any([spec.dtype in LOW for spec in [*types, *[x.spec for x in operands]]]):
            return write(body, op, operands, types)
        # Registers hold float32 already.
        wide = [
            Tensor(_single(x.spec), x.element, x.reads, x.aligned, is_flat=x.is_flat)
            for x in operands
        ]
        results = write(body, op, wide, [_single(spec) for spec in types])
        return [_rounded(body, x, spec) for x, spec in zip(results, types, strict=True)]

    return widened


def _single(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.shape, DType.F32) if spec.dtype in LOW else spec


def _rounded(body: Body, x: Tensor, spec: TensorSpec) -> Tensor:
    def element(index: tuple[Index, ...]) -> Element:
        return body.code.rounded(body.at(x, index), spec.dtype)

    return Tensor(spec, element, x.reads, x.aligned, is_flat=x.is_flat)


class Body:
    """The code under construction, and memory for intermediate values.

    Args:
        host: what calls the interpreter's kernels; without it every op has to be compiled.
    """

    def __init__(self, code: Code, host: HostCalls | None = None) -> None:
        self.code, self.host = code, host
        self.scratch_bytes = 0
        self.constants: list[tuple[str, Any]] = []
        self.writable: set[Memory] = set()
        self.taken: Memory | None = None
        self.target: Memory | None = None

    @contextmanager
    def apart(self) -> Generator[None]:
        """Write a function of its own, with scratch of its own and nothing to overwrite from around it."""
        around = self.scratch_bytes, self.writable, self.taken, self.target
        self.scratch_bytes, self.writable, self.taken, self.target = 0, set[Memory](), None, None
        try:
            yield
        finally:
            self.scratch_bytes, self.writable, self.taken, self.target = around

    # ---- values ----------------------------------------------------------------------------------

    def at(self, x: Tensor, index: tuple[Index, ...] = ()) -> Element:
        """An element, computed once for an index."""
        return self.code.once((x.number, index), lambda: x.element(index))

    def stored(self, memory: Memory) -> Tensor:
        """Dense memory of a tensor."""
        code, spec = self.code, memory.spec

        def element(index: tuple[Index, ...]) -> Element:
            return code.load(memory.pointer, code.linear(index, spec.shape), spec.dtype)

        its = frozenset([memory])
        return Tensor(spec, element, its, its, memory, is_cheap=True, is_flat=True)

    def read(self, memory: Memory) -> Tensor:
        """What lies there now: a number at once, because the memory may be written later."""
        x = self.stored(memory)
        return x if x.spec.shape else self.number(x.spec, self.at(x))

    def number(self, spec: TensorSpec, value: Element) -> Tensor:
        """One value for every element."""
        return Tensor(spec, lambda _: value, is_cheap=True, is_flat=True)

    def filled(self, spec: TensorSpec, value: Any) -> Tensor:
        """A number that is known."""
        return self.number(spec, literal(value, spec.dtype))

    # ---- memory ----------------------------------------------------------------------------------

    def memory(self, spec: TensorSpec) -> Memory:
        """Memory for a value in the middle.

        Raises:
            NotCompiledError: more than scratch may hold.
        """
        size = max(1, prod(spec.shape)) * (2 if spec.dtype.is_complex else 1)
        kind = memory_type(spec.dtype)
        if size <= SMALL:
            memory = Memory(self.code.cell(kind, size), spec)
            self.writable.add(memory)
            return memory
        offset = self.scratch_bytes
        self.scratch_bytes += -(-spec.nbytes // 64) * 64
        if self.scratch_bytes > LARGEST_SCRATCH:
            raise NotCompiledError(f"values in the middle take more than {LARGEST_SCRATCH} bytes")
        name = self.code.name("at")
        self.code.areas[name] = offset
        memory = Memory(name, spec)
        self.writable.add(memory)
        return memory

    def result(self, spec: TensorSpec) -> Memory:
        """Memory for an op's elements, one after the other: their place in the end, or some in the middle."""
        target, self.target = self.target, None
        return target if target is not None and target.spec == spec else self.memory(spec)

    def outside(self, array: Any) -> Memory:
        """Memory of a constant, which the function is given."""
        name = f"%constant{len(self.constants)}"
        self.constants.append((name, array))
        return Memory(name, TensorSpec.of(array.shape, DType.of(array.dtype)))

    def taken_over(self, x: Tensor) -> Memory:
        """Memory that holds x and may be written: its own where nobody needs that any more, else a copy."""
        memory, self.taken = self.taken, None
        if memory is not None and x.memory is memory:
            return memory
        return self.copy(x)

    def write(self, x: Tensor, memory: Memory) -> None:
        """All elements into memory, from which they are not read."""
        self.write_all([(x, self.storing(memory))])

    def storing(self, memory: Memory) -> Store:
        """The writer of an element into memory."""
        code, spec = self.code, memory.spec

        def store(index: tuple[Index, ...], value: Element) -> None:
            code.store(value, memory.pointer, code.linear(index, spec.shape), spec.dtype)

        return store

    def write_all(self, writes: Sequence[tuple[Tensor, Store]], is_dense: bool = True) -> None:
        """All elements of each value, each stored by its function; those of one shape go along together.

        What several values are made of is computed once, and all elements at an index are computed before any is
        stored, so that values may be written over what they read at their own places.

        Args:
            is_dense: whether they may be stored by the numbers of their elements.
        """
        code = self.code
        together: dict[tuple[Any, ...], list[tuple[Tensor, Store]]] = {}
        for x, store in writes:
            together.setdefault(x.spec.shape, []).append((x, store))
        for shape, group in together.items():

            def one(index: tuple[Index, ...], group: Any = group) -> None:
                elements = [self.at(x, index) for x, _ in group]
                for (_, store), element in zip(group, elements, strict=True):
                    store(index, element)

            if is_dense and len(shape) > 1 and all([x.is_flat for x, _ in group]):
                code.loop(prod(shape), lambda i, one=one: one(Flat((i,))), unroll=True)
            else:
                code.loops(shape, one)

    def settled(self, x: Tensor) -> Tensor:
        """The value in memory, or a number."""
        if x.memory is not None:
            return x
        if not x.spec.shape:
            return self.number(x.spec, self.at(x))
        return self.copied(x)

    def dense(self, x: Tensor) -> Memory:
        """Memory that holds a value."""
        return x.memory or self.copy(x)

    def copied(self, x: Tensor) -> Tensor:
        """The value in memory of its own."""
        return self.stored(self.copy(x))

    def copy(self, x: Tensor) -> Memory:
        """New memory with all elements."""
        memory = self.memory(x.spec)
        self.write(x, memory)
        return memory
