"""Rows of the elementwise family: NumPy's bits, without contraction or reassociation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal, llvm_type
from tenferro.exec.llvm.conversion import bitcast, bitcast_refusal, convert
from tenferro.exec.llvm.quotient import divided_by
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.scalar import Scalar, is_real, kind_of, refused, suffix_of
from tenferro.exec.llvm.tensor import Body, Tensor, same_place
from tenferro.ops import elementwise as el
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "elementwise", "maximum", "minimum"]


def elementwise(
    scalar: Scalar,
    is_exact: bool = True,
    complex_is_exact: bool = True,
    rounds: bool = False,
    dtypes: Callable[[DType], bool] = lambda dtype: True,
) -> Row:
    """The row of a function of elements.

    Args:
        rounds: whether results of float16 and bfloat16, which are computed in float32, have to be rounded.
        dtypes: whether the function is compiled for a dtype of the first operand.
    """

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        dtype, code = operands[0].spec.dtype, body.code

        def element(index: Any) -> Element:
            value = scalar(code, op, dtype, [body.at(x, index) for x in operands])
            return code.rounded(value, types[0].dtype) if rounds else value

        return [same_place(types[0], element, operands)]

    def refusal(op: Any, operands: Sequence[TensorSpec]) -> str:
        dtype = operands[0].dtype
        return "" if dtypes(dtype) else f"{dtype.value} is not compiled"

    return Row(write, is_exact=is_exact, complex_is_exact=complex_is_exact, refusal=refusal)


def instruction(float_: str, integer: str) -> Scalar:
    """One instruction for each kind of number; of complex ones for each part."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        (x, y), kind = xs, llvm_type(dtype)
        if dtype.is_bool:
            raise refused(op, dtype)
        if dtype.is_complex:
            return tuple(
                [code.value(f"{float_} {kind} {a}, {b}") for a, b in zip(x, y, strict=True)]
            )
        return code.value(f"{float_ if dtype.is_inexact else integer} {kind} {x}, {y}")

    return scalar


