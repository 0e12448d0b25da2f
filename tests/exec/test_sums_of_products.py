"""Compiled convolutions must equal their definition: at borders, with strides and padding, in many layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.attempts import CompileLog, NotCompiledError
from tenferro.exec.kernels import matrix_product, sums_of_products
from tenferro.exec.kernels.convolution import ConvolutionFunction
from tenferro.exec.kernels.sums_of_products import DirectSum
from tenferro.exec.kernels.window_products import WindowProducts
from tenferro.exec.kernels.windows import Window
from tenferro.exec.llvm import link
from tenferro.exec.llvm.link import Linker, Processor, is_installed, processor
from tenferro.exec.llvm.sums_of_products import (
    MAX_MATRIX_BYTES,
    MAX_NARROW_MULTIPLICATIONS,
    MIN_MULTIPLICATIONS,
    CompiledSums,
    module_of,
    tile_of,
)
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.sum_of_products import ONE_IMAGE, SumOfProducts
from tenferro.exec.runtime.threads import Workers
from tenferro.ops.contraction import Convolution
from tenferro.types import DType
from tests.exec.test_convolution import channels_last, defined

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed"),
    pytest.mark.skipif(is_installed() and not processor().has_fma, reason="no multiply-adds"),
]


def narrow() -> Processor:
    """Return this machine's processor, restricted to vectors of at most 256 bits."""
    here = processor()
    return Processor(here.name, here.features, True, here.converts_halves, min(here.lanes, 4))


def compiled(how: Processor) -> CompiledSums:
    """Return a compiler of sums of products of any size for the processor `how`."""
    linker = Linker()
    linker.processor = how
    return CompiledSums(linker, always=True)


def standard(random: Random, x: Any, w: Any) -> Convolution:
    """Return a random convolution of images [n, c, h, w] with kernels [o, c, h, w]."""
    strides, dilation = ((random.choice([1, 1, 2]), random.choice([1, 1, 3])) for _ in range(2))
    padding = [(random.choice([0, 1, 2, -1]), random.choice([0, 1, 2, -1])) for _ in range(2)]
    return Convolution(
        window_strides=strides, padding=tuple(padding), lhs_dilation=(1, 1), rhs_dilation=dilation,
        window_reversal=(random.random() < 0.2, random.random() < 0.2),
        input_batch=0, input_feature=1, input_spatial=(2, 3), kernel_input_feature=1, kernel_output_feature=0,
        kernel_spatial=(2, 3), output_batch=0, output_feature=1, output_spatial=(2, 3),
    )  # fmt: skip


def image(random: Random, rng: Any) -> tuple[Any, Any]:
    """Return a random image whose channels are contiguous, and kernels in a random layout."""
    x = rng.standard_normal((random.choice([1, 2]), random.choice([2, 5]), random.choice([5, 12]), random.choice([7, 9, 16])))  # fmt: skip
    w = rng.standard_normal((random.choice([16, 48, 64]), x.shape[1], random.choice([1, 2, 3]), random.choice([1, 2, 3])))  # fmt: skip
    return channels_last(x), random.choice([np.asarray, np.asfortranarray])(w)


def contiguous(random: Random, rng: Any) -> tuple[Any, Any]:
    """Return row-major images and kernels, some with one channel."""
    x, w = image(random, rng)
    channels = random.choice([1, x.shape[1]])
    return np.ascontiguousarray(x[:, :channels]), np.ascontiguousarray(w[:, :channels])


