"""The semantics that are easy to get wrong, each shown on the text and on both paths."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.door.application import apply_one
from tenferro.graph import GraphBuilder
from tenferro.ops.contraction import Convolution
from tenferro.ops.elementwise import Abs, Divide, Power, Remainder
from tenferro.ops.indexing import Scatter
from tenferro.ops.source import Iota
from tenferro.program import GraphProgram
from xla_peer import XlaExecutor, check_parity


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
    """As many as there are rows are not all of a row."""
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
    """XLA's simplifier replaces abs(iota) by the iota, and a complex one ends the process."""
    builder = GraphBuilder()
    counts = builder.apply_one(Iota((2, 3), 1, "complex128"))
    program = GraphProgram.from_graph(builder.graph, [builder.apply_one(Abs(), counts), counts])
    assert "iota dim = 1 : tensor<2x3xf64>" in str(lowering.lower_to_stablehlo(program))
    sizes, values = XlaExecutor().run(program)
    np.testing.assert_array_equal(sizes, [[0, 1, 2]] * 2)
    assert values.dtype == np.complex128


def power(x: int, y: int) -> int:
    """x ** y, of which nothing but its sign is left below zero: 1, -1 or 0."""
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
    """Towards zero; by zero all bits, and the dividend is left; the least by -1 is itself."""
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
