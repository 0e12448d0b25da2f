"""Derivatives that the public functions compute, and their comparison with the expected values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenferro as tnf

__all__ = ["KINDS", "PARTIAL_CELLS", "four_derivatives", "is_right", "partial_derivatives"]

KINDS = ("JVP", "VJP", "forward over reverse", "reverse over reverse")
ULPS = {"native": 16, "PJRT": 64}


def pulled(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the derivative of an elementwise function at x, by reverse mode."""
    y, pull = tnf.vjp(function, x)
    return pull(tnf.ones_like(y))[0]


def four_derivatives(function: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function for the first and second derivative of an elementwise function, each by two modes."""

    def derivatives(x: Any) -> tuple[Any, ...]:
        ones = tnf.ones_like(x)
        reverse = lambda x: pulled(function, x)
        return (
            tnf.jvp(function, (x,), (ones,))[1],
            reverse(x),
            tnf.jvp(reverse, (x,), (ones,))[1],
            pulled(reverse, x),
        )

    return derivatives


def partial_derivatives(function: Callable[[Any, Any], Any]) -> Callable[..., tuple[Any, ...]]:
    """Return a function for all partial derivatives of a function of x and y, in the order of `PARTIAL_CELLS`."""

    def derivatives(x: Any, y: Any) -> tuple[Any, ...]:
        ones = tnf.ones_like(x)
        forward = lambda f, which: tnf.jvp(
            (lambda x: f(x, y)) if which == 0 else (lambda y: f(x, y)), ((x, y)[which],), (ones,)
        )[1]
        pulls = lambda x, y: tnf.vjp(function, x, y)[1](ones)
        seconds = [forward(pulls, which) for which in (0, 1)]
        rows = [tnf.vjp(lambda x, y: pulls(x, y)[i], x, y)[1](ones) for i in (0, 1)]
        return (
            *[forward(function, which) for which in (0, 1)],
            *pulls(x, y),
            *[part for pair in (*seconds, *rows) for part in pair],
        )

    return derivatives


PARTIAL_CELLS = tuple(
    (kind, index)
    for kind, indices in zip(KINDS, ((0, 1), (0, 1), (2, 3, 3, 4), (2, 3, 3, 4)), strict=True)
    for index in indices
)
"""For each result of `partial_derivatives`, the modes by which it is computed, and its index in `PARTIALS`."""


def is_right(got: Any, want: Any, slack: float, peer: str) -> bool:
    """Return whether a value is within a few ulps of the expected one.

    The effect of the argument's last bit is allowed, too. NaN and infinities must be equal. PJRT may flush subnormal
    numbers to zero. A complex number with an infinite part counts as infinite, even if its other part is NaN.
    """
    info = np.finfo(got.dtype)
    tiny = 4 * float(info.smallest_subnormal) if peer == "native" else 4 * float(info.tiny)
    got, want = got.item(), complex(*want) if isinstance(want, list) else want
    if isinstance(want, complex) and not np.isfinite(want):
        return not np.isfinite(got) if np.isinf(want) else bool(np.isnan(got))
    if np.isnan(want):
        return bool(np.isnan(got))
    if abs(want) > float(info.max):
        return got == want or got == np.copysign(np.inf, want.real)
    if abs(want) == 0 and slack == 0:
        return abs(got) <= tiny
    return bool(abs(got - want) <= ULPS[peer] * float(info.eps) * (abs(want) + slack) + tiny)
