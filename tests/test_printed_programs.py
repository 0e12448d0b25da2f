"""Programs printed as Python must have equal results.

They must name the user's line in errors, and not write to users' arrays.
"""

from __future__ import annotations

import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec.kernels import KERNELS
from tenferro.exec.plan.block import exact_period
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family
from tenferro.types import flatten
from tests.exec.unplanned import run_unplanned
from tests.samples import SAMPLES
from xla_peer.fuzz import random_case

X = np.linspace(0.1, 1.0, 12).reshape(3, 4)


def same(a: Any, b: Any) -> None:
    for y, z in zip(flatten(a)[0], flatten(b)[0], strict=True):
        assert (y.dtype, y.shape) == (z.dtype, z.shape)
        assert y.tobytes() == z.tobytes()


def test_random_programs_give_what_the_loop_gives() -> None:
    for number in range(300):
        case = random_case(5, number)
        before = [leaf.copy() for leaf in case.leaves]
        executor = tnf.GraphExecutor(compiled="loops")
        # The first run is interpreted, later runs execute printed Python.
        executor.run(case.program, *case.leaves)
        first = executor.run(case.program, *case.leaves)
        same(first, run_unplanned(case.program, *case.leaves))
        same(first, executor.run(case.program, *case.leaves))
        for leaf, kept in zip(case.leaves, before, strict=True):
            assert leaf.tobytes() == kept.tobytes()
        results = flatten(first)[0]
        for i, y in enumerate(results):
            assert y.flags.writeable
            assert not any(np.may_share_memory(y, z) for z in (*case.leaves, *results[:i]))


def test_buffers_are_written_again_only_where_nobody_looks() -> None:
    source = tnf.compile(lambda x: tnf.exp(tnf.sin(x)) * 2.0, X).source()
    assert source.count("out=") == 2
    kept = tnf.compile(lambda x: (tnf.sin(x), tnf.exp(tnf.sin(x))), X)
    assert "out=" not in kept.source()
    same(kept.run(X), (np.sin(X), np.exp(np.sin(X))))

    def viewed(x: Any) -> Any:
        y = tnf.sin(x)
        z = y.T
        return tnf.exp(y), z

    same(tnf.compile(viewed, X).run(X), (np.exp(np.sin(X)), np.sin(X).T))
    assert "out=" not in tnf.compile(lambda x: x + 1.0, X).source()


@pytest.mark.parametrize("card", SAMPLES)
def test_views_are_told_by_what_shares_memory(card: Any) -> None:
    """A kernel must declare that it may return views if and only if the result of some sample is a view."""
    views = [sample for sample in SAMPLES[card] if gives_a_view(card, sample)]
    declared = [sample for sample in SAMPLES[card] if KERNELS[card].may_view(sample.op)]
    assert all(KERNELS[card].may_view(sample.op) for sample in views)
    assert bool(views) == bool(declared)


def gives_a_view(card: Any, sample: Any) -> bool:
    """Return whether a result of a sample shares memory with an operand, or is read-only."""
    inputs = [x.copy() for x in sample.inputs]
    with np.errstate(all="ignore"):
        results = KERNELS[card](sample.op, *inputs)
    arrays = [np.asarray(y) for y in (results if isinstance(results, tuple) else (results,))]
    return any(
        any(np.may_share_memory(y, x) for x in inputs) or (not y.flags.writeable and y.shape)
        for y in arrays
    )


@pytest.mark.parametrize("card", [card for card in SAMPLES if KERNELS[card].elementwise])
def test_elementwise_kernels_take_numbers_in_place_of_arrays(card: Any) -> None:
    for sample in SAMPLES[card]:
        inputs = [np.asarray(x) for x in sample.inputs]
        for place in range(len(inputs)) if len(inputs) > 1 and inputs[0].size else ():
            number = inputs[place].reshape(-1)[0]
            whole = [*inputs[:place], np.full_like(inputs[place], number), *inputs[place + 1 :]]
            some = [*inputs[:place], number, *inputs[place + 1 :]]
            with np.errstate(all="ignore"):
                same(KERNELS[card](sample.op, *some), KERNELS[card](sample.op, *whole))


