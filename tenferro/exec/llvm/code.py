"""Builder of functions in LLVM IR: instructions, basic blocks, loops, index arithmetic and memory accesses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.ir import (
    Declaration,
    Function,
    Instruction,
    Module,
    Value,
    VectorType,
    result_type,
)
from tenferro.types import DType

__all__ = [
    "HALF_DTYPES",
    "MAX_UNROLLED",
    "Code",
    "Element",
    "Index",
    "intrinsic_suffix",
    "literal",
    "llvm_type",
    "memory_type",
]

Index: TypeAlias = "int | str"
"""Index of an element: a Python integer, or the name of an i64 value."""
Element: TypeAlias = Any
"""Element of an array in registers: a value, or a pair of values for a complex number."""
MAX_UNROLLED = 4
"""Maximum number of iterations of a loop or loop nest that is fully unrolled."""
SUFFIXES = {"double": "f64", "float": "f32", "half": "f16"}
"""Suffixes of the names of LLVM's intrinsics, by float type; for an integer type the suffix is the type."""


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
"""Dtypes of 16-bit floats, which are rounded float32 in registers, and 16-bit integers in memory."""


def llvm_type(dtype: DType) -> str:
    """Return the LLVM type of an element in a register; for complex numbers, the type of the real part.

    Raises:
        NotCompiledError: the dtype has fewer than 8 bits, or is an 8-bit float.
    """
    if dtype.is_narrow:
        raise NotCompiledError(f"{dtype} is not compiled")
    return _TYPES[dtype]


def memory_type(dtype: DType) -> str:
    """Return the LLVM type of an element in memory; for complex numbers, the type of the real part."""
    if dtype in HALF_DTYPES:
        return "i16"
    return "i8" if dtype is DType.Bool else llvm_type(dtype)


DEFAULT_VECTOR_LANES = 4
"""Number of float64 in LLVM's widest vectors unless the attribute `prefer-vector-width` is set."""
CALL_WORK = 16
"""Estimated cost of a call, in instructions."""


def intrinsic_suffix(type_: str) -> str:
    """Return the suffix of LLVM's intrinsics for a type.

    >>> intrinsic_suffix("double"), intrinsic_suffix(VectorType(4, "i64"))
    ('f64', 'v4i64')
    """
    if isinstance(type_, VectorType):
        return f"v{type_.lanes}{intrinsic_suffix(type_.element)}"
    return SUFFIXES.get(type_, type_)


