"""Quotients by constants: the bits of a division for any dividend."""

from __future__ import annotations

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link
from tests.exec.compiled_loops import run_as_written_and_optimised

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
ULP = 2.0**-52
DIVISORS = [3.0, -6.0, 7.0, 10.0, 0.1, 1 / 3, np.pi, 1 + ULP, 2 - ULP, 1.5, -1e30, 1e-30, 1.5 * 2.0**99,
            1.5 * 2.0**-101]  # fmt: skip
PLAIN = [4.0, 1.5 * 2.0**100, 1.5 * 2.0**-102, 1e300, 1e-300, 5e-324, 0.0, -0.0, np.inf, np.nan]
ROWS, LANES = 40, 1001


def dividends(divisor: float) -> np.ndarray:
    """Return random dividends, dividends with quotients near the midpoint of two numbers, and special values."""
    rng = np.random.default_rng(0)
    shape = (ROWS // 4, LANES)
    significands = rng.uniform(1.0, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    everywhere = rng.integers(0, 2**64, shape, np.uint64).view(np.float64)
    with np.errstate(all="ignore"):
        middle = (significands.astype(np.longdouble) + ULP / 2) * np.longdouble(divisor)
        tiny = significands * 2.0 ** rng.integers(-1074, -880, shape)
    rows = np.concatenate([significands, everywhere, middle.astype(np.float64), tiny])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-900, 2.0**900, 1.7e308, divisor]
    rows[:, 500 : 500 + len(special)] = special
    rows[1, : len(special)] = special
    return rows


@pytest.mark.parametrize("divisor", [*DIVISORS, *PLAIN])
def test_quotients_are_those_of_a_division(divisor: float) -> None:
    x = dividends(divisor)
    program = tnf.compile(
        lambda xs: tnf.scan(lambda c, x: (c, (x / divisor, x[3] / divisor)), 0.0, xs)[1], x
    )
    executor = tnf.GraphExecutor("K", compiled=True)
    is_corrected = "tenferro_over_" in executor.source(program, "llvm")
    assert is_corrected == (divisor in DIVISORS and link.processor().has_fma)
    with np.errstate(all="ignore"):
        expected = x / divisor
    quotients = run_as_written_and_optimised(executor, program, x)
    for y, z in zip(quotients, (expected, expected[:, 3]), strict=True):
        is_nan = np.isnan(z)
        np.testing.assert_array_equal(np.isnan(y), is_nan)
        np.testing.assert_array_equal(
            y[~is_nan].view(np.uint64), np.ascontiguousarray(z)[~is_nan].view(np.uint64)
        )


def test_vectorised_loops_do_not_divide() -> None:
    if not link.processor().has_fma:
        pytest.skip("the processor does not multiply and add at once")
    import llvmlite.binding as llvm  # because not all processors have it

    x = np.ones((50, 4096))
    program = tnf.compile(lambda xs: tnf.scan(lambda c, x: (c, x / 3.0), 0.0, xs)[1], x)
    steps = tnf.GraphExecutor(compiled=True).compile(program).instructions
    (step,) = [x for x in steps if hasattr(x.function, "module")]
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    body = str(link.optimised_module(step.function.module, machine)).partition("@loop(")[2]
    assert "call <" in body  # without multiply-adds
    assert not [line for line in body.splitlines() if "tenferro_over" in line and "call" in line]
