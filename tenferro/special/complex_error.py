"""The error function of complex numbers, computed from e^(z^2) erfc(z) in the right half-plane.

Sources: J. A. C. Weideman, SIAM Journal on Numerical Analysis 31 (1994), 1497, for the rational expansion. NIST's DLMF,
7.9.2, for the continued fraction far from zero, and 7.6.1 for the series near zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.api.custom import custom_jvp
from tenferro.api.elementwise import (
    abs,
    add,
    cos,
    divide,
    equal,
    exp,
    imag,
    less,
    multiply,
    negative,
    real,
    sin,
    square,
    subtract,
    where,
)
from tenferro.api.polynomials import polynomial
from tenferro.dispatch import apply_one
from tenferro.ops.elementwise import Complex
from tenferro.types import Tensor

__all__ = ["erf", "erfc"]

TERMS = 40
CENTRE = math.sqrt(TERMS / math.sqrt(2))
ROOT = 2 / math.sqrt(math.pi)
SERIES = tuple([1 / (math.factorial(n) * (2 * n + 1)) for n in range(24, -1, -1)])
NEAR, FAR = 1.5, 7.0
LEVELS = 12


def _coefficients() -> tuple[float, ...]:
    """Return the coefficients of Weideman's expansion in powers of Z = (L - z) / (L + z), highest power first.

    L is the constant `CENTRE`.
    """
    angles = np.arange(1 - 2 * TERMS, 2 * TERMS) * math.pi / (2 * TERMS)
    squares = np.square(CENTRE * np.tan(angles / 2))
    samples = np.concatenate([[0.0], np.exp(-squares) * (CENTRE**2 + squares)])
    terms = np.fft.fft(np.fft.fftshift(samples)).real / (4 * TERMS)
    return tuple(terms[TERMS:0:-1].tolist())


RATIONAL = _coefficients()


def _scaled(z: Tensor) -> Any:
    """e^(z^2) erfc(z) for z with a nonnegative real part."""
    below = add(z, CENTRE)
    sums = polynomial(divide(subtract(CENTRE, z), below), RATIONAL)
    near = divide(add(ROOT / 2, divide(multiply(2.0, sums), below)), below)
    fraction = z
    for k in range(LEVELS, 0, -1):
        fraction = add(z, divide(k / 2, fraction))
    return where(less(abs(z), FAR), near, divide(ROOT / 2, fraction))


def _gauss(z: Tensor) -> Any:
    """Compute e^(-z^2). The result is 0 where its modulus underflows."""
    x, y = real(z), imag(z)
    size = exp(multiply(subtract(y, x), add(y, x)))
    angle = multiply(-2.0, multiply(x, y))
    parts = [multiply(size, part(angle)) for part in (cos, sin)]
    return apply_one(Complex(), *(where(equal(size, 0.0), 0.0, part) for part in parts))


def _in_half_plane(z: Tensor) -> tuple[Any, Any, Any]:
    """Return whether Re z < 0, and erf and erfc of z. Where Re z < 0, they are erf and erfc of -z."""
    is_left = less(real(z), 0.0)
    right = where(is_left, negative(z), z)
    gauss = _gauss(right)
    beyond = where(equal(gauss, 0.0), 0.0, multiply(gauss, _scaled(right)))
    series = multiply(multiply(ROOT, right), polynomial(negative(square(right)), SERIES))
    lower = where(less(abs(z), NEAR), series, subtract(1.0, beyond))
    return is_left, lower, where(less(abs(z), 0.5), subtract(1.0, series), beyond)


@custom_jvp
def erf(z: Tensor) -> Any:
    """Compute the error function of complex numbers."""
    is_left, value, _ = _in_half_plane(z)
    return where(is_left, negative(value), value)


@custom_jvp
def erfc(z: Tensor) -> Any:
    """Compute 1 - erf(z) for complex numbers."""
    is_left, _, value = _in_half_plane(z)
    return where(is_left, subtract(2.0, value), value)


@erf.defjvp
def _erf_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return erf(z) and its tangent, which is 2 / sqrt(pi) e^(-z^2) z_dot."""
    (z,), (z_dot,) = primals, tangents
    return erf(z), multiply(multiply(ROOT, _gauss(z)), z_dot)


@erfc.defjvp
def _erfc_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return erfc(z) and its tangent, which is -2 / sqrt(pi) e^(-z^2) z_dot."""
    (z,), (z_dot,) = primals, tangents
    return erfc(z), multiply(multiply(-ROOT, _gauss(z)), z_dot)
