"""`Writer`: writes the statements of a Python function, and records the names and helper functions that they use."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.literal import is_splat
from lowering.numpy_source.elementwise import is_square
from lowering.numpy_source.expression import Code, Expression, Level, call, tuple_of
from lowering.numpy_source.statements import StatementFinder
from tenferro.dims import SymDim, is_exact
from tenferro.dims.polynomial import Operation, Polynomial
from tenferro.errors import NonStaticShapeError, UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops.control import Cond
from tenferro.ops.elements import digest_of
from tenferro.types import DType, TensorSpec

__all__ = ["Writer"]

MAX_EXPRESSION = 100
"""Maximum length in characters of an expression, with its indentation, that contains other expressions."""
MIN_NAMED = 10
"""Minimum length in characters of an expression that is assigned to a name to shorten another expression."""
MAX_WRAPPER = 16
"""Maximum length in characters of an expression around a long operand, such as `-` or `[:, None]`, that stays inline."""
MAX_LINE = 120
"""Maximum length in characters of a line with a comment."""
MAX_LISTED = 16
"""Maximum number of elements of an array that is written as a list; larger arrays are stored in another file."""
INDENT = "    "
NONE = object()
"""Source of no instruction."""


class Writer:
    """Writer of the statements of one Python function.

    Args:
        table: the table of functions that write each op.
        reserved: names that the generated file uses for other purposes.

    Attributes:
        lines: the statements that have been written.
        functions: names of the functions in `functions.py` that the statements call.
        constants: arrays that are stored in the file of constants, by name.
        extents: for each symbolic extent, the Python variable that contains its value.
        source: the line of the user's code for which statements are written.
        definitions: the lines of functions that the statements call, which are sub-programs.
    """

    def __init__(self, table: Any, reserved: Sequence[str] = ()) -> None:
        self.table = table
        self.lines: list[str] = []
        self.functions: set[str] = set()
        self.constants: dict[str, Any] = {}
        self.extents: dict[str, str] = {}
        self.definitions: list[str] = []
        self._definition_names: dict[Any, str] = {}
        self.max_listed = MAX_LISTED
        self._names = {
            *keyword.kwlist,
            *dir(builtins),
            *reserved,
            "check",
            "np",
            "Path",
            "CONSTANTS",
        }
        self._global_names = {*self._names}
        self._digests: dict[Any, str] = {}
        self._counts: Counter[str] = Counter()
        self._depth = 1
        self.source: Any = None
        self._told: Any = None
        self.statements = StatementFinder()

    # ---- names -----------------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """Return a name that is not used yet.

        >>> writer = Writer({})
        >>> writer.fresh("h"), writer.fresh("h"), writer.fresh("sum")
        ('h', 'h_2', 'sum_2')
        """
        hint = re.sub(r"\W+", "_", hint).strip("_") or "y"
        hint = f"v{hint}" if hint[0].isdigit() else hint
        name = hint
        while name in self._names:
            self._counts[hint] += 1
            name = f"{hint}_{self._counts[hint] + 1}"
        self._names.add(name)
        return name

    def function(self, name: str) -> str:
        """Record that the generated file must include the function `name` of `functions.py`, and return the name."""
        self.functions.add(name)
        return name

    def definition(self, part: Any, operands: Sequence[Expression]) -> str:
        """Write the definition of a function that computes a sub-program, unless it exists; return its name.

        Parameters have the names of the operands of the first call, if these are names.
        """
        name = self._definition_names.get(part)
        if name is not None:
            return name
        source = part.program.instructions[-1].source
        hint = "branch" if source is None else self.statements.function(source) or "branch"
        if source is not None and source.derivative_of:
            hint += "_derivative"
        name = self._definition_names[part] = self.fresh(hint)
        self._global_names.add(name)
        state = self.lines, self._names, self._counts, self._depth
        self.lines, self._names, self._counts, self._depth = [], {*self._global_names}, Counter(), 1
        parameters = [self.fresh(parameter(str(operand))) for operand in operands]
        inputs = [
            Expression(Code(each, free=True), operand.spec)
            for each, operand in zip(parameters, operands, strict=True)
        ]
        results = self.program(part.program, inputs)
        text = ", ".join(map(str, results)) if len(results) > 1 else str(results[0])
        types = ", ".join([str(spec) for spec in part.program.output_specs])
        self.say(f"return {text}", results[0].source)
        self.definitions += [
            f"def {name}({', '.join(parameters)}):",
            f'    """Return {types} from {", ".join([str(x.spec) for x in operands])}."""',
            *self.lines,
            "",
            "",
        ]
        self.lines, self._names, self._counts, self._depth = state
        self._told = None
        return name

    def named(self, value: Expression) -> str:
        """Return a text of the value that may be repeated, such as its name; assign it to a name if necessary."""
        if not value.is_name:
            self._assign(value, self._hint(value))
        return value.code.text

    def _hint(self, value: Expression) -> str:
        function = value.code.text.partition("(")[0]
        if value.name_hint:
            return value.name_hint
        if isinstance(value.op, Cond) and function.isidentifier():
            return f"{function}_value"
        return snake_case("y" if value.op is None else value.op.name)

    def fit(self, values: Sequence[Expression], length: int) -> bool:
        """Assign the longest of these values to a name, if a text of this length that contains them is too long.

        Return whether a value was assigned.
        """
        if length + len(INDENT) * self._depth <= MAX_EXPRESSION:
            return False
        lengths = [0 if x.is_name else len(x.code.text) for x in values]
        longest = max(lengths, default=0)
        if longest < MIN_NAMED:
            return False
        value = next(x for x, n in zip(values, lengths, strict=True) if n > longest * 2 // 3)
        (inner,) = value.operands if len(value.operands) == 1 else (None,)
        if (
            inner is None
            or inner.is_name
            or value.name_hint
            or len(value.code.text) - len(inner.code.text) > MAX_WRAPPER
        ):
            self._shorten(value)
        else:
            self._shorten(inner)
            self._write_again(value)
        return True

    def _write_again(self, value: Expression) -> None:
        """Write the code of a value again, after the code of an operand has changed."""
        assert value.op is not None
        specs, is_read = self.specs, self.is_read
        (again,) = self.results(value.op, value.operands, [value.spec], [True])
        self.specs, self.is_read = specs, is_read
        value.code = again.code

    def _shorten(self, value: Expression) -> None:
        """Assign a value to a name, or the operand of a broadcast, which NumPy broadcasts implicitly."""
        arguments, aligned = value.operands, value.code.aligned
        if aligned is not None and not arguments and not aligned.free:
            name = self.fresh(self._hint(value))
            self.say(f"{name} = {aligned.text}", value.source)
            text = value.code.text.replace(aligned.text, name, 1)
            value.code = replace(value.code, text=text, aligned=Code(name), free=True)
        elif aligned is not None and arguments and not arguments[0].is_name:
            self.named(arguments[0])
            self._write_again(value)
        if not value.is_name:
            self._assign(value, self._hint(value))

    def _assign(self, value: Expression, hint: str) -> None:
        name = self.fresh(hint)
        self.say(f"{name} = {value.code.text}", value.source)
        value.code, value.op, value.operands = Code(name), None, ()

    # ---- statements ------------------------------------------------------------------------------

    @property
    def indent(self) -> str:
        """The indentation of the next statement."""
        return INDENT * self._depth

    def say(self, text: str, source: Any = None) -> None:
        """Write a statement, with a comment that shows the user's line, unless the last comment showed it already."""
        line = self.indent + text
        comment = ""
        if source is not None and source != self._told:
            comment = self.statements.comment(source)
            self._told = source
        room = MAX_LINE - len(line) - 4
        if comment and room >= min(len(comment), 16):
            line += f"  # {comment if len(comment) <= room else comment[: room - 3] + '...'}"
        self.lines.append(line)

    @contextmanager
    def block(self, head: str) -> Generator[None, None, None]:
        """Write a head such as `for t in range(n):`; indent the statements that are written within the context."""
        self.say(head, self.source)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.say("pass")
        self._depth -= 1

    def program(self, program: Any, operands: Sequence[Expression]) -> list[Expression]:
        """Write the instructions of a program for these operands, and return its outputs.

        An output may be an expression that is not yet assigned to a name.

        Raises:
            NonStaticShapeError, UnsupportedError: an op cannot be written.
        """
        values: list[Any] = [None] * program.n_slots
        for slot, operand in zip(program.input_slots, operands, strict=True):
            values[slot] = operand
        uses = Counter(slot for i in program.instructions for slot in slots_read(i))
        uses.update(program.output_slots)
        uses.subtract(
            [
                i.inputs[0]
                for i in program.instructions
                if i.inputs and is_square(i.op, i.inputs, program.types[i.inputs[0]])
            ]
        )
        consumers = {
            slot: instruction
            for instruction in reversed(program.instructions)
            for slot in instruction.inputs
        }
        sources = {slot: i.source for i in program.instructions for slot in i.outputs}
        read_elsewhere = {
            slot
            for instruction in program.instructions
            for slot in instruction.inputs
            if instruction.source is not None
            and instruction.source != sources.get(slot, instruction.source)
        }
        following: list[Any] = []
        later: Any = NONE
        for instruction in reversed(program.instructions):
            following.append(later)
            later = instruction.source if instruction.inputs else later
        following.reverse()  # for each instruction, the source of the next one that is not a constant
        before, finds = self.source, self.statements.target
        for position, (op, inputs, outputs, _, source) in enumerate(program.instructions):
            self.source = source
            arguments = [values[slot] for slot in inputs]
            results = self.results(
                op,
                arguments,
                [program.types[slot] for slot in outputs],
                [uses[slot] > 0 for slot in outputs],
            )
            is_last = following[position] != source
            for slot, result in zip(outputs, results, strict=True):
                values[slot] = result
                result.source = source
                if result.is_name:
                    continue
                result.name_hint = finds(source) if is_last or slot in read_elsewhere else ""
                consumer = consumers.get(slot)
                if not uses[slot]:
                    continue
                is_near = (
                    consumer is None
                    or consumer.source in (source, None)
                    or self.statements.is_anonymous(source)
                )
                if uses[slot] > 1 or not is_near:
                    self._shorten(result)
        self.source = before
        return [values[slot] for slot in program.output_slots]

    def results(
        self,
        op: StdTensorOp,
        operands: Sequence[Expression],
        specs: Sequence[TensorSpec],
        is_read: Sequence[bool],
    ) -> list[Expression]:
        """Return the results of an op as expressions.

        Several results are assigned to names by one statement; a result that nothing reads is assigned to `_`.
        """
        self.specs, self.is_read = tuple(specs), tuple(is_read)
        before = len(self.lines)
        codes = self.table.cell(op)(op, self, *operands)
        # A cell that wrote statements has assigned its operands, so that its result is short.
        while len(self.lines) == before and self.fit(operands, _length(codes)):
            before = len(self.lines)
            self.specs, self.is_read = tuple(specs), tuple(is_read)
            codes = self.table.cell(op)(op, self, *operands)
        if isinstance(codes, str):
            names = [self.fresh(snake_case(op.name)) if each else "_" for each in is_read]
            left = f"{names[0]}," if len(names) == 1 else ", ".join(names)
            self.say(f"{left} = {codes}", self.source)
            codes = [Code(name) for name in names]
        elif isinstance(codes, Code):
            codes = [codes]
        return [
            Expression(code, spec, op, tuple(operands))
            for code, spec in zip(codes, specs, strict=True)
        ]

    # ---- payloads --------------------------------------------------------------------------------

    def extent(self, extent: Any, operands: Sequence[Expression] = ()) -> str:
        """Return the Python text of an extent: a number, or an expression in extents of arguments or operands."""
        if isinstance(extent, int):
            return str(extent)
        if not isinstance(extent, Polynomial):
            raise NonStaticShapeError(f"to_numpy: the extent {extent} depends on the data")
        return polynomial(extent, lambda leaf: self._leaf(leaf, operands))

    def _leaf(self, leaf: Any, operands: Sequence[Expression]) -> str:
        axis = getattr(leaf, "axis", None)
        if axis is None:
            return self.extents[str(leaf)]
        operand = operands[leaf.input]
        extent = operand.spec.shape[axis]
        if isinstance(extent, int | SymDim):
            text = self.extent(extent)
            return text if text.isidentifier() or text.isdigit() else f"({text})"
        return f"{self.named(operand)}.shape[{axis}]"

    def shape(self, shape: Sequence[Any], operands: Sequence[Expression] = ()) -> str:
        """Return the Python text of a shape, as a tuple."""
        return tuple_of([self.extent(extent, operands) for extent in shape])

    def result_shape(self, op: Any, operands: Sequence[Expression], field: str = "shape") -> str:
        """Return the Python text of the shape of an op's first result.

        If an inferred extent is only a bound, the shape is read from the payload, the attribute `field` of the op.
        """
        shape = self.specs[0].shape
        if all(map(is_exact, shape)):
            return self.shape(shape)
        return self.shape(getattr(op, field), operands)

    def dtype(self, dtype: DType) -> str:
        """Return the name of a dtype in NumPy, such as "np.float32".

        Raises:
            UnsupportedError: the dtype is bfloat16, which NumPy lacks.
        """
        if dtype is DType.BF16:
            raise UnsupportedError(
                "to_numpy: bfloat16 is not a dtype of NumPy, which the file needs alone; convert to float32"
            )
        return "np.bool_" if dtype.is_bool else f"np.{dtype.value}"

    def full(self, shape: str, number: Code, dtype: DType) -> str:
        """Return the text of an array whose elements all equal a number: `np.zeros`, `np.ones` or `np.full`."""
        kind = None if dtype is DType.F64 else self.dtype(dtype)
        name = {"0": "zeros", "0.0": "zeros", "False": "zeros", "1": "ones", "1.0": "ones"}.get(
            number.text
        )
        shape = shape[1:-2] if shape.endswith(",)") else shape
        if name is not None:
            return call(f"np.{name}", shape, *([kind] if kind else [])).text
        return call("np.full", shape, number.text, self.dtype(dtype)).text

    def array(self, array: Any) -> Code:
        """Return the code of a constant array: a number, a list, or an entry of `CONSTANTS`, the file of constants."""
        dtype = DType.of(array.dtype)
        kind = self.dtype(dtype)
        if not array.ndim:
            number = number_text(array[()])
            return Code(f"{kind}({number.text})", number=number, free=True)
        if not array.size:
            return call("np.zeros", tuple_of(array.shape), kind)
        if array.size > 1 and is_splat(array):
            number = number_text(array[(0,) * array.ndim])
            return Code(self.full(tuple_of(array.shape), number, dtype), number=number)
        text = regular(array, kind)
        if text:
            return Code(text)
        if array.size <= self.max_listed:
            return call("np.array", listed(array), kind)
        elements = np.asarray(array, order="C").reshape(-1).view(np.uint8)
        key = (array.dtype.str, array.shape, digest_of(elements))
        name = self._digests.get(key)
        if name is None:
            name = self._digests[key] = f"c{len(self.constants)}"
            self.constants[name] = array
        return Code(f'CONSTANTS["{name}"]', free=True)


