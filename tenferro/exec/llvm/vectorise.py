"""Vectoriser of innermost loops, for baseline code that is compiled without LLVM's passes.

A loop of one basic block is rewritten with the same instructions on vectors, so results have the same bits. Induction
variables and uniform values stay scalar. Contiguous elements are loaded and stored as vectors, and uniform operands are
broadcast to all lanes.

If the trip count is no multiple of the vector length, the last vector overlaps the one before and recomputes some
elements. A loop that reads memory it writes gets a scalar remainder loop instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

__all__ = ["LOOP", "Definitions", "NotVectorisedError", "VectorLoop"]

BITS = {"double": 64, "i64": 64, "float": 32, "i32": 32, "half": 16, "i16": 16, "i8": 8, "i1": 8}
"""Size of an element in memory in bits, by its type."""
SUFFIXES = {"double": "f64", "float": "f32", "half": "f16"}
"""Suffixes of LLVM's intrinsics; for integers the type."""
INTRINSICS = (
    "ceil", "copysign", "ctpop", "fabs", "floor", "fma", "maximum", "minimum", "rint", "smax", "smin", "sqrt", "umax",
    "umin",
)  # fmt: skip
"""Intrinsics with a vector form of one or two instructions."""
DIVISIONS = ("sdiv", "udiv", "srem", "urem")
"""Instructions without a vector form on processors."""
CONVERSIONS = (
    "bitcast", "fpext", "fptosi", "fptoui", "fptrunc", "sext", "sitofp", "trunc", "uitofp", "zext",
)  # fmt: skip
KIND = "double|float|half|i64|i32|i16|i8|i1"
LOOP = re.compile(
    r"^(?P<label>body\d+):\n"
    r"  (?P<i>%i\d+) = phi i64 \[0, %(?P<before>\w+)\], \[(?P<following>%v\d+), %(?P=label)\]\n"
    r"(?P<body>(?:  .*\n)*?)"
    r"  (?P<more>%more\d+) = icmp slt i64 (?P=following), (?P<count>\S+)\n"
    r"  br i1 (?P=more), label %(?P=label), label %(?P<end>end\d+).*\n"
    r"(?P=end):\n",
    re.MULTILINE,
)
"""Loop of one basic block, as `Code.loop` writes it."""
DEFINITION = re.compile(r"^define [^@]*@(\w+)\((.*)\) .*\{\n((?:.*\n)*?)\}$", re.MULTILINE)
DECLARATION = re.compile(r"^declare [^@]*@([\w.]+)\(.*$", re.MULTILINE)
CALLED = re.compile(r"call [^@]*@([\w.]+)\(")
STORE = re.compile(rf"store ({KIND}) (\S+), ptr (\S+)$")
LOAD = re.compile(rf"load ({KIND}), ptr (\S+)$")
ADDRESS = re.compile(rf"getelementptr inbounds ({KIND}), ptr (\S+), i64 (\S+)$")
BINARY = re.compile(rf"(\w+)((?: \w+)*) ({KIND}) ([^ ,]+), ([^ ,]+)$")
CONVERT = re.compile(rf"(\w+)((?: \w+)*) ({KIND}) ([^ ,]+) to ({KIND})$")
NEGATE = re.compile(rf"fneg ({KIND}) (\S+)$")
SELECT = re.compile(rf"select i1 ([^ ,]+), ({KIND}) ([^ ,]+), (?:{KIND}) ([^ ,]+)$")
CALL = re.compile(rf"call ({KIND}) @([\w.]+)\(([^)]*)\)")
NAME = re.compile(r"%[\w.]+")
ELEMENT_KINDS = re.compile(rf"(?:load|store|to) ({KIND})")


class NotVectorisedError(Exception):
    """Reason why a loop stays scalar."""


class Address(NamedTuple):
    """Address of an element.

    kind:   type of the element
    base:   pointer to the memory
    offset: name of the index, in the scalar loop
    step:   stride between iterations, in elements
    name:   pointer in the vector loop
    """

    kind: str
    base: str
    offset: str
    step: int
    name: str


