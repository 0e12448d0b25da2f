"""Log-gamma and digamma in compiled loops must equal mpmath's values and the interpreter's."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
USUAL = [
    0.1,
    0.5,
    1.0,
    1.5,
    2.0,
    3.7,
    25.0,
    1e4,
    1e300,
    -0.5,
    -2.3,
    -7.001,
    -1e-300,
    1e-310,
    -4e-320,
]
ENDS = [0.0, -0.0, -1.0, -7.0, math.inf, -math.inf, math.nan]


def definition(x: float) -> tuple[Any, Any]:
    with mpmath.workdps(400):
        z = mpmath.mpf(x)
        log_gamma = mpmath.loggamma(z).real if z > 0 else mpmath.log(abs(mpmath.gamma(z)))
        return float(log_gamma), float(mpmath.digamma(z))


def test_values() -> None:
    x = np.array(USUAL)[None]
    log_gamma, digamma = in_a_loop(lambda x: [tnf.lgamma(x), tnf.digamma(x)], x)
    with np.errstate(over="ignore"):
        wanted = np.array([definition(x) for x in USUAL]).T
    np.testing.assert_allclose(log_gamma[0], wanted[0], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(digamma[0], wanted[1], rtol=1e-12)


def test_digits_beside_the_zeros() -> None:
    gaps = np.concatenate([2.0 ** -np.arange(1.0, 52.0, 5.0), [0.26, 0.49]])
    x = np.concatenate([1 + gaps, 1 - gaps, 2 + gaps, 2 - gaps])[None]
    function = lambda x: [tnf.lgamma(x)]
    program = tnf.compile(function, x)
    wanted = np.array([definition(float(each))[0] for each in x[0]])
    for (y,) in (in_a_loop(function, x), tnf.GraphExecutor("K", compiled=False).run(program, x)):
        assert (np.abs(y[0] - wanted) <= 8 * np.spacing(np.abs(wanted))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values_are_those_of_the_interpreter(dtype: Any) -> None:
    x = np.array([*ENDS, 1e-40, -1e-40, 3.5], dtype)[None]
    function = lambda x: [tnf.lgamma(x), tnf.digamma(x)]
    expected = tnf.GraphExecutor("K", compiled=False).run(tnf.compile(function, x), x)
    for y, z in zip(in_a_loop(function, x), expected, strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(y, z, rtol=4 * float(np.finfo(dtype).eps))


def test_no_iteration_calls_python() -> None:
    x = np.linspace(0.5, 2.0, 12).reshape(4, 3)
    total = lambda x: tnf.scan(lambda s, r: (s + tnf.sum(tnf.lgamma(r)), None), 0.0, x)[0]
    program = tnf.compile(tnf.grad(total), x)
    text = tnf.GraphExecutor("K", compiled=True).source(program, "llvm")
    assert "define i64 @f(" in text
    assert "tenferro_special_psi" in text