def regular(array: Any, kind: str) -> str:
    """Return a call of `np.arange`, `np.eye` or `np.tri` that computes an array; "" for other arrays.

    >>> regular(np.arange(3, 7), "np.int64"), regular(np.eye(4), "np.float64"), regular(np.array([1, 2, 4]), "np.int64")
    ('np.arange(3, 7)', 'np.eye(4)', '')
    """
    if array.dtype.kind in "iu" and array.ndim == 1 and array.size > 2:
        first = int(array[0])
        is_within = first + array.size <= np.iinfo(array.dtype).max
        if is_within and np.array_equal(array, np.arange(first, first + array.size)):
            bounds = ([first] if first else []) + [first + array.size]
            return call("np.arange", *bounds, dtype=None if array.dtype == np.int64 else kind).text
    if array.ndim == 2 and min(array.shape) > 1 and array.dtype.kind != "V":
        n, m = array.shape
        shape = [n] if n == m else [n, m]
        for name in ("eye", "tri"):
            like = getattr(np, name)(n, m, dtype=array.dtype)
            if like.tobytes() == np.ascontiguousarray(array).tobytes():
                dtype = None if array.dtype == np.float64 else kind
                return call(f"np.{name}", *shape, dtype=dtype).text
    return ""


def slots_read(instruction: Any) -> list[int]:
    """Return the inputs of an instruction, without those of a conditional that do not affect its results."""
    op, inputs = instruction.op, instruction.inputs
    if not isinstance(op, Cond):
        return [*inputs]
    read = [inputs[0]] if any(branch != op.branches[0] for branch in op.branches) else []
    for branch in op.branches:
        code = branch.program
        used = {slot for i in code.instructions for slot in slots_read(i)} | {*code.output_slots}
        read += [x for x, slot in zip(inputs[1:], code.input_slots, strict=True) if slot in used]
    return read


