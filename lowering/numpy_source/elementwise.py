"""Python code of elementwise ops: Python's operators and NumPy's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lowering.numpy_source.broadcasting import binary, operands_of, operator_text
from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, in_parentheses
from tenferro.ops import elementwise as ops
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS", "function", "is_square", "own"]

SIGNS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
INTEGERS = "iu"


def function(name: str) -> Any:
    """Return the function that writes a call of `np.<name>`."""

    def cell(op: Any, w: Writer, *operands: Expression) -> Code:
        return call(f"np.{name}", *[code.text for code in operands_of(w, operands)])

    return cell


def own(name: str) -> Any:
    """Return the function that writes a call of the function `name` in `functions.py`."""

    def cell(op: Any, w: Writer, *operands: Expression) -> Code:
        return call(w.function(name), *[code.text for code in operands_of(w, operands, [])])

    return cell


def logical(symbol: str, level: Level, on_bool: str, bool_level: Level) -> Any:
    """Return a function that writes the operator `on_bool` for bool operands, and the operator `symbol` for others.

    Args:
        level, bool_level: the precedences of `symbol` and `on_bool` in Python.
    """
    arithmetic, logic = binary(symbol, level), binary(on_bool, bool_level)
    return lambda op, w, lhs, rhs: (logic if lhs.spec.dtype.is_bool else arithmetic)(
        op, w, lhs, rhs
    )


def is_square(op: Any, inputs: Sequence[Any], spec: TensorSpec) -> bool:
    """Return whether an op is written as the square of its operand, which `**` computes as the product.

    NumPy computes the square of a scalar by its power function, which may round differently.
    """
    is_real = spec.dtype.is_float or spec.dtype.is_integer
    return isinstance(op, ops.Multiply) and inputs[0] == inputs[1] and spec.rank > 0 and is_real


def multiply(op: Any, w: Writer, lhs: Expression, rhs: Expression) -> Code:
    """Write `x**2` for the square of an array, `&` for bools, and else `*`."""
    if is_square(op, (lhs, rhs), lhs.spec) and lhs.code.number is None:
        return Code(f"{lhs.at(Level.ATOM)}**2", Level.POWER)
    return logical("*", Level.PRODUCT, "&", Level.AND)(op, w, lhs, rhs)


def by_kind(of_integers: Any, of_others: Any) -> Any:
    """Return a function that calls `of_integers` if the first operand has an integer dtype, else `of_others`."""
    return lambda op, w, *operands: (
        of_integers if operands[0].spec.dtype.is_integer else of_others
    )(op, w, *operands)


def remainder(op: Any, w: Writer, x: Expression, y: Expression) -> Code:
    """Write `np.fmod`, or a call of `integer_remainder` in `functions.py` if y is an integer that may be zero."""
    number = y.code.number
    is_safe = not x.spec.dtype.is_integer or (number is not None and number.text != "0")
    return (function("fmod") if is_safe else own("integer_remainder"))(op, w, x, y)


def power(op: Any, w: Writer, x: Expression, y: Expression) -> Code:
    """Write `**` if the exponent is a constant number, else a call of `power` or `integer_power` in `functions.py`.

    These functions are also called for the exponent 0.5, for which NumPy computes a square root, and for negative
    exponents of integers, which NumPy rejects.
    """
    number, dtype = y.code.number, x.spec.dtype
    if dtype.is_integer:
        is_simple = number is not None and number.level is not Level.UNARY
        return (binary("**", Level.POWER) if is_simple else own("integer_power"))(op, w, x, y)
    if dtype.is_complex:
        return function("power")(op, w, x, y)
    if number is not None and number.text != "0.5":
        return binary("**", Level.POWER)(op, w, x, y)
    return own("power")(op, w, x, y)


def negate(op: Any, w: Writer, x: Expression) -> Code:
    """Write `-x`; if x is itself a negation, return the code of x's operand instead."""
    if isinstance(x.op, ops.Negate):
        return x.operands[0].code
    text = str(x)
    return Code(f"-({text})" if text.startswith("-") else f"-{x.at(Level.UNARY)}", Level.UNARY)


def invert(op: Any, w: Writer, x: Expression) -> Code:
    """Write `~x`."""
    return Code(f"~{x.at(Level.UNARY)}", Level.UNARY)


def compare(op: ops.Compare, w: Writer, lhs: Expression, rhs: Expression) -> Code:
    """Write a comparison operator; `x == True` is written as `x`, and `x == False` as `~x`.

    A comparison of a float with itself, which is a test for NaN, is written as a call of `np.isnan`.
    """
    sign = SIGNS[op.direction]
    if lhs is rhs and lhs.spec.dtype.is_inexact and sign in ("==", "!="):
        test = call("np.isnan", lhs)
        return test if sign == "!=" else Code(f"~{test.text}", Level.UNARY)
    if lhs.spec.dtype.is_bool and sign in ("==", "!="):
        x, other = (rhs, lhs) if lhs.code.number is not None else (lhs, rhs)
        if other.code.number is not None and x.code.number is None:
            is_kept = (sign == "==") == (other.code.number.text == "True")
            return x.code if is_kept else invert(op, w, x)
    return operator_text(SIGNS[op.direction], Level.COMPARISON, *operands_of(w, (lhs, rhs)))


def select(op: Any, w: Writer, pred: Expression, on_true: Expression, on_false: Expression) -> Code:
    """Write `np.where`."""
    codes = operands_of(w, (pred, on_true, on_false), [1, 2])
    return call("np.where", *[code.text for code in codes])


