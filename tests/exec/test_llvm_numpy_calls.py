"""Products and linear algebra in straight lines: the bits of NumPy and SciPy, by calls of their own loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link, numpy_linalg, numpy_products, ufunc_loops
from tenferro.exec.llvm.routines import exact_row_of
from tenferro.exec.plan import lines
from tenferro.exec.plan.lines import lines_of
from tenferro.extension import ExtensionRuntime, Routine
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.extension import Extension
from tests.exec.test_llvm_straight import apart, later, names, require_same, soon, straight

__all__ = ["soon"]

pytestmark = [
    pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed"),
    pytest.mark.usefixtures("soon"),
]
RNG = np.random.default_rng(5)
DTYPES = ["float32", "float64", "complex64", "complex128"]
FEW = ["float64", "complex128"]
MANY = [
    *FEW,
    *[pytest.param(dtype, marks=pytest.mark.sweep) for dtype in DTYPES if dtype not in FEW],
]
"""Of which those take the ways of these, with conversions around them."""


def random(dtype: str, *shape: int) -> Any:
    """Numbers of a dtype."""
    x = RNG.standard_normal((2, *shape)) * 3
    return (x[0] + 1j * x[1] if dtype.startswith("c") else x[0]).astype(dtype)


def all_names(program: Any, *arrays: Any) -> list[str]:
    """Of the ops in the lines of a program."""
    schedule = later(tnf.GraphExecutor("K"), program, *arrays)
    return [name for line in straight(schedule) for name in names(line)]


# ---- products --------------------------------------------------------------------------------------

PRODUCTS = {
    "matrices": (lambda a, b: a @ b, (5, 7), (7, 3)),
    "left turned": (lambda a, b: a.T @ b, (7, 5), (7, 3)),
    "right turned": (lambda a, b: a @ b.T, (5, 7), (3, 7)),
    "both turned": (lambda a, b: a.T @ b.T, (7, 5), (3, 7)),
    "vectors": (lambda a, b: a @ b, (9,), (9,)),
    "matrix and vector": (lambda a, b: a @ b, (5, 7), (7,)),
    "vector and matrix": (lambda a, b: a @ b, (7,), (7, 5)),
    "turned matrix and vector": (lambda a, b: a.T @ b, (7, 5), (7,)),
    "one row": (lambda a, b: a @ b, (1, 7), (7, 5)),
    "one column": (lambda a, b: a @ b, (5, 7), (7, 1)),
    "batch": (lambda a, b: a @ b, (4, 5, 7), (4, 7, 3)),
    "batch of turned": (lambda a, b: tnf.einsum("bki,bkj->bij", a, b), (4, 7, 5), (4, 7, 3)),
    "batch by vectors": (lambda a, b: tnf.einsum("bij,bj->bi", a, b), (4, 5, 7), (4, 7)),
    "of slices": (lambda a, b: a[:, 1:4] @ b[2:5, ::2], (5, 7), (7, 6)),
    "of slices of a batch": (
        lambda a, b: tnf.einsum("bi,bi->b", a[:, 1:], b[:, :3]), (4, 4), (4, 5),
    ),
    "backwards": (lambda a, b: a[::-1] @ b[:, ::-1], (5, 7), (7, 6)),
    "repeated": (lambda a, b: tnf.broadcast_to(a, (5, 7)) @ b, (7,), (7, 6)),
    "with itself": (lambda a, b: a @ a.T + tnf.sum(b), (9, 7), (1,)),
    "itself turned": (lambda a, b: a.T @ a + tnf.sum(b), (9, 7), (1,)),
    "two axes of terms": (lambda a, b: tnf.einsum("ijk,jkl->il", a, b), (3, 4, 5), (4, 5, 6)),
    "terms in another order": (lambda a, b: tnf.einsum("ijk,kjl->il", a, b), (3, 4, 5), (5, 4, 6)),
    "outer": (lambda a, b: tnf.einsum("i,j->ij", a, b), (4,), (6,)),
    "outer of a batch": (lambda a, b: tnf.einsum("bi,bj->bij", a, b), (3, 4), (3, 6)),
    "turned result": (lambda a, b: (a @ b).T * 2.0, (5, 7), (7, 3)),
    "of turned results": (lambda a, b: (a @ b).T @ (a * 2.0), (5, 7), (7, 3)),
    "many by vectors": (lambda a, b: tnf.einsum("bij,bj->bi", a, b), (300, 3, 3), (300, 3)),
    "batch last": (lambda a, b: tnf.einsum("ijb,jkb->ikb", a, b), (2, 3, 80), (3, 2, 80)),
}  # fmt: skip
STEPS = {"many by vectors", "batch last"}
"""Those that NumPy makes in another way."""


@pytest.mark.parametrize("case", PRODUCTS)
@pytest.mark.parametrize("dtype", [*MANY, "int32", pytest.param("int64", marks=pytest.mark.sweep)])
def test_products_are_numpys(case: str, dtype: str) -> None:
    function, *shapes = PRODUCTS[case]
    arrays = [random(dtype, *shape) for shape in shapes]

    def fn(a: Any, b: Any) -> Any:
        y = function(a + a, b * b)
        return y, y - y * y

    program = tnf.compile(fn, *arrays)
    for order in (np.ascontiguousarray, np.asfortranarray, apart):
        require_same(program, *map(order, arrays))
    if dtype == "float64":
        assert ("DotGeneral" in all_names(program, *arrays)) == (case not in STEPS)


@pytest.mark.parametrize("extent", [1, 2, 3, 4, 8, 17, 33, 64])
def test_products_of_all_extents(extent: int) -> None:
    """OpenBLAS has kernels of its own for small ones."""
    for dtype in ("float32", "float64"):
        for other in (1, 2, 5, 16, 31):
            a, b = random(dtype, other, extent), random(dtype, extent, other + 1)
            program = tnf.compile(lambda a, b: tnf.tanh((a * 2) @ b) @ (b.T + 1), a, b)
            require_same(program, a, b, orders="K")


def test_products_of_infinities_and_nan() -> None:
    a, b = random("float64", 4, 5), random("float64", 5, 6)
    a[1, 2], a[2, 3], b[0, 1], b[4] = np.inf, np.nan, -np.inf, -0.0
    require_same(tnf.compile(lambda a, b: (-a @ b) * 2.0, a, b), a, b)


@pytest.mark.parametrize("part", [tnf.real, tnf.imag])
def test_products_of_parts_of_views(part: Any) -> None:
    """Of a complex array, where the parts of its elements lie."""
    z, w = random("complex128", 6, 5), random("float64", 5, 2)
    for view in (
        lambda z: z[1:], lambda z: z[:, ::-1], lambda z: tnf.diagonal(z)[1:, None] * tnf.ones((1, 5)), lambda z: z[::2, :],
        lambda z: tnf.broadcast_to(z[1, 2], (3, 5)),
    ):  # fmt: skip
        assert require_same(
            tnf.compile(lambda z, w, view=view: part(view(z)) @ w * 2 - 1, z, w), z, w
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_large_numbers_and_infinities_backwards(dtype: str) -> None:
    """Where NumPy's own loop and BLAS differ in what they make of what overflows."""
    largest = float(np.finfo(dtype).max) / 2
    a, b = random(dtype, 2, 2), random(dtype, 2, 2, 4)
    for value in (largest, np.inf, np.nan, -0.0):
        a[0, 0] = value
        program = tnf.compile(lambda a, b: tnf.einsum("ac,acb->ab", a.T, b[:, ::-1]) + 1 - 2, a, b)
        require_same(program, a, b)
        program = tnf.compile(lambda a, b: tnf.einsum("ac,acb->ab", a, b[..., ::2]) + 1 - 2, a, b)
        require_same(program, a, b)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_products_with_vectors_that_lie_apart(dtype: str) -> None:
    """`np.dot` takes another way than `np.matmul` there, which few numbers may not tell."""
    for _ in range(12):
        a, b, c = random(dtype, 4), random(dtype, 4), random(dtype, 4, 4)
        require_same(tnf.compile(lambda a, b: (a @ b[::-1]) + 1 - 2, a, b), a, b, orders="K")
        require_same(tnf.compile(lambda a, c: a @ c[:, ::2] + 1 - 2, a, c), a, c, orders="K")
        require_same(tnf.compile(lambda a, c: c.T[1:] @ a + 1 - 2, a, c), a, c, orders="K")


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_array_in_the_place_of_two(dtype: str) -> None:
    """Of which the kernel makes one copy, so that BLAS mirrors half of the product."""
    x = random(dtype, 4, 17, 9)
    program = tnf.compile(lambda a, b: tnf.einsum("kil,kjl->ij", a, b) * 2 - 1, x, x)
    require_same(program, x, x)
    require_same(program, x, x.copy())
    program = tnf.compile(lambda a, b: (a @ b.T) * 2 - 1, x[0], x[0])
    require_same(program, x[0], x[0])
    require_same(program, x[0], x[0].copy())
    program = tnf.compile(
        lambda a: tnf.einsum("kil,kjl->ij", a * 2, tnf.sum(a * 2, axis=())) * 2 - 1, x
    )
    require_same(program, x)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,)])
