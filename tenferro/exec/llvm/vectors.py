"""Innermost loops of a text written along vectors, for a call that does not wait for LLVM's passes.

Without passes, machine code computes one element in a turn. A loop of one block is written here as LLVM's vectoriser
would: each turn computes as many elements as a vector holds, with the same instructions on vectors, and so the same
bits. Index arithmetic stays on numbers, of which it is known how much they grow from element to element; what lies side
by side is read and written as a vector, and what is the same for all elements is copied to each lane.

Where the elements are no whole number of vectors, the last vector ends with the last element and computes some again;
where a loop reads what it writes, these few are left to the loop as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

__all__ = ["LOOP", "Definitions", "NotAlongVectorsError", "VectorLoop"]

BITS = {"double": 64, "i64": 64, "float": 32, "i32": 32, "half": 16, "i16": 16, "i8": 8, "i1": 8}
"""Of an element in memory, by its type."""
SUFFIXES = {"double": "f64", "float": "f32", "half": "f16"}
"""Of the names of LLVM's functions; of an integer it is the type."""
INTRINSICS = (
    "ceil", "copysign", "ctpop", "fabs", "floor", "fma", "maximum", "minimum", "rint", "smax", "smin", "sqrt", "umax",
    "umin",
)  # fmt: skip
"""LLVM's functions that are the same on vectors, and cost no more than an instruction or two."""
DIVIDE = ("sdiv", "udiv", "srem", "urem")
"""Instructions that processors do not have on vectors."""
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
"""A loop of one block, as `Code.loop` writes it."""
DEFINITION = re.compile(r"^define [^@]*@(\w+)\((.*)\) .*\{\n((?:.*\n)*?)\}$", re.MULTILINE)
DECLARATION = re.compile(r"^declare [^@]*@([\w.]+)\(.*$", re.MULTILINE)
CALLED = re.compile(r"call [^@]*@([\w.]+)\(")
STORE = re.compile(rf"store ({KIND}) (\S+), ptr (\S+)$")
LOAD = re.compile(rf"load ({KIND}), ptr (\S+)$")
ADDRESS = re.compile(rf"getelementptr inbounds ({KIND}), ptr (\S+), i64 (\S+)$")
TWO = re.compile(rf"(\w+)((?: \w+)*) ({KIND}) ([^ ,]+), ([^ ,]+)$")
CONVERTED = re.compile(rf"(\w+)((?: \w+)*) ({KIND}) ([^ ,]+) to ({KIND})$")
NEGATED = re.compile(rf"fneg ({KIND}) (\S+)$")
SELECT = re.compile(rf"select i1 ([^ ,]+), ({KIND}) ([^ ,]+), (?:{KIND}) ([^ ,]+)$")
CALL = re.compile(rf"call ({KIND}) @([\w.]+)\(([^)]*)\)")
NAME = re.compile(r"%[\w.]+")
OF_ELEMENTS = re.compile(rf"(?:load|store|to) ({KIND})")


class NotAlongVectorsError(Exception):
    """Why a loop stays as it is."""


class Address(NamedTuple):
    """Of an element.

    kind:   its type
    base:   where the memory begins
    offset: the name of its number there, in the loop as it was
    step:   elements from one turn's to the next one's
    name:   in the loop along vectors
    """

    kind: str
    base: str
    offset: str
    step: int
    name: str


