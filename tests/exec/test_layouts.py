"""Arguments in any layout and with any strides must have the same results as row-major arguments."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import costs
from tenferro.dispatch import apply_one
from tenferro.exec.kernels import copying, matrix_product
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.plan import group, place, tiling
from tenferro.ops.contraction import Convolution
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.exec.test_convolution import defined
from xla_peer.fuzz.program import random_case

needs_llvmlite = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
SEEDS = [0, *[pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20)]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays of few elements use groups, tiles, planned memory and transposing copies."""
    for module, name, size in (
        (group, "MIN_GROUPED_ELEMENTS", 1), (place, "MIN_PLACED_BYTES", 64), (costs, "MIN_PARALLEL_COST", 0.0),
        (tiling, "TILE_BYTES", 256),
        (copying, "MIN_TILED_BYTES", 64),
        (matrix_product, "MIN_PARALLEL_WORK", 1), (matrix_product, "MIN_POOLED_BYTES", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, size)


def elsewhere(random: Random, x: Any) -> Any:
    """Copy an array to new memory, in a randomly chosen layout."""
    way = random.choice(["rows", "columns", "any order", "a part", "gaps", "backwards"])
    axes = list(range(x.ndim))
    if not x.size or not x.ndim or way == "rows":
        return np.array(x)
    if way == "columns":
        y = np.array(x, order="F")
    elif way == "any order":
        random.shuffle(axes)
        y = np.array(x.transpose(axes), order="C").transpose(np.argsort(axes))
    elif way == "a part":
        whole = np.zeros([n + random.randrange(3) for n in x.shape], x.dtype)
        y = whole[tuple(map(slice, x.shape))]
        y[...] = x
    elif way == "gaps":
        y = np.repeat(x[..., None], 2, axis=-1)[..., 0]
    else:
        some = tuple(random.sample(axes, random.randrange(len(axes) + 1)))
        y = np.flip(np.array(np.flip(x, some)), some)
    # The stride of an axis of one element may be any number.
    steps = [
        random.choice([0, step, y.itemsize, -1024]) if n == 1 else step
        for n, step in zip(y.shape, y.strides, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(y, y.shape, steps)


def repeated(random: Random, x: Any) -> Any:
    """Return an array of x's shape that repeats one slice along a random axis, with the stride 0."""
    axis = random.randrange(x.ndim)
    return np.broadcast_to(x.take([0], axis), x.shape)


def results(executor: tnf.GraphExecutor, program: GraphProgram, arrays: Sequence[Any]) -> list[Any]:
    return [np.array(y, order="C") for y in flatten(executor.run(program, *arrays))[0]]


def require_near(y: Any, expected: Any) -> None:
    """Require equal integers, and floats that are equal up to rounding: layouts may change the order of sums."""
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    if y.dtype.kind in "biu":
        np.testing.assert_array_equal(y, expected)
        return
    digits = tnf.DType.of(y.dtype).real.dtype.itemsize
    rtol = {1: 1.0, 2: 2e-2, 4: 1e-4, 8: 1e-11}[digits]
    wide = [x.astype(complex) for x in (y, expected)]
    size = max([float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in wide])
    np.testing.assert_allclose(*wide, rtol=rtol, atol=rtol * min(size, 1e300))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_llvmlite)])
@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs(seed: int, compiled: bool) -> None:
    random = Random(seed)
    for number in range(30):
        case = random_case(1000 + seed, number, most_ops=8)
        executor = tnf.GraphExecutor(random.choice(["K", "F", "C"]), compiled=compiled)
        plain = tnf.GraphExecutor("K", compiled=False, passes=(), memory_bytes=0)
        expected = results(plain, case.program, case.leaves)
        for _ in range(3):
            arrays = [elsewhere(random, np.asarray(x)) for x in case.leaves]
            for y, other in zip(results(executor, case.program, arrays), expected, strict=True):
                require_near(y, other)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_llvmlite)])
def test_convolutions(seed: int, compiled: bool) -> None:
    """Convolutions must be right for any number of channels, and for padded axes of one element."""
    random, rng = Random(seed), np.random.default_rng(seed)
    pick = random.choice
    for _ in range(20):
        x = rng.standard_normal((pick([1, 2]), pick([1, 3, 16]), pick([1, 1, 2, 5]), pick([1, 1, 2, 6])))  # fmt: skip
        w = rng.standard_normal((pick([1, 16, 32]), x.shape[1], pick([1, 2, 3]), pick([1, 2, 3])))
        pairs = [(pick([0, 1, 2]), pick([0, 1, 2])) for _ in range(2)]
        op = Convolution(
            window_strides=(pick([1, 2]), pick([1, 1, 2])), padding=tuple(pairs),
            lhs_dilation=(pick([1, 1, 2]), pick([1, 1, 3])), rhs_dilation=(pick([1, 1, 2]), 1),
            window_reversal=(pick([False, True]), False), input_batch=0, input_feature=1,
            input_spatial=(2, 3), kernel_input_feature=1, kernel_output_feature=0,
            kernel_spatial=(2, 3), output_batch=0, output_feature=1, output_spatial=(2, 3),
        )  # fmt: skip
        program = tnf.compile(lambda x, w, op=op: apply_one(op, x, w), x, w)
        executor = tnf.GraphExecutor(pick(["K", "F", "C"]), compiled=compiled)
        for lay in (elsewhere, elsewhere, repeated):
            arrays = lay(random, x), elsewhere(random, w)
            expected = defined(op, *arrays)
            for _ in range(2):
                np.testing.assert_allclose(executor.run(program, *arrays), expected, 1e-11, 1e-11)
