"""Rows of the table of exceptional points."""

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
        function: what is tested.
        definition: the function in mpmath; of an op, its row in `tenferro.definitions`.
        first, second: its derivatives, by hand.
        domain: where it is real.
        own: points that its formula creates.
        is_complex: whether complex128 is a dtype of it.
        terms: the size of the largest term, where the derivative is a sum of terms that cancel; a number, or a function of x.
        is_native: whether it is in the table for native runs alone, because it has no expansion for other peers.
        conventions: the two derivatives at points that have none, and the name of the convention.
        jax, torch: the same function there, by its dotted name; none where empty.
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
        function: what is tested.
        definition: the function in mpmath.
        partials: f_x, f_y, f_xx, f_xy and f_yy, by hand, of points where it is smooth.
        points: pairs of arguments.
        conventions: the five derivatives where there are none or the formulas have no value, with the
            name of the convention, or "limit" where they are limits.
        terms: the size of the largest term, where a derivative is a sum of terms that cancel.
        is_native: as in `Unary`.
        jax, torch: the same function there; none where empty.
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