class Code:
    """Builder of the current function, and of the module that contains it.

    An index that was computed in the current scope or an enclosing scope is not computed again. An operand that is not
    a `Value` is a constant or the name of a value. It has the type of the other operands, or the type that is passed.

    Attributes:
        region: instructions of the current function.
        functions: definitions of callees, by name.
        vector_functions: definitions and declarations that vectorised loops call.
        work: estimated number of executed instructions, with one iteration of each while loop.
        while_loops: number of while loops.
        areas: byte offset in scratch memory of each intermediate value, which is a `noalias` argument of the function.
        largest_call: estimated instructions of the largest call of BLAS or LAPACK.
        frequency: executions of the current block in one call of the function.
        ranges: first value and end of indices with known ranges.
        is_wide: whether the function uses the widest vectors of the processor.
        retained: functions of the module that nothing calls before loops are vectorised.

    Args:
        contracts: whether the processor has fused multiply-add instructions.
        lanes: the number of float64 in the processor's vectors.
        converts_halves: whether the processor has instructions that convert float16.
    """

    def __init__(
        self, contracts: bool = False, lanes: int = 1, converts_halves: bool = False
    ) -> None:
        self.contracts, self.lanes = contracts, lanes
        self.converts_halves = converts_halves
        self.retained: list[str] = []
        self.ranges: dict[str, tuple[int, int]] = {}
        self.declared: dict[str, Declaration] = {}
        self.functions: dict[str, Function] = {}
        self.vector_functions: dict[str, Function | Declaration] = {}
        self.globals: list[str] = []
        self._constants: dict[tuple[str, str], Value] = {}
        self._count = self.largest_call = 0
        self.region: list[Instruction] = []
        self.entry: list[Instruction] = []
        self.areas: dict[str, int] = {}
        self.block = "%entry"
        self._scopes: list[dict[Any, Any]] = [{}]
        self.work, self.frequency, self.while_loops = 0, 1, 0
        self.is_repeated = self.is_wide = False
        # The work of each innermost loop, and its number of iterations or None.
        self._innermost: list[tuple[int, int | None]] = []

    def define(self, name: str, pointers: Sequence[str], numbers: Sequence[str] = ()) -> None:
        """Add the current instructions to the module, as an internal function of pointers and integers."""
        width = ""
        if self.lanes > DEFAULT_VECTOR_LANES:
            # For short loops, narrower vectors may leave fewer iterations to scalar code.
            lanes = min(self.lanes, DEFAULT_VECTOR_LANES, key=self._vector_work)
            lanes = self.lanes if self.is_wide else lanes
            width = f' "prefer-vector-width"="{64 * lanes}"'
        self.functions[name] = Function(
            name,
            "i64",
            typed_arguments((*pointers, *self.areas), numbers),
            self.region,
            self.entry,
            f" noinline nounwind{width}",
            is_internal=True,
        )

    def _vector_work(self, lanes: int) -> float:
        """Return the work of the innermost loops with this many lanes; the last iterations are scalar."""
        return sum(
            [
                work / lanes if count is None else work * (count // lanes + count % lanes) / count
                for work, count in self._innermost
            ]
        )

    def module(self) -> Module:
        functions = {**self.declared, **self.functions}
        return Module(self.globals, functions, self.vector_functions, self.retained)

    # ---- instructions ----------------------------------------------------------------------------

    def name(self, prefix: str, type_: str = "label") -> Value:
        """Return a new name with this prefix, for a value of a type or for a label."""
        self._count += 1
        return Value(f"%{prefix}{self._count}", type_)

    def append(self, instruction: Instruction, work: int = 1) -> None:
        """Append an instruction that counts as `work` instructions."""
        self.region.append(instruction)
        self.work += self.frequency * work

    def value(
        self, opcode: str, *operands: int | str, type: str = "", flags: str = "", suffix: str = ""
    ) -> Value:
        """Write an instruction, and return its result.

        Args:
            type: the type of the result or of the accessed memory, if the operands do not determine it.
        """
        values = typed(operands, type)
        result = self.name("v", result_type(opcode, values, type))
        self.append(Instruction(opcode, values, result, type, flags, (), suffix))
        return result

    def icmp(self, predicate: str, x: int | str, y: int | str, type: str = "i64") -> Value:
        return self.value("icmp", *typed((x, y), type), flags=predicate)

    def fcmp(self, predicate: str, x: str, y: str) -> Value:
        return self.value("fcmp", x, y, flags=predicate)

    def cast(self, opcode: str, x: int | str, type: str, old: str = "i64") -> Value:
        """Write a conversion of x to a type, and return the result; `old` is the type of x if x is no `Value`."""
        return self.value(opcode, *typed((x,), old), type=type)

    def select(self, condition: str, x: int | str, y: int | str, type: str = "i64") -> Value:
        """Write a selection of x where the condition is true and of y elsewhere, and return the result."""
        return self.value("select", *typed((condition,), "i1"), *typed((x, y), type))

    def gep(self, type: str, pointer: str, offset: Index, flags: str = "") -> Value:
        """Return the address `offset` elements of a type after a pointer."""
        address = *typed((pointer,), "ptr"), *typed((offset,), "i64")
        return self.value("getelementptr", *address, type=type, flags=flags)

    def load_value(self, type: str, pointer: str, suffix: str = "") -> Value:
        """Write a load of a value, and return the value."""
        return self.value("load", *typed((pointer,), "ptr"), type=type, suffix=suffix)

    def store_value(self, x: int | str, pointer: str, type: str = "i64", suffix: str = "") -> None:
        """Write a store of x; `type` is the type of x if x is no `Value`."""
        operands = *typed((x,), type), *typed((pointer,), "ptr")
        self.append(Instruction("store", operands, suffix=suffix))

    def call(
        self, function: str, type: str, arguments: Sequence[Value], attributes: str = ""
    ) -> Value:
        """Declare a function, write a call of it, and return its result."""
        types = tuple([x.type for x in arguments])
        self.declared[function] = Declaration(function, type, types, attributes)
        return self.call_defined(function, type, arguments)

    def call_defined(
        self,
        function: str,
        type: str,
        arguments: Sequence[Value],
        suffix: str = "",
        work: int = CALL_WORK,
    ) -> Value:
        """Write a call of a function that the module defines, and return its result."""
        result = self.name("v", type)
        operands = Value(f"@{function}", "ptr"), *arguments
        self.append(Instruction("call", operands, result, type, suffix=suffix), work)
        return result

    def call_void(self, function: str, pointers: Sequence[str]) -> None:
        """Write a call of a void function of pointers."""
        operands = Value(f"@{function}", "ptr"), *typed(pointers, "ptr")
        self.append(Instruction("call", operands, type="void"), CALL_WORK)

    def intrinsic(self, name: str, x: int | str, *others: int | str, type: str = "i64") -> Value:
        """Write a call of an LLVM intrinsic whose result has the type of x, and return the result."""
        operands = typed((x, *others), type)
        kind = operands[0].type
        return self.call(f"llvm.{name}.{intrinsic_suffix(kind)}", kind, operands)

    def insert(self, vector: Value, x: Value, lane: int) -> Value:
        return self.value("insertelement", vector, x, Value(lane, "i64"))

    def extract(self, vector: Value, lane: int) -> Value:
        return self.value("extractelement", vector, Value(lane, "i64"))

    def shuffle(self, x: Value, y: str, lanes: Sequence[int]) -> Value:
        """Return the vector of these lanes of x and y; the lanes of y are numbered after the lanes of x."""
        numbers = ", ".join([f"i32 {lane}" for lane in lanes])
        mask = f"<{numbers}>" if any(lanes) else "zeroinitializer"
        return self.value("shufflevector", x, y, Value(mask, VectorType(len(lanes), "i32")))

    def ret(self, x: int | str, type: str = "i64") -> None:
        self.append(Instruction("ret", typed((x,), type)))

    def br(self, *labels: str, condition: str = "") -> None:
        """Write a branch to a label, or, with a condition, to the first label if it is true, else to the second."""
        self.append(
            Instruction("br", typed((condition,), "i1") if condition else (), labels=labels)
        )

    def label(self, name: str) -> None:
        self.region.append(Instruction("label", labels=(name,)))
        self.block = name

    def phi(self, result: Value) -> Instruction:
        """Write a phi node, and return it; the caller sets its operands and labels later."""
        node = Instruction("phi", (), result, result.type)
        self.region.append(node)
        return node

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the value of a key in this scope or an enclosing scope; if there is none, compute and store it."""
        for values in reversed(self._scopes):
            if key in values:
                return values[key]
        value = compute()
        self._scopes[-1][key] = value
        return value

    @contextmanager
    def scope(self) -> Generator[None]:
        """Open a scope for `once` during a `with` statement."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def invalidate(self) -> None:
        """Forget all values of `once`, because the memory from which they were loaded may have changed."""
        for values in self._scopes:
            values.clear()

    def alloca(self, type: str, count: int = 1) -> Value:
        """Write an allocation of `count` values of a type on the stack, and return its pointer."""
        name = self.name("cell", "ptr")
        size = (Value(count, "i64"),)
        self.entry.append(Instruction("alloca", size, name, type, suffix=", align 64"))
        return name

    def constant(self, kind: str, value: str) -> Value:
        """Return a pointer to a constant of an LLVM type in the module; equal constants share memory."""
        if (kind, value) not in self._constants:
            name = self._constants[kind, value] = Value(f"@number{len(self._constants)}", "ptr")
            self.globals.append(f"{name} = private constant {kind} {value}")
        return self._constants[kind, value]

    # ---- control flow ----------------------------------------------------------------------------

    @contextmanager
    def times(self, count: int) -> Generator[None]:
        """Count instructions that are written during a `with` statement `count` times."""
        outside, self.frequency = self.frequency, self.frequency * count
        yield
        self.frequency = outside

    def loop(
        self, count: Index, body: Callable[[Index], None], unroll: bool = False, interleave: int = 1
    ) -> None:
        """Write a loop that runs the body with the indices 0, 1, .. count - 1.

        Args:
            unroll: whether to write each iteration separately if there are at most `MAX_UNROLLED`.
            interleave: the number of iterations that LLVM interleaves; a reduction has as many accumulators.
        """
        if isinstance(count, int) and (count <= 1 or (unroll and count <= MAX_UNROLLED)):
            for i in range(count):
                body(i)
            return
        label, end = self.name("body"), self.name("end")
        index, more = self.name("i", "i64"), self.name("more", "i1")
        (limit,) = typed((count,), "i64")
        iterations = count if isinstance(count, int) else 1
        before, is_short = self.block, isinstance(count, int) and count <= MAX_UNROLLED
        metadata = self._loop_metadata(interleave, self.is_repeated and is_short)
        if isinstance(count, int):
            self.br(label)
        else:
            self.br(label, end, condition=self.icmp("sgt", limit, 0))
        self.label(label)
        phi, loops, work = self.phi(index), len(self._innermost), self.work
        with self.scope(), self.times(iterations):
            body(index)
        if len(self._innermost) == loops:
            self._innermost.append((self.work - work, count if isinstance(count, int) else None))
        following = self.name("v", "i64")
        phi.operands, phi.labels = (Value(0, "i64"), following), (before, self.block)
        self.region += [
            Instruction("add", (index, Value(1, "i64")), following, flags="nsw"),
            Instruction("icmp", (following, limit), more, flags="slt"),
            Instruction("br", (more,), labels=(label, end), suffix=metadata),
        ]
        self.work += 2 * self.frequency  # for the next index and the branch
        self.label(end)

    @contextmanager
    def repeated(self) -> Generator[None]:
        """Let LLVM unroll short loops during a `with` statement that writes the body of a loop of the tensor program.

        Most of the time of such a body is the latency of the short loops in it.
        """
        outside, self.is_repeated = self.is_repeated, True
        yield
        self.is_repeated = outside

    def _loop_metadata(self, interleave: int, unroll: bool) -> str:
        hints = [f'!"llvm.loop.interleave.count", i32 {interleave}'] if interleave != 1 else []
        hints += ['!"llvm.loop.unroll.full"'] if unroll else []
        if not hints:
            return ""
        number = 2 * len(self.globals)
        loop, *names = [f"!{number + i}" for i in range(1 + len(hints))]
        self.globals.append(f"{loop} = distinct !{{{', '.join((loop, *names))}}}")
        self.globals += [f"{name} = !{{{hint}}}" for name, hint in zip(names, hints, strict=True)]
        return f", !llvm.loop {loop}"

    def loops(self, shape: Sequence[int], body: Callable[[tuple[Index, ...]], None]) -> None:
        """Write nested loops that run the body with each index of a shape, in row-major order."""
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
        """Write a conditional; `on_true` and `on_false` write its branches."""
        yes, no, end = (self.name(each) for each in ("yes", "no", "end"))
        self.br(yes, no, condition=condition)
        for name, body in ((yes, on_true), (no, on_false)):
            self.label(name)
            with self.scope():
                body()
            self.br(end)
        self.label(end)

    def return_if(self, condition: str, result: int) -> None:
        """Write a return of a constant if a condition is true."""
        leave, stay = self.name("leave"), self.name("stay")
        self.br(leave, stay, condition=condition)
        self.label(leave)
        self.ret(result)
        self.label(stay)

    # ---- index arithmetic ------------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        total = self.once(("add", a, b), lambda: self.value("add", a, b, type="i64", flags="nsw"))
        if isinstance(b, int) and a in self.ranges:
            first, last = self.ranges[a]
            self.ranges[total] = first + b, last + b
        return total

    def range_of(self, a: Index) -> tuple[int, int]:
        """Return the first value and the end of an index with a known range."""
        return (a, a + 1) if isinstance(a, int) else self.ranges[a]

    def scaled(self, a: Index, factor: int) -> Index:
        """Return the product of an index and a constant factor."""
        if isinstance(a, int):
            return a * factor
        if factor == 1:
            return a
        if factor == 0:
            return 0
        return self.once(
            ("mul", a, factor), lambda: self.value("mul", a, factor, type="i64", flags="nsw")
        )

    def divmod(self, a: Index, by: int) -> tuple[Index, Index]:
        """Return the quotient and the remainder of a non-negative index divided by a constant."""
        if isinstance(a, int):
            return divmod(a, by)
        if by == 1:
            return a, 0
        quotient = self.once(("div", a, by), lambda: self.value("udiv", a, by, type="i64"))
        rest = self.once(("rem", a, by), lambda: self.value("urem", a, by, type="i64"))
        return quotient, rest

    def unravel_index(self, number: Index, shape: Sequence[int]) -> tuple[Index, ...]:
        """Return the index along each axis for a row-major linear index."""
        index: list[Index] = []
        for n in reversed(shape[1:]):
            number, i = self.divmod(number, n)
            index.append(i)
        return (*([number] if shape else []), *reversed(index))

    def ravel_index(self, index: Sequence[Index], shape: Sequence[int]) -> Index:
        """Return the row-major linear index for an index along each axis."""
        offset: Index = 0
        for i, n in zip(index, shape, strict=True):
            offset = self.add(self.scaled(offset, n), 0 if n == 1 else i)
        return offset

    # ---- memory ------------------------------------------------------------------------------------

    def load(self, pointer: str, offset: Index, dtype: DType) -> Element:
        """Write a load of an element at an offset in elements from a pointer, and return the element."""
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            return tuple(self._load(pointer, self.add(twice, part), dtype) for part in (0, 1))
        value = self._load(pointer, offset, dtype)
        if dtype in HALF_DTYPES:
            return self._widened(value, dtype)
        return self.cast("trunc", value, "i1") if dtype is DType.Bool else value

    def _load(self, pointer: str, offset: Index, dtype: DType) -> Value:
        return self.load_value(memory_type(dtype), self.address(pointer, offset, dtype))

    def address(self, pointer: str, offset: Index, dtype: DType) -> Value:
        """Return the address at an offset in real numbers from a pointer; a complex number counts as two."""
        if offset == 0:
            return Value(pointer, "ptr")
        return self.gep(memory_type(dtype), pointer, offset, "inbounds")

    def store(self, value: Element, pointer: str, offset: Index, dtype: DType) -> None:
        """Write a store of an element at an offset in elements from a pointer."""
        kind = memory_type(dtype)
        if dtype.is_complex:
            twice = self.scaled(offset, 2)
            for part in (0, 1):
                address = self.address(pointer, self.add(twice, part), dtype)
                self.store_value(value[part], address, kind)
            return
        if dtype is DType.Bool:
            value = self.cast("zext", value, "i8", "i1")
        if dtype in HALF_DTYPES:
            value = self._narrowed(value, dtype)
        self.store_value(value, self.address(pointer, offset, dtype), kind)

    # ---- float16 and bfloat16 ----------------------------------------------------------------------

    def rounded(self, value: Element, dtype: DType) -> Element:
        """Return the value rounded to float16 or bfloat16; unchanged for any other dtype."""
        return self._widened(self._narrowed(value, dtype), dtype) if dtype in HALF_DTYPES else value

    def bits(self, value: Value, dtype: DType) -> Value:
        """Return the bits of a float, as an integer of the same width; return integers unchanged."""
        return self.cast("bitcast", value, f"i{8 * dtype.itemsize}") if dtype.is_inexact else value

    def from_bits(self, bits: Value, dtype: DType) -> Value:
        """Return the number of a dtype that has these bits."""
        return self.cast("bitcast", bits, llvm_type(dtype)) if dtype.is_inexact else bits

    def _widened(self, bits: Value, dtype: DType) -> Value:
        """Return the float32 that equals the float16 or bfloat16 with these bits."""
        if dtype is DType.F16:
            return self._from_half_bits(bits)
        return self.cast("bitcast", self.value("shl", self.cast("zext", bits, "i32"), 16), "float")

    def _narrowed(self, value: Value, dtype: DType) -> Value:
        """Return the 16 bits of a float32 rounded to float16 or bfloat16.

        LLVM's own bfloat16 conversion is not used, because on some processors it makes subnormal numbers zero.
        """
        if dtype is DType.F16:
            return self._half_bits(value)
        op = self.value
        bits = self.cast("bitcast", value, "i32")
        last = op("and", op("lshr", bits, 16), 1)
        carried = op("add", op("add", bits, 32767), last)
        is_nan = self.fcmp("uno", value, value)
        nan = op("or", op("and", bits, -0x80000000), 0x7FC00000)
        chosen = self.select(is_nan, nan, carried)
        return self.cast("trunc", op("lshr", chosen, 16), "i16")

    def _from_half_bits(self, bits: Value) -> Value:
        """Return the float32 that equals the float16 with these bits, by integer ops if no instruction does it."""
        op, cast = self.value, self.cast
        if self.converts_halves:
            return cast("fpext", cast("bitcast", bits, "half"), "float")
        # The exponent biases of float32 and float16 differ by 112. Therefore the shifted bits are read as a float32,
        # which is multiplied by 2^112, also for subnormal numbers.
        wide = cast("zext", bits, "i32")
        magnitude = op("and", wide, 0x7FFF)
        small = cast("bitcast", op("shl", magnitude, 13), "float")
        scaled = op("fmul", small, literal(2.0**112, DType.F32))
        is_finite = self.icmp("ult", magnitude, 0x7C00)
        exponent = self.select(is_finite, 0, 0x7F800000, "i32")
        sign = op("shl", op("and", wide, 0x8000), 16)
        scaled = op("or", cast("bitcast", scaled, "i32"), exponent)
        return cast("bitcast", op("or", scaled, sign), "float")

    def _half_bits(self, number: Value) -> Value:
        """Return the bits of a float32 rounded to float16, by integer ops if no instruction does it."""
        op, cast = self.value, self.cast
        if self.converts_halves:
            return cast("bitcast", cast("fptrunc", number, "half"), "i16")
        bits = cast("bitcast", number, "i32")
        sign = op("and", bits, -0x80000000)
        magnitude = op("xor", bits, sign)
        # Consecutive float32 in [0.5, 1) have the same distance as consecutive subnormal float16. Therefore the
        # addition of 0.5 rounds a small number to a subnormal float16.
        shifted = op("fadd", cast("bitcast", magnitude, "float"), "0.5")
        small = op("sub", cast("bitcast", shifted, "i32"), 0x3F000000)
        # A normal number: change the exponent bias, add half a unit in the last place, and round ties to even.
        last = op("and", op("lshr", magnitude, 13), 1)
        moved = op("sub", magnitude, (112 << 23) - 0xFFF)
        rounded = op("lshr", op("add", moved, last), 13)
        chosen = self.select(self.icmp("ult", magnitude, 113 << 23), small, rounded)
        chosen = self.select(self.icmp("uge", magnitude, 143 << 23), 0x7C00, chosen)
        chosen = self.select(self.fcmp("uno", number, number), 0x7E00, chosen)
        chosen = op("or", chosen, op("lshr", sign, 16))
        return cast("trunc", chosen, "i16")


def typed(operands: Sequence[int | str], type_: str) -> tuple[Value, ...]:
    """Return the operands as values; a constant or name gets the type of the first value, or else `type_`."""
    values = [x for x in operands if isinstance(x, Value)]
    if len(values) == len(operands):
        return tuple(values)
    type_ = values[0].type if values else type_
    return tuple([x if isinstance(x, Value) else Value(x, type_) for x in operands])


def typed_arguments(pointers: Sequence[str], numbers: Sequence[str]) -> tuple[Value, ...]:
    """Return the pointer and integer arguments of a function as typed values."""
    return (*[Value(x, "ptr") for x in pointers], *[Value(x, "i64") for x in numbers])


def literal(value: Any, dtype: DType) -> Element:
    """Return a constant of a dtype, as an operand of instructions."""
    kind = llvm_type(dtype)
    if dtype.is_complex:
        part = dtype.real
        return literal(value.real, part), literal(value.imag, part)
    if dtype is DType.Bool:
        return Value("true" if value else "false", kind)
    if not dtype.is_inexact:
        return Value(int(value), kind)
    # In LLVM text, both float and double constants are the bits of a double.
    bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
    return Value(f"0x{bits:016X}", kind)
