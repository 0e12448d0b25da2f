"""Records of functions in the table of exceptional points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["INF", "Binary", "Unary"]

INF = math.inf
REALS = (-INF, INF)


@dataclass(frozen=True)
class Unary:
    """A function of one number.

    Args:
        function: the tested function.
        definition: the function in mpmath; for an op, its definition in `tenferro.definitions`.
        first, second: formulas of its first and second derivative, derived by hand.
        domain: the interval on which the function is real.
        own: exceptional points of this function, in addition to those of all functions.
        is_complex: whether the function is tested in complex128, too.
        terms: the size of the largest of the terms that cancel in the derivative. It is a number, or a function of x.
        is_native: whether only native runs are tested. The function has no expansion for other peers, or its
            expansion is less accurate.
        conventions: points without derivatives. For each, the two values that tenferro returns, and the name of the
            convention.
        jax, torch: dotted names of the function in these libraries; empty if a library lacks it.
    """

    function: Callable[[Any], Any]
    definition: Callable[[Any], Any]
    first: Callable[[Any], Any]
    second: Callable[[Any], Any]
    domain: tuple[float, float] = REALS
    own: tuple[float, ...] = ()
    is_complex: bool = False
    terms: float | Callable[[Any], Any] = 0.0
    is_native: bool = False
    conventions: Mapping[str, tuple[float, float, str]] = field(default_factory=dict)
    jax: str = ""
    torch: str = ""


@dataclass(frozen=True)
class Binary:
    """A function of two real numbers.

    Args:
        function: the tested function.
        definition: the function in mpmath.
        partials: formulas of f_x, f_y, f_xx, f_xy and f_yy, derived by hand, for points where the function is smooth.
        points: pairs of arguments.
        conventions: points without derivatives, or where the formulas have no value. For each, the five values that
            tenferro returns, and the name of the convention, or "limit" for limits.
        terms: the size of the largest of the terms that cancel in a derivative.
        is_native: whether only native runs are tested, as in `Unary`.
        jax, torch: names of the function in these libraries; empty if a library lacks it.
    """

    function: Callable[[Any, Any], Any]
    definition: Callable[[Any, Any], Any]
    partials: Callable[[Any, Any], tuple[Any, ...]]
    points: tuple[tuple[float, float], ...]
    conventions: Mapping[tuple[float, float], tuple[tuple[float, ...], str]] = field(
        default_factory=dict
    )
    terms: float = 0.0
    is_native: bool = False
    jax: str = ""
    torch: str = ""
