"""Chapter about the standard ops. Each op must equal its definition."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import ops
from tenferro.extension.algebra import apply_one
from tenferro.ops import STD_OPS
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "primitives",
    "Primitives",
    "The standard ops, of which programs, derivatives and StableHLO modules consist. "
    "Each op has a class, a kernel, a derivative and an emitter, and computes the same values natively and through PJRT.",
)
X = np.array([[-1.5, 0.25, 2.0], [0.5, -0.75, 1.0]])
Y = np.array([[2.0, -0.5, 2.0], [1.5, 0.25, -3.0]])
P = np.abs(X) + 0.5
Z = X + 1j * Y
B = np.arange(24.0).reshape(2, 3, 4)
INDICES = np.array([[2], [0]])
PICK = {
    "operand_batching_dims": (),
    "start_indices_batching_dims": (),
    "start_index_map": (1,),
    "index_vector_dim": 1,
}


def picked(x: Any) -> Any:
    return x[:, [2, 0]]


def added(x: Any, indices: Any, updates: Any) -> Any:
    result = x.copy()
    for column, index in enumerate(indices[:, 0]):
        result[:, index] += updates[:, column]
    return result


SCATTER = ops.Scatter((0,), (1,), (), (), (1,), 1)
ROWS = {
    1: Row("`Add` adds elements.", ops.Add(), (X, Y), lambda x, y: x + y),
    2: Row("`Multiply` multiplies elements.", ops.Multiply(), (X, Y), lambda x, y: x * y),
    3: Row("`Negate` changes signs.", ops.Negate(), (X,), lambda x: -x),
    4: Row("`Conj` conjugates.", ops.Conj(), (Z,), lambda z: z.real - 1j * z.imag),
    5: Row("`Conj` returns a real tensor unchanged.", ops.Conj(), (X,), lambda x: x),
    6: Row("`Divide` divides elements.", ops.Divide(), (X, Y), lambda x, y: x / y),
    7: Row("`Abs` computes the absolute value or modulus.", ops.Abs(), (Z,), lambda z: np.hypot(z.real, z.imag)),
    8: Row("`Sign` computes the sign.", ops.Sign(), (X,), lambda x: (x > 0) * 1.0 - (x < 0)),
    9: Row("`Maximum` takes the larger of two elements.", ops.Maximum(), (X, Y), lambda x, y: np.where(x > y, x, y)),
    10: Row("`Minimum` takes the smaller of two elements.", ops.Minimum(), (X, Y), lambda x, y: np.where(x < y, x, y)),
    11: Row("`Select` chooses element by element.", ops.Select(), (X > 0, X, Y), np.where),
    12: Row("`Clamp` is min(max(x, lower), upper).", ops.Clamp(), (np.full_like(X, -0.5), X, np.full_like(X, 0.5)), lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    13: Row("`Compare` with direction `EQ` tests for equality.", ops.Compare("EQ"), (X, Y), lambda x, y: x == y),
    14: Row("`Compare` with direction `LT` tests for less than.", ops.Compare("LT"), (X, Y), lambda x, y: x < y),
    15: Row("`Compare` with direction `LE` tests for less than or equal.", ops.Compare("LE"), (X, Y), lambda x, y: x <= y),
    16: Row("`Compare` with direction `GT` tests for greater than.", ops.Compare("GT"), (X, Y), lambda x, y: x > y),
    17: Row("`Compare` with direction `GE` tests for greater than or equal.", ops.Compare("GE"), (X, Y), lambda x, y: x >= y),
    18: Row("`Exp` is e^x.", ops.Exp(), (X,), np.exp),
    19: Row("`Log` is the natural logarithm.", ops.Log(), (P,), np.log),
    20: Row("`Sin` is the sine.", ops.Sin(), (X,), np.sin),
    21: Row("`Cos` is the cosine.", ops.Cos(), (X,), np.cos),
    22: Row("`Tanh` is the hyperbolic tangent.", ops.Tanh(), (X,), np.tanh),
    23: Row("`Sqrt` is the square root.", ops.Sqrt(), (P,), np.sqrt),
    24: Row("`Rsqrt` is 1 / sqrt(x).", ops.Rsqrt(), (P,), lambda x: 1 / np.sqrt(x)),
    25: Row("`Power` is x^y.", ops.Power(), (P, Y), lambda x, y: np.exp(y * np.log(x)), because="the name is StableHLO's and not Pow, so that a program and its StableHLO text use the same names"),
    26: Row("`Expm1` is e^x - 1.", ops.Expm1(), (X,), np.expm1),
    27: Row("`Log1p` is log(1 + x).", ops.Log1p(), (P,), np.log1p),
    28: Row("`Transpose` permutes axes.", ops.Transpose((2, 0, 1)), (B,), lambda x: np.moveaxis(x, 2, 0)),
    29: Row("`Reshape` keeps the elements in column-major order.", ops.Reshape((4, 6)), (B,), lambda x: x.flatten("F").reshape((4, 6), order="F")),
    30: Row("`BroadcastInDim` maps axis j of the operand to axis dims[j] and repeats the operand along all other axes.", ops.BroadcastInDim((2, 3, 2), (1,)), (X[0],), lambda x: np.stack([np.stack([x, x], 1)] * 2)),
    31: Row("`Convert` changes the dtype.", ops.Convert(tnf.DType.I32), (X * 4,), lambda x: np.trunc(x).astype("i4")),
    32: Row("`ExtractDiag` extracts a diagonal.", ops.ExtractDiag(0, 1), (X[:, :2],), lambda x: np.array([x[0, 0], x[1, 1]])),
    33: Row("`EmbedDiag` writes a tensor to a diagonal.", ops.EmbedDiag(0, 1), (X[0],), lambda x: np.eye(3) * x),
    34: Row("`Tril` keeps the lower triangle.", ops.Tril(), (X,), lambda x: x * [[1, 0, 0], [1, 1, 0]]),
    35: Row("`Triu` keeps the upper triangle.", ops.Triu(), (X,), lambda x: x * [[1, 1, 1], [0, 1, 1]]),
    36: Row("`ReduceSum` sums over axes and removes them from the shape.", ops.ReduceSum((0, 2)), (B,), lambda x: x.sum(2).sum(0)),
    37: Row("`ReduceProd` multiplies over axes.", ops.ReduceProd((1,)), (X,), lambda x: x[:, 0] * x[:, 1] * x[:, 2]),
    38: Row("`ReduceMax` takes the maximum over axes.", ops.ReduceMax((0,)), (X,), lambda x: np.where(x[0] > x[1], x[0], x[1])),
    39: Row("`ReduceMin` takes the minimum over axes.", ops.ReduceMin((0,)), (X,), lambda x: np.where(x[0] < x[1], x[0], x[1])),
    40: Row("`DotGeneral` contracts the axes that it names.", ops.DotGeneral((1,), (0,)), (X, Y.T), lambda x, y: sum(x[:, [k]] * y[[k]] for k in range(3))),
    41: Row("`Gather` reads at indices.", ops.Gather((0,), (1,), slice_sizes=(2, 1), **PICK), (X, INDICES), lambda x, i: picked(x)),
    42: Row("`GatherDynamicSliceSizes` reads slices at indices; the slice sizes may be symbols.", ops.GatherDynamicSliceSizes((0,), (1,), slice_sizes=(2, 1), **PICK), (X, INDICES), lambda x, i: picked(x)),
    43: Row("`Scatter` accumulates at indices, including repeated ones.", SCATTER, (X, np.array([[2], [2]]), Y[:, :2]), added),
    44: Row("`Slice` reads a rectangular region with strides.", ops.Slice((0, 0, 1), (2, 3, 4), (1, 2, 1)), (B,), lambda x: x[0:2, 0:3:2, 1:4]),
    45: Row("`DynamicSlice` reads a slice whose start indices are tensors.", ops.DynamicSlice((1, 2)), (X, np.int64(1), np.int64(1)), lambda x, i, j: x[1:2, 1:3]),
    46: Row("`DynamicSlice` clamps start indices so that the slice is in bounds.", ops.DynamicSlice((1, 2)), (X, np.int64(9), np.int64(-9)), lambda x, i, j: x[1:2, 0:2]),
    47: Row("`DynamicUpdateSlice` writes a slice whose start indices are tensors.", ops.DynamicUpdateSlice(2), (X, Y[:1, :2], np.int64(1), np.int64(1)), lambda x, u, i, j: np.vstack([x[:1], np.hstack([x[1:, :1], u])])),
    48: Row("`Pad` pads at the edges and between elements.", ops.Pad((1,), (2,), (1,)), (X[0], np.float64(9)), lambda x, p: np.array([9, x[0], 9, x[1], 9, x[2], 9, 9])),
    49: Row("`Concatenate` joins along an axis.", ops.Concatenate(1, 2), (X, Y), lambda x, y: np.array([[*a, *b] for a, b in zip(x, y, strict=True)])),
    50: Row("`Reverse` reverses the elements along axes.", ops.Reverse((1,)), (X,), lambda x: x[:, ::-1]),
    52: Row("The result of a contraction has the batch axes first, then the free axes of the left operand, then those of the right operand.", ops.DotGeneral((1,), (2,), (2,), (1,)), (B, np.arange(60.0).reshape(5, 4, 3)), lambda a, b: np.array([[[sum(a[i, k, c] * b[j, c, k] for k in range(3)) for j in range(5)] for i in range(2)] for c in range(4)])),
}  # fmt: skip


@functools.cache
def through_pjrt() -> dict[int, Any]:
    """Run the ops of all statements as one program through PJRT.

    Return the results by the number of the statement.
    """
    cases = {number: row.values for number, row in ROWS.items()}

    def everything(inputs: Any) -> Any:
        return {number: apply_one(cases[number][0], *xs) for number, xs in inputs.items()}

    inputs = {number: arrays for number, (_, arrays, _) in cases.items()}
    return xla_peer.XlaExecutor("cpu").run(tnf.compile(everything, inputs), inputs)


@chapter.table(
    "number, op, arrays, definition",
    {n: Row(row.text, n, *row.values, because=row.because) for n, row in ROWS.items()},
)
def test_primitives(number: int, op: Any, arrays: Any, definition: Any) -> None:
    expected = definition(*arrays)
    program = tnf.compile(lambda *xs: apply_one(op, *xs), *arrays)
    assert [i.op for i in program.instructions] == [op]
    for result in (program.run(*arrays), through_pjrt()[number]):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-15)


@chapter.works(51, "`Constant` holds an array in the program.")
def test_constants() -> None:
    program = tnf.compile(lambda x: (x, np.array([-0.0, np.nan])), X)
    (step,) = program.instructions
    assert isinstance(step.op, ops.Constant)
    for run in (program.run, lambda x: xla_peer.XlaExecutor("cpu").run(program, x)):
        assert run(X)[1].tobytes() == np.array([-0.0, np.nan]).tobytes()


SHORT = np.ones(3)


@chapter.works(
    53, "The vocabulary is closed: every op has a kernel, a derivative row and an emitter."
)
def test_the_vocabulary() -> None:
    from lowering.emit import EMITTERS
    from tenferro.ad.rules import AD_RULES
    from tenferro.exec.kernels import KERNELS

    for table in (
        KERNELS,
        AD_RULES.cells,
        EMITTERS.cells if hasattr(EMITTERS, "cells") else EMITTERS,
    ):
        assert set(table) >= set(STD_OPS)


@chapter.table(
    "op, arrays, kind, words",
    {
        54: Row("Ops do not broadcast: unequal shapes are an error, and the message says what to write instead.", ops.Add(), (SHORT, np.float64(1)), errors.ShapeError, "BroadcastInDim"),
        55: Row("Ops do not promote dtypes: unequal dtypes are an error, and the message says what to write instead.", ops.Add(), (SHORT, SHORT.astype("f4")), errors.DTypeError, "Convert"),
        56: Row("A permutation names each axis once.", ops.Transpose((0, 0)), (X,), errors.ShapeError, "perm"),
        57: Row("A reshape that changes the number of elements is an error.", ops.Reshape((4,)), (X,), errors.ShapeError, "Reshape"),
        58: Row("A dtype that an op does not support is an error.", ops.Sin(), (np.ones(3, "i4"),), errors.DTypeError, "Sin"),
    },
)  # fmt: skip
def test_refusals(op: Any, arrays: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        tnf.compile(lambda *xs: apply_one(op, *xs), *arrays)


@chapter.works(59, "A scalar has rank 0.")
def test_scalars() -> None:
    assert tnf.TensorSpec((), "float64").rank == 0
    assert tnf.compile(lambda x: tnf.sum(x), X).output_specs[0].shape == ()


CLOSED = (
    (ops.Add(), (X, Y)),
    (ops.Multiply(), (X, Y)),
    (ops.Negate(), (X,)),
    (ops.Conj(), (Z,)),
    (ops.DotGeneral((1,), (0,)), (X, Y.T)),
    (ops.ReduceSum((0,)), (X,)),
    (ops.Transpose((1, 0)), (X,)),
    (ops.Reshape((6,)), (X,)),
    (ops.BroadcastInDim((2, 2, 3), (0, 2)), (X,)),
    (ops.Gather((0,), (1,), slice_sizes=(2, 1), **PICK), (X, INDICES)),
    (SCATTER, (X, INDICES, Y[:, :2])),
)


@chapter.works(60, "Derivatives of standard ops consist of standard ops, to any order.")
def test_closure() -> None:
    for op, arrays in CLOSED:

        def loss(x: Any, op: Any = op, arrays: Any = arrays) -> Any:
            return tnf.sum(tnf.real(apply_one(op, x, *arrays[1:])) ** 2)

        program = tnf.compile(
            tnf.grad(lambda x, loss=loss: tnf.sum(tnf.real(tnf.grad(loss)(x)) ** 2)), arrays[0]
        )
        assert {type(i.op) for i in program.instructions} <= set(STD_OPS), op


@chapter.works(
    61, "The vocabulary includes control flow: conditionals, loops and scans, with derivatives."
)
def test_control_flow() -> None:
    def function(x: Any) -> Any:
        x = tnf.cond(tnf.sum(x) > 0, lambda x: x * 2.0, lambda x: x, x)
        x, _ = tnf.scan(lambda c, _: (tnf.sin(c), None), x, None, length=3)
        return tnf.sum(tnf.fori_loop(0, 2, lambda i, c: c * c, x))

    program = tnf.compile(function, P)
    assert {"Cond", "Scan"} <= {i.op.name for i in program.instructions}
    once = lambda x: np.sin(np.sin(np.sin(2 * x)))
    np.testing.assert_allclose(program.run(P), np.sum(once(P) ** 4), rtol=1e-14)
    step = 1e-6 * Y
    slope = (function(P + step) - function(P - step)) / 2
    np.testing.assert_allclose(np.sum(tnf.grad(function)(P) * step), slope, rtol=1e-6)


@chapter.works(62, "Out of bounds, a gather clamps its start and a scatter drops its window.")
def test_out_of_bounds() -> None:
    far = np.array([[7], [-7]])
    gather = ops.Gather((0,), (1,), slice_sizes=(2, 1), **PICK)
    program = tnf.compile(lambda x, i: apply_one(gather, x, i), X, far)
    np.testing.assert_array_equal(program.run(X, far), X[:, [2, 0]])
    scatter = tnf.compile(lambda x, i, u: apply_one(SCATTER, x, i, u), X, far, Y[:, :2])
    np.testing.assert_array_equal(scatter.run(X, far, Y[:, :2]), X)


@chapter.differs(
    63,
    "`ExtractDiag`, `EmbedDiag`, `Tril` and `Triu` are ops, not patterns of gathers and masks.",
    because="natively each is a view or one copy, and printed programs keep the operation that the user wrote",
)
def test_diagonals() -> None:
    program = tnf.compile(lambda x: tnf.trace(x), np.eye(3))
    assert [i.op.name for i in program.instructions] == ["ExtractDiag", "ReduceSum"]
    assert program.run(np.eye(3)) == 3.0


@chapter.differs(
    64,
    "The graph has one algebra: tropical products are extension operations of a package.",
    because="every program can be differentiated and lowered, whichever ops it contains",
)
def test_one_algebra() -> None:
    names = {card.__name__ for card in STD_OPS}
    assert not [name for name in names if "Semiring" in name or "BatchedGemm" in name]


@chapter.differs(
    65,
    "A kernel takes arrays of its backend, and kernels are defined apart from op classes.",
    because="a backend can be added without editing an op, and an op without editing a backend interface",
)
def test_no_operand_trait() -> None:
    assert not hasattr(tnf, "Operand")
    assert not hasattr(ops.Add, "eval")
