"""Emitters of the reduction family."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.emit.emitter import Emitter, EmitterRows
from lowering.inference import result_type
from lowering.types import element_type, integers
from lowering.writer import Value, Writer, comparison_type
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
    """The identity element."""
    if name == "multiply":
        return 1
    if name == "and":
        return ~np.zeros((), dtype.dtype)
    if name in ("maximum", "minimum"):
        largest = name == "minimum"
        if dtype.is_bool:
            return largest
        if dtype.is_integer:
            info = np.iinfo(dtype.dtype)
            return info.max if largest else info.min
        return np.inf if largest else -np.inf
    return 0


def combiner(name: str, dtype: DType) -> str:
    """The op that combines: max and min of bool are or and and."""
    if dtype.is_bool:
        return {"maximum": "or", "minimum": "and"}.get(name, name)
    return name


def reduction(name: str) -> Emitter:
    """stablehlo.reduce by that op, sums and products of low precision in float32."""

    def emit(op: Any, w: Writer, x: Value) -> Value:
        wide = w.convert(x, x.dtype.accumulator) if name in ("add", "multiply") else x
        initial = w.scalar(identity(name, wide.dtype), wide.dtype)
        return w.convert(w.reduce(combiner(name, x.dtype), wide, initial, op.axes), x.dtype)

    return emit


def scan(name: str) -> Emitter:
    """A window over everything up to each element: stablehlo.reduce_window."""

    def emit(op: Any, w: Writer, x: Value) -> Value:
        extent = x.shape[op.axis]
        if extent <= 1 or 0 in x.shape:
            return x
        wide = w.convert(x, x.dtype.accumulator) if name in ("add", "multiply") else x
        window = [extent if axis == op.axis else 1 for axis in range(x.rank)]
        before = [0, extent - 1] if op.reverse else [extent - 1, 0]
        pads = [before if axis == op.axis else [0, 0] for axis in range(x.rank)]
        scalar = f"tensor<{element_type(wide.dtype)}>"
        body = (
            f"{{ ^bb0(%a: {scalar}, %b: {scalar}): "
            f"%c = stablehlo.{combiner(name, wide.dtype)} %a, %b : {scalar} "
            f"stablehlo.return %c : {scalar} }}"
        )
        (result,) = w.generic(
            "reduce_window",
            (wide, w.scalar(identity(name, wide.dtype), wide.dtype)),
            (wide.spec,),
            {
                "window_dimensions": _array(window),
                "padding": f"dense<[{', '.join(integers(pair) for pair in pads)}]> "
                f": tensor<{x.rank}x2xi64>",
            },
            body,
        )
        return w.convert(result, x.dtype)

    return emit


def _array(values: list[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def arg_reduction(direction: str) -> Emitter:
    """Reduce pairs (value, index): the better value wins, NaN beats all, the lower index on ties."""

    def emit(op: Any, w: Writer, x: Value) -> Value:
        places = w.iota(x.shape, op.axis)
        start = identity("maximum" if direction == "GT" else "minimum", x.dtype)
        index_type = result_type(op, x)
        results = (TensorSpec.of(index_type.shape, x.dtype), index_type)
        _, index = w.generic(
            "reduce",
            (x, places, w.scalar(start, x.dtype), w.scalar(np.iinfo(np.int64).max, DType.I64)),
            results,
            {"dimensions": _array([op.axis])},
            _better(x.dtype, direction),
        )
        return index

    return emit


def _better(dtype: DType, direction: str) -> str:
    value, flag, number = f"tensor<{element_type(dtype)}>", "tensor<i1>", "tensor<i64>"
    kind = comparison_type(dtype)
    compare = f"({value}, {value}) -> {flag}"
    lines = [
        f"^bb0(%a: {value}, %i: {number}, %b: {value}, %j: {number}):",
        f"%nan_a = stablehlo.compare NE, %a, %a, {kind} : {compare}",
        f"%nan_b = stablehlo.compare NE, %b, %b, {kind} : {compare}",
        f"%more = stablehlo.compare {direction}, %a, %b, {kind} : {compare}",
        f"%same = stablehlo.compare EQ, %a, %b, {kind} : {compare}",
        f"%both = stablehlo.and %nan_a, %nan_b : {flag}",
        f"%tie = stablehlo.or %same, %both : {flag}",
        f"%number_b = stablehlo.not %nan_b : {flag}",
        f"%only_a = stablehlo.and %nan_a, %number_b : {flag}",
        f"%beats = stablehlo.or %more, %only_a : {flag}",
        f"%first = stablehlo.compare LT, %i, %j, SIGNED : ({number}, {number}) -> {flag}",
        f"%keeps = stablehlo.and %tie, %first : {flag}",
        f"%left = stablehlo.or %beats, %keeps : {flag}",
        f"%v = stablehlo.select %left, %a, %b : {flag}, {value}",
        f"%k = stablehlo.select %left, %i, %j : {flag}, {number}",
        f"stablehlo.return %v, %k : {value}, {number}",
    ]
    return "{ " + "\n      ".join(lines) + " }"


def sort(op: Sort, w: Writer, *operands: Value) -> Any:
    """stablehlo.sort, comparing the first operand's elements."""
    results = sort_together(w, operands, op.axis, op.stable, ascending=True)
    return results if op.count > 1 else results[0]


