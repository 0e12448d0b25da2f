"""Fused groups with reductions and broadcasts must have the results of their instructions."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs
from tenferro.dispatch import apply_one
from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.kernels.copying import Dense
from tenferro.exec.layout import Layout, common_axes, layout_of, row_major
from tenferro.exec.llvm.folding import BLOCK_TERMS
from tenferro.exec.llvm.link import Linker, is_installed
from tenferro.exec.plan import group, tiling
from tenferro.exec.plan.tiling import TILE_BYTES, tiled
from tenferro.exec.planned import Fused, Tiling
from tenferro.exec.runtime.threads import Workers
from tenferro.ops.elementwise import Add, Conj, Imag, Real
from tenferro.ops.reduction import ReduceSum
from tenferro.types import flatten
from tests.exec.unplanned import run_unplanned
from tests.pairs import in_turn

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(0)


def softmax(x: Any) -> Any:
    e = tnf.exp(x - tnf.max(x, axis=-1, keepdims=True))
    return e / tnf.sum(e, axis=-1, keepdims=True)


def softmax_between(x: Any) -> Any:
    """Compute the softmax along the second of three axes."""
    e = tnf.exp(x)
    return e / tnf.sum(e, axis=1, keepdims=True)


def attention(x: Any, mask: Any) -> Any:
    """Compute the softmax of the scores that a broadcast mask selects."""
    return softmax(tnf.where(mask, x, -1e9))


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    """Compute a layer norm, which broadcasts two reductions along rows and the rows g and b."""
    d = x - tnf.mean(x, axis=-1, keepdims=True)
    return d * tnf.rsqrt(tnf.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g + b


def totals(x: Any, y: Any) -> Any:
    """Return elements, and reductions over all axes, over leading axes and over inner axes."""
    z = x * y + 1.0
    return z, tnf.sum(z), tnf.max(z, axis=0), tnf.sum(tnf.sin(z), axis=(0, 1)), tnf.prod(z, axis=1)


def around_a_total(x: Any) -> Any:
    """Compute a total, scalars that depend on the total, and elements that depend on these scalars."""
    e = tnf.exp(x)
    number = tnf.log(tnf.sum(e))
    positive = tnf.where(x > 0, e, 0.0)
    return positive * number, 2.0 * number, tnf.sum(positive), tnf.sum(x, axis=0) + number


def repeated(x: Any) -> Any:
    """Broadcast the sum of each row along the row; return it, select by it, compare with it, and reduce it again."""
    m = tnf.broadcast_to(tnf.sum(x, axis=-1, keepdims=True), x.shape)
    chosen = tnf.where(m > 0, m, x)
    return m, chosen, tnf.sum(m, axis=-1), tnf.divide(m, m + 2.0), tnf.maximum(m, x)


def loss(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar loss of the results of `fn`."""
    return tnf.grad(lambda *xs: sum(tnf.sum(tnf.sin(y)) for y in flatten(fn(*xs))[0]))


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (normal(23, 17),)),
    "softmax of three axes": (softmax, (normal(5, 7, 11),)),
    "attention": (attention, (normal(3, 4, 6, 6), np.tri(6, dtype=bool))),
    "layer norm": (layer_norm, (normal(23, 17), normal(17), normal(17))),
    "layer norm of three axes": (layer_norm, (normal(5, 7, 11), normal(11), normal(7, 11))),
    "totals": (totals, (normal(9, 7, 5), normal(9, 7, 5))),
    "around a total": (around_a_total, (normal(23, 17),)),
    "repeated": (repeated, (normal(23, 17),)),
    "softmax between axes": (softmax_between, (normal(5, 4, 3, 6),)),
}
CASES |= {f"{name}, gradient": (loss(fn), args) for name, (fn, args) in CASES.items()}


@needs_llvmlite
@in_turn("name", CASES, "tile", [64, 1024, 1 << 18])
def test_groups_of_rows(name: str, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 16)
    monkeypatch.setattr(tiling, "TILE_BYTES", tile)
    monkeypatch.setattr(costs, "MIN_PARALLEL_COST", 0.0)
    fn, args = CASES[name]
    program = tnf.compile(fn, *args)
    expected = flatten(run_unplanned(program, *args))[0]
    for order in ("F", "C", "K"):
        executor = tnf.GraphExecutor(order, threads=2, compiled=True)
        executor.run(program, *args)
        remarks = {
            step.remark
            for step in executor.compile(program, *args).instructions
            if isinstance(step.inner_op, Fused)
        }
        assert remarks == {"compiled"}
        for given in (args, tuple([np.asfortranarray(x) for x in args]), _gaps(args)):
            found = flatten(executor.run(program, *given))[0]
            for y, z in zip(found, expected, strict=True):
                assert (y.dtype, y.shape) == (z.dtype, z.shape)
                np.testing.assert_allclose(y, z, rtol=1e-11, atol=1e-11)
                assert order == "K" or y.flags[f"{order}_CONTIGUOUS"]
        assert "def fused_" in executor.source(program)


