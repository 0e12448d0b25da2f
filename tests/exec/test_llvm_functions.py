"""Compiled functions against 40 digits, near the points where their formulas change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import loop
from tenferro.exec.llvm.functions import FUNCTIONS, SINGLE_ULPS
from tenferro.exec.llvm.link import is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
POINTS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 88.7, -103.9, 709.78, 710.0, 1e308,
          -745.1, -746.0, -1e308, 5e-324, -5e-324, 2.2e-308, -2.2e-308, 1e-40, -1e-40, 22.0, -22.0, 36.7, 60.0]  # fmt: skip
TURNS = ("sin", "cos", "tan")
CALLS: dict[str, Callable[[Any], Any]] = {"logistic": tnf.nn.sigmoid}


def arguments(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], 400)
    near_zero = sign * np.exp2(rng.uniform(-1070, 0, 400))
    # The halves of ln(2) are where the nearest multiple changes, sqrt(2) and its half where exponents do.
    steps = np.log(2) * (np.arange(-60, 60) + 0.5)
    roots = np.sqrt(2.0) * np.exp2(np.arange(-40, 40))
    around = np.concatenate([roots, np.nextafter(roots, 0), np.nextafter(roots, 9e9)])
    usual = [rng.uniform(-40, 40, 400), rng.uniform(-1, 1, 400), near_zero, steps]
    positive = [np.exp2(rng.uniform(-1074, 1024, 400)), 1 + near_zero, around]
    # Multiples of half pi, where nothing is left, and of a quarter, where the nearest one changes.
    halves = np.pi / 4 * np.concatenate([np.arange(-200, 200), rng.integers(-600000, 600000, 400)])
    limit = 2.0**19 + np.array([-1e-10, 0.0, 1e-10, 1.0, 1e4, 1e10, 1e22])
    turns = [halves, np.nextafter(halves, 9e9), rng.uniform(-6e5, 6e5, 400), limit, -limit]
    several = {
        "exp": [*usual, rng.uniform(-745, 709.7, 400)],
        "log": positive,
        "log1p": [*positive, near_zero, around - 1, rng.uniform(-1, 1, 400)],
        **{turn: [*usual, *turns] for turn in TURNS},
        "logistic": [*usual, rng.uniform(-745, 0, 400)],
    }
    return np.concatenate([POINTS, *several.get(name, usual)])


def exactly(name: str, x: float) -> Any:
    """The value in many digits, infinities and NaN included."""
    if np.isnan(x) or (name in ("log", "log1p") and x < (-1 if name == "log1p" else 0)):
        return mpmath.nan
    if np.isinf(x) and name in TURNS:
        return mpmath.nan
    if name in ("log", "log1p") and x == (-1 if name == "log1p" else 0):
        return -mpmath.inf
    if name == "logistic":
        return 1 / (1 + mpmath.exp(-mpmath.mpf(x)))
    return getattr(mpmath, name)(mpmath.mpf(x))


def error(y: float, exact: Any, dtype: Any) -> float:
    """In units in the last place of the exact value."""
    if mpmath.isnan(exact):
        return 0.0 if np.isnan(y) else np.inf
    largest = float(np.finfo(dtype).max)
    if abs(exact) > largest:
        # What rounds to no finite number is infinite; the largest number is near as well.
        return (
            0.0
            if np.isinf(y) and (y > 0) == (exact > 0)
            else float(abs(exact) / largest - 1) * 2**54
        )
    if not np.isfinite(y):
        return np.inf
    size = abs(float(exact))
    spacing = float(np.spacing(np.array(size).astype(dtype))) if size else 0.0
    return float(
        abs(mpmath.mpf(y) - exact) / max(spacing, float(np.finfo(dtype).smallest_subnormal))
    )


@pytest.mark.parametrize("contracts", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_bound(
    name: str, dtype: Any, contracts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if contracts and not loop.multiplies_and_adds():
        pytest.skip("this processor has no multiply-add")
    monkeypatch.setattr(loop, "multiplies_and_adds", lambda: contracts)
    with np.errstate(over="ignore"):
        x = arguments(name).astype(dtype)
    function = CALLS.get(name, getattr(tnf, name, None))
    assert function is not None

    def turned(x: Any) -> Any:
        return tnf.fori_loop(0, 1, lambda i, y: function(y), x)

    executor = tnf.GraphExecutor("K", compiled=True)
    many = executor.run(tnf.compile(turned, x), x)
    few = executor.run(tnf.compile(turned, x[:3]), x[:3])
    np.testing.assert_array_equal(few, many[:3])
    bound = SINGLE_ULPS if dtype is np.float32 else FUNCTIONS[name].ulps
    with mpmath.workdps(400 if name in TURNS else 40):
        for a, y in zip(x.tolist(), many.tolist(), strict=True):
            assert error(y, exactly(name, a), dtype) <= bound, (a, y)
            if a == 0 and name in ("expm1", "log1p", "tanh", "sin", "tan"):
                assert np.signbit(y) == np.signbit(a)


def test_the_polynomials_are_the_tools() -> None:
    """Nobody typed a coefficient."""
    tool = Path(__file__).parents[2] / "tools" / "polynomials.py"
    assert subprocess.run([sys.executable, str(tool), "--check"], check=False).returncode == 0
