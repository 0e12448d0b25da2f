"""Schedules of turns that are rewritten as expressions, step by step; %0, %1, .. are slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.door import apply_one
from tenferro.exec.expression import Expression
from tenferro.exec.plan.rewrite import as_array, rewritten
from tenferro.ops.indexing import Gather
from tenferro.types import DType

EXECUTOR = tnf.GraphExecutor("K", compiled=False, segmented=False, passes=())
lax: Any = tnf.lax


def text(
    function: Callable[..., Any],
    arrays: Iterable[Any],
    ranges: Mapping[int, tuple[int, int]] | None = None,
    indices: Iterable[int] = (),
    kept: Iterable[int] = (),
) -> str:
    """The rewritten steps, a kernel by the name of its op, and the outputs."""
    schedule = EXECUTOR.compile(tnf.compile(function, *arrays))
    program, _ = rewritten(schedule, ranges or {}, indices, kept)
    lines: list[str] = []
    for step in program.instructions:
        names = [f"%{slot}" for slot in step.input_slots]
        called = (
            step.function.written(names, lambda name, value: str(value) if name == "key" else name)
            if isinstance(step.function, Expression)
            else f"{step.op.name}({', '.join(names)})"
        )
        lines.append(f"%{step.output_slots[0]} = {called}")
    return "; ".join([*lines, ", ".join([f"%{slot}" for slot in program.output_slots])])


B, I8, U8, U64, I64 = (np.ones((), kind) for kind in ("bool", "i1", "u1", "u8", "i8"))
F16, F32, F64, C128 = (np.ones((), kind) for kind in ("f2", "f4", "f8", "c16"))
X, A, R = np.arange(6.0), np.arange(30.0).reshape(5, 6), np.arange(6)

NUMBERS = (B, I8, U8, U64, I64, F16, F32, F64, C128)
INTEGERS, FLOATS = (I8, U8, U64, I64), (F32, F64)
GREATEST = "%0 if %0 > %1 else %1 if %1 > %0 else maximum(%0, %1)[()]"
LEAST = "%0 if %0 < %1 else %1 if %1 < %0 else minimum(%0, %1)[()]"
NUMPYS = "(float64(%0), float64(%1))"
PAIRS: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...], tuple[Any, ...]]] = {
    "Add": (lambda x, y: x + y, "%0 + %1", (*INTEGERS, *FLOATS), (B, F16, C128)),
    "Subtract": (lambda x, y: x - y, "%0 - %1", (*INTEGERS, *FLOATS), (F16, C128)),
    "Multiply": (lambda x, y: x * y, "%0 * %1", (*INTEGERS, *FLOATS), (B, F16, C128)),
    "Divide": (lax.div, "%0 / %1", (F32,), (*INTEGERS, F16, C128)),
    "Divide of Python's": (lax.div, "%0 / %1 if %1 else divide(%0, %1)", (F64,), ()),
    "And": (lambda x, y: x & y, "%0 & %1", (B, *INTEGERS), ()),
    "Or": (lambda x, y: x | y, "%0 | %1", (B, *INTEGERS), ()),
    "Xor": (lambda x, y: x ^ y, "%0 ^ %1", (B, *INTEGERS), ()),
    "Maximum": (tnf.maximum, GREATEST, (F32,), (F16,)),
    "Minimum": (tnf.minimum, LEAST, (F32,), (F16,)),
    "Maximum of Python's": (
        tnf.maximum,
        GREATEST.replace("(%0, %1)", NUMPYS),
        (F64,),
        (),
    ),
    "Minimum of Python's": (
        tnf.minimum,
        LEAST.replace("(%0, %1)", NUMPYS),
        (F64,),
        (),
    ),
    "Power": (
        tnf.pow,
        f"float(power(%0, %1) if %1 != 0.5 else kernel{NUMPYS})",
        (F64,),
        (*INTEGERS, F16, F32, C128),
    ),
    "Maximum of integers": (tnf.maximum, "%0 if %0 >= %1 else %1", (B, *INTEGERS), ()),
    "Minimum of integers": (tnf.minimum, "%0 if %0 <= %1 else %1", (B, *INTEGERS), ()),
    "Compare LT": (lambda x, y: x < y, "%0 < %1", (B, *INTEGERS, *FLOATS), (F16,)),
    "Compare LE": (lambda x, y: x <= y, "%0 <= %1", (B, *INTEGERS, *FLOATS), (F16,)),
    "Compare GT": (lambda x, y: x > y, "%0 > %1", (B, *INTEGERS, *FLOATS), (F16,)),
    "Compare GE": (lambda x, y: x >= y, "%0 >= %1", (B, *INTEGERS, *FLOATS), (F16,)),
    "Compare EQ": (lambda x, y: x == y, "%0 == %1", (B, *INTEGERS, *FLOATS), (F16, C128)),
    "Compare NE": (lambda x, y: x != y, "%0 != %1", (B, *INTEGERS, *FLOATS), (F16, C128)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_op_on_two_numbers(name: str) -> None:
    function, expected, expressed, called = PAIRS[name]
    for x in expressed:
        assert text(function, (x, x)) == f"%2 = {expected}; %2", x.dtype
    for x in called:
        assert text(function, (x, x)) == f"%2 = {name.split()[0]}(%0, %1); %2", x.dtype


SINGLE: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...], tuple[Any, ...]]] = {
    "Negate": (lambda x: -x, "-%0", (I8, I64, F32, F64), (U8, U64, F16, C128)),
    "Abs": (abs, "abs(%0)", (*INTEGERS, *FLOATS), (F16, C128)),
    "Not": (lambda x: ~x, "not %0", (B,), INTEGERS),
    "Sqrt": (tnf.sqrt, "sqrt(%0) if %0 >= 0 else root(%0)", (F64,), (F16, F32, C128)),
    "Sign": (lax.sign, "1.0 if %0 > 0 else -1.0 if %0 < 0 else %0", (F64,), (I8, F16, F32, C128)),
    "Exp": (tnf.exp, "float(exp(%0))", (F64,), (F16, F32, C128)),
    "Convert to f64": (lambda x: x.astype("f8"), "float(%0)", (B, I8, U8, I64), (U64, F16, F32)),
    "Convert to i64": (lambda x: x.astype("i8"), "int64(%0)", (B, I8, U8), (U64, F16, F32)),
    "Convert to f32": (lambda x: x.astype("f4"), "", (), (I8, U64, I64)),
    "Convert to i32": (lambda x: x.astype("i4"), "", (), (I8, U64, I64)),
}


@pytest.mark.parametrize("name", SINGLE)
def test_an_op_on_one_number(name: str) -> None:
    function, expected, expressed, called = SINGLE[name]
    for x in expressed:
        assert text(function, (x,)) == f"%1 = {expected}; %1", x.dtype
    for x in called:
        assert text(function, (x,)) == f"%1 = {name.split()[0]}(%0); %1", x.dtype


def test_a_kernel_is_called_on_numpys_numbers() -> None:
    for x, name in ((F64, "float64"), (B, "bool")):
        assert text(lambda x: x.astype("f4"), (x,)) == f"%2 = {name}(%0); %1 = Convert(%2); %1"
        assert f"%3 = {name}(%0); %1 = BroadcastInDim(%3)" in text(
            lambda x: repeated(x, (5, 6)), (x,)
        )


def test_numbers_are_computed_of_pythons() -> None:
    function = lambda x: tnf.sum(x) * 2.0
    assert text(function, (X,)) == "%4 = ReduceSum(%0); %1 = float(%4); %3 = %1 * %2; %3"
    assert text(function, (X.astype("f4"),)) == "%1 = ReduceSum(%0); %3 = %1 * %2; %3"
    assert text(lambda x: x * tnf.sum(x), (X,)).startswith("%1 = ReduceSum(%0); ")


def test_a_number_between_bounds() -> None:
    clamped = "%1 if %0 < %1 < %2 else %0 if %1 < %0 < %2 else %2 if %0 < %2 < %1 else kernel"
    assert clamped in text(lambda low, x, high: lax.clamp(low, x, high), (F64, F64, F64))


def test_a_known_divisor_is_no_zero_or_is() -> None:
    assert text(lambda x: x / 3.0, (F64,)) == "%2 = %0 / %1; %2"
    for zero in (0.0, -0.0):
        assert "divide" in text(lambda x, zero=zero: x / zero, (F64,))


def test_a_choice_of_two_numbers() -> None:
    for x in (B, *INTEGERS, *FLOATS):
        assert text(lax.select, (B, x, x)) == "%3 = %1 if %0 else %2; %3"
    for x in (F16, C128):
        assert text(lax.select, (B, x, x)) == "%3 = Select(%0, %1, %2); %3"


FEW = {0: (0, 3), 1: (0, 3)}
BOTH = [0, 1]


@pytest.mark.parametrize(
    ("function", "arrays", "ranges", "indices", "kept", "expected"),
    [
        # a result of Python's numbers is one, if its range is known; it leaves as NumPy's, unless it is kept
        (lax.sub, (I8, I8), FEW, BOTH, [], "%2 = %0 - %1; %3 = int8(%2); %3"),
        (lax.sub, (I8, I8), FEW, BOTH, [2], "%2 = %0 - %1; %2"),
        (lax.sub, (U8, U8), FEW, BOTH, [2], "%3 = uint8(%0); %4 = uint8(%1); %2 = %3 - %4; %2"),
        (lax.sub, (I8, I8), {0: (0, 3)}, BOTH, [2], "%3 = int8(%0); %4 = int8(%1); %2 = %3 - %4; %2"),
        # NumPy's number beside Python's gives NumPy's; a choice would give Python's
        (lax.sub, (I8, I8), FEW, [0], [2], "%2 = %0 - %1; %2"),
        (lax.sub, (I8, I8), FEW, [1], [2], "%2 = %0 - %1; %2"),
        (tnf.maximum, (I8, I8), FEW, [0], [2], "%3 = int8(%0); %2 = %3 if %3 >= %1 else %1; %2"),
        (tnf.maximum, (I8, I8), FEW, BOTH, [2], "%2 = %0 if %0 >= %1 else %1; %2"),
        (tnf.minimum, (I8, I8), FEW, [0], [2], "%3 = int8(%0); %2 = %3 if %3 <= %1 else %1; %2"),
        (lax.select, (B, I8, I8), {1: (0, 3)}, [1], [], "%4 = int8(%1); %3 = %4 if %0 else %2; %3"),
        # what is known is a literal beside Python's
        (lax.mul, (I64, I64), {0: (3, 3), 1: (0, 2)}, [1], [2], "%2 = 3 * %1; %2"),
        (lax.sub, (I64, I64), {0: (0, 2), 1: (-3, -3)}, [0], [2], "%2 = %0 - (-3); %2"),
        (lax.sub, (I64, I64), {0: (0, 2), 1: (0, 0)}, [0], [2], "%2 = %0 - 0; %2"),
        (lax.sub, (I64, I64), {0: (0, 2), 1: (1, 1)}, [], [2], "%2 = %0 - %1; %2"),
        (lax.eq, (B, B), {0: (1, 1), 1: (0, 1)}, [1], [2], "%2 = True == %1; %2"),
        (lax.eq, (B, B), {0: (0, 0), 1: (0, 1)}, [1], [2], "%2 = False == %1; %2"),
        (lambda x: x + 5, (I64,), FEW, [0], [2], "%2 = %0 + 5; %2"),
        (lambda x: x * x + x, (I64,), FEW, [0], [2], "%1 = %0 * %0; %2 = %1 + %0; %2"),
        # and what is computed of it is a constant
        (lambda x: x * x + 1, (I64,), {0: (3, 3)}, [0], [], "%3"),
        (lambda x: ~(x < 2), (I64,), FEW, [0], [3], "%2 = %0 < 2; %3 = not %2; %3"),
        (lambda x: ~(x < 2), (I64,), FEW, [0], [], "%2 = %0 < 2; %3 = not %2; %4 = bool(%3); %4"),
        # a choice that is decided
        (lax.select, (B, F64, F64), {0: (1, 1)}, [], [], "%1"),
        (lax.select, (B, F64, F64), {0: (0, 0)}, [], [], "%2"),
        (lambda p, x: lax.select(p, x, x), (B, F64), {}, [], [], "%1"),
    ],
)  # fmt: skip
def test_numbers_of_known_range(
    function: Any, arrays: Any, ranges: Any, indices: Any, kept: Any, expected: str
) -> None:
    assert text(function, arrays, ranges, indices, kept) == expected


def gathered(sizes: tuple[int, ...], collapsed: tuple[int, ...], **options: Any) -> Any:
    """Of a matrix, one window at the row (i,)."""
    offset_dims = tuple(range(len(sizes) - len(collapsed)))
    return lambda i, a: (
        -apply_one(
            Gather(offset_dims, collapsed, (), (), (0,), 0, sizes, **options), a, i.reshape((1,))
        )
    )


ROW = [0]


@pytest.mark.parametrize(
    ("function", "array", "ends", "expected"),
    [
        # windows: known to fit, or moved to where they do
        (lambda i, x: -lax.dynamic_slice(x, (i,), (3,)), X, (0, 3), "%1[%0:%0 + 3]"),
        (lambda i, x: -lax.dynamic_slice(x, (i,), (3,)), X, (0, 4), "%1[window(%0, 3, 3)]"),
        (lambda i, x: -lax.dynamic_slice(x, (i,), (3,)), X, (2, 2), "%1[2:2 + 3]"),
        (lambda i, x: -lax.dynamic_slice(x, (i,), (3,)), X, (5, 5), "%1[window(5, 3, 3)]"),
        (lambda i, x: -lax.dynamic_slice(x, (i,), (6,)), X, (0, 4), "%1[:]"),
        (lambda i, a: -lax.dynamic_slice(a, (i, 2), (2, 3)), A, (0, 3), "%1[%0:%0 + 2, 2:2 + 3]"),
        (lambda i, a: -lax.dynamic_slice(a, (i, i), (2, 6)), A, (0, 4), "%1[window(%0, 3, 2), :]"),
        # elements, rows and columns
        (lambda i, x: -x[i], X, (0, 5), "%1.item(%0)"),
        (lambda i, x: -x[i], X, (0, 6), "%1.item(%0 if 0 <= %0 <= 5 else clamped(%0, 5))"),
        (lambda i, x: -x[i], X.astype("f4"), (0, 5), "%1[%0]"),
        (lambda i, x: -x[i], X[:1], (0, 6), "%1.item(0)"),
        (lambda i, a: -a[i], A, (0, 4), "%1[%0, :]"),
        (lambda i, a: -a[:, i], A, (0, 5), "%1[:, %0]"),
        (lambda i, a: -a[i, i], A, (0, 4), "%1.item(%0, %0)"),
        (lambda i, a: tnf.sum(a[i]), A, (0, 4), "contiguous(%1[%0, :])"),  # whose sum goes by strides
        (lambda i, a: tnf.sum(lax.dynamic_slice(a, (i, 0), (2, 2))), A, (0, 3), "%1[%0:%0 + 2, 0:0 + 2]"),
        (gathered((1, 4), (0,)), A, (0, 4), "%1[%0, :4]"),
        (gathered((1, 6), (0,)), A, (0, 4), "%1[%0, :]"),
        (gathered((1, 1), (0, 1)), A, (0, 4), "%1.item(%0, 0)"),
        (gathered((2, 3), ()), A, (0, 3), "%1[%0:%0 + 2, :3]"),
    ],
)  # fmt: skip
def test_a_window_at_a_number_is_a_subscript(
    function: Any, array: Any, ends: tuple[int, int], expected: str
) -> None:
    steps = text(function, (I64, array), {0: ends}, [0]).split("; ")
    assert steps[0].partition(" = ")[2] == expected
    assert len(steps) == 3


@pytest.mark.parametrize(
    ("function", "arrays", "ends", "expected"),
    [
        (lambda i, x: x.at[i].set(2.0), (X,), (0, 5), "%1[%0] = %7"),
        (lambda i, x: x.at[i].add(2.0), (X,), (0, 5), "%1[%0] += %7"),
        (lambda i, x: x.at[i].multiply(2.0), (X,), (0, 5), "%1[%0] *= %7"),
        (lambda i, x: x.at[i].set(True), (X > 2,), (0, 5), "%1[%0] = %7"),
        # what may lie outside is not written
        (lambda i, x: x.at[i].add(2.0), (X,), (0, 6), "if 0 <= %0 <= 5: %1[%0] += %7"),
        (lambda i, x: x.at[i].add(2.0), (X[:1],), (0, 6), "if 0 <= %0 <= 0: %1[%0] += %7"),
        (lambda i, a, u: a.at[i].set(u), (A, X), (0, 4), "%1[%0, :] = %2"),
        (lambda i, a, u: a.at[i].set(u), (A, X), (0, 5), "if 0 <= %0 <= 4: %1[%0, :] = %2"),
        (lambda i, a, u: a.at[:, i].set(u), (A, X[:5]), (0, 5), "%1[:, %0] = %2"),
        (lambda i, a: a.at[i, i].set(2.0), (A,), (0, 6),
         "if 0 <= %0 <= 4 and 0 <= %0 <= 5: %1[%0, %0] = %10"),
        (lambda i, a: a.at[i, i].set(2.0), (A,), (0, 5), "if 0 <= %0 <= 4: %1[%0, %0] = %10"),
        # but for updates, which are moved
        (lambda i, x, u: lax.dynamic_update_slice(x, u, (i,)), (X, X[:3]), (0, 3), "%1[%0:%0 + 3] = %2"),
        (lambda i, x, u: lax.dynamic_update_slice(x, u, (i,)), (X, X[:3]), (0, 4), "%1[window(%0, 3, 3)] = %2"),
        (lambda i, x, u: lax.dynamic_update_slice(x, u, (i,)), (X, X), (0, 4), "%1[:] = %2"),
    ],
)  # fmt: skip
def test_a_change_at_a_number_is_a_statement(
    function: Any, arrays: Any, ends: tuple[int, int], expected: str
) -> None:
    (step, _) = text(function, (I64, *arrays), {0: ends}, [0]).split("; ")
    assert step.partition(" = ")[2] == expected


@pytest.mark.parametrize(
    ("function", "array", "op"),
    [
        (lambda i, x: lax.dynamic_update_slice(x, np.ones(0), (i,)), X, "DynamicUpdateSlice"),
        (lambda i, x: x.at[i].min(2.0), X, "Scatter"),
        (lambda i, x: x.at[i].add(True), X > 2, "Scatter"),
        (lambda i, x: x.at[i].multiply(True), X > 2, "Scatter"),
        (lambda i, x: x.at[tnf.stack([i, i])].set(2.0), X, "Scatter"),
        (lambda i, x: x[tnf.stack([i, i])], X, "%1.take"),
        (lambda i, x: apply_one(Gather((), (0,), (), (), (0,), 1, (1,)), x, tnf.stack([i, i])), X, "%1.take"),
        (lambda i, x: apply_one(Gather((1,), (), (), (), (0,), 1, (2,)), x, tnf.stack([i, i])[:, None]), X, "Gather"),
    ],
)  # fmt: skip
def test_no_window_and_several_windows_go_by_their_kernels(
    function: Any, array: Any, op: str
) -> None:
    steps = text(function, (I64, array), {0: (0, 3)}, [0])
    assert re.search(f" = {op}\\(", steps)


def repeated(x: Any, shape: tuple[int, ...], *dims: int) -> Any:
    return lax.broadcast_in_dim(x, shape, dims)


@pytest.mark.parametrize(
    ("function", "arrays", "expected"),
    [
        # NumPy repeats by itself, where a step reads it that does
        (lambda x, a: a * repeated(x, (5, 6), 1), (X, A), "%3 = Multiply(%1, %0); %3"),
        (lambda x, a: repeated(x, (5, 6), 1) - a, (X, A), "%3 = Subtract(%0, %1); %3"),
        (lambda x, a: a * repeated(x, (5, 6), 0), (X[:5], A), "%4 = %0[:, None]; %3 = Multiply(%1, %4); %3"),
        (lambda x, a: a * repeated(x, (5, 2, 6), 0, 2), (A, np.ones((5, 2, 6))),
         "%4 = %0[:, None, :]; %3 = Multiply(%1, %4); %3"),
        (lambda x, a: (a * repeated(x, (5, 6), 0)) - repeated(x, (5, 6), 0), (X[:5], A),
         "%5 = %0[:, None]; %3 = Multiply(%1, %5); %4 = Subtract(%3, %5); %4"),
        (lambda x, a: a * repeated(x, (6, 5), 1, 0), (A, A.T), "%2 = BroadcastInDim(%0); %3 = Multiply(%1, %2); %3"),
        (lambda x: repeated(x, (5, 6), 1) * repeated(x, (5, 6), 1), (X,),
         "%1 = BroadcastInDim(%0); %2 = Multiply(%0, %1); %2"),
        (lambda p, x, a: lax.select(p, repeated(x, (5, 6), 1), a), (A > 1, X, A), "%4 = Select(%0, %1, %2); %4"),
        (lambda x, a: tnf.maximum(repeated(x, (5, 6), 1), a), (X, A), "%3 = Maximum(%0, %1); %3"),
        (lambda x: tnf.exp(repeated(x, (5, 6), 1)), (X,), "%1 = BroadcastInDim(%0); %2 = Exp(%1); %2"),
        # a number decides between two rows
        (lambda p, x, y: lax.select(repeated(p, (6,)), x, y), (B, X, X), "%4 = (%1 if %0 else %2).copy(); %4"),
        (lambda p, x, y: lax.select(p, x, y), (X > 1, X, X), "%3 = Select(%0, %1, %2); %3"),
        (lambda p, x, y: lax.select(repeated(p, (5, 6)), x, y), (B, A, A), "%4 = Select(%0, %1, %2); %4"),
        (lambda p, x, y: lax.select(repeated(p, (6,)), x, repeated(y, (6,))), (B, X, F64),
         "%5 = Select(%0, %1, %2); %5"),
        (lambda p, x, y: lax.select(repeated(p, (6,)), repeated(y, (6,)), x), (B, X, F64),
         "%5 = Select(%0, %2, %1); %5"),
        # a choice or a conjunction that a constant decides
        (lambda x, y: lax.select(np.ones(6, bool), -x, y), (X, X), "%2 = Negate(%0); %2"),
        (lambda x, y: lax.select(np.zeros(6, bool), y, -x), (X, X), "%2 = Negate(%0); %2"),
        (lambda x, y: lax.select(R > 2, x, y), (X, X), "%3 = Select(%2, %0, %1); %3"),
        (lambda p, x: -lax.select(p, x, x), (X > 1, X), "%3 = Negate(%1); %3"),
        (lambda p, x, y: lax.select(p & np.zeros(6, bool), x, -y), (X > 1, X, X), "%5 = Negate(%2); %5"),
        (lambda x: x & np.zeros(6, int), (R,), "%2 = And(%0, %1); %2"),
        (lambda x: x & np.ones(6, bool), (X > 1,), "%2 = And(%0, %1); %2"),
        # views
        (lambda x: -x[1:5:2], (X,), "%1 = %0[(slice(1, 5, 2),)]; %2 = Negate(%1); %2"),
        (lambda x: x[2] * x[3], (X,), "%2 = %0.item(2); %4 = %0.item(3); %5 = %2 * %4; %5"),
        (lambda a: -a[2, 3], (A,), "%2 = %0.item(2, 3); %3 = -%2; %3"),
        (lambda a: -a.reshape(()), (A[:1, :1],), "%1 = %0.item(0, 0); %2 = -%1; %2"),
        (lambda x: -x.reshape((1, 1)), (F32,), "%1 = %0.reshape((1, 1)); %2 = Negate(%1); %2"),
        (lambda x: -x.reshape((1, 1)), (F64,), "%1 = array([[%0]]); %2 = Negate(%1); %2"),
        (lambda x: -x.reshape((6, 1)), (X,), "%1 = %0.reshape((6, 1)); %2 = Negate(%1); %2"),
        (lambda x: -x.reshape((3, 2)), (X,), "%1 = Reshape(%0); %2 = Transpose(%1); %3 = Negate(%2); %3"),
        (lambda x, a: x.reshape((6, 1)) @ a, (X, A[:1]), "%2 = Reshape(%0); %3 = DotGeneral(%2, %1); %3"),
        (lambda x, a: tnf.concatenate([x.reshape((6, 1)), a], 1), (X, A.T),
         "%2 = %0.reshape((6, 1)); %3 = concatenate((%2, %1,), 1); %3"),
        # rows of numbers
        (lambda x, y: tnf.stack([x, y]), (F64, F64), "%4 = array([%0, %1]); %4"),
        (lambda x, y: tnf.stack([x, y]), (F16, F16), "%4 = array([%0, %1]); %4"),
        (lambda x, y: tnf.concatenate([x, y]), (X, X), "%2 = concatenate((%0, %1,), 0); %2"),
        (lambda x, y: tnf.concatenate([x.reshape((1,)), y]), (F64, X),
         "%2 = array([%0]); %3 = concatenate((%2, %1,), 0); %3"),
        (lambda x, y: tnf.concatenate([x.reshape((1, 1)), y.reshape((1, 1))]), (F64, F64),
         "%2 = array([[%0]]); %3 = array([[%1]]); %4 = concatenate((%2, %3,), 0); %4"),
        (lambda x, y: tnf.stack([x, y]), (tnf.asarray(F32).astype("bfloat16"),) * 2,
         "%2 = %0.reshape((1,)); %3 = %1.reshape((1,)); %4 = concatenate((%2, %3,), 0); %4"),
    ],
)  # fmt: skip
def test_a_step_on_arrays(function: Any, arrays: Any, expected: str) -> None:
    assert text(function, arrays) == expected


S = np.arange(6, dtype="i1")


@pytest.mark.parametrize(
    ("function", "array", "ends", "expected"),
    [
        # a comparison that ranges decide, and what follows
        (lambda r: tnf.where(r < 0, r + 6, r), R, (0, 5), "%0"),
        (lambda r: tnf.where(r < 0, r + 6, r), R, (-1, 5), None),
        (lambda r: tnf.where(r >= 0, r, r + 6), R, (0, 5), "%0"),
        (lambda r: tnf.where(R[::-1] < 6, r, -r), R, (0, 5), "%0"),
        # a remainder by more than there is
        (lambda r: lax.rem(r, 6), R, (-5, 5), "%0"),
        (lambda r: lax.rem(r, 6), R, (-5, 6), None),
        (lambda r: lax.rem(r, 6), R, (-6, 5), None),
        (lambda r: lax.rem(r, -6), R, (-5, 5), None),
        # of a choice, each value where it is chosen
        (lambda r: lax.rem(tnf.where(r < 0, r + 6, r), 6), R, (-6, 5), "{where}"),
        (lambda r: lax.rem(tnf.where(r >= 0, r, r + 6), 6), R, (-6, 5), "{where}"),
        (lambda r: lax.rem(tnf.where(r < 0, r + 6, r), 6), R, (-7, 5), "{where}"),
        (lambda r: lax.rem(tnf.where(r < 0, r + 6, r), 6), R, (-6, 6), None),
        (lambda r: lax.rem(tnf.where(r < 1, r + 6, r), 6), R, (-6, 5), None),
        (lambda r: lax.rem(tnf.where(r < 0, r + 1, -r), 6), R, (-6, 5), "{where}"),
        # elements that move
        (lambda r: tnf.where(r[::-1].reshape((2, 3)) < 0, 7, 8), R, (0, 5), "constant"),
        # a sum that may wrap
        (lambda r: tnf.where(r + np.int8(100) < 0, r, -r), S, (0, 27), "negative"),
        (lambda r: tnf.where(r + np.int8(100) < 0, r, -r), S, (0, 28), None),
    ],
)  # fmt: skip
def test_ranges_of_arrays(function: Any, array: Any, ends: Any, expected: str | None) -> None:
    """The names of the ops that are left: a choice alone, or all of them."""
    schedule = EXECUTOR.compile(tnf.compile(function, array))
    program, _ = rewritten(schedule, {schedule.input_slots[0]: ends}, (), ())
    names = [step.op.name for step in program.instructions]
    before = [step.op.name for step in schedule.instructions]
    match expected:
        case None:
            assert names[-1] == before[-1]
            assert ("Remainder" in names) == ("Remainder" in before)
        case "{where}":
            assert names[-1] == "Select"
        case "negative":
            assert names == ["Negate"]
        case "constant":
            assert program.output_slots[0] in program.constants
        case _:
            assert program.output_slots == program.input_slots


@pytest.mark.parametrize(
    ("function", "arrays", "expected"),
    [
        # NumPy's functions of arrays take Python's numbers beside them, others and outputs do not
        (lambda n, x: (x * n, x + n), (I64, R), "%3 = Multiply(%1, %0); %4 = Add(%1, %0); %3, %4"),
        (lambda n, x: tnf.maximum(n, x), (I64, R), "%3 = Maximum(%0, %1); %3"),
        (lambda n, x: lax.sub(repeated(n, (6,)), repeated(n + x[0], (6,))), (I64, R),
         "%4 = %1[0]; %5 = %0 + %4; %6 = BroadcastInDim(%5); %7 = Subtract(%0, %6); %7"),
        (lambda n, x: tnf.stack([n, x]), (I64, I64), "%5 = int64(%0); %4 = array([%5, %1]); %4"),
        (lambda n, x: (x + n, -repeated(n, (2,)), -repeated(n, (3,))), (I64, R),
         "%8 = int64(%0); %3 = Add(%1, %0); %4 = BroadcastInDim(%8); %5 = Negate(%4); %6 = BroadcastInDim(%8); "
         "%7 = Negate(%6); %3, %5, %7"),
        (lambda n, x: -n.reshape((1, 1)) + x, (I64, R[None]),
         "%6 = int64(%0); %2 = %6.reshape((1, 1)); %3 = Negate(%2); %5 = Add(%3, %1); %5"),
        (lambda n, x: tnf.where(n > 2, x, -x), (I64, X),
         "%3 = %0 > 2; %4 = Negate(%1); %6 = (%1 if %3 else %4).copy(); %6"),
    ],
)  # fmt: skip
def test_a_number_of_python_beside_arrays(function: Any, arrays: Any, expected: str) -> None:
    assert text(function, arrays, {0: (0, 3)}, [0]) == expected


ANYWHERE: dict[str, Callable[..., Any]] = {
    "add": lambda x, _: x + x, "subtract": lambda x, _: x - x, "multiply": lambda x, _: x * x,
    "divide": lambda x, _: x / x, "negative": lambda x, _: -x, "abs": lambda x, _: abs(x),
    "where": lambda x, p: lax.select(p, x, x * x), "sqrt": lambda x, _: tnf.sqrt(x),
    "and": lambda _, p: p & p, "or": lambda _, p: p | p, "xor": lambda _, p: p ^ p,
    "maximum": lambda x, _: tnf.maximum(x, x), "minimum": lambda x, _: tnf.minimum(x, x),
    **{name: lambda x, _, name=name: getattr(lax, name)(x, x) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}  # fmt: skip


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_row_is_read_where_it_lies_by_what_gives_the_same_bits(name: str) -> None:
    def function(i: Any, a: Any, p: Any) -> Any:
        return ANYWHERE[name](a[i], p[i])

    steps = text(function, (I64, A, A > 2), {0: (0, 4)}, [0])
    assert "[%0, :]" in steps
    assert "contiguous" not in steps
    both = text(lambda i, a, p: (function(i, a, p), tnf.exp(a[i]), p[i]), (I64, A, A > 2), {0: (0, 4)}, [0])  # fmt: skip
    assert both.count("contiguous(") == 2


def test_an_array_of_a_number() -> None:
    """Of one of Python's integers, which asarray makes int64, by NumPy's number."""
    for dtype, expected in (
        (DType.I64, "%0"), (DType.F64, "%0"), (DType.F32, "%0"), (DType.Bool, "%0"),
        (DType.I32, "int32(%0)"), (DType.U64, "uint64(%0)"), (DType.U8, "uint8(%0)"),
    ):  # fmt: skip
        spec = tnf.TensorSpec((), dtype)
        step: Any = as_array(3, 7, spec)
        assert step.function.written(["%0"]) == expected
        number = 5 if dtype.is_integer else dtype.dtype.type(1)
        assert np.asarray(step.function(number)).dtype == dtype.dtype
        assert (step.input_slots, step.output_slots, step.output_types) == ((3,), (7,), (spec,))
