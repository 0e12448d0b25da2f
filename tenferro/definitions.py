"""Definitions of elementary and special functions in mpmath, which computes them to any number of digits.

Tests, accuracy tables and the parity check take expected values from `DEFINITIONS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops.column import Column

__all__ = ["DEFINITIONS", "Definition", "definition_of"]

Definition = Callable[..., Any]
"""Function of the module `mpmath`, the op, and the operands as mpmath numbers. It returns the exact result."""


def _named(name: str) -> Definition:
    return lambda m, op, *xs: getattr(m, name)(*xs)


DEFINITIONS: Column[Definition] = Column(
    "definition",
    "tenferro/definitions.py",
    (*an.CARDS, el.Power),
    {
        an.Exp: _named("exp"),
        an.Expm1: _named("expm1"),
        an.Log: _named("log"),
        an.Log1p: _named("log1p"),
        an.Sqrt: _named("sqrt"),
        an.Rsqrt: lambda m, op, x: 1 / m.sqrt(x),
        an.Cbrt: lambda m, op, x: m.sign(x) * m.cbrt(abs(x)),
        an.Sin: _named("sin"),
        an.Cos: _named("cos"),
        an.Tan: _named("tan"),
        an.Tanh: _named("tanh"),
        an.Logistic: lambda m, op, x: 1 / (1 + m.exp(-x)),
        an.Asin: _named("asin"),
        an.Acos: _named("acos"),
        an.Atan: _named("atan"),
        an.Sinh: _named("sinh"),
        an.Cosh: _named("cosh"),
        an.Asinh: _named("asinh"),
        an.Acosh: _named("acosh"),
        an.Atanh: _named("atanh"),
        an.Erf: _named("erf"),
        an.Erfc: _named("erfc"),
        an.ErfInv: _named("erfinv"),
        an.Lgamma: lambda m, op, x: m.re(m.loggamma(x)),
        an.Digamma: _named("digamma"),
        an.Polygamma: lambda m, op, x: m.psi(op.order, x),
        an.Atan2: _named("atan2"),
        el.Power: _named("power"),
    },
)
"""Definition of each op at finite operands inside the op's domain. At a pole, a definition raises an error or returns
infinity, like the functions of mpmath."""


def definition_of(op: StdTensorOp) -> Callable[..., Any]:
    """Return the function that an op computes, as a function of mpmath numbers.

    Raises:
        ImportError: mpmath is not installed.
        KeyError: the table has no definition of the op.

    >>> import mpmath
    >>> with mpmath.workdps(25):
    ...     print(definition_of(an.Erf())(mpmath.mpf(1)))
    0.8427007929497148693412206
    """
    return partial(DEFINITIONS[type(op)], importlib.import_module("mpmath"), op)