def parameter(text: str) -> str:
    """Return a parameter's name for an operand of this text.

    >>> parameter('rates["a"]'), parameter("k_2"), parameter("x[0]")
    ('a', 'k', 'x')
    """
    match = re.search(r'\["([A-Za-z_]\w*)"\]$', text) or re.match(r"([A-Za-z_]\w*)$", text)
    return re.sub(r"_\d+$", "", match[1]) if match else "x"


def _length(codes: Any) -> int:
    """Return the length of the longest text that a cell returns."""
    codes = [codes] if isinstance(codes, str | Code) else codes
    return max((len(code if isinstance(code, str) else code.text) for code in codes), default=0)


def listed(array: Any) -> str:
    """Return the Python text of an array as nested lists.

    >>> listed(np.array([[1.0, np.inf], [-0.0, 3.0]]))
    '[[1.0, np.inf], [-0.0, 3.0]]'
    """
    if not array.ndim:
        return number_text(array[()]).text
    return f"[{', '.join([listed(part) for part in array])}]"


def number_text(x: Any) -> Code:
    """Return the code of a NumPy scalar as a Python number, with as few digits as restore its value.

    >>> [number_text(x).text for x in (np.float32(0.1), np.int8(-3), np.bool_(True), np.complex64(1 - 2j))]
    ['0.1', '-3', 'True', 'complex(1.0, -2.0)']
    """
    if x.dtype.kind == "c":
        return call("complex", number_text(x.real).text, number_text(x.imag).text)
    if x.dtype.kind == "f":
        if np.isnan(x):
            return Code("np.nan")
        if np.isinf(x):
            return Code("np.inf") if x > 0 else Code("-np.inf", Level.UNARY)
        text = str(x)
    else:
        text = str(x)
    return Code(text, Level.UNARY if text.startswith("-") else Level.ATOM)


