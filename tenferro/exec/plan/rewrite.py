"""Rewrite a turn: steps of few elements as Python's own expressions, without those that nobody needs.

Numbers of float64 are Python's, and so are truth values: Python computes with them in half the time, and as NumPy does
but for divisions by zero and roots of what is below. Integers of rank 0 whose range is known, as a counter's is, are
Python's too; an element or a window at them is read and written by subscription. What repeats itself is left to NumPy's
own broadcasting where a step reads it that does that.
The results are the same bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tenferro.exec.expression import Change, Expression
from tenferro.exec.kernels.buffered import clamp, float_power, maximum, minimum
from tenferro.exec.kernels.structural import slices_of
from tenferro.exec.loop import LoopFunction
from tenferro.exec.plan.ranges import Range, range_of, range_of_constant, within
from tenferro.exec.plan.subscripts import Components, change, element_at, read
from tenferro.exec.plan.zeros import has_negative_zeros
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops import elementwise as el
from tenferro.ops.analytic import Sqrt
from tenferro.ops.control import ControlOp
from tenferro.ops.elementwise import COMPARISONS
from tenferro.ops.extension import Extension
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.ops.structural import BroadcastInDim, Concatenate, Reshape, Slice
from tenferro.types import DType, TensorSpec

__all__ = ["SPREADING", "as_array", "has_operators", "operator_of", "rewritten"]

OPERATORS = {
    el.Add: "{0} + {1}",
    el.Subtract: "{0} - {1}",
    el.Multiply: "{0} * {1}",
    el.Negate: "-{0}",
    el.Abs: "abs({0})",
    el.And: "{0} & {1}",
    el.Or: "{0} | {1}",
    el.Xor: "{0} ^ {1}",
    el.Select: "{1} if {0} else {2}",
}
"""Python's, on numbers that are no halves and not complex."""
PYTHONS = (DType.F64, DType.Bool)
"""Of numbers that may be Python's or NumPy's, which compute the same in expressions. Kernels get NumPy's."""
SIGNS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
EXTREMES = {el.Maximum: (">", maximum), el.Minimum: ("<", minimum)}
OF_FLOATS: Mapping[type, tuple[str, Any]] = {
    el.Sign: ("1.0 if {0} > 0 else -1.0 if {0} < 0 else {0}", None),
    el.Clamp: (
        "{0} if {1} < {0} < {2} else {1} if {0} < {1} < {2} else {2} if {1} < {2} < {0} "
        "else {kernel}({float64}({0}), {float64}({1}), {float64}({2}))[()]",
        clamp,
    ),
    el.Power: (
        "{float}({power}({0}, {1}) if {1} != 0.5 else {kernel}({float64}({0}), {float64}({1})))",
        float_power,
    ),
}
"""Of Python's floats, with the kernel for what is not plain."""
CHOOSES = (el.Select, el.Maximum, el.Minimum)
"""Ops whose result is one of the operands."""
SPREADING = (np.where, maximum, minimum)
"""Functions that repeat an operand as ufuncs do."""
DIRECT = (np.add, np.subtract, np.multiply, np.divide, np.negative, np.abs, np.where, np.sqrt, np.bitwise_and,
          np.bitwise_or, np.bitwise_xor, maximum, minimum, *COMPARISONS.values())  # fmt: skip
"""Functions whose result does not depend on how their operands lie in memory, bit for bit."""


def rewritten(
    program: ExecProgram,
    ranges: Mapping[int, Range],
    indices: Iterable[int],
    outputs: Iterable[int],
    free: Collection[int] = (),
) -> tuple[ExecProgram, frozenset[int]]:
    """The schedule of a turn with expressions, and the slots that are Python's integers and truth values.

    Args:
        ranges: what is known of the inputs.
        indices: those of them that are Python's.
        outputs: those that may be Python's.
        free: slots in whose values there is no -0.0.
    """
    rewriter = _Rewriter(program, ranges, indices, free)
    for step in program.instructions:
        rewriter.step(step)
    return rewriter.finished(frozenset(outputs)), frozenset(rewriter.indices)