class Definitions:
    """Functions that a text defines and declares, with those that only vectorised loops call."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _defined(self) -> Mapping[str, re.Match[str]]:
        return {match[1]: match for match in DEFINITION.finditer(self._text)}

    @cached_property
    def _declared(self) -> Mapping[str, str]:
        return {match[1]: match[0] for match in DECLARATION.finditer(self._text)}

    def vector_function(self, name: str, lanes: int, own: dict[str, str]) -> str:
        """Return the name of the vector variant of a function, and add it and its callees to `own`.

        Raises:
            NotVectorisedError: the function has no vector variant and is no basic block of arithmetic.
        """
        variant = f"{name}_{lanes}"
        if variant in self._defined:
            self._add(variant, own)
        elif variant not in own:
            if name not in self._defined:
                raise NotVectorisedError(f"calls @{name}")
            own[variant] = self._vectorised(name, lanes, own)
        return variant

    def _add(self, name: str, own: dict[str, str]) -> None:
        """Add a function of the module and its callees."""
        names = [name]
        while names:
            name = names.pop()
            if name in own:
                continue
            if name in self._defined:
                own[name] = self._defined[name][0]
                names += CALLED.findall(own[name])
            else:
                own[name] = self._declared[name]

    def _vectorised(self, name: str, lanes: int, own: dict[str, str]) -> str:
        """Return the text of the vector variant of a scalar function."""
        parameters, body = self._defined[name].groups()[1:]
        block = VectorBlock(lanes, self, own, "%w")
        operands: list[str] = []
        for parameter in parameters.split(", "):
            kind, x = parameter.split(" ")
            block.vectors[x] = x
            operands.append(f"<{lanes} x {kind}> {x}")
        *lines, last = body.splitlines()
        for line in lines:
            block.write(line[2:])
        _, kind, y = last.split()
        result = block.vector(y, kind)
        return "\n".join([
            f"define internal <{lanes} x {kind}> @{name}_{lanes}({', '.join(operands)}) nounwind {{",
            *block.lines,
            f"  ret <{lanes} x {kind}> {result}",
            "}",
        ])  # fmt: skip


class VectorBlock:
    """Basic block whose scalar instructions are rewritten on vectors.

    Attributes:
        lines: the rewritten instructions.
        scalars: values that stay scalar, by their names in the scalar loop.
        steps: increment of such a value between iterations, if it is not 0.
        vectors: values that are vectors, by their names in the scalar loop.
        accesses: addresses of memory accesses, and whether they are stores.

    Args:
        lanes: number of elements in a vector.
        definitions: functions of the text.
        functions: vector variants that are called, by name.
        prefix: prefix of new names.
    """

    def __init__(
        self, lanes: int, definitions: Definitions, functions: dict[str, str], prefix: str
    ) -> None:
        self.lanes, self.definitions, self.functions = lanes, definitions, functions
        self.lines: list[str] = []
        self.scalars: dict[str, str] = {}
        self.steps: dict[str, int] = {}
        self.vectors: dict[str, str] = {}
        self.accesses: list[tuple[Address, bool]] = []
        self._prefix = prefix
        self._addresses: dict[str, Address] = {}
        self._broadcasts: dict[tuple[str, str], str] = {}

    def write(self, line: str) -> None:
        """Rewrite an instruction.

        Raises:
            NotVectorisedError: it has no vector form.
        """
        name, is_value, instruction = line.partition(" = ")
        if not is_value:
            self._store(line)
            return
        write = self._WRITERS.get(instruction.partition(" ")[0], VectorBlock._binary)
        write(self, name, instruction)

    def value(self, text: str) -> str:
        """Write an instruction and return the name of its result."""
        name = f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def vector(self, x: str, kind: str) -> str:
        """Return a value as a vector, broadcast if it is scalar."""
        if x in self.vectors:
            return self.vectors[x]
        type_ = self._vector_type(kind)
        if x[0] != "%":
            return f"<{', '.join([f'{kind} {x}'] * self.lanes)}>"
        if (x, kind) not in self._broadcasts:
            first = self.value(f"insertelement {type_} poison, {kind} {self._scalar(x)}, i64 0")
            mask = f"<{self.lanes} x i32> zeroinitializer"
            copies = self.value(f"shufflevector {type_} {first}, {type_} poison, {mask}")
            if step := self.steps.get(x, 0):
                offsets = ", ".join([f"{kind} {step * lane}" for lane in range(self.lanes)])
                copies = self.value(f"add {type_} {copies}, <{offsets}>")
            self._broadcasts[x, kind] = copies
        return self._broadcasts[x, kind]

    def _scalar(self, x: str) -> str:
        return self.scalars.get(x, x)

    def _vector_type(self, kind: str) -> str:
        return f"<{self.lanes} x {kind}>"

    def _are_uniform(self, *xs: str) -> bool:
        """Return whether values are the same in all iterations."""
        return not any([x in self.vectors or x in self.steps for x in xs])

    def _keep_scalar(self, name: str, instruction: str) -> None:
        """Write an instruction on scalars as it is."""
        self.scalars[name] = self.value(NAME.sub(lambda x: self._scalar(x[0]), instruction))

    # ---- memory ----------------------------------------------------------------------------------

    def _address(self, name: str, instruction: str) -> None:
        kind, base, offset = _match(ADDRESS, instruction)
        if offset in self.vectors:
            raise NotVectorisedError("indirect access")
        if base in self.scalars or base in self.vectors or base in self._addresses:
            raise NotVectorisedError("the base of an access changes")
        address = self.value(
            f"getelementptr inbounds {kind}, ptr {base}, i64 {self._scalar(offset)}"
        )
        self._addresses[name] = Address(kind, base, offset, self.steps.get(offset, 0), address)

    def _at(self, pointer: str, kind: str) -> Address:
        address = self._addresses.get(pointer) or Address(kind, pointer, "0", 0, pointer)
        if address.kind != kind:
            raise NotVectorisedError(f"memory of {address.kind} is accessed as {kind}")
        return address

    def _load(self, name: str, instruction: str) -> None:
        kind, pointer = _match(LOAD, instruction)
        address = self._at(pointer, kind)
        self.accesses.append((address, False))
        if not address.step:
            self.scalars[name] = self.value(f"load {kind}, ptr {address.name}")
            return
        if address.step != 1:
            raise NotVectorisedError("a strided load")
        type_, align = self._vector_type(kind), BITS[kind] // 8
        self.vectors[name] = self.value(f"load {type_}, ptr {address.name}, align {align}")

    def _store(self, line: str) -> None:
        kind, x, pointer = _match(STORE, line)
        address = self._at(pointer, kind)
        self.accesses.append((address, True))
        if address.step != 1:
            raise NotVectorisedError("a strided or uniform store")
        value, align = f"{self._vector_type(kind)} {self.vector(x, kind)}", BITS[kind] // 8
        self.lines.append(f"  store {value}, ptr {address.name}, align {align}")

    # ---- arithmetic ------------------------------------------------------------------------------

    def _binary(self, name: str, instruction: str) -> None:
        operation, flags, kind, x, y = _match(BINARY, instruction)
        step = 0 if self._are_uniform(x, y) else self._step(operation, kind, x, y)
        if step is not None:
            self._keep_scalar(name, instruction)
            if step:
                self.steps[name] = step
            return
        if operation in DIVISIONS:
            raise NotVectorisedError(f"{operation} of vectors")
        operands = f"{self.vector(x, kind)}, {self.vector(y, kind)}"
        self.vectors[name] = self.value(f"{operation}{flags} {self._vector_type(kind)} {operands}")

    def _step(self, operation: str, kind: str, x: str, y: str) -> int | None:
        """Return the increment of a result between iterations if the result can stay scalar, else None."""
        if kind != "i64" or x in self.vectors or y in self.vectors:
            return None
        x_step, y_step = self.steps.get(x, 0), self.steps.get(y, 0)
        if operation == "add":
            return x_step + y_step
        if operation == "sub":
            return x_step - y_step
        if operation == "mul" and y[0] != "%":
            return x_step * int(y)
        return None

    def _negate(self, name: str, instruction: str) -> None:
        kind, x = _match(NEGATE, instruction)
        if self._are_uniform(x):
            self._keep_scalar(name, instruction)
        else:
            self.vectors[name] = self.value(
                f"fneg {self._vector_type(kind)} {self.vector(x, kind)}"
            )

    def _convert(self, name: str, instruction: str) -> None:
        operation, flags, kind, x, result = _match(CONVERT, instruction)
        if self._are_uniform(x):
            self._keep_scalar(name, instruction)
            return
        value = f"{self._vector_type(kind)} {self.vector(x, kind)}"
        self.vectors[name] = self.value(
            f"{operation}{flags} {value} to {self._vector_type(result)}"
        )

    def _select(self, name: str, instruction: str) -> None:
        condition, kind, x, y = _match(SELECT, instruction)
        if self._are_uniform(condition, x, y):
            self._keep_scalar(name, instruction)
            return
        type_ = self._vector_type(kind)
        operands = f"{type_} {self.vector(x, kind)}, {type_} {self.vector(y, kind)}"
        if self._are_uniform(condition):
            chosen = f"i1 {self._scalar(condition)}"
        else:
            chosen = f"{self._vector_type('i1')} {self.vector(condition, 'i1')}"
        self.vectors[name] = self.value(f"select {chosen}, {operands}")

    def _call(self, name: str, instruction: str) -> None:
        kind, function, listed = _match(CALL, instruction)
        operands = [operand.split(" ") for operand in listed.split(", ")]
        variant = self._function(function, kind, len(operands))
        if self._are_uniform(*[x for _, x in operands]):
            self._keep_scalar(name, instruction)
            return
        arguments = ", ".join(
            [f"{self._vector_type(type_)} {self.vector(x, type_)}" for type_, x in operands]
        )
        self.vectors[name] = self.value(f"call {self._vector_type(kind)} @{variant}({arguments})")

    def _function(self, name: str, kind: str, arity: int) -> str:
        """Return the name of the vector variant of a function or intrinsic."""
        if not name.startswith("llvm."):
            return self.definitions.vector_function(name, self.lanes, self.functions)
        operation = name.split(".")[1]
        if operation not in INTRINSICS:
            raise NotVectorisedError(f"calls @{name}")
        variant = f"llvm.{operation}.v{self.lanes}{SUFFIXES.get(kind, kind)}"
        type_ = self._vector_type(kind)
        declared = f"declare {type_} @{variant}({', '.join([type_] * arity)})"
        self.functions.setdefault(variant, declared)
        return variant

    _WRITERS: ClassVar[Mapping[str, Callable[[Any, str, str], None]]] = {
        "getelementptr": _address,
        "load": _load,
        "fneg": _negate,
        "select": _select,
        "call": _call,
        **dict.fromkeys(CONVERSIONS, _convert),
    }
    """Writers by opcode; all other opcodes are binary."""


def _match(pattern: re.Pattern[str], instruction: str) -> tuple[str, ...]:
    match = pattern.match(instruction)
    if match is None:
        raise NotVectorisedError(instruction.partition(" ")[0])
    return match.groups()


class VectorLoop:
    """Vectorised loop of one basic block.

    Attributes:
        text: replacement of the scalar loop.
        functions: vector functions that it calls, by name.

    Args:
        loop: match of `LOOP`.
        widest: number of float64 in the processor's widest vectors.

    Raises:
        NotVectorisedError: the loop stays scalar.
    """

    def __init__(self, loop: re.Match[str], widest: int, definitions: Definitions) -> None:
        self.loop = loop
        self.functions: dict[str, str] = {}
        count = int(loop["count"]) if loop["count"].isdigit() else None
        self.lanes = _lanes(loop["body"], widest, count)
        block = VectorBlock(self.lanes, definitions, self.functions, f"{loop['i']}.w")
        block.scalars[loop["i"]], block.steps[loop["i"]] = f"{loop['i']}.v", 1
        increment = f"  {loop['following']} = "
        for line in loop["body"].splitlines():
            if not line.startswith(increment):
                block.write(line[2:])
        reads_written = _reads_written(block.accesses)
        self.lines = block.lines
        if count is None:
            self.text = self._dynamic_count()
        elif count % self.lanes and reads_written:
            self.text = self._with_remainder(str(count - count % self.lanes))
        else:
            self.text = self._static_count(count)

    def _static_count(self, count: int) -> str:
        """Return the loop for a constant trip count, whose last vector may overlap the one before."""
        names, i, lanes = self.loop, f"{self.loop['i']}.v", self.lanes
        label, end, last = names["label"], names["end"], count - lanes
        if not last:
            first = f"  {i} = add i64 0, 0"
            return _join(f"{label}:", first, *self.lines, f"  br label %{end}", f"{end}:")
        if count % lanes:
            following = (
                f"  {i}.n = add nsw i64 {i}, {lanes}",
                f"  {i}.o = icmp slt i64 {i}.n, {last}",
                f"  {i}.f = select i1 {i}.o, i64 {i}.n, i64 {last}",
                f"  {i}.m = icmp slt i64 {i}, {last}",
            )
        else:
            following = self._latch(str(count))
        return _join(*self._vector_loop(label, names["before"], following, end), f"{end}:")

    def _dynamic_count(self) -> str:
        """Return the loop for a dynamic trip count: full vectors, then the remainder loop."""
        names, i = self.loop, f"{self.loop['i']}.v"
        label, count = names["label"], names["count"]
        return _join(
            f"{label}:",
            f"  {i}.w = and i64 {count}, {-self.lanes}",
            f"  {i}.s = icmp sgt i64 {i}.w, 0",
            f"  br i1 {i}.s, label %{label}.v, label %{label}.l",
            *self._vector_loop(f"{label}.v", label, self._latch(f"{i}.w"), f"{label}.l"),
            f"{label}.l:",
            f"  {i}.l = icmp slt i64 {i}.w, {count}",
            f"  br i1 {i}.l, label %{label}.r, label %{names['end']}",
            *self._remainder(f"{i}.w", f"{label}.l"),
        )

    def _with_remainder(self, stop: str) -> str:
        """Return the loop over full vectors up to `stop`, then the remainder loop."""
        label, before = self.loop["label"], self.loop["before"]
        vectors = self._vector_loop(label, before, self._latch(stop), f"{label}.r")
        return _join(*vectors, *self._remainder(stop, label))

    def _vector_loop(
        self, label: str, before: str, following: tuple[str, ...], after: str
    ) -> tuple[str, ...]:
        """Return the vector loop between its preheader and its exit."""
        i = f"{self.loop['i']}.v"
        return (
            f"{label}:",
            f"  {i} = phi i64 [0, %{before}], [{i}.f, %{label}]",
            *self.lines,
            *following,
            f"  br i1 {i}.m, label %{label}, label %{after}",
        )

    def _latch(self, stop: str) -> tuple[str, str]:
        i = f"{self.loop['i']}.v"
        return f"  {i}.f = add nsw i64 {i}, {self.lanes}", f"  {i}.m = icmp slt i64 {i}.f, {stop}"

    def _remainder(self, first: str, before: str) -> tuple[str, ...]:
        """Return the scalar loop from an index on."""
        names, label = self.loop, f"{self.loop['label']}.r"
        i, following, end = names["i"], names["following"], names["end"]
        return (
            f"{label}:",
            f"  {i} = phi i64 [{first}, %{before}], [{following}, %{label}]",
            names["body"].rstrip("\n"),
            f"  {names['more']} = icmp slt i64 {following}, {names['count']}",
            f"  br i1 {names['more']}, label %{label}, label %{end}",
            f"{end}:",
        )


def _join(*lines: str) -> str:
    return "\n".join([*lines, ""])


def _lanes(body: str, widest: int, count: int | None) -> int:
    """Return the number of elements in a vector, by the widest element type.

    Raises:
        NotVectorisedError: a vector has a single element.
    """
    bits = max([BITS[kind] for kind in ELEMENT_KINDS.findall(body)], default=64)
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
