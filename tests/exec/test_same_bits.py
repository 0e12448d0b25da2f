"""A program must have the same bits interpreted and printed, in every run, for any number of threads and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import is_installed
from tenferro.graph import GraphBuilder
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.samples import SAMPLES
from tests.samples.each import each_card
from xla_peer.fuzz.program import random_case

RNG = np.random.default_rng(7)
OPTIONS: dict[str, dict[str, Any]] = {
    "F": {"order": "F", "threads": 1},
    "C": {"order": "C", "threads": 4},
    "K": {"order": "K", "threads": 2},
    "F, interpreted": {"order": "F", "threads": 2, "segmented": False},
    "K, interpreted": {"order": "K", "threads": 1, "segmented": False},
}
needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
COMPILED = ["loops", pytest.param("jit", marks=needs_llvmlite)]
"""Options `compiled` of the executors: "loops" has no compiled blocks, "jit" has compiled blocks."""


@pytest.fixture(scope="module", autouse=True)
def _machine_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share a cache of machine code between the tests, because their executors compile the same loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFERRO_CACHE_DIR", str(tmp_path_factory.mktemp("machine_code")))
        yield


def bits(outputs: Any) -> list[bytes]:
    return [np.asarray(y).tobytes() for y in flatten(outputs)[0]]


def require_same_bits(
    program: GraphProgram, *arrays: Any, runs: int = 3, compiled: Any = "loops"
) -> None:
    first = tnf.GraphExecutor("K", threads=1, segmented=False, compiled=compiled)
    wanted = bits(first.run(program, *arrays))
    for name, options in OPTIONS.items():
        executor = tnf.GraphExecutor(**options, compiled=compiled)
        for run in range(runs):
            assert bits(executor.run(program, *arrays)) == wanted, f"order {name}, run {run + 1}"


def in_scan(program: GraphProgram) -> Callable[..., Any]:
    """Return a function that runs the program in every iteration of a scan, and stacks nothing."""
    return lambda *xs: tnf.scan(lambda n, _: (n + 1, program.run(*xs)), 0, None, length=3)


def in_choice(program: GraphProgram) -> Callable[..., Any]:
    """Return a function that runs the program in a branch of a conditional."""
    return lambda *xs: tnf.cond(tnf.sum(tnf.ones(3)) > 2.0, program.run, program.run, *xs)


def in_while(program: GraphProgram) -> Callable[..., Any]:
    """Return a function that runs the program once, and then in every iteration of a while loop."""

    def fn(*xs: Any) -> Any:
        ys = program.run(*xs)
        return tnf.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, program.run(*xs)), (0, ys))

    return fn


@pytest.mark.parametrize("count", [40, pytest.param(125, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("kind", [None, in_scan, in_choice, in_while])
@pytest.mark.parametrize("compiled", COMPILED)
def test_random_programs(kind: Any, count: int, compiled: Any) -> None:
    for number in range(count):
        case = random_case(11, number, most_ops=10)
        program = case.program
        if kind is not None:
            program = tnf.compile(kind(program), *program.input_specs)
        require_same_bits(program, *case.leaves, runs=100 if number == 5 else 3, compiled=compiled)


MATRICES: list[Callable[[Any], Any]] = [
    lambda x: x @ x.T,
    lambda x: x.T,
    lambda x: tnf.tril(x) + tnf.ones(x.shape[0]),
    lambda x: tnf.linalg.solve(regular(x), x),
    lambda x: tnf.linalg.inv(regular(x)),
    lambda x: tnf.linalg.cholesky(x @ x.T + tnf.eye(x.shape[0])),
    lambda x: tnf.abs(tnf.linalg.qr(regular(x))[1]),
    lambda x: x * tnf.linalg.eigvalsh(x + x.T),
    lambda x: x + tnf.linalg.svdvals(x),
    lambda x: tnf.linalg.det(regular(x)) - x,
    lambda x: tnf.linalg.expm(x),
    lambda x: tnf.sin(x) + tnf.sum(x * x, axis=0),
    lambda x: tnf.fori_loop(0, 3, lambda _, c: tnf.linalg.solve(regular(c), c) * 0.5 + x, x),
    lambda x: tnf.cond(tnf.sum(x) > 0.0, lambda x: tnf.linalg.inv(regular(x)), lambda x: x.T, x),
]
"""Functions from a square matrix to a square matrix."""


def regular(x: Any) -> Any:
    """Return a diagonally dominant matrix that depends on x."""
    return x / (1.0 + tnf.max(tnf.abs(x))) + x.shape[0] * tnf.eye(x.shape[0])


def random_matrices(number: int) -> tuple[GraphProgram, Any]:
    """Return a program, a random chain of functions in `MATRICES` that are scaled to at most 1, and its argument."""
    rng = np.random.default_rng([number, 5])
    size = int(rng.integers(1, 9)) if number % 8 else int(rng.integers(30, 70))
    steps = [MATRICES[k] for k in rng.integers(0, len(MATRICES), rng.integers(2, 7))]

    def fn(x: Any) -> Any:
        results = [x]
        for step in steps:
            y = step(results[-1])
            results.append(y / (1.0 + tnf.max(tnf.abs(y))))
        return results[1:]

    x = rng.uniform(-1.0, 1.0, (size, size))
    return tnf.compile(fn, x), x if number % 2 else np.asfortranarray(x)


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("compiled", COMPILED)
def test_random_linear_algebra(count: int, compiled: Any) -> None:
    interpreted = tnf.GraphExecutor("K", threads=1, compiled=False)
    for number in range(count):
        program, x = random_matrices(number)
        require_same_bits(program, x, runs=100 if number == 5 else 3, compiled=compiled)
        found = tnf.GraphExecutor("K", compiled=compiled).run(program, x)
        for y, z in zip(found, interpreted.run(program, x), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-11)


@each_card
@pytest.mark.parametrize("most", [24, pytest.param(1000, marks=pytest.mark.sweep)])
def test_samples(card: Any, most: int) -> None:
    samples = SAMPLES[card][:: -(-len(SAMPLES[card]) // most) or 1]
    builder = GraphBuilder()
    inputs, outputs = [], []
    for sample in samples:
        values = [builder.input(x.shape, x.dtype) for x in sample.inputs]
        inputs += sample.inputs
        outputs += builder.apply(sample.op, *values)
    require_same_bits(GraphProgram.from_graph(builder.graph, outputs), *inputs)


def normal(*shape: int, dtype: str = "float64") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def many(x: Any) -> Any:
    """Apply a hundred ops to one number."""
    for _ in range(50):
        x = tnf.sin(x) * 1.01
    return x


def recurrent(w: Any, h: Any, b: Any) -> Any:
    """Apply ten steps of a recurrent network, unrolled."""
    for _ in range(10):
        h = tnf.tanh(h @ w + b)
    return tnf.sum(h * h)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda a, b: a @ b, (normal(100, 100), normal(100, 100))),
    "product float32": (
        lambda a, b: a @ b,
        (normal(100, 100, dtype="float32"), normal(100, 100, dtype="float32")),
    ),
    "product unequal": (lambda a, b: a @ b, (normal(37, 53), normal(53, 29))),
    "product of a sum": (lambda a, b: (a + 1.0) @ (b * 2.0), (normal(37, 53), normal(53, 29))),
    "product turned": (lambda a, b: (a.T @ b.T, a @ a.T), (normal(53, 37), normal(29, 53))),
    "batched": (lambda a, b: a @ b, (normal(5, 17, 23), normal(5, 23, 11))),
    "einsum": (
        lambda a, b: tnf.einsum("ijk,kjl->lik", a, b),
        (normal(9, 7, 31), normal(31, 7, 13)),
    ),
    "gradient": (
        tnf.grad(lambda w, x: tnf.sum(tnf.tanh(tnf.tanh(x @ w) @ w))),
        (normal(40, 40), normal(30, 40)),
    ),
    "layers": (
        lambda x: tnf.softmax(x @ x.T - tnf.mean(x, axis=1, keepdims=True), axis=-1),
        (normal(50, 50),),
    ),
    "large chain": (lambda x: tnf.sum(tnf.exp(x) * x + tnf.sin(x), axis=0), (normal(400, 500),)),
    "large rows": (lambda x: x - tnf.mean(x * x, axis=1, keepdims=True), (normal(400, 500),)),
    "scan": (
        lambda w, x: tnf.scan(lambda h, _: (tnf.tanh(w @ h), tnf.sum(h)), x, None, length=5),
        (normal(30, 30), normal(30, 7)),
    ),
    "solve": (lambda a, b: tnf.linalg.solve(a, b), (normal(40, 40), normal(40, 3))),
    "many ops on a number": (many, (np.float64(0.5),)),
    "recurrent": (tnf.grad(recurrent), (normal(8, 8), normal(5, 8), normal(8))),
    "exponential of a matrix": (lambda a: tnf.linalg.expm(a), (normal(6, 6),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("compiled", COMPILED)
def test_programs(name: str, compiled: Any) -> None:
    fn, arrays = PROGRAMS[name]
    for layout in (np.ascontiguousarray, np.asfortranarray):
        given = [layout(x) for x in arrays]
        require_same_bits(tnf.compile(fn, *given), *given, compiled=compiled)


def test_jit() -> None:
    a, b = normal(100, 100, dtype="float32"), normal(100, 100, dtype="float32")
    product = tnf.jit(lambda a, b: a @ b)
    first = product(a, b)
    assert np.array_equal(first, product(a, b))
    assert np.array_equal(first, product(a, b))
