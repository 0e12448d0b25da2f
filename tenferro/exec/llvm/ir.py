"""LLVM IR as Python objects: values, instructions, functions and modules, which are printed as LLVM text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

__all__ = [
    "Declaration",
    "Function",
    "Functions",
    "Instruction",
    "Module",
    "Value",
    "VectorType",
    "result_type",
    "splat",
]

ARITHMETIC = frozenset((
    "add", "and", "ashr", "fadd", "fdiv", "fmul", "fneg", "frem", "fsub", "lshr", "mul", "or", "sdiv", "shl", "srem",
    "sub", "udiv", "urem", "xor",
))  # fmt: skip
"""Opcodes of instructions whose result has the type of the operands."""
COMPARISONS = ("fcmp", "icmp")
CONVERSIONS = (
    "bitcast", "fpext", "fptosi", "fptoui", "fptrunc", "ptrtoint", "sext", "sitofp", "trunc", "uitofp", "zext",
)  # fmt: skip
"""Opcodes of conversions; `Instruction.type` is the type of the result."""


class VectorType(str):
    """LLVM type of a vector, such as `<4 x double>`."""

    __slots__ = ("element", "lanes")
    lanes: int
    element: str

    def __new__(cls, lanes: int, element: str) -> VectorType:
        self = str.__new__(cls, f"<{lanes} x {element}>")
        self.lanes, self.element = lanes, element
        return self


class Value(str):
    """Typed name of a value, which begins with % or @, or typed text of a constant."""

    __slots__ = ("type",)
    type: str

    def __new__(cls, name: object, type_: str) -> Value:
        self = str.__new__(cls, name)
        self.type = type_
        return self


def splat(x: Value, lanes: int) -> Value:
    """Return the vector constant with the constant x in every lane.

    >>> splat(Value(1, "i64"), 2)
    '<i64 1, i64 1>'
    """
    return Value(f"<{', '.join([f'{x.type} {x}'] * lanes)}>", VectorType(lanes, x.type))


def result_type(opcode: str, operands: Sequence[Value], type_: str) -> str:
    """Return the type of an instruction's result: `type_` if the operands do not determine it."""
    if opcode in ARITHMETIC:
        return operands[0].type
    if opcode in COMPARISONS:
        kind = operands[0].type
        return VectorType(kind.lanes, "i1") if isinstance(kind, VectorType) else "i1"
    if opcode == "select":
        return operands[1].type
    first = operands[0].type if operands else ""
    if isinstance(first, VectorType):
        if opcode == "insertelement":
            return first
        if opcode == "extractelement":
            return first.element
        if opcode == "shufflevector":
            mask = operands[2].type
            assert isinstance(mask, VectorType)
            return VectorType(mask.lanes, first.element)
    assert type_, opcode
    return "ptr" if opcode in ("alloca", "getelementptr") else type_


