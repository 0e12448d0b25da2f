"""Linear algebra in compiled loops must satisfy the definitions of its functions."""

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.routines import row_of
from tenferro.ext.linalg import families as fam
from tenferro.extension import ExtensionRuntime, Routine
from tenferro.extension.application import apply
from tenferro.types import DType, TensorSpec
from tests.exec.compiled_loops import in_two_iterations

pytest.importorskip("llvmlite")
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BATCHES = [(), (1,), (2, 3)]


def matrices(rng: Any, dtype: Any, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def near(x: Any, y: Any) -> None:
    eps = np.finfo(x.dtype).eps
    np.testing.assert_allclose(x, y, rtol=0, atol=200 * eps * max(1.0, np.abs(y).max()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("transpose", ["N", "T", "C"])
def test_solutions(dtype: Any, batch: tuple[int, ...], transpose: str) -> None:
    rng = np.random.default_rng(7)
    a, b = matrices(rng, dtype, *batch, 4, 4), matrices(rng, dtype, *batch, 4, 3)
    a += 4 * np.eye(4, dtype=dtype)
    turned = {"N": a, "T": np.swapaxes(a, -1, -2), "C": np.swapaxes(a, -1, -2).conj()}[transpose]
    x = in_two_iterations(lambda a, b: apply(fam.Solve(transpose=transpose), a, b), a, b)
    near(turned @ x, b)

    def by_factors(a: Any, b: Any) -> Any:
        packed, perm = apply(fam.Lu(), a)
        return apply(fam.LuSolve(transpose=transpose), a, packed, perm, b)

    near(turned @ in_two_iterations(by_factors, a, b), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("transpose", ["N", "T", "C"])
def test_triangles(dtype: Any, lower: bool, unit: bool, transpose: str) -> None:
    """Elements outside of the triangle must not be read, nor the diagonal if it consists of ones by definition."""
    rng = np.random.default_rng(8)
    a, b = matrices(rng, dtype, 2, 5, 5), matrices(rng, dtype, 2, 5, 3)
    a += 4 * np.eye(5, dtype=dtype)
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        triangle[..., range(5), range(5)] = 1
    turned = {"N": triangle, "T": triangle.mT, "C": triangle.mT.conj()}[transpose]
    op = fam.TriangularSolve(lower=lower, unit_diagonal=unit, transpose=transpose)
    near(turned @ in_two_iterations(lambda a, b: apply(op, a, b), a, b), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5), (2, 5, 3), (1, 1)])
def test_factors(dtype: Any, shape: tuple[int, ...]) -> None:
    a = matrices(np.random.default_rng(9), dtype, *shape)
    packed, perm = in_two_iterations(lambda a: apply(fam.Lu(), a), a)
    k = min(shape[-2:])
    low = np.tril(packed[..., :k], -1) + np.eye(shape[-2], k, dtype=dtype)
    near(low @ np.triu(packed[..., :k, :]), np.take_along_axis(a, perm[..., None], -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_cholesky(dtype: Any, batch: tuple[int, ...]) -> None:
    """The Hermitian part must be factorised; if it is not positive definite, the lower triangle must be NaN."""
    a = matrices(np.random.default_rng(10), dtype, *batch, 4, 4)
    part = (a + np.swapaxes(a, -1, -2).conj()) / 2
    shift = 20 * np.eye(4, dtype=dtype)
    low = in_two_iterations(tnf.linalg.cholesky, a + shift)
    near(low @ np.swapaxes(low, -1, -2).conj(), part + shift)
    np.testing.assert_array_equal(low, np.tril(low))
    both = in_two_iterations(tnf.linalg.cholesky, np.stack([a + shift, a - shift]))
    np.testing.assert_array_equal(both[0], low)
    np.testing.assert_array_equal(np.isnan(both[1]), np.broadcast_to(np.tri(4) > 0, a.shape))


def test_singular_matrices_alone_are_nan() -> None:
    a = np.stack([np.eye(3), np.zeros((3, 3)), 2 * np.eye(3)])
    x = in_two_iterations(tnf.linalg.solve, a, np.ones((3, 3, 2)))
    np.testing.assert_array_equal(x[[0, 2]], [np.ones((3, 2)), 0.5 * np.ones((3, 2))])
    assert np.isnan(x[1]).all()


def test_large_and_empty_matrices_are_interpreted() -> None:
    for n, k in [(65, 1), (4, 65), (0, 1), (4, 0)]:
        specs = [TensorSpec.of((n, n), DType.F64), TensorSpec.of((n, k), DType.F64)]
        assert row_of(Routine("solve"), specs) is None


def test_derivatives_through_solutions() -> None:
    """The gradient through a loop of linear solves must equal complex-step derivatives."""
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((4, 4)) + 4 * np.eye(4), rng.standard_normal(4)

    def loss(a: Any, b: Any) -> Any:
        x = tnf.fori_loop(0, 6, lambda _, x: tnf.linalg.solve(a, x) + b, b)
        return (x * x).sum()

    gradient = tnf.jit(tnf.grad(loss), executor=tnf.GraphExecutor("K", compiled=True))(a, b)
    step, expected = 1e-30, np.empty_like(a)
    for index in np.ndindex(*a.shape):
        moved = a.astype(complex)
        moved[index] += 1j * step
        x = b.astype(complex)
        for _ in range(6):
            x = np.linalg.solve(moved, x) + b
        expected[index] = (x * x).sum().imag / step
    near(gradient, expected)


def test_a_runtime_that_is_registered_later_is_used_at_once() -> None:
    class Zeros(ExtensionRuntime):
        family_id = "tenferro.solve.v1"

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return np.zeros_like(inputs[1])

    executor = tnf.GraphExecutor("K", compiled=True)

    def f(a: Any, b: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda _, x: tnf.linalg.solve(a, x), b)

    program = tnf.compile(f, 2 * np.eye(2), np.ones((2, 1)))
    arrays = 2 * np.eye(2), np.ones((2, 1))
    np.testing.assert_array_equal(executor.run(program, *arrays), np.full((2, 1), 0.25))
    executor.register_runtime(Zeros())
    np.testing.assert_array_equal(executor.run(program, *arrays), np.zeros((2, 1)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tnf.linalg.eigh(x)[0],
        lambda x: tnf.linalg.svd(x)[1],
        lambda x: tnf.linalg.cholesky(x),
        lambda x: tnf.linalg.qr(x)[1],
        lambda x: tnf.linalg.solve(x, x[0]),
        lambda x: tnf.linalg.inv(x),
        lambda x: tnf.linalg.det(x),
    ],
)
def test_loops_of_small_matrices_are_compiled(function: Any) -> None:
    xs = np.stack([np.eye(3) * (n + 2) + 0.1 for n in range(40)])
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(lambda xs: tnf.scan(lambda c, x: (c, function(x)), 0.0, xs)[1], xs)
    assert "# compiled" in str(executor.compile(program, xs))


@pytest.mark.parametrize(
    ("size", "remark"), [(3, "compiled"), (200, "interpreted: tenferro.cholesky.v1: ")]
)
def test_routines_of_large_matrices(size: int, remark: str) -> None:
    """A loop with large matrices must be interpreted, because LAPACK takes most of the time."""
    turn = lambda c, _: (tnf.linalg.cholesky(c), None)
    program = tnf.compile(lambda x: tnf.scan(turn, x, None, length=9000)[0], np.eye(size))
    assert f"# {remark}" in str(tnf.GraphExecutor("K").compile(program))


def test_results_kept_by_a_runtime_are_not_overwritten_by_the_next_iteration() -> None:
    """A runtime may keep a reference to an array, so each iteration must pass a new array."""
    from dataclasses import dataclass

    from tenferro.extension import ExtensionOp, HostReferenceRuntime, extension_family

    kept: list[Any] = []

    @extension_family("tenferro-tests", "keeper", version=1, runtime=HostReferenceRuntime)
    @dataclass(frozen=True)
    class Keeper(ExtensionOp):
        def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
            return [(input_dtypes[0], input_shapes[0])]

        def eager_execute(self, inputs: Any) -> Any:
            kept.append(inputs[0])
            return [inputs[0] + 1]

    x = np.zeros(40)

    def turn(i: Any, c: Any) -> Any:
        return apply(Keeper(), tnf.sin(tnf.cos(tnf.tanh(tnf.exp(-c)) * 0 + c * 0)) * 0 + c * 1.0)

    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(lambda x: tnf.fori_loop(0, 5, turn, x), x)
    assert "# compiled" in str(executor.compile(program, x))
    np.testing.assert_array_equal(executor.run(program, x), np.full(40, 5.0))
    assert [array[0] for array in kept] == [0, 1, 2, 3, 4]


def test_a_loop_runs_the_runtime_and_not_the_expansion() -> None:
    """A loop must call an extension's runtime, not its expansion, which may have other results."""
    from dataclasses import dataclass

    from tenferro.extension import ExtensionOp, HostReferenceRuntime, extension_family
    from tenferro.ops.elementwise import Negate

    @extension_family("tenferro-tests", "rounded", version=1, runtime=HostReferenceRuntime)
    @dataclass(frozen=True)
    class Rounded(ExtensionOp):
        def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
            return [(input_dtypes[0], input_shapes[0])]

        def eager_execute(self, inputs: Any) -> Any:
            return [np.rint(inputs[0])]

        def lower_to_standard_ops(self, builder: Any, inputs: Any, *types: Any) -> Any:
            return builder.apply_one(Negate(), inputs[0])

    x = np.linspace(0.0, 4.0, 40)
    program = tnf.compile(
        lambda x: tnf.fori_loop(0, 3, lambda _, c: apply(Rounded(), c * 1.5), x), x
    )
    executor = tnf.GraphExecutor("K", compiled=True)
    expected = np.rint(np.rint(np.rint(x * 1.5) * 1.5) * 1.5)
    np.testing.assert_array_equal(executor.run(program, x), expected)
