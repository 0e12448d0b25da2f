"""Straight lines, compiled: consecutive steps on few elements as one function of arrays, with the interpreter's bits.

Exact ops are written element by element, as in loops; functions are NumPy's own loops. So it makes no difference to any
bit from which run on a straight line is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.matrix_view import Axes
from tenferro.exec.kernels.row_sums import is_of_ones
from tenferro.exec.llvm import array_function, elementwise, numpy_products, numpy_sums, ufunc_loops
from tenferro.exec.llvm.code import Element, Flat, Index, literal, memory_type
from tenferro.exec.llvm.control import COMPILED
from tenferro.exec.llvm.link import Linker, OfArrays, Processor
from tenferro.exec.llvm.loop import MOST_LINES
from tenferro.exec.llvm.numpy_sums import sum_of
from tenferro.exec.llvm.routines import exact_row_of
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Memory, Tensor, moved_axes, with_axes
from tenferro.exec.llvm.ufunc_loops import Loop, loop_of
from tenferro.exec.runner import Runner
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.elementwise import Imag, Real
from tenferro.ops.extension import Extension
from tenferro.ops.structural import BroadcastInDim, Reshape, Reverse, Slice, Transpose
from tenferro.types import TensorSpec

__all__ = ["VIEWS", "StraightFunction", "is_written", "loop_of_step", "row_of_step"]

KIND = "compiled block"
"""The name of attempts."""
VIEWS = (BroadcastInDim, Reshape, Slice, Transpose, Reverse, Real, Imag)
"""Ops of one operand whose result NumPy only sees in another way."""


def row_of_step(step: ExecInstruction, operands: Sequence[TensorSpec]) -> Row | None:
    """The row of a step's op; of an extension, that of the routine that its runtime calls, if it has the same bits."""
    op: Any = step.op
    if not isinstance(op, Extension):
        return COMPILED[type(op)]
    return None if step.routine is None else exact_row_of(step.routine, operands)


def is_written(step: ExecInstruction, operands: Sequence[TensorSpec]) -> bool:
    """Whether a step is written by its row, with the interpreter's bits."""
    row = row_of_step(step, operands)
    if row is None or not row.is_exact or row.reason_for(step.op, operands):
        return False
    specs = (*operands, *step.output_types)
    return row.complex_is_exact or not any([spec.dtype.is_complex for spec in specs])


def loop_of_step(step: ExecInstruction, operands: Sequence[TensorSpec]) -> Loop | None:
    """NumPy's loop for a step, if it is a ufunc of these dtypes."""
    if not step.is_ufunc:
        return None
    function: Any = step.function
    return loop_of(function, tuple([spec.dtype for spec in (*operands, *step.output_types)]))