@dataclass(slots=True)
class Instruction:
    """Instruction of a basic block, or the label at its start.

    Attributes:
        operands: the operands; the first operand of a call is the callee.
        type: the type of the result, of the elements at an address, or of memory, if operands do not determine it.
        flags: the predicate of a comparison, or flags such as `nsw`.
        labels: the targets of a branch, the blocks from which a phi node gets its operands, or the label.
        suffix: the alignment, metadata or attributes after the operands.
    """

    opcode: str
    operands: tuple[Value, ...] = ()
    result: Value | None = None
    type: str = ""
    flags: str = ""
    labels: tuple[str, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        if self.opcode == "label":
            return f"{self.labels[0][1:]}:"
        text = _PRINTERS.get(self.opcode, _arithmetic)(self)
        return f"  {text}" if self.result is None else f"  {self.result} = {text}"


def _typed(values: Iterable[Value]) -> str:
    return ", ".join([f"{x.type} {x}" for x in values])


def _arithmetic(x: Instruction) -> str:
    flags = f" {x.flags}" if x.flags else ""
    return f"{x.opcode}{flags} {x.operands[0].type} {', '.join(x.operands)}"


def _operation(x: Instruction) -> str:
    return f"{x.opcode} {_typed(x.operands)}{x.suffix}"


def _branch(x: Instruction) -> str:
    condition = f"i1 {x.operands[0]}, " if x.operands else ""
    return f"br {condition}{', '.join([f'label {label}' for label in x.labels])}{x.suffix}"


def _address(x: Instruction) -> str:
    flags = f" {x.flags}" if x.flags else ""
    return f"getelementptr{flags} {x.type}, {_typed(x.operands)}"


def _phi(x: Instruction) -> str:
    pairs = zip(x.operands, x.labels, strict=True)
    return f"phi {x.type} {', '.join([f'[{value}, {label}]' for value, label in pairs])}"


_PRINTERS: Mapping[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(CONVERSIONS, lambda x: f"{x.opcode} {_typed(x.operands)} to {x.type}"),
    **dict.fromkeys(
        ("extractelement", "insertelement", "select", "shufflevector", "store"), _operation
    ),
    "alloca": lambda x: (
        f"alloca {', '.join([x.type, *[f'i64 {n}' for n in x.operands]])}{x.suffix}"
    ),
    "br": _branch,
    "call": lambda x: f"call {x.type} {x.operands[0]}({_typed(x.operands[1:])}){x.suffix}",
    "fence": lambda x: f"fence {x.flags}",
    "getelementptr": _address,
    "load": lambda x: f"load {x.type}, {_typed(x.operands)}{x.suffix}",
    "phi": _phi,
    "ret": lambda x: f"ret {_typed(x.operands) or 'void'}",
}
"""Functions that print an instruction, by opcode; other opcodes are printed as arithmetic."""


@dataclass(frozen=True)
class Declaration:
    """Declaration of an external function."""

    name: str
    type: str
    parameters: tuple[str, ...]
    attributes: str = ""

    def __str__(self) -> str:
        return f"declare {self.type} @{self.name}({', '.join(self.parameters)}){self.attributes}"


@dataclass(frozen=True)
class Function:
    """Definition of a function.

    Attributes:
        parameters: the parameters; pointers are `noalias`.
        entry: the first instructions, which allocate memory on the stack.
        body: the other instructions; each basic block begins with its label.
        is_internal: whether only functions of the same module call it.
    """

    name: str
    type: str
    parameters: tuple[Value, ...]
    body: Sequence[Instruction]
    entry: Sequence[Instruction] = ()
    attributes: str = " nounwind"
    is_internal: bool = False

    @property
    def instructions(self) -> list[Instruction]:
        return [*self.entry, *self.body]

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """LLVM's text of the definition."""
        linkage = "internal " if self.is_internal else ""
        parameters = ", ".join([
            f"{x.type}{' noalias' if x.type == 'ptr' else ''} {x}" for x in self.parameters
        ])  # fmt: skip
        return "\n".join([
            f"define {linkage}{self.type} @{self.name}({parameters}){self.attributes} {{",
            "entry:",
            *[str(x) for x in self.instructions],
            "}",
        ])  # fmt: skip


Functions: TypeAlias = Mapping[str, "Function | Declaration"]


@dataclass(frozen=True)
class Module:
    """Module of functions that are compiled together.

    Attributes:
        globals: the constants and the metadata, as text.
        vector_functions: the definitions and declarations of functions that only vectorised loops call.
        retained: the names of functions that LLVM must keep although nothing calls them before loops are vectorised.
        is_vectorised: whether all loops use vectors, so that LLVM only has to move values from the stack to registers.
    """

    globals: Sequence[str]
    functions: Functions
    vector_functions: Functions = field(default_factory=dict)
    retained: Sequence[str] = ()
    is_vectorised: bool = False

    @cached_property
    def text(self) -> str:
        """LLVM text of the module with all functions."""
        if not self.retained:
            return self.plain
        used = ", ".join([f"ptr @{name}" for name in self.retained])
        type_, section = f"[{len(self.retained)} x ptr]", 'section "llvm.metadata"'
        return _joined([
            *self.globals,
            *self.functions.values(),
            "; called by vectorised loops only",
            *[x for name, x in self.vector_functions.items() if name not in self.functions],
            f"@llvm.compiler.used = appending global {type_} [{used}], {section}",
        ])  # fmt: skip

    @cached_property
    def plain(self) -> str:
        """LLVM text of the module without the functions that only vectorised loops call."""
        return _joined([*self.globals, *self.functions.values()])

    def printed(self) -> Module:
        """Return the module with its text instead of the definitions, which take several times as much memory."""
        declared = {name: x for name, x in self.functions.items() if isinstance(x, Declaration)}
        module = Module(self.globals, declared, is_vectorised=self.is_vectorised)
        module.__dict__.update(plain=self.plain, text=self.text)
        return module

    def is_calling(self, prefix: str) -> bool:
        """Return whether the name of a function begins with a prefix."""
        return any([name.startswith(prefix) for name in self.functions])


def _joined(parts: Iterable[object]) -> str:
    return "\n".join([*map(str, parts), ""])
