"""LLVM's text, written statement by statement: values, blocks, loops that are unrolled where they are short."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from tenferro.types import DType

__all__ = [
    "ALONG_LANES",
    "LATE",
    "LOW",
    "UNROLLED",
    "Code",
    "Element",
    "Index",
    "Part",
    "arguments",
    "is_float",
    "llvm_type",
    "memory_type",
]

Index: TypeAlias = "int | str"
"""A number that is known, or the name of an i64."""
Element: TypeAlias = Any
"""The name of a value; a pair of names for a complex number."""
UNROLLED = 4
"""Turns of a loop, or of loops in each other, that are written out."""


class Flat(tuple[Index, ...]):
    """The number of an element in memory, in place of its index."""

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


LOW = (DType.F16, DType.BF16)
"""Floats that registers hold as float32, rounded; memory has their bits."""


def llvm_type(dtype: DType) -> str:
    """The type of an element in a register; of a complex number's parts."""
    return _TYPES[dtype]


def memory_type(dtype: DType) -> str:
    """The type of an element in memory."""
    if dtype in LOW:
        return "i16"
    return "i8" if dtype is DType.Bool else llvm_type(dtype)


def is_float(dtype: DType) -> bool:
    """Whether registers hold floats."""
    return dtype.is_inexact


UNASKED = 4
"""Float64 of the vectors that LLVM takes unasked for any processor."""
LATE = "; functions that loops call along lanes, and that are written in their places once loops go along lanes"
"""The line of a text after which a second module begins."""
ALONG_LANES = "; what only loops along lanes call"
"""The line of a module after which comes what nothing needs before passes vectorise its loops."""
CALL_WORK = 16
"""Instructions that a call counts as, of a function that is not in the text."""


OF_FUNCTION = ("lines", "entry", "areas", "block", "_known", "work", "often", "while_loops", "innermost",
               "_is_innermost", "_vectors")  # fmt: skip
"""Attributes of `Code` that belong to one function, and not to the module around it."""


@dataclass
class Part:
    """A function that is called in several places.

    Attributes:
        pointers: its parameters, before its areas of scratch.
        areas: their offsets, by name.
        work, innermost, while_loops: of a call, as `Code` has them.
    """

    name: str
    pointers: tuple[str, ...] = ()
    areas: Mapping[str, int] = field(default_factory=dict)
    work: int = 0
    innermost: Mapping[str, int] = field(default_factory=dict)
    while_loops: int = 0


