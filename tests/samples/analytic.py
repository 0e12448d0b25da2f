"""Samples of the analytic functions.

mpmath computes the results with fifty digits, and they are rounded to the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

from tenferro.definitions import definition_of
from tenferro.errors import MissingCellError
from tenferro.ops import analytic as ops
from tenferro.types import DType
from tests.samples.sample import Array, OpSample, SampleRows, by_index, dtypes_of, python_number

POINTS = [-30.5, -2.25, -0.75, -1e-3, 1e-3, 0.3, 0.6, 1.5, 3.0, 20.0]
COMPLEX_POINTS = [0.3 + 0.4j, -0.7 + 0.2j, 1.5 - 2.0j, -2.0 - 0.5j, 0.01 + 0.02j, 0.6j, 3.0 + 1.0j]

Domain = Callable[[float], bool]

DOMAINS: dict[Any, Domain] = {
    ops.Exp: lambda x: True,
    ops.Expm1: lambda x: True,
    ops.Log: lambda x: x > 0,
    ops.Log1p: lambda x: x > -1,
    ops.Sqrt: lambda x: x >= 0,
    ops.Rsqrt: lambda x: x > 0,
    ops.Cbrt: lambda x: True,
    ops.Sin: lambda x: True,
    ops.Cos: lambda x: True,
    ops.Tan: lambda x: True,
    ops.Tanh: lambda x: True,
    ops.Logistic: lambda x: True,
    ops.Asin: lambda x: abs(x) <= 1,
    ops.Acos: lambda x: abs(x) <= 1,
    ops.Atan: lambda x: True,
    ops.Sinh: lambda x: abs(x) < 9,
    ops.Cosh: lambda x: abs(x) < 9,
    ops.Asinh: lambda x: True,
    ops.Acosh: lambda x: x >= 1,
    ops.Atanh: lambda x: abs(x) < 1,
    ops.Erf: lambda x: True,
    ops.Erfc: lambda x: x < 9,
    ops.ErfInv: lambda x: abs(x) < 1,
    ops.Lgamma: lambda x: x > -3,
    ops.Digamma: lambda x: x > -3,
}

# Largest errors that were measured at the points of these samples. The errors are those of NumPy, SciPy and XLA.
NATIVE_ULPS = {ops.Lgamma: 8, ops.Digamma: 8, ops.ErfInv: 4, ops.Erfc: 4}
XLA_ULPS = {ops.Lgamma: 512, ops.Digamma: 512, ops.ErfInv: 16, ops.Erfc: 16}

SPECIAL: dict[Any, dict[float, float]] = {
    ops.Exp: {-math.inf: 0.0, math.inf: math.inf, 0.0: 1.0},
    ops.Expm1: {-math.inf: -1.0, math.inf: math.inf, 0.0: 0.0},
    ops.Log: {0.0: -math.inf, 1.0: 0.0, math.inf: math.inf, -1.0: math.nan},
    ops.Log1p: {-1.0: -math.inf, 0.0: 0.0, math.inf: math.inf, -2.0: math.nan},
    ops.Sqrt: {0.0: 0.0, 4.0: 2.0, math.inf: math.inf, -1.0: math.nan},
    ops.Rsqrt: {0.0: math.inf, 4.0: 0.5, math.inf: 0.0, -1.0: math.nan},
    ops.Cbrt: {0.0: 0.0, -8.0: -2.0, math.inf: math.inf, -math.inf: -math.inf},
    ops.Sin: {0.0: 0.0, math.inf: math.nan},
    ops.Cos: {0.0: 1.0, math.inf: math.nan},
    ops.Tan: {0.0: 0.0, math.inf: math.nan},
    ops.Tanh: {0.0: 0.0, math.inf: 1.0, -math.inf: -1.0},
    ops.Logistic: {0.0: 0.5, math.inf: 1.0, -math.inf: 0.0},
    ops.Asin: {0.0: 0.0, 1.5: math.nan},
    ops.Acos: {1.0: 0.0, 1.5: math.nan},
    ops.Atan: {0.0: 0.0, math.inf: math.pi / 2, -math.inf: -math.pi / 2},
    ops.Sinh: {0.0: 0.0, math.inf: math.inf, -math.inf: -math.inf},
    ops.Cosh: {0.0: 1.0, math.inf: math.inf, -math.inf: math.inf},
    ops.Asinh: {0.0: 0.0, math.inf: math.inf, -math.inf: -math.inf},
    ops.Acosh: {1.0: 0.0, math.inf: math.inf, 0.5: math.nan},
    ops.Atanh: {0.0: 0.0, 1.0: math.inf, -1.0: -math.inf, 2.0: math.nan},
    ops.Erf: {0.0: 0.0, math.inf: 1.0, -math.inf: -1.0},
    ops.Erfc: {0.0: 1.0, math.inf: 0.0, -math.inf: 2.0},
    ops.ErfInv: {0.0: 0.0, 1.0: math.inf, -1.0: -math.inf, 2.0: math.nan},
    ops.Lgamma: {
        1.0: 0.0,
        2.0: 0.0,
        0.0: math.inf,
        math.inf: math.inf,
        -math.inf: math.inf,
        -1.0: math.inf,
    },
    ops.Digamma: {math.inf: math.inf, -1.0: math.nan, 0.0: math.nan},
}


if unspecified := DOMAINS.keys() - SPECIAL.keys():
    names = ", ".join(sorted(card.__name__ for card in unspecified))
    raise MissingCellError(
        f"table SPECIAL has no row for {names}; write it in tests/samples/analytic.py"
    )


def rounded(value: Any) -> Any:
    """Convert an mpmath number to a Python number."""
    return complex(value) if isinstance(value, mpmath.mpc) else float(value)


def evaluate(function: Callable[..., Any], dtype: DType, *arrays: Array) -> Array:
    """Evaluate a function of numbers at each index of the arrays, with fifty digits."""
    with mpmath.workdps(50):
        return by_index(
            arrays[0].shape,
            dtype,
            lambda i: rounded(function(*(mpmath.mpmathify(python_number(a[i])) for a in arrays))),
        )


def samples_of(card: Any) -> list[OpSample]:
    function, domain = definition_of(card()), DOMAINS[card]
    samples: list[OpSample] = []
    because = "transcendental functions are not correctly rounded"
    for dtype in dtypes_of(card):
        if dtype.is_complex:
            x = np.array(COMPLEX_POINTS, dtype.dtype)
            ulps, xla_ulps = 16, 64
        else:
            x = np.array([p for p in POINTS if domain(p)]).astype(dtype.dtype)
            ulps, xla_ulps = NATIVE_ULPS.get(card, 2), XLA_ULPS.get(card, 8)
        samples.append(
            OpSample(
                card(),
                (x,),
                (evaluate(function, dtype, x),),
                ulps=ulps,
                xla_ulps=xla_ulps,
                because=because,
                label=dtype.short,
            )
        )
        if not dtype.is_complex:
            table = SPECIAL[card]
            x = np.array([*table, math.nan]).astype(dtype.dtype)
            y = np.array([*table.values(), math.nan]).astype(dtype.dtype)
            samples.append(
                OpSample(
                    card(),
                    (x,),
                    (y,),
                    ulps=1,
                    xla_ulps=32 if card is ops.Lgamma else 2,
                    scale=(np.where(np.isfinite(y) & (y == 0), 1, y).astype(dtype.dtype),)
                    if card is ops.Lgamma
                    else None,
                    because=because,
                    label=f"special-{dtype.short}",
                )
            )
    return samples


def atan2_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Atan2):
        values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.3]
        y, x = (grid.reshape(-1) for grid in np.meshgrid(values, values, indexing="ij"))
        y, x = y.astype(dtype.dtype), x.astype(dtype.dtype)
        expected = by_index(
            y.shape, dtype, lambda i, y=y, x=x: math.atan2(float(y[i]), float(x[i]))
        )
        samples.append(
            OpSample(
                ops.Atan2(),
                (y, x),
                (expected,),
                ulps=1,
                xla_ulps=4,
                because="atan2 is not correctly rounded",
                label=dtype.short,
            )
        )
    return samples


def polygamma_samples() -> list[OpSample]:
    samples: list[OpSample] = []
    for dtype in dtypes_of(ops.Polygamma):
        for order in (0, 1, 2, 5):
            x = np.array([0.1, 0.5, 1.0, 3.25, 20.0, -0.75, -2.25]).astype(dtype.dtype)
            if order == 0 or order % 2 == 0:
                x = x[:5]
            expected = evaluate(definition_of(ops.Polygamma(order)), dtype, x)
            samples.append(
                OpSample(
                    ops.Polygamma(order),
                    (x,),
                    (expected,),
                    ulps=32,
                    xla_ulps=512,
                    because="Hurwitz zeta by Euler-Maclaurin summation",
                    label=f"{dtype.short}-{order}",
                )
            )
            pole = math.inf if order % 2 else math.nan
            far = float(ml_dtypes.finfo(dtype.dtype).max) / 4
            special = {
                0.0: pole, -1.0: pole, -2.0: pole, math.nan: math.nan,
                math.inf: (-1.0) ** (order + 1) * 0.0 if order else math.inf,
            }  # fmt: skip
            x = np.array([-0.0, *special, far]).astype(dtype.dtype)
            distant = float(mpmath.psi(order, float(x[-1])))
            y = np.array([pole, *special.values(), distant]).astype(dtype.dtype)
            samples.append(
                OpSample(
                    ops.Polygamma(order),
                    (x,),
                    (y,),
                    ulps=4,
                    xla_ulps=4,
                    because="Hurwitz zeta by Euler-Maclaurin summation",
                    label=f"special-{dtype.short}-{order}",
                )
            )
    return samples


ROWS: SampleRows = {
    **{card: samples_of(card) for card in DOMAINS},
    ops.Atan2: atan2_samples(),
    ops.Polygamma: polygamma_samples(),
}