def test_one_complex_number_multiplied_in_its_place(shape: tuple[int, ...]) -> None:
    """NumPy has a way of its own for it."""
    for _ in range(20):
        c = random("complex128", *shape)
        require_same(tnf.compile(lambda a: ((a + 1) * a) * (a - 1), c), c, orders="K")


def test_a_product_of_another_numpy_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random("float64", 4, 4)
    program = tnf.compile(lambda a: ((a + 1.0) @ a) * 2.0 - 1.0, a)

    def has_product() -> bool:
        schedule = tnf.GraphExecutor("K", compiled=False).compile(program)
        return any(["DotGeneral" in [step.op.name for step in line.body] for line in lines_of(schedule)])  # fmt: skip

    assert has_product()
    run = ufunc_loops.run

    def other(loop: Any, places: Any, *numbers: Any) -> None:
        run(loop, places, *numbers)
        places[-1][..., 0] += 1

    monkeypatch.setattr(ufunc_loops, "run", other)
    assert not has_product()


def test_large_products_are_steps() -> None:
    a = random("float64", 80, 80)
    program = tnf.compile(lambda a: tnf.tanh(a @ a) * 2.0 - 1.0, a)
    assert "DotGeneral" not in all_names(program, a)
    assert require_same(program, a)
    assert numpy_products.product_of(program.instructions[0].op, a, a) is None


