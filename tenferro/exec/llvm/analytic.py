"""LLVM lowerings of the analytic ops; `functions.FUNCTIONS` declares the error bounds of their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.llvm import functions, gamma
from tenferro.exec.llvm.code import Code, Element, literal
from tenferro.exec.llvm.complex_functions import complex_exponential
from tenferro.exec.llvm.elementwise import elementwise
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.ops import analytic as an
from tenferro.types import DType

__all__ = ["ROWS"]


def sqrt(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the correctly rounded square root of x."""
    return code.intrinsic("sqrt", xs[0])


def rsqrt(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write 1 / sqrt(x) as a square root and a division, with the bits of the interpreter's kernel."""
    return code.value("fdiv", literal(1.0, dtype), sqrt(code, op, dtype, xs))


def vectorised(
    name: str, complex_function: Callable[[Code, DType, Element], Element] | None = None
) -> Row:
    """Return the lowering of an op to the function `functions.FUNCTIONS[name]`, which can be vectorised.

    Args:
        complex_function: writes the function of a complex number; None if complex numbers are interpreted.
    """

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        if dtype.is_complex and complex_function is not None:
            return complex_function(code, dtype, xs[0])
        return functions.call(code, name, dtype, *xs)

    return elementwise(scalar, rounds=True, floats_only=complex_function is None)


_INTERPRETED = not_compiled("no scalar form is written")
ROWS: Rows = {
    **dict.fromkeys(an.CARDS, _INTERPRETED),
    **{op: vectorised(op.__name__.lower()) for op in (
        an.Acos, an.Acosh, an.Asin, an.Asinh, an.Atan, an.Atan2, an.Atanh, an.Cbrt, an.Cos, an.Cosh, an.Erf, an.ErfInv,
        an.Erfc, an.Expm1, an.Log, an.Log1p, an.Logistic, an.Sin, an.Sinh, an.Tan, an.Tanh,
    )},
    an.Exp: vectorised("exp", complex_exponential),
    an.Sqrt: elementwise(sqrt, rounds=True, floats_only=True),
    an.Rsqrt: elementwise(rsqrt, rounds=True, floats_only=True),
    an.Lgamma: elementwise(gamma.lgamma, rounds=True),
    an.Digamma: elementwise(gamma.digamma, rounds=True),
}  # fmt: skip
