"""Spherical Bessel functions of whole order, such as j_n(z) = sqrt(pi / (2 z)) J_(n + 1/2)(z).

Derivatives are computed by DLMF 10.51.2 and 10.51.5, which do not divide by z.

Source: NIST's DLMF, section 10.47; scipy.special for names and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    logical_and,
    multiply,
    negative,
    remainder,
    round,
    sqrt,
    subtract,
    where,
)
from tenferro.dispatch import spec_of
from tenferro.special import hankel, macdonald
from tenferro.special.functions import TABLE, Row, value_of, written
from tenferro.special.operands import in_reals, with_signature
from tenferro.types import Tensor

__all__ = ["spherical_in", "spherical_jn", "spherical_kn", "spherical_yn"]


SMALL = 1e-8
"""Bound on an argument below which its square is negligible."""


def _slope(name: str, below: float, above: float) -> Callable[..., Any]:
    """Return the derivative in z of f_n(z): (below n f_(n-1) + above (n + 1) f_(n+1)) / (2 n + 1)."""

    def slope(y: Any, n: Any, z: Any) -> Any:
        after = add(n, 1.0)
        has_lower = greater(n, 0.0)
        lower = value_of(name, where(has_lower, subtract(n, 1.0), 0.0), z)
        upper = multiply(multiply(above, after), value_of(name, after, z))
        # Where the function of the larger order is infinite, it dominates the sum, so the other term is omitted.
        has_lower = logical_and(has_lower, less(abs(upper), math.inf))
        lower = where(has_lower, multiply(multiply(below, n), lower), 0.0)
        return where(less(n, 0.0), math.nan, divide(add(lower, upper), add(n, after)))

    return slope


def _kernel(name: str) -> Callable[[Any], Callable[..., Any]]:
    """Return the kernel: SciPy's function.

    For small z, where SciPy's j_n and i_n may underflow, z^n / (2 n + 1)!! is returned.
    """

    def create(special: Any) -> Callable[..., Any]:
        def kernel(n: Any, z: Any) -> Any:
            is_order = (n == np.floor(n)) & (n >= 0) & (n < 2**31)
            order = np.where(is_order, n, 0)
            values = getattr(special, name)(order.astype(np.int64), z)
            if name in ("spherical_in", "spherical_jn"):
                power = 0.5 * math.sqrt(math.pi) * np.power(0.5 * z, order)
                values = np.where(np.abs(z) < SMALL, power * special.rgamma(order + 1.5), values)
            return np.where(is_order, values, np.nan)

        return kernel

    return create


def _expanded(
    of: Callable[..., Any], at_zero: Callable[[Any], Any], sides: float, n: Tensor, z: Tensor
) -> Any:
    """Return sqrt(pi / (2 z)) f_(n + 1/2)(z) for z > 0, and `at_zero` at z = 0.

    Args:
        of: the function f_v(x), called with order and argument.
        sides: a sign s. For z < 0 the result is s (-1)^n times the result for |z|.
    """
    one, none = np.asarray([1, math.nan], spec_of(z).dtype.dtype)
    size = abs(z)
    inner = where(equal(size, 0.0), 1.0, size)
    # At infinity the factor is set to 1, because f itself has the limit, and 0 times infinity would be NaN.
    scale = where(equal(size, math.inf), one, sqrt(divide(math.pi / 2, inner)))
    values = multiply(scale, of(add(n, 0.5), inner))
    is_odd = equal(remainder(n, 2.0), 1.0)
    side = where(less(z, 0.0), multiply(sides, where(is_odd, -one, one)), one)
    values = where(equal(z, 0.0), at_zero(n), multiply(side, values))
    is_order = logical_and(equal(n, round(n)), greater_equal(n, 0.0))
    return where(is_order, values, none)


def _first(n: Tensor) -> Any:
    """Return 1 for n = 0, and 0 for other n."""
    return where(equal(n, 0.0), np.asarray(1, spec_of(n).dtype.dtype), 0.0)


def _infinite(n: Tensor) -> Any:
    return add(multiply(n, 0.0), math.inf)


def _k(n: Tensor, z: Tensor) -> Any:
    """Compute k_n(z). For z < 0 the result is -(-1)^n k_n(|z|) - pi i_n(|z|)."""
    values = _expanded(macdonald.kv, _infinite, -1.0, n, z)
    growing = _expanded(hankel.iv, _first, 1.0, n, abs(z))
    return where(less(z, 0.0), subtract(values, multiply(math.pi, growing)), values)


def _spherical(
    name: str, below: float, above: float, expansion: Callable[..., Any], text: str
) -> Any:
    slope = _slope(name, below, above)
    TABLE[name] = Row(name, ("n", "z"), _kernel(name), (None, slope), partial(written, expansion))

    def compute(n: Any, z: Any, derivative: bool) -> Any:
        def values(n: Any, z: Any) -> Any:
            return slope(None, n, z) if derivative else value_of(name, n, z)

        return in_reals(name, values, n, z)

    parameters = {"n": None, "z": None, "derivative": False}
    return with_signature(name, "tenferro.special", parameters, text, compute)


spherical_jn = _spherical(
    "spherical_jn", 1.0, -1.0, partial(_expanded, hankel.jv, _first, 1.0),
    """Compute the spherical Bessel function j_n(z) = sqrt(pi / (2 z)) J_(n + 1/2)(z), for whole n >= 0.

    The result is NaN for other n.

    Derivatives in z are supported. The native error is at most 64 ulps of the larger of 1 and the value. On other
    peers, the error bound is that of `jv`.

    Args:
        derivative: return the derivative in z.

    >>> spherical_jn(1, [0.0, 1.0])
    array([0.        , 0.30116868])

    Source: scipy.special.spherical_jn.
    """,
)  # fmt: skip
spherical_yn = _spherical(
    "spherical_yn", 1.0, -1.0, partial(_expanded, hankel.yv, lambda n: negative(_infinite(n)), -1.0),
    """Compute the spherical Bessel function y_n(z) = sqrt(pi / (2 z)) Y_(n + 1/2)(z), for whole n >= 0.

    The result is NaN for other n.

    Derivatives in z are supported. The native error is at most 256 ulps of the larger of 1 and the value. On other
    peers, the error bound is that of `yv`.

    Args:
        derivative: return the derivative in z.

    >>> spherical_yn(0, 1.0)
    array(-0.54030231)

    Source: scipy.special.spherical_yn.
    """,
)  # fmt: skip
spherical_in = _spherical(
    "spherical_in", 1.0, 1.0, partial(_expanded, hankel.iv, _first, 1.0),
    """Compute the modified function i_n(z) = sqrt(pi / (2 z)) I_(n + 1/2)(z), for whole n >= 0; NaN for other n.

    Derivatives in z are supported. For n <= 50, the native error is at most 512 ulps. On other peers, the error bound
    is that of `iv`.

    Args:
        derivative: return the derivative in z.

    >>> spherical_in(0, [0.0, 1.0])
    array([1.        , 1.17520119])

    Source: scipy.special.spherical_in.
    """,
)  # fmt: skip
spherical_kn = _spherical(
    "spherical_kn", -1.0, -1.0, _k,
    """Compute the modified function k_n(z) = sqrt(pi / (2 z)) K_(n + 1/2)(z), for whole n >= 0; NaN for other n.

    Derivatives in z are supported. The native error is at most 256 ulps. On other peers, for n <= 50, the relative
    error is at most 1e-11.

    Args:
        derivative: return the derivative in z.

    >>> spherical_kn(0, 1.0)
    array(0.57786367)

    Source: scipy.special.spherical_kn.
    """,
)  # fmt: skip
