"""Logarithm of the gamma function: SciPy's function, but a polynomial near the roots, where it is inaccurate."""

from __future__ import annotations

import numpy as np

from tenferro.exec.kernels.kernel import Array

__all__ = ["LGAMMA_COEFFICIENTS", "POLYNOMIAL_RADIUS", "ROOTS_MIDPOINT", "lgamma"]

ROOTS_MIDPOINT, POLYNOMIAL_RADIUS = 1.5, 1.0
"""Midpoint of the roots 1 and 2 of log Gamma, and the radius of the range in which the polynomial is used."""
# fmt: off
LGAMMA_COEFFICIENTS = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.02058080842778457, -0.0073855510286681535,
    0.002890510330738737, -0.0011927539120010226, 0.0005096695248853096, -0.00022315475074520367, 9.945750909889392e-05,
    -4.4926351103833334e-05, 2.050726741605779e-05, -9.438458716242811e-06, 4.374374916915131e-06, -2.0449201467015115e-06,
    9.578663334114758e-07, -4.303558760359961e-07, 2.0304806751615227e-07, -1.3412819758517287e-07, 6.379047507619774e-08
)
# fmt: on
"""Coefficients of a polynomial in s that approximates log(Gamma(2 + s)) / s for |s| <= 1/2, from the constant term up.

The polynomial interpolates at the zeros of a Chebyshev polynomial; it was computed with 60 digits.
"""


def lgamma(x: Array) -> Array:
    """Return SciPy's log |Gamma(x)|, corrected near its roots, at -inf and at subnormal numbers.

    At -inf the result is inf, as in C99. At subnormal numbers the result is finite; SciPy's is infinite.
    """
    from scipy import special as functions  # because importing scipy takes long

    y = np.where(np.isinf(x), np.inf, functions.gammaln(x)).astype(x.dtype)
    is_tiny = np.abs(x) < np.finfo(x.dtype).tiny
    y = np.where(is_tiny, -np.log(np.abs(x)), y) if is_tiny.any() else y
    is_near = np.abs(x - ROOTS_MIDPOINT) < POLYNOMIAL_RADIUS
    if x.dtype == np.float64 and is_near.any():  # SciPy computes float32 in float64
        y[is_near] = _lgamma_near_roots(x[is_near])
    return y


def _lgamma_near_roots(x: Array) -> Array:
    """Return log Gamma(x) for 1/2 <= x <= 5/2, for x < 3/2 as log Gamma(x + 1) - log x."""
    is_near_one = x < ROOTS_MIDPOINT
    s = x - np.where(is_near_one, 1.0, 2.0)
    y = np.full_like(s, LGAMMA_COEFFICIENTS[-1])
    for coefficient in reversed(LGAMMA_COEFFICIENTS[:-1]):
        y *= s
        y += coefficient
    return s * y - np.where(is_near_one, np.log1p(np.where(is_near_one, s, 0.0)), 0.0)
