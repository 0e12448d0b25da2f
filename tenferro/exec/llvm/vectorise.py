"""Vectoriser of innermost loops, for baseline code that is compiled without LLVM's passes.

A loop of one basic block is rewritten with the same instructions on vectors, so results have the same bits. Induction
variables and uniform values stay scalar. Contiguous elements are loaded and stored as vectors, and uniform operands are
broadcast to all lanes.

If the trip count is not a multiple of the vector length, the last vector overlaps the one before and recomputes some
elements. A loop that reads memory it writes gets a scalar remainder loop instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tenferro.exec.llvm.code import intrinsic_suffix
from tenferro.exec.llvm.ir import (
    ARITHMETIC,
    BITS,
    COMPARISONS,
    CONVERSIONS,
    Declaration,
    Function,
    Functions,
    Instruction,
    Loop,
    Region,
    Structure,
    Value,
    VectorType,
    result_type,
    splat,
)

__all__ = ["NotVectorisedError", "VectorBlock", "VectorLoop", "VectorVariants"]

INTRINSICS = (
    "ceil", "copysign", "ctpop", "fabs", "floor", "fma", "maximum", "minimum", "rint", "smax", "smin", "sqrt", "umax",
    "umin",
)  # fmt: skip
"""Intrinsics with a vector form of one or two instructions."""
DIVISIONS = ("sdiv", "udiv", "srem", "urem")
"""Instructions without a vector form on processors."""


class NotVectorisedError(Exception):
    """Reason why a loop stays scalar."""


class Address(NamedTuple):
    """Address of an element.

    kind:    type of the element
    base:    pointer to the memory
    offset:  index, in the scalar loop
    step:    stride between iterations, in elements
    pointer: pointer in the vector loop
    """

    kind: str
    base: Value
    offset: Value
    step: int
    pointer: Value


class VectorVariants:
    """Vector variants of the functions of a module.

    Attributes:
        functions: definitions and declarations by name; the later of two with one name counts.
    """

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def variant(self, name: str, lanes: int, own: dict[str, Function | Declaration]) -> str:
        """Return the name of the vector variant of a function, and add it and its callees to `own`.

        Raises:
            NotVectorisedError: the function has no vector variant and is not a basic block of arithmetic.
        """
        variant = f"{name}_{lanes}"
        if isinstance(self.functions.get(variant), Function):
            self._add(variant, own)
        elif variant not in own:
            function = self.functions.get(name)
            if not isinstance(function, Function):
                raise NotVectorisedError(f"calls @{name}")
            own[variant] = self._vectorised(function, variant, lanes, own)
        return variant

    def _add(self, name: str, own: dict[str, Function | Declaration]) -> None:
        """Add a function of the module and its callees."""
        names = [name]
        while names:
            name = names.pop()
            if name not in own:
                function = own[name] = self.functions[name]
                calls = function.instructions if isinstance(function, Function) else ()
                names += [x.operands[0][1:] for x in calls if x.opcode == "call"]

    def _vectorised(
        self, function: Function, name: str, lanes: int, own: dict[str, Function | Declaration]
    ) -> Function:
        """Return the vector variant of a scalar function."""
        block = VectorBlock(lanes, self, own, "%w")
        for x in function.parameters:
            block.vectors[x] = Value(x, VectorType(lanes, x.type))
        *body, last = function.instructions
        block.rewrite(body)
        result = block.vector(last.operands[0])
        parameters = tuple(block.vectors.values())[: len(function.parameters)]
        region: Region = [*block.instructions, Instruction("ret", (result,))]
        return Function(name, result.type, parameters, region, is_internal=True)


class VectorBlock:
    """Basic block whose scalar instructions are rewritten on vectors.

    Attributes:
        instructions: the rewritten instructions.
        scalars: values that remain scalar, by their values in the scalar loop.
        steps: increment of such a value between iterations, if it is not 0.
        vectors: vector values, by their values in the scalar loop.
        accesses: addresses of memory accesses, and whether they are stores.

    Args:
        lanes: number of elements in a vector.
        variants: vector variants of functions.
        functions: vector variants that are called, by name.
        prefix: prefix of new names.
    """

    def __init__(
        self,
        lanes: int,
        variants: VectorVariants,
        functions: dict[str, Function | Declaration],
        prefix: str,
    ) -> None:
        self.lanes, self.variants, self.functions = lanes, variants, functions
        self.instructions: list[Instruction] = []
        self.scalars: dict[Value, Value] = {}
        self.steps: dict[Value, int] = {}
        self.vectors: dict[Value, Value] = {}
        self.accesses: list[tuple[Address, bool]] = []
        self._prefix = prefix
        self._addresses: dict[Value, Address] = {}
        self._broadcasts: dict[tuple[Value, str], Value] = {}

    def rewrite(self, instructions: Iterable[Any]) -> None:
        """Rewrite instructions.

        Raises:
            NotVectorisedError: one has no vector form.
        """
        for x in instructions:
            if x.opcode not in RULES:
                raise NotVectorisedError(x.opcode)
            RULES[x.opcode](self, x)

    def write(self, x: Instruction) -> Value:
        """Append an instruction with a new result and return it."""
        kind = result_type(x.opcode, x.operands, x.type)
        result = Value(f"{self._prefix}{len(self.instructions)}", kind)
        self.instructions.append(replace(x, result=result))
        return result

    def vector(self, x: Value) -> Value:
        """Return a value as a vector, broadcast if it is scalar."""
        if x in self.vectors:
            return self.vectors[x]
        if x.is_constant:
            return splat(x, self.lanes)
        if (x, x.type) not in self._broadcasts:
            poison = Value("poison", self.type_of(x.type))
            mask = Value("zeroinitializer", self.type_of("i32"))
            operands = poison, self.scalar(x), Value(0, "i64")
            first = self.write(Instruction("insertelement", operands))
            copies = self.write(Instruction("shufflevector", (first, poison, mask)))
            if step := self.steps.get(x, 0):
                offsets = ", ".join([f"{x.type} {step * lane}" for lane in range(self.lanes)])
                operands = copies, Value(f"<{offsets}>", copies.type)
                copies = self.write(Instruction("add", operands))
            self._broadcasts[x, x.type] = copies
        return self._broadcasts[x, x.type]

    def scalar(self, x: Value) -> Value:
        """Return the scalar of the vector loop for one of the scalar loop."""
        return self.scalars.get(x, x)

    def type_of(self, kind: str) -> str:
        """Return the vector type of an element type."""
        return VectorType(self.lanes, kind)

    def are_uniform(self, *xs: Value) -> bool:
        """Return whether values are the same in all iterations."""
        return not any([x in self.vectors or x in self.steps for x in xs])

    def keep_scalar(self, x: Instruction) -> None:
        """Write an instruction on scalars unchanged."""
        assert x.result is not None
        operands = tuple([self.scalar(y) for y in x.operands])
        self.scalars[x.result] = self.write(replace(x, operands=operands))

    def widen(self, x: Instruction) -> None:
        """Write an instruction on vectors, or on scalars if it is uniform."""
        assert x.result is not None
        if not all([y.type in BITS for y in x.operands]):
            raise NotVectorisedError(x.opcode)
        if self.are_uniform(*x.operands):
            self.keep_scalar(x)
            return
        operands = tuple([self.vector(y) for y in x.operands])
        kind = self.type_of(x.type) if x.type else ""
        self.vectors[x.result] = self.write(replace(x, operands=operands, type=kind))

    def arithmetic(self, x: Instruction) -> None:
        """Write arithmetic, on scalars where the result is linear in the number of the iteration."""
        assert x.result is not None
        step = 0 if self.are_uniform(*x.operands) else self._step(x)
        if step is not None:
            self.keep_scalar(x)
            if step:
                self.steps[x.result] = step
        elif x.opcode in DIVISIONS:
            raise NotVectorisedError(f"{x.opcode} of vectors")
        else:
            self.widen(x)

    def _step(self, instruction: Instruction) -> int | None:
        """Return the increment of a result between iterations if the result can stay scalar, else None."""
        x, *others = instruction.operands
        if x.type != "i64" or any([each in self.vectors for each in (x, *others)]):
            return None
        x_step, y_step = (self.steps.get(each, 0) for each in (x, others[0]))
        if instruction.opcode == "add":
            return x_step + y_step
        if instruction.opcode == "sub":
            return x_step - y_step
        if instruction.opcode == "mul" and others[0].is_constant:
            return x_step * int(others[0])
        return None

    def select(self, x: Instruction) -> None:
        """Write a selection, whose condition may be uniform."""
        assert x.result is not None
        if self.are_uniform(*x.operands):
            self.keep_scalar(x)
            return
        condition, *others = x.operands
        on_true, on_false = (self.vector(y) for y in others)
        is_uniform = self.are_uniform(condition)
        chosen = self.scalar(condition) if is_uniform else self.vector(condition)
        self.vectors[x.result] = self.write(replace(x, operands=(chosen, on_true, on_false)))

    def call(self, x: Instruction) -> None:
        """Write a call of the vector variant of a function."""
        callee, *operands = x.operands
        variant = self._variant(callee[1:], x.type, operands)
        if self.are_uniform(*operands):
            self.keep_scalar(x)
            return
        assert x.result is not None
        vectors = [self.vector(y) for y in operands]
        called = Value(f"@{variant}", "ptr"), *vectors
        self.vectors[x.result] = self.write(Instruction("call", called, type=self.type_of(x.type)))

    def _variant(self, name: str, kind: str, operands: Sequence[Value]) -> str:
        """Return the name of the vector variant of a function or intrinsic."""
        if not name.startswith("llvm."):
            return self.variants.variant(name, self.lanes, self.functions)
        _, operation, *_ = name.split(".")
        if operation not in INTRINSICS:
            raise NotVectorisedError(f"calls @{name}")
        type_ = self.type_of(kind)
        variant = f"llvm.{operation}.{intrinsic_suffix(type_)}"
        self.functions.setdefault(variant, Declaration(variant, type_, (type_,) * len(operands)))
        return variant

    # ---- memory ----------------------------------------------------------------------------------

    def address(self, x: Instruction) -> None:
        """Write the address of the first of several elements."""
        assert x.result is not None
        base, offset = x.operands
        if offset in self.vectors:
            raise NotVectorisedError("indirect access")
        if base in self.scalars or base in self.vectors or base in self._addresses:
            raise NotVectorisedError("the base of an access changes")
        pointer = self.write(replace(x, operands=(base, self.scalar(offset))))
        step = self.steps.get(offset, 0)
        self._addresses[x.result] = Address(x.type, base, offset, step, pointer)

    def _access(self, x: Instruction, pointer: Value, kind: str) -> Address:
        if x.suffix or kind not in BITS:
            raise NotVectorisedError(x.opcode)
        zero = Value(0, "i64")
        address = self._addresses.get(pointer) or Address(kind, pointer, zero, 0, pointer)
        if address.kind != kind:
            raise NotVectorisedError(f"memory of {address.kind} is accessed as {kind}")
        self.accesses.append((address, x.opcode == "store"))
        return address

    def load(self, x: Instruction) -> None:
        """Write a load of contiguous elements, or of a uniform one."""
        assert x.result is not None
        address = self._access(x, x.operands[0], x.type)
        if not address.step:
            self.scalars[x.result] = self.write(replace(x, operands=(address.pointer,)))
            return
        if address.step != 1:
            raise NotVectorisedError("a strided load")
        suffix = f", align {BITS[x.type] // 8}"
        wide = Instruction("load", (address.pointer,), type=self.type_of(x.type), suffix=suffix)
        self.vectors[x.result] = self.write(wide)

    def store(self, x: Instruction) -> None:
        """Write a store of contiguous elements."""
        value, pointer = x.operands
        address = self._access(x, pointer, value.type)
        if address.step != 1:
            raise NotVectorisedError("a strided or uniform store")
        operands, suffix = (self.vector(value), address.pointer), f", align {BITS[value.type] // 8}"
        self.instructions.append(Instruction("store", operands, suffix=suffix))


RULES: Mapping[str, Callable[[VectorBlock, Instruction], None]] = {
    **dict.fromkeys(ARITHMETIC, VectorBlock.arithmetic),
    **dict.fromkeys((*COMPARISONS, *CONVERSIONS), VectorBlock.widen),
    "call": VectorBlock.call,
    "fneg": VectorBlock.widen,
    "getelementptr": VectorBlock.address,
    "load": VectorBlock.load,
    "select": VectorBlock.select,
    "store": VectorBlock.store,
}
"""Vector forms of scalar instructions, by opcode; other opcodes have none."""


class VectorLoop(Structure):
    """Vectorised loop of one basic block.

    Attributes:
        functions: vector functions that it calls, by name.

    Args:
        widest: number of float64 in the processor's widest vectors.

    Raises:
        NotVectorisedError: the loop stays scalar.
    """

    def __init__(self, loop: Loop, widest: int, variants: VectorVariants) -> None:
        self.loop = loop
        self.functions: dict[str, Function | Declaration] = {}
        self.count = int(loop.count) if loop.count.is_constant else None
        self.lanes = _lanes(loop.body, widest, self.count)
        self.index = Value(f"{loop.index}.v", "i64")
        block = VectorBlock(self.lanes, variants, self.functions, f"{loop.index}.w")
        block.scalars[loop.index], block.steps[loop.index] = self.index, 1
        block.rewrite(loop.body)
        self._reads_written = _reads_written(block.accesses)
        self.body = block.instructions

    def flatten(self, to: list[Instruction], block: str) -> str:
        """Append the vector loop for a constant or a dynamic trip count, and the remainder loop if there is one."""
        loop, lanes, count = self.loop, self.lanes, self.count
        label, end = loop.label, loop.end
        loop.flatten_entry(to)
        if count is None:
            stop = self._name("w", "i64")
            to += [
                _label(label),
                Instruction("and", (loop.count, Value(-lanes, "i64")), stop),
                Instruction("icmp", (stop, Value(0, "i64")), self._name("s", "i1"), flags="sgt"),
                _branch(self._name("s", "i1"), f"{label}.v", f"{label}.l"),
            ]
            self._vector_loop(to, f"{label}.v", label, self._latch(stop), f"{label}.l")
            to += [
                _label(f"{label}.l"),
                Instruction("icmp", (stop, loop.count), self._name("l", "i1"), flags="slt"),
                _branch(self._name("l", "i1"), f"{label}.r", end),
            ]
            return loop.flatten_from(to, f"{label}.r", stop, f"{label}.l", has_metadata=False)
        if count % lanes and self._reads_written:
            stop = Value(count - count % lanes, "i64")
            self._vector_loop(to, label, block, self._latch(stop), f"{label}.r")
            return loop.flatten_from(to, f"{label}.r", stop, label, has_metadata=False)
        if count == lanes:
            zero = Value(0, "i64")
            to += [_label(label), Instruction("add", (zero, zero), self.index), *self.body]
            to.append(Instruction("br", labels=(end,)))
        else:
            latch = self._overlapping_latch() if count % lanes else self._latch(loop.count)
            self._vector_loop(to, label, block, latch, end)
        to.append(_label(end))
        return end

    def _name(self, suffix: str, type_: str) -> Value:
        return Value(f"{self.index}.{suffix}", type_)

    def _vector_loop(
        self, to: list[Instruction], label: str, before: str, latch: list[Instruction], after: str
    ) -> None:
        """Append the vector loop between its preheader and its exit."""
        first = Value(0, "i64"), self._name("f", "i64")
        to += [
            _label(label),
            Instruction("phi", first, self.index, "i64", labels=(before, label)),
            *self.body,
            *latch,
            _branch(self._name("m", "i1"), label, after),
        ]

    def _latch(self, stop: Value) -> list[Instruction]:
        following = self._name("f", "i64")
        step = self.index, Value(self.lanes, "i64")
        return [
            Instruction("add", step, following, flags="nsw"),
            Instruction("icmp", (following, stop), self._name("m", "i1"), flags="slt"),
        ]

    def _overlapping_latch(self) -> list[Instruction]:
        """Return the latch of a loop whose last vector overlaps the one before."""
        assert self.count is not None
        last = Value(self.count - self.lanes, "i64")
        following, is_inside = self._name("n", "i64"), self._name("o", "i1")
        return [
            Instruction("add", (self.index, Value(self.lanes, "i64")), following, flags="nsw"),
            Instruction("icmp", (following, last), is_inside, flags="slt"),
            Instruction("select", (is_inside, following, last), self._name("f", "i64")),
            Instruction("icmp", (self.index, last), self._name("m", "i1"), flags="slt"),
        ]


def _label(name: str) -> Instruction:
    return Instruction("label", labels=(name,))


def _branch(condition: Value, on_true: str, on_false: str) -> Instruction:
    return Instruction("br", (condition,), labels=(on_true, on_false))


def _lanes(body: Iterable[Any], widest: int, count: int | None) -> int:
    """Return the number of elements in a vector, by the widest element type.

    Raises:
        NotVectorisedError: a vector has a single element.
    """
    kinds = [
        x.operands[0].type if x.opcode == "store" else x.type
        for x in body
        if x.opcode in ("load", "store", *CONVERSIONS)
    ]
    bits = max([BITS.get(kind, 0) for kind in kinds], default=64)
    lanes = widest * 64 // max(bits, 32)
    while count is not None and lanes > count:
        lanes //= 2
    if lanes < 2:
        raise NotVectorisedError("a single element")
    return lanes


def _reads_written(accesses: list[tuple[Address, bool]]) -> bool:
    """Return whether a loop reads memory that it writes, in the same iteration.

    Memory that is written has one name, because arguments do not alias and addresses are computed once.

    Raises:
        NotVectorisedError: iterations may depend on each other.
    """
    written = {address.base: address for address, is_written in accesses if is_written}
    reads = False
    for address, is_written in accesses:
        other = written.get(address.base)
        if other is None:
            continue
        if address.offset != other.offset or address.kind != other.kind:
            raise NotVectorisedError("loop-carried dependence")
        reads = reads or not is_written
    return reads
