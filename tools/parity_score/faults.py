"""Edits of a module that change its meaning, as a fault in a compiler would; each changes one line of the text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Edit", "faults"]


@dataclass(frozen=True)
class Edit:
    """A module with one edited line.

    Attributes:
        kind: the kind of fault.
        line: the number of the line, counted from 1.
        text: the edited module.
    """

    kind: str
    line: int
    text: str


WORDS = {
    "sine": "cosine", "cosine": "sine", "exponential": "exponential_minus_one", "log": "log_plus_one",
    "exponential_minus_one": "exponential", "log_plus_one": "log", "sqrt": "cbrt", "rsqrt": "sqrt",
    "tanh": "logistic", "logistic": "tanh", "add": "subtract", "subtract": "add", "multiply": "divide",
    "divide": "multiply", "maximum": "minimum", "minimum": "maximum", "floor": "ceil", "ceil": "floor",
    "and": "or", "or": "and", "real": "imag", "imag": "real",
}  # fmt: skip
"""Faulty replacement of each operation: another operation with operands and results of the same types."""
DIRECTIONS = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT", "EQ": "NE", "NE": "EQ"}
RESULT = re.compile(r"^(\s*)(%[\w#:]+) = ")
BINARY = re.compile(
    r"(stablehlo\.(?:subtract|divide|power|atan2|remainder) )(%[\w#]+), (%[\w#]+)( :)"
)
UNARY = re.compile(
    r"^\s*(%\w+) = stablehlo\.(?:negate|abs|reverse|floor|round_nearest_even) (%[\w#]+)\b.*: tensor<[^>]*>$"
)
TERM = re.compile(r"^\s*(%\w+) = stablehlo\.add (%[\w#]+), (%[\w#]+) : tensor<.*f\d+>+$")
SELECT = re.compile(r"(stablehlo\.select %[\w#]+), (%[\w#]+), (%[\w#]+)( :)")
SLICE = re.compile(r"(stablehlo\.slice %[\w#]+ \[)([^\]]*)(\] : \(tensor<)([\dx]*)x")
SQUARE = re.compile(r"dims = \[1, 0\] : \(tensor<(\d+)x\1x")
REDUCED = re.compile(r"(across dimensions = \[)(\d)(\] : \(tensor<)(\d+)x\4x(\w+>)")
CONTRACTED = re.compile(
    r"(contracting_dims = \[)(\d)(\] x \[)(\d)(\].*: \(tensor<)(\d+)x\6x(\w+>, tensor<)\6x\6x"
)
NUMBER = re.compile(
    r"(stablehlo\.constant dense<)(-?\d+\.?\d*(?:[eE][-+]?\d+)?)(> : tensor<[\dx]*(f32|f64|i32|i64)>)"
)
SUMS = re.compile(
    r"^(\s*)(%\w+) = (stablehlo\.(?:dot_general|reduce)\b.*(tensor<[\dx]*f(?:32|64)>))$"
)
ROUNDED = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.round_nearest_even %[\w#]+ : tensor<([\dx]+xf\d+)>$"
)
BRANCH = re.compile(r'("stablehlo\.case"\()(%[\w#]+)(\))')


def faults(text: str) -> Iterator[Edit]:
    """Yield every fault that can be made in the module by changing one line."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if " = " not in line:
            continue
        for kind, change in KINDS.items():
            for changed in change(line):
                if callable(changed):
                    yield Edit(kind, number + 1, "\n".join(changed(lines, number)))
                elif changed != line:
                    yield Edit(
                        kind,
                        number + 1,
                        "\n".join([*lines[:number], changed, *lines[number + 1 :]]),
                    )


Change = Callable[[str], Iterator["str | Callable[[list[str], int], list[str]]"]]


def _another_function(line: str) -> Iterator[str]:
    match = re.search(r"= stablehlo\.(\w+) ", line)
    if match and match[1] in WORDS and "i1>" not in line and "i64>" not in line:
        yield line.replace(f"stablehlo.{match[1]} ", f"stablehlo.{WORDS[match[1]]} ", 1)


def _swapped_operands(line: str) -> Iterator[str]:
    yield BINARY.sub(r"\1\3, \2\4", line)


def _other_comparison(line: str) -> Iterator[str]:
    match = re.search(r"stablehlo\.compare (\w\w),", line)
    if match:
        yield line.replace(f"compare {match[1]},", f"compare {DIRECTIONS[match[1]]},", 1)


def _wrong_branch(line: str) -> Iterator[str]:
    match = SELECT.search(line)
    if match and match[2] != match[3]:
        yield SELECT.sub(r"\1, \3, \2\4", line)