def as_array(number: int, array: int, spec: TensorSpec) -> ExecInstruction:
    """The step that makes an array of rank 0 of a number."""
    text, values = "{0}", {}
    if spec.dtype.is_integer and spec.dtype is not DType.I64:
        text, values = _typing(spec.dtype)
    function = Expression(text, values)
    op = el.Convert(spec.dtype)
    return ExecInstruction(op, np.asarray, function, (number,), (array,), (spec,))


def _late_changes(steps: Sequence[ExecInstruction]) -> tuple[ExecInstruction, ...]:
    """Steps with changes as late as can be, behind every reader of the memory that they write over."""
    order: list[ExecInstruction] = []
    waiting: dict[int, ExecInstruction] = {}
    for step in steps:
        if isinstance(step.function, Change):
            waiting[step.output_slots[0]] = step
            continue
        stack = [step]
        while stack:
            pending = next((slot for slot in stack[-1].input_slots if slot in waiting), None)
            if pending is None:
                order.append(stack.pop())
            else:
                stack.append(waiting.pop(pending))
    return (*order, *waiting.values())


def _conversion(dtype: DType) -> tuple[str, dict[str, Any]]:
    """The text that makes a number of another."""
    if dtype is DType.F64:
        return "{float}({0})", {"float": float}
    return _typing(dtype)


def _typing(dtype: DType) -> tuple[str, dict[str, Any]]:
    """The text that makes NumPy's number of one of Python's."""
    return f"{{{dtype.value}}}({{0}})", {dtype.value: dtype.dtype.type}


def has_operators(dtype: DType) -> bool:
    """Whether Python has operators for numbers of a dtype, with the results of NumPy's functions."""
    return dtype.kind in "biuf" and dtype not in (DType.F16, DType.BF16)


def operator_of(op: Any, dtype: DType) -> tuple[str | None, Mapping[str, Any]]:
    """The text of an elementwise op on numbers, of the dtype of the last, with its names; None if there is none."""
    if not has_operators(dtype):
        return None, {}
    is_python = dtype in PYTHONS
    if isinstance(op, el.Compare):
        return f"{{0}} {SIGNS[op.direction]} {{1}}", {}
    if isinstance(op, el.Not):
        return ("not {0}", {}) if dtype.is_bool else (None, {})  # because ~True is -2
    if isinstance(op, el.Convert):
        if dtype.is_float or dtype is DType.U64:
            return None, {}
        return _conversion(op.to) if op.to in (DType.I64, DType.F64) else (None, {})
    if isinstance(op, el.Divide):
        if is_python:
            return "{0} / {1} if {1} else {divide}({0}, {1})", {"divide": np.divide}
        return ("{0} / {1}", {}) if dtype.is_float else (None, {})
    if isinstance(op, Sqrt):
        text = "{sqrt}({0}) if {0} >= 0 else {root}({0})"
        return (text, {"sqrt": math.sqrt, "root": np.sqrt}) if is_python else (None, {})
    if dtype is DType.F64 and type(op) in OF_FLOATS:
        text, function = OF_FLOATS[type(op)]
        values = {"float": float, "float64": np.float64, "power": np.power, "kernel": function}
        return text, {name: value for name, value in values.items() if f"{{{name}}}" in text}
    if isinstance(op, (el.Maximum, el.Minimum)):
        sign, function = EXTREMES[type(op)]
        if dtype.is_float:
            name = function.__name__
            x, y = ("{float64}({0})", "{float64}({1})") if is_python else ("{0}", "{1}")
            return (
                f"{{0}} if {{0}} {sign} {{1}} else {{1}} if {{1}} {sign} {{0}} else {{{name}}}({x}, {y})[()]",
                {name: function, **({"float64": np.float64} if is_python else {})},
            )
        return f"{{0}} if {{0}} {sign}= {{1}} else {{1}}", {}
    if isinstance(op, (el.Add, el.Subtract, el.Multiply, el.Negate, el.Abs)) and (
        dtype.is_bool or (dtype.kind == "u" and isinstance(op, el.Negate))
    ):
        return None, {}
    return OPERATORS.get(type(op)), {}


