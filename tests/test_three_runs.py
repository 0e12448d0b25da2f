"""Programs of every family, run three times by each of three executors, must equal NumPy and SciPy.

An executor may use different code for the first, the second and the third run of a program. All runs by one executor
must have the same bits. The results of different executors must agree within rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed

Function = Callable[..., Any]
Run = Callable[..., Any]
REAL = ("f4", "f8")
DTYPES = (*REAL, "c16")
EPS = {"f4": 2e-4, "f8": 1e-11, "c16": 1e-11}
"""Bounds of relative errors. They allow some thousand ulps, because condition numbers are up to a hundred."""


def executors(fn: Function) -> dict[str, Run]:
    """Return a function for each executor, by name.

    Each of the functions compiles `fn` once, and runs the program in each call.
    """

    def by(executor: tnf.GraphExecutor) -> Run:
        programs: list[tnf.GraphProgram] = []

        def run(*arrays: Any) -> Any:
            if not programs:
                programs.append(tnf.compile(fn, *arrays))
            return executor.run(programs[0], *arrays)

        return run

    runs = {"jit": tnf.jit(fn), "interpreted": by(tnf.GraphExecutor(compiled=False))}
    return runs | ({"compiled": by(tnf.GraphExecutor(compiled=True))} if is_installed() else {})


def leaves(outputs: Any) -> list[np.ndarray]:
    return [np.asarray(y) for y in tnf.tree.leaves(outputs)]


def require_three_equal_runs(fn: Function, arrays: Any, expected: Any, bound: float) -> None:
    """Run `fn` three times by each executor.

    The bits of the runs must be equal, and the results must be near the expected ones.

    Args:
        bound: the allowed error, relative to the largest element of an output.
    """
    for name, run in executors(fn).items():
        first, *others = (leaves(run(*arrays)) for _ in range(3))
        for number, other in enumerate(others, 2):
            for x, y in zip(first, other, strict=True):
                assert x.tobytes() == y.tobytes(), f"{name}: run {number} differs from the first"
        for y, wanted in zip(first, leaves(expected), strict=True):
            assert y.shape == wanted.shape
            largest = max(1.0, np.max(np.abs(wanted), initial=0.0))
            np.testing.assert_allclose(y, wanted, rtol=0, atol=bound * largest, err_msg=name)


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype == "c16" else x).astype(dtype)


# ---- NumPy and SciPy by tenferro's names ------------------------------------------------------------------


def of_each(fn: Function) -> Function:
    """Return a function that applies a function of matrices to each matrix of a batch."""

    def batched(*xs: Any) -> Any:
        if xs[0].ndim == 2:
            return fn(*xs)
        results = [batched(*x) for x in zip(*xs, strict=True)]
        return tnf.tree.map(lambda *ys: np.stack(ys), *results)

    return batched


def scan(f: Function, carry: Any, xs: Any, length: int | None = None) -> Any:
    outputs = []
    for i in range(len(xs) if length is None else length):
        carry, y = f(carry, None if xs is None else xs[i])
        outputs.append(y)
    return carry, None if outputs[0] is None else np.stack(outputs)


def fori_loop(start: int, stop: int, body: Function, x: Any) -> Any:
    for i in range(start, stop):
        x = body(i, x)
    return x


def while_loop(cond: Function, body: Function, x: Any) -> Any:
    while cond(x):
        x = body(x)
    return x


class Reference:
    """Reference functions under tenferro's names: those of NumPy.

    If NumPy lacks a function, it is SciPy's, or a loop.
    """

    linalg = SimpleNamespace(
        **{name: getattr(np.linalg, name) for name in np.linalg.__all__},
        lu=of_each(lambda a: tuple(scipy.linalg.lu(a))),
        expm=scipy.linalg.expm,
        solve_triangular=lambda a, b, lower: of_each(
            lambda a, b: scipy.linalg.solve_triangular(a, b, lower=lower)
        )(a, b),
    )
    scan, fori_loop, while_loop = map(staticmethod, (scan, fori_loop, while_loop))

    @staticmethod
    def cond(predicate: Any, first: Function, second: Function, *xs: Any) -> Any:
        return (first if predicate else second)(*xs)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


REFERENCE: Any = Reference()


# ---- linear algebra ---------------------------------------------------------------------------------------


def adjoint(n: Any, x: Any) -> Any:
    return n.conj(n.swapaxes(x, -1, -2))


def definite(n: Any, a: Any) -> Any:
    return a @ adjoint(n, a) + n.eye(a.shape[-1], dtype=a.dtype)


def by_eigenvalues(n: Any, a: Any) -> Any:
    values, vectors = n.linalg.eigh(definite(n, a))
    return values, (vectors * n.sqrt(values)[..., None, :]) @ adjoint(n, vectors)


def by_singular_values(n: Any, a: Any) -> Any:
    u, s, vh = n.linalg.svd(a, full_matrices=False)
    return s, (u * n.sqrt(s)[..., None, :]) @ vh


def by_factors(n: Any, a: Any) -> Any:
    q, r = n.linalg.qr(a)
    return n.abs(r), q @ r, n.abs(q)


def by_general_eigenvalues(n: Any, a: Any) -> Any:
    values, vectors = n.linalg.eig(a)
    inverse = n.linalg.inv(vectors)
    return n.sum(values, axis=-1), (vectors * n.exp(values)[..., None, :]) @ inverse


LINALG: dict[str, Callable[[Any, Any, Any], Any]] = {
    "solve": lambda n, a, b: n.linalg.solve(a, b),
    "solve twice": lambda n, a, b: n.linalg.solve(a, n.linalg.solve(a * 0.5, b) + b),
    "inv": lambda n, a, b: n.linalg.inv(a),
    "det": lambda n, a, b: n.linalg.det(a),
    "slogdet": lambda n, a, b: tuple(n.linalg.slogdet(a)),
    "cholesky": lambda n, a, b: n.linalg.cholesky(definite(n, a)),
    "qr": lambda n, a, b: by_factors(n, a),
    "qr of a tall matrix": lambda n, a, b: by_factors(n, n.concatenate([a, a * a], axis=-2)),
    "svd": lambda n, a, b: by_singular_values(n, a),
    "eigh": lambda n, a, b: by_eigenvalues(n, a),
    "eig": lambda n, a, b: by_general_eigenvalues(n, a),
    "lu": lambda n, a, b: tuple(n.linalg.lu(a)),
    "pinv": lambda n, a, b: n.linalg.pinv(a),
    "expm": lambda n, a, b: n.linalg.expm(a * 0.25),
    "matrix_power": lambda n, a, b: n.linalg.matrix_power(a, 3),
    "negative matrix_power": lambda n, a, b: n.linalg.matrix_power(a, -2),
    "solve_triangular": lambda n, a, b: n.linalg.solve_triangular(a, b, lower=True),
    "normal equations": lambda n, a, b: n.linalg.solve(adjoint(n, a) @ a, adjoint(n, a) @ b),
}
MATRICES = {"3": (3, 3), "24": (24, 24), "batch of 4": (2, 3, 4, 4)}


def matrices(shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    """Return a well-conditioned matrix, or a batch of them, with distinct eigenvalues, and right-hand sides."""
    size = shape[-1]
    a = random(shape, dtype, 1) / np.sqrt(size) + np.diag(np.linspace(3.0, 5.0, size))
    return a.astype(dtype), random((*shape[:-1], 2), dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name: str, shape: tuple[int, ...], dtype: str) -> None:
    arrays = matrices(shape, dtype)
    wide = [x.astype("c16" if dtype == "c16" else "f8") for x in arrays]
    expected = LINALG[name](REFERENCE, *wide)
    require_three_equal_runs(lambda *xs: LINALG[name](tnf, *xs), arrays, expected, EPS[dtype])


@pytest.mark.parametrize("dtype", REAL)
def test_least_squares(dtype: str) -> None:
    a, b = random((7, 3), dtype, 3), random((7, 2), dtype, 4)
    expected = np.linalg.lstsq(a.astype("f8"), b.astype("f8"))[0]
    require_three_equal_runs(lambda a, b: tnf.linalg.lstsq(a, b)[0], (a, b), expected, EPS[dtype])


def loss(n: Any, outputs: Any) -> Any:
    """Return a weighted sum of the squared absolute values of the elements of the outputs.

    The weights differ, so that exchanged elements would change the sum.
    """
    total: Any = 0.0
    for y in tnf.tree.leaves(outputs):
        weights = np.cos(np.arange(float(np.prod(y.shape)))).reshape(y.shape)
        total = total + n.sum(n.real(y * n.conj(y)) * weights)
    return total


@pytest.mark.parametrize(("shape", "dtype"), [((3, 3), "f8"), ((2, 4, 4), "c16")], ids=str)
@pytest.mark.parametrize("name", LINALG)
def test_gradients_of_linear_algebra(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """A gradient times a direction must equal a fourth-order difference of NumPy's values along the direction."""
    arrays = matrices(shape, dtype)
    direction = [random(x.shape, dtype, seed) for seed, x in enumerate(arrays, 5)]

    def along(*xs: Any) -> Any:
        gradients = tnf.grad(lambda *xs: loss(tnf, LINALG[name](tnf, *xs)), argnums=(0, 1))(*xs)
        products = [tnf.sum(tnf.real(tnf.conj(g) * v)) for g, v in zip(gradients, direction, strict=True)]  # fmt: skip
        return products[0] + products[1], gradients

    def value(h: float) -> float:
        moved = [x + h * v for x, v in zip(arrays, direction, strict=True)]
        return float(loss(np, LINALG[name](REFERENCE, *moved)))

    h = 1e-3
    slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
    gradients = tnf.compile(lambda *xs: along(*xs)[1], *arrays)
    once = tnf.GraphExecutor(compiled=False).run(gradients, *arrays)
    require_three_equal_runs(along, arrays, (np.asarray(slope), *once), 1e-7)