def add(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A sum; of bools their or."""
    if dtype.is_bool:
        return code.value(f"or i1 {xs[0]}, {xs[1]}")
    return instruction("fadd", "add")(code, op, dtype, xs)


def multiply(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A product; of bools their and; of complex numbers ac - bd and ad + bc, each product rounded."""
    if dtype.is_bool:
        return code.value(f"and i1 {xs[0]}, {xs[1]}")
    if not dtype.is_complex:
        return instruction("fmul", "mul")(code, op, dtype, xs)
    kind = llvm_type(dtype)
    (a, b), (c, d) = xs
    ac, bd, ad, bc = (
        code.value(f"fmul {kind} {x}, {y}") for x, y in ((a, c), (b, d), (a, d), (b, c))
    )
    return code.value(f"fsub {kind} {ac}, {bd}"), code.value(f"fadd {kind} {ad}, {bc}")


def divide(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A quotient; of integers it truncates, and is all ones over 0."""
    kind, (x, y) = kind_of(dtype), xs
    if kind == "complex":
        return _divide_complex(code, dtype, x, y)
    if kind == "float":
        if dtype is DType.F64 and str(y).startswith("0x"):
            return divided_by(code, x, y)
        return code.value(f"fdiv {llvm_type(dtype)} {x}, {y}")
    if dtype.is_bool:
        raise refused(op, dtype)
    return _of_integers(code, dtype, xs, "div", over_zero="-1")


def _divide_complex(code: Code, dtype: DType, x: Element, y: Element) -> Element:
    """By the larger part of the divisor, as NumPy does it; over 0 by a positive 0.

    Source: Smith, Algorithm 116: complex division, CACM 5 (1962).
    """
    kind, one, zero = llvm_type(dtype), literal(1.0, dtype.real), literal(0.0, dtype.real)

    def arithmetic(name: str, a: str, b: str) -> str:
        return code.value(f"{name} {kind} {a}, {b}")

    def either(chosen: str, a: str, b: str) -> str:
        return code.value(f"select i1 {chosen}, {kind} {a}, {kind} {b}")

    name = f"llvm.fabs.{suffix_of(dtype)}"
    sizes = [code.call(name, kind, [(kind, part)]) for part in y]
    (a, b), (c, d) = x, y
    is_first = code.value(f"fcmp oge {kind} {sizes[0]}, {sizes[1]}")
    larger, smaller = either(is_first, c, d), either(is_first, d, c)
    ratio = arithmetic("fdiv", smaller, larger)
    scale = arithmetic("fdiv", one, arithmetic("fadd", larger, arithmetic("fmul", smaller, ratio)))
    # (a + b r, b - a r), or (a r + b, b r - a) where the imaginary part is larger.
    near, far = either(is_first, a, b), either(is_first, b, a)
    real = arithmetic("fadd", near, arithmetic("fmul", far, ratio))
    product = arithmetic("fmul", near, ratio)
    imag = either(is_first, arithmetic("fsub", far, product), arithmetic("fsub", product, far))
    parts = [arithmetic("fmul", part, scale) for part in (real, imag)]
    is_zero = code.value(f"fcmp oeq {kind} {arithmetic('fadd', *sizes)}, {zero}")
    return tuple(
        [
            either(is_zero, arithmetic("fdiv", above, zero), part)
            for above, part in zip(x, parts, strict=True)
        ]
    )


def remainder(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """C's fmod; x over integer 0 leaves x."""
    kind, (x, y) = kind_of(dtype), xs
    if kind == "float":
        return code.value(f"frem {llvm_type(dtype)} {x}, {y}")
    if kind == "complex" or dtype.is_bool:
        raise refused(op, dtype)
    return _of_integers(code, dtype, xs, "rem", over_zero=x)


def _of_integers(code: Code, dtype: DType, xs: Sequence[Element], name: str, over_zero: str) -> str:
    """A quotient or rest of integers, by 1 where the divisor would trap: over -1 a quotient is -x, which wraps."""
    (x, y), type_, is_signed = xs, llvm_type(dtype), kind_of(dtype) == "signed"
    unsafe = is_zero = code.value(f"icmp eq {type_} {y}, 0")
    is_minus_one = code.value(f"icmp eq {type_} {y}, -1") if is_signed else "false"
    if is_signed:
        unsafe = code.value(f"or i1 {is_zero}, {is_minus_one}")
    safe = code.value(f"select i1 {unsafe}, {type_} 1, {type_} {y}")
    result = code.value(f"{'s' if is_signed else 'u'}{name} {type_} {x}, {safe}")
    if is_signed and name == "div":
        opposite = code.value(f"sub {type_} 0, {x}")
        result = code.value(f"select i1 {is_minus_one}, {type_} {opposite}, {type_} {result}")
    return code.value(f"select i1 {is_zero}, {type_} {over_zero}, {type_} {result}")


def power(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Of floats; squares and the like are products elsewhere."""
    if kind_of(dtype) != "float":
        raise refused(op, dtype)
    return functions.call(code, "pow", dtype, *xs)


def negate(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The number with the other sign."""
    (x,) = xs
    type_ = llvm_type(dtype)
    if dtype.is_complex:
        return tuple([code.value(f"fneg {type_} {part}") for part in x])
    if dtype.is_inexact:
        return code.value(f"fneg {type_} {x}")
    if dtype.is_bool:
        raise refused(op, dtype)
    return code.value(f"sub {type_} 0, {x}")


def absolute(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The modulus; the least integer stays itself."""
    (x,) = xs
    type_ = llvm_type(dtype)
    if dtype.is_complex:
        return functions.call(code, "hypot", dtype.real, *x)
    if dtype.is_inexact:
        return code.call(f"llvm.fabs.{suffix_of(dtype)}", type_, [(type_, x)])
    if kind_of(dtype) == "unsigned":
        return x
    is_negative = code.value(f"icmp slt {type_} {x}, 0")
    negated = code.value(f"sub {type_} 0, {x}")
    return code.value(f"select i1 {is_negative}, {type_} {negated}, {type_} {x}")


def sign(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """-1, 0 or 1; zeros and NaN stay themselves; of complex numbers the direction."""
    (x,) = xs
    type_, kind = llvm_type(dtype), kind_of(dtype)
    if kind == "float":
        one = code.call(
            f"llvm.copysign.{suffix_of(dtype)}", type_, [(type_, literal(1.0, dtype)), (type_, x)]
        )
        stays = code.value(f"fcmp ueq {type_} {x}, {literal(0.0, dtype)}")
        return code.value(f"select i1 {stays}, {type_} {x}, {type_} {one}")
    if dtype.is_bool:
        raise refused(op, dtype)
    if kind == "complex":
        return _over_modulus(code, op, dtype, x)
    above = code.value(f"icmp {'sgt' if kind == 'signed' else 'ugt'} {type_} {x}, 0")
    positive = code.value(f"zext i1 {above} to {type_}")
    if kind == "unsigned":
        return positive
    below = code.value(f"icmp slt {type_} {x}, 0")
    return code.value(f"select i1 {below}, {type_} -1, {type_} {positive}")


def _over_modulus(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """A complex number divided by its modulus, or 0."""
    kind, zero = llvm_type(dtype), literal(0.0, dtype.real)
    modulus = absolute(code, op, dtype, [x])
    is_zero = code.value(f"fcmp oeq {kind} {modulus}, {zero}")
    parts = _divide_complex(code, dtype, x, (modulus, zero))
    return tuple(
        [code.value(f"select i1 {is_zero}, {kind} {zero}, {kind} {part}") for part in parts]
    )


def maximum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The larger; NaN of either; 0.0 above -0.0."""
    return _extreme(code, op, dtype, xs, largest=True)


def minimum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The lesser; NaN of either; -0.0 below 0.0."""
    return _extreme(code, op, dtype, xs, largest=False)


def _extreme(code: Code, op: Any, dtype: DType, xs: Sequence[Element], largest: bool) -> Element:
    (x, y), kind = xs, kind_of(dtype)
    type_ = llvm_type(dtype)
    if kind == "complex":
        raise refused(op, dtype)
    if dtype.is_bool:
        return code.value(f"{'or' if largest else 'and'} i1 {x}, {y}")
    if kind != "float":
        order = ("s" if kind == "signed" else "u") + ("gt" if largest else "lt")
        chosen = code.value(f"icmp {order} {type_} {x}, {y}")
        return code.value(f"select i1 {chosen}, {type_} {x}, {type_} {y}")
    name = f"llvm.{'maximum' if largest else 'minimum'}.{suffix_of(dtype)}"
    return code.call(name, type_, [(type_, x), (type_, y)])


def clamp(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Maximum, then minimum."""
    x, lower, upper = xs
    return minimum(code, op, dtype, [maximum(code, op, dtype, [x, lower]), upper])


def compare(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A bool; NaN is unequal to everything."""
    (x, y), kind, type_ = xs, kind_of(dtype), llvm_type(dtype)
    order = op.direction.lower()
    if kind == "complex":
        if order not in ("eq", "ne"):
            raise refused(op, dtype)
        name = "fcmp oeq" if order == "eq" else "fcmp une"
        a, b = (code.value(f"{name} {type_} {p}, {q}") for p, q in zip(x, y, strict=True))
        return code.value(f"{'and' if order == 'eq' else 'or'} i1 {a}, {b}")
    if kind == "float":
        name = f"fcmp {'une' if order == 'ne' else f'o{order}'}"
    else:
        signed = "" if order in ("eq", "ne") else "s" if kind == "signed" else "u"
        name = f"icmp {signed}{order}"
    return code.value(f"{name} {type_} {x}, {y}")


def _select(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    pred, on_true, on_false = operands
    dtype = types[0].dtype
    kind, code = llvm_type(dtype), body.code

    def element(index: Any) -> Element:
        chosen = body.at(pred, index if pred.spec.shape else ())
        x, y = body.at(on_true, index), body.at(on_false, index)
        if dtype.is_complex:
            return tuple([
                code.value(f"select i1 {chosen}, {kind} {a}, {kind} {b}")
                for a, b in zip(x, y, strict=True)
            ])  # fmt: skip
        return code.value(f"select i1 {chosen}, {kind} {x}, {kind} {y}")

    return [same_place(types[0], element, operands)]


def logical(name: str) -> Scalar:
    """And, or, xor, bit by bit."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        return code.value(f"{name} {llvm_type(dtype)} {xs[0]}, {xs[1]}")

    return scalar


def shift(name: str) -> Scalar:
    """By an amount read as unsigned: past the width nothing is left, or the sign."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        (x, y), type_ = xs, llvm_type(dtype)
        width = 8 * dtype.itemsize
        inside = code.value(f"icmp ult {type_} {y}, {width}")
        amount = code.value(f"select i1 {inside}, {type_} {y}, {type_} {width - 1}")
        shifted = code.value(f"{name} {type_} {x}, {amount}")
        if name == "ashr":
            return shifted
        return code.value(f"select i1 {inside}, {type_} {shifted}, {type_} 0")

    return scalar


def intrinsic(name: str) -> Scalar:
    """One of LLVM's functions, which are exact."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        if kind_of(dtype) == "complex":
            raise refused(op, dtype)
        type_ = llvm_type(dtype)
        suffix = suffix_of(dtype) if dtype.is_inexact else type_
        arguments = [(type_, xs[0])]
        if name == "ctlz":
            arguments.append(("i1", "false"))
        return code.call(f"llvm.{name}.{suffix}", type_, arguments)

    return scalar


def is_finite(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Whether the modulus is less than infinity."""
    if dtype.is_complex or not dtype.is_inexact:
        raise refused(op, dtype)
    modulus = absolute(code, op, dtype, xs)
    return code.value(f"fcmp one {llvm_type(dtype)} {modulus}, {literal(float('inf'), dtype)}")


def invert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Every bit."""
    return code.value(f"xor {llvm_type(dtype)} {xs[0]}, {'true' if dtype.is_bool else '-1'}")


def conj(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The imaginary part with the other sign."""
    (x,) = xs
    if not dtype.is_complex:
        return x
    return x[0], code.value(f"fneg {llvm_type(dtype)} {x[1]}")


def real(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The real part."""
    return xs[0][0] if dtype.is_complex else xs[0]


def imag(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """The imaginary part."""
    return xs[0][1] if dtype.is_complex else literal(0, dtype)


def compose(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """A complex number."""
    return tuple(xs)


ROWS: Rows = {
    el.Add: elementwise(add, rounds=True),
    el.Subtract: elementwise(instruction("fsub", "sub"), rounds=True),
    el.Multiply: elementwise(multiply, complex_is_exact=False, rounds=True),
    el.Divide: elementwise(divide, complex_is_exact=False, rounds=True),
    el.Remainder: elementwise(remainder),
    el.Power: elementwise(power, is_exact=False, rounds=True, dtypes=is_real),
    el.Maximum: elementwise(maximum),
    el.Minimum: elementwise(minimum),
    el.Negate: elementwise(negate),
    el.Abs: elementwise(absolute, complex_is_exact=False),
    el.Sign: elementwise(sign, complex_is_exact=False),
    el.Clamp: elementwise(clamp),
    el.Compare: elementwise(compare),
    el.Select: Row(_select),
    el.And: elementwise(logical("and")),
    el.Or: elementwise(logical("or")),
    el.Xor: elementwise(logical("xor")),
    el.Not: elementwise(invert),
    el.ShiftLeft: elementwise(shift("shl")),
    el.ShiftRightArithmetic: elementwise(shift("ashr")),
    el.ShiftRightLogical: elementwise(shift("lshr")),
    el.PopulationCount: elementwise(intrinsic("ctpop")),
    el.CountLeadingZeros: elementwise(intrinsic("ctlz")),
    el.Floor: elementwise(intrinsic("floor")),
    el.Ceil: elementwise(intrinsic("ceil")),
    el.RoundNearestEven: elementwise(intrinsic("rint")),
    el.RoundNearestAfz: elementwise(intrinsic("round")),
    el.IsFinite: elementwise(is_finite),
    el.Convert: elementwise(convert),
    el.BitcastConvert: Row(bitcast, moves=True, settles=True, refusal=bitcast_refusal),
    el.Conj: elementwise(conj),
    el.Real: elementwise(real),
    el.Imag: elementwise(imag),
    el.Complex: elementwise(compose),
    el.ReducePrecision: not_compiled("narrower mantissas are not compiled"),
}