def shift(symbol: str, name: str) -> Any:
    """Return the function that writes a shift, as the operator `symbol` or as a call of `name` in `functions.py`.

    The operator is written if the amount is a constant below the number of bits. The function `name` also supports
    larger amounts, for which NumPy's operators are undefined.
    """

    def cell(op: Any, w: Writer, x: Expression, y: Expression) -> Code:
        number, dtype = y.code.number, x.spec.dtype
        is_simple = number is not None and number.text.isdigit() and int(number.text) < dtype.bits
        if name == "shift_right_logical":
            is_simple = is_simple and dtype.kind == "u"
        if name == "shift_right_arithmetic":
            is_simple = is_simple and dtype.kind == "i"
        if is_simple and x.code.number is None:
            return operator_text(symbol, Level.SHIFT, *operands_of(w, (x, y)))
        return call(w.function(name), *[code.text for code in operands_of(w, (x, y), [])])

    return cell


def convert(op: ops.Convert, w: Writer, x: Expression) -> Code:
    """Write a conversion; from float to integer it saturates, and from complex to real it uses the real part."""
    dtype, to = x.spec.dtype, op.to
    w.dtype(dtype)
    if dtype.is_complex and to.is_bool:
        return Code(f"{x.at(Level.OR)} != 0", Level.COMPARISON)
    base = x.at(Level.ATOM)
    if dtype.is_complex and not to.is_complex:
        base, dtype = f"{base}.real", dtype.real
    if dtype.is_float and to.is_integer:
        return call(w.function("to_integer"), base, w.dtype(to))
    return Code(f"{base}.astype({w.dtype(to)})")


def bitcast_convert(op: ops.BitcastConvert, w: Writer, x: Expression) -> Code:
    """Write a view of the bits as another dtype: a narrower dtype adds a last axis, a wider dtype removes it."""
    old, new = x.spec.dtype.itemsize, op.to.itemsize
    w.dtype(x.spec.dtype)
    if old == new:
        return Code(f"{x.at(Level.ATOM)}.view({w.dtype(op.to)})")
    return call(w.function("reinterpreted"), x, w.dtype(op.to))


def conj(op: Any, w: Writer, x: Expression) -> Code:
    """Write `np.conj`; return a real x unchanged."""
    return call("np.conj", x) if x.spec.dtype.is_complex else x.code


def real(op: Any, w: Writer, x: Expression) -> Code:
    """Write `x.real`; return a real x unchanged."""
    return Code(f"{x.at(Level.ATOM)}.real", free=x.is_name) if x.spec.dtype.is_complex else x.code


def imag(op: Any, w: Writer, x: Expression) -> Code:
    """Write `x.imag`, or zeros for a real x."""
    if x.spec.dtype.is_complex:
        return Code(f"{x.at(Level.ATOM)}.imag", free=x.is_name)
    return call("np.zeros_like", x)


def reduce_precision(op: ops.ReducePrecision, w: Writer, x: Expression) -> Code:
    """Write a call of the function `reduce_precision`, which the generated file includes."""
    return call(w.function("reduce_precision"), x, op.exponent_bits, op.mantissa_bits)


def upcast(name: str) -> Any:
    """Return the function that writes a call of `name` in `functions.py`, with float16 computed in float32."""

    def cell(op: Any, w: Writer, *operands: Expression) -> Code:
        codes = operands_of(w, operands, [])
        if operands[0].spec.dtype is not DType.F16:
            return call(w.function(name), *[code.text for code in codes])
        wide = [f"{in_parentheses(code, Level.ATOM)}.astype(np.float32)" for code in codes]
        return Code(f"{call(w.function(name), *wide).text}.astype(np.float16)")

    return cell


ROWS: Rows = {
    ops.Add: logical("+", Level.SUM, "|", Level.OR),
    ops.Subtract: binary("-", Level.SUM),
    ops.Multiply: multiply,
    ops.Divide: by_kind(own("integer_quotient"), binary("/", Level.PRODUCT)),
    ops.Remainder: remainder,
    ops.Power: power,
    ops.Maximum: function("maximum"),
    ops.Minimum: function("minimum"),
    ops.Negate: negate,
    ops.Abs: function("abs"),
    ops.Sign: function("sign"),
    ops.Clamp: function("clip"),
    ops.Compare: compare,
    ops.Select: select,
    ops.And: binary("&", Level.AND),
    ops.Or: binary("|", Level.OR),
    ops.Xor: binary("^", Level.XOR),
    ops.Not: invert,
    ops.ShiftLeft: shift("<<", "shift_left"),
    ops.ShiftRightArithmetic: shift(">>", "shift_right_arithmetic"),
    ops.ShiftRightLogical: shift(">>", "shift_right_logical"),
    ops.PopulationCount: own("population_count"),
    ops.CountLeadingZeros: own("count_leading_zeros"),
    ops.Floor: function("floor"),
    ops.Ceil: function("ceil"),
    ops.RoundNearestEven: function("rint"),
    ops.RoundNearestAfz: own("round_half_away"),
    ops.IsFinite: function("isfinite"),
    ops.Convert: convert,
    ops.BitcastConvert: bitcast_convert,
    ops.Conj: conj,
    ops.Real: real,
    ops.Imag: imag,
    ops.Complex: own("complex_of"),
    ops.ReducePrecision: reduce_precision,
}