def _gaps(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of these arrays as views with gaps between elements."""
    found: list[Any] = []
    for x in args:
        wide = np.zeros([2 * n for n in x.shape], x.dtype)
        view = wide[(slice(None, None, 2),) * x.ndim]
        view[...] = x
        found.append(view)
    return tuple(found)


def test_a_softmax_is_one_group() -> None:
    x = normal(512, 256)
    program = tnf.compile(softmax, x)
    executor = tnf.GraphExecutor()
    executor.run(program, x)
    (group,) = [step for step in executor.compile(program, x).instructions if step.origin]
    assert isinstance(group.inner_op, Fused)
    assert len(group.inner_op.body.instructions) <= 10


@needs_llvmlite
@pytest.mark.parametrize(
    ("fn", "orders"),
    [(softmax, "C"), (lambda x: x * x + 1.0, "CF")],
    ids=["of rows", "of elements"],
)
def test_results_lie_in_memory_as_operands_do(fn: Any, orders: str) -> None:
    x = normal(512, 256)
    for order in orders:
        ordered: Any = np.asarray(x, order=order)  # pyright: ignore[reportArgumentType, reportCallIssue]
        program, executor = tnf.compile(fn, ordered), tnf.GraphExecutor("K", compiled=True)
        for _ in range(3):
            y = executor.run(program, ordered)
            assert y.flags[f"{order}_CONTIGUOUS"]
            np.testing.assert_allclose(y, fn(x), rtol=1e-12)


def test_a_view_that_is_read_outside_alone_is_no_part_of_a_group() -> None:
    x = normal(512, 256)

    def fn(x: Any) -> Any:
        y = tnf.exp(x) * 2.0
        return y, tnf.sort(tnf.broadcast_to(tnf.sum(y, axis=1)[:, None], (512, 256)), axis=0)

    schedule = tnf.GraphExecutor().compile(tnf.compile(fn, x), x)
    (group,) = [step for step in schedule.instructions if isinstance(step.inner_op, Fused)]
    inside = [type(step.op).__name__ for step in group.inner_op.body.instructions]
    assert "BroadcastInDim" not in inside
    assert "BroadcastInDim" in [type(step.op).__name__ for step in schedule.instructions]


def test_effects_wait_for_no_group(capsys: pytest.CaptureFixture[str]) -> None:
    x = normal(512, 256)

    def fn(x: Any, y: Any) -> Any:
        tnf.debug_print("total {}", tnf.sum(x * 0.0))
        tnf.debug_print("number {}", y)
        return x + 1.0

    tnf.compile(fn, x, 2.0).run(x, 2.0)
    assert capsys.readouterr().out.splitlines() == ["total 0.0", "number 2.0"]


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "MIN_PARALLEL_COST", 0.0)
    x, y = normal(700, 301), normal(700, 301)
    for fn in (totals_of_two, loss(softmax_of_product)):
        program = tnf.compile(fn, x, y)
        found = [
            flatten(tnf.GraphExecutor(threads=count).run(program, x, y))[0] for count in (1, 2, 5)
        ]
        again = tnf.GraphExecutor(threads=2)
        found += [flatten(again.run(program, x, y))[0] for _ in range(3)]
        for other in found[1:]:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], other, strict=True))


def totals_of_two(x: Any, y: Any) -> Any:
    return tnf.sum(x * y), tnf.sum(x * y, axis=0), tnf.sum(x * y, axis=1)


def softmax_of_product(x: Any, y: Any) -> Any:
    return softmax(x * y)


def test_a_group_that_reads_nothing_runs() -> None:
    slope = tnf.compile(tnf.grad(tnf.mean), tnf.TensorSpec((500, 700), "bfloat16"))
    x = np.ones((500, 700), slope.input_specs[0].dtype.dtype)
    for _ in range(3):
        y = slope.run(x)
        assert y.shape == x.shape
        np.testing.assert_allclose(y[::499, ::699].astype(float), 1 / 350_000, rtol=2**-8)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_view_by_elements_keeps_what_it_looks_at(dtype: Any) -> None:
    """Memory must not be reused while a view of it, such as the real part of an array, is still read."""

    def parts(x: Any) -> Any:
        y = x * x
        real, imag, conj = (apply_one(op, y) for op in (Real(), Imag(), Conj()))
        z = y * x
        w = z * x * x
        return tnf.real(w) + real, tnf.real(w) - imag, w + conj

    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, (300, 1000)) + 1j * rng.integers(-3, 4, (300, 1000))
    x = x.astype(dtype) if dtype is np.complex128 else x.real.astype(dtype)
    program = tnf.compile(parts, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    assert "Fused" in str(executor.compile(program, x))
    y, w = x * x, x * x * x * x * x
    expected = w.real + y.real, w.real - y.imag, w + y.conj()
    for result, exact in zip(executor.run(program, x), expected, strict=True):
        np.testing.assert_array_equal(result, exact)


REDUCED: dict[str, Any] = {
    "sum": (tnf.sum, np.sum), "prod": (tnf.prod, np.prod), "max": (tnf.max, np.max), "min": (tnf.min, np.min),
    "any": (tnf.any, np.any), "all": (tnf.all, np.all),
}  # fmt: skip


@needs_llvmlite
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", REDUCED)
def test_a_large_reduction_by_itself(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    monkeypatch.setattr(group, "MIN_REDUCED_BYTES", 1)
    ours, numpys = REDUCED[name]
    executor = tnf.GraphExecutor(threads=threads, compiled=True)
    for shape in ((2051,), (7, 301), (301, 7), (3, 5, 130)):
        x = RNG.uniform(0.9, 1.1, shape)
        cases = [x, x.astype(np.float32), x > 1.0] if name in ("any", "all") else [
            x, x.astype(np.float32), (8 * x).astype(np.int32), np.where(x > 1, 0.0, -0.0),
            np.where(x > 1.0999, np.nan, x),
        ]  # fmt: skip
        for case in cases:
            for axes in (None, 0, -1, tuple(range(len(shape) - 1))):
                program = tnf.compile(lambda v, axes=axes: ours(v, axis=axes), case)
                expected = numpys(case, axis=axes)
                bound = 1e-5 if case.dtype == np.float32 else 1e-13
                y = executor.run(program, case)
                np.testing.assert_allclose(y, expected, bound, err_msg=f"{shape} {axes}")
                if name in ("max", "min") and case.dtype == np.float64:
                    is_positive = ~np.signbit(case)
                    winner = is_positive.any(axes) if name == "max" else is_positive.all(axes)
                    np.testing.assert_array_equal(
                        np.signbit(y)[~np.isnan(y)], ~winner[~np.isnan(y)]
                    )


def test_which_reductions_go_by_themselves() -> None:
    """A large reduction alone must be a group, except `any`, because NumPy's stops at the first true element."""

    def steps(fn: Any, *shape: int, dtype: str = "float64") -> str:
        return str(tnf.GraphExecutor(order="K").compile(tnf.compile(fn, tnf.TensorSpec(shape, dtype))))  # fmt: skip

    whole: Any = tnf.sum
    assert "Fused" in steps(lambda x: tnf.sum(x, axis=0), 1 << 16, 32)
    assert "Fused" in steps(whole, 1 << 21)
    assert "Fused" not in steps(whole, (1 << 21) - 1)
    assert "Fused" in steps(whole, 1 << 22, dtype="float32")
    assert "Fused" not in steps(whole, (1 << 22) - 1, dtype="float32")
    assert "Fused" not in steps(tnf.max, (1 << 22) - 1)
    assert "Fused" in steps(tnf.max, 1 << 22)
    assert "Fused" not in steps(tnf.any, 1 << 25, dtype="bool")


@needs_llvmlite
def test_rounding_errors_of_long_totals() -> None:
    """A total is a sum of block sums; the error of one sequence of additions would be five times as large."""
    x = np.full(1 << 20, 0.1, np.float32)
    exact = x.size * float(x[0] * x[0])
    executor = tnf.GraphExecutor(threads=1, compiled=True)
    total = executor.run(tnf.compile(lambda x: tnf.sum(x * x), x), x)
    assert executor.compile_stats().compiled
    assert abs(float(total) / exact - 1) < 3e-5


@needs_llvmlite
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "complex128", "int32", "uint8"]
)
@pytest.mark.parametrize(
    "rows", [1, BLOCK_TERMS - 1, BLOCK_TERMS, BLOCK_TERMS + 1, 2 * BLOCK_TERMS + 5]
)
def test_totals_of_blocks_of_rows(dtype: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    monkeypatch.setattr(costs, "MIN_PARALLEL_COST", 0.0)
    rng = np.random.default_rng(rows)
    x, y = (rng.integers(0, 3, (rows, 3)).astype(dtype) for _ in range(2))
    if x.dtype.kind == "c":
        x, y = x + 2j * y, y - 1j * x

    def fn(x: Any, y: Any) -> Any:
        z = x * y + x
        extremes = (
            () if np.dtype(dtype).kind == "c" else (tnf.max(z), tnf.min(z, axis=0), tnf.min(z))
        )
        return z, tnf.sum(z), tnf.sum(z, axis=0), tnf.sum(z, axis=1), *extremes

    program = tnf.compile(fn, x, y)
    executor = tnf.GraphExecutor("K", threads=1, compiled=True)
    steps = executor.compile(program, x, y).instructions
    assert [step.remark for step in steps if isinstance(step.inner_op, Fused)] == ["compiled"]
    z = x * y + x
    extremes = () if z.dtype.kind == "c" else (z.max(), z.min(axis=0), z.min())
    wide = z.astype("c16" if z.dtype.kind == "c" else "f8" if z.dtype.kind == "f" else "i8")
    sums = [wide.sum(axis=axis) for axis in (None, 0, 1)]
    for _ in range(2):
        found = flatten(executor.run(program, x, y))[0]
        expected = [
            z,
            *[total.astype(y.dtype) for total, y in zip(sums, found[1:4], strict=True)],
            *extremes,
        ]
        for result, exact in zip(found, expected, strict=True):
            np.testing.assert_array_equal(result, exact)


def grouped(fn: Any, *arrays: Any) -> str:
    """Return the steps of a schedule as text.

    For a group, the text has its ops, its shape, its number of leading axes, and the numbers of results and totals.
    """
    executor = tnf.GraphExecutor("K", compiled="loops", segmented=False, passes=())
    assert executor.compiler is not None
    executor.compiler.always = True
    steps: list[str] = []
    for step in executor.compile(tnf.compile(fn, *arrays)).instructions:
        op = step.inner_op
        if isinstance(op, Fused):
            names = " ".join([member.op.name for member in op.body.instructions])
            shape = "x".join(map(str, op.shape))
            steps.append(f"({names}) {shape} by {op.lead}: {len(op.results)}+{len(op.totals)}")
        else:
            steps.append(op.name)
    return ", ".join(steps)


def ones(*shape: int, dtype: str = "f8") -> tnf.TensorSpec:
    return tnf.TensorSpec(shape, dtype)


def over_rows(fn: Any, extent: int = 5) -> Any:
    """Return a function that calls `fn` with exp(x) and with its row sums, broadcast along the rows."""

    def whole(x: Any) -> Any:
        e = tnf.exp(x)
        return fn(e, tnf.lax.broadcast_in_dim(tnf.sum(e, axis=1), (4, extent), (0,)))

    return whole


def over_rows_by_two_views(x: Any) -> Any:
    """Multiply exp(x) by its row sums, which a reshape and a broadcast repeat along the rows."""
    e = tnf.exp(x)
    column = tnf.lax.reshape(tnf.sum(e, axis=1), (4, 1))
    repeated = tnf.lax.broadcast_in_dim(column, (4, 5), (0, 1))
    return e * repeated, repeated


TABLE = ones(4, 5)
CUBE = ones(3, 4, 5)
RUNS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    # Shapes that are just large enough, or too small, for a group.
    "large enough": (lambda x: -tnf.exp(x), (ones(4, 4),), "(Exp Negate) 4x4 by 2: 1+0"),
    "too small": (lambda x: -tnf.exp(x), (ones(3, 5),), "Exp, Negate"),
    "a step by itself": (lambda x: -x, (TABLE,), "(Negate) 4x5 by 2: 1+0"),
    "a small reduction by itself": (lambda x: tnf.sum(x, axis=1), (TABLE,), "ReduceSum"),
    "a reduction first": (lambda x: -tnf.sum(x, axis=1), (TABLE,), "(ReduceSum Negate) 4x5 by 1: 1+0"),
    "another shape": (lambda x, y: (-tnf.exp(x), tnf.exp(y)), (TABLE, ones(5, 4)),
                      "Exp, (Exp Negate) 4x5 by 2: 1+0"),
    # Reductions along rows and columns, and over all axes.
    "rows": (lambda x: tnf.sum(tnf.exp(x), axis=1), (TABLE,), "(Exp ReduceSum) 4x5 by 1: 1+0"),
    "columns": (lambda x: tnf.sum(tnf.exp(x), axis=0), (TABLE,), "(Exp ReduceSum) 4x5 by 1: 0+1"),
    "all": (lambda x: tnf.sum(tnf.exp(x)), (TABLE,), "(Exp ReduceSum) 4x5 by 2: 0+1"),
    "first and last": (lambda x: tnf.sum(tnf.exp(x), axis=(0, 2)), (CUBE,), "(Exp ReduceSum) 3x4x5 by 1: 0+1"),
    "first two": (lambda x: tnf.sum(tnf.exp(x), axis=(0, 1)), (CUBE,), "(Exp ReduceSum) 3x4x5 by 2: 0+1"),
    "middle": (lambda x: tnf.sum(tnf.exp(x), axis=1), (CUBE,), "(Exp ReduceSum) 3x4x5 by 1: 1+0"),
    "last": (lambda x: tnf.sum(tnf.exp(x), axis=2), (CUBE,), "(Exp ReduceSum) 3x4x5 by 2: 1+0"),
    "last two": (lambda x: tnf.sum(tnf.exp(x), axis=(1, 2)), (CUBE,), "(Exp ReduceSum) 3x4x5 by 1: 1+0"),
    "one after the other": (lambda x: tnf.max(tnf.sum(tnf.exp(x), axis=2), axis=1), (CUBE,),
                            "(Exp ReduceSum ReduceMax) 3x4x5 by 1: 1+0"),
    "of rows a total": (lambda x: tnf.max(tnf.sum(tnf.exp(x), axis=2), axis=0), (CUBE,),
                        "(Exp ReduceSum ReduceMax) 3x4x5 by 1: 0+1"),
    "of another operand": (lambda x, y: (tnf.sum(tnf.exp(x), axis=1), tnf.max(y, axis=1)), (TABLE, TABLE),
                           "(Exp ReduceSum ReduceMax) 4x5 by 1: 2+0"),
    "of another shape": (lambda x, y: (tnf.sum(tnf.exp(x), axis=1), tnf.max(y, axis=1)), (TABLE, ones(4, 6)),
                         "ReduceMax, (Exp ReduceSum) 4x5 by 1: 1+0"),
    "of halves": (lambda x: tnf.sum(tnf.exp(x), axis=1), (ones(4, 5, dtype="f2"),), "(Exp ReduceSum) 4x5 by 1: 1+0"),
    "a total of halves": (lambda x: tnf.sum(tnf.exp(x), axis=0), (ones(4, 5, dtype="f2"),),
                          "(Exp) 4x5 by 2: 1+0, ReduceSum"),
    "running sums": (lambda x: tnf.cumsum(tnf.exp(x), axis=1), (TABLE,), "(Exp) 4x5 by 2: 1+0, CumSum"),
    # Broadcasts that a group may contain.
    "repeated along rows": (over_rows(lambda e, m: e * m), (TABLE,),
                            "(Exp ReduceSum BroadcastInDim Multiply) 4x5 by 1: 1+0"),
    "repeated and needed outside": (over_rows(lambda e, m: (e * m, m)), (TABLE,),
                                    "(Exp ReduceSum BroadcastInDim Multiply) 4x5 by 1: 2+0, BroadcastInDim"),
    "repeated by two views and needed outside": (over_rows_by_two_views, (TABLE,),
        "(Exp ReduceSum Reshape BroadcastInDim Multiply) 4x5 by 1: 2+0, Reshape, BroadcastInDim"),
    "repeated into more than there is": (over_rows(lambda e, m: -m, 6), (TABLE,),
                                         "(Exp ReduceSum) 4x5 by 1: 1+0, BroadcastInDim, (Negate) 4x6 by 2: 1+0"),
    "repeated into less": (over_rows(lambda e, m: -m, 3), (TABLE,),
                           "(Exp ReduceSum BroadcastInDim Negate) 4x5 by 1: 1+0"),
    "repeated across rows": (
        lambda x: (lambda e: e * tnf.lax.broadcast_in_dim(tnf.sum(e, axis=1), (4, 4), (1,)))(tnf.exp(x)), (ones(4, 4),),
        "(Exp ReduceSum) 4x4 by 1: 2+0, BroadcastInDim, (Multiply) 4x4 by 2: 1+0"),
    "repeated from outside": (lambda x, y: tnf.exp(x) * tnf.lax.broadcast_in_dim(y, (4, 5), (0,)), (TABLE, ones(4)),
                              "BroadcastInDim, (Exp Multiply) 4x5 by 2: 1+0"),
    "with an axis more": (lambda x: -tnf.lax.reshape(tnf.sum(tnf.exp(x), axis=1), (4, 1)), (TABLE,),
                          "(Exp ReduceSum Reshape Negate) 4x5 by 1: 1+0"),
    "a step on rows' numbers": (lambda x: -tnf.sum(tnf.exp(x), axis=1), (TABLE,),
                                "(Exp ReduceSum Negate) 4x5 by 1: 1+0"),
    "a small step on others": (lambda x, y: (tnf.sum(tnf.exp(x), axis=1), -y), (TABLE, ones(4)),
                               "Negate, (Exp ReduceSum) 4x5 by 1: 1+0"),
    # Ops that need a complete total, and must run after the group that computes it.
    "a total that is read": (lambda x: -tnf.sum(tnf.exp(x), axis=0), (TABLE,),
                             "(Exp ReduceSum) 4x5 by 1: 0+1, Negate"),
    "a total that is read by what is large": (
        lambda x: -tnf.lax.broadcast_in_dim(tnf.sum(tnf.exp(x)), (4, 5), ()), (TABLE,),
        "(Exp ReduceSum) 4x5 by 2: 0+1, BroadcastInDim, (Negate) 4x5 by 2: 1+0"),
}  # fmt: skip


