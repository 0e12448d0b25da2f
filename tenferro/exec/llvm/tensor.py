"""Values of programs during compilation.

For a lazy value, the code of an element is written where the element is read. A materialised value is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.code import HALF_DTYPES, Code, Element, Index, literal, memory_type
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = [
    "MAX_ALLOCA_ELEMENTS",
    "Body",
    "Memory",
    "Specs",
    "Store",
    "Tensor",
    "Tensors",
    "Writer",
    "elementwise_tensor",
    "in_float32",
    "inverse_permute",
    "transposed",
    "transposed_spec",
]

MAX_ALLOCA_ELEMENTS = 32
"""Maximum number of real numbers in a value on the stack, which LLVM moves to registers."""
MAX_SCRATCH_BYTES = 1 << 26
"""Maximum size of a function's scratch memory, in bytes."""
_NUMBERS = count()
Tensors: TypeAlias = "Sequence[Tensor]"
Specs: TypeAlias = Sequence[TensorSpec]
Writer: TypeAlias = "Callable[[Body, Any, Tensors, Specs], Tensors]"
"""Function `write(body, op, operands, types)` that writes an op, and returns its results."""
Store: TypeAlias = Callable[[tuple[Index, ...], Element], None]
"""Function `store(index, value)` that writes a store of an element at an index."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory of a value.

    Attributes:
        strides: strides in elements; None for row-major memory.
        offset: position of the first element, if there are strides.
    """

    pointer: str
    spec: TensorSpec
    strides: Sequence[int] | None = None
    offset: Index = 0


@dataclass(frozen=True, eq=False)
class Tensor:
    """Value of a program during compilation.

    Attributes:
        element: writes the code of the element at an index, and returns the element.
        reads: the memory from which elements are read.
        aligned: the part of `reads` that each element reads only at its own index, so the value may overwrite it.
        memory: the memory of a materialised value; None for a lazy value.
        is_cheap: whether an element costs no more than a load.
        number: a number that no other value has.
    """

    spec: TensorSpec
    element: Callable[[tuple[Index, ...]], Element]
    reads: frozenset[Memory] = frozenset()
    aligned: frozenset[Memory] = frozenset()
    memory: Memory | None = None
    is_cheap: bool = False
    number: int = field(default_factory=lambda: next(_NUMBERS))


def elementwise_tensor(
    spec: TensorSpec, element: Callable[[tuple[Index, ...]], Element], operands: Tensors
) -> Tensor:
    """Return a lazy value; each element depends only on the operands' elements at the same index."""
    reads = frozenset[Memory]().union(*[x.reads for x in operands])
    unaligned = frozenset[Memory]().union(*[x.reads - x.aligned for x in operands])
    return Tensor(spec, element, reads, reads - unaligned)


def inverse_permute(axes: Iterable[int], indices: Iterable[Index]) -> tuple[Index, ...]:
    """Return the index of the operand of a transposition, from the index of its result.

    >>> inverse_permute((2, 0, 1), (5, 6, 7))
    (6, 7, 5)
    """
    index = dict(zip(axes, indices, strict=True))
    return tuple([index[axis] for axis in range(len(index))])


def transposed_spec(spec: TensorSpec, order: Sequence[int]) -> TensorSpec:
    """Return the type of the transposed value."""
    return TensorSpec.of(tuple([spec.shape[axis] for axis in order]), spec.dtype)


def transposed(body: Body, x: Tensor, order: Sequence[int]) -> Tensor:
    """Return the transposed value."""
    return Tensor(
        transposed_spec(x.spec, order),
        lambda index: body.at(x, inverse_permute(order, index)),
        x.reads,
    )


