"""LLVM code of the log-gamma and digamma functions, which calls SciPy's scalar functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import inf, nan, pi
from typing import Any

from tenferro.exec.kernels.gamma import LGAMMA_COEFFICIENTS, POLYNOMIAL_RADIUS, ROOTS_MIDPOINT
from tenferro.exec.llvm import capsules, functions
from tenferro.exec.llvm.code import Code, Element
from tenferro.exec.llvm.formula import Number, polynomial, rint, where
from tenferro.exec.llvm.ir import Value
from tenferro.types import DType

__all__ = ["PREFIX", "addresses", "digamma", "lgamma"]

PREFIX = "tenferro_special_"
"""Prefix of the functions' symbols in LLVM text."""
FUNCTIONS = {"gammaln": "gammaln", "psi": "__pyx_fuse_1psi"}
"""Names of functions that `scipy.special.cython_special` exports, by symbol without the prefix."""


def addresses() -> dict[str, int]:
    """Return the addresses of the functions, by symbol."""
    pointers = capsules.addresses("scipy.special.cython_special", [*FUNCTIONS.values()])
    return {PREFIX + name: address for name, address in zip(FUNCTIONS, pointers, strict=True)}


def _in_float64(
    write: Callable[[Number], Number],
) -> Callable[[Code, Any, DType, Sequence[Element]], Element]:
    """Return a function that writes an op for any float dtype; `write` writes it for float64."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        return functions.in_float64(code, dtype, lambda x: write(Number(code, x)).value, *xs)

    return scalar


def _scipy(name: str, x: Number) -> Number:
    """Write a call of a function of SciPy."""
    return Number(x.code, x.code.call(PREFIX + name, "double", [x.value, Value(0, "i32")]))


def _elementary(name: str, x: Number) -> Number:
    """Write a call of a function of `functions.FUNCTIONS`."""
    return Number(x.code, functions.call(x.code, name, DType.F64, x.value))


@_in_float64
def lgamma(x: Number) -> Number:
    """Write log|Gamma(x)|: SciPy's function, but -log|x| for subnormal x, and a polynomial near the roots 1 and 2."""
    size = abs(x)
    y = where(size.equals(inf), size, _scipy("gammaln", x))
    y = where(size < sys.float_info.min, -_elementary("log", size), y)
    return where(abs(x - ROOTS_MIDPOINT) < POLYNOMIAL_RADIUS, _lgamma_near_roots(x), y)


def _lgamma_near_roots(x: Number) -> Number:
    """Write log Gamma(x) for 1/2 <= x <= 5/2, for x < 3/2 as log Gamma(x + 1) - log x."""
    is_near_one = x < ROOTS_MIDPOINT
    s = x - where(is_near_one, 1.0, 2.0)
    logarithm = _elementary("log1p", where(is_near_one, s, 0.0))
    return s * polynomial(s, LGAMMA_COEFFICIENTS) - logarithm


@_in_float64
def digamma(x: Number) -> Number:
    """Write psi(x), NaN at poles; for x < 0 as psi(1 - x) - pi cot(pi r), where r is x minus the nearest integer."""
    is_negative = x < 0.0
    y = _scipy("psi", where(is_negative, 1.0 - x, x))
    r = x - rint(x)
    y = where(is_negative, y - pi / _elementary("tan", pi * r), y)
    return where(r.equals(0.0) & (x <= 0.0), nan, y)
