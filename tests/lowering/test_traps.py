"""Semantics that are easy to get wrong must be right in the lowered text, natively, and through PJRT."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.dispatch.application import apply, apply_one
from tenferro.graph import GraphBuilder
from tenferro.ops import StdTensorOp
from tenferro.ops.analytic import Exp
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.elementwise import (
    Abs,
    Add,
    Conj,
    Convert,
    CountLeadingZeros,
    Divide,
    Imag,
    Multiply,
    Power,
    Real,
    ReducePrecision,
    Remainder,
    Sign,
)
from tenferro.ops.indexing import Scatter
from tenferro.ops.reduction import CumMax, CumSum, ReduceMax, ReduceProd, ReduceSum, TopK
from tenferro.ops.source import Iota
from tenferro.ops.structural import Reshape, Reverse
from tenferro.program import GraphProgram
from xla_peer import XlaExecutor, check_parity, export


def text(fn: object, *arrays: np.ndarray) -> str:
    module = lowering.lower_to_stablehlo(tnf.compile(fn, *arrays))
    module.verify()
    return str(module)


def test_a_c_order_reshape_is_exactly_one_reshape() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    written = text(lambda x: tnf.reshape(x, (4, 6)), x)
    assert written.count("stablehlo.reshape") == 1
    assert "stablehlo.transpose" not in written
    np.testing.assert_array_equal(tnf.reshape(x, (4, 6)), x.reshape(4, 6))


def test_an_f_order_reshape_is_column_major() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    report = check_parity(lambda x: tnf.reshape(x, (4, 6), order="F"), x)
    assert report.ok
    np.testing.assert_array_equal(tnf.reshape(x, (4, 6), order="F"), x.reshape(4, 6, order="F"))


def test_reshape_copies_nothing_on_data_in_its_order() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    assert np.shares_memory(tnf.reshape(x, (4, 6)), x)
    f = np.asfortranarray(x)
    assert np.shares_memory(tnf.reshape(f, (4, 6), order="F"), f)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-310, 5e-324, -np.inf, np.nan, -0.0])
def test_float_literals_round_trip(value: float) -> None:
    x = np.array([value, 1.0])
    program = tnf.compile(lambda y: tnf.where(y > 0, x, y), np.ones(2))
    literal = re.search(
        r"constant dense<\[(\S+), 1\.0\]>", str(lowering.lower_to_stablehlo(program))
    )
    assert literal is not None
    written = literal[1]
    if written.startswith("0x"):
        back = np.array([int(written, 16)], np.uint64).view(np.float64)[0]
    else:
        back = np.float64(written)
    assert back.tobytes() == x[0].tobytes()


def test_transposed_free_axes_do_not_fold() -> None:
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    b = np.random.default_rng(1).normal(size=(4, 5))

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return tnf.tensordot(tnf.permute_dims(a, (1, 0, 2)), b, axes=1)

    program = tnf.compile(product, a, b)
    np.testing.assert_allclose(program.run(a, b), np.tensordot(a.transpose(1, 0, 2), b, 1))
    assert check_parity(program, a, b).ok


def test_batch_axes_need_not_lead() -> None:
    a, b = (
        np.random.default_rng(0).normal(size=(2, 3, 5)),
        np.random.default_rng(1).normal(size=(5, 3, 4)),
    )
    program = tnf.compile(lambda a, b: tnf.einsum("ikb,bkj->bij", a, b), a, b)
    np.testing.assert_allclose(program.run(a, b), np.einsum("ikb,bkj->bij", a, b))
    assert check_parity(program, a, b).ok


def test_adding_bools_is_or_also_when_folded() -> None:
    x = np.array([True, True, False])
    assert check_parity(lambda: tnf.add(tnf.asarray(x), x)).ok
    assert check_parity(lambda x: tnf.add(x, x), x).ok
    np.testing.assert_array_equal(tnf.add(x, x), x)


@pytest.mark.parametrize("combiner", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_updates_that_choose_no_axis_all_meet(
    count: int, shape: tuple[int, ...], combiner: str
) -> None:
    op = Scatter(
        update_window_dims=tuple(range(1, len(shape) + 1)), inserted_window_dims=(), input_batching_dims=(),
        scatter_indices_batching_dims=(), scatter_dims_to_operand_dims=(), index_vector_dim=1,
        combiner=combiner,
    )  # fmt: skip
    rng = np.random.default_rng(4)
    x, updates = rng.normal(size=shape), rng.normal(size=(count, *shape))
    wanted = x
    for update in updates:
        two = [wanted, update]
        wanted = {"set": update, "add": wanted + update, "multiply": wanted * update,
                  "min": np.minimum(*two), "max": np.maximum(*two)}[combiner]  # fmt: skip
    program = tnf.compile(
        lambda x, u: apply_one(op, x, np.zeros((count, 0), np.int64), u), x, updates
    )
    for run in (program.run, lambda *inputs: XlaExecutor().run(program, *inputs)):
        np.testing.assert_allclose(run(x, updates), wanted, rtol=1e-14)


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("shape", [(3, 4), (4, 3, 5), (4,)])
def test_the_largest_of_each_row(shape: tuple[int, ...], k: int) -> None:
    """The largest elements of each row must be right for every k, even if k equals the number of rows."""
    x = np.random.default_rng(5).permutation(np.arange(np.prod(shape), dtype=float)).reshape(shape)
    program = tnf.compile(lambda x: tnf.top_k(x, k), x)
    order = np.argsort(-x, axis=-1)[..., :k]
    for run in (program.run, lambda *inputs: XlaExecutor().run(program, *inputs)):
        values, places = run(x)
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


def test_dots_ask_for_the_highest_precision() -> None:
    x = np.ones((2, 2), np.float32)
    assert "precision = [HIGHEST, HIGHEST]" in text(lambda x: x @ x, x)


def test_a_dot_asks_for_its_own_precision() -> None:
    x = np.ones((2, 2), np.float32)
    dot = DotGeneral((1,), (0,), precision="default")
    assert "precision = [DEFAULT, DEFAULT]" in text(lambda x: apply_one(dot, x, x), x)


def test_text_is_deterministic_and_the_fingerprint_ignores_places() -> None:
    x = np.ones(3)
    one = lowering.lower_to_stablehlo(tnf.compile(lambda x: x + 1.0, x))
    two = lowering.lower_to_stablehlo(tnf.compile(lambda x: x + 1.0, x))
    assert str(one) == str(two)
    assert one.fingerprint == two.fingerprint
    assert "test_traps.py" in one.text


def test_a_symbolic_program_asks_for_specs() -> None:
    program = tnf.compile(lambda x: x + 1.0, tnf.TensorSpec(("n",), "float64"))
    with pytest.raises(tnf.errors.NonStaticShapeError, match="specs="):
        lowering.lower_to_stablehlo(program)
    module = lowering.lower_to_stablehlo(program, specs=[np.ones(3)])
    assert "tensor<3xf64>" in module.text


SLIDING = Convolution(
    window_strides=(1,), padding=((0, 0),), lhs_dilation=(1,), rhs_dilation=(1,),
    window_reversal=(False,), input_batch=0, input_feature=1, input_spatial=(2,),
    kernel_output_feature=0, kernel_input_feature=1, kernel_spatial=(2,),
    output_batch=0, output_feature=1, output_spatial=(2,),
)  # fmt: skip


def convolved(x: Any, kernel: Any) -> GraphProgram:
    builder = GraphBuilder()
    values = [builder.constant(x), builder.constant(kernel)]
    return GraphProgram.from_graph(builder.graph, list(builder.apply(SLIDING, *values)))


def test_constant_integer_convolutions_are_not_folded_in_double_precision() -> None:
    x = np.array([-(2**31), 2**31 - 2, 0, -9, 7])
    constants = [a.astype(np.int32).reshape(1, 1, -1) for a in (x, np.array([3, -5]))]
    (found,) = XlaExecutor("cpu").run(convolved(*constants))
    expected = (3 * x[:-1] - 5 * x[1:]).astype(np.int32)
    np.testing.assert_array_equal(found.reshape(-1), expected)


def test_windows_over_nothing_give_zeros() -> None:
    program = convolved(np.ones((2, 0, 5)), np.ones((3, 0, 2)))
    for found in (program.run()[0], XlaExecutor("cpu").run(program)[0]):
        np.testing.assert_array_equal(found, np.zeros((2, 3, 4)))


def test_the_absolute_value_of_complex_counts() -> None:
    """The absolute value of a complex iota must be lowered as a real iota.

    XLA's simplifier replaces abs(iota) by iota, and would crash for complex numbers.
    """
    builder = GraphBuilder()
    counts = builder.apply_one(Iota((2, 3), 1, "complex128"))
    program = GraphProgram.from_graph(builder.graph, [builder.apply_one(Abs(), counts), counts])
    assert "iota dim = 1 : tensor<2x3xf64>" in str(lowering.lower_to_stablehlo(program))
    sizes, values = XlaExecutor().run(program)
    np.testing.assert_array_equal(sizes, [[0, 1, 2]] * 2)
    assert values.dtype == np.complex128


def power(x: int, y: int) -> int:
    """Return x ** y for integers.

    If y is negative, the result is 1 / x^-y rounded towards zero, which is 1, -1 or 0.
    """
    if y >= 0:
        return x**y
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_power_of_eight_bits(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x, y = (z.ravel() for z in np.mgrid[limits.min : limits.max + 1, limits.min : limits.max + 1])
    wanted = [
        (power(a, b) - limits.min) % 256 + limits.min
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    x, y = x.astype(dtype), y.astype(dtype)
    program = tnf.compile(lambda x, y: apply_one(Power(), x, y), x, y)
    for found in (program.run(x, y), XlaExecutor().run(program, x, y)):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_powers_by_the_highest_bits(dtype: str) -> None:
    limits = np.iinfo(dtype)
    bits = limits.bits - (limits.min < 0)
    numbers = [2 ** (bits - 1), 2 ** (bits - 1) + 1, 2 ** (bits - 2), 3 * 2 ** (bits - 2), 2**bits - 1, 5]  # fmt: skip
    pairs = np.array([(a, b) for a in (0, 1, 2, 3, limits.max) for b in numbers], dtype)
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    wanted = [
        (pow(a, b, 2**limits.bits) - int(limits.min)) % 2**limits.bits + int(limits.min)
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    program = tnf.compile(lambda x, y: apply_one(Power(), x, y), x, y)
    for found in (program.run(x, y), XlaExecutor().run(program, x, y)):
        assert found.tolist() == wanted


@pytest.mark.parametrize("op", [Divide(), Remainder()], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_quotient_of_eight_bits(dtype: str, op: Any) -> None:
    """Quotients and remainders of all pairs of 8-bit integers must be right.

    Quotients are rounded towards zero. x / 0 has all bits set, and x % 0 is x. The smallest integer divided by -1 is
    the smallest integer.
    """
    limits = np.iinfo(dtype)
    x, y = (z.ravel() for z in np.mgrid[limits.min : limits.max + 1, limits.min : limits.max + 1])
    wanted = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        quotient = (
            abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            if b
            else int(limits.max if dtype[0] == "u" else -1)
        )
        result = quotient if isinstance(op, Divide) else a - quotient * b
        wanted.append((result - int(limits.min)) % 256 + int(limits.min))
    x, y = x.astype(dtype), y.astype(dtype)
    program = tnf.compile(lambda x, y: apply_one(op, x, y), x, y)
    for found in (program.run(x, y), XlaExecutor().run(program, x, y)):
        np.testing.assert_array_equal(found, wanted)


def statements(op: StdTensorOp, *specs: str) -> list[str]:
    """Return the operations to which an op is lowered, each with its element type.

    A spec is the type of an operand as text, such as "float16[2]".
    """
    types = [
        tnf.TensorSpec(tuple(map(int, shape[:-1].split(","))), kind)
        for kind, shape in (spec.split("[") for spec in specs)
    ]
    program = tnf.compile(lambda *xs: apply(op, *xs), *types)
    written = str(lowering.lower_to_stablehlo(program))
    main = re.split(r"^ +return", written[written.index("@main") :], flags=re.MULTILINE)[0]
    statement = r"= \"?stablehlo\.(\w+).* ?\(?tensor<(?:\d+x)*(complex<\w+>|\w+)>\)?$"
    found = re.findall(statement, main, re.MULTILINE)
    return [f"{name} {element}" for name, element in found]


TO_F32, COMPLEX = "convert f32", ["constant f64", "complex complex<f64>"]
CONVERTED: dict[tuple[str, str], list[str]] = {
    ("bfloat16", "float32"): [TO_F32],
    ("bfloat16", "float64"): [TO_F32, "convert f64"],
    ("bfloat16", "float16"): [TO_F32, "convert f16"],
    ("bfloat16", "int32"): [TO_F32, "convert i32"],
    ("bfloat16", "bool"): [TO_F32, "convert i1"],
    ("bfloat16", "complex128"): [TO_F32, "convert f64", *COMPLEX],
    ("float16", "bfloat16"): [TO_F32, "convert bf16"],
    ("float64", "bfloat16"): [TO_F32, "convert bf16"],
    ("float32", "bfloat16"): ["convert bf16"],
    ("int8", "bfloat16"): [TO_F32, "convert bf16"],
    ("bool", "bfloat16"): ["convert bf16"],
    ("bool", "complex128"): ["convert f64", *COMPLEX],
    ("float16", "int32"): ["convert i32"],
    ("float64", "complex128"): COMPLEX,
    ("float32", "complex128"): ["convert f64", *COMPLEX],
    ("int64", "complex128"): ["convert f64", *COMPLEX],
    ("complex64", "bool"): ["constant complex<f32>", "compare i1"],
    ("complex64", "float32"): ["real f32"],
    ("complex64", "bfloat16"): ["real f32", "convert bf16"],
    ("complex128", "bfloat16"): ["real f64", TO_F32, "convert bf16"],
    ("complex128", "int8"): ["real f64", "convert i8"],
    ("complex64", "complex128"): ["convert complex<f64>"],
}


@pytest.mark.parametrize(("source", "to"), CONVERTED)
def test_conversions_and_the_kinds_on_their_way(source: str, to: str) -> None:
    """bfloat16 must be converted by way of float32.

    For complex numbers, both parts must be converted.
    """
    found = statements(Convert(tnf.DType.of(to)), f"{source}[2]")
    assert found == CONVERTED[source, to]


WRITTEN: list[tuple[StdTensorOp, str, list[str]]] = [
    (Exp(), "float16[2]", [TO_F32, "exponential f32", "convert f16"]),
    (Exp(), "bfloat16[2]", [TO_F32, "exponential f32", "convert bf16"]),
    (Exp(), "float32[2]", ["exponential f32"]),
    (Abs(), "uint8[2]", []),
    (Abs(), "int8[2]", ["abs i8"]),
    (Sign(), "uint8[2]", ["constant ui8", "minimum ui8"]),
    (Sign(), "int8[2]", ["sign i8"]),
    (CountLeadingZeros(), "uint8[2]", ["count_leading_zeros ui8"]),
    (CountLeadingZeros(), "int16[2]", ["bitcast_convert ui16", "count_leading_zeros ui16", "bitcast_convert i16"]),
    (Real(), "float32[2]", []),
    (Real(), "complex64[2]", ["real f32"]),
    (Imag(), "complex64[2]", ["imag f32"]),
    (Conj(), "float32[2]", []),
    (Conj(), "complex64[2]", ["imag f32", "negate f32", "real f32", "complex complex<f32>"]),
    (Add(), "bool[2] bool[2]", ["or i1"]),
    (Multiply(), "bool[2] bool[2]", ["and i1"]),
    (Divide(), "float32[2] float32[2]", ["divide f32"]),
    (ReducePrecision(5, 2), "float32[2]", ["reduce_precision f32"]),
    (ReducePrecision(5, 0), "float32[2]", ["reduce_precision f32", "compare i1", "select f32"]),
    (ReduceSum((0,)), "float16[2,2]", [TO_F32, "constant f32", "reduce f32", "convert f16"]),
    (ReduceProd((0,)), "bfloat16[2,2]", [TO_F32, "constant f32", "reduce f32", "convert bf16"]),
    (ReduceMax((0,)), "float16[2,2]", ["constant f16", "reduce f16"]),
    (CumSum(0, False), "float16[3,2]", [TO_F32, "constant f32", "reduce_window f32", "convert f16"]),
    (CumMax(0, False), "float16[3,2]", ["constant f16", "reduce_window f16"]),
    (CumMax(1, True), "int8[3,1]", []),
    (CumSum(1, True), "float16[3,1]", []),
    (CumSum(0, True), "int8[3,0]", []),
    (CumSum(0, True), "int8[2,1]", ["constant i8", "reduce_window i8"]),
    (SLIDING, "int8[1,1,4] int8[1,1,2]",
     ["convert i32", "convert i32", "optimization_barrier i32", "convolution i32", "convert i8"]),
    (SLIDING, "int16[1,1,4] int16[1,1,2]",
     ["convert i32", "convert i32", "optimization_barrier i32", "convolution i32", "convert i16"]),
    (SLIDING, "int32[1,1,4] int32[1,1,2]", ["optimization_barrier i32", "convolution i32"]),
    (SLIDING, "int64[1,1,4] int64[1,1,2]", ["optimization_barrier i64", "convolution i64"]),
    (SLIDING, "float16[1,1,4] float16[1,1,2]", ["convolution f32", "convert f16"]),
    (SLIDING, "float32[1,1,4] float32[1,1,2]", ["convolution f32"]),
    (SLIDING, "complex64[1,1,4] complex64[1,1,2]", ["convolution complex<f32>"]),
    (SLIDING, "float32[1,1,4] float32[0,1,2]", ["constant f32"]),
    (Reshape((3, 2)), "float32[2,3]", ["transpose f32", "reshape f32", "transpose f32"]),
    (Reshape((2, 1, 3)), "float32[2,3]", ["reshape f32"]),
    (Reverse(()), "float32[2,3]", []),
    (TopK(3), "int32[2,3]", ["iota i64", "compare i1"]),
    (TopK(2), "int32[2,3]", ["iota i64", "compare i1", "slice i32", "slice i64"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "types", "wanted"), WRITTEN, ids=[f"{op.name} {types}" for op, types, _ in WRITTEN]
)
def test_what_ops_are_written_as(op: StdTensorOp, types: str, wanted: list[str]) -> None:
    assert statements(op, *types.split()) == wanted


SYMBOLIC: dict[str, tuple[Any, tuple[tuple[Any, ...], ...], Any]] = {
    "rows at places": (lambda x: tnf.take(x, np.array([1, 0, 1]), axis=0), (("n", "m"),), lambda x: x[[1, 0, 1]]),
    "columns at places": (lambda x: tnf.take(x, np.array([1, 0]), axis=1), (("n", "m"),), lambda x: x[:, [1, 0]]),
    "a scan": (
        lambda x: tnf.scan(lambda c, row: (c + tnf.broadcast_to(row[0], (x.shape[1],)), c), tnf.zeros((x.shape[1],)), x),
        (("n", "m"),),
        lambda x: (x[:, :1].sum(0) + 0 * x[0], np.cumsum(np.vstack([0 * x[:1], x[:-1, :1] + 0 * x[:-1]]), 0)),
    ),
    "a scan in reverse": (
        lambda x: tnf.scan(lambda c, row: (c + row, c), tnf.zeros((x.shape[1],)), x, reverse=True)[1],
        (("n", "m"),),
        lambda x: np.cumsum(np.vstack([0 * x[:1], x[:0:-1]]), 0)[::-1],
    ),
    "a scan over nothing but turns": (
        lambda x: tnf.scan(lambda c, _: (c + tnf.ones((x.shape[1], 2)), None), tnf.zeros((x.shape[1], 2)), length=x.shape[0])[0],
        (("n", "m"),),
        lambda x: np.full((x.shape[1], 2), float(len(x))),
    ),
    "a while loop": (
        lambda x: tnf.while_loop(
            lambda y: tnf.sum(tnf.broadcast_to(y[0], (x.shape[1],))) < 100.0,
            lambda y: y + tnf.broadcast_to(y[:1] * 0 + 1, (x.shape[0],)),
            x[:, 0] * 0,
        ),
        (("n", "m"),),
        lambda x: np.full(len(x), next(float(k) for k in range(200) if k * x.shape[1] >= 100)),
    ),
    "a choice": (
        lambda x: tnf.cond(tnf.sum(x) * 0 > -1.0, lambda y: y + tnf.broadcast_to(y[0, 0], (x.shape[1],)), lambda y: y * 2, x),
        (("n", "m"),),
        lambda x: x + x[0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_extents_are_handed_into_what_is_written_with_regions(name: str) -> None:
    fn, shapes, definition = SYMBOLIC[name]
    artifact = export(fn, *[tnf.TensorSpec(shape, "float64") for shape in shapes])
    for n, m in ((3, 2), (2, 5)):
        x = np.random.default_rng(n).normal(size=(n, m))
        found, wanted = artifact.run(x), definition(x)
        for y, z in zip(tnf.tree.leaves(found), tnf.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-12)


def test_functions_of_regions_say_what_they_are() -> None:
    """Functions for regions must have descriptive names, because a backend shows these names in profiles and errors."""
    x = np.arange(3.0)
    loop = text(lambda x: tnf.while_loop(lambda y: y[0] < 9.0, lambda y: y + 1.0, x), x)
    scan = text(lambda x: tnf.scan(lambda c, v: (c + v, c * v), x[0], x), x)
    choice = text(lambda x: tnf.cond(x[0] < 9.0, lambda y: y + 1.0, lambda y: y * 2.0, x), x)
    named = [sorted(set(re.findall(r"func private @([a-z]+)", t.replace("func.", "")))) for t in (loop, scan, choice)]  # fmt: skip
    assert named == [["do", "while"], ["do", "while"], ["branch"]]
