import sys
from pathlib import Path

import pytest

import tenferro as tnf

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks" / "loops"), str(ROOT / "benchmarks")]

from agreement import directional_difference, distance  # noqa: E402  # needs the path
from kernels import KERNELS  # noqa: E402

del sys.path[:2]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_native_results_are_those_by_hand(kernel):
    arguments = kernel.arguments(kernel.small)
    function, arrays = kernel.of_arrays(tnf, arguments)
    assert distance(tnf.jit(function)(*arrays), kernel.numpy(*arguments)) <= kernel.tolerance


@pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if k.gradient is not None], ids=lambda kernel: kernel.name
)
def test_native_gradients_are_central_differences_by_hand(kernel):
    arguments = kernel.arguments(kernel.small)
    function, arrays = kernel.loss(tnf, arguments)
    gradient = tnf.jit(tnf.grad(function, kernel.gradient))(*arrays)
    direction, slope = directional_difference(kernel, arguments)
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-6)