def polynomial(extent: int | Polynomial, leaf_text: Any) -> str:
    """Return the Python text of an extent, a polynomial; the function `leaf_text` returns the text of a symbol."""
    if isinstance(extent, int):
        return str(extent)
    text = ""
    for monomial, value in extent.terms:
        factors: list[str] = []
        for atom, power in monomial:
            part = operation(atom, leaf_text) if isinstance(atom, Operation) else leaf_text(atom)
            factors.append(part if power == 1 else f"{part}**{power}")
        number = abs(value)
        if number != 1 or not factors:
            factors.append(str(number))
        sign = ("-" if value < 0 else "") if not text else (" - " if value < 0 else " + ")
        text += sign + " * ".join(factors)
    return text


def operation(atom: Operation, leaf_text: Any) -> str:
    """Return the Python text of a quotient, remainder, minimum or maximum of extents."""
    lhs, rhs = polynomial(atom.lhs, leaf_text), polynomial(atom.rhs, leaf_text)
    if atom.kind in ("min", "max"):
        return f"{atom.kind}({lhs}, {rhs})"
    sides = [side if side.isidentifier() or side.isdigit() else f"({side})" for side in (lhs, rhs)]
    return f"({sides[0]} {atom.kind} {sides[1]})"


def snake_case(name: str) -> str:
    """Convert the name of an op to lower case with underscores; of a family id, only the middle part is used.

    >>> snake_case("DotGeneral"), snake_case("tenferro.lu_solve.v1")
    ('dot_general', 'lu_solve')
    """
    if "." in name:
        name = name.split(".")[-2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
