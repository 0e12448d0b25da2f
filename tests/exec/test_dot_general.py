"""DotGeneral must equal einsum, for all combinations of axes, layouts and dtypes."""

import random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import matrix_product
from tenferro.exec.kernels.dot_general import DOT_GENERAL
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.ops.contraction import DotGeneral
from tenferro.types import DType, TensorSpec

KERNEL = DOT_GENERAL


def laid_out(pick: random.Random, shape: list[int], dtype: str) -> np.ndarray:
    """Return an array of small integers with permuted axes, which may be reversed, broadcast, or have gaps."""
    perm = pick.sample(range(len(shape)), len(shape))
    rng = np.random.default_rng(pick.randrange(1 << 30))
    x = rng.integers(-3, 4, [shape[p] for p in perm]).astype(dtype).transpose(np.argsort(perm))
    kind = pick.random()
    if not shape or kind > 0.4:
        return x
    axis = pick.randrange(len(shape))
    if kind < 0.2:
        return np.flip(x, axis)
    if kind < 0.3 and shape[axis]:
        return np.broadcast_to(x.take([0], axis), x.shape)
    wide = np.zeros([2 * n for n in shape], dtype)
    view = wide[(slice(None, None, 2),) * len(shape)]
    view[...] = x
    return view


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split also small products among threads, and copy them to scratch memory."""
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1)
    monkeypatch.setattr(matrix_product, "MIN_BLOCK_EXTENT", 2)
    monkeypatch.setattr(matrix_product, "MIN_POOLED_BYTES", 1)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(8, 12))
def test_any_contraction_in_pieces_is_einsum(seed: int) -> None:
    compare_with_einsum(seed, Resources(Workers(2), Pool(1 << 20)))


@pytest.mark.parametrize("seed", range(8))
def test_any_contraction_is_einsum(seed: int) -> None:
    compare_with_einsum(seed, SERIAL_RESOURCES)


def compare_with_einsum(seed: int, resources: Resources) -> None:
    pick = random.Random(seed)
    for _ in range(150):
        counts = {group: pick.choice([0, 0, 1, 1, 2, 3]) for group in "bmnk"}
        size = {
            (group, i): pick.choice([0, 1, 2, 3, 5] if pick.random() < 0.1 else [1, 2, 3, 4])
            for group, count in counts.items()
            for i in range(count)
        }
        if ("b", 0) in size and pick.random() < 0.2:
            size["b", 0] = 100
        lhs = pick.sample([a for a in size if a[0] in "bmk"], sum(a[0] in "bmk" for a in size))
        rhs = pick.sample([a for a in size if a[0] in "bnk"], sum(a[0] in "bnk" for a in size))
        batch = [a for a in size if a[0] == "b"]
        terms = pick.sample([a for a in size if a[0] == "k"], counts["k"])
        op = DotGeneral(
            tuple(map(lhs.index, terms)),
            tuple(map(rhs.index, terms)),
            tuple(map(lhs.index, batch)),
            tuple(map(rhs.index, batch)),
        )
        dtype = pick.choice(["f8", "c16", "f4", "i1", "i8"])
        x = laid_out(pick, [size[a] for a in lhs], dtype)
        y = laid_out(pick, [size[a] for a in rhs], dtype)
        label = {axis: i for i, axis in enumerate(size)}
        out = [*batch, *[a for a in lhs if a[0] == "m"], *[a for a in rhs if a[0] == "n"]]
        want = np.einsum(
            x.astype("c16"),
            [label[a] for a in lhs],
            y.astype("c16"),
            [label[a] for a in rhs],
            [label[a] for a in out],
        )
        specs = (TensorSpec(x.shape, x.dtype.name), TensorSpec(y.shape, y.dtype.name))
        found = KERNEL.bind(op, specs, resources)(x, y)
        assert found.shape == want.shape
        assert found.dtype == x.dtype
        exact = want if dtype == "c16" else want.real
        assert np.array_equal(found, exact.astype("i8").astype(dtype) if dtype[0] == "i" else exact)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_wrap_as_they_do_one_by_one(dtype: str) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (30, 40), endpoint=True).astype(dtype)
    y = rng.integers(info.min, info.max, (40, 20), endpoint=True).astype(dtype)
    found = KERNEL(DotGeneral((1,), (0,)), x, y)
    exact = x.astype(object) @ y.astype(object)
    wrapped = (exact - info.min) % (info.max - info.min + 1) + info.min
    assert found.dtype == x.dtype
    assert np.array_equal(found, wrapped)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("spec", "lhs", "rhs"),
    [
        ("mk,kn->mn", (70, 9), (9, 50)),
        ("mk,kn->mn", (7, 9), (9, 50)),
        ("mk,kn->mn", (7, 90), (90, 5)),
        ("bmk,bkn->bmn", (9, 7, 3), (9, 3, 5)),
        ("mkpl,lnk->mpn", (11, 3, 5, 4), (4, 6, 3)),
        ("kmpl,nlk->mpn", (13, 3, 2, 4), (6, 4, 13)),
    ],
)
def test_pieces_of_large_products_do_not_depend_on_threads(
    spec: str, lhs: tuple[int, ...], rhs: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(lhs), rng.standard_normal(rhs)
    program = tnf.compile(lambda x, y: tnf.einsum(spec, x, y), x, y)
    for order in ("C", "F"):
        x, y = np.asarray(x, order=order), np.asarray(y, order=order)
        found = [tnf.GraphExecutor(threads=count).run(program, x, y) for count in (1, 2, 3)]
        assert np.allclose(found[0], np.einsum(spec, x, y))
        assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(5, 3), (16, 7), (33, 20), (4, 1), (257, 2)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_matrix_by_its_own_transpose(shape: tuple[int, int], axis: int, dtype: str) -> None:
    """The product of a matrix and its transpose must have the same bits for any number of threads."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(dtype)
    whole = rng.integers(-9, 9, shape).astype(dtype)
    for z in (x, whole, np.asfortranarray(x), x[::-1]):
        products = []
        for threads in (1, 2, 3):
            resources = Resources(Workers(threads), Pool(1 << 20))
            op = DotGeneral((axis,), (axis,))
            specs = [TensorSpec.of(z.shape, DType.of(z.dtype))] * 2
            function = KERNEL.bind(op, specs, resources)
            products.append(function(z, z))
        y = products[0]
        assert all(np.array_equal(y, other) for other in products)
        a = z if axis else z.T
        expected = np.einsum("ik,jk->ij", a, a)
        if z is whole:
            np.testing.assert_array_equal(y, expected)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("small_pieces")
