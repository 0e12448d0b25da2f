"""Python code of analytic ops: calls of NumPy's functions, or of functions in `functions.py` that NumPy lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowering.numpy_source.elementwise import function, upcast
from lowering.numpy_source.expression import Code, Expression, Level, Rows, call
from tenferro.ops import analytic as ops
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


def of_complex(name: str, complex_name: str) -> Any:
    """Return the function that writes `np.<name>(x)`, or a call of `complex_name` in `functions.py` for a complex x."""
    of_real, of_others = function(name), upcast(complex_name)
    return lambda op, w, x: (of_others if x.spec.dtype.is_complex else of_real)(op, w, x)


def rsqrt(op: Any, w: Writer, x: Expression) -> Code:
    """Write `1 / np.sqrt(x)`; for float16 and complex x, write a call of `rsqrt` in `functions.py`.

    The call computes float16 in float32, so that the result is rounded only once.
    """
    if x.spec.dtype.is_complex or x.spec.dtype is DType.F16:
        return upcast("rsqrt")(op, w, x)
    return Code(f"1 / {call('np.sqrt', x).text}", Level.PRODUCT)


def polygamma(op: ops.Polygamma, w: Writer, x: Expression) -> Code:
    """Write a call of `polygamma` in `functions.py`, with the op's order as its first argument.

    A float16 operand is converted to float32, and the result is converted back.
    """
    if x.spec.dtype is DType.F16:
        wide = call(w.function("polygamma"), op.order, f"{x.at(Level.ATOM)}.astype(np.float32)")
        return Code(f"{wide.text}.astype(np.float16)")
    return call(w.function("polygamma"), op.order, x)


UFUNCS: Rows = {card: function(card.ufunc) for card in ops.CARDS if card.ufunc}
"""Functions that write a call of a NumPy ufunc, for the op classes whose attribute `ufunc` names the ufunc."""
ROWS: Rows = {
    **UFUNCS,
    ops.Expm1: of_complex("expm1", "complex_expm1"),
    ops.Log1p: of_complex("log1p", "complex_log1p"),
    ops.Rsqrt: rsqrt,
    ops.Tanh: function("tanh"),
    ops.Logistic: upcast("logistic"),
    ops.Erf: upcast("erf"),
    ops.Erfc: upcast("erfc"),
    ops.ErfInv: upcast("erfinv"),
    ops.Lgamma: upcast("lgamma"),
    ops.Digamma: upcast("digamma"),
    ops.Polygamma: polygamma,
}
