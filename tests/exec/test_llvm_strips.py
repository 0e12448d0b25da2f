"""Scans whose elements do not depend on each other, and only these, must run in strips, with the same bits."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply
from tenferro.exec.llvm import strip_mining
from tenferro.graph import Graph
from tenferro.ops.analytic import Exp
from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.elementwise import Add
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.source import Constant
from tenferro.program import Subprogram
from tenferro.types import TensorSpec
from tests.samples import SAMPLES
from tests.samples.each import each_card

pytest.importorskip("llvmlite")
RNG = np.random.default_rng(11)
N = 20_011  # a prime number, so that the strips do not divide it: the last two overlap
X, Y = RNG.standard_normal(N), RNG.standard_normal(N)
ROWS = RNG.standard_normal((5003, 4))
NUMBERS = RNG.standard_normal(7)
SERIES = RNG.standard_normal((7, N))
Z = X + 1j * Y


def powers(ts: Any, coefficients: Any) -> Any:
    def iteration(value: Any, coefficient: Any) -> Any:
        return value * ts + coefficient, None

    return tnf.scan(iteration, tnf.zeros_like(ts), coefficients, reverse=True)[0]


def stacked(x: Any, series: Any) -> Any:
    return tnf.scan(lambda c, y: (c * 0.5 + y, (c - y, c > y)), x, series)


def counted(x: Any, y: Any) -> Any:
    """Scan with a scalar carry, which each strip computes."""

    def iteration(carry: Any, _: Any) -> Any:
        n, x = carry
        return (n * 2 + 1, tnf.where(x > y, x - n, x + y)), (n, x)

    return tnf.scan(iteration, (1, x), None, length=6)


def rotations(rows: Any) -> Any:
    """Scan whose body slices, concatenates and sums columns of a narrow matrix."""

    def iteration(c: Any, _: Any) -> Any:
        a, b = c[:, :2], c[:, 2:]
        length = tnf.sum(c * c, axis=1, keepdims=True)
        return tnf.concatenate([b, a + b], axis=1) / (1.0 + length), length[:, 0]

    return tnf.scan(iteration, rows, None, length=5)


def orbits(c: Any) -> Any:
    """Iterate z -> z^2 + c for many numbers c, and count the iterations until z diverges."""

    def iteration(_: Any, carry: Any) -> Any:
        z, count = carry
        near = tnf.real(z) ** 2 + tnf.imag(z) ** 2 <= 4
        return tnf.where(near, z * z + c, z), count + near

    return tnf.fori_loop(0, 20, iteration, (tnf.zeros_like(c), tnf.zeros(N, dtype="int32")))


def functions(x: Any) -> Any:
    return tnf.fori_loop(0, 4, lambda _, c: tnf.sin(c) + tnf.exp(-c * c), x)


PAIRS = np.stack([X, Y])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "powers": (powers, (X, NUMBERS)),
    "powers float32": (powers, (X.astype("f4"), NUMBERS.astype("f4"))),
    "powers float16": (powers, (np.tile(X, 3).astype("f2"), NUMBERS.astype("f2"))),
    "powers complex": (powers, (Z, NUMBERS + 0j)),
    "stacked": (stacked, (X, SERIES)),
    "stacked complex": (
        lambda x, s: tnf.scan(lambda c, y: (c * 0.5 + y, c - y), x, s),
        (Z, SERIES * 1j),
    ),
    "counted": (counted, (X, Y)),
    "orbits": (orbits, (Z,)),
    "places": (lambda x: tnf.fori_loop(0, 6, lambda _, c: c + tnf.arange(N), x), (X,)),
    "functions": (functions, (X,)),
    "gradient": (tnf.grad(lambda x: tnf.sum(functions(x)) + tnf.sum(powers(x, NUMBERS))), (X,)),
    "pairs": (
        lambda x, s: tnf.scan(lambda c, y: (c * 0.5 + y, c - y), x, s),
        (PAIRS, PAIRS[None] * SERIES[:, :1, None]),
    ),
    "batched": (
        tnf.vmap(lambda x, y: tnf.scan(lambda c, t: (c + t * y * c, c), x, NUMBERS)),
        (X, Y),
    ),
}
ACROSS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "columns": (rotations, (ROWS,)),
    "neighbours": (lambda x: tnf.fori_loop(0, 6, lambda _, c: c + tnf.roll(c, 1), x), (X,)),
    "a sum": (lambda x: tnf.fori_loop(0, 6, lambda _, c: c - tnf.mean(c), x), (X,)),
    "reversed": (lambda x: tnf.fori_loop(0, 6, lambda _, c: c - tnf.flip(c), x), (X,)),
    "running sums": (lambda x: tnf.fori_loop(0, 6, lambda _, c: tnf.cumsum(c) * 0.1, x), (X,)),
    "both axes": (
        lambda x: tnf.fori_loop(
            0, 6, lambda _, c: c - 0.1 * tnf.mean(c, axis=0) - 0.1 * tnf.mean(c, axis=1)[:, None], x
        ),
        (RNG.standard_normal((200, 200)),),
    ),
    "turned": (
        lambda x: tnf.fori_loop(0, 6, lambda _, c: c.T - c, x),
        (RNG.standard_normal((128, 128)),),
    ),
    "updates": (lambda x: tnf.fori_loop(0, 6, lambda i, c: c.at[i].set(0.5), x), (X,)),
    "a loop inside": (
        lambda x: tnf.fori_loop(
            0, 6, lambda _, c: tnf.fori_loop(0, 3, lambda _, d: d * 0.5 + 1, c), x
        ),
        (X,),
    ),
    "few iterations": (lambda x: tnf.fori_loop(0, 2, lambda _, c: c * 0.5, x), (X,)),
    "short": (lambda x: tnf.fori_loop(0, 9, lambda _, c: c * 0.5 + 1, x), (X[:1000],)),
    "work that every strip would do": (
        lambda x, y: tnf.scan(
            lambda c, _: ((c[0] * 0.5 + c[1][0], tnf.cos(c[1])), None), (x, y), None, length=6
        )[0],
        (X, RNG.standard_normal(15_000)),
    ),
}


CUT = (Add, Exp)
"""Ops for which at least one sample must run in strips."""


def remarks(executor: Any, program: Any) -> list[str]:
    steps = executor.compile(program).instructions
    return [step.remark for step in steps if isinstance(step.source_op, Scan)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_same_bits(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, arrays = CASES[name]
    program = tnf.compile(fn, *arrays)
    in_strips = tnf.GraphExecutor("K", threads=threads, compiled=True)
    loop_remarks = remarks(in_strips, program)
    assert loop_remarks
    assert all(
        [re.fullmatch(r"compiled in \d+ strips of \d+", remark) for remark in loop_remarks]
    ), loop_remarks
    assert "%start" in in_strips.source(program, "llvm")
    results = [tnf.tree.leaves(in_strips.run(program, *arrays)) for _ in range(3)]
    monkeypatch.setattr(strip_mining, "MIN_CARRY_BYTES", 1 << 60)
    whole = tnf.GraphExecutor("K", threads=1, compiled=True)
    assert set(remarks(whole, program)) == {"compiled"}
    expected = [tnf.tree.leaves(whole.run(program, *arrays))]
    if name not in ("functions", "gradient", "powers complex", "stacked complex", "orbits"):
        # Compiled functions and complex products are rounded differently than the interpreter's.
        expected.append(
            tnf.tree.leaves(tnf.GraphExecutor("K", compiled=False).run(program, *arrays))
        )
    for ys in results:
        for others in expected:
            for y, other in zip(ys, others, strict=True):
                np.testing.assert_array_equal(y, other, strict=True)


@each_card
def test_samples_in_narrow_strips(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op, applied to the carry of a scan, must have the same bits with and without strips."""
    samples = [
        sample
        for sample in SAMPLES[card]
        if sample.inputs
        and sample.inputs[0].size > 1
        and sample.op.output_count == 1
        and not issubclass(card, ControlOp)
    ]
    number_in_strips = 0
    for sample in samples[:: max(1, len(samples) // 4)]:
        x, *others = sample.inputs

        def fn(x: Any, *others: Any, op: Any = sample.op) -> Any:
            iteration = lambda c, _: (c, apply(op, c, *others)[0])
            return tnf.scan(iteration, x, None, length=5)

        program = tnf.compile(fn, x, *others)
        results: list[Any] = []
        for least in (1, 1 << 60):
            monkeypatch.setattr(strip_mining, "MIN_CARRY_BYTES", least)
            monkeypatch.setattr(strip_mining, "MIN_STRIP_WIDTH", 1)
            monkeypatch.setattr(strip_mining, "STRIP_BYTES", max(1, x.nbytes // 2))
            executor = tnf.GraphExecutor("K", threads=2, compiled=True)
            if least == 1:
                number_in_strips += "strips" in remarks(executor, program)[0]
            results.append(tnf.tree.leaves(executor.run(program, x, *others)))
        for one, other in zip(*results, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            if one.dtype == "bfloat16":  # because its NaN have other bits than NumPy's
                one, other = one.astype("f4"), other.astype("f4")
            np.testing.assert_array_equal(one, other)
    assert number_in_strips or card not in CUT


@pytest.mark.parametrize("name", ACROSS)
def test_loops_with_dependent_indices_are_not_strip_mined(name: str) -> None:
    fn, arrays = ACROSS[name]
    program = tnf.compile(fn, *arrays)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert not any(["strips" in remark for remark in remarks(executor, program)])
    others = tnf.tree.leaves(tnf.GraphExecutor("K", compiled=False).run(program, *arrays))
    for y, other in zip(tnf.tree.leaves(executor.run(program, *arrays)), others, strict=True):
        np.testing.assert_allclose(y, other, rtol=1e-12)


def test_operands_are_unchanged_and_results_are_new() -> None:
    program = tnf.compile(powers, X, NUMBERS)
    executor = tnf.GraphExecutor("F", compiled=True)
    before = X.copy(), NUMBERS.copy()
    first = executor.run(program, X, NUMBERS)
    first_values = first.copy()
    second = executor.run(program, -X, NUMBERS)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, first_values)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(NUMBERS, before[1])


def test_arrays_in_any_order() -> None:
    program = tnf.compile(HALVED, ROWS)
    executor = tnf.GraphExecutor("F", compiled=True)
    assert "strips" in remarks(executor, program)[0]
    for y, other in zip(
        executor.run(program, np.asfortranarray(ROWS)), executor.run(program, ROWS), strict=True
    ):
        np.testing.assert_array_equal(y, other)


def test_an_interrupt_ends_all_strips() -> None:
    """If a signal handler raises an exception, the strips that run in other threads must end, too."""

    class Interrupt(Exception):
        pass

    def handler(*_: Any) -> None:
        raise Interrupt

    x = RNG.standard_normal(2_000_000)
    program = tnf.compile(lambda x: tnf.fori_loop(0, 3000, lambda _, c: c * 0.999 + 0.001, x), x)
    executor = tnf.GraphExecutor("K", threads=2, compiled=True)
    assert "strips" in remarks(executor, program)[0]

    def again_and_again() -> None:
        for _ in range(1000):
            executor.run(program, x)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(Interrupt):
            again_and_again()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    small = X[:1000]
    np.testing.assert_array_equal(tnf.compile(lambda x: x + 1, small).run(small), small + 1)


def test_threads_share_an_executor() -> None:
    program = tnf.compile(powers, X, NUMBERS)
    executor = tnf.GraphExecutor("K", threads=2, compiled=True)
    expected = executor.run(program, X, NUMBERS)
    differing: list[int] = []

    def call(number: int) -> None:
        for _ in range(10):
            if not np.array_equal(executor.run(program, X * number, NUMBERS), results[number]):
                differing.append(number)

    results = [executor.run(program, X * number, NUMBERS) for number in range(4)]
    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not differing
    np.testing.assert_array_equal(results[1], expected)


HALVED = lambda x, iterations=9: tnf.scan(lambda c, _: (c * 0.5, None), x, None, length=iterations)[
    0
]


@pytest.mark.parametrize(
    ("fn", "shapes", "remark"),
    [
        # The carry and the constants of a strip occupy 16384 bytes.
        (HALVED, [(N,)], "in 10 strips of 2048"),
        (powers, [(N,), (7,)], "in 20 strips of 1024"),
        # A scan runs in strips if its carry has at least 64 kB, and the scan at least four iterations.
        (HALVED, [(8192,)], "in 4 strips of 2048"),
        (HALVED, [(8191,)], ""),
        (lambda x: HALVED(x, 4), [(8192,)], "in 4 strips of 2048"),
        (lambda x: HALVED(x, 3), [(8192,)], ""),
        # The number of contiguous elements of a strip must be a multiple of 64.
        (HALVED, [(7001, 3)], "in 11 strips of 672"),
        (HALVED, [(7001, 8)], "in 28 strips of 256"),
        (HALVED, [(8, 1024)], "in 4 strips of 2"),
        (HALVED, [(9, 1024)], "in 5 strips of 2"),
        (HALVED, [(4, 3000)], "in 6 strips of 512"),
        (lambda x, y: tnf.scan(lambda c, _: (c * x + y, None), x, None, length=9)[0], [(N,), (N,)], "in 32 strips of 640"),
        # Slices of scanned arrays, and scalars, do not count for the size of a strip.
        (lambda x, s: stacked(x, s)[0], [(N,), (7, N)], "in 10 strips of 2048"),
        (lambda x, n: tnf.scan(lambda c, _: (c * n, None), x, None, length=9)[0], [(N,), ()], "in 10 strips of 2048"),
    ],
)  # fmt: skip
def test_strips_fill_the_first_level_cache(
    fn: Any, shapes: list[tuple[int, ...]], remark: str
) -> None:
    program = tnf.compile(fn, *[np.zeros(shape) for shape in shapes])
    executor = tnf.GraphExecutor("K", compiled=True)
    assert remarks(executor, program) == [f"compiled {remark}".strip()]


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        ((7001, 3), {3, 672, 9}),  # contiguous rows, and nine iterations
        ((4, 3000), {4, 512, 9}),  # rows of a strided array, and nine iterations
    ],
)
def test_strips_of_the_first_axis_are_contiguous(shape: tuple[int, int], counts: set[int]) -> None:
    program = tnf.compile(lambda x: tnf.scan(lambda c, _: (c + c, c), x, None, length=9), np.zeros(shape))  # fmt: skip
    text = tnf.GraphExecutor("K", compiled=True).source(program, "llvm")
    assert {
        int(count) for count in re.findall(r"%more\d+ = icmp slt i64 %v\d+, (\d+)", text)
    } == counts


@pytest.mark.parametrize(("size", "remark"), [(2000, "compiled in 2 strips of 2000"), (2001, "compiled")])  # fmt: skip
def test_minimum_number_of_strips(size: int, remark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_mining, "MIN_CARRY_BYTES", 1)
    monkeypatch.setattr(strip_mining, "MIN_STRIP_WIDTH", 1)
    monkeypatch.setattr(strip_mining, "STRIP_BYTES", 8 * size)
    program = tnf.compile(HALVED, np.zeros(4000))
    assert remarks(tnf.GraphExecutor("K", compiled=True), program) == [remark]


def test_the_last_strip_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_mining, "MIN_CARRY_BYTES", 1)
    monkeypatch.setattr(strip_mining, "MIN_STRIP_WIDTH", 1)
    for extent, width, starts in ((10, 4, [0, 4, 6]), (8, 4, [0, 4]), (9, 4, [0, 4, 5])):
        monkeypatch.setattr(strip_mining, "STRIP_BYTES", 8 * width)
        graph, spec = Graph(), TensorSpec((extent,), "float64")
        carry = graph.add_input(spec)
        op = Scan(Subprogram.of(graph, [carry], graph.add(Add(), (carry, carry))), 9, 0, 1)
        cut = strip_mining.strip_mine(op, [spec])
        assert cut is not None
        assert (cut.width, cut.starts) == (width, starts)


def test_types_of_strips() -> None:
    of = lambda *shape: TensorSpec(shape, "float64")
    assert strip_mining.strip_spec(of(6, 5, 4), 2, 1) == of(6, 2, 4)
    assert strip_mining.strip_spec(of(6, 5, 4), 2, None) == of(6, 5, 4)


@pytest.mark.parametrize(
    ("array", "is_cut"),
    [
        (np.full(N, 2.0), True),
        (np.full(N, np.nan), True),
        (np.full((3, N), 2.0), False),  # constant only along one of its axes
        (np.arange(float(N)), False),
        (np.where(np.arange(N) < N - 1, 0.0, -0.0), False),  # 0.0 and -0.0 have different bits
    ],
)
def test_strips_of_constants(array: Any, is_cut: bool) -> None:
    graph = Graph()
    carry = graph.add_input(TensorSpec((N,), "float64"))
    (constant,) = graph.add(Constant.of(array), ())
    if array.ndim > 1:
        (constant,) = graph.add(ReduceSum((0,)), (constant,))
    (y,) = graph.add(Add(), (carry, constant))
    op = Scan(Subprogram.of(graph, [carry], [y]), 9, 0, 1)
    cut = strip_mining.strip_mine(op, [TensorSpec((N,), "float64")])
    assert (cut is not None) == is_cut
    if cut is not None:
        (filled,) = [each.op for each in cut.op.body.program.instructions if isinstance(each.op, Constant)]  # fmt: skip
        np.testing.assert_array_equal(filled.array, array[: cut.width], strict=True)