def in_float32(write: Writer) -> Writer:
    """Return a writer that computes float16 and bfloat16 in float32, and rounds only the results."""

    def widened(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        if not any([spec.dtype in HALF_DTYPES for spec in [*types, *[x.spec for x in operands]]]):
            return write(body, op, operands, types)
        # Elements need no conversion, because they are float32 in registers.
        wide = [Tensor(_as_float32(x.spec), x.element, x.reads, x.aligned) for x in operands]
        results = write(body, op, wide, [_as_float32(spec) for spec in types])
        return [_rounded(body, x, spec) for x, spec in zip(results, types, strict=True)]

    return widened


def _as_float32(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.shape, DType.F32) if spec.dtype in HALF_DTYPES else spec


def _rounded(body: Body, x: Tensor, spec: TensorSpec) -> Tensor:
    def element(index: tuple[Index, ...]) -> Element:
        return body.code.rounded(body.at(x, index), spec.dtype)

    return Tensor(spec, element, x.reads, x.aligned)


class Body:
    """Builder of a function's code, and allocator of the memory of intermediate values.

    Attributes:
        scratch_bytes: the size of the scratch memory in bytes.
        constants: the names and arrays of the large constants, which are arguments of the function.
        writable: the memory that the code may update in place.
        reusable: the memory of the current op's first operand if the op may update it in place, else None.
        target: the memory to which the current op may write its result, or None.

    Args:
        kernels: the executor's kernels, which have the lowerings of extensions; None if extensions are not compiled.
    """

    def __init__(self, code: Code, kernels: Binder | None = None) -> None:
        self.code, self.kernels = code, kernels
        self.scratch_bytes = 0
        self.constants: list[tuple[str, Any]] = []
        self.writable: set[Memory] = set()
        self.reusable: Memory | None = None
        self.target: Memory | None = None

    # ---- values ----------------------------------------------------------------------------------

    def at(self, x: Tensor, index: tuple[Index, ...] = ()) -> Element:
        """Return the element of a value at an index; its code is written once per scope."""
        return self.code.once((x.number, index), lambda: x.element(index))

    def stored(self, memory: Memory) -> Tensor:
        """Return the value in memory."""
        spec, reads = memory.spec, frozenset([memory])

        def element(index: tuple[Index, ...]) -> Element:
            return self.code.load(memory.pointer, self.offset(memory, index), spec.dtype)

        contiguous = memory if memory.strides is None else None
        return Tensor(spec, element, reads, reads, contiguous, is_cheap=True)

    def offset(self, memory: Memory, index: Sequence[Index]) -> Index:
        """Return the position in memory of an element, or of the first element with these leading indices."""
        if memory.strides is None:
            return self.code.ravel_index(index, memory.spec.shape)
        offset = memory.offset
        for i, stride in zip(index, memory.strides, strict=False):
            offset = self.code.add(offset, self.code.scaled(i, stride))
        return offset

    def read(self, memory: Memory) -> Tensor:
        """Return the value in memory; load a scalar now, because the memory may be overwritten later."""
        x = self.stored(memory)
        return x if x.spec.shape else self.number(x.spec, self.at(x))

    def number(self, spec: TensorSpec, value: Element) -> Tensor:
        """Return a value whose elements are all `value`."""
        return Tensor(spec, lambda _: value, is_cheap=True)

    def filled(self, spec: TensorSpec, value: Any) -> Tensor:
        """Return a value whose elements are all a constant."""
        return self.number(spec, literal(value, spec.dtype))

    # ---- memory ----------------------------------------------------------------------------------

    def memory(self, spec: TensorSpec) -> Memory:
        """Allocate memory for an intermediate value: on the stack if it is small, else in scratch memory.

        Raises:
            NotCompiledError: the scratch memory exceeds `MAX_SCRATCH_BYTES`.
        """
        size = max(1, prod(spec.shape)) * (2 if spec.dtype.is_complex else 1)
        kind = memory_type(spec.dtype)
        if size <= MAX_ALLOCA_ELEMENTS:
            pointer = self.code.alloca(kind, size)
        else:
            pointer = self.code.name("at", "ptr")
            self.code.areas[pointer] = self.scratch_bytes
            self.scratch_bytes += -(-spec.nbytes // 64) * 64
            if self.scratch_bytes > MAX_SCRATCH_BYTES:
                raise NotCompiledError(
                    f"intermediate values take more than {MAX_SCRATCH_BYTES} bytes"
                )
        memory = Memory(pointer, spec)
        self.writable.add(memory)
        return memory

    def result(self, spec: TensorSpec) -> Memory:
        """Return memory for an op's result: `target` if it has the result's type, else new memory."""
        target, self.target = self.target, None
        return target if target is not None and target.spec == spec else self.memory(spec)

    def constant_memory(self, array: Any) -> Memory:
        """Return the memory of a large constant, which becomes an argument of the function."""
        name = f"%constant{len(self.constants)}"
        self.constants.append((name, array))
        return Memory(name, TensorSpec.of(array.shape, DType.of(array.dtype)))

    def reuse_or_copy(self, x: Tensor) -> Memory:
        """Return memory that contains a value and may be updated: `reusable`, or a copy."""
        memory, self.reusable = self.reusable, None
        if memory is not None and x.memory is memory:
            return memory
        return self.copy(x)

    def write(self, x: Tensor, memory: Memory) -> None:
        """Write a loop that stores all elements of x to memory that x does not read."""
        self.write_all([(x, self.storing(memory))])

    def storing(self, memory: Memory) -> Store:
        """Return a function that writes a store of an element to memory."""

        def store(index: tuple[Index, ...], value: Element) -> None:
            self.code.store(value, memory.pointer, self.offset(memory, index), memory.spec.dtype)

        return store

    def write_all(self, writes: Sequence[tuple[Tensor, Store]]) -> None:
        """Write loops that store all elements of several values; values of one shape share a loop.

        All elements at an index are computed before any is stored. Therefore values may overwrite `aligned` memory.
        """
        groups: dict[tuple[Any, ...], list[tuple[Tensor, Store]]] = {}
        for x, store in writes:
            groups.setdefault(x.spec.shape, []).append((x, store))
        for shape, group in groups.items():

            def write(index: tuple[Index, ...], group: Any = group) -> None:
                elements = [self.at(x, index) for x, _ in group]
                for (_, store), element in zip(group, elements, strict=True):
                    store(index, element)

            self.code.loops(shape, write)

    def materialised(self, x: Tensor) -> Tensor:
        """Return the value in memory, or a scalar in a register."""
        if x.memory is not None:
            return x
        if not x.spec.shape:
            return self.number(x.spec, self.at(x))
        return self.copied(x)

    def dense(self, x: Tensor) -> Memory:
        """Return memory that contains the value, which is copied if it is lazy."""
        return x.memory or self.copy(x)

    def copied(self, x: Tensor) -> Tensor:
        """Write a copy of the value to new memory, and return the copy."""
        return self.stored(self.copy(x))

    def copy(self, x: Tensor) -> Memory:
        """Write a copy of the value to new memory, and return the memory."""
        memory = self.memory(x.spec)
        self.write(x, memory)
        return memory