def test_much_linear_algebra_is_a_step() -> None:
    """Other threads run while LAPACK does."""
    for batch in (1, 16):
        a = random("float64", batch, 60, 60)
        schedule = later(
            tnf.GraphExecutor("K"), tnf.compile(lambda a: tnf.linalg.inv(a * 2.0) + 1.0, a)
        )
        is_step = any([step.op.name.startswith("tenferro.") for step in schedule.instructions])
        assert is_step == (batch > 1)


# ---- linear algebra --------------------------------------------------------------------------------


def definite(a: Any) -> Any:
    """A Hermitian matrix."""
    return a @ tnf.conj(tnf.swapaxes(a, -1, -2)) + tnf.eye(a.shape[-2], dtype=a.dtype)


LINALG = {
    "cholesky": lambda a: tnf.linalg.cholesky(definite(a)),
    "cholesky of what is none": tnf.linalg.cholesky,
    "solve": lambda a: tnf.linalg.solve(a * 2, a + 1),
    "solve of a singular": lambda a: tnf.linalg.solve(a - a, a),
    "solve triangular": lambda a: tnf.linalg.solve_triangular(a, a + 1, lower=True),
    "solve triangular, turned": lambda a: tnf.linalg.solve_triangular(a, a[..., :1] + 1, trans=1),
    "solve triangular, adjoint": lambda a: tnf.linalg.solve_triangular(a, a + 1, lower=True, trans=2),
    "eigh": lambda a: tnf.linalg.eigh(definite(a)),
    "eigvalsh": lambda a: tnf.linalg.eigvalsh(definite(a)),
    "qr": tnf.linalg.qr,
    "complete qr": lambda a: tnf.linalg.qr(a, mode="complete"),
    "r": lambda a: tnf.linalg.qr(a, mode="r"),
    "svd": lambda a: tnf.linalg.svd(a, full_matrices=False),
    "full svd": tnf.linalg.svd,
    "singular values": tnf.linalg.svdvals,
    "lu": tnf.linalg.lu_factor,
    "lu_solve": lambda a: tnf.linalg.lu_solve(tnf.linalg.lu_factor(a), a + 1),
    "gradient of a solution": lambda a: tnf.grad(lambda a: tnf.sum(tnf.real(tnf.linalg.solve(a, a[..., :2])) ** 2))(a),
    "inverse": tnf.linalg.inv,
    "determinant": tnf.linalg.det,
}  # fmt: skip
RECTANGULAR = {"cholesky", "eigh", "eigvalsh", "qr", "complete qr", "r", "svd", "full svd", "singular values"}  # fmt: skip


@pytest.mark.parametrize("case", LINALG)
@pytest.mark.parametrize("dtype", MANY)
def test_linear_algebra_is_numpys(case: str, dtype: str) -> None:
    shapes = [(1, 1), (2, 2), (5, 5), (17, 17), (3, 4, 4)]
    for shape in [*shapes, (7, 3), (3, 7)] if case in RECTANGULAR else shapes:
        a = random(dtype, *shape)

        def fn(a: Any) -> Any:
            results = LINALG[case](a + a)
            results = results if isinstance(results, tuple) else (results,)
            return [(y, y * 2 - y) for y in results]

        program = tnf.compile(fn, a)
        for turn, order in ((np.ascontiguousarray, "F"), (np.asfortranarray, "K"), (apart, "K")):
            require_same(program, turn(a), orders=order)
        schedule = later(tnf.GraphExecutor("K"), program, a)
        assert not any([step.op.name.startswith("tenferro.") for step in schedule.instructions])
        for broken in (np.nan, np.inf):
            a[(-1,) * a.ndim] = broken
            require_same(program, a, orders="K")