@needs_llvmlite
@pytest.mark.parametrize("name", RUNS)
def test_which_steps_are_a_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 16)
    fn, arrays, expected = RUNS[name]
    assert grouped(fn, *arrays) == expected


@needs_llvmlite
def test_rows_that_are_too_long_are_no_group() -> None:
    fn: Any = lambda x: tnf.sum(tnf.exp(x), axis=1)
    longest = costs.SMALL
    assert grouped(fn, ones(4, longest)) == f"(Exp ReduceSum) 4x{longest} by 1: 1+0"
    assert grouped(fn, ones(4, longest + 1)) == f"(Exp) 4x{longest + 1} by 2: 1+0, ReduceSum"


# ---- order of iteration ------------------------------------------------------------------------------


def gaps(*shape: int) -> Any:
    """Return rows of zeros with gaps in memory that are as long as a row."""
    return np.zeros((*shape[:-1], 2 * shape[-1]))[..., : shape[-1]]


C, F = np.zeros((3, 4)), np.zeros((4, 3)).T
ROW, COLUMN, ROWS = np.zeros((1, 4)), np.zeros((3, 1)), np.broadcast_to(np.zeros(4), (3, 4))
SLABS = np.zeros((4, 3, 5)).transpose(1, 0, 2)


@pytest.mark.parametrize(
    ("arrays", "order"),
    [
        ([], (0, 1)), ([C], (0, 1)), ([F], (1, 0)), ([C, F], (0, 1)), ([F, C], (0, 1)), ([F, C, F], (1, 0)),
        ([F, ROW, ROW, COLUMN, COLUMN], (1, 0)), ([F, ROWS, ROWS], (1, 0)), ([F, np.zeros(4), np.zeros(4)], (1, 0)),
        ([F[::-1, ::2]], (1, 0)), ([gaps(3, 4)], (0, 1)), ([np.zeros((2, 3, 4)).transpose(1, 2, 0), F], (2, 0, 1)),
        ([SLABS], (1, 0, 2)), ([SLABS[::2, :, ::-1]], (1, 0, 2)),
    ],
)  # fmt: skip
def test_tiles_have_the_order_of_axes_of_most_arrays(arrays: Any, order: tuple[int, ...]) -> None:
    """Tiles must have the axis order of most arrays of the group; in case of a tie, row-major order.

    Broadcast arrays, single rows and single columns must not count.
    """
    assert common_axes(map(laid_out, arrays), len(order)) == order


