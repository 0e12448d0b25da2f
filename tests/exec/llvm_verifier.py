"""Verifier of LLVM modules: it checks definitions, regions, basic blocks, dominance and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.ir import Declaration, Function, Instruction, Module, VectorType

__all__ = ["InvalidError", "lines_of", "verify", "verify_function"]

FLOATS, INTEGERS = ("double", "float", "half"), ("i64", "i32", "i16", "i8", "i1")
INTEGER_ARITHMETIC = {"add", "and", "ashr", "lshr", "mul", "or", "sdiv", "shl", "srem", "sub", "udiv", "urem", "xor"}  # fmt: skip
FLOAT_ARITHMETIC = {"fadd", "fdiv", "fmul", "fneg", "frem", "fsub"}
WIDTHS = {"double": 64, "float": 32, "half": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1}
CONVERSIONS = {
    "bitcast": (WIDTHS, WIDTHS), "fpext": (FLOATS, FLOATS), "fptosi": (FLOATS, INTEGERS),
    "fptoui": (FLOATS, INTEGERS), "fptrunc": (FLOATS, FLOATS), "ptrtoint": (("ptr",), INTEGERS),
    "sext": (INTEGERS, INTEGERS), "sitofp": (INTEGERS, FLOATS), "trunc": (INTEGERS, INTEGERS),
    "uitofp": (INTEGERS, FLOATS), "zext": (INTEGERS, INTEGERS),
}  # fmt: skip
WIDENING, NARROWING = ("fpext", "sext", "zext"), ("fptrunc", "trunc")


class InvalidError(Exception):
    """Error for a module that violates a rule of LLVM."""


def lines_of(code: Code) -> list[str]:
    """Return the lines of the LLVM function under construction, without its entry block."""
    return [str(x) for x in code.region]


def require(condition: bool, rule: str, where: object) -> None:
    if not condition:
        raise InvalidError(f"{rule}: {str(where).strip()}")


def verify(module: Module) -> None:
    """Check every function of a module against the rules of LLVM.

    Raises:
        InvalidError: a rule is violated; the message names the rule.
    """
    functions = {**module.vector_functions, **module.functions}
    for function in functions.values():
        if isinstance(function, Function):
            verify_function(function, functions)


def verify_function(
    function: Function, functions: Mapping[str, Function | Declaration] | None = None
) -> None:
    """Check the basic blocks and loops of a function, that values are defined before use, and types."""
    blocks = blocks_of(function)
    require_closed_loops(function.instructions)
    definitions = {str(x): ("", -1, x.type) for x in function.parameters}
    require(len(definitions) == len(function.parameters), "one name per parameter", function.name)
    for label, block in blocks.items():
        for number, x in enumerate(block):
            if x.result is not None:
                require(str(x.result) not in definitions, "one definition per value", x)
                definitions[str(x.result)] = label, number, x.result.type
    dominators = dominators_of(blocks)
    for label, block in blocks.items():
        for number, x in enumerate(block):
            verify_types(x, function, functions)
            for position, y in enumerate(x.operands):
                if y[0] != "%":
                    continue
                require(str(y) in definitions, f"{y} is defined", x)
                where, line, kind = definitions[str(y)]
                require(kind == y.type, f"{y} has one type, {kind} and not {y.type}", x)
                user, use = (x.labels[position], 1 << 30) if x.opcode == "phi" else (label, number)
                is_before = line < use if where == user else where in dominators[user] or not where
                require(is_before, f"the definition of {y} dominates its use", x)


def require_closed_loops(instructions: Sequence[Instruction]) -> None:
    """Require that no instruction after a loop uses a value of its body, which ends with a branch to its start."""
    starts = {x.labels[0]: number for number, x in enumerate(instructions) if x.opcode == "label"}
    for end, branch in enumerate(instructions):
        start = (
            starts[branch.labels[0]] if branch.opcode == "br" and len(branch.labels) > 1 else end
        )
        inside = {str(x.result) for x in instructions[start:end]} if start < end else set[str]()
        for x in instructions[end + 1 :] if inside else ():
            for y in x.operands:
                require(y not in inside, f"{y} stays in the region of its loop", x)


def blocks_of(function: Function) -> dict[str, list[Instruction]]:
    """Return the basic blocks by label. Each must end with its only terminator, such as a branch."""
    blocks: dict[str, list[Instruction]] = {"%entry": []}
    label = "%entry"
    for x in function.instructions:
        if x.opcode == "label":
            (label,) = x.labels
            require(label not in blocks, "one block per label", x)
            blocks[label] = []
        else:
            blocks[label].append(x)
    for name, block in blocks.items():
        ends = [x.opcode in ("br", "ret") for x in block]
        require(bool(ends) and ends[-1] and not any(ends[:-1]), "one terminator, the last", name)
        for label in block[-1].labels:
            require(label in blocks, "a branch to a block", block[-1])
    return blocks


def dominators_of(blocks: Mapping[str, Sequence[Instruction]]) -> dict[str, set[str]]:
    """Return the blocks that dominate each block, the block itself included."""
    before: dict[str, list[str]] = {label: [] for label in blocks}
    for label, block in blocks.items():
        for target in block[-1].labels:
            before[target].append(label)
    for label, block in blocks.items():
        for x in block:
            if x.opcode == "phi":
                require(sorted(x.labels) == sorted(before[label]), "a value for each edge", x)
    dominators = {label: set(blocks) for label in blocks}
    dominators["%entry"] = {"%entry"}
    is_changed = True
    while is_changed:
        is_changed = False
        for label in blocks:
            if label != "%entry":
                common = set.intersection(*[dominators[x] for x in before[label]] or [set()])
                is_changed |= common | {label} != dominators[label]
                dominators[label] = common | {label}
    return dominators


def element(kind: str) -> str:
    return kind.element if isinstance(kind, VectorType) else kind


def lanes(kind: str) -> int:
    return kind.lanes if isinstance(kind, VectorType) else 0


def verify_types(
    x: Instruction, function: Function, functions: Mapping[str, Function | Declaration] | None
) -> None:
    """Require the types of operands and results that LLVM's language reference prescribes."""
    kinds = [y.type for y in x.operands]
    result = None if x.result is None else x.result.type
    first = kinds[0] if kinds else ""
    opcode = x.opcode
    if opcode in INTEGER_ARITHMETIC | FLOAT_ARITHMETIC:
        scalars = INTEGERS if opcode in INTEGER_ARITHMETIC else FLOATS
        right = set(kinds) == {result} and element(first) in scalars
        right &= len(kinds) == (1 if opcode == "fneg" else 2)
    elif opcode in ("icmp", "fcmp"):
        scalars = (*INTEGERS, "ptr") if opcode == "icmp" else FLOATS
        right = len({*kinds}) == 1 and element(first) in scalars and bool(x.flags)
        right &= result is not None and (element(result), lanes(result)) == ("i1", lanes(first))
    elif opcode == "select":
        right = element(first) == "i1" and kinds[1] == kinds[2] == result
        right &= lanes(first) in (0, lanes(kinds[1]))
    elif opcode in CONVERSIONS:
        old, new = CONVERSIONS[opcode]
        right = element(first) in old and element(x.type) in new and lanes(first) == lanes(x.type)
        right &= result == x.type and len(kinds) == 1
        if opcode in WIDENING:
            right &= WIDTHS[element(x.type)] > WIDTHS[element(first)]
        elif opcode in NARROWING:
            right &= WIDTHS[element(x.type)] < WIDTHS[element(first)]
        elif opcode == "bitcast":
            right &= WIDTHS[element(x.type)] == WIDTHS[element(first)]
    elif opcode == "load":
        right = kinds == ["ptr"] and result == x.type
    elif opcode == "store":
        right = len(kinds) == 2 and kinds[1] == "ptr" and result is None
    elif opcode == "getelementptr":
        right = kinds == ["ptr", "i64"] and result == "ptr" and bool(x.type)
    elif opcode == "alloca":
        right = kinds in ([], ["i64"]) and result == "ptr" and bool(x.type)
    elif opcode == "phi":
        right = set(kinds) == {result} == {x.type}
    elif opcode == "insertelement":
        right = [first, element(first), "i64"] == kinds and result == first and lanes(first) > 0
    elif opcode == "extractelement":
        right = kinds == [first, "i64"] and result == element(first) and lanes(first) > 0
    elif opcode == "shufflevector":
        right = kinds[0] == kinds[1] and element(kinds[2]) == "i32" and result is not None
        right &= (element(result or ""), lanes(result or "")) == (element(first), lanes(kinds[2]))
    elif opcode == "br":
        right = kinds == ["i1"] * (len(x.labels) - 1)
    elif opcode == "ret":
        right = (kinds or ["void"]) == [function.type]
    elif opcode == "call":
        right = first == "ptr" and (result or "void") == x.type
        if functions is not None and x.operands[0][0] == "@":
            callee = functions.get(x.operands[0][1:])
            require(callee is not None, "a callee that is declared", x)
            if isinstance(callee, Function):
                right &= [y.type for y in callee.parameters] == kinds[1:]
            elif callee is not None:
                right &= [*callee.parameters] == kinds[1:]
            right &= callee is not None and callee.type == x.type
    else:
        right = opcode == "fence"
    require(right, "types", x)