class Definitions:
    """Functions that a text defines and declares.

    Args:
        text: the whole one, with what only loops along lanes call.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _defined(self) -> Mapping[str, re.Match[str]]:
        return {match[1]: match for match in DEFINITION.finditer(self._text)}

    @cached_property
    def _declared(self) -> Mapping[str, str]:
        return {match[1]: match[0] for match in DECLARATION.finditer(self._text)}

    def on_vectors(self, name: str, lanes: int, own: dict[str, str]) -> str:
        """The name of a function on vectors; its text, and those of its callees, are added to `own`.

        Raises:
            NotAlongVectorsError: a function that is no straight line of arithmetic, and is not there on vectors.
        """
        several = f"{name}_{lanes}"
        if several in self._defined:
            self._add(several, own)
        elif several not in own:
            if name not in self._defined:
                raise NotAlongVectorsError(f"calls @{name}")
            own[several] = self._widened(name, lanes, own)
        return several

    def _add(self, name: str, own: dict[str, str]) -> None:
        """Add a function of the module, with its callees."""
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

    def _widened(self, name: str, lanes: int, own: dict[str, str]) -> str:
        """The text of a function of one number, on vectors of them."""
        parameters, body = self._defined[name].groups()[1:]
        block = Block(lanes, self, own, "%w")
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


class Block:
    """Instructions on numbers, written again on vectors.

    Attributes:
        lines: what has been written.
        numbers: what is one number, by its name before.
        steps: how much such a one grows from element to element, if it does.
        vectors: what is a vector, by its name before.
        accesses: addresses that were read, and whether they were written.

    Args:
        lanes: of the vectors.
        definitions: what may be called.
        functions: that are called in the end, by name.
        prefix: of new names.
    """

    def __init__(
        self, lanes: int, definitions: Definitions, functions: dict[str, str], prefix: str
    ) -> None:
        self.lanes, self.definitions, self.functions = lanes, definitions, functions
        self.lines: list[str] = []
        self.numbers: dict[str, str] = {}
        self.steps: dict[str, int] = {}
        self.vectors: dict[str, str] = {}
        self.accesses: list[tuple[Address, bool]] = []
        self._prefix = prefix
        self._addresses: dict[str, Address] = {}
        self._copied: dict[tuple[str, str], str] = {}

    def write(self, line: str) -> None:
        """An instruction, once for all lanes.

        Raises:
            NotAlongVectorsError: one that vectors do not have.
        """
        name, is_value, instruction = line.partition(" = ")
        if not is_value:
            self._store(line)
            return
        write = self._WRITERS.get(instruction.partition(" ")[0], Block._two)
        write(self, name, instruction)

    def value(self, text: str) -> str:
        """The name of an instruction's result."""
        name = f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def vector(self, x: str, kind: str) -> str:
        """A value in each lane."""
        if x in self.vectors:
            return self.vectors[x]
        each = self._each(kind)
        if x[0] != "%":
            return f"<{', '.join([f'{kind} {x}'] * self.lanes)}>"
        if (x, kind) not in self._copied:
            first = self.value(f"insertelement {each} poison, {kind} {self._number(x)}, i64 0")
            places = f"<{self.lanes} x i32> zeroinitializer"
            copies = self.value(f"shufflevector {each} {first}, {each} poison, {places}")
            if step := self.steps.get(x, 0):
                grown = ", ".join([f"{kind} {step * lane}" for lane in range(self.lanes)])
                copies = self.value(f"add {each} {copies}, <{grown}>")
            self._copied[x, kind] = copies
        return self._copied[x, kind]

    def _number(self, x: str) -> str:
        return self.numbers.get(x, x)

    def _each(self, kind: str) -> str:
        return f"<{self.lanes} x {kind}>"

    def _are_numbers(self, *xs: str) -> bool:
        """Whether these are the same for all elements."""
        return not any([x in self.vectors or x in self.steps for x in xs])

    def _on_numbers(self, name: str, instruction: str) -> None:
        """The instruction, once for all elements."""
        self.numbers[name] = self.value(NAME.sub(lambda x: self._number(x[0]), instruction))

    # ---- memory ----------------------------------------------------------------------------------

    def _address(self, name: str, instruction: str) -> None:
        kind, base, offset = _parts(ADDRESS, instruction)
        if offset in self.vectors:
            raise NotAlongVectorsError("elements lie where others say")
        if base in self.numbers or base in self.vectors or base in self._addresses:
            raise NotAlongVectorsError("memory begins where the loop says")
        address = self.value(
            f"getelementptr inbounds {kind}, ptr {base}, i64 {self._number(offset)}"
        )
        self._addresses[name] = Address(kind, base, offset, self.steps.get(offset, 0), address)

    def _at(self, pointer: str, kind: str) -> Address:
        address = self._addresses.get(pointer) or Address(kind, pointer, "0", 0, pointer)
        if address.kind != kind:
            raise NotAlongVectorsError(f"{kind} lies where {address.kind} does")
        return address

    def _load(self, name: str, instruction: str) -> None:
        kind, pointer = _parts(LOAD, instruction)
        address = self._at(pointer, kind)
        self.accesses.append((address, False))
        if not address.step:
            self.numbers[name] = self.value(f"load {kind}, ptr {address.name}")
            return
        if address.step != 1:
            raise NotAlongVectorsError("elements do not lie side by side")
        each, align = self._each(kind), BITS[kind] // 8
        self.vectors[name] = self.value(f"load {each}, ptr {address.name}, align {align}")

    def _store(self, line: str) -> None:
        kind, x, pointer = _parts(STORE, line)
        address = self._at(pointer, kind)
        self.accesses.append((address, True))
        if address.step != 1:
            raise NotAlongVectorsError("elements are not written side by side")
        each, align = f"{self._each(kind)} {self.vector(x, kind)}", BITS[kind] // 8
        self.lines.append(f"  store {each}, ptr {address.name}, align {align}")

    # ---- arithmetic ------------------------------------------------------------------------------

    def _two(self, name: str, instruction: str) -> None:
        operation, flags, kind, x, y = _parts(TWO, instruction)
        step = 0 if self._are_numbers(x, y) else self._step(operation, kind, x, y)
        if step is not None:
            self._on_numbers(name, instruction)
            if step:
                self.steps[name] = step
            return
        if operation in DIVIDE:
            raise NotAlongVectorsError(f"{operation} of vectors")
        operands = f"{self.vector(x, kind)}, {self.vector(y, kind)}"
        self.vectors[name] = self.value(f"{operation}{flags} {self._each(kind)} {operands}")

    def _step(self, operation: str, kind: str, x: str, y: str) -> int | None:
        """How much a result grows from element to element, if that is known."""
        if kind != "i64" or x in self.vectors or y in self.vectors:
            return None
        of_x, of_y = self.steps.get(x, 0), self.steps.get(y, 0)
        if operation == "add":
            return of_x + of_y
        if operation == "sub":
            return of_x - of_y
        if operation == "mul" and y[0] != "%":
            return of_x * int(y)
        return None

    def _negated(self, name: str, instruction: str) -> None:
        kind, x = _parts(NEGATED, instruction)
        if self._are_numbers(x):
            self._on_numbers(name, instruction)
        else:
            self.vectors[name] = self.value(f"fneg {self._each(kind)} {self.vector(x, kind)}")

    def _converted(self, name: str, instruction: str) -> None:
        operation, flags, kind, x, result = _parts(CONVERTED, instruction)
        if self._are_numbers(x):
            self._on_numbers(name, instruction)
            return
        each = f"{self._each(kind)} {self.vector(x, kind)}"
        self.vectors[name] = self.value(f"{operation}{flags} {each} to {self._each(result)}")

    def _select(self, name: str, instruction: str) -> None:
        condition, kind, x, y = _parts(SELECT, instruction)
        if self._are_numbers(condition, x, y):
            self._on_numbers(name, instruction)
            return
        each = self._each(kind)
        operands = f"{each} {self.vector(x, kind)}, {each} {self.vector(y, kind)}"
        if self._are_numbers(condition):
            chosen = f"i1 {self._number(condition)}"
        else:
            chosen = f"{self._each('i1')} {self.vector(condition, 'i1')}"
        self.vectors[name] = self.value(f"select {chosen}, {operands}")

    def _call(self, name: str, instruction: str) -> None:
        kind, function, listed = _parts(CALL, instruction)
        operands = [each.split(" ") for each in listed.split(", ")]
        several = self._function(function, kind, len(operands))
        if self._are_numbers(*[x for _, x in operands]):
            self._on_numbers(name, instruction)
            return
        each = ", ".join([f"{self._each(type_)} {self.vector(x, type_)}" for type_, x in operands])
        self.vectors[name] = self.value(f"call {self._each(kind)} @{several}({each})")

    def _function(self, name: str, kind: str, arity: int) -> str:
        """The name of a function on vectors."""
        if not name.startswith("llvm."):
            return self.definitions.on_vectors(name, self.lanes, self.functions)
        operation = name.split(".")[1]
        if operation not in INTRINSICS:
            raise NotAlongVectorsError(f"calls @{name}")
        several = f"llvm.{operation}.v{self.lanes}{SUFFIXES.get(kind, kind)}"
        each = self._each(kind)
        declared = f"declare {each} @{several}({', '.join([each] * arity)})"
        self.functions.setdefault(several, declared)
        return several

    _WRITERS: ClassVar[Mapping[str, Callable[[Any, str, str], None]]] = {
        "getelementptr": _address,
        "load": _load,
        "fneg": _negated,
        "select": _select,
        "call": _call,
        **dict.fromkeys(CONVERSIONS, _converted),
    }
    """What writes an instruction; one of two operands has none of its own."""