def sort_together(
    w: Writer, operands: tuple[Value, ...], axis: int, stable: bool, ascending: bool
) -> tuple[Value, ...]:
    """Sort by the first operand; NaN after all numbers, before them when descending."""
    kinds = [f"tensor<{element_type(x.dtype)}>" for x in operands]
    names = ", ".join(f"%a{index}: {kind}, %b{index}: {kind}" for index, kind in enumerate(kinds))
    first, second = ("%a0", "%b0") if ascending else ("%b0", "%a0")
    lines = [f"^bb0({names}):", *_before(operands[0].dtype, first, second)]
    body = "{ " + "\n      ".join([*lines, "stablehlo.return %before : tensor<i1>"]) + " }"
    return w.generic(
        "sort",
        operands,
        [x.spec for x in operands],
        {"dimension": f"{axis} : i64", "is_stable": str(stable).lower()},
        body,
    )


def _before(dtype: DType, a: str, b: str) -> list[str]:
    """Lines that set %before to whether a sorts before b: a < b, or only b is NaN."""
    flag = "tensor<i1>"
    if dtype.is_complex:
        return _before_complex(dtype, a, b)
    value = f"tensor<{element_type(dtype)}>"
    types = f"{comparison_type(dtype)} : ({value}, {value}) -> {flag}"
    if not dtype.is_float:
        return [f"%before = stablehlo.compare LT, {a}, {b}, {types}"]
    return [
        f"%less = stablehlo.compare LT, {a}, {b}, {types}",
        f"%number = stablehlo.compare EQ, {a}, {a}, {types}",
        f"%nan = stablehlo.compare NE, {b}, {b}, {types}",
        f"%only = stablehlo.and %number, %nan : {flag}",
        f"%before = stablehlo.or %less, %only : {flag}",
    ]


def _before_complex(dtype: DType, a: str, b: str) -> list[str]:
    """Real parts first, imaginary parts where those are equal; NaN parts after numbers.

    NumPy's order: a number without NaN, then NaN in the imaginary part, in the real part, in both.
    """
    flag = "tensor<i1>"
    whole, part = f"tensor<{element_type(dtype)}>", f"tensor<{element_type(dtype.real)}>"
    types = f"FLOAT : ({part}, {part}) -> {flag}"
    lines: list[str] = []
    for name, source in (("a", a), ("b", b)):
        for field, op in (("r", "real"), ("i", "imag")):
            lines.append(f"%{field}{name} = stablehlo.{op} {source} : ({whole}) -> {part}")
    for field in "ri":
        one, two = f"%{field}a", f"%{field}b"
        lines += [
            f"%less_{field} = stablehlo.compare LT, {one}, {two}, {types}",
            f"%same_{field} = stablehlo.compare EQ, {one}, {two}, {types}",
            f"%nan_{field}a = stablehlo.compare NE, {one}, {one}, {types}",
            f"%nan_{field}b = stablehlo.compare NE, {two}, {two}, {types}",
        ]
    rank: list[str] = []
    for name in "ab":
        # The class of a number: 0 without NaN, 1 in the imaginary part, 2 in the real one, 3 in both.
        rank += [
            f"%one_{name} = stablehlo.convert %nan_i{name} : ({flag}) -> tensor<i32>",
            f"%two_{name} = stablehlo.convert %nan_r{name} : ({flag}) -> tensor<i32>",
            f"%dbl_{name} = stablehlo.add %two_{name}, %two_{name} : tensor<i32>",
            f"%cls_{name} = stablehlo.add %one_{name}, %dbl_{name} : tensor<i32>",
        ]
    ints = f"SIGNED : (tensor<i32>, tensor<i32>) -> {flag}"
    return [
        *lines,
        *rank,
        f"%cls_less = stablehlo.compare LT, %cls_a, %cls_b, {ints}",
        f"%cls_same = stablehlo.compare EQ, %cls_a, %cls_b, {ints}",
        f"%tie_r = stablehlo.or %same_r, %nan_ra : {flag}",
        f"%then_i = stablehlo.and %tie_r, %less_i : {flag}",
        f"%within = stablehlo.or %less_r, %then_i : {flag}",
        f"%ordered = stablehlo.and %cls_same, %within : {flag}",
        f"%before = stablehlo.or %cls_less, %ordered : {flag}",
    ]


def top_k(op: TopK, w: Writer, x: Value) -> tuple[Value, Value]:
    """Sort values and places in descending order, stably, and keep the first k."""
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