class Code:
    """A function as it is written.

    What has been computed for an index is found again within the block it was computed in, and those inside.

    Attributes:
        functions: that it calls, and declared others, by name.
        along_lanes: functions and declarations that it calls once its loops go along lanes.
        late: functions that are written in the places of their calls after that, on one number.
        late_lanes: and on lanes, with their declarations.
        work: instructions that run in all, by estimate; of a while loop those of one turn.
        innermost: the work of each loop without another one inside, by the label of its block.
        while_loops: how many there are.
        areas: scratch of values in the middle, as offsets of arguments of the function: LLVM knows then that they lie
            apart.
        lines_of_parts: how many lines the functions have that are called in several places.
        largest_call: instructions of the largest call of BLAS or LAPACK, by estimate.
        often: how often the one that is written next runs.

    Args:
        contracts: whether the processor multiplies and adds in one instruction.
        lanes: how many float64 its vectors hold, of each size that loops may choose.
        converts_halves: whether it converts float16.
    """

    def __init__(
        self, contracts: bool = False, lanes: Sequence[int] = (), converts_halves: bool = False
    ) -> None:
        self.contracts, self.lanes = contracts, tuple(lanes)
        self.converts_halves = converts_halves
        self._not_called: list[str] = []
        self.functions: dict[str, str] = {}
        self.along_lanes: dict[str, str] = {}
        self.late: dict[str, str] = {}
        self.late_lanes: dict[str, str] = {}
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.areas: dict[str, int] = {}
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self._constants: dict[tuple[str, str], str] = {}
        self.block = "entry"
        self._count = 0
        self._known: list[dict[Any, Any]] = [{}]
        self.work, self.often = 0, 1
        self.innermost: dict[str, int] = {}
        self.while_loops = self.largest_call = self.lines_of_parts = 0
        self._is_innermost = True
        self._vectors = dict.fromkeys(self.lanes, 0.0)

    def text(
        self,
        name: str,
        pointers: Sequence[str],
        numbers: Sequence[str] = (),
        is_internal: bool = False,
    ) -> str:
        """The module: a function of pointers that lie apart from each other, and of numbers.

        Args:
            is_internal: another function of the text calls it, and nothing else does.
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
    def part(self, name: str) -> Generator[Part]:
        """Write a function of its own, which this one may call in several places; it has no values in common with it."""
        around = {each: getattr(self, each) for each in OF_FUNCTION}
        self.lines, self.entry, self.areas = [], [], {}
        self.block, self._known = "entry", [{}]
        self.work, self.often, self.while_loops = 0, 1, 0
        self.innermost, self._is_innermost = {}, True
        self._vectors = dict.fromkeys(self.lanes, 0.0)
        part = Part(name)
        try:
            yield part
            self.line("ret i64 0")
            part.areas, part.work, part.innermost = self.areas, self.work, self.innermost
            part.while_loops = self.while_loops
            self.functions[name] = self._definition(name, part.pointers, (), is_internal=True)
            self.lines_of_parts += len(self.lines)
        finally:
            for each, value in around.items():
                setattr(self, each, value)

    def call_part(self, part: Part, pointers: Sequence[str], scratch: str) -> str:
        """The number that a part gives.

        Args:
            pointers: in the place of the part's.
            scratch: where its areas lie.
        """
        areas = [
            self.value(f"getelementptr i8, ptr {scratch}, i64 {offset}")
            for offset in part.areas.values()
        ]
        self.calls_out()
        self.while_loops += part.while_loops
        for label, work in part.innermost.items():
            self.innermost[label] = self.innermost.get(label, 0) + self.often * work
        return self.value(
            f"call i64 @{part.name}({arguments((*pointers, *areas), ())})", part.work + CALL_WORK
        )

    def call_of(self, name: str, pointers: Sequence[str], numbers: Sequence[str]) -> str:
        """The call of the function from one of these pointers and numbers alone, after where its areas begin."""
        begins = [
            f"  {area} = getelementptr i8, ptr %scratch, i64 {offset}\n"
            for area, offset in self.areas.items()
        ]
        return f"{''.join(begins)}  %status = call i64 @{name}({arguments((*pointers, *self.areas), numbers)})"

    def lanes_text(self) -> str:
        """The end of the text for loops along lanes with calls: the functions, and the second module."""
        if not self.along_lanes:
            return ""
        functions = [text for name, text in self.along_lanes.items() if name not in self.declared]
        used = ", ".join([f"ptr @{name}" for name in self._not_called])
        type_, section = f"[{len(self._not_called)} x ptr]", 'section "llvm.metadata"'
        lines = [
            ALONG_LANES,
            *functions,
            f"@llvm.compiler.used = appending global {type_} [{used}], {section}",
        ]
        if self.late:
            lines += [LATE, *self.late.values(), ALONG_LANES, *self.late_lanes.values()]
        return "\n".join([*lines, ""])

    def _width(self) -> str:
        """The attribute that says how wide vectors are, where the processor's are wider than LLVM takes them unasked:
        whole or halves, whichever leave less to be done one by one.
        """
        if max(self.lanes, default=0) <= UNASKED:
            return ""
        # The first of those that are equal is the widest.
        lanes = min(self._vectors, key=lambda each: self._vectors[each])
        return f' "prefer-vector-width"="{64 * lanes}"'

    # ---- statements ------------------------------------------------------------------------------

    def name(self, prefix: str = "v") -> str:
        """A new one."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def value(self, text: str, work: int | None = None) -> str:
        """The result of an instruction."""
        name = self.name()
        self.line(f"{name} = {text}", work)
        return name

    def line(self, text: str, work: int | None = None) -> None:
        """An instruction without a result.

        Args:
            work: what it counts as, if that is known better.
        """
        self.lines.append(f"  {text}")
        if work is None:
            work = CALL_WORK if "call " in text else 1
        self.work += self.often * work

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name[1:]}:")
        self.block = name[1:]

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """The value computed under a key, in this block or in one around it."""
        for values in reversed(self._known):
            if key in values:
                return values[key]
        value = compute()
        self._known[-1][key] = value
        return value

    @contextmanager
    def scope(self) -> Generator[None]:
        """Values that are computed inside are not known outside."""
        self._known.append({})
        yield
        self._known.pop()

    def forget(self) -> None:
        """Drop values read from memory, which may have changed."""
        for values in self._known:
            values.clear()

    def cell(self, kind: str, count: int = 1) -> str:
        """Memory of the function's own."""
        name = self.name("cell")
        self.entry.append(f"  {name} = alloca {kind}, i64 {count}, align 64")
        return name

    def constant(self, kind: str, value: str) -> str:
        """Where a number of the text lies."""
        if (kind, value) not in self._constants:
            name = self._constants[kind, value] = f"@number{len(self._constants)}"
            self.globals.append(f"{name} = private constant {kind} {value}")
        return self._constants[kind, value]

    def keep(self, functions: Sequence[str]) -> None:
        """Leave functions in the module that nothing calls until loops are vectorised."""
        self._not_called += functions

    def call(self, function: str, kind: str, arguments: Sequence[tuple[str, str]]) -> str:
        """A function's result; arguments are types and values."""
        types = ", ".join([each for each, _ in arguments])
        self.declared[function] = f"declare {kind} @{function}({types})"
        operands = ", ".join([f"{each} {value}" for each, value in arguments])
        return self.value(f"call {kind} @{function}({operands})")

    # ---- control flow ----------------------------------------------------------------------------

    @contextmanager
    def times(self, count: int) -> Generator[None]:
        """Instructions that run `count` times, for the estimate of the work."""
        outside, self.often = self.often, self.often * count
        yield
        self.often = outside

    def loop(
        self,
        count: Index,
        body: Callable[[Index], None],
        unroll: bool = False,
        chains: int = 1,
    ) -> None:
        """`body` of 0, 1, .. count - 1.

        Args:
            unroll: written turn by turn where there are few.
            chains: results in the middle of a reduction, which vectors go to in turn: none waits for the one before.
        """
        if isinstance(count, int) and (count <= 1 or (unroll and count <= UNROLLED)):
            for i in range(count):
                body(i)
            return
        inside, end, i, more = (self.name(each) for each in ("body", "end", "i", "more"))
        before = self.block
        if isinstance(count, int):
            number_of_turns = count
            self.line(f"br label {inside}")
        else:
            number_of_turns = 1
            some = self.value(f"icmp sgt i64 {count}, 0")
            self.line(f"br i1 {some}, label {inside}, label {end}")
        self.label(inside)
        number = len(self.lines)
        self.lines.append("")  # the counter, once the block that comes back is known
        work, self._is_innermost = self.work, True
        with self.scope(), self.times(number_of_turns):
            body(i)
        if self._is_innermost:
            self._count_vectors(count, self.work - work)
            self.innermost[inside[1:]] = self.work - work
        self._is_innermost = False
        following = self.value(f"add nsw i64 {i}, 1")
        back = self.block
        self.lines.append(f"  {more} = icmp slt i64 {following}, {count}")
        self.line(f"br i1 {more}, label {inside}, label {end}{self._interleaved(chains)}")
        self.lines[number] = f"  {i} = phi i64 [0, %{before}], [{following}, %{back}]"
        self.label(end)

    def _interleaved(self, chains: int) -> str:
        """The branch's note to LLVM on the chains."""
        if chains == 1:
            return ""
        number = 2 * len(self.globals)
        loop, count = f"!{number}", f"!{number + 1}"
        self.globals += [
            f"{loop} = distinct !{{{loop}, {count}}}",
            f'{count} = !{{!"llvm.loop.interleave.count", i32 {chains}}}',
        ]
        return f", !llvm.loop {loop}"

    def _count_vectors(self, count: Index, work: int) -> None:
        """Add the work of a loop along lanes, and of the turns that fill no vector, for each width of them."""
        for lanes in self._vectors:
            whole, rest = divmod(count, lanes) if isinstance(count, int) else (1, 0)
            turns = count if isinstance(count, int) else lanes
            self._vectors[lanes] += work * (whole + rest) / turns

    def calls_out(self) -> None:
        """Mark the loop around as one with calls of its own, which does not go along lanes."""
        self._is_innermost = False

    def loops(self, shape: Sequence[int], body: Callable[[tuple[Index, ...]], None]) -> None:
        """`body` of every index of a shape, the last axis fastest."""
        unroll = prod(shape) <= UNROLLED

        def nested(axis: int, index: tuple[Index, ...]) -> None:
            if axis == len(shape):
                body(index)
            else:
                self.loop(shape[axis], lambda i: nested(axis + 1, (*index, i)), unroll)

        nested(0, ())

    def branch(
        self, condition: str, on_true: Callable[[], None], on_false: Callable[[], None]
    ) -> None:
        """One of two."""
        yes, no, end = (self.name(each) for each in ("yes", "no", "end"))
        self.line(f"br i1 {condition}, label {yes}, label {no}")
        for name, body in ((yes, on_true), (no, on_false)):
            self.label(name)
            with self.scope():
                body()
            self.line(f"br label {end}")
        self.label(end)

    def leave_if(self, condition: str, result: int) -> None:
        """End the function, with a result."""
        leave, stay = self.name("leave"), self.name("stay")
        self.line(f"br i1 {condition}, label {leave}, label {stay}")
        self.label(leave)
        self.line(f"ret i64 {result}")
        self.label(stay)

    # ---- numbers of elements ---------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        """A sum of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.once(("add", a, b), lambda: self.value(f"add nsw i64 {a}, {b}"))

    def scaled(self, a: Index, factor: int) -> Index:
        """A multiple of an index."""
        if isinstance(a, int):
            return a * factor
        if factor == 1:
            return a
        if factor == 0:
            return 0
        return self.once(("mul", a, factor), lambda: self.value(f"mul nsw i64 {a}, {factor}"))

    def divided(self, a: Index, by: int) -> tuple[Index, Index]:
        """Quotient and rest of an index that is not negative."""
        if isinstance(a, int):
            return divmod(a, by)
        if by == 1:
            return a, 0
        quotient = self.once(("div", a, by), lambda: self.value(f"udiv i64 {a}, {by}"))
        rest = self.once(("rem", a, by), lambda: self.value(f"urem i64 {a}, {by}"))
        return quotient, rest

    def position(self, number: Index, shape: Sequence[int]) -> tuple[Index, ...]:
        """The index of an element by its number, the last axis fastest."""
        index: list[Index] = []
        for n in reversed(shape[1:]):
            number, i = self.divided(number, n)
            index.append(i)
        return (*([number] if shape else []), *reversed(index))

    def linear(self, index: Sequence[Index], shape: Sequence[int]) -> Index:
        """The number of an element, the last axis fastest."""
        if isinstance(index, Flat):
            return index[0]
        offset: Index = 0
        for i, n in zip(index, shape, strict=True):
            offset = self.add(self.scaled(offset, n), 0 if n == 1 else i)
        return offset

    # ---- memory ------------------------------------------------------------------------------------

    def load(self, pointer: str, offset: Index, dtype: DType) -> Element:
        """An element of dense memory."""
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            return tuple(self._load(pointer, self.add(twice, part), dtype) for part in (0, 1))
        value = self._load(pointer, offset, dtype)
        if dtype in LOW:
            return self._widened(value, dtype)
        return self.value(f"trunc i8 {value} to i1") if dtype is DType.Bool else value

    def _load(self, pointer: str, offset: Index, dtype: DType) -> str:
        return self.value(f"load {memory_type(dtype)}, ptr {self.address(pointer, offset, dtype)}")

    def address(self, pointer: str, offset: Index, dtype: DType) -> str:
        """Of a number in dense memory; a complex one is two."""
        if offset == 0:
            return pointer
        return self.value(
            f"getelementptr inbounds {memory_type(dtype)}, ptr {pointer}, i64 {offset}"
        )

    def store(self, value: Element, pointer: str, offset: Index, dtype: DType) -> None:
        """An element into dense memory."""
        kind = memory_type(dtype)
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            for part in (0, 1):
                address = self.address(pointer, self.add(twice, part), dtype)
                self.line(f"store {kind} {value[part]}, ptr {address}")
            return
        if dtype is DType.Bool:
            value = self.value(f"zext i1 {value} to i8")
        if dtype in LOW:
            value = self._narrowed(value, dtype)
        self.line(f"store {kind} {value}, ptr {self.address(pointer, offset, dtype)}")

    # ---- float16 and bfloat16 ----------------------------------------------------------------------

    def rounded(self, value: str, dtype: DType) -> str:
        """A float32 rounded to float16 or bfloat16; unchanged for other dtypes."""
        return self._widened(self._narrowed(value, dtype), dtype) if dtype in LOW else value

    def bits(self, value: str, dtype: DType) -> str:
        """A real number's bits, as an integer of its width."""
        if not dtype.is_inexact:
            return value
        return self.value(f"bitcast {llvm_type(dtype)} {value} to i{8 * dtype.itemsize}")

    def of_bits(self, bits: str, dtype: DType) -> str:
        """The real number of these bits."""
        if not dtype.is_inexact:
            return bits
        return self.value(f"bitcast i{8 * dtype.itemsize} {bits} to {llvm_type(dtype)}")

    def _widened(self, bits: str, dtype: DType) -> str:
        """The float32 of the bits of a number."""
        if dtype is DType.F16:
            return self._of_half(bits)
        wide = self.value(f"zext i16 {bits} to i32")
        return self.value(f"bitcast i32 {self.value(f'shl i32 {wide}, 16')} to float")

    def _narrowed(self, value: str, dtype: DType) -> str:
        """The bits of a float32, rounded; LLVM's own bfloat16 would have no subnormal numbers on some processors."""
        if dtype is DType.F16:
            return self._half(value)
        bits = self.value(f"bitcast float {value} to i32")
        last = self.value(f"and i32 {self.value(f'lshr i32 {bits}, 16')}, 1")
        carried = self.value(f"add i32 {self.value(f'add i32 {bits}, 32767')}, {last}")
        is_nan = self.value(f"fcmp uno float {value}, {value}")
        sign = self.value(f"and i32 {bits}, {-0x80000000}")
        nan = self.value(f"or i32 {sign}, {0x7FC00000}")
        chosen = self.value(f"select i1 {is_nan}, i32 {nan}, i32 {carried}")
        return self.value(f"trunc i32 {self.value(f'lshr i32 {chosen}, 16')} to i16")

    def _of_half(self, bits: str) -> str:
        """The float32 of a float16's bits, by integers where the processor does not convert them."""
        value = self.value
        if self.converts_halves:
            return value(f"fpext half {value(f'bitcast i16 {bits} to half')} to float")
        # As if the exponent were a float32's, of which the difference is a factor; subnormal numbers become normal.
        wide = value(f"zext i16 {bits} to i32")
        magnitude = value(f"and i32 {wide}, {0x7FFF}")
        small = value(f"bitcast i32 {value(f'shl i32 {magnitude}, 13')} to float")
        scaled = value(f"fmul float {small}, {literal(2.0**112, DType.F32)}")
        is_finite = value(f"icmp ult i32 {magnitude}, {0x7C00}")
        exponent = value(f"select i1 {is_finite}, i32 0, i32 {0x7F800000}")
        sign = value(f"shl i32 {value(f'and i32 {wide}, {0x8000}')}, 16")
        scaled = value(f"or i32 {value(f'bitcast float {scaled} to i32')}, {exponent}")
        return value(f"bitcast i32 {value(f'or i32 {scaled}, {sign}')} to float")

    def _half(self, number: str) -> str:
        """The bits of a float32 rounded to float16, by integers where the processor does not convert them."""
        value = self.value
        if self.converts_halves:
            return value(f"bitcast half {value(f'fptrunc float {number} to half')} to i16")
        bits = value(f"bitcast float {number} to i32")
        sign = value(f"and i32 {bits}, {-0x80000000}")
        magnitude = value(f"xor i32 {bits}, {sign}")
        # Beside a half, a float32 has the places of a subnormal float16, and rounds to them.
        beside = value(f"fadd float {value(f'bitcast i32 {magnitude} to float')}, 0.5")
        small = value(f"sub i32 {value(f'bitcast float {beside} to i32')}, {0x3F000000}")
        # Others are rounded by the bits that go, with another exponent; a tie by the last that stays.
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
    """Pointers and numbers, with their types."""
    return ", ".join([
        *[f"ptr {name}" for name in pointers],
        *[f"i64 {name}" for name in numbers],
    ])  # fmt: skip


def literal(value: Any, dtype: DType) -> Element:
    """A number in the text."""
    if dtype.is_complex:
        part = dtype.real
        return literal(value.real, part), literal(value.imag, part)
    if dtype is DType.Bool:
        return "true" if value else "false"
    if not dtype.is_inexact:
        return str(int(value))
    # Floats of either width are written as the bits of a double.
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
