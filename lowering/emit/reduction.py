"""Emitters of the reduction family."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.emit.emitter import Emitter, EmitterRows
from lowering.emit.total_order import sort_in_total_order
from lowering.inference import result_type
from lowering.operations import Dense, Integers
from lowering.writer import Value, Writer
from tenferro.ops.reduction import (
    ArgMax,
    ArgMin,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceSum,
    Sort,
    TopK,
)
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]


def identity(name: str, dtype: DType) -> Any:
    """Return the identity element of the reduction operation `name`, for example 0 for "add"."""
    if name == "multiply":
        return 1
    if name == "and":
        return -1 if dtype.kind == "i" else dtype.extremes[1]
    return dtype.extremes[name == "minimum"] if name in ("maximum", "minimum") else 0


def combiner(name: str, dtype: DType) -> str:
    """Return the StableHLO operation for the reduction `name`; for bools, "maximum" is "or" and "minimum" is "and"."""
    if dtype.is_bool:
        return {"maximum": "or", "minimum": "and"}.get(name, name)
    return name


def reduction(name: str) -> Emitter:
    """Return the emitter of a `stablehlo.reduce` by the operation `name`.

    Sums and products of low-precision floats are accumulated in float32.
    """

    def emit(op: Any, w: Writer, x: Value) -> Value:
        wide = w.convert(x, x.dtype.accumulator) if name in ("add", "multiply") else x
        initial = w.scalar(identity(name, wide.dtype), wide.dtype)
        return w.convert(w.reduce(combiner(name, x.dtype), wide, initial, op.axes), x.dtype)

    return emit


def scan(name: str) -> Emitter:
    """Return the emitter of a cumulative sum, product, maximum or minimum; `name` combines two elements.

    The emitter writes `stablehlo.reduce_window`. The window is as long as the axis, and for each result it ends at the
    element with the same index.
    """

    def emit(op: Any, w: Writer, x: Value) -> Value:
        extent = x.shape[op.axis]
        if extent <= 1 or 0 in x.shape:
            return x
        wide = w.convert(x, x.dtype.accumulator) if name in ("add", "multiply") else x
        window = [extent if axis == op.axis else 1 for axis in range(x.rank)]
        before = [0, extent - 1] if op.reverse else [extent - 1, 0]
        pads = [before if axis == op.axis else [0, 0] for axis in range(x.rank)]
        operands = (wide, w.scalar(identity(name, wide.dtype), wide.dtype))
        attributes = {"window_dimensions": Integers(window), "padding": Dense(pads, "i64")}
        body = w.combiner(combiner(name, wide.dtype), wide.dtype)
        (result,) = w.operation(
            "stablehlo.reduce_window", operands, (wide.spec,), attributes, [body]
        )
        return w.convert(result, x.dtype)

    return emit


def arg_reduction(direction: str) -> Emitter:
    """Return the emitter of an argmax ("GT") or argmin ("LT"), as a reduction of pairs (value, index).

    NaN takes precedence over every number. Among equal values the lowest index is selected.
    """

    def emit(op: Any, w: Writer, x: Value) -> Value:
        places = w.iota(x.shape, op.axis)
        start = identity("maximum" if direction == "GT" else "minimum", x.dtype)
        index_type = result_type(op, x)
        results = (TensorSpec.of(index_type.shape, x.dtype), index_type)
        initial = (w.scalar(start, x.dtype), w.scalar(np.iinfo(np.int64).max, DType.I64))
        operands = (x, places, *initial)
        value, number = TensorSpec.of((), x.dtype), TensorSpec.of((), DType.I64)
        body = w.region(
            {"a": value, "i": number, "b": value, "j": number},
            lambda inner, *pairs: _better(inner, direction, *pairs),
        )
        dimensions = {"dimensions": Integers([op.axis])}
        return w.operation("stablehlo.reduce", operands, results, dimensions, [body])[1]

    return emit


def _better(
    w: Writer, direction: str, a: Value, i: Value, b: Value, j: Value
) -> tuple[Value, Value]:
    """Select one of the pairs (a, i) and (b, j) of value and index, by the rule of `arg_reduction`."""
    nan_a = w.compare("NE", a, a).called("nan_a")
    nan_b = w.compare("NE", b, b).called("nan_b")
    more = w.compare(direction, a, b).called("more")
    same = w.compare("EQ", a, b).called("same")
    both = w.op("and", nan_a, nan_b).called("both")
    tie = w.op("or", same, both).called("tie")
    number_b = w.op("not", nan_b).called("number_b")
    only_a = w.op("and", nan_a, number_b).called("only_a")
    beats = w.op("or", more, only_a).called("beats")
    first = w.compare("LT", i, j).called("first")
    keeps = w.op("and", tie, first).called("keeps")
    left = w.op("or", beats, keeps).called("left")
    return w.select(left, a, b).called("v"), w.select(left, i, j).called("k")


def sort(op: Sort, w: Writer, *operands: Value) -> Any:
    """Emit a sort that reorders all operands together, in ascending order of the first operand."""
    in_total_order = sort_in_total_order(w, operands, op.axis, op.stable)
    if in_total_order is not None:
        return in_total_order
    results = sort_together(w, operands, op.axis, op.stable, ascending=True)
    return results if op.count > 1 else results[0]


def sort_together(
    w: Writer, operands: tuple[Value, ...], axis: int, stable: bool, ascending: bool
) -> tuple[Value, ...]:
    """Emit `stablehlo.sort`, which reorders all operands together by the elements of the first operand.

    NaN counts as larger than every number: it comes last in ascending order, and first in descending order.
    """
    scalars = [TensorSpec.of((), x.dtype) for x in operands]
    names = {f"{side}{i}": scalar for i, scalar in enumerate(scalars) for side in "ab"}

    def comparator(inner: Writer, a: Value, b: Value, *_: Value) -> Value:
        return _before(inner, a, b) if ascending else _before(inner, b, a)

    return w.operation(
        "stablehlo.sort",
        operands,
        [x.spec for x in operands],
        {"dimension": axis, "is_stable": stable},
        [w.region(names, comparator)],
    )


def _before(w: Writer, a: Value, b: Value) -> Value:
    """Emit a bool that says whether a sorts before b: a < b, or b is NaN and a is not."""
    if a.dtype.is_complex:
        return _before_complex(w, a, b)
    if not a.dtype.is_float:
        return w.compare("LT", a, b).called("before")
    less = w.compare("LT", a, b).called("less")
    number = w.compare("EQ", a, a).called("number")
    nan = w.compare("NE", b, b).called("nan")
    only = w.op("and", number, nan).called("only")
    return w.op("or", less, only).called("before")


def _before_complex(w: Writer, a: Value, b: Value) -> Value:
    """Emit a bool that says whether a sorts before b in NumPy's order of complex numbers.

    Numbers without NaN come first, then numbers with NaN in the imaginary part, in the real part, and in both. Within
    each of these four classes, real parts are compared, then imaginary parts if the real parts are equal.
    """
    parts = {
        f"{field}{name}": w.op(part, x).called(f"{field}{name}")
        for name, x in (("a", a), ("b", b))
        for field, part in (("r", "real"), ("i", "imag"))
    }
    less, same, nan = dict[str, Value](), dict[str, Value](), dict[str, Value]()
    for field in "ri":
        one, two = parts[f"{field}a"], parts[f"{field}b"]
        less[field] = w.compare("LT", one, two).called(f"less_{field}")
        same[field] = w.compare("EQ", one, two).called(f"same_{field}")
        for name, part in (("a", one), ("b", two)):
            nan[f"{field}{name}"] = w.compare("NE", part, part).called(f"nan_{field}{name}")
    first, second = (_nan_class(w, nan[f"i{name}"], nan[f"r{name}"], name) for name in "ab")
    class_less = w.compare("LT", first, second).called("cls_less")
    class_same = w.compare("EQ", first, second).called("cls_same")
    tie = w.op("or", same["r"], nan["ra"]).called("tie_r")
    then = w.op("and", tie, less["i"]).called("then_i")
    within = w.op("or", less["r"], then).called("within")
    ordered = w.op("and", class_same, within).called("ordered")
    return w.op("or", class_less, ordered).called("before")


def _nan_class(w: Writer, imag: Value, real: Value, name: str) -> Value:
    """Emit the class of a complex number: 0 without NaN, 1 if the imaginary part is NaN, 2 if the real part, 3 if both.

    `imag` and `real` are bools: whether the imaginary part and the real part are NaN. `name` is appended to the names
    of the emitted values.
    """
    one = w.convert(imag, DType.I32).called(f"one_{name}")
    two = w.convert(real, DType.I32).called(f"two_{name}")
    double = w.op("add", two, two).called(f"dbl_{name}")
    return w.op("add", one, double).called(f"cls_{name}")


def top_k(op: TopK, w: Writer, x: Value) -> tuple[Value, Value]:
    """Emit a stable descending sort of x along the last axis; return the first `op.k` values and their indices."""
    axis = x.rank - 1
    values, places = sort_together(w, (x, w.iota(x.shape, axis)), axis, True, ascending=False)
    return _first(w, values, op.k), _first(w, places, op.k)


def _first(w: Writer, x: Value, count: int) -> Value:
    if count == x.shape[-1]:
        return x
    limits = (*x.shape[:-1], count)
    return w.slice(x, (0,) * x.rank, limits, (1,) * x.rank, TensorSpec.of(limits, x.dtype))


ROWS: EmitterRows = {
    ReduceSum: reduction("add"),
    ReduceProd: reduction("multiply"),
    ReduceMax: reduction("maximum"),
    ReduceMin: reduction("minimum"),
    ReduceAnd: reduction("and"),
    ReduceOr: reduction("or"),
    ArgMax: arg_reduction("GT"),
    ArgMin: arg_reduction("LT"),
    CumSum: scan("add"),
    CumProd: scan("multiply"),
    CumMax: scan("maximum"),
    CumMin: scan("minimum"),
    Sort: sort,
    TopK: top_k,
}