def laid_out(x: Any) -> Any:
    layout = layout_of(x)
    assert layout is not None
    return layout


def group_of(lead: int, shape: tuple[int, ...], operands: int = 0) -> Any:
    """Return a group with only the attributes on which its tiling depends."""
    spec = tnf.TensorSpec(shape, "float64")
    step: Any = SimpleNamespace(op=Add(), input_types=(), output_types=(spec,))
    body: Any = SimpleNamespace(instructions=(step,), input_types=(spec,) * operands)
    return Fused(shape, lead, body, (spec,), (), (), 0.0)


def tiling_of(op: Fused, arrays: Any) -> Tiling:
    return tiled(op, list(map(laid_out, arrays))).require_tiling()


@pytest.mark.parametrize(
    ("lead", "arrays", "views"),
    [
        # `views` contains the number of leading axes of all views, the order of axes, and the number of merged axes.
        (2, [C], (1, (), 2)), (2, [F], (1, (1, 0), 2)), (2, [C, C, F], (2, (), 1)),
        (2, [gaps(3, 4)], (2, (), 1)), (2, [gaps(4, 3).T], (2, (1, 0), 1)),
        (1, [C], (1, (), 1)), (1, [F], (1, (), 1)), (1, [F, C], (1, (), 1)),
        (2, [np.zeros((3, 4, 5))], (1, (), 2)), (2, [np.zeros((5, 4, 3)).T], (2, (), 1)),
        (2, [SLABS], (2, (), 1)), (3, [SLABS], (1, (1, 0, 2), 3)), (2, [gaps(3, 4, 5)], (1, (), 2)),
    ],
)  # fmt: skip
def test_leading_axes_are_one_where_they_step_as_one(lead: int, arrays: Any, views: Any) -> None:
    tiling = tiling_of(group_of(lead, arrays[0].shape, operands=len(arrays)), arrays)
    assert (tiling.lead, tiling.perm, tiling.merged) == views
    assert tiling.operands == tuple(map(laid_out, arrays))
    assert tiling.rows == tiling.view_shape(arrays[0].shape)[0]


