"""LLVM lowerings of the elementwise ops; results have NumPy's bits, because no operations are contracted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal, llvm_type
from tenferro.exec.llvm.conversion import bitcast, bitcast_refusal, convert, instruction_kind
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.tensor import Body, Specs, Tensors, elementwise_tensor
from tenferro.ops import elementwise as el
from tenferro.types import DType

__all__ = ["ROWS", "Scalar", "elementwise", "maximum", "minimum", "select", "subtract"]

Scalar = Callable[[Code, Any, DType, Sequence[Element]], Element]
"""Function `scalar(code, op, dtype, elements)` that writes an op on elements, and returns the result's element.

`dtype` is the dtype of the first operand.
"""


def elementwise(scalar: Scalar, rounds: bool = False, floats_only: bool = False) -> Row:
    """Return the lowering of an elementwise op that `scalar` writes for one element.

    Args:
        rounds: whether float16 and bfloat16 results, which are computed in float32, have to be rounded.
        floats_only: whether the op is compiled for floats only, although it accepts other dtypes.
    """

    def write(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
        dtype, code = operands[0].spec.dtype, body.code

        def element(index: Any) -> Element:
            value = scalar(code, op, dtype, [body.at(x, index) for x in operands])
            return code.rounded(value, types[0].dtype) if rounds else value

        return [elementwise_tensor(types[0], element, operands)]

    def refusal(op: Any, operands: Specs) -> str:
        dtype = operands[0].dtype
        return f"{dtype.value} is not compiled" if floats_only and not dtype.is_float else ""

    return Row(write, refusal=refusal)


def instruction(float_: str, integer: str) -> Scalar:
    """Return a function that writes an LLVM instruction for x and y, or for each part of complex x and y.

    Args:
        float_, integer: the opcodes for floats and for integers.
    """

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        x, y = xs
        if dtype.is_complex:
            return tuple([code.value(float_, a, b) for a, b in zip(x, y, strict=True)])
        return code.value(float_ if dtype.is_inexact else integer, x, y)

    return scalar


def add(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x + y, for bools x or y."""
    if dtype.is_bool:
        return code.value("or", xs[0], xs[1])
    return instruction("fadd", "add")(code, op, dtype, xs)


subtract = instruction("fsub", "sub")