def test_a_product_of_columns_is_one() -> None:
    rng = np.random.default_rng(0)
    x, y = (np.asfortranarray(rng.standard_normal(shape)) for shape in ((70, 90), (90, 50)))
    specs = (TensorSpec(x.shape, "float64"), TensorSpec(y.shape, "float64"))
    turned = KERNEL.bind(DotGeneral((1,), (0,)), specs, Resources(Workers(2)))(x, y)
    assert turned.flags.f_contiguous
    assert np.allclose(turned, x @ y)


def test_a_program_may_be_run_on_arrays_of_many_layouts() -> None:
    program = tnf.compile(
        lambda x, y: tnf.einsum("abcd,dcef->abef", x, y),
        tnf.TensorSpec((2, 3, 4, 5), "float64"),
        tnf.TensorSpec((5, 4, 3, 2), "float64"),
    )
    executor = tnf.GraphExecutor()
    rng = np.random.default_rng(0)
    for _ in range(20):
        perm, other = rng.permutation(4), rng.permutation(4)
        x = np.empty(np.array((2, 3, 4, 5))[perm]).transpose(np.argsort(perm))
        y = np.empty(np.array((5, 4, 3, 2))[other]).transpose(np.argsort(other))
        x[...], y[...] = rng.standard_normal(x.shape), rng.standard_normal(y.shape)
        assert np.allclose(executor.run(program, x, y), np.einsum("abcd,dcef->abef", x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("terms", [255, 256, 257, 259, 515, 1023, 1041, 4099])
def test_products_of_narrow_integers_are_exact(dtype: str, terms: int) -> None:
    """Sums of the largest products of narrow integers must be exact; they are odd, so that a lost bit is found."""
    largest = int(np.iinfo(dtype).max)
    terms |= 1
    x = np.full((32, terms), largest, dtype)
    y = np.full((terms, 33), largest, dtype)
    exact = largest * largest * terms
    wanted = np.array(exact % 2 ** (8 * x.itemsize)).astype(dtype)
    specs = (TensorSpec(x.shape, x.dtype), TensorSpec(y.shape, y.dtype))
    for _ in range(2):
        np.testing.assert_array_equal(tnf.matmul(x, y), wanted)
    wide = DotGeneral((1,), (0,), accumulate_dtype=DType.I64)
    np.testing.assert_array_equal(KERNEL.bind(wide, specs)(x, y), exact)


def test_the_longest_products_of_narrow_integers_are_exact() -> None:
    """A sum of products 65535^2 must be exact even if it is odd and exceeds 2^53, unlike any float64."""
    terms = 2**21 + 101
    x = np.full((1, terms), 65535, np.uint16)
    wide = DotGeneral((1,), (0,), accumulate_dtype=DType.U64)
    specs = (TensorSpec(x.shape, x.dtype), TensorSpec((terms, 1), x.dtype))
    result = KERNEL.bind(wide, specs)(x, x.T)
    assert result.item() == 65535**2 * terms


@pytest.mark.parametrize(
    ("shape", "vector", "kind"), [((300, 20), 1, "rows"), ((20, 300), 0, "columns"), ((300, 20), 0, "terms")]
)  # fmt: skip
def test_a_large_matrix_by_a_vector_is_shared(
    shape: tuple[int, int], vector: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix-vector product must be split among threads at fewer multiplications than a matrix product.

    The reason is that memory bandwidth limits matrix-vector products.
    """
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 8 * 20 * 300)
    kinds: list[str] = []
    original = matrix_product.Product.__call__

    def call(self: Any, *operands: Any) -> Any:
        kinds.append(self.kind)
        return original(self, *operands)

    monkeypatch.setattr(matrix_product.Product, "__call__", call)
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal(shape), rng.standard_normal(shape[vector])
    specs = TensorSpec(x.shape, "float64"), TensorSpec(v.shape, "float64")
    products: list[Any] = []
    for threads in (1, 2, 3):
        resources = Resources(Workers(threads))
        if vector:
            products.append(KERNEL.bind(DotGeneral((1,), (0,)), specs, resources)(x, v))
        else:
            products.append(KERNEL.bind(DotGeneral((0,), (0,)), specs[::-1], resources)(v, x))
    assert kinds == [kind] * 3
    for y in products:
        np.testing.assert_array_equal(y, products[0])
        np.testing.assert_allclose(y, x @ v if vector else v @ x, 1e-12, 1e-12)
