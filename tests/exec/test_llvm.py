"""Compiled loops must equal the interpreter: bit for bit, or functions and sums within a tolerance."""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs, errors
from tenferro.dispatch import apply, apply_one
from tenferro.exec import executor as native
from tenferro.exec import llvm
from tenferro.exec.llvm import link
from tenferro.exec.llvm import loop as compiled_loops
from tenferro.exec.llvm.control import COMPILED
from tenferro.exec.llvm.ir import Module
from tenferro.exec.plan import group
from tenferro.ops.control import ControlOp, Scan
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.indexing import Scatter
from tenferro.types import flatten
from tests.exec.compiled_loops import (
    has_numpys_bits,
    require_near,
    require_same_bits,
    run_as_written_and_optimised,
)
from tests.samples import SAMPLES
from tests.samples.each import each_card
from xla_peer.fuzz.program import random_case

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "loops"))
from kernels import KERNELS  # a file of benchmarks/loops, which is not a package

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
X = np.random.default_rng(0).standard_normal((5, 6))


def run_both(program: tnf.GraphProgram, *arrays: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Return the compiled and the interpreted results of a program, and the remarks of the compiled loops."""
    compiled = tnf.GraphExecutor("K", compiled=True)
    results = flatten(run_as_written_and_optimised(compiled, program, *arrays))[0]
    wanted = flatten(tnf.GraphExecutor("K", compiled=False).run(program, *arrays))[0]
    steps = compiled.compile(program, *flatten(arrays)[0]).instructions
    return results, wanted, [step.remark for step in steps if isinstance(step.source_op, ControlOp)]


def of_samples(samples: list[Any]) -> tuple[tnf.GraphProgram, list[Any], list[tuple[int, bool]]]:
    """Return a program, its arguments, and for each result whether its operands are complex.

    The program is a loop that applies the op of each sample to slices of the arguments.
    """
    stacked = [[np.stack([x, x[::-1] if x.ndim else x]) for x in s.inputs] for s in samples]

    def iteration(n: Any, xs: Any) -> Any:
        return n + 1, [apply(sample.op, *each) for sample, each in zip(samples, xs, strict=True)]

    program = tnf.compile(lambda *xs: tnf.scan(iteration, 0, xs), *stacked)
    kinds = [(0, False)]
    for sample in samples:
        is_complex = any(x.dtype.kind == "c" for x in sample.inputs)
        kinds += [(1, is_complex)] * sample.op.output_count
    return program, stacked, kinds


def test_float16_without_float16_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    own = link.processor()
    if not (own.name and "+avx2" in own.features and own.converts_halves):
        pytest.skip("it has no AVX2")
    smaller = link.Processor("haswell", "", True, True, 4)
    monkeypatch.setattr(link, "processor", lambda: smaller)
    xs = np.linspace(-0.9, 0.9, 15, dtype=np.float16).reshape(3, 5)

    def iteration(_: Any, each: Any) -> Any:
        x, y = each
        return 0, (tnf.arctanh(x), tnf.arctanh(y))

    program = tnf.compile(lambda x, y: tnf.scan(iteration, 0, (x, y))[1], xs, -xs)
    compiled, interpreted, _ = run_both(program, xs, -xs)
    require_near(compiled, interpreted, 2e-3)


@each_card
@pytest.mark.parametrize("most", [24, pytest.param(80, marks=pytest.mark.sweep)])
def test_samples(card: Any, most: int) -> None:
    if issubclass(card, ControlOp | DynamicTruncate) or COMPILED[card].reason:
        return
    samples = [sample for sample in SAMPLES[card] if sample.inputs]
    pending = [*batched(samples[:: -(-len(samples) // most) or 1], 40)]
    while pending:
        several = pending.pop()
        remark = require_same(card, several)
        assert "compiled" in remark, remark
        # The loop was not compiled as a whole. Try each half of the samples separately.
        if remark != "compiled" and len(several) > 1:
            half = len(several) // 2
            pending += [several[:half], several[half:]]


@each_card
def test_samples_in_fused_groups(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elementwise ops in fused groups must be right for arrays in all `layouts`."""
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    samples = SAMPLES[card]
    for number, sample in enumerate(samples[:: max(1, len(samples) // 5)]):
        if not sample.inputs or issubclass(card, ControlOp | DynamicTruncate):
            continue
        program = tnf.compile(lambda *xs: apply(sample.op, *xs), *sample.inputs)
        compiled = tnf.GraphExecutor("K", compiled=True)
        if not any(step.remark == "compiled" for step in compiled.compile(program, *sample.inputs).instructions):  # fmt: skip
            continue
        is_complex = any(x.dtype.kind == "c" for x in sample.inputs)
        for arrays in layouts(sample.inputs) if number < 2 else [sample.inputs]:
            results = [
                flatten(executor.run(program, *arrays))[0]
                for executor in (compiled, tnf.GraphExecutor("K", compiled=False))
            ]
            for y, z in zip(*results, strict=True):
                if has_numpys_bits(card, is_complex):
                    require_same_bits(y, z)
                else:
                    require_near([y], [z])


def layouts(arrays: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the arrays row-major, column-major, strided, reversed and broadcast."""
    yield arrays
    yield tuple([np.array(x, order="F") for x in arrays])
    yield tuple([np.repeat(x[..., None], 2, axis=-1)[..., 0] for x in arrays])
    yield tuple([x[::-1] if x.ndim else x for x in arrays])
    yield tuple([np.broadcast_to(x.ravel()[:1].reshape(()), x.shape) if x.size else x for x in arrays])  # fmt: skip


def batched(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def require_same(card: Any, samples: list[Any]) -> str:
    """Require that compiled and interpreted samples are equal; return the remark of the loop."""
    program, stacked, kinds = of_samples(samples)
    found, wanted, (remark,) = run_both(program, *stacked)
    for y, z, (_, is_complex) in zip(found, wanted, kinds, strict=True):
        if has_numpys_bits(card, is_complex):
            require_same_bits(y, z)
        else:
            require_near([y], [z])
    return remark


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels(kernel: Any) -> None:
    function, arrays = kernel.of_arrays(tnf, kernel.arguments(kernel.small))
    found, wanted, remarks = run_both(tnf.compile(function, *arrays), *arrays)
    require_near(found, wanted, 1e-9)
    assert all(remark == "compiled" for remark in remarks)


def in_scan(program: tnf.GraphProgram) -> Callable[..., Any]:
    return lambda *xs: tnf.scan(lambda n, _: (n + 1, program.run(*xs)), 0, None, length=3)


def in_while(program: tnf.GraphProgram) -> Callable[..., Any]:
    """Return a function that runs `program` in a conditional in a while loop."""

    def fn(*xs: Any) -> Any:
        def iteration(c: Any) -> Any:
            n, ys = c
            return n + 1, tnf.cond(n > 0, lambda: program.run(*xs), lambda: ys)

        return tnf.while_loop(lambda c: c[0] < 3, iteration, (0, program.run(*xs)))

    return fn


@pytest.mark.parametrize("kind", [in_scan, in_while])
def test_random_programs(kind: Any) -> None:
    compiled = 0
    for number in range(20):
        case = random_case(31, number, most_ops=8)
        program = tnf.compile(kind(case.program), *case.program.input_specs)
        found, wanted, remarks = run_both(program, *case.leaves)
        if "compiled" in remarks:
            compiled += 1
            require_near(found, wanted, 1e-7)
    assert compiled > 5


def test_modules_are_verified_after_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    after_passes = link._after_passes

    class Broken:
        def verify(self) -> None:
            raise RuntimeError("Instruction does not dominate all uses!")

    def broken(module: Module, context: Any, pipeline: Any) -> Any:
        given.append(pipeline)
        return Broken() if len(given) < failures else after_passes(module, context, pipeline)

    monkeypatch.setattr(link, "_after_passes", broken)
    monkeypatch.setattr(link.Linker, "baseline", lambda *_: None)
    executor = tnf.GraphExecutor("K", compiled=True)
    for number, failures in enumerate((1, 2, 3)):
        x = X + number
        program = tnf.compile(lambda x, n=number: tnf.fori_loop(0, 5 + n, lambda i, y: y * x, x), x)
        given.clear()
        np.testing.assert_allclose(executor.run(program, x), x ** (6 + number), rtol=1e-12)
        assert given == [link._all_passes, link._without_slp][:failures]


def _updated_inside(z: Any) -> Any:
    """Update a copy of z in each iteration of two loops; z must not change."""
    total = tnf.fori_loop(0, 4, lambda i, y: y + z.at[i].set(7.0), z * 0.0)
    limit = tnf.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + z.at[c[0]].add(1.0)), (0, z)
    )[1]
    return total + z, limit


LOOPS: dict[str, Callable[[Any], Any]] = {
    "in place": lambda x: tnf.fori_loop(0, 5, lambda i, y: y.at[i].set(y[4 - i] + 1.0), x),
    "in place, and as it was": lambda x: tnf.fori_loop(
        0, 5, lambda i, c: (c[0].at[i].add(c[1][i]), c[0]), (x, x * 2.0)
    ),
    "swapped": lambda x: tnf.fori_loop(0, 5, lambda i, c: (c[1], c[0] + 1.0, c[0]), (x, -x, 2.0 * x)),
    "a slice of itself": lambda x: tnf.fori_loop(
        0, 3, lambda i, y: y.at[1:].set(y[:-1]).at[0].set(y[-1]), x
    ),
    "reversed": lambda x: tnf.scan(lambda c, r: (c + r, c * r), x[0], x, reverse=True),
    "no iterations": lambda x: tnf.scan(lambda c, r: (c + r, c * r), x[0], x[:0]),
    "nested": lambda x: tnf.scan(
        lambda c, r: tnf.scan(lambda d, e: (d + e * c, d), c, x[:, :1] + r), x[0], x
    ),
    "numbers": lambda x: tnf.while_loop(
        lambda c: (c[0] < 40) & (c[1] < 1e6), lambda c: (c[0] + 1, c[1] * 1.5 + x[0, 0]), (0, 1.0)
    ),
    "a condition on the carry": lambda x: tnf.while_loop(
        lambda y: tnf.sum(y) < 50.0, lambda y: y + 1.0, x
    ),
    "no elements": lambda x: tnf.scan(lambda c, r: (c + 1.0, r[:0]), x[0], x),
    "integers": lambda x: tnf.scan(
        lambda c, r: ((c * 1103515245 + 12345) % 2147483648, c // 7), 1, x, length=5
    ),
    "constants": lambda x: tnf.scan(
        lambda c, r: (c @ tnf.asarray(np.arange(36.0).reshape(6, 6) / 40), tnf.take(np.arange(7.0), 3)),
        x[0], x,
    ),
    "a loop inside that updates what is not its own": lambda x: tnf.scan(
        lambda c, r: _updated_inside(tnf.sin(c) * r), x[0], x
    ),
    "elements of its own and of another": lambda x: tnf.fori_loop(
        0, 3, lambda i, c: (c[0] * 0.5 + c[1], c[1] - c[0], c[2][::-1] + c[2], tnf.where(c[0] > c[0][0], c[3], c[0])),
        (x, x + 1.0, x - 1.0, 2.0 * x),
    ),
    "outer products added up": lambda x: tnf.scan(
        lambda c, r: (c + tnf.outer(r, r) * c[0, 0] - tnf.outer(c[0], r), None), x.T @ x, x
    )[0],
    "rows that grow": lambda x: tnf.fori_loop(
        0, 3, lambda i, y: y + y[i] * tnf.lax.dynamic_slice(y, (0, i), (5, 1)), x
    ),
    "the same twice": lambda x: tnf.scan(lambda c, r: ((c[0] + r, c[0] + r), c), (x[0], x[1]), x),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    program = tnf.compile(LOOPS[name], X)
    for x in (X, np.asfortranarray(X), X[::-1], X * np.inf):
        found, wanted, remarks = run_both(program, x)
        assert remarks == ["compiled"]
        require_near(found, wanted)
        assert not any(np.may_share_memory(y, x) for y in found)


def test_large_carries_are_updated_in_place() -> None:
    """2,000 iterations that each change one element of the carry must take less time than 200 copies of it."""
    x = np.zeros(1_000_000)
    program = tnf.compile(lambda x: tnf.fori_loop(0, 2000, lambda i, y: y.at[i % 7].add(1.0), x), x)
    executor = tnf.GraphExecutor("K", compiled=True)
    executor.run(program, x)
    copy = np.empty_like(x)
    copying, running = [], []
    for _ in range(3):
        began = time.process_time()
        for _ in range(200):
            copy[:] = x
        copying.append(time.process_time() - began)
        began = time.process_time()
        np.testing.assert_array_equal(executor.run(program, x)[:7].sum(), 2000.0)
        running.append(time.process_time() - began)
    assert min(running) < min(copying)


REVERSED = np.eye(8)[::-1].copy()
CARRIES: dict[str, Any] = {
    "swapped": lambda a, b: (b, a),
    "of each other": lambda a, b: (a + b, a - b),
    "of one that is shifted": lambda a, b: (a + tnf.roll(b, 1, 0), b + a),
    "of both, shifted": lambda a, b: (tnf.roll(b, 1, 0) - a, tnf.roll(a, 1, 1) + b),
    "transposed": lambda a, b: (tnf.swapaxes(b, 0, 1) + a, 2.0 * a),
    "of one that is written in place": lambda a, b: (a.at[1, 2].set(0.5), b + a),
    "joined with its own ends": lambda a, b: (tnf.concatenate([a[:1], b[1:-1], a[-1:]]), b + 1.0),
    "joined with its own middle": lambda a, b: (tnf.concatenate([b[:1], a[:-1]]), b),
    "joined while it is read": lambda a, b: (tnf.concatenate([b[:1], b[3:], b[1:3]]), b + a),
    "joined and read": lambda a, b: ((c := tnf.concatenate([b[4:], b[:4]])), tnf.roll(c, 1, 1)),
    "padded": lambda a, b: (tnf.pad(b[1:-1, 1:-1], 1), b + 1.0),
    "products": lambda a, b: (b @ REVERSED, b + 1.0),
    "products of itself": lambda a, b: (a @ REVERSED, REVERSED @ b),
    "running sums": lambda a, b: (tnf.cumsum(b, 0), b - 1.0),
    "sums": lambda a, b: (tnf.sum(tnf.stack([b, b, a]), 0), b),
    "of what is in place": lambda a, b: (a.at[0].set(b[1]), a.at[0].set(b[1]) + b),
}


@pytest.mark.parametrize("name", CARRIES)
def test_carries_are_stored_in_one_loop(name: str) -> None:
    def step(carry: Any, x: Any) -> Any:
        a, b, c, count = carry
        next_a, next_b = CARRIES[name](a, b)
        next_c = c + a[:, 1] - b[2]
        return (next_a, next_b, next_c, count + 1), (next_b, a * x, c - next_c, next_a + b, count)

    x = np.arange(64.0).reshape(8, 8)
    program = tnf.compile(
        lambda a, b, c, xs: tnf.scan(step, (a, b, c, 0), xs), x, 3 * x.T - 5, x[3], x[1]
    )
    results, wanted, remarks = run_both(program, x, 3 * x.T - 5, x[3], x[1])
    assert remarks == ["compiled"]
    for y, z in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(y, z)


def test_values_that_are_carried_and_stacked_are_computed_once() -> None:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        c = tnf.exp(x) * c + h
        h = tnf.exp(c)
        return (h, c), h

    x = np.linspace(-1.0, 0.0, 200).reshape(2, 10, 10)
    program = tnf.compile(lambda xs: tnf.scan(step, (xs[0] * 0.0, xs[1]), xs), x)
    text = tnf.GraphExecutor(compiled=True).source(program, "llvm")
    assert text.count("call double @tenferro_exp(") == 2


def test_remarks_of_loops() -> None:
    def turned(x: Any) -> Any:
        return tnf.scan(lambda c, _: (tnf.polygamma(1, c), None), x, None, length=9000)[0]

    x = np.ones(3)
    schedule = tnf.GraphExecutor("K", compiled="auto").compile(tnf.compile(turned, x))
    assert "interpreted: Polygamma: no scalar form is written" in str(schedule)
    few = tnf.compile(lambda x: tnf.scan(lambda c, _: (c + 1.0, None), x, None, length=3)[0], x)
    assert "not worth compiling" in str(tnf.GraphExecutor("K").compile(few))
    always = tnf.GraphExecutor("K", compiled=True)
    assert str(always.compile(few)).count("# compiled") == 1
    assert "define i64 @f(" in always.source(few, "llvm")
    assert "nothing is compiled" in tnf.GraphExecutor("K").source(few, "llvm")
    with pytest.raises(errors.InvalidConfigError, match="llvm"):
        always.source(few, "fortran")
    with pytest.raises(errors.InvalidConfigError, match="compiled"):
        tnf.GraphExecutor(compiled="yes")  # type: ignore[arg-type]


def test_long_texts_are_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_loops, "MAX_TEXT_LINES", 100)

    def body(c: Any, _: Any) -> Any:
        for k in range(60):
            c = tnf.where(c > float(k), c * 0.5, c + 1.0)
        return c, None

    program = tnf.compile(lambda x: tnf.scan(body, x, None, length=2)[0], np.float64(1.0))
    (loop,) = tnf.GraphExecutor("K", compiled=True).compile(program).instructions
    assert "would take long to compile" in loop.remark


def test_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "is_installed", lambda: False)
    assert tnf.GraphExecutor().compiler is None
    with pytest.raises(errors.InvalidConfigError, match=r"llvmlite 0\.45 or later"):
        tnf.GraphExecutor(compiled=True)


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("0.44.0", False), ("0.45.0", True), ("0.51.0dev0", True), ("1.0", True), ("unknown", False)],
)
def test_old_versions_of_llvmlite_are_ignored(
    version: str, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llvmlite.__version__", version)
    monkeypatch.setattr(llvm, "installed_version", llvm.installed_version.__wrapped__)
    assert llvm.is_installed() == is_enough
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert not llvm.is_installed()


def test_check_finite_interprets() -> None:
    program = tnf.compile(
        lambda x: tnf.scan(lambda c, _: (c / (c - 1.0), None), x, None, length=3)[0], np.ones(2)
    )
    with pytest.raises(errors.NonFiniteError, match="Divide"):
        tnf.GraphExecutor(check_finite=True).run(program, np.ones(2))


def test_threads_share_a_compiled_loop() -> None:
    program = tnf.compile(lambda x: tnf.fori_loop(0, 3000, lambda i, y: tnf.sin(y) + x, x), X)
    executor = tnf.GraphExecutor("K", compiled=True)
    wanted = [executor.run(program, X + k).tobytes() for k in range(4)]
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(10) if executor.run(program, X + k).tobytes() != wanted[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("extents", [(1, 40, 30, 20), (3, 20, 17, 16), (2, 1, 200, 90), (1, 300, 1, 80), (1, 600, 70, 1)])  # fmt: skip
@pytest.mark.parametrize("axes", ["bmk,bkn", "bmk,bnk", "kmb,nbk", "bkm,bkn", "mbk,knb"])
def test_products_of_matrices(dtype: Any, extents: tuple[int, ...], axes: str) -> None:
    """Products must be right for all orders of axes, even if NaN was in the memory of the result."""
    rng = np.random.default_rng(0)
    extent = dict(zip("bmnk", extents, strict=True))
    left, right = axes.split(",")
    x, y = (
        (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        if np.dtype(dtype).kind == "c"
        else rng.standard_normal(shape).astype(dtype)
        for shape in ([extent[axis] for axis in part] for part in (left, right))
    )
    factors = np.array([np.nan, 2.0, 3.0], dtype)

    def last(x: Any, y: Any) -> Any:
        start = tnf.zeros(tuple([extent[axis] for axis in "bmn"]), dtype)
        return tnf.scan(lambda _, t: (tnf.einsum(f"{axes}->bmn", x * t, y), None), start, factors)[
            0
        ]

    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(last, x, y)
    with np.errstate(invalid="ignore"):
        z = executor.run(program, x, y)
    assert [step.remark for step in executor.compile(program, x, y).instructions if isinstance(step.source_op, ControlOp)] == ["compiled"]  # fmt: skip
    exact = np.einsum(f"{axes}->bmn", x.astype(complex), y.astype(complex)) * 3
    np.testing.assert_allclose(z, exact, rtol=0, atol=60 * np.finfo(dtype).eps * np.abs(exact).max())  # fmt: skip


def test_loops_with_an_op_that_is_not_compiled_are_interpreted() -> None:
    """If an op in a loop's body is not compiled, the loop must be interpreted, but inner loops must be compiled."""

    def turned(x: Any, a: Any) -> Any:
        def iteration(c: Any, r: Any) -> Any:
            c = tnf.sort(c * 1.5 - r)
            inner = tnf.fori_loop(0, 2, lambda i, y: tnf.linalg.solve(a, y) + i, c)
            return inner, tnf.polygamma(1, tnf.abs(c[0]) + 1.0)

        return tnf.scan(iteration, x[0], x)

    a = np.eye(6) * 3 + np.ones((6, 6))
    program, executor = tnf.compile(turned, X, a), tnf.GraphExecutor("K", compiled=True)
    schedule = str(executor.compile(program, X, a))
    assert "interpreted: Polygamma: no scalar form is written" in schedule
    assert "# compiled" in schedule
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda k=k: results.append((k, executor.run(program, X + k, a))))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, ys in results:
        require_near(list(ys), list(tnf.GraphExecutor("K", compiled=False).run(program, X + k, a)))


def test_errors_of_kernels_in_loops() -> None:
    """If a kernel in a compiled loop fails, the error must name the user's line, and the next run must succeed."""

    def turned(x: Any) -> Any:
        return tnf.fori_loop(0, 3, lambda i, y: tnf.real(tnf.linalg.eigvals(y)) * 0.5 + y @ y, x)

    x = np.eye(3)
    program, texts = tnf.compile(turned, x), list[str]()
    for compiled in (True, False):
        executor = tnf.GraphExecutor("K", compiled=compiled)
        first = executor.run(program, x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np.linalg, "eigvals", _failing)
            fresh = tnf.GraphExecutor("K", compiled=compiled)
            with pytest.raises(tnf.TenferroError) as caught:
                fresh.run(program, x)
        texts.append(str(caught.value))
        np.testing.assert_array_equal(executor.run(program, x), first)
    assert "out of luck" in texts[0]
    assert "test_llvm.py" in texts[0]
    assert texts[0] == texts[1]


def _failing(*_: Any, **__: Any) -> Any:
    raise ValueError("out of luck")


def test_machine_code_is_cached_on_disk(tmp_path: Path) -> None:
    """A second executor must load the machine code that the first has stored, unless the file is damaged."""
    program = tnf.compile(lambda x: tnf.fori_loop(0, 5, lambda i, y: y * 1.5 + tnf.tanh(y), x), X)
    results: list[Any] = []
    for damaged in (False, False, True, False):
        for path in tmp_path.iterdir() if damaged else ():
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        executor = tnf.GraphExecutor("K", compiled=True, cache_dir=tmp_path)
        results.append(executor.run(program, X).tobytes())
        stats = executor.compile_cache_stats()
        assert stats is not None
        assert (stats.hits, stats.misses, stats.rejected) == [(0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 0)][len(results) - 1]  # fmt: skip
    assert len(set(results)) == 1
    assert tnf.GraphExecutor("K", cache_dir="").compile_cache_stats() is None
    with pytest.raises(errors.InvalidConfigError, match="cache_dir"):
        tnf.GraphExecutor("K", compiled=True, cache_dir=next(tmp_path.iterdir()))


TAKEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scan": (lambda x: tnf.scan(lambda c, r: (c + r, c * r), x[0], x), (X,)),
    "while": (
        lambda x: tnf.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
        (X,),
    ),
    "strips": (
        lambda x: tnf.scan(lambda c, _: (c * 0.5 + x, None), x, None, length=9)[0],
        (np.ones(20_011),),
    ),
    "group": (lambda x: tnf.exp(-x * x) * x + 1.0, (np.ones((2000, 100)),)),
    "group with a total": (
        lambda x: (tnf.sum(tnf.exp(-x * x), axis=0), tnf.exp(-x * x) + x),
        (np.ones((2000, 100)),),
    ),
    "turned copy": (lambda x: x + 1.0, (np.ones((1024, 1024)),)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_calls_match_the_parameters_of_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call must pass as many arguments as the compiled code reads; only short blocks do not release the GIL."""
    texts: list[str] = []
    engine_of, linked = link.Linker._engine, link._linked

    def noted(linker: Any, module: Module, is_optimised: bool = True) -> Any:
        texts.append(module.text)
        return engine_of(linker, module, is_optimised)

    def checked_when_called(engine: Any) -> Any:
        count = len(re.findall(r"getelementptr i64, ptr %arguments, i64 \d+", texts[-1]))
        assert count == texts[-1].count("ptr %arguments")
        is_short = "@block" in texts[-1]  # a block of few instructions does not release the GIL
        assert ("call ptr @PyEval_SaveThread()" in texts[-1]) != is_short
        function = linked(engine)

        def call(*arguments: Any) -> int | None:
            assert len(arguments) == count
            return function(*arguments)

        return call

    monkeypatch.setattr(link.Linker, "_engine", noted)
    monkeypatch.setattr(link, "_linked", checked_when_called)
    function, arrays = TAKEN[name]
    executor, program = tnf.GraphExecutor(compiled=True), tnf.compile(function, *arrays)
    executor.run(program, *arrays)
    assert texts


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1,), 0),
        ((5,), 0),
        ((8,), 0),
        ((13,), 0),
        ((37,), 0),
        ((3000,), 0),
        ((5, 7), (0, 1)),
        ((3, 5, 7), (1, 2)),
        ((3, 5, 7), (0, 2)),
        ((50, 3, 2), (0, 2)),
        ((60, 50, 2), (0, 2)),
        ((2, 3, 2), (0, 1, 2)),
        ((4, 0, 3), (0, 1)),
    ],
)
def test_sums(dtype: str, shape: tuple[int, ...], axes: Any) -> None:
    """Sums must be right even if their terms are transposed or reversed."""
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (2, *shape)).astype(dtype)
    if dtype == "complex128":
        x = x + 1j * rng.integers(-9, 9, x.shape)
    for f in (
        lambda x: tnf.sum(x, axis=axes),
        lambda x: tnf.sum(x[..., ::-1] * 2, axis=axes),
        lambda x: tnf.max(tnf.real(x)[..., ::-1], axis=axes) if 0 not in shape else tnf.sum(x),
    ):
        program = tnf.compile(lambda xs, f=f: tnf.scan(lambda c, x: (c, f(x)), 0, xs)[1], x)
        results, expected, (remark,) = run_both(program, x)
        assert remark == "compiled"
        for y, z in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y, z)  # because sums of small integers are exact


def test_fused_group_of_a_record_field() -> None:
    """A field of records may be an operand of a fused group, although its stride is no multiple of the item size."""
    records = np.zeros(100_000, [("a", "f8"), ("b", "i4")])
    records["a"] = np.linspace(0.0, 1.0, records.size)
    x = records["a"]
    program = tnf.compile(lambda x: tnf.sqrt(x) * 2.0 + x, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert [step.remark for step in executor.compile(program, x).instructions] == ["compiled"]
    for operand in (x, x.copy(), x):
        np.testing.assert_array_equal(executor.run(program, operand), np.sqrt(x) * 2.0 + x)


VECTOR = np.ones(500)


def halves(x: Any, iterations: int = 10) -> Any:
    return tnf.scan(lambda c, _: (c + c, None), x, None, length=iterations)[0]


def test_loops_are_compiled_where_iterations_save_the_compilation() -> None:
    iteration = costs.COSTS[Scan].calls + 1 + VECTOR.size / costs.ELEMENTS
    least = math.ceil(costs.MIN_COMPILED_LOOP_COST / iteration)
    remarks = {
        n: tnf.GraphExecutor("K")
        .compile(tnf.compile(lambda x, n=n: halves(x, n), VECTOR))
        .instructions[0]
        .remark
        for n in (least - 1, least)
    }
    assert remarks == {
        least
        - 1: f"interpreted: {least - 1} iterations of {iteration:.0f} calls of NumPy are not worth compiling",
        least: "compiled",
    }


def kernels_and_sums(kernels: int, sums: int) -> Callable[[Any], Any]:
    """Return a loop with `kernels` calls of a kernel and `sums` additions per iteration."""

    def iteration(c: Any, _: Any) -> Any:
        for _ in range(kernels):
            c = tnf.polygamma(1, c)
        for _ in range(sums):
            c = c + c
        return c, None

    return lambda x: tnf.scan(iteration, x, None, length=9000)[0]


@pytest.mark.parametrize(
    ("fn", "is_compiled"),
    [
        (kernels_and_sums(0, 1), True),
        (kernels_and_sums(1, 9), False),
        (lambda x: tnf.scan(lambda c, _: (kernels_and_sums(1, 9)(c), None), x, length=9)[0], False),
    ],
)
def test_estimates_refuse_ops_that_are_not_compiled(fn: Any, is_compiled: bool) -> None:
    executor = tnf.GraphExecutor("K")
    (step,) = executor.compile(tnf.compile(fn, VECTOR)).instructions
    assert (step.remark == "compiled") == is_compiled
    if not is_compiled:
        assert step.remark.startswith("interpreted: Polygamma: no scalar form is written")


def unaligned(x: Any) -> Any:
    """Return a copy of x whose address is one byte after an aligned address."""
    y = np.ndarray(x.shape, x.dtype, np.empty(x.nbytes + 1, np.uint8)[1:])
    y[...] = x
    return y


def test_layouts_of_operands_of_strips() -> None:
    xs = np.random.default_rng(3).random((6, 20011))
    program = tnf.compile(lambda xs: tnf.scan(lambda c, x: (c * 0.5 + x, c), xs[0], xs), xs)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert "strips" in str(executor.compile(program))
    expected = executor.run(program, xs)
    for other in (unaligned(xs), np.asfortranarray(xs), xs[:, ::-1].copy()[:, ::-1]):
        for y, wanted in zip(executor.run(program, other), expected, strict=True):
            assert y.tobytes() == wanted.tobytes()


def test_layouts_of_operands() -> None:
    def f(c: Any, x: Any, xs: Any) -> Any:
        return tnf.scan(lambda c, row: (c * 0.5 + row @ x, c.sum()), c, xs)

    rng = np.random.default_rng(3)
    whole = rng.random((9, 6)), rng.random((6, 10)), rng.random((8, 18))
    program = tnf.compile(f, np.ones(5), np.ones((6, 5)), np.ones((4, 6)))
    executor = tnf.GraphExecutor("K", compiled=True)
    for c, x, xs in (
        (whole[0][::2, 1], whole[1][:, ::2], whole[2][::2, ::3]),
        (whole[0][0, 4::-1], whole[1][::-1, :5], np.asfortranarray(whole[2][:4, :6])),
        (np.broadcast_to(whole[0][0, 0], (5,)), whole[1].T[:5].T, whole[2][:4, 6:12]),
        tuple(map(unaligned, (whole[0][0, :5], whole[1][:, :5], whole[2][:4, :6]))),
    ):
        dense = [np.ascontiguousarray(each) for each in (c, x, xs)]
        expected = executor.run(program, *dense)
        actual = executor.run(program, c, x, xs)
        for y, wanted in zip(tnf.tree.leaves(actual), tnf.tree.leaves(expected), strict=True):
            assert y.tobytes() == wanted.tobytes()
        assert all((each == one).all() for each, one in zip((c, x, xs), dense, strict=True))


def test_loops_take_more_operands_than_ctypes_would() -> None:
    def f(xs: Any) -> Any:
        return tnf.fori_loop(0, 3, lambda i, c: [x + 1.0 for x in c], xs)

    xs = [np.float64(number) for number in range(1100)]
    program = tnf.compile(f, xs)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert "# compiled" in str(executor.compile(program))
    assert [float(y) for y in executor.run(program, xs)] == [float(x) + 3.0 for x in xs]


@pytest.mark.parametrize("combiner", ["set", "add", "multiply"])
def test_overlapping_windows_are_combined_in_order(combiner: str) -> None:
    """Overlapping updates must be combined in their row-major order, even if the window axis comes first."""
    op = Scatter((0,), (), (), (), (0,), 1, combiner)
    rng = np.random.default_rng(7)
    x, starts = (
        rng.standard_normal(9),
        np.array([[[3], [0], [4], [3], [5]], [[1], [0], [2], [1], [9]]]),
    )
    updates = rng.standard_normal((2, 4, 5)) * 1e8
    program = tnf.compile(
        lambda x, starts, updates: tnf.scan(
            lambda c, each: (c * 0.5, apply_one(op, c, *each)), x, (starts, updates)
        ),
        x, starts, updates,
    )  # fmt: skip
    expected = tnf.GraphExecutor("K", compiled=False).run(program, x, starts, updates)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert "# compiled" in str(executor.compile(program))
    for y, wanted in zip(executor.run(program, x, starts, updates), expected, strict=True):
        assert y.tobytes() == wanted.tobytes()


def test_only_one_result_of_a_barrier_is_used() -> None:
    def step(_: Any, x: Any) -> Any:
        return tnf.lax.optimization_barrier((tnf.sin(x), tnf.cos(x)))[1]

    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(lambda x: tnf.fori_loop(0, 50, step, x), X)
    assert "# compiled" in str(executor.compile(program))
    x = X
    for _ in range(50):
        x = np.cos(x)
    np.testing.assert_allclose(executor.run(program, X), x, rtol=1e-12)