def _slice_off_by_one(line: str) -> Iterator[str]:
    match = SLICE.search(line)
    if match is None:
        return
    extents = list(map(int, match[4].split("x")))
    ranges = [list(map(int, part.split(":"))) for part in match[2].split(",")]
    for axis, (part, extent) in enumerate(zip(ranges, extents, strict=True)):
        for step in (1, -1):
            if part[0] + step >= 0 and part[1] + step <= extent:
                moved = [list(r) for r in ranges]
                moved[axis][:2] = part[0] + step, part[1] + step
                shown = ", ".join(":".join(map(str, r)) for r in moved)
                yield line[: match.start(2)] + shown + line[match.end(2) :]


def _wrong_axis(line: str) -> Iterator[str]:
    if "stablehlo.transpose" in line:
        yield SQUARE.sub(r"dims = [0, 1] : (tensor<\1x\1x", line)
    match = REDUCED.search(line)
    if match and match[2] in "01":
        yield line[: match.start(2)] + str(1 - int(match[2])) + line[match.end(2) :]
    match = CONTRACTED.search(line)
    if match and match[2] in "01" and "batching" not in line:
        yield line[: match.start(2)] + str(1 - int(match[2])) + line[match.end(2) :]
    match = re.search(r"(stablehlo\.iota dim = )([01])( : tensor<(\d+)x\4x)", line)
    if match:
        yield line[: match.start(2)] + str(1 - int(match[2])) + line[match.end(2) :]


def _other_constant(line: str) -> Iterator[str]:
    match = NUMBER.search(line)
    if match is None:
        return
    value = float(match[2])
    if match[4].startswith("f"):
        yield line[: match.start(2)] + repr(value * 1.001 if value else 1e-3) + line[match.end(2) :]
    else:
        yield line[: match.start(2)] + str(int(value) + 1) + line[match.end(2) :]


def _dropped_op(line: str) -> Iterator[Callable[[list[str], int], list[str]]]:
    """Yield an edit that replaces an operation's result by its operand.

    The fault is that of a compiler that forgets a conjugate or a sign.
    """
    match = UNARY.match(line)
    if match:
        yield lambda lines, number: _replaced(lines, number, match[1], match[2])


def _dropped_term(line: str) -> Iterator[Callable[[list[str], int], list[str]]]:
    """Yield edits that replace a sum by one of its terms, as if differentiation lost a cotangent."""
    match = TERM.match(line)
    if match:
        for term in (match[2], match[3]):
            yield lambda lines, number, term=term: _replaced(lines, number, match[1], term)


def _replaced(lines: list[str], number: int, name: str, by: str) -> list[str]:
    """Replace the uses of the value `name` by the value `by`, up to the end of the function.

    The line that defines `name` remains, but its value is no longer used.
    """
    word = re.compile(re.escape(name) + r"(?![\w#:])")
    changed = list(lines)
    for later in range(number + 1, len(lines)):
        if lines[later].lstrip().startswith("func.func"):
            break
        changed[later] = word.sub(by, lines[later])
    return changed


def _half_precision(line: str) -> Iterator[str]:
    match = SUMS.match(line)
    if match:
        space, name, rest, result = match.groups()
        yield (
            f"{space}%wide_{name[1:]} = {rest} "
            f"{name} = stablehlo.reduce_precision %wide_{name[1:]}, format = e5m10 : {result}"
        )


def _one_quantum(line: str) -> Iterator[str]:
    """Yield edits that add or subtract one quantisation step at the middle element of a quantised constant."""
    match = ROUNDED.match(line)
    if match is None or not 1 < (size := math.prod(map(int, match[3].split("x")[:-1]))) <= 256:
        return
    name, shape, dtype = match[2], match[3], match[3].rpartition("x")[2]
    for step in (1, -1):
        steps = ", ".join([f"{step if place == size // 2 else 0}.0" for place in range(size)])
        yield (
            f"{line.replace(name, f'%r_{name[1:]}', 1)} "
            f"%l_{name[1:]} = stablehlo.constant dense<[{steps}]> : tensor<{size}x{dtype}> "
            f"%s_{name[1:]} = stablehlo.reshape %l_{name[1:]} : (tensor<{size}x{dtype}>) -> tensor<{shape}> "
            f"{name} = stablehlo.add %r_{name[1:]}, %s_{name[1:]} : tensor<{shape}>"
        )


KINDS: dict[str, Change] = {
    "one quantum": _one_quantum,
    "another function": _another_function,
    "swapped operands": _swapped_operands,
    "another comparison": _other_comparison,
    "wrong branch": _wrong_branch,
    "slice off by one": _slice_off_by_one,
    "wrong axis": _wrong_axis,
    "another constant": _other_constant,
    "dropped operation": _dropped_op,
    "dropped term": _dropped_term,
    "half precision": _half_precision,
}