class _Rewriter:
    """Writes the schedule of a turn, step by step.

    Attributes:
        same: the slot that has a slot's value.
        spread: steps that repeat a value, by what they make.
        aligned: of what repeats itself, the value as NumPy repeats it.
        components: of a short row of integers, the slots of its elements.
        typed: of one of Python's integers, the slot of the same as NumPy's.
        added: steps that add a window to zeros, and that a sum alone reads, by what they make.
    """

    def __init__(
        self,
        program: ExecProgram,
        ranges: Mapping[int, Range],
        indices: Iterable[int],
        free: Collection[int],
    ) -> None:
        self.program, self.free = program, free
        self.types, self.constants = list(program.types), dict(program.constants)
        self.steps: list[ExecInstruction] = []
        self.ranges, self.indices = dict(ranges), set(indices)
        self.same: dict[int, int] = {}
        self.makers: dict[int, ExecInstruction] = {}
        self.spread: dict[int, ExecInstruction] = {}
        self.aligned: dict[int, int] = {}
        self.components: Components = {}
        self.typed: dict[int, int] = {}
        self.added: dict[int, ExecInstruction] = {}
        self.readers: dict[int, list[ExecInstruction | None]] = {}
        for slot in program.output_slots:
            self.readers.setdefault(slot, []).append(None)
        for step in program.instructions:
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(step)
        for slot, value in self.constants.items():
            values = range_of_constant(value)
            if values is not None:
                self.ranges[slot] = values
            if value.ndim == 1 and value.size <= 8 and self.types[slot].dtype.is_integer:
                self.components[slot] = [(int(element),) for element in value]

    def step(self, step: ExecInstruction) -> None:
        """Write a step, or its substitute."""
        inputs = tuple([self.same.get(slot, slot) for slot in step.input_slots])
        step = step._replace(input_slots=inputs, places=())
        rules = (
            self._decide,
            self._number if self._is_of_numbers(step) else self._know,
            self._put_off,
        )
        for rule in rules:
            rule(step)
            if self._is_there(step.output_slots[0]):
                return
        if isinstance(step.op, BroadcastInDim):
            self.spread[step.output_slots[0]] = step
        written = self._written(step)
        if written is None:
            written = self._aligned(step)
            written = self._with_typed(written, self._untyped(written))
        self._add(self._with_float(written))

    def finished(self, kept: frozenset[int]) -> ExecProgram:
        """The schedule, without steps that nothing reads."""
        outputs = [self.same.get(slot, slot) for slot in self.program.output_slots]
        for number, slot in enumerate(outputs):
            if slot in self.indices and self.program.output_slots[number] not in kept:
                outputs[number] = self._typed(slot)
        needed = set(outputs)
        steps: list[ExecInstruction] = []
        for step in reversed(self.steps):
            has_effects = isinstance(step.op, Extension | ControlOp)
            if has_effects or not needed.isdisjoint(step.output_slots):
                steps.append(step)
                needed.update(step.input_slots)
        constants = {slot: value for slot, value in self.constants.items() if slot in needed}
        return replace(
            self.program,
            instructions=_late_changes(steps[::-1]),
            output_slots=tuple(outputs),
            types=tuple(self.types),
            constants=constants,
        )

    # ---- slots -----------------------------------------------------------------------------------

    def _add(self, step: ExecInstruction) -> None:
        self.steps.append(step)
        self.makers.update([(slot, step) for slot in step.output_slots])

    def _slot(self, spec: TensorSpec) -> int:
        """A slot for another value."""
        self.types.append(spec)
        return len(self.types) - 1

    def _new(
        self, spec: TensorSpec, like: ExecInstruction, function: Expression, *slots: int
    ) -> int:
        """The slot of a value that a step before needs."""
        slot = self._slot(spec)
        self._add(
            like._replace(
                function=function, input_slots=slots, output_slots=(slot,), output_types=(spec,),
                frees=(), places=(),
            )
        )  # fmt: skip
        return slot

    def _typed(self, slot: int) -> int:
        """NumPy's number for one of Python's."""
        if slot not in self.typed:
            spec = self.types[slot]
            like = ExecInstruction(el.Convert(spec.dtype), np.asarray, np.asarray, (), (), ())
            self.typed[slot] = self._new(spec, like, Expression(*_typing(spec.dtype)), slot)
        return self.typed[slot]

    def _with_float(self, step: ExecInstruction) -> ExecInstruction:
        """The step that makes Python's number of a kernel's where numbers are computed of it, after that kernel's."""
        is_plain = (
            isinstance(step.function, Expression | LoopFunction) or len(step.output_slots) != 1
        )
        (spec, *_) = step.output_types or (None,)
        if is_plain or spec is None or spec.shape or spec.dtype is not DType.F64:
            return step
        (y,) = step.output_slots
        readers = [reader for reader in self.readers.get(y, ()) if reader is not None]
        if not any([self._is_of_numbers(reader) for reader in readers]):
            return step
        kernels = self._slot(spec)
        self._add(step._replace(output_slots=(kernels,)))
        function = Expression(*_conversion(spec.dtype))
        return ExecInstruction(
            el.Convert(spec.dtype), np.asarray, function, (kernels,), (y,), (spec,), step.source
        )

    def _with_typed(self, step: ExecInstruction, slots: Iterable[int]) -> ExecInstruction:
        """The step with NumPy's numbers for some of Python's."""
        chosen = {slot: self._typed(slot) for slot in slots}
        inputs = tuple([chosen.get(slot, slot) for slot in step.input_slots])
        return step._replace(input_slots=inputs) if chosen else step

    def literal(self, slot: int) -> str | None:
        """Python's literal of a value that is known."""
        least, most = self.ranges.get(slot, (0, 1))
        if least != most or self.types[slot].shape:
            return None
        if self.types[slot].dtype.is_bool:
            return str(bool(least))
        return str(least) if least >= 0 else f"({least})"

    def elements(self, slot: int) -> Any:
        """The slots of the elements of a row of integers, Python's if it is read here; tuples of known ones."""
        if slot not in self.components:
            spec = self.types[slot]
            element = TensorSpec((), spec.dtype)
            like = ExecInstruction(Reshape(()), np.asarray, np.asarray, (), (), ())
            self.components[slot] = [
                self._new(element, like, Expression(f"int({{0}}[{number}])"), slot)
                for number in range(spec.shape[0])
            ]
            self.indices.update(self.components[slot])
        return self.components[slot]

    def _expressed(
        self,
        step: ExecInstruction,
        text: str,
        values: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> ExecInstruction:
        return step._replace(function=Expression(text, values, **facts))

    def is_read_directly(self, slot: int) -> bool:
        """Whether all readers give the same bits wherever in memory the value's elements lie."""
        return all([
            reader is not None and reader.function in DIRECT for reader in self.readers.get(slot, ())
        ])  # fmt: skip

    def _is_there(self, slot: int) -> bool:
        """Whether a value is written, or something stands for it."""
        return any(
            [slot in values for values in (self.same, self.constants, self.added, self.makers)]
        )

    def _decide(self, step: ExecInstruction) -> None:
        """Note a choice that is one of its operands, or a conjunction that is false, whatever the elements are."""
        y, inputs = step.output_slots[0], step.input_slots
        if isinstance(step.op, el.And):
            is_false = [slot for slot in inputs if self._is_all(slot, False)]
            if is_false and self.types[y].dtype.is_bool:
                self.constants[y] = self.constants[is_false[0]]
        elif isinstance(step.op, el.Select):
            if inputs[1] == inputs[2] or self._is_all(inputs[0], True):
                self.same[y] = inputs[1]
            elif self._is_all(inputs[0], False):
                self.same[y] = inputs[2]

    def _is_all(self, slot: int, value: bool) -> bool:
        """Whether it is a constant of which each element is this truth value."""
        constant = self.constants.get(slot)
        return constant is not None and constant.dtype == bool and bool((constant == value).all())

    def _know(self, step: ExecInstruction) -> None:
        """Note the range of a result, a comparison that ranges decide, and a remainder to which they leave nothing."""
        y, op, inputs = step.output_slots[0], step.op, step.input_slots
        if len(step.output_slots) > 1 or self.types[y].dtype.kind not in "iub":
            return
        ranges = [self.ranges.get(slot) for slot in inputs]
        if isinstance(op, el.Remainder) and None not in ranges:
            x, n = ranges
            if x and n and n[0] > 0 and -n[0] < x[0] and x[1] < n[0]:
                self.same[y] = inputs[0]
                return
        values = self._range_of_choice(step) if isinstance(op, el.Select) else self._range(step)
        if values is None:
            return
        self.ranges[y] = values
        if isinstance(op, el.Compare) and values[0] == values[1]:
            self.constants[y] = np.broadcast_to(np.bool_(values[0]), self.types[y].shape)

    def _range(
        self, step: ExecInstruction, of: Mapping[int, Range | None] = MappingProxyType({})
    ) -> Range | None:
        """The range of a result, with other ranges of some operands."""
        operands = [
            (self.types[slot].dtype, of.get(slot, self.ranges.get(slot)))
            for slot in step.input_slots
        ]
        return range_of(step.op, operands, step.output_types[0].dtype)

    def _range_of_choice(self, step: ExecInstruction) -> Range | None:
        """The range of one of two values, of which each is where a comparison holds, or does not."""
        pred, *values = step.input_slots
        maker = self.makers.get(pred)
        if maker is None or not isinstance(maker.op, el.Compare):
            return self._range(step)
        x, bound = maker.input_slots
        before, limit = self.ranges.get(x), self.ranges.get(bound)
        if before is None or limit is None:
            return self._range(step)
        ranges: dict[int, Range | None] = {}
        for value, holds in zip(values, (True, False), strict=True):
            there = within(before, maker.op.direction, limit, holds)
            source = self.makers.get(value)
            if there is not None and value == x:
                ranges[value] = there
            elif there is not None and source is not None and source.is_elementwise:
                ranges[value] = self._range(source, {x: there})
        return self._range(step, ranges) if values[0] != values[1] else self._range(step)

    # ---- numbers ---------------------------------------------------------------------------------

    def _is_of_numbers(self, step: ExecInstruction) -> bool:
        """Whether it is an elementwise op on values of rank 0."""
        if not step.is_elementwise or len(step.output_slots) != 1:
            return False
        return not any([self.types[slot].shape for slot in (*step.input_slots, *step.output_slots)])

    def _number(self, step: ExecInstruction) -> None:
        """Write a step on numbers, if there is an expression for it."""
        (y,), inputs = step.output_slots, step.input_slots
        known_range = self._range(step)
        if known_range is not None:
            self.ranges[y] = known_range
            if known_range[0] == known_range[1]:
                self.constants[y] = np.array(known_range[0], self.types[y].dtype.dtype)
                self.constants[y].flags.writeable = False
                return
        if isinstance(step.op, el.Select):
            pred = self.ranges.get(inputs[0])
            if pred is not None and pred[0] == pred[1]:
                self.same[y] = inputs[2 - pred[0]]
                return
        text, values = operator_of(step.op, self.types[inputs[-1]].dtype)
        divisor = self.constants.get(inputs[-1]) if isinstance(step.op, el.Divide) else None
        if text is not None and divisor is not None and divisor:
            text, values = "{0} / {1}", {}
        if text is None and self._is_function_of_float(step):
            name = step.function.__name__
            text, values = f"{{float}}({{{name}}}({{0}}))", {"float": float, name: step.function}
        if text is None:
            return
        is_ours = [slot in self.indices or self.literal(slot) is not None for slot in inputs]
        is_read = [slot in self.indices for slot in inputs]
        if known_range is not None and all(is_ours):
            slots, names = list[int](), dict[str, str]()
            for number, slot in enumerate(inputs):
                literal = self.literal(slot)
                if literal is None:
                    if slot not in slots:
                        slots.append(slot)
                    literal = f"{{{slots.index(slot)}}}"
                names[str(number)] = literal
            template = Expression(text, dict.fromkeys(values))
            text = template.written(
                [names[str(number)] for number in range(len(inputs))], lambda name, _: f"{{{name}}}"
            )
            self.indices.add(y)
            self._add(step._replace(function=Expression(text, values), input_slots=tuple(slots)))
            return
        if any(is_read) and (all(is_read) or isinstance(step.op, CHOOSES)):
            step = self._with_typed(step, self.indices.intersection(inputs))
        self._add(self._expressed(step, text, values))

    def _is_function_of_float(self, step: ExecInstruction) -> bool:
        """Whether it is a ufunc of a number of float64 that gives one."""
        specs = [*[self.types[slot] for slot in step.input_slots], *step.output_types]
        return step.is_ufunc and [spec.dtype for spec in specs] == [DType.F64] * 2

    # ---- arrays ----------------------------------------------------------------------------------

    def _untyped(self, step: ExecInstruction) -> set[int]:
        """The numbers of Python's that a kernel cannot take."""
        numbers = {slot for slot in step.input_slots if not self.types[slot].shape}
        indices = self.indices.intersection(numbers)
        if step.is_ufunc or step.function in SPREADING:
            values = step.input_slots[1:] if step.function is np.where else step.input_slots
            return set() if any([self.types[slot].shape for slot in values]) else indices
        if step.is_elementwise or isinstance(step.op, BroadcastInDim):
            return indices | {slot for slot in numbers if self.types[slot].dtype in PYTHONS}
        return indices

    def _aligned(self, step: ExecInstruction) -> ExecInstruction:
        """The step with values that NumPy itself repeats, in place of arrays that repeat themselves."""
        if not (step.is_ufunc or step.function in SPREADING) or len(step.output_slots) != 1:
            return step
        shape = step.output_types[0].shape
        inputs = list(step.input_slots)
        for number, slot in enumerate(inputs):
            source = self._source(slot)
            if source is not None:
                others = [
                    self.types[each].shape for each in (*inputs[:number], *inputs[number + 1 :])
                ]
                if np.broadcast_shapes(self.types[source].shape, *others) == shape:
                    inputs[number] = source
        return step._replace(input_slots=tuple(inputs))

    def _source(self, slot: int) -> int | None:
        """The operand of a broadcast, its axes where NumPy looks for them."""
        maker = self.spread.get(slot)
        if maker is None:
            return None
        if slot in self.aligned:
            return self.aligned[slot]
        op: Any = maker.op
        (source,), dims = maker.input_slots, op.dims
        spec, rank = self.types[source], self.types[slot].rank
        if list(dims) != sorted(dims):
            return None
        if spec.rank and dims != tuple(range(rank - spec.rank, rank)):
            key = ", ".join([":" if axis in dims else "None" for axis in range(dims[0], rank)])
            extents = iter(spec.shape)
            shape = [next(extents) if axis in dims else 1 for axis in range(dims[0], rank)]
            view = Expression(f"{{0}}[{key}]", is_view=True)
            like = maker._replace(op=Reshape(tuple(shape)))
            source = self._new(TensorSpec.of(tuple(shape), spec.dtype), like, view, source)
        self.aligned[slot] = source
        return source

    def _written(self, step: ExecInstruction) -> ExecInstruction | None:
        """The step as an expression; None where its kernel is called."""
        op: Any = step.op
        if isinstance(op, Slice):
            key = slices_of(op, self.types[step.input_slots[0]].shape)
            return self._expressed(step, "{0}[{key}]", {"key": key}, is_view=True)
        if isinstance(op, Reshape):
            return self._reshaped(step)
        if isinstance(op, Concatenate):
            return self._concatenated(step)
        if isinstance(op, el.Select):
            return self._chosen(step)
        if isinstance(op, (Gather, DynamicSlice)):
            return read(self, step)
        if isinstance(op, (Scatter, DynamicUpdateSlice)):
            return change(self, step)
        if isinstance(op, el.Add) and not self.added.keys().isdisjoint(step.input_slots):
            return self._with_window(step)
        return None

    def _put_off(self, step: ExecInstruction) -> None:
        """Note a window that is added to zeros, if the sum that alone reads it can add the window to its other operand."""
        if not isinstance(step.op, Scatter) or step.op.combiner != "add":
            return
        zeros, (y,) = self.constants.get(step.input_slots[0]), step.output_slots
        readers = self.readers.get(y, ())
        if zeros is None or zeros.any() or has_negative_zeros(zeros) or len(readers) != 1:
            return
        (reader,) = readers
        if reader is not None and isinstance(reader.op, el.Add) and change(self, step) is not None:
            self.added[y] = step

    def _with_window(self, step: ExecInstruction) -> ExecInstruction | None:
        """A sum with zeros but for a window, as the other operand with the window added.

        Each 0.0 that is added makes 0.0 of -0.0.
        """
        lhs, rhs = step.input_slots
        other, window = (lhs, rhs) if rhs in self.added else (rhs, lhs)
        for slot in (lhs, rhs):
            if slot in self.added and slot != window:
                written = change(self, self.added[slot])
                assert written is not None
                self._add(written)
        if other not in self.free and other not in self.added:
            spec = step.output_types[0]
            zero = self._constant(np.zeros((), spec.dtype.dtype))
            whole = self._slot(spec)
            self._add(step._replace(input_slots=(other, zero), output_slots=(whole,)))
            other = whole
        added = self.added[window]
        return change(
            self,
            added._replace(
                input_slots=(other, *added.input_slots[1:]),
                output_slots=step.output_slots,
                origin=(*added.origin, *step.origin),
            ),
        )

    def _constant(self, value: Any) -> int:
        """The slot of a constant of rank 0."""
        value.flags.writeable = False
        slot = self._slot(TensorSpec((), DType.of(value.dtype)))
        self.constants[slot] = value
        return slot

    def _chosen(self, step: ExecInstruction) -> ExecInstruction | None:
        """One of two rows, where a number decides."""
        aligned = self._aligned(step)
        pred, *values = aligned.input_slots
        shapes = [self.types[slot].shape for slot in values]
        (y,) = step.output_types
        if self.types[pred].shape or y.rank != 1 or shapes != [y.shape, y.shape]:
            return None
        return self._expressed(aligned, "({1} if {0} else {2}).copy()")

    def _reshaped(self, step: ExecInstruction) -> ExecInstruction | None:
        (x,), (y,) = step.input_slots, step.output_slots
        before, after = self.types[x].shape, self.types[y].shape
        if not before:
            if self.types[x].dtype.is_integer and len(after) == 1:
                self.components[y] = [x]
            if self.types[x].dtype in PYTHONS:
                rank = len(after)
                row = f"{'[' * rank}{{0}}{']' * rank}"
                return self._expressed(step, f"{{array}}({row})", {"array": np.array})
            return self._with_typed(
                self._expressed(step, f"{{0}}.reshape({after})", is_view=True),
                self.indices.intersection([x]),
            )
        if not after:
            maker = self.makers.get(x)
            if maker is not None and isinstance(maker.op, Slice):
                slices = slices_of(maker.op, self.types[maker.input_slots[0]].shape)
                index = ", ".join([str(each.start) for each in slices])
                text = element_at(index, self.types[x].dtype)
                return self._expressed(step, text)._replace(input_slots=maker.input_slots)
            index = ", ".join("0" * len(before))
            return self._expressed(step, element_at(index, self.types[x].dtype))
        if [n for n in before if n != 1] != [n for n in after if n != 1]:
            return None
        readers = self.readers.get(y, ())
        if not all([
            reader is not None and (reader.is_elementwise or isinstance(reader.op, Concatenate | BroadcastInDim))
            for reader in readers
        ]):  # fmt: skip
            return (
                None  # because strides along axes of one element tell a product which loop to take
            )
        return self._expressed(step, f"{{0}}.reshape({after})", is_view=True)

    def _concatenated(self, step: ExecInstruction) -> ExecInstruction:
        op: Any = step.op
        parts = [self.components.get(slot) for slot in step.input_slots]
        if self.types[step.output_slots[0]].rank == 1 and all(parts):
            self.components[step.output_slots[0]] = [one for part in parts for one in part or ()]
        numbers = [self._number_of(slot) for slot in step.input_slots]
        count = len(numbers)
        if None not in numbers and self.types[step.output_slots[0]].dtype is not DType.BF16:
            chosen = tuple([number for number in numbers if number is not None])
            listed = ", ".join([f"{{{number}}}" for number in range(count)])
            packed = self._expressed(step, f"{{array}}([{listed}])", {"array": np.array})
            return self._with_typed(
                packed._replace(input_slots=chosen), self.indices.intersection(chosen)
            )
        listed = ", ".join([f"{{{number}}}" for number in range(count)])
        text = f"{{concatenate}}(({listed},), {op.axis})"
        return self._expressed(step, text, {"concatenate": np.concatenate})

    def _number_of(self, slot: int) -> int | None:
        """The number of which a row of one element is made."""
        maker = self.makers.get(slot)
        if maker is None or not isinstance(maker.op, Reshape) or self.types[slot].rank != 1:
            return None
        (x,) = maker.input_slots
        return None if self.types[x].shape else x