class StraightFunction:
    """The steps of a schedule as a function of its inputs, which gives results in memory of their own.

    Arguments are all row-major, or all column-major where no step tells axes apart, and so are the results; of others
    the steps run one by one, because the order of their results is NumPy's choice.

    Args:
        orders: slots whose arrays are row-major with their axes in this order; all others are row-major.
        is_optimised: whether LLVM's passes are run, which make no difference to the bits.
        texts: of lines that have been written, by what they depend on.

    Raises:
        NotCompiledError: an op that is not compiled for its dtype.
    """

    def __init__(
        self,
        body: ExecProgram,
        orders: Mapping[int, Axes],
        linker: Linker,
        is_optimised: bool,
        texts: dict[Any, Text],
    ) -> None:
        self.body, self.linker, self.is_optimised = body, linker, is_optimised
        key = _key(body, orders)
        if key not in texts:
            texts[key] = _Writer(body, orders, linker.processor).whole()
        self._text = texts[key]
        types = [body.types[slot] for slot in body.output_slots]
        self._turned_arrays = [
            (number, orders[slot]) for number, slot in enumerate(body.input_slots) if slot in orders
        ]
        self._turned_results = [
            (number, inverse(orders[slot]))
            for number, slot in enumerate(body.output_slots)
            if slot in orders
        ]
        self._results = [
            (lying(spec, orders.get(slot)).shape, spec.dtype.dtype)
            for slot, spec in zip(body.output_slots, types, strict=True)
        ]
        constants = map(np.asarray, body.constants.values())
        self._constants = tuple([np.ascontiguousarray(x) for x in constants if not _is_one(x)])
        self._is_flat = not orders and not any([x.ndim > 1 for x in self._constants]) and all([
            step.is_ufunc or step.function is np.where
            or (isinstance(step.op, BroadcastInDim | Reshape) and body.types[step.input_slots[0]].size == 1)
            for step in body.instructions
        ])  # fmt: skip
        self._one_by_one = Runner(body)
        self._code: Callable[..., int | None] | None = None
        self.remark = "compiled"

    @property
    def text(self) -> str:
        """LLVM's."""
        return self._text.text

    def __call__(self, *arrays: Any) -> Any:
        """The results."""
        code, text = self._code, self._text
        if code is None:
            code = self._code = self._linked()
        beside = self._constants
        if text.scratch_bytes:
            beside = (*beside, np.empty(text.scratch_bytes, np.uint8))
        operands = self._turned(arrays) if self._turned_arrays else arrays
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        if code(*operands, *results, *beside) is None:
            results = self._in_another_order(code, arrays, beside)
        else:
            for number, axes in self._turned_results:
                results[number] = results[number].transpose(axes)
        return results[0] if len(results) == 1 else results

    def _linked(self) -> Callable[..., int | None]:
        """The machine code; where LLVM fails, a function that leaves the arguments to the steps."""
        text = self._text
        try:
            return self.linker.function(
                KIND, text.text, OfArrays(), text.symbols, self.is_optimised
            )
        except NotCompiledError as error:
            self.remark = f"interpreted: {error.text()}"
            return lambda *arrays: None

    def _turned(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Those that are row-major in another order of their axes in that."""
        operands = [*arrays]
        for number, order in self._turned_arrays:
            operands[number] = operands[number].transpose(order)
        return operands

    def _in_another_order(
        self, code: Callable[..., int | None], arrays: Sequence[Any], beside: Sequence[Any]
    ) -> list[Any]:
        if self._is_flat:
            results = [np.empty(shape, dtype, order="F") for shape, dtype in self._results]
            if code(*[x.T for x in arrays], *[y.T for y in results], *beside) is not None:
                return results
        return self._one_by_one(arrays)


class Text(NamedTuple):
    """A text, the addresses that it names, and the bytes of scratch that it needs."""

    text: str
    symbols: dict[str, int]
    scratch_bytes: int


def lying(spec: TensorSpec, order: Axes | None) -> TensorSpec:
    """The type with axes in an order."""
    return spec if order is None else moved_axes(spec, order)


def inverse(order: Axes) -> Axes:
    """The order that undoes one."""
    return tuple([order.index(axis) for axis in range(len(order))])


def _is_one(x: Any) -> bool:
    """Whether a constant is one number, which stands in the text."""
    return x.size == 1 or not any(x.strides)


def _key(body: ExecProgram, orders: Mapping[int, Axes]) -> Any:
    """The ops, types, numbers and slots, from 0, of a schedule, and the orders of axes; schedules with equal ones have
    the same text.
    """
    numbers: dict[int, int] = {}

    def number(slot: int) -> int:
        return numbers.setdefault(slot, len(numbers))

    constants = [
        (number(slot), body.types[slot], x.flat[:1].tobytes() if _is_one(x) else None)
        for slot, x in [(slot, np.asarray(value)) for slot, value in body.constants.items()]
    ]
    inputs = [(number(slot), body.types[slot]) for slot in body.input_slots]
    steps = [
        (step.op, step.output_types, *map(number, (*step.input_slots, *step.output_slots)))
        for step in body.instructions
    ]
    outputs = map(number, body.output_slots)
    axes = frozenset([(number(slot), order) for slot, order in orders.items()])
    return (*constants, *inputs, *steps, *outputs, axes)


class _Place(NamedTuple):
    """How a view of a value lies: the slot of what is in memory, the byte at which it begins, and an array that lies as it
    does.
    """

    base: int
    offset: int
    array: Any


class _Places:
    """How values and their views lie when steps run one by one.

    Args:
        orders: slots whose arrays are row-major with their axes in this order.
    """

    def __init__(self, body: ExecProgram, orders: Mapping[int, Axes]) -> None:
        self.types, self.orders = body.types, orders
        self.views = {
            step.output_slots[0]: step for step in body.instructions if isinstance(step.op, VIEWS)
        }
        self._places: dict[int, _Place] = {}

    def of(self, slot: int) -> _Place:
        """The place of a value."""
        if slot not in self._places:
            chain = [slot]
            while chain[-1] in self.views and chain[-1] not in self._places:
                chain.append(self.views[chain[-1]].input_slots[0])
            for each in reversed(chain):
                self._places.setdefault(each, self._place(each))
        return self._places[slot]

    def _place(self, slot: int) -> _Place:
        if slot not in self.views:
            spec = self.types[slot]
            order = self.orders.get(slot)
            array = np.zeros(lying(spec, order).shape, spec.dtype.dtype)
            return _Place(slot, 0, array if order is None else array.transpose(inverse(order)))
        step = self.views[slot]
        before = self._places[step.input_slots[0]]
        array = np.asarray(step.function(before.array))
        if not np.may_share_memory(array, before.array):
            return _Place(slot, 0, array)
        distance = (
            array.__array_interface__["data"][0] - before.array.__array_interface__["data"][0]
        )
        return _Place(before.base, before.offset + distance, array)


class _Writer:
    """Writes the function of a schedule."""

    def __init__(self, body: ExecProgram, orders: Mapping[int, Axes], processor: Processor) -> None:
        self.schedule, self.types, self.orders = body, body.types, orders
        self.code = processor.code()
        self.body = Body(self.code)
        self.tensors: dict[int, Tensor] = {}
        self._cells: dict[tuple[str, int], str] = {}
        self.targets = {
            slot: Memory(f"%y{number}", self._lying(slot))
            for number, slot in enumerate(body.output_slots)
        }
        self.turned: dict[int, Memory] = {}
        self.places = _Places(body, orders)
        self.readers: dict[int, list[int]] = {}
        for number, step in enumerate(body.instructions):
            for slot in step.input_slots:
                self.readers.setdefault(slot, []).append(number)

    def whole(self) -> Text:
        """The text."""
        body, code = self.schedule, self.code
        inputs = [f"%x{number}" for number in range(len(body.input_slots))]
        for name, slot in zip(inputs, body.input_slots, strict=True):
            self._lay(slot, Memory(name, self._lying(slot)))
        for slot, value in body.constants.items():
            self._constant(slot, value)
        self._write()
        outputs = [memory.pointer for memory in self.targets.values()]
        names = [*inputs, *outputs, *[name for name, _ in self.body.constants]]
        names += ["%scratch"] if self.body.scratch_bytes else []
        code.line("ret i64 0")
        if len(code.lines) > MOST_LINES:
            raise NotCompiledError(f"more than {MOST_LINES} lines would take long to compile")
        text = code.text("line", names, is_internal=True)
        text += array_function.entry(code, "line", names) + code.lanes_text()
        return Text(text, code.symbols, self.body.scratch_bytes)

    # ---- values ------------------------------------------------------------------------------------

    def _keep(self, slot: int, x: Tensor) -> None:
        """Know a value; one element at once, in a register."""
        if x.spec.size == 1:
            x = self.body.number(x.spec, self.body.at(x, (0,) * x.spec.rank))
        self.tensors[slot] = x

    def _constant(self, slot: int, value: Any) -> None:
        spec, array = self.types[slot], np.asarray(value)
        if _is_one(array):
            self.tensors[slot] = self.body.filled(spec, array.flat[0])
        else:
            self.tensors[slot] = self.body.stored(self.body.outside(array))

    def _memory(self, slot: int) -> Memory:
        """Where a result is written, row by row."""
        return self._target(slot) or self.body.memory(self.types[slot])

    def _target(self, slot: int) -> Memory | None:
        """The memory of a result of the line that is row-major."""
        return None if slot in self.orders else self.targets.get(slot)

    def _lying(self, slot: int) -> TensorSpec:
        """The type of a value with its axes as they lie."""
        return lying(self.types[slot], self.orders.get(slot))

    def _lay(self, slot: int, memory: Memory) -> None:
        """Know a value that lies in memory, with its axes in their order there."""
        x, order = self.body.stored(memory), self.orders.get(slot)
        if order is not None:
            self.turned[slot] = memory
            x = replace(with_axes(self.body, x, inverse(order)), is_cheap=True)
        self._keep(slot, x)

    def _dense(self, slot: int) -> Memory:
        """Memory that holds a value as its array does."""
        x = self.tensors[slot]
        if slot not in self.orders:
            return self.body.dense(x)
        if slot not in self.turned:
            self.turned[slot] = self.body.copy(with_axes(self.body, x, self.orders[slot]))
        return self.turned[slot]

    # ---- steps -------------------------------------------------------------------------------------

    def _write(self) -> None:
        steps = list(enumerate(self.schedule.instructions))
        for (kind, shape), members in groupby(steps, self._kind):
            if kind == "loop":
                for _, step in members:
                    self._loop(step)
            elif kind == "whole":
                for _, step in members:
                    self._whole(step)
            elif kind == "sum":
                for _, step in members:
                    self._sum(step)
            elif kind == "product":
                for _, step in members:
                    self._product(step)
            elif kind == "view" or prod(shape) == 1:
                for _, step in members:
                    (result,) = self._elements(step, self.tensors)
                    self._keep(step.output_slots[0], result)
            else:
                self._together(shape, list(members))
        for slot, memory in self.targets.items():
            x = self.tensors[slot]
            if memory in (x.memory, self.turned.get(slot)):
                continue
            order = self.orders.get(slot)
            self.body.write(x if order is None else with_axes(self.body, x, order), memory)

    def _kind(self, numbered: tuple[int, ExecInstruction]) -> tuple[str, tuple[int, ...]]:
        """The way in which a step is written, and the shape of its result where it goes along with others."""
        _, step = numbered
        operands = [self.types[slot] for slot in step.input_slots]
        if isinstance(step.op, VIEWS):
            return "view", ()
        if isinstance(step.op, DotGeneral):
            return "whole" if numpy_products.is_outer(step.op, operands[0]) else "product", ()
        if not step.is_elementwise:
            return "whole" if is_written(step, operands) else "sum", ()
        return ("element" if is_written(step, operands) else "loop"), step.output_types[0].shape

    def _elements(self, step: ExecInstruction, tensors: Any) -> Sequence[Tensor]:
        """The result of a row."""
        operands = [tensors[slot] for slot in step.input_slots]
        return self._row(step).write(self.body, step.op, operands, step.output_types)

    def _row(self, step: ExecInstruction) -> Row:
        row = row_of_step(step, [self.types[slot] for slot in step.input_slots])
        assert row is not None
        return row

    def _whole(self, step: ExecInstruction) -> None:
        """The results of a row, in memory."""
        row, body = self._row(step), self.body
        operands = row.settled(body, [self.tensors[slot] for slot in step.input_slots])
        body.target = self._target(step.output_slots[0])
        results = row.write(body, step.op, operands, step.output_types)
        body.target = None
        for slot, result in zip(step.output_slots, results, strict=True):
            self._keep(slot, body.settled(result) if result.spec.size > 1 else result)

    def _sum(self, step: ExecInstruction) -> None:
        """Calls of NumPy's loops."""
        op: Any = step.op
        (x,), (y,) = step.input_slots, step.output_slots
        if is_of_ones(self.types[x], op.axes):
            self._keep(y, self.body.settled(self._of_ones(op, self.tensors[x], self.types[y])))
            return
        total = sum_of(self.types[x], op.axes)
        assert total is not None
        result = self._memory(y)
        numpy_sums.write(self.body, total, self.body.dense(self.tensors[x]), result)
        self._keep(y, self.body.stored(result))

    def _of_ones(self, op: Any, x: Tensor, y: TensorSpec) -> Tensor:
        """Sums of one element each."""
        zero = literal(0, y.dtype)

        def element(index: tuple[Index, ...]) -> Element:
            others = iter(index)
            place = [0 if axis in op.axes else next(others) for axis in range(x.spec.rank)]
            return elementwise.add(self.code, op, y.dtype, [self.body.at(x, tuple(place)), zero])

        return Tensor(y, element, x.reads)

    def _product(self, step: ExecInstruction) -> None:
        """A call of NumPy's loop."""
        op: Any = step.op
        (slot,), (y,) = step.output_slots, step.output_types
        operands = [self.tensors[each] for each in step.input_slots]
        views = [self.places.of(each) for each in step.input_slots]
        product = numpy_products.product_of(op, *[view.array for view in views])
        assert product is not None
        memories: dict[int, Memory] = {}
        pointers: list[str] = []
        for view, x, side in zip(views, operands, (product.lhs, product.rhs), strict=True):
            if side.order is not None:
                pointers.append(self.body.copy(with_axes(self.body, x, side.order)).pointer)
                continue
            if view.base not in memories:
                memories[view.base] = self._dense(view.base)
            pointer, dtype = memories[view.base].pointer, x.spec.dtype
            pointers.append(self.code.address(pointer, view.offset // dtype.real.itemsize, dtype))
        spec = lying(y, product.order or None)
        memory = self.targets.get(slot)
        if memory is None or memory.spec != spec:
            memory = self.body.memory(spec)
        lhs, rhs = pointers
        numpy_products.write(self.body, product, lhs, rhs, memory)
        self._lay(slot, memory)

    def _loop(self, step: ExecInstruction) -> None:
        """NumPy's loop, from memory to memory."""
        specs = [self.types[slot] for slot in step.input_slots]
        loop = loop_of_step(step, specs)
        assert loop is not None
        (slot,), (y,) = step.output_slots, step.output_types
        if y.size > 1:
            memories = [self.body.dense(self.tensors[each]) for each in step.input_slots]
            result = self._memory(slot)
        else:
            memories = [self._cell(spec, number) for number, spec in enumerate(specs)]
            for each, memory in zip(step.input_slots, memories, strict=True):
                self.body.write(self.tensors[each], memory)
            result = self._cell(y, len(memories))
        pointers = [memory.pointer for memory in (*memories, result)]
        steps = ufunc_loops.dense_steps(loop, is_number=not y.shape)
        ufunc_loops.call(self.code, loop, pointers, [y.size], steps)
        self._keep(slot, self.body.stored(result))

    def _cell(self, spec: TensorSpec, number: int) -> Memory:
        """Memory of one element, which the next loop uses again."""
        kind, parts = memory_type(spec.dtype), 2 if spec.dtype.is_complex else 1
        key = f"{kind} {parts}", number
        if key not in self._cells:
            self._cells[key] = self.code.cell(kind, parts)
        return Memory(self._cells[key], spec)

    def _together(self, shape: tuple[int, ...], members: Sequence[tuple[int, ExecInstruction]]) -> None:  # fmt: skip
        """Steps on values of one shape in one loop over their elements."""
        numbers = {number for number, _ in members}
        memories = {
            slot: self._memory(slot)
            for _, step in members
            for slot in step.output_slots
            if slot in self.targets or not numbers.issuperset(self.readers.get(slot, ()))
        }

        def one(index: tuple[Index, ...]) -> None:
            here = dict(self.tensors)
            for _, step in members:
                (slot,) = step.output_slots
                (result,) = self._elements(step, here)
                here[slot] = self.body.number(result.spec, self.body.at(result, index))
            for slot, memory in memories.items():
                self.body.storing(memory)(index, self.body.at(here[slot]))

        read = {slot for _, step in members for slot in step.input_slots} & self.tensors.keys()
        if all([self.tensors[slot].is_flat for slot in read]):
            self.code.loop(prod(shape), lambda i: one(Flat((i,))), unroll=True)
        else:
            self.code.loops(shape, one)
        for slot, memory in memories.items():
            self.tensors[slot] = self.body.stored(memory)