@pytest.mark.parametrize("extent", [31, 32, 33, 48, 63, 64, 65])
def test_linear_algebra_of_larger_extents(extent: int) -> None:
    """LAPACK goes by blocks; from 64 on a kernel calls it in another way, and is a step."""
    a = random("float64", extent, extent)
    for case in LINALG:
        program = tnf.compile(lambda a, case=case: LINALG[case](a + a), a)
        require_same(program, a, orders="K")


def test_gradients_of_linear_algebra_are_lines() -> None:
    """A likelihood of a Gaussian process: products, factors, solutions, moves and sums, in one or two lines."""

    def likelihood(scale: Any, x: Any, y: Any) -> Any:
        gram = tnf.exp(-(((x[:, None] - x) / scale) ** 2)) + 0.1 * tnf.eye(20)
        factor = tnf.linalg.cholesky(gram)
        z = tnf.linalg.solve_triangular(factor, y, lower=True)
        return z @ z + tnf.sum(tnf.log(tnf.diagonal(factor)))

    x, y = random("float64", 20), random("float64", 20)
    program = tnf.compile(tnf.value_and_grad(likelihood), np.float64(0.7), x, y)
    schedule = later(tnf.GraphExecutor("K"), program)
    assert len(straight(schedule)) <= 2
    assert len(schedule.instructions) <= 4
    assert require_same(program, np.float64(0.7), x, y)


@pytest.mark.parametrize("shape", numpy_linalg.TRIED, ids=str)
@pytest.mark.parametrize("dtype", FEW)
def test_trials_solve_with_matrices_that_are_far_from_singular(dtype: str, shape: Any) -> None:
    (a, _), _ = numpy_linalg.TRIALS["solve"](random(dtype, *shape))
    assert np.max(np.linalg.cond(a)) < 1e4


def test_routines_of_another_numpy_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tnf.TensorSpec((3, 3), "float64")
    routines = [Routine(name, is_exact=True) for name in numpy_linalg.LOOPS]
    assert all([exact_row_of(routine, [spec, spec]) for routine in routines])
    trial = numpy_linalg.is_known_loop.__wrapped__
    assert all([trial(name, tnf.DType.F64) for name in numpy_linalg.TRIALS])
    monkeypatch.setattr(numpy_linalg, "loop_of", lambda *_: None)
    assert not any([trial(name, tnf.DType.F64) for name in numpy_linalg.TRIALS])
    monkeypatch.undo()
    run = ufunc_loops.run

    def other(loop: Any, places: Any, *numbers: Any) -> None:
        run(loop, places, *numbers)
        places[-1][..., 0] += 1

    monkeypatch.setattr(ufunc_loops, "run", other)
    assert not any([trial(name, tnf.DType.F64) for name in numpy_linalg.TRIALS])


def test_a_runtime_of_ones_own_is_a_step() -> None:
    """Its bits are its own, even if loops may call a routine in its place."""

    class Own(ExtensionRuntime):
        family_id = "tenferro.cholesky.v1"

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return [np.full_like(inputs[0], 7.0)]

        def compiled_routine(self, op: Any) -> Routine:
            return Routine("cholesky")

    a = np.eye(3)
    program = tnf.compile(lambda a: tnf.linalg.cholesky(a * 2.0 + 1.0) * 2.0 - 1.0, a)
    executor = tnf.GraphExecutor("K", runtimes=[Own()])
    for _ in range(4):
        np.testing.assert_array_equal(executor.run(program, a), np.full((3, 3), 13.0))
    executor = tnf.GraphExecutor("K")
    first = [executor.run(program, a) for _ in range(4)]
    assert len({y.tobytes() for y in first}) == 1
    executor.register_runtime(Own(), replace=True)
    np.testing.assert_array_equal(executor.run(program, a), np.full((3, 3), 13.0))


def test_the_time_that_calls_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    a = np.eye(3)
    program = tnf.GraphExecutor("K").compile(tnf.compile(lambda a: tnf.linalg.inv(a + a) @ a, a))
    (line,) = lines_of(program)
    call, result = lines.LINE
    calls = lines.CALL + lines.CALLS[Extension] + lines.CALLS[DotGeneral]
    assert line.saves == pytest.approx(calls + 27 / lines.WORK - call - result)