def test_constants_are_computed_once_and_never_given_away() -> None:
    program = tnf.compile(lambda x: (x * (tnf.ones((3, 4)) + 1.0), tnf.full((2,), 3.0)), X)
    # The source has three statements: the product, the copies, and the return statement.
    assert program.source().count("\n    ") == 3
    first = program.run(X)
    first[1][:] = 0
    same(program.run(X)[1], np.full(2, 3.0))


@extension_family("tenferro-tests", "worn", version=1)
@dataclass(frozen=True)
class WornOut(ExtensionOp):
    """y = x. The runtime raises an error if an element is negative."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        if inputs[0].min() < 0:
            raise RuntimeError("worn out")
        return [inputs[0] * 1]


def test_errors_name_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Show the generated code in tracebacks.
    monkeypatch.setattr(errors._Tracebacks, "are_full", True)

    def fn(x: Any) -> Any:
        for _ in range(10):
            x = tnf.sin(x)
        return apply(WornOut(), x)[0] + 1.0  # the error must name this line

    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(WornOut.family_id)])
    program = tnf.compile(fn, np.ones(2))
    executor.run(program, np.ones(2))
    executor.run(program, np.ones(2))
    with pytest.raises(errors.BackendFailureError, match="RuntimeError: worn out") as caught:
        executor.run(program, -np.ones(2))
    frames = traceback.extract_tb(caught.tb)
    assert any(frame.filename.startswith("<tenferro program") for frame in frames)
    place = next(line for line in str(caught.value).splitlines() if "test_printed_programs" in line)
    number = int(place.rpartition(".py:")[2].split()[0])
    lines = Path(__file__).read_text().splitlines()
    assert "the error must name this line" in lines[number - 1]


def test_programs_of_no_segments_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors._Tracebacks, "are_full", True)  # show the generated code
    runtimes = [HostReferenceRuntime(WornOut.family_id)]
    worn = lambda x: apply(WornOut(), tnf.sin(x))[0] + 1.0
    for fn in (worn, lambda x: tnf.scan(lambda c, y: (c, worn(y * c)), 1.0, x)[1]):
        program = tnf.compile(fn, np.ones((3, 2)))
        for segmented in (False, True):
            executor = tnf.GraphExecutor(runtimes=runtimes, segmented=segmented, compiled=False)
            for _ in range(2):
                executor.run(program, np.ones((3, 2)))
            with pytest.raises(errors.BackendFailureError, match="worn out") as caught:
                executor.run(program, np.array([[1.0], [-1.0], [1.0]]) * np.ones(2))
            files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
            assert any([file.startswith("<tenferro") for file in files]) == segmented


def test_small_recursion_limits_do_not_matter_to_long_programs() -> None:
    def fn(x: Any) -> Any:
        y = x
        for _ in range(3000):
            y = y + x
        return y

    program = tnf.compile(fn, np.ones(2))
    executor = tnf.GraphExecutor(compiled=False)
    for _ in range(2):
        np.testing.assert_array_equal(executor.run(program, np.ones(2)), [3001.0, 3001.0])


def test_periods() -> None:
    rng = np.random.default_rng(0)
    for n in range(1, 60):
        kinds = ([rng.choice([int, float]) for _ in range(rng.integers(1, 9))] * n)[:n]
        fits = [p for p in range(1, n + 1) if all(map(is_, kinds, kinds[p:]))]
        assert exact_period(kinds) == min(fits)


def test_scalars_stay_arrays_where_people_see_them() -> None:
    program = tnf.compile(
        lambda x: (tnf.sin(x) * 2.0, tnf.reshape(tnf.cos(x), (1,))), np.float64(1)
    )
    a, b = program.run(np.float64(1.0))
    assert type(a) is np.ndarray
    assert a.shape == ()
    assert b.shape == (1,)


# ---- groups, compiled --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128", "bfloat16"])
def test_any_layout_and_tail(dtype: str) -> None:
    kind = tnf.DType.of(dtype)
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-2, 2, (307, 701)).astype(kind.dtype) for _ in range(3))

    def fn(a: Any, b: Any, c: Any) -> Any:
        t = a * b + c
        t = tnf.where(tnf.real(t) > 0, tnf.exp(-t * t) + a, c * 2.0)
        return tnf.sqrt(tnf.abs(t) + 1.0), tnf.sum(t, axis=0)

    program = tnf.compile(fn, a, b, c)
    executor = tnf.GraphExecutor(order="K", threads=2)
    loop = tnf.GraphExecutor(order="K", segmented=False)
    row = np.broadcast_to(a[0], a.shape)
    one = np.broadcast_to(a[0, 0], a.shape)
    column = np.asfortranarray(a)
    for given in (
        (a, b, c),
        (column, np.asfortranarray(b), np.asfortranarray(c)),
        (a, np.asfortranarray(b), c),
        (a[::-1], b, c[:, ::-1]),
        (row, b, one),
        (column, row, np.asfortranarray(c)),
        (one, one, one),
    ):
        executor.run(program, *given)
        found, expected = executor.run(program, *given), loop.run(program, *given)
        for y, z in zip(found, expected, strict=True):
            # NumPy may round transcendental functions differently for contiguous and for strided arrays. The group
            # adds the sums of tiles, which is another order of additions than NumPy's.
            close = 1e-13 if kind.itemsize >= 8 else 1e-2 if kind.itemsize == 2 else 1e-5
            size = float(np.abs(z.astype(complex)).max())
            np.testing.assert_allclose(
                y.astype(complex), z.astype(complex), rtol=close, atol=close * size
            )
    assert "def fused_" in executor.source(program)


def test_a_group_may_be_long_flat_or_wide() -> None:
    for shape in ((300_000,), (1, 300_000), (300_000, 1), (2, 150_000), (3, 5, 20_000)):
        x = np.random.default_rng(0).standard_normal(shape)
        program = tnf.compile(lambda x: tnf.sin(x) * 2.0 + x, x)
        executor = tnf.GraphExecutor(order="K", threads=2)
        for given in (x, np.asfortranarray(x), np.broadcast_to(x[:1], shape)):
            executor.run(program, given)
            np.testing.assert_allclose(executor.run(program, given), np.sin(given) * 2.0 + given)


def test_many_threads_share_one_executor() -> None:
    x = np.random.default_rng(0).standard_normal((700, 700))
    program = tnf.compile(lambda x: tnf.exp(tnf.sin(x)) * 2.0, x)
    executor = tnf.GraphExecutor(order="K")
    executor.run(program, x)
    expected = executor.run(program, x)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: executor.run(program, x), range(24)):
            np.testing.assert_array_equal(found, expected)


def test_a_forked_process_has_threads_of_its_own() -> None:
    code = """
import os, numpy as np, tenferro as tnf
x = np.ones((700, 700))
program = tnf.compile(lambda x: tnf.exp(tnf.sin(x)) * 2.0, x)
executor = tnf.GraphExecutor(threads=2)
for _ in range(2):
    expected = executor.run(program, x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(executor.run(program, x), expected) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr


def test_what_is_raised_where_a_function_begins_is_passed_on() -> None:
    """An exception of a signal handler on entry to generated code must reach the caller unchanged."""
    executor = tnf.GraphExecutor()
    program = tnf.compile(lambda x: tnf.sin(x) + 1.0, np.ones(2))
    executor.run(program, np.ones(2))
    executor.run(program, np.ones(2))

    def interrupt(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith("<tenferro program"):
            raise TimeoutError("a signal")

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(TimeoutError, match="a signal"):
            executor.run(program, np.ones(2))
    finally:
        sys.settrace(before)