def multiply(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x y, for bools x and y, for complex numbers (ac - bd) + (ad + bc)i with rounded products."""
    if dtype.is_bool:
        return code.value("and", xs[0], xs[1])
    if not dtype.is_complex:
        return instruction("fmul", "mul")(code, op, dtype, xs)
    (a, b), (c, d) = xs
    ac, bd, ad, bc = (code.value("fmul", x, y) for x, y in ((a, c), (b, d), (a, d), (b, c)))
    return code.value("fsub", ac, bd), code.value("fadd", ad, bc)


def divide(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x / y; an integer quotient is truncated, and all bits of x / 0 are set."""
    kind, (x, y) = instruction_kind(dtype), xs
    if kind == "complex":
        return _divide_complex(code, dtype, x, y)
    if kind == "float":
        return code.value("fdiv", x, y)
    return _divide_integers(code, dtype, xs, "div", over_zero="-1")


def _divide_complex(code: Code, dtype: DType, x: Element, y: Element) -> Element:
    """Write a complex quotient by Smith's algorithm, as in NumPy; zero divisors are treated as positive zeros.

    Source: Smith, Algorithm 116: complex division, CACM 5 (1962).
    """
    one, zero = literal(1.0, dtype.real), literal(0.0, dtype.real)
    arithmetic, select = code.value, code.select
    sizes = [code.intrinsic("fabs", part) for part in y]
    (a, b), (c, d) = x, y
    is_first = code.fcmp("oge", sizes[0], sizes[1])
    larger, smaller = select(is_first, c, d), select(is_first, d, c)
    ratio = arithmetic("fdiv", smaller, larger)
    scale = arithmetic("fdiv", one, arithmetic("fadd", larger, arithmetic("fmul", smaller, ratio)))
    # For |c| >= |d|, the quotient is (a + b r, b - a r) times `scale`, else (a r + b, b r - a) times `scale`.
    near, far = select(is_first, a, b), select(is_first, b, a)
    real = arithmetic("fadd", near, arithmetic("fmul", far, ratio))
    product = arithmetic("fmul", near, ratio)
    imag = select(is_first, arithmetic("fsub", far, product), arithmetic("fsub", product, far))
    parts = [arithmetic("fmul", part, scale) for part in (real, imag)]
    is_zero = code.fcmp("oeq", arithmetic("fadd", *sizes), zero)
    return tuple(
        [
            select(is_zero, arithmetic("fdiv", above, zero), part)
            for above, part in zip(x, parts, strict=True)
        ]
    )


def remainder(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the remainder of truncated division, for floats C's fmod; for integers, x rem 0 is x."""
    kind, (x, y) = instruction_kind(dtype), xs
    if kind == "float":
        return code.value("frem", x, y)
    return _divide_integers(code, dtype, xs, "rem", over_zero=x)


def _divide_integers(
    code: Code, dtype: DType, xs: Sequence[Element], name: str, over_zero: str
) -> Value:
    """Write an integer quotient or remainder that never traps: 0 and -1 are replaced by 1 as divisors.

    x / -1 is -x, which wraps, and the result for the divisor 0 is `over_zero`.
    """
    (x, y), is_signed = xs, instruction_kind(dtype) == "signed"
    unsafe = is_zero = code.icmp("eq", y, 0)
    is_minus_one = code.icmp("eq", y, -1) if is_signed else "false"
    if is_signed:
        unsafe = code.value("or", is_zero, is_minus_one)
    safe = code.select(unsafe, 1, y)
    result = code.value(f"{'s' if is_signed else 'u'}{name}", x, safe)
    if is_signed and name == "div":
        opposite = code.value("sub", 0, x)
        result = code.select(is_minus_one, opposite, result)
    return code.select(is_zero, over_zero, result)


def power(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x^y for floats."""
    return functions.call(code, "pow", dtype, *xs)


def negate(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write -x."""
    (x,) = xs
    if dtype.is_complex:
        return tuple([code.value("fneg", part) for part in x])
    if dtype.is_inexact:
        return code.value("fneg", x)
    return code.value("sub", 0, x)


def absolute(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write |x|; for the minimum of a signed integer dtype, the result is x."""
    (x,) = xs
    if dtype.is_complex:
        return functions.call(code, "hypot", dtype.real, *x)
    if dtype.is_inexact:
        return code.intrinsic("fabs", x)
    if instruction_kind(dtype) == "unsigned":
        return x
    is_negative = code.icmp("slt", x, 0)
    negated = code.value("sub", 0, x)
    return code.select(is_negative, negated, x)


def sign(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the sign of x: -1 or 1, or x if x is zero or NaN; for complex numbers, x / |x|."""
    (x,) = xs
    kind = instruction_kind(dtype)
    if kind == "float":
        one = code.intrinsic("copysign", literal(1.0, dtype), x)
        is_unchanged = code.fcmp("ueq", x, literal(0.0, dtype))
        return code.select(is_unchanged, x, one)
    if kind == "complex":
        return _complex_sign(code, op, dtype, x)
    above = code.icmp("sgt" if kind == "signed" else "ugt", x, 0)
    positive = code.cast("zext", above, llvm_type(dtype))
    if kind == "unsigned":
        return positive
    below = code.icmp("slt", x, 0)
    return code.select(below, -1, positive)


def _complex_sign(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """Write x / |x|, or 0 if x is 0."""
    zero = literal(0.0, dtype.real)
    modulus = absolute(code, op, dtype, [x])
    is_zero = code.fcmp("oeq", modulus, zero)
    parts = _divide_complex(code, dtype, x, (modulus, zero))
    return select(code, dtype, is_zero, (zero, zero), parts)


def extreme(name: str, order: str, of_bools: str) -> Scalar:
    """Return a function that writes the larger or the smaller of x and y; NaN if one is NaN, and 0.0 > -0.0.

    Args:
        name: the LLVM intrinsic for floats.
        order: "gt" for the larger, "lt" for the smaller.
        of_bools: the opcode for bools.
    """

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        kind = instruction_kind(dtype)
        if dtype.is_bool:
            return code.value(of_bools, *xs)
        if kind == "float":
            return code.intrinsic(name, *xs)
        return code.select(code.icmp(f"{kind[0]}{order}", *xs), *xs)

    return scalar


maximum, minimum = extreme("maximum", "gt", "or"), extreme("minimum", "lt", "and")


def clamp(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write min(max(x, lower), upper)."""
    x, lower, upper = xs
    return minimum(code, op, dtype, [maximum(code, op, dtype, [x, lower]), upper])


def compare(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the comparison `op.direction` of x and y; with NaN, it is true only for "NE"."""
    (x, y), kind = xs, instruction_kind(dtype)
    order = op.direction.lower()
    if kind == "complex":
        predicate = "oeq" if order == "eq" else "une"
        a, b = (code.fcmp(predicate, p, q) for p, q in zip(x, y, strict=True))
        return code.value("and" if order == "eq" else "or", a, b)
    if kind == "float":
        return code.fcmp("une" if order == "ne" else f"o{order}", x, y)
    signed = "" if order in ("eq", "ne") else "s" if kind == "signed" else "u"
    return code.icmp(f"{signed}{order}", x, y)


def select(code: Code, dtype: DType, condition: str, x: Element, y: Element) -> Element:
    """Write x if the condition is true, else y."""
    if not dtype.is_complex:
        return code.select(condition, x, y)
    return tuple([code.select(condition, a, b) for a, b in zip(x, y, strict=True)])


def _select(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    pred, on_true, on_false = operands
    code, dtype = body.code, types[0].dtype

    def element(index: Any) -> Element:
        condition = body.at(pred, index if pred.spec.shape else ())
        return select(code, dtype, condition, body.at(on_true, index), body.at(on_false, index))

    return [elementwise_tensor(types[0], element, operands)]


def shift(name: str) -> Scalar:
    """Return a function that writes a shift of x by y bits, where y is unsigned.

    If y is at least the width, the result is 0; for an arithmetic right shift, it is -1 if x is negative.
    """

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        x, y = xs
        width = 8 * dtype.itemsize
        inside = code.icmp("ult", y, width)
        amount = code.select(inside, y, width - 1)
        shifted = code.value(name, x, amount)
        if name == "ashr":
            return shifted
        return code.select(inside, shifted, 0)

    return scalar


def intrinsic(name: str, *operands: Value) -> Scalar:
    """Return a function that writes a call of an LLVM intrinsic with x and constant operands."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        return code.intrinsic(name, xs[0], *operands)

    return scalar


def is_finite(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write whether x is neither infinite nor NaN."""
    modulus = absolute(code, op, dtype, xs)
    return code.fcmp("one", modulus, literal(float("inf"), dtype))


def invert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the bitwise complement of x."""
    return code.value("xor", xs[0], "true" if dtype.is_bool else "-1")


def conj(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the complex conjugate of x."""
    (x,) = xs
    if not dtype.is_complex:
        return x
    return x[0], code.value("fneg", x[1])


def real(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Return the real part of x."""
    return xs[0][0] if dtype.is_complex else xs[0]


def imag(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Return the imaginary part of x, which is 0 for a real dtype."""
    return xs[0][1] if dtype.is_complex else literal(0, dtype)


ROWS: Rows = {
    el.Add: elementwise(add, rounds=True),
    el.Subtract: elementwise(subtract, rounds=True),
    el.Multiply: elementwise(multiply, rounds=True),
    el.Divide: elementwise(divide, rounds=True),
    el.Remainder: elementwise(remainder),
    el.Power: elementwise(power, rounds=True, floats_only=True),
    el.Maximum: elementwise(maximum),
    el.Minimum: elementwise(minimum),
    el.Negate: elementwise(negate),
    el.Abs: elementwise(absolute),
    el.Sign: elementwise(sign),
    el.Clamp: elementwise(clamp),
    el.Compare: elementwise(compare),
    el.Select: Row(_select),
    el.And: elementwise(instruction("", "and")),
    el.Or: elementwise(instruction("", "or")),
    el.Xor: elementwise(instruction("", "xor")),
    el.Not: elementwise(invert),
    el.ShiftLeft: elementwise(shift("shl")),
    el.ShiftRightArithmetic: elementwise(shift("ashr")),
    el.ShiftRightLogical: elementwise(shift("lshr")),
    el.PopulationCount: elementwise(intrinsic("ctpop")),
    el.CountLeadingZeros: elementwise(intrinsic("ctlz", Value("false", "i1"))),
    el.Floor: elementwise(intrinsic("floor")),
    el.Ceil: elementwise(intrinsic("ceil")),
    el.RoundNearestEven: elementwise(intrinsic("rint")),
    el.RoundNearestAfz: elementwise(intrinsic("round")),
    el.IsFinite: elementwise(is_finite),
    el.Convert: elementwise(convert),
    el.BitcastConvert: replace(elementwise(bitcast), refusal=bitcast_refusal),
    el.Conj: elementwise(conj),
    el.Real: elementwise(real),
    el.Imag: elementwise(imag),
    el.Complex: elementwise(lambda code, op, dtype, xs: tuple(xs)),
    el.ReducePrecision: not_compiled("narrower mantissas are not compiled"),
}