@pytest.mark.parametrize(
    ("x", "perm", "merged", "fits", "shape"),
    [
        (C, (), 2, True, (12,)), (C, (), 1, True, (3, 4)), (F, (), 2, False, None),
        (F, (1, 0), 2, True, (12,)), (gaps(3, 4), (), 2, False, None),
        (F, (1, 0), 1, True, (4, 3)), (gaps(1, 4), (), 2, True, (4,)),
        (np.zeros((3, 8))[:, :1], (), 2, True, (3,)), (gaps(3, 4, 5), (), 3, False, None),
        (gaps(3, 4, 5), (), 2, True, (12, 5)), (SLABS, (1, 0, 2), 2, True, (12, 5)),
        (np.zeros((3, 4, 5))[::2], (), 2, False, None), (C[::-1], (), 2, False, None),
    ],
)  # fmt: skip
def test_views_of_tiles_have_the_layout_of_numpys(
    x: Any, perm: Any, merged: int, fits: bool, shape: Any
) -> None:
    layout = laid_out(x).transposed(perm) if perm else laid_out(x)
    assert layout.merges(merged) is fits
    if fits:
        tiling = Tiling((), 1, perm, merged, 1, 1, False)
        view = x.transpose(perm) if perm else x
        view = view.reshape((-1, *view.shape[merged:]), copy=False)
        assert view.shape == shape == tiling.view_shape(x.shape)
        assert tiling.view_layout(laid_out(x)) == laid_out(view)


