"""Compiled blocks: their instructions, schedules and results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import BackendFailureError
from tenferro.exec.llvm import is_installed
from tenferro.exec.plan import block as planning
from tenferro.exec.planned import Block, Copies
from tenferro.extension import HostReferenceRuntime, apply
from tenferro.graph import GraphBuilder
from tenferro.ops.control import ControlOp
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.exec.compiled_loops import has_numpys_bits, require_near, require_same_bits
from tests.samples import SAMPLES
from tests.samples.each import each_card
from tests.test_printed_programs import WornOut

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
X = np.random.default_rng(3).standard_normal((3, 4))
Layout = Callable[[Any], Any]


def blocks(executor: tnf.GraphExecutor, program: GraphProgram, *arrays: Any) -> list[list[str]]:
    """Return the names of the ops in each compiled block."""
    schedule = executor.compile(program, *arrays)
    found = [step.inner_op for step in schedule.instructions if isinstance(step.inner_op, Block)]
    return [[step.op.name.partition("(")[0] for step in op.body.instructions] for op in found]


def ten(x: Any) -> Any:
    for _ in range(5):
        x = tnf.sin(x) * 1.5
    return x


def hundred(x: Any) -> Any:
    for _ in range(50):
        x = tnf.sin(x) * 1.5
    return x


def power(x: Any, times: Any) -> Any:
    """Square x `times` times, by a conditional in a loop in a conditional."""

    def squares(x: Any) -> Any:
        return tnf.fori_loop(
            0, 16, lambda i, y: tnf.cond(i < times, lambda z: z @ z, lambda z: z, y), x
        )

    y = tnf.cond(times < 17, squares, lambda x: x * np.nan, x)
    for _ in range(5):
        y = tnf.cos(y) + y.T
    return y


def test_a_loop_in_a_branch_is_part_of_a_block() -> None:
    program = tnf.compile(power, X[:, :3], np.int64(0))
    executor = tnf.GraphExecutor(compiled="jit")
    expected = tnf.GraphExecutor(compiled=False)
    for times in (0, 2, 20):
        arguments = 0.3 * X[:, :3], np.int64(times)
        require_near(executor.run(program, *arguments), expected.run(program, *arguments))
    assert any(["Cond" in names for names in blocks(executor, program)])
    assert not executor.compile_stats().failures


# ---- values ----------------------------------------------------------------------------------------


def gaps(x: Any) -> Any:
    return np.repeat(x[..., None], 2, axis=-1)[..., 0]


def unaligned(x: Any) -> Any:
    memory = np.empty(x.nbytes + 1, np.uint8)[1:]
    y = np.ndarray(x.shape, x.dtype, memory)
    y[...] = x
    return y


@each_card
@pytest.mark.parametrize(
    ("layout", "order"),
    [(np.ascontiguousarray, "F"), (np.asfortranarray, "K"), (gaps, "C"), (unaligned, "F")],
)
def test_samples(card: Any, layout: Layout, order: Any) -> None:
    """A block that contains each op twice must be right for each layout of arguments and results."""
    if issubclass(card, ControlOp | DynamicTruncate):
        return
    samples = SAMPLES[card][:: max(1, len(SAMPLES[card]) // 3)]
    builder, inputs, counts = GraphBuilder(), list[Any](), list[tuple[int, bool]]()
    outputs: list[Any] = []
    for sample in samples:
        operands = [builder.input(x.shape, x.dtype) for x in sample.inputs]
        results = builder.apply(sample.op, *operands)
        inputs += sample.inputs
        outputs += [*results, *builder.apply(sample.op, *operands)]
        is_complex = any(x.dtype.kind == "c" for x in sample.inputs)
        counts.append((2 * len(results), has_numpys_bits(card, is_complex)))
    program = GraphProgram.from_graph(builder.graph, outputs)
    arrays = [layout(x).reshape(x.shape, order="A") for x in inputs]
    wanted = [np.asarray(y) for y in flatten(tnf.GraphExecutor(compiled=False).run(program, *arrays))[0]]  # fmt: skip
    executor = tnf.GraphExecutor(order, compiled=True)
    for _ in range(2):
        found = [np.asarray(y) for y in flatten(executor.run(program, *arrays))[0]]
        number = 0
        for count, is_exact in counts:
            pairs = list(zip(found[number : number + count], wanted[number:], strict=False))
            number += count
            for y, z in pairs:
                assert order == "K" or y.flags[f"{order}_CONTIGUOUS"]
                if is_exact:
                    require_same_bits(y, z)
                else:
                    require_near([y], [z])


LINALG: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: tnf.linalg.solve(a, b),
    "inverse": lambda a, b: tnf.linalg.inv(a) @ b,
    "cholesky": lambda a, b: tnf.linalg.cholesky(a @ a.mT) + b,
    "eigh": lambda a, b: tnf.linalg.eigh(a + a.mT).eigenvalues * b,
    "svd": lambda a, b: tnf.linalg.svd(a, full_matrices=False).S * b,
    "qr": lambda a, b: tnf.linalg.qr(a).R @ b,
    "determinant": lambda a, b: tnf.linalg.det(a) * b,
    "exponential": lambda a, b: tnf.linalg.expm(a) @ b,
    "gradient": lambda a, b: tnf.grad(lambda a: tnf.sum(tnf.linalg.solve(a, b) ** 2))(a),
    "loop": lambda a, b: tnf.scan(lambda c, _: (tnf.tanh(a @ c), None), b, None, length=3)[0],
    "conditional": lambda a, b: tnf.cond(b[0, 0] > 0, lambda: a @ b, lambda: a + b),
}


@pytest.mark.parametrize("name", LINALG)
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, gaps])
def test_linear_algebra_is_part_of_a_block(name: str, layout: Layout) -> None:
    rng = np.random.default_rng(1)
    a, b = (layout(rng.standard_normal((4, 4)) + 3 * np.eye(4)) for _ in range(2))
    fn = lambda a, b: tnf.sin(LINALG[name](a, b)) * 2.0 + 1.0
    program, jit = tnf.compile(fn, a, b), tnf.GraphExecutor("F", compiled="jit")
    steps = jit.compile(program, a, b).instructions
    assert all(isinstance(step.inner_op, Block) for step in steps)
    wanted = tnf.GraphExecutor(compiled=False).run(program, a, b)
    for _ in range(3):
        np.testing.assert_allclose(jit.run(program, a, b), wanted, rtol=1e-11, atol=1e-11)


# ---- extent of a block -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compiled", "few", "many"), [("loops", 0, 0), ("auto", 0, 1), ("jit", 1, 1), (True, 1, 1), (False, 0, 0)]
)  # fmt: skip
def test_executors_with_blocks(compiled: Any, few: int, many: int) -> None:
    x = np.float64(0.5)
    executor = tnf.GraphExecutor(compiled=compiled)
    assert len(blocks(executor, tnf.compile(ten, x))) == few
    assert len(blocks(executor, tnf.compile(hundred, x))) == many


def test_jit_compiles_blocks_and_transforms_do_not() -> None:
    jitted = tnf.jit(ten)
    jitted(X)
    assert jitted._executor.compile_stats().compiled == {"compiled block": 1}
    before = tnf.program.native.native_executor().compile_stats()
    for _ in range(3):
        tnf.compile(hundred, X).run(X)
        tnf.grad(lambda x: tnf.sum(hundred(x)))(X)
    assert tnf.program.native.native_executor().compile_stats() == before


@pytest.mark.parametrize("options", [{"check_finite": True}, {"compiled": False}], ids=str)
def test_interpreting_executors_have_no_blocks(options: Any) -> None:
    assert not blocks(tnf.GraphExecutor(**options), tnf.compile(hundred, X))


def test_large_values_are_not_in_blocks() -> None:
    def fn(x: Any, large: Any) -> Any:
        total = tnf.sum(large)  # this sum does not depend on the first ten ops
        return ten(x), ten(tnf.sin(x) * total)

    large = np.ones((300, 300))
    program, jit = tnf.compile(fn, X, large), tnf.GraphExecutor(compiled="jit")
    assert [len(names) for names in blocks(jit, program)] == [22]
    assert not blocks(jit, tnf.compile(ten, large))
    product = tnf.compile(lambda x, y: ten(x @ y @ y), np.ones((100, 100)), np.ones((100, 100)))
    assert [names.count("DotGeneral") for names in blocks(jit, product)] == [0]


def test_blocks_around_a_step_that_is_not_compiled() -> None:
    def fn(x: Any) -> Any:
        return ten(tnf.reshape(tnf.sort(tnf.reshape(ten(tnf.tile(x, (40, 1))), (-1,))), (120, 4)))

    program, jit = tnf.compile(fn, X), tnf.GraphExecutor(compiled="jit")
    assert len(blocks(jit, program)) == 2
    wanted = tnf.GraphExecutor(compiled=False).run(program, X)
    np.testing.assert_allclose(jit.run(program, X), wanted, rtol=1e-12)


def test_long_programs_are_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_STEPS", 30)
    program, jit = tnf.compile(hundred, X), tnf.GraphExecutor(compiled="jit")
    assert [len(names) for names in blocks(jit, program)] == [30, 30, 30, 10]
    for _ in range(2):
        wanted = tnf.GraphExecutor(compiled=False).run(program, X)
        np.testing.assert_allclose(jit.run(program, X), wanted, rtol=1e-10)


def test_branches_and_bodies_have_blocks() -> None:
    def fn(x: Any, large: Any) -> Any:
        iteration = lambda c, row: (ten(c) + tnf.sum(row), row)
        return tnf.scan(iteration, x, large, length=2)

    large = np.ones((2, 300, 300))
    program, jit = tnf.compile(fn, X, large), tnf.GraphExecutor("K", compiled="jit")
    text = str(jit.compile(program))
    assert "Scan" in text
    assert "Block of" in text or "compiled" in text


# ---- one schedule from the first run on ------------------------------------------------------------


def test_printed_schedules_are_those_that_run() -> None:
    program, jit = tnf.compile(hundred, X), tnf.GraphExecutor(compiled="jit", threads=1)
    before = str(jit.compile(program, X))
    assert "Block of 100 steps" in before
    results = [jit.run(program, X) for _ in range(300)]
    assert {y.tobytes() for y in results} == {results[0].tobytes()}
    assert str(jit.compile(program, X)) == before
    assert "define i64 @f(ptr noalias %arguments)" in jit.source(program, "llvm")
    assert jit.compile_stats().compiled == {"compiled block": 2}


def test_schedules_by_layout_are_bounded() -> None:
    arrays = [np.random.default_rng(k).standard_normal((2, 3)) for k in range(4)]
    program = tnf.compile(lambda *xs: tnf.sin(sum(xs)) * xs[0] + tnf.cos(xs[1]), *arrays)
    jit = tnf.GraphExecutor("K", compiled="jit", cache_size=9)
    wanted = tnf.GraphExecutor("K", compiled=False).run(program, *arrays)
    for _ in range(2):
        for which in range(16):
            given = [np.asfortranarray(x) if which >> k & 1 else x for k, x in enumerate(arrays)]
            np.testing.assert_allclose(jit.run(program, *given), wanted, rtol=1e-12)
    assert jit.cache_stats().entries == 9


def test_results_have_the_requested_layout() -> None:
    program = tnf.compile(lambda x: (ten(x), tnf.sum(ten(x), axis=0)), X)
    for order in ("F", "C"):
        executor = tnf.GraphExecutor(order, compiled="jit")
        steps = executor.compile(program).instructions
        assert not any(isinstance(step.op, Copies) for step in steps)
        y, _ = executor.run(program, X)
        assert y.flags[f"{order}_CONTIGUOUS"]


# ---- visible behaviour -----------------------------------------------------------------------------


def test_results_are_not_shared() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = x * y + 1.0
        return z, z, ten(z), x, tnf.broadcast_to(z[:1], (3, 4)), z.T

    program = tnf.compile(fn, X, X)
    for order in ("F", "K"):
        executor = tnf.GraphExecutor(order, compiled="jit")
        for _ in range(4):
            results = executor.run(program, X, X)
            for number, y in enumerate(results):
                assert y.flags.writeable
                assert not any(np.may_share_memory(y, other) for other in (X, *results[:number]))


def test_errors_around_a_block_name_their_line() -> None:
    def fn(x: Any) -> Any:
        y = apply(WornOut(), ten(x) + 10.0)  # this line does not fail
        return ten(apply(WornOut(), y - 10.0))  # this line fails

    jit = tnf.GraphExecutor(compiled="jit", runtimes=[HostReferenceRuntime(WornOut.family_id)])
    program = tnf.compile(fn, np.ones(2))
    assert len(blocks(jit, program)) == 2
    jit.run(program, np.ones(2))
    with pytest.raises(BackendFailureError, match="RuntimeError: worn out") as caught:
        jit.run(program, -np.ones(2))
    place = next(each for each in str(caught.value).splitlines() if "test_llvm_block" in each)
    number = int(place.rpartition(".py:")[2].split()[0])
    assert "# this line fails" in Path(__file__).read_text().splitlines()[number - 1]


def test_many_threads_call_a_block_first() -> None:
    program, jit = tnf.compile(hundred, X), tnf.GraphExecutor("K", compiled="jit")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: jit.run(program, X).tobytes(), range(40)))
    assert len({*results}) == 1
