"""LLVM code of the log-gamma and digamma functions, which calls SciPy's scalar functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nan, pi
from typing import Any

from tenferro.exec.kernels.gamma import LGAMMA_COEFFICIENTS, POLYNOMIAL_RADIUS, ROOTS_MIDPOINT
from tenferro.exec.llvm import capsules, functions
from tenferro.exec.llvm.code import Code, Element
from tenferro.exec.llvm.formula import Formula
from tenferro.exec.llvm.ir import Value
from tenferro.types import DType

__all__ = ["PREFIX", "addresses", "digamma", "lgamma"]

PREFIX = "tenferro_special_"
"""Prefix of the functions' symbols in LLVM's text."""
FUNCTIONS = {"gammaln": "gammaln", "psi": "__pyx_fuse_1psi"}
"""Names of functions that `scipy.special.cython_special` exports, by their symbols without the prefix."""


def addresses() -> dict[str, int]:
    """Return the addresses of the functions, by their symbols in LLVM's text."""
    pointers = capsules.addresses("scipy.special.cython_special", [*FUNCTIONS.values()])
    return {PREFIX + name: address for name, address in zip(FUNCTIONS, pointers, strict=True)}


def _in_float64(
    write: Callable[[Code, Formula, Value], Value],
) -> Callable[[Code, Any, DType, Sequence[Element]], Element]:
    """Return the function that writes an op for any float dtype, from a function that writes it for float64."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        return functions.in_float64(code, dtype, partial(write, code, Formula(code)), *xs)

    return scalar


def _called(code: Code, name: str, x: Value) -> Value:
    return code.call(PREFIX + name, "double", [x, Value(0, "i32")])


@_in_float64
def lgamma(code: Code, f: Formula, x: Value) -> Value:
    """Write log|Gamma(x)|, by SciPy's function with two exceptions.

    For subnormal x, for which 1 / x overflows, it is -log|x|. Near the roots 1 and 2, it is a polynomial.
    """
    size = f.magnitude(x)
    y = f.select("oeq", size, f.number(inf), size, _called(code, "gammaln", x))
    is_tiny = f.compare("olt", size, f.number(sys.float_info.min))
    logarithm = functions.call(code, "log", DType.F64, size)
    y = f.either(is_tiny, f.negate(logarithm), y)
    distance = f.magnitude(f.subtract(x, f.number(ROOTS_MIDPOINT)))
    return f.select("olt", distance, f.number(POLYNOMIAL_RADIUS), _lgamma_near_roots(code, f, x), y)


def _lgamma_near_roots(code: Code, f: Formula, x: Value) -> Value:
    """Write log Gamma(x) for 1/2 <= x <= 5/2. For x below 3/2 it is log Gamma(x + 1) - log x."""
    zero, one = f.number(0.0), f.number(1.0)
    is_near_one = f.compare("olt", x, f.number(ROOTS_MIDPOINT))
    s = f.subtract(x, f.either(is_near_one, one, f.number(2.0)))
    logarithm = functions.call(code, "log1p", DType.F64, f.either(is_near_one, s, zero))
    return f.subtract(f.multiply(s, f.polynomial(s, LGAMMA_COEFFICIENTS)), logarithm)


@_in_float64
def digamma(code: Code, f: Formula, x: Value) -> Value:
    """Write psi(x), which is NaN at poles.

    For x < 0 it is psi(1 - x) - pi cot(pi r), where r is x minus the nearest integer.
    """
    zero = f.number(0.0)
    is_negative = f.compare("olt", x, zero)
    y = _called(code, "psi", f.either(is_negative, f.subtract(f.number(1.0), x), x))
    r = f.subtract(x, f.intrinsic("rint", x))
    tangent = functions.call(code, "tan", DType.F64, f.multiply(f.number(pi), r))
    reflected = f.subtract(y, f.divide(f.number(pi), tangent))
    y = f.either(is_negative, reflected, y)
    is_pole = code.value("and", f.compare("oeq", r, zero), f.compare("ole", x, zero))
    return f.either(is_pole, f.number(nan), y)