IN_LOOPS = [
    (name, loop)
    for name in LINALG
    for loop in ("scan", "fori_loop", "while_loop", "cond")
    if name != "expm" or loop == "scan"  # because LLVM takes seconds to compile expm
]


@pytest.mark.parametrize(("name", "loop"), IN_LOOPS)
def test_linear_algebra_in_loops(name: str, loop: str) -> None:
    """Linear algebra in a loop must be right.

    The carry changes the matrix of the next iteration slightly.
    """

    def step(n: Any, a: Any, b: Any, carry: Any) -> Any:
        outputs = LINALG[name](n, a + 0.01 * carry, b)
        return 0.5 * carry + 0.001 * n.real(loss(n, outputs)).astype(carry.dtype)

    def fn(n: Any, a: Any, b: Any) -> Any:
        start = b[0, 0]
        if loop == "scan":
            return n.scan(lambda c, x: (step(n, a, b, c) + x, c), start, b[:, 1])
        if loop == "fori_loop":
            return n.fori_loop(0, 4, lambda i, c: step(n, a, b, c), start)
        if loop == "while_loop":

            def body(state: Any) -> Any:
                return state[0] + 1, step(n, a, b, state[1])

            return n.while_loop(lambda state: state[0] < 4, body, (0, start))[1]
        branch = lambda c: step(n, a, b, c)
        return n.cond(a[0, 0] > 0, branch, lambda c: c * 2.0, start)

    arrays = matrices((3, 3), "f8")
    expected = fn(REFERENCE, *arrays)
    require_three_equal_runs(lambda *xs: fn(tnf, *xs), arrays, expected, EPS["f8"])


