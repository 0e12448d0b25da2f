"""Builder of LLVM IR as text: values, basic blocks, loops, memory accesses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from tenferro.types import DType

__all__ = [
    "HALF_DTYPES",
    "LATE_MODULE",
    "MAX_UNROLLED",
    "VECTOR_SECTION",
    "Code",
    "Element",
    "Index",
    "SharedFunction",
    "arguments",
    "llvm_type",
    "memory_type",
]

Index: TypeAlias = "int | str"
"""A constant index, or the name of an i64 value."""
Element: TypeAlias = Any
"""Name of an SSA value; a pair of names for a complex number."""
MAX_UNROLLED = 4
"""Maximum trip count of a loop, or of a loop nest, that is fully unrolled."""


class FlatIndex(tuple[Index, ...]):
    """Linear index of an element in row-major memory, in place of one index for each axis."""

    __slots__ = ()


_TYPES = {
    DType.Bool: "i1",
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.F64: "double",
    DType.C32: "float",
    DType.C64: "double",
    **dict.fromkeys((DType.I8, DType.U8), "i8"),
    **dict.fromkeys((DType.I16, DType.U16), "i16"),
    **dict.fromkeys((DType.I32, DType.U32), "i32"),
    **dict.fromkeys((DType.I64, DType.U64), "i64"),
}


HALF_DTYPES = (DType.F16, DType.BF16)
"""Floats that registers hold as rounded float32, and memory as their 16 bits."""


def llvm_type(dtype: DType) -> str:
    """Return the LLVM type of an element in a register; for complex numbers that of each part."""
    return _TYPES[dtype]


def memory_type(dtype: DType) -> str:
    """Return the LLVM type of an element in memory."""
    if dtype in HALF_DTYPES:
        return "i16"
    return "i8" if dtype is DType.Bool else llvm_type(dtype)


DEFAULT_VECTOR_LANES = 4
"""Number of float64 in the widest vectors that LLVM uses without an attribute."""
LATE_MODULE = "; second module: functions that vectorised loops call, inlined after vectorisation"
"""Line after which the second module of a text begins."""
VECTOR_SECTION = "; called by vectorised loops only"
"""Line of a module after which the functions begin that only vectorised loops call."""
CALL_WORK = 16
"""Estimated cost of a call, in instructions."""


FUNCTION_STATE = ("lines", "entry", "areas", "block", "_scopes", "work", "frequency", "while_loops", "innermost",
                  "_is_innermost", "_vector_work")  # fmt: skip
"""Attributes of `Code` that belong to the current function, and not to its module."""


@dataclass
class SharedFunction:
    """An internal function with several call sites.

    Attributes:
        pointers: parameters, before the areas of scratch memory.
        areas: byte offsets of its scratch areas, by name.
        work, innermost, while_loops: cost of a call, as in `Code`.
    """

    name: str
    pointers: tuple[str, ...] = ()
    areas: Mapping[str, int] = field(default_factory=dict)
    work: int = 0
    innermost: Mapping[str, int] = field(default_factory=dict)
    while_loops: int = 0


class Code:
    """Builder of one function and its module.

    Index arithmetic is shared within a block and the blocks nested in it.

    Attributes:
        functions: definitions of callees, by name.
        vector_functions: definitions and declarations that vectorised loops call.
        late_functions: scalar functions that are inlined after vectorisation.
        late_vector_functions: vector functions that are inlined after vectorisation, with their declarations.
        work: estimated number of executed instructions, with one iteration of each while loop.
        innermost: `work` of each innermost loop, by the label of its block.
        while_loops: number of while loops.
        areas: byte offset in scratch memory of each intermediate value. Each one is a `noalias` argument of the function.
        shared_lines: number of lines of shared functions.
        largest_call: estimated instructions of the largest call of BLAS or LAPACK.
        frequency: executions of the current block in one call of the function.

    Args:
        contracts: whether the processor has fused multiply-adds.
        lanes: numbers of float64 in vectors, for each width that a function may prefer.
        converts_halves: whether the processor converts float16.
    """

    def __init__(
        self, contracts: bool = False, lanes: Sequence[int] = (), converts_halves: bool = False
    ) -> None:
        self.contracts, self.lanes = contracts, tuple(lanes)
        self.converts_halves = converts_halves
        self._retained: list[str] = []
        self.functions: dict[str, str] = {}
        self.vector_functions: dict[str, str] = {}
        self.late_functions: dict[str, str] = {}
        self.late_vector_functions: dict[str, str] = {}
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self._constants: dict[tuple[str, str], str] = {}
        self._count = self.largest_call = self.shared_lines = 0
        self._begin_function()

    def _begin_function(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.areas: dict[str, int] = {}
        self.block = "entry"
        self._scopes: list[dict[Any, Any]] = [{}]
        self.work, self.frequency, self.while_loops = 0, 1, 0
        self.innermost: dict[str, int] = {}
        self._is_innermost = True
        self._vector_work = dict.fromkeys(self.lanes, 0.0)

    def text(
        self,
        name: str,
        pointers: Sequence[str],
        numbers: Sequence[str] = (),
        is_internal: bool = False,
    ) -> str:
        """Return the module, which defines a function of `noalias` pointers and of integers.

        Args:
            is_internal: whether only functions of the same text call it.
        """
        return "\n".join([
            *self.globals,
            *self.declared.values(),
            *self.functions.values(),
            self._definition(name, pointers, numbers, is_internal),
            "",
        ])  # fmt: skip

    def _definition(
        self, name: str, pointers: Sequence[str], numbers: Sequence[str], is_internal: bool
    ) -> str:
        linkage, inlining = ("internal ", " noinline") if is_internal else ("", "")
        head = ", ".join([
            *[f"ptr noalias {pointer}" for pointer in (*pointers, *self.areas)],
            *[f"i64 {number}" for number in numbers],
        ])  # fmt: skip
        return "\n".join([
            f"define {linkage}i64 @{name}({head}){inlining} nounwind{self._width()} {{",
            "entry:",
            *self.entry,
            *self.lines,
            "}",
        ])  # fmt: skip

    @contextmanager
    def shared_function(self, name: str) -> Generator[SharedFunction]:
        """Write an internal function inside the context; the current function may call it several times."""
        saved = {attribute: getattr(self, attribute) for attribute in FUNCTION_STATE}
        self._begin_function()
        function = SharedFunction(name)
        try:
            yield function
            self.line("ret i64 0")
            function.areas, function.work = self.areas, self.work
            function.innermost, function.while_loops = self.innermost, self.while_loops
            self.functions[name] = self._definition(name, function.pointers, (), is_internal=True)
            self.shared_lines += len(self.lines)
        finally:
            for attribute, value in saved.items():
                setattr(self, attribute, value)

    def call_shared(self, function: SharedFunction, pointers: Sequence[str], scratch: str) -> str:
        """Call a shared function and return its status.

        Args:
            scratch: pointer to the memory of its areas.
        """
        areas = [
            self.value(f"getelementptr i8, ptr {scratch}, i64 {offset}")
            for offset in function.areas.values()
        ]
        self.mark_call()
        self.while_loops += function.while_loops
        for label, work in function.innermost.items():
            self.innermost[label] = self.innermost.get(label, 0) + self.frequency * work
        return self.value(
            f"call i64 @{function.name}({arguments((*pointers, *areas), ())})",
            function.work + CALL_WORK,
        )

    def call_text(self, name: str, pointers: Sequence[str], numbers: Sequence[str]) -> str:
        """Return the text of a call from a function without areas, after the addresses of the areas."""
        begins = [
            f"  {area} = getelementptr i8, ptr %scratch, i64 {offset}\n"
            for area, offset in self.areas.items()
        ]
        return f"{''.join(begins)}  %status = call i64 @{name}({arguments((*pointers, *self.areas), numbers)})"

    def vector_section(self) -> str:
        """Return the end of the text: functions that vectorised loops call, and the second module."""
        if not self.vector_functions:
            return ""
        functions = [
            text for name, text in self.vector_functions.items() if name not in self.declared
        ]
        used = ", ".join([f"ptr @{name}" for name in self._retained])
        type_, section = f"[{len(self._retained)} x ptr]", 'section "llvm.metadata"'
        lines = [
            VECTOR_SECTION,
            *functions,
            f"@llvm.compiler.used = appending global {type_} [{used}], {section}",
        ]
        if self.late_functions:
            lines += [
                LATE_MODULE,
                *self.late_functions.values(),
                VECTOR_SECTION,
                *self.late_vector_functions.values(),
            ]
        return "\n".join([*lines, ""])

    def _width(self) -> str:
        """Return the attribute of the vector width with the least work, if the processor has more than the default."""
        if max(self.lanes, default=0) <= DEFAULT_VECTOR_LANES:
            return ""
        # Ties go to the first, widest one.
        lanes = min(self._vector_work, key=self._vector_work.__getitem__)
        return f' "prefer-vector-width"="{64 * lanes}"'

    # ---- statements ------------------------------------------------------------------------------

    def name(self, prefix: str = "v") -> str:
        """Return a new name of a value."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def value(self, text: str, work: int | None = None) -> str:
        """Write an instruction and return the name of its result."""
        name = self.name()
        self.line(f"{name} = {text}", work)
        return name

    def line(self, text: str, work: int | None = None) -> None:
        """Write an instruction without a result.

        Args:
            work: its cost in instructions; by default 1, or `CALL_WORK` for a call.
        """
        self.lines.append(f"  {text}")
        if work is None:
            work = CALL_WORK if "call " in text else 1
        self.work += self.frequency * work

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name[1:]}:")
        self.block = name[1:]

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the value of a key in this scope or an enclosing one, computed at its first use."""
        for values in reversed(self._scopes):
            if key in values:
                return values[key]
        value = compute()
        self._scopes[-1][key] = value
        return value

    @contextmanager
    def scope(self) -> Generator[None]:
        """Limit values that are computed inside to the context."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def invalidate(self) -> None:
        """Drop cached values, because memory that they were read from may have changed."""
        for values in self._scopes:
            values.clear()

    def alloca(self, kind: str, count: int = 1) -> str:
        """Allocate memory on the stack and return its pointer."""
        name = self.name("cell")
        self.entry.append(f"  {name} = alloca {kind}, i64 {count}, align 64")
        return name

    def constant(self, kind: str, value: str) -> str:
        """Return the pointer to a private constant."""
        if (kind, value) not in self._constants:
            name = self._constants[kind, value] = f"@number{len(self._constants)}"
            self.globals.append(f"{name} = private constant {kind} {value}")
        return self._constants[kind, value]

    def retain(self, functions: Sequence[str]) -> None:
        """Retain functions in the module that nothing calls before loops are vectorised."""
        self._retained += functions

    def call(self, function: str, kind: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Declare and call a function with (type, value) pairs, and return its result."""
        types = ", ".join([type_ for type_, _ in arguments])
        self.declared[function] = f"declare {kind} @{function}({types})"
        operands = ", ".join([f"{type_} {value}" for type_, value in arguments])
        return self.value(f"call {kind} @{function}({operands})")

    # ---- control flow ----------------------------------------------------------------------------

    @contextmanager
    def times(self, count: int) -> Generator[None]:
        """Multiply the frequency of instructions that are written inside."""
        outside, self.frequency = self.frequency, self.frequency * count
        yield
        self.frequency = outside

    def loop(
        self,
        count: Index,
        body: Callable[[Index], None],
        unroll: bool = False,
        interleave: int = 1,
    ) -> None:
        """Write a loop over 0, 1, .. count - 1.

        Args:
            unroll: fully unroll the loop up to `MAX_UNROLLED` iterations.
            interleave: LLVM's interleave count, the number of independent accumulators of a reduction.
        """
        if isinstance(count, int) and (count <= 1 or (unroll and count <= MAX_UNROLLED)):
            for i in range(count):
                body(i)
            return
        inside, end, i, more = (self.name(each) for each in ("body", "end", "i", "more"))
        before = self.block
        if isinstance(count, int):
            iterations = count
            self.line(f"br label {inside}")
        else:
            iterations = 1
            some = self.value(f"icmp sgt i64 {count}, 0")
            self.line(f"br i1 {some}, label {inside}, label {end}")
        self.label(inside)
        number = len(self.lines)
        self.lines.append("")  # for the phi node, which names the latch
        work, self._is_innermost = self.work, True
        with self.scope(), self.times(iterations):
            body(i)
        if self._is_innermost:
            self._count_vector_work(count, self.work - work)
            self.innermost[inside[1:]] = self.work - work
        self._is_innermost = False
        following = self.value(f"add nsw i64 {i}, 1")
        latch = self.block
        self.lines.append(f"  {more} = icmp slt i64 {following}, {count}")
        self.line(
            f"br i1 {more}, label {inside}, label {end}{self._interleave_metadata(interleave)}"
        )
        self.lines[number] = f"  {i} = phi i64 [0, %{before}], [{following}, %{latch}]"
        self.label(end)

    def _interleave_metadata(self, count: int) -> str:
        if count == 1:
            return ""
        number = 2 * len(self.globals)
        loop, hint = f"!{number}", f"!{number + 1}"
        self.globals += [
            f"{loop} = distinct !{{{loop}, {hint}}}",
            f'{hint} = !{{!"llvm.loop.interleave.count", i32 {count}}}',
        ]
        return f", !llvm.loop {loop}"

    def _count_vector_work(self, count: Index, work: int) -> None:
        """Add the work of a vectorised loop and its scalar remainder, for each vector width."""
        for lanes in self._vector_work:
            vectors, rest = divmod(count, lanes) if isinstance(count, int) else (1, 0)
            iterations = count if isinstance(count, int) else lanes
            self._vector_work[lanes] += work * (vectors + rest) / iterations

    def mark_call(self) -> None:
        """Mark the enclosing loop as one with a call, which LLVM does not vectorise."""
        self._is_innermost = False

    def loops(self, shape: Sequence[int], body: Callable[[tuple[Index, ...]], None]) -> None:
        """Write a row-major loop nest over all indices of a shape."""
        unroll = prod(shape) <= MAX_UNROLLED

        def nested(axis: int, index: tuple[Index, ...]) -> None:
            if axis == len(shape):
                body(index)
            else:
                self.loop(shape[axis], lambda i: nested(axis + 1, (*index, i)), unroll)

        nested(0, ())

    def branch(
        self, condition: str, on_true: Callable[[], None], on_false: Callable[[], None]
    ) -> None:
        """Write a branch with two sides."""
        yes, no, end = (self.name(each) for each in ("yes", "no", "end"))
        self.line(f"br i1 {condition}, label {yes}, label {no}")
        for name, body in ((yes, on_true), (no, on_false)):
            self.label(name)
            with self.scope():
                body()
            self.line(f"br label {end}")
        self.label(end)

    def return_if(self, condition: str, result: int) -> None:
        """Return a constant from the function if a condition holds."""
        leave, stay = self.name("leave"), self.name("stay")
        self.line(f"br i1 {condition}, label {leave}, label {stay}")
        self.label(leave)
        self.line(f"ret i64 {result}")
        self.label(stay)

    # ---- index arithmetic ------------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        """Return a sum of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.once(("add", a, b), lambda: self.value(f"add nsw i64 {a}, {b}"))

    def scaled(self, a: Index, factor: int) -> Index:
        """Return a multiple of an index."""
        if isinstance(a, int):
            return a * factor
        if factor == 1:
            return a
        if factor == 0:
            return 0
        return self.once(("mul", a, factor), lambda: self.value(f"mul nsw i64 {a}, {factor}"))

    def divmod(self, a: Index, by: int) -> tuple[Index, Index]:
        """Return quotient and remainder of a non-negative index."""
        if isinstance(a, int):
            return divmod(a, by)
        if by == 1:
            return a, 0
        quotient = self.once(("div", a, by), lambda: self.value(f"udiv i64 {a}, {by}"))
        rest = self.once(("rem", a, by), lambda: self.value(f"urem i64 {a}, {by}"))
        return quotient, rest

    def unravel_index(self, number: Index, shape: Sequence[int]) -> tuple[Index, ...]:
        """Return the row-major index of an element by its linear index."""
        index: list[Index] = []
        for n in reversed(shape[1:]):
            number, i = self.divmod(number, n)
            index.append(i)
        return (*([number] if shape else []), *reversed(index))

    def ravel_index(self, index: Sequence[Index], shape: Sequence[int]) -> Index:
        """Return the row-major linear index of an element."""
        if isinstance(index, FlatIndex):
            return index[0]
        offset: Index = 0
        for i, n in zip(index, shape, strict=True):
            offset = self.add(self.scaled(offset, n), 0 if n == 1 else i)
        return offset

    # ---- memory ------------------------------------------------------------------------------------

    def load(self, pointer: str, offset: Index, dtype: DType) -> Element:
        """Load an element of contiguous memory."""
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            return tuple(self._load(pointer, self.add(twice, part), dtype) for part in (0, 1))
        value = self._load(pointer, offset, dtype)
        if dtype in HALF_DTYPES:
            return self._widened(value, dtype)
        return self.value(f"trunc i8 {value} to i1") if dtype is DType.Bool else value

    def _load(self, pointer: str, offset: Index, dtype: DType) -> str:
        return self.value(f"load {memory_type(dtype)}, ptr {self.address(pointer, offset, dtype)}")

    def address(self, pointer: str, offset: Index, dtype: DType) -> str:
        """Return the address of a real number in contiguous memory; complex numbers are pairs."""
        if offset == 0:
            return pointer
        return self.value(
            f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {offset}"
        )

    def store(self, value: Element, pointer: str, offset: Index, dtype: DType) -> None:
        """Store an element into contiguous memory."""
        kind = memory_type(dtype)
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            for part in (0, 1):
                address = self.address(pointer, self.add(twice, part), dtype)
                self.line(f"store {kind} {value[part]}, ptr {address}")
            return
        if dtype is DType.Bool:
            value = self.value(f"zext i1 {value} to i8")
        if dtype in HALF_DTYPES:
            value = self._narrowed(value, dtype)
        self.line(f"store {kind} {value}, ptr {self.address(pointer, offset, dtype)}")

    # ---- float16 and bfloat16 ----------------------------------------------------------------------

    def rounded(self, value: str, dtype: DType) -> str:
        """Return a float32 rounded to float16 or bfloat16; for other dtypes the value itself."""
        return self._widened(self._narrowed(value, dtype), dtype) if dtype in HALF_DTYPES else value

    def bits(self, value: str, dtype: DType) -> str:
        """Return the bits of a real number, as an integer of its width."""
        if not dtype.is_inexact:
            return value
        return self.value(f"bitcast {llvm_type(dtype)} {value} to i{8 * dtype.itemsize}")

    def from_bits(self, bits: str, dtype: DType) -> str:
        """Return the real number with these bits."""
        if not dtype.is_inexact:
            return bits
        return self.value(f"bitcast i{8 * dtype.itemsize} {bits} to {llvm_type(dtype)}")

    def _widened(self, bits: str, dtype: DType) -> str:
        """Return the float32 of the bits of a float16 or bfloat16."""
        if dtype is DType.F16:
            return self._from_half_bits(bits)
        wide = self.value(f"zext i16 {bits} to i32")
        return self.value(f"bitcast i32 {self.value(f'shl i32 {wide}, 16')} to float")

    def _narrowed(self, value: str, dtype: DType) -> str:
        """Return the bits of a rounded float32. LLVM's bfloat16 flushes subnormal numbers on some processors."""
        if dtype is DType.F16:
            return self._half_bits(value)
        bits = self.value(f"bitcast float {value} to i32")
        last = self.value(f"and i32 {self.value(f'lshr i32 {bits}, 16')}, 1")
        carried = self.value(f"add i32 {self.value(f'add i32 {bits}, 32767')}, {last}")
        is_nan = self.value(f"fcmp uno float {value}, {value}")
        sign = self.value(f"and i32 {bits}, {-0x80000000}")
        nan = self.value(f"or i32 {sign}, {0x7FC00000}")
        chosen = self.value(f"select i1 {is_nan}, i32 {nan}, i32 {carried}")
        return self.value(f"trunc i32 {self.value(f'lshr i32 {chosen}, 16')} to i16")

    def _from_half_bits(self, bits: str) -> str:
        """Return the float32 of a float16's bits, by integer instructions where the processor has no conversion."""
        value = self.value
        if self.converts_halves:
            return value(f"fpext half {value(f'bitcast i16 {bits} to half')} to float")
        # The exponent biases of float32 and float16 differ by 112; the product makes subnormal numbers normal.
        wide = value(f"zext i16 {bits} to i32")
        magnitude = value(f"and i32 {wide}, {0x7FFF}")
        small = value(f"bitcast i32 {value(f'shl i32 {magnitude}, 13')} to float")
        scaled = value(f"fmul float {small}, {literal(2.0**112, DType.F32)}")
        is_finite = value(f"icmp ult i32 {magnitude}, {0x7C00}")
        exponent = value(f"select i1 {is_finite}, i32 0, i32 {0x7F800000}")
        sign = value(f"shl i32 {value(f'and i32 {wide}, {0x8000}')}, 16")
        scaled = value(f"or i32 {value(f'bitcast float {scaled} to i32')}, {exponent}")
        return value(f"bitcast i32 {value(f'or i32 {scaled}, {sign}')} to float")

    def _half_bits(self, number: str) -> str:
        """Return the bits of a float32 rounded to float16, by integer instructions where the processor has no conversion."""
        value = self.value
        if self.converts_halves:
            return value(f"bitcast half {value(f'fptrunc float {number} to half')} to i16")
        bits = value(f"bitcast float {number} to i32")
        sign = value(f"and i32 {bits}, {-0x80000000}")
        magnitude = value(f"xor i32 {bits}, {sign}")
        # In [0.5, 1), a unit in the last place of float32 is one of a subnormal float16: the addition rounds to it.
        beside = value(f"fadd float {value(f'bitcast i32 {magnitude} to float')}, 0.5")
        small = value(f"sub i32 {value(f'bitcast float {beside} to i32')}, {0x3F000000}")
        # Normal numbers: change the exponent bias, add half a unit and round ties to even.
        last = value(f"and i32 {value(f'lshr i32 {magnitude}, 13')}, 1")
        moved = value(f"sub i32 {magnitude}, {(112 << 23) - 0xFFF}")
        rounded = value(f"lshr i32 {value(f'add i32 {moved}, {last}')}, 13")
        is_small = value(f"icmp ult i32 {magnitude}, {113 << 23}")
        chosen = value(f"select i1 {is_small}, i32 {small}, i32 {rounded}")
        is_large = value(f"icmp uge i32 {magnitude}, {143 << 23}")
        chosen = value(f"select i1 {is_large}, i32 {0x7C00}, i32 {chosen}")
        is_nan = value(f"fcmp uno float {number}, {number}")
        chosen = value(f"select i1 {is_nan}, i32 {0x7E00}, i32 {chosen}")
        chosen = value(f"or i32 {chosen}, {value(f'lshr i32 {sign}, 16')}")
        return value(f"trunc i32 {chosen} to i16")


def arguments(pointers: Sequence[str], numbers: Sequence[str]) -> str:
    """Return the argument list of a call with pointers and integers."""
    return ", ".join([
        *[f"ptr {name}" for name in pointers],
        *[f"i64 {name}" for name in numbers],
    ])  # fmt: skip


def literal(value: Any, dtype: DType) -> Element:
    """Return a constant as LLVM text."""
    if dtype.is_complex:
        part = dtype.real
        return literal(value.real, part), literal(value.imag, part)
    if dtype is DType.Bool:
        return "true" if value else "false"
    if not dtype.is_inexact:
        return str(int(value))
    # LLVM writes floats of either width as the bits of a double.
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