@pytest.mark.parametrize(
    ("lead", "shape", "height"),
    [
        (2, (1000, 100), TILE_BYTES // 8), (1, (2000, 100), TILE_BYTES // 800), (1, (2, 1 << 20), 1), (1, (2, 0), TILE_BYTES // 8),
    ],
)  # fmt: skip
def test_tiles_fit_in_the_cache(lead: int, shape: tuple[int, ...], height: int) -> None:
    assert tiled(group_of(lead, shape), []).require_tiling().height == height


def test_a_large_group_has_a_tile_for_each_of_sixteen_threads() -> None:
    """A broadcast operand prevents merging the first axes, so that a row may be large."""
    mask = Layout((16, 8, 64, 64), (0, 0, 64, 1))
    op = replace(group_of(4, mask.shape, 2), cost=1e6)
    tiling = tiled(op, [mask, row_major(mask.shape)]).require_tiling()
    assert (tiling.is_parallel, tiling.rows, tiling.height) == (True, 16, 1)


@needs_llvmlite
def test_a_group_takes_as_long_as_its_steps() -> None:
    """The estimated cost of a group must include calls, functions, arithmetic, and the elements of reductions."""
    x = np.ones((64, 2000))
    program = tnf.compile(lambda x: tnf.sum(tnf.exp(x) * x, axis=1), x)
    (step,) = tnf.GraphExecutor("K").compile(program).instructions
    calls = costs.COSTS[ReduceSum].calls + 2
    per_element = 1 / costs.FUNCTION_ELEMENTS + 2 / costs.ELEMENTS
    assert step.inner_op.cost == pytest.approx(calls + x.size * per_element)


class Parts(Workers):
    """Workers that record the arguments `rows` and `step` of `parallel_for`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.parts: list[tuple[int, int]] = []

    def parallel_for(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        self.parts.append((rows, step))
        super().parallel_for(work, rows, step)


@needs_llvmlite
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_groups_that_take_long_are_shared(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 16)
    monkeypatch.setattr(tiling, "TILE_BYTES", 256)
    x = normal(40, 30).astype(dtype)
    program = tnf.compile(lambda x: (tnf.exp(x) * x, tnf.sum(x * x + x)), x)
    (step,) = tnf.GraphExecutor("K", compiled=True).compile(program).instructions
    assert step.inner_op.widest == x.itemsize
    cost = step.inner_op.cost * x.itemsize / 8 * costs.COMPILED
    for worth, is_shared in ((cost, True), (cost * 1.001, False)):
        monkeypatch.setattr(costs, "MIN_PARALLEL_COST", worth)
        executor = tnf.GraphExecutor("K", compiled=True)
        workers = Parts()
        resources = replace(executor.binder.resources, workers=workers)
        executor.binder = replace(executor.binder, resources=resources)
        y, total = executor.run(program, x)
        assert workers.parts == ([(1200, 8 * 256 // x.itemsize)] if is_shared else [])
        np.testing.assert_allclose(y, np.exp(x) * x, rtol=1e-14)
        np.testing.assert_allclose(total, np.sum(x * x + x), rtol=1e-13)


@needs_llvmlite
def test_a_group_that_llvm_refuses_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """If LLVM fails, a group with results in place of operands and in planned memory, and totals, is interpreted."""

    def refused(*_: Any, **options: Any) -> Any:
        raise NotCompiledError("no reason")

    x = normal(300, 400)

    def fn(x: Any) -> Any:
        w = tnf.exp(x)
        y = w / tnf.sum(w)
        return y @ tnf.matrix_transpose(y), tnf.max(y, axis=0)

    program = tnf.compile(fn, x)
    expected = run_unplanned(program, x)
    monkeypatch.setattr(Linker, "function", refused)
    for order in ("F", "K"):
        executor = tnf.GraphExecutor(order)
        for _ in range(2):
            for y, z in zip(executor.run(program, x), expected, strict=True):
                np.testing.assert_allclose(y, z, rtol=1e-12)
        assert "interpreted: no reason" in str(executor.compile(program))


def largest(x: Any) -> Any:
    return tnf.max(x * x + 1.0)


def largest_of_columns(x: Any) -> Any:
    return tnf.max(x * x + 1.0, axis=0)


def both_largest(x: Any) -> Any:
    return largest(x), largest_of_columns(x)


@needs_llvmlite
@pytest.mark.parametrize(
    ("shape", "fn", "chained"),
    [
        ((300,), largest, 1),
        ((9,), largest, 1),  # each row has one element
        ((5, 127), largest, 1),  # two rows are merged to one
        ((5, 128), largest, 1),
        ((128, 5), largest, 1),
        ((3, 5, 128), largest, 1),
        ((3, 5, 128), lambda x: (x + 1.0, largest(x)), 1),
        ((5, 128), largest_of_columns, 0),
        # If two maxima of each row are computed, rows are not merged. For rows of at least 128 elements, each maximum
        # is computed by a loop with interleaved chains.
        ((5, 127), both_largest, 1),
        ((5, 128), both_largest, 2),
    ],
)
def test_extremes_of_many_numbers_go_in_chains(
    shape: tuple[int, ...], fn: Any, chained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The innermost loop must interleave chains of comparisons, each of which waits for the previous in its chain."""
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    executor = tnf.GraphExecutor("K", compiled=True)
    text = executor.source(tnf.compile(fn, np.ones(shape)), "llvm")
    assert text.count('!"llvm.loop.interleave.count", i32 4}') == chained
    branches = [line for line in text.splitlines() if ", !llvm.loop !" in line]
    assert len(branches) == chained


ACROSS = {
    # Columns whose stride is a power of two use the same few cache lines. These arrays must be copied first.
    "columns": (lambda x: np.asfortranarray(x), 1),
    "rows": (lambda x: x, 0),
    "columns that lie well": (lambda x: np.asfortranarray(x[:-3, :-3]), 0),
    "small columns": (lambda x: np.asfortranarray(x[:56]), 0),
    # A broadcast array has no layout.
    "a repeated row": (lambda x: np.broadcast_to(x[0], x.shape), None),
    "planes": (lambda x: x.reshape(2, 128, 256).transpose(0, 2, 1), 1),
}


@needs_llvmlite
@pytest.mark.parametrize("lies", ACROSS)
@pytest.mark.parametrize("total", [False, True])
def test_operands_that_lie_across_are_copied_first(
    lies: str, total: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange, count = ACROSS[lies]
    monkeypatch.setattr(group, "MIN_GROUPED_ELEMENTS", 1)
    y = arrange(normal(256, 256))
    x = normal(*y.shape)
    before = y.copy()

    def fn(x: Any, y: Any, z: Any) -> Any:
        w = x * y + z
        return (tnf.sum(w), tnf.max(w)) if total else (w, w * x)

    copied = list[Any]()
    original = Dense.__call__

    def dense(self: Dense, x: Any) -> Any:
        copied.append(original(self, x))
        return copied[-1]

    monkeypatch.setattr(Dense, "__call__", dense)
    program = tnf.compile(fn, x, y, x)
    executor = tnf.GraphExecutor("K", compiled=True, passes=())
    for _ in range(2):
        copied.clear()
        first, second = executor.run(program, x, y, x)
    assert len(copied) == (1 if count is None else count)
    w = x * before + x
    if total:
        np.testing.assert_allclose(first, w.sum(), rtol=1e-11)
        assert second == w.max()
    else:
        assert np.array_equal(first, w)
        assert np.array_equal(second, w * x)
    np.testing.assert_array_equal(y, before)