# ---- the other families -----------------------------------------------------------------------------------

PRODUCTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matrices": lambda n, a, b: a @ b,
    "left transposed": lambda n, a, b: a.T @ b,
    "right transposed": lambda n, a, b: a @ b.T,
    "both transposed": lambda n, a, b: a.T @ b.T,
    "with itself": lambda n, a, b: (a @ a.T, a.T @ a),
    "vector": lambda n, a, b: (a @ b[0], a[0] @ b, a[0] @ b[0], n.outer(a[0], b[1])),
    "rows of another layout": lambda n, a, b: a[::2] @ b[:, ::-1],
    "chain": lambda n, a, b: (a @ b + a) @ (b - 1.0) * 0.5,
    "batches": lambda n, a, b: n.stack([a, b]) @ n.stack([b, a]),
    "einsum": lambda n, a, b: n.einsum("ij,kj,kl->il", a, b, a),
    "einsum over batches": lambda n, a, b: n.einsum(
        "bij,bkj->kbi", n.stack([a, b]), n.stack([b, b])
    ),
    "sums of products": lambda n, a, b: n.sum(a[:, :, None] * b[None, :, :], axis=1),
    "trace": lambda n, a, b: n.einsum("ij,ji->", a, b),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [5, 90])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, size: int, order: Any, dtype: str) -> None:
    arrays = [np.asarray(random((size, size), dtype, seed), order=order) for seed in (6, 7)]
    expected = PRODUCTS[name](
        REFERENCE, *[x.astype("c16" if dtype == "c16" else "f8") for x in arrays]
    )
    require_three_equal_runs(lambda *xs: PRODUCTS[name](tnf, *xs), arrays, expected, EPS[dtype])


def running_mean(n: Any, x: Any) -> Any:
    return n.scan(lambda c, y: (0.9 * c + 0.1 * n.sin(y), c), x[0], x)


def newton(n: Any, x: Any) -> Any:
    """Compute square roots by Newton's method. All elements make as many steps as the slowest one needs."""
    target = n.abs(x) + 1.0
    return n.while_loop(
        lambda y: n.max(n.abs(y * y - target)) > 1e-3, lambda y: 0.5 * (y + target / y), target
    )


VECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "small chain": lambda n, x: n.sin(x[:7]) * n.exp(-x[:7] * x[:7]) + n.tanh(x[:7]) / 3.0,
    "large chain": lambda n, x: n.sin(x) * n.exp(-x * x) + n.tanh(x) / 3.0,
    "powers and roots": lambda n, x: n.sqrt(n.abs(x)) + n.log1p(x * x) - n.abs(x) ** 1.5,
    "where": lambda n, x: n.where(x > 0.0, n.exp(-x), x * x),
    "rows and columns": lambda n, x: x.reshape(3, -1) * x[:3, None] + n.cos(x.reshape(3, -1)),
    "sum": lambda n, x: (n.sum(x), n.sum(x * x), n.mean(n.cos(x))),
    "sums along axes": lambda n, x: (
        n.sum(x.reshape(3, -1), axis=0),
        n.sum(x.reshape(3, -1) ** 2, axis=1),
    ),
    "extremes": lambda n, x: (n.max(x), n.min(x.reshape(3, -1), axis=0), n.argmax(x)),
    "products": lambda n, x: n.prod(1.0 + 0.01 * x[:300].reshape(3, -1), axis=1),
    "cumulative": lambda n, x: n.cumsum(x[:300]),
    "deviation": lambda n, x: (n.std(x), n.var(x.reshape(3, -1), axis=1)),
    "softmax": lambda n, x: n.exp(x - n.max(x)) / n.sum(n.exp(x - n.max(x))),
    "sort": lambda n, x: (n.sort(x), n.sort(x.reshape(3, -1), axis=0), n.argsort(x[:50])),
    "gather": lambda n, x: (
        x[n.argsort(x[:40])],
        n.take_along_axis(x.reshape(3, -1), n.argsort(x.reshape(3, -1)), 1),
    ),
    "scan": running_mean,
    "scan of vectors": lambda n, x: running_mean(n, x.reshape(-1, 3)),
    "fori_loop": lambda n, x: n.fori_loop(0, 9, lambda i, y: n.sin(y) * 0.9 + 0.1 * x, x),
    "while_loop": newton,
    "cond": lambda n, x: n.cond(n.sum(x * x) > 1.0, lambda y: n.exp(-y * y), lambda y: y, x),
    "convolve": lambda n, x: n.convolve(x[:200], x[:9]),
}
FOURIER: dict[str, Callable[[Any, Any], Any]] = {
    "fft": lambda n, x: n.fft.fft(x),
    "ifft": lambda n, x: n.fft.ifft(x * x),
    "rfft and back": lambda n, x: n.fft.irfft(n.fft.rfft(x) * 2.0, x.shape[-1]),
    "fft2": lambda n, x: n.fft.fft2(x.reshape(3, -1)),
    "spectrum in a loop": lambda n, x: n.fori_loop(
        0, 3, lambda i, y: n.fft.irfft(n.fft.rfft(y) * 0.5, 30) + x[:30], x[:30]
    ),
}


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("size", [300, 60_000])
@pytest.mark.parametrize("name", [*VECTORS, *FOURIER])
def test_vectors(name: str, size: int, dtype: str) -> None:
    x = random((size,), dtype, 8)
    fn = (VECTORS | FOURIER)[name]
    expected = fn(REFERENCE, x.astype("f8"))
    require_three_equal_runs(lambda x: fn(tnf, x), (x,), expected, EPS[dtype])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("size", [50, 60_000])
def test_scatters(size: int, dtype: str) -> None:
    x = random((size,), dtype, 9)
    places = np.random.default_rng(10).integers(0, 20, size)
    expected = np.zeros((2, 20))
    np.add.at(expected[0], places, x.astype("f8"))
    expected[1] = -np.inf
    np.maximum.at(expected[1], places, x.astype("f8"))
    largest = np.isfinite(expected[1])

    def fn(x: Any, places: Any) -> Any:
        start = tnf.zeros(20, dtype=dtype)
        return tnf.at(start)[places].add(x), tnf.at(start - 9.0)[places].max(x)

    require_three_equal_runs(
        fn, (x, places), (expected[0], np.where(largest, expected[1], -9.0)), EPS[dtype]
    )


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("channels", [1, 6])
def test_convolutions(channels: int, dtype: str) -> None:
    x, w = random((2, channels, 9, 8), dtype, 11), random((4, channels, 3, 3), dtype, 12)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (3, 3), (2, 3))
    expected = np.einsum("bcijkl,ockl->boij", windows, w.astype("f8"))

    def fn(x: Any, w: Any) -> Any:
        return tnf.lax.conv(x, w, (1, 1), "VALID")

    def gradients(x: Any, w: Any) -> Any:
        return tnf.grad(lambda x, w: tnf.sum(fn(x, w) * expected.astype(dtype)), argnums=(0, 1))(
            x, w
        )

    require_three_equal_runs(fn, (x, w), expected, EPS[dtype])
    of_w = np.einsum("bcijkl,boij->ockl", windows, expected)
    padded = np.pad(expected, ((0, 0), (0, 0), (2, 2), (2, 2)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    of_x = np.einsum("boijkl,ockl->bcij", views, w.astype("f8")[:, :, ::-1, ::-1])
    require_three_equal_runs(gradients, (x, w), (of_x, of_w), EPS[dtype])