def are_direct(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list to which each later convolution adds whether compiled code computes it."""
    used, plan = list[bool](), WindowProducts.plan

    def recorded(*args: Any) -> Any:
        result = plan(*args)
        used.append(isinstance(result, DirectSum))
        return result

    monkeypatch.setattr(WindowProducts, "plan", recorded)
    return used


@pytest.mark.parametrize("make", [image, contiguous])
@pytest.mark.parametrize("how", [processor, narrow])
def test_random_sums(
    make: Callable[..., Any], how: Callable[[], Processor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results must have the same bits with one thread and with two, for any previous content of their memory."""
    random, rng = Random(7), np.random.default_rng(7)
    machine, memory, used = compiled(how()), Pool(1 << 24), are_direct(monkeypatch)
    monkeypatch.setattr(matrix_product, "block_count", lambda *_: 2)
    for _ in range(7):
        x, w = make(random, rng)
        op = standard(random, x, w)
        if any([n + sum(edges) < 1 for n, edges in zip(x.shape[2:], op.padding, strict=True)]):
            continue
        expected = defined(op, x, w)
        for dtype, bound in ((np.float64, 1e-12), (np.float32, 2e-5)):
            a, b = x.astype(dtype), w.astype(dtype)
            results: list[Any] = []
            for threads in (1, 2):
                resources = Resources(Workers(threads), memory, sums=machine.function)
                memory.release(np.full(1 << 16, 255, np.uint8))
                results.append(ConvolutionFunction(op, resources)(a, b))
            np.testing.assert_allclose(results[0], expected, bound, 10 * bound, err_msg=str(op))
            for same in results[1:]:
                np.testing.assert_array_equal(same, results[0], strict=True)
    assert used.count(True) >= len(used) // 2


AXES_THAT_LIE_NOWHERE = {
    "one element, rows of images": lambda rng: rng.standard_normal((3, 5, 1, 1)),
    "one column": lambda rng: rng.standard_normal((6, 3, 5, 1)).transpose(1, 2, 0, 3),
    "one row": lambda rng: rng.standard_normal((6, 3, 5, 1)).transpose(1, 2, 3, 0),
    "one element that is repeated": lambda rng: np.broadcast_to(
        rng.standard_normal((3, 4, 5)).transpose(0, 2, 1)[..., None], (3, 5, 4, 6)
    ),
    "one image that is repeated": lambda rng: np.broadcast_to(
        channels_last(rng.standard_normal((1, 5, 4, 6))), (3, 5, 4, 6)
    ),
}


@pytest.mark.parametrize("image", AXES_THAT_LIE_NOWHERE.values(), ids=AXES_THAT_LIE_NOWHERE)
@pytest.mark.parametrize("padding", [((1, 1), (1, 1)), ((0, 2), (2, 0)), ((3, 3), (-1, 3))])
@pytest.mark.parametrize("holes", [(1, 1), (2, 3)])
def test_axes_without_strides(
    image: Callable[[Any], Any], padding: Any, holes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An axis of one element or of stride 0 may have any stride in memory.

    Padding and dilation of such an axis must be right.
    """
    random, rng, used = Random(1), np.random.default_rng(1), are_direct(monkeypatch)
    x, w = image(rng), rng.standard_normal((16, 5, 3, 2))
    op = replace(standard(random, x, w), padding=padding, lhs_dilation=holes, rhs_dilation=(1, 2))
    assert x.strides[1] == x.itemsize
    y = ConvolutionFunction(op, Resources(sums=compiled(processor()).function))(x, w)
    np.testing.assert_allclose(y, defined(op, x, w), 1e-12, 1e-12)
    assert used == [True]


@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_that_fill_no_vectors(outputs: int) -> None:
    """BLAS must compute one output. With three outputs, the second vector must overlap the first."""
    x, w = np.ones((1, 2, 6, 6)), np.ones((outputs, 2, 3, 3))
    op = standard(Random(0), x, w)
    y = ConvolutionFunction(op, Resources(sums=compiled(processor()).function))(channels_last(x), w)
    np.testing.assert_allclose(y, defined(op, x, w))


def sums(places: int, outputs: int, dtype: DType = DType.F64) -> SumOfProducts:
    return SumOfProducts(
        dtype, (9, outputs), ONE_IMAGE, (places, 3, 1), (outputs, 1, 1), ((3, 1, outputs),)
    )


def vectors_of(lanes: int, has_fma: bool = True) -> Processor:
    return Processor("", "", has_fma, True, lanes)


@pytest.mark.parametrize(
    ("lanes", "places", "outputs", "expected"),
    [
        # `expected` has the numbers of positions of a tile, of vectors per position, and of elements per vector. 32
        # registers must suffice for the vectors of a row of b, and a total for each vector of each position.
        (8, 100, 64, (7, 4, 8)),
        (8, 50, 24, (9, 3, 8)),
        (8, 49, 16, (13, 2, 8)),
        (8, 31, 40, (31, 1, 8)),
        (8, 3, 40, (3, 1, 8)),
        (8, 1, 64, (1, 4, 8)),
        # Among such tiles, the tile with the fewest loads must be chosen: for 8 positions, two tiles of 4, not one of
        # 7 and one of 1. Of equally good tiles, the largest must be chosen.
        (8, 8, 64, (4, 4, 8)),
        (8, 40, 40, (20, 1, 8)),
        (8, 64, 64, (7, 4, 8)),
        # Without vectors of 512 bits, there are 16 registers, one of which contains an element of a.
        (4, 14, 8, (5, 2, 4)),
        (4, 12, 16, (6, 2, 4)),
        (4, 15, 12, (8, 1, 4)),
        (4, 14, 12, (14, 1, 4)),
        (4, 16, 12, (8, 1, 4)),
        (4, 40, 4, (10, 1, 4)),
        (2, 12, 4, (6, 2, 2)),
    ],
)
def test_tiles(lanes: int, places: int, outputs: int, expected: tuple[int, int, int]) -> None:
    """A tile must have the expected numbers of positions, of vectors per position, and of elements per vector."""
    how = vectors_of(lanes)
    assert tile_of(sums(places, outputs), how.code()) == expected
    height, columns, elements = expected
    of_singles = tile_of(sums(places, 2 * outputs, DType.F32), how.code())
    assert of_singles == (height, columns, 2 * elements)
    # If the last tile would end out of bounds, it must overlap the previous tile.
    assert ("@llvm.smin.i64(" in module_of(sums(places, outputs), how).text) == (
        places % height > 0
    )


@pytest.mark.parametrize(
    ("how", "outputs"), [(vectors_of(8), 1), (vectors_of(4), 7), (vectors_of(8, has_fma=False), 64)]
)
def test_outputs_that_are_fewer_than_a_vector(how: Processor, outputs: int) -> None:
    with pytest.raises(NotCompiledError, match=f"^{outputs} outputs are no vectors of multiply-adds$"):  # fmt: skip
        tile_of(sums(10, outputs), how.code())


@pytest.mark.parametrize(
    ("lanes", "outputs", "dtype", "expected"),
    [
        (8, 24, DType.F64, 8), (8, 12, DType.F64, 8), (8, 6, DType.F64, 4), (4, 6, DType.F64, 2),
        (8, 24, DType.F32, 16), (8, 12, DType.F32, 8), (4, 24, DType.F32, 8), (2, 6, DType.F64, 2),
    ],
)  # fmt: skip
def test_the_fewest_vectors_of_outputs(
    lanes: int, outputs: int, dtype: DType, expected: int
) -> None:
    assert tile_of(sums(40, outputs, dtype), vectors_of(lanes).code())[2] == expected


def test_totals_are_in_registers_after_one_pass() -> None:
    module = module_of(sums(40, 16), vectors_of(4))
    assert "alloca <4 x" in module.text
    assert module.is_vectorised
    machine = link._machine(link.processor(), 3)
    assert "alloca" not in str(link.optimised_module(module, machine))


class Called:
    """Linker that records modules, and compiles nothing."""

    def __init__(self, lanes: int) -> None:
        self.processor, self.log = vectors_of(lanes), CompileLog()
        self.asked: list[Any] = []

    def baseline(self, *_: Any) -> None:
        """Return no function, as the linker does if a call waits for LLVM's passes."""

    def function(self, kind: str, module: Any) -> Any:
        self.asked.append(module)
        return "f"


def test_compilation_threshold() -> None:
    linker: Any = Called(8)
    machine = CompiledSums(linker, always=False)
    assert machine.function(sums(40, 4), MIN_MULTIPLICATIONS - 1) is None
    assert machine.function(sums(40, 1), MIN_MULTIPLICATIONS) is None
    # Four columns fill half a vector. Such a product is compiled only if calling BLAS would take longer than the
    # product.
    assert machine.function(sums(40, 4), MAX_NARROW_MULTIPLICATIONS) is None
    # This matrix b does not fit in the cache, so that BLAS must compute the product.
    assert machine.function(sums(40, MAX_MATRIX_BYTES[0] // 16), MIN_MULTIPLICATIONS) is None
    assert linker.asked == []
    # 40 positions are two tiles of 20.
    assert machine.function(sums(40, 8), MIN_MULTIPLICATIONS) == ("f", 2)
    assert [each.text for each in linker.asked] == [module_of(sums(40, 8), vectors_of(8)).text]
    # 41 positions are two tiles of 21, which overlap.
    assert machine.function(sums(41, 8), MIN_MULTIPLICATIONS) == ("f", 2)


def test_without_wide_vectors_blas_computes_products() -> None:
    linker: Any = Called(4)
    assert CompiledSums(linker, always=False).function(sums(40, 8), MIN_MULTIPLICATIONS) is None
    assert linker.asked == []


def test_pointwise_kernels_are_read_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums_of_products, "MIN_PRODUCT_WORK", 1)
    rng = np.random.default_rng(0)
    x, w = channels_last(rng.standard_normal((2, 5, 7, 9))), rng.standard_normal((64, 5, 1, 1))
    op = replace(
        standard(Random(0), x, w), window_strides=(1, 2), padding=((0, 1), (1, 0)), rhs_dilation=(1, 1)
    )  # fmt: skip
    written = are_direct(monkeypatch)
    for threads in (1, 2):
        resources = Resources(Workers(threads), sums=compiled(processor()).function)
        run = ConvolutionFunction(op, resources)
        np.testing.assert_allclose(run(x, w), defined(op, x, w), 1e-12, 1e-12)
    assert written == [True, True]


@pytest.mark.parametrize(
    ("dilation", "expected"),
    [
        # The rows and the channels of the kernel are merged to one axis.
        ((1, 1), ((3, 45, 160), (10, 1, 16))),
        ((2, 1), ((3, 90, 160), (10, 1, 16))),
        ((1, 2), ((3, 45, 160), (2, 10, 80), (5, 1, 16))),
    ],
)
def test_contiguous_terms_are_merged(dilation: Any, expected: Any) -> None:
    x, w = channels_last(np.zeros((1, 5, 7, 9))), np.zeros((16, 5, 3, 2))
    window = Window((1, 1), ((0, 0), (0, 0)), (1, 1), dilation)
    counts = window.counts(x.shape[2:], w.shape[2:])
    plan = sums_of_products._planned(window, x, w, channels_last(np.zeros((1, 16, *counts))))
    assert plan is not None
    assert plan.sums.terms == expected


EXTENTS = [(2, 3, 5), (7, 64, 16), (13, 80, 20), (33, 64, 100), (4, 64, 4), (9, 1, 17)]
"""Numbers of rows, terms and columns of products; some are multiples of a vector or a tile."""


@pytest.mark.parametrize("how", [processor, narrow])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("transposed", ["", "lhs", "rhs", "both"])
def test_products(how: Callable[[], Processor], batch: tuple[int, ...], transposed: str) -> None:
    """Products must be right for operands in either order, and must not write beside the result."""
    machine, rng, count = compiled(how()), np.random.default_rng(3), 0
    for rows, terms, columns in EXTENTS:
        for dtype in (np.float64, np.float32):
            a = rng.standard_normal((*batch, rows, terms)).astype(dtype)
            b = rng.standard_normal((*batch, terms, columns)).astype(dtype)
            if transposed in ("lhs", "both"):
                a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
            if transposed in ("rhs", "both"):
                b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
            memory = np.full(int(np.prod(batch)) * rows * columns + 2, 9.0, dtype)
            y = memory[1:-1].reshape(*batch, rows, columns)
            if matrix_product._write_product(machine.function, a, b, y):
                expected = a.astype(np.longdouble) @ b.astype(np.longdouble)
                bound = 4 * terms * float(np.finfo(dtype).eps)
                np.testing.assert_allclose(y, expected, bound, bound)
                count += 1
            assert memory[0] == memory[-1] == 9
    # If both operands are transposed, BLAS must compute the product. Dot products may be compiled only for vectors of
    # 512 bits.
    is_wide = machine.linker.processor.lanes == 8
    assert count >= {"": 6, "lhs": 6, "rhs": 6 * is_wide, "both": 0}[transposed]


def test_products_in_loops_are_the_same_on_all_threads() -> None:
    rng = np.random.default_rng(5)
    w, h, xs = (rng.standard_normal(n) * 0.1 for n in ((24, 24), (10, 24), (6, 10, 24)))

    def fn(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return tnf.tanh(h @ w + x @ tnf.transpose(w)), tnf.sum(tnf.transpose(x) @ h)

        return tnf.scan(step, h, xs)

    expected = h
    for x in xs:
        expected = np.tanh(expected @ w + x @ w.T)
    program = tnf.compile(fn, w, h, xs)
    results = [
        tnf.GraphExecutor("K", threads, compiled=True).run(program, w, h, xs) for threads in (1, 2)
    ]
    np.testing.assert_allclose(results[0][0], expected, 1e-13, 1e-13)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