def _parts(form: re.Pattern[str], instruction: str) -> tuple[str, ...]:
    match = form.match(instruction)
    if match is None:
        raise NotAlongVectorsError(instruction.partition(" ")[0])
    return match.groups()


class VectorLoop:
    """A loop of one block along vectors.

    Attributes:
        text: in place of the loop's.
        functions: what it calls, by name.

    Args:
        loop: a match of `LOOP`.
        widest: lanes of float64 that the processor's vectors hold.

    Raises:
        NotAlongVectorsError: why the loop stays as it is.
    """

    def __init__(self, loop: re.Match[str], widest: int, definitions: Definitions) -> None:
        self.loop = loop
        self.functions: dict[str, str] = {}
        count = int(loop["count"]) if loop["count"].isdigit() else None
        self.lanes = _lanes(loop["body"], widest, count)
        block = Block(self.lanes, definitions, self.functions, f"{loop['i']}.w")
        block.numbers[loop["i"]], block.steps[loop["i"]] = f"{loop['i']}.v", 1
        increment = f"  {loop['following']} = "
        for line in loop["body"].splitlines():
            if not line.startswith(increment):
                block.write(line[2:])
        reads_written = _reads_written(block.accesses)
        self.lines = block.lines
        if count is None:
            self.text = self._of_any_count()
        elif count % self.lanes and reads_written:
            self.text = self._and_rest(str(count - count % self.lanes))
        else:
            self.text = self._of_count(count)

    def _of_count(self, count: int) -> str:
        """All elements, the last vector of which may lie over the one before."""
        names, i, lanes = self.loop, f"{self.loop['i']}.v", self.lanes
        label, end, last = names["label"], names["end"], count - lanes
        if not last:
            first = f"  {i} = add i64 0, 0"
            return _joined(f"{label}:", first, *self.lines, f"  br label %{end}", f"{end}:")
        if count % lanes:
            following = (
                f"  {i}.n = add nsw i64 {i}, {lanes}",
                f"  {i}.o = icmp slt i64 {i}.n, {last}",
                f"  {i}.f = select i1 {i}.o, i64 {i}.n, i64 {last}",
                f"  {i}.m = icmp slt i64 {i}, {last}",
            )
        else:
            following = self._following(str(count))
        return _joined(*self._vectors(label, names["before"], following, end), f"{end}:")

    def _of_any_count(self) -> str:
        """Whole vectors, if there are any, then the loop for the rest, if there is one."""
        names, i = self.loop, f"{self.loop['i']}.v"
        label, count = names["label"], names["count"]
        return _joined(
            f"{label}:",
            f"  {i}.w = and i64 {count}, {-self.lanes}",
            f"  {i}.s = icmp sgt i64 {i}.w, 0",
            f"  br i1 {i}.s, label %{label}.v, label %{label}.l",
            *self._vectors(f"{label}.v", label, self._following(f"{i}.w"), f"{label}.l"),
            f"{label}.l:",
            f"  {i}.l = icmp slt i64 {i}.w, {count}",
            f"  br i1 {i}.l, label %{label}.r, label %{names['end']}",
            *self._rest(f"{i}.w", f"{label}.l"),
        )

    def _and_rest(self, whole: str) -> str:
        """Whole vectors, then the loop for the rest."""
        label, before = self.loop["label"], self.loop["before"]
        vectors = self._vectors(label, before, self._following(whole), f"{label}.r")
        return _joined(*vectors, *self._rest(whole, label))

    def _vectors(
        self, label: str, before: str, following: tuple[str, ...], after: str
    ) -> tuple[str, ...]:
        """The block of vectors, which is entered from one block and left to another."""
        i = f"{self.loop['i']}.v"
        return (
            f"{label}:",
            f"  {i} = phi i64 [0, %{before}], [{i}.f, %{label}]",
            *self.lines,
            *following,
            f"  br i1 {i}.m, label %{label}, label %{after}",
        )

    def _following(self, stop: str) -> tuple[str, str]:
        i = f"{self.loop['i']}.v"
        return f"  {i}.f = add nsw i64 {i}, {self.lanes}", f"  {i}.m = icmp slt i64 {i}.f, {stop}"

    def _rest(self, first: str, before: str) -> tuple[str, ...]:
        """The loop as it was, from an index on."""
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


def _joined(*lines: str) -> str:
    return "\n".join([*lines, ""])


def _lanes(body: str, widest: int, count: int | None) -> int:
    """How many elements a vector has, by the largest of them.

    Raises:
        NotAlongVectorsError: fewer than two elements.
    """
    bits = max([BITS[kind] for kind in OF_ELEMENTS.findall(body)], default=64)
    lanes = widest * 64 // max(bits, 32)
    while count is not None and lanes > count:
        lanes //= 2
    if lanes < 2:
        raise NotAlongVectorsError("a single element")
    return lanes


def _reads_written(accesses: list[tuple[Address, bool]]) -> bool:
    """Whether an element is read from where the loop writes one: it must be the turn's own.

    Memory that is written has one name: arguments lie apart, and what begins inside of one is computed once.

    Raises:
        NotAlongVectorsError: one turn may read or write what another one does.
    """
    written = {address.base: address for address, is_written in accesses if is_written}
    reads = False
    for address, is_written in accesses:
        other = written.get(address.base)
        if other is None:
            continue
        if address.offset != other.offset or address.kind != other.kind:
            raise NotAlongVectorsError("turns share memory")
        reads = reads or not is_written
    return reads
