"""LLVM code of the elementwise ops, with NumPy's bits: nothing is contracted or reassociated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.exec.llvm import functions
from tenferro.exec.llvm.code import Code, Element, literal, llvm_type
from tenferro.exec.llvm.conversion import bitcast, bitcast_refusal, convert
from tenferro.exec.llvm.quotient import divide_by_constant
from tenferro.exec.llvm.rows import Row, Rows, not_compiled
from tenferro.exec.llvm.scalar import (
    Scalar,
    instruction_kind,
    intrinsic_suffix,
    is_real,
    unsupported_dtype,
)
from tenferro.exec.llvm.tensor import Body, Tensor, elementwise_tensor
from tenferro.ops import elementwise as el
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS", "elementwise", "maximum", "minimum", "select"]


def elementwise(
    scalar: Scalar,
    is_exact: bool = True,
    complex_is_exact: bool = True,
    rounds: bool = False,
    dtypes: Callable[[DType], bool] = lambda dtype: True,
) -> Row:
    """Return the lowering of an elementwise op.

    Args:
        rounds: whether results of float16 and bfloat16, which are computed in float32, have to be rounded.
        dtypes: predicate of the supported dtypes of the first operand.
    """

    def write(
        body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
    ) -> Sequence[Tensor]:
        dtype, code = operands[0].spec.dtype, body.code

        def element(index: Any) -> Element:
            value = scalar(code, op, dtype, [body.at(x, index) for x in operands])
            return code.rounded(value, types[0].dtype) if rounds else value

        return [elementwise_tensor(types[0], element, operands)]

    def refusal(op: Any, operands: Sequence[TensorSpec]) -> str:
        dtype = operands[0].dtype
        return "" if dtypes(dtype) else f"{dtype.value} is not compiled"

    return Row(write, is_exact=is_exact, complex_is_exact=complex_is_exact, refusal=refusal)


def instruction(float_: str, integer: str) -> Scalar:
    """Return the function that writes one instruction, or one for each part of a complex number."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        (x, y), kind = xs, llvm_type(dtype)
        if dtype.is_bool:
            raise unsupported_dtype(op, dtype)
        if dtype.is_complex:
            return tuple(
                [code.value(f"{float_} {kind} {a}, {b}") for a, b in zip(x, y, strict=True)]
            )
        return code.value(f"{float_ if dtype.is_inexact else integer} {kind} {x}, {y}")

    return scalar


def add(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x + y; `or` for bools."""
    if dtype.is_bool:
        return code.value(f"or i1 {xs[0]}, {xs[1]}")
    return instruction("fadd", "add")(code, op, dtype, xs)


def multiply(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write x y; `and` for bools; ac - bd and ad + bc for complex numbers, each product rounded."""
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
    """Write x / y; integer division truncates, and has all bits set over 0."""
    kind, (x, y) = instruction_kind(dtype), xs
    if kind == "complex":
        return _divide_complex(code, dtype, x, y)
    if kind == "float":
        if dtype is DType.F64 and str(y).startswith("0x"):
            return divide_by_constant(code, x, y)
        return code.value(f"fdiv {llvm_type(dtype)} {x}, {y}")
    if dtype.is_bool:
        raise unsupported_dtype(op, dtype)
    return _divide_integers(code, dtype, xs, "div", over_zero="-1")


def _divide_complex(code: Code, dtype: DType, x: Element, y: Element) -> Element:
    """Write a complex quotient, scaled by the larger part of the divisor as in NumPy; zero divisors are positive.

    Source: Smith, Algorithm 116: complex division, CACM 5 (1962).
    """
    kind, one, zero = llvm_type(dtype), literal(1.0, dtype.real), literal(0.0, dtype.real)

    def arithmetic(name: str, a: str, b: str) -> str:
        return code.value(f"{name} {kind} {a}, {b}")

    def select(condition: str, a: str, b: str) -> str:
        return code.value(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    name = f"llvm.fabs.{intrinsic_suffix(dtype)}"
    sizes = [code.call(name, kind, [(kind, part)]) for part in y]
    (a, b), (c, d) = x, y
    is_first = code.value(f"fcmp oge {kind} {sizes[0]}, {sizes[1]}")
    larger, smaller = select(is_first, c, d), select(is_first, d, c)
    ratio = arithmetic("fdiv", smaller, larger)
    scale = arithmetic("fdiv", one, arithmetic("fadd", larger, arithmetic("fmul", smaller, ratio)))
    # (a + b r, b - a r), or (a r + b, b r - a) where the imaginary part is larger.
    near, far = select(is_first, a, b), select(is_first, b, a)
    real = arithmetic("fadd", near, arithmetic("fmul", far, ratio))
    product = arithmetic("fmul", near, ratio)
    imag = select(is_first, arithmetic("fsub", far, product), arithmetic("fsub", product, far))
    parts = [arithmetic("fmul", part, scale) for part in (real, imag)]
    is_zero = code.value(f"fcmp oeq {kind} {arithmetic('fadd', *sizes)}, {zero}")
    return tuple(
        [
            select(is_zero, arithmetic("fdiv", above, zero), part)
            for above, part in zip(x, parts, strict=True)
        ]
    )


def remainder(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write C's fmod; integers over 0 are unchanged."""
    kind, (x, y) = instruction_kind(dtype), xs
    if kind == "float":
        return code.value(f"frem {llvm_type(dtype)} {x}, {y}")
    if kind == "complex" or dtype.is_bool:
        raise unsupported_dtype(op, dtype)
    return _divide_integers(code, dtype, xs, "rem", over_zero=x)


def _divide_integers(
    code: Code, dtype: DType, xs: Sequence[Element], name: str, over_zero: str
) -> str:
    """Write an integer quotient or remainder without traps: 0 and -1 are replaced by 1, and x / -1 is -x, which wraps."""
    (x, y), type_, is_signed = xs, llvm_type(dtype), instruction_kind(dtype) == "signed"
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
    """Write x^y for floats."""
    if instruction_kind(dtype) != "float":
        raise unsupported_dtype(op, dtype)
    return functions.call(code, "pow", dtype, *xs)


def negate(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write -x."""
    (x,) = xs
    type_ = llvm_type(dtype)
    if dtype.is_complex:
        return tuple([code.value(f"fneg {type_} {part}") for part in x])
    if dtype.is_inexact:
        return code.value(f"fneg {type_} {x}")
    if dtype.is_bool:
        raise unsupported_dtype(op, dtype)
    return code.value(f"sub {type_} 0, {x}")


def absolute(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write |x|; the minimum signed integer is unchanged."""
    (x,) = xs
    type_ = llvm_type(dtype)
    if dtype.is_complex:
        return functions.call(code, "hypot", dtype.real, *x)
    if dtype.is_inexact:
        return code.call(f"llvm.fabs.{intrinsic_suffix(dtype)}", type_, [(type_, x)])
    if instruction_kind(dtype) == "unsigned":
        return x
    is_negative = code.value(f"icmp slt {type_} {x}, 0")
    negated = code.value(f"sub {type_} 0, {x}")
    return code.value(f"select i1 {is_negative}, {type_} {negated}, {type_} {x}")


def sign(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write -1, 0 or 1; zeros and NaN are unchanged; x / |x| for complex numbers."""
    (x,) = xs
    type_, kind = llvm_type(dtype), instruction_kind(dtype)
    if kind == "float":
        one = code.call(
            f"llvm.copysign.{intrinsic_suffix(dtype)}",
            type_,
            [(type_, literal(1.0, dtype)), (type_, x)],
        )
        is_unchanged = code.value(f"fcmp ueq {type_} {x}, {literal(0.0, dtype)}")
        return code.value(f"select i1 {is_unchanged}, {type_} {x}, {type_} {one}")
    if dtype.is_bool:
        raise unsupported_dtype(op, dtype)
    if kind == "complex":
        return _complex_sign(code, op, dtype, x)
    above = code.value(f"icmp {'sgt' if kind == 'signed' else 'ugt'} {type_} {x}, 0")
    positive = code.value(f"zext i1 {above} to {type_}")
    if kind == "unsigned":
        return positive
    below = code.value(f"icmp slt {type_} {x}, 0")
    return code.value(f"select i1 {below}, {type_} -1, {type_} {positive}")


def _complex_sign(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """Write z / |z|, or 0."""
    kind, zero = llvm_type(dtype), literal(0.0, dtype.real)
    modulus = absolute(code, op, dtype, [x])
    is_zero = code.value(f"fcmp oeq {kind} {modulus}, {zero}")
    parts = _divide_complex(code, dtype, x, (modulus, zero))
    return select(code, dtype, is_zero, (zero, zero), parts)


def maximum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the larger; NaN if either is NaN; 0.0 > -0.0."""
    return _extreme(code, op, dtype, xs, largest=True)


def minimum(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the smaller; NaN if either is NaN; -0.0 < 0.0."""
    return _extreme(code, op, dtype, xs, largest=False)


def _extreme(code: Code, op: Any, dtype: DType, xs: Sequence[Element], largest: bool) -> Element:
    (x, y), kind = xs, instruction_kind(dtype)
    type_ = llvm_type(dtype)
    if kind == "complex":
        raise unsupported_dtype(op, dtype)
    if dtype.is_bool:
        return code.value(f"{'or' if largest else 'and'} i1 {x}, {y}")
    if kind != "float":
        order = ("s" if kind == "signed" else "u") + ("gt" if largest else "lt")
        chosen = code.value(f"icmp {order} {type_} {x}, {y}")
        return code.value(f"select i1 {chosen}, {type_} {x}, {type_} {y}")
    name = f"llvm.{'maximum' if largest else 'minimum'}.{intrinsic_suffix(dtype)}"
    return code.call(name, type_, [(type_, x), (type_, y)])


def clamp(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write min(max(x, lower), upper)."""
    x, lower, upper = xs
    return minimum(code, op, dtype, [maximum(code, op, dtype, [x, lower]), upper])


def compare(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write a comparison; NaN is unordered."""
    (x, y), kind, type_ = xs, instruction_kind(dtype), llvm_type(dtype)
    order = op.direction.lower()
    if kind == "complex":
        if order not in ("eq", "ne"):
            raise unsupported_dtype(op, dtype)
        name = "fcmp oeq" if order == "eq" else "fcmp une"
        a, b = (code.value(f"{name} {type_} {p}, {q}") for p, q in zip(x, y, strict=True))
        return code.value(f"{'and' if order == 'eq' else 'or'} i1 {a}, {b}")
    if kind == "float":
        name = f"fcmp {'une' if order == 'ne' else f'o{order}'}"
    else:
        signed = "" if order in ("eq", "ne") else "s" if kind == "signed" else "u"
        name = f"icmp {signed}{order}"
    return code.value(f"{name} {type_} {x}, {y}")


def select(code: Code, dtype: DType, condition: str, x: Element, y: Element) -> Element:
    """Write x where the condition holds, else y."""
    kind = llvm_type(dtype)
    if not dtype.is_complex:
        return code.value(f"select i1 {condition}, {kind} {x}, {kind} {y}")
    return tuple([
        code.value(f"select i1 {condition}, {kind} {a}, {kind} {b}")
        for a, b in zip(x, y, strict=True)
    ])  # fmt: skip


def _select(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    pred, on_true, on_false = operands
    code, dtype = body.code, types[0].dtype

    def element(index: Any) -> Element:
        condition = body.at(pred, index if pred.spec.shape else ())
        return select(code, dtype, condition, body.at(on_true, index), body.at(on_false, index))

    return [elementwise_tensor(types[0], element, operands)]


def logical(name: str) -> Scalar:
    """Return the function that writes a bitwise instruction."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        return code.value(f"{name} {llvm_type(dtype)} {xs[0]}, {xs[1]}")

    return scalar


def shift(name: str) -> Scalar:
    """Return the function that writes a shift by an unsigned amount; beyond the width the result is 0 or the sign."""

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
    """Return the function that writes a call of an exact LLVM intrinsic."""

    def scalar(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
        if instruction_kind(dtype) == "complex":
            raise unsupported_dtype(op, dtype)
        type_ = llvm_type(dtype)
        suffix = intrinsic_suffix(dtype) if dtype.is_inexact else type_
        arguments = [(type_, xs[0])]
        if name == "ctlz":
            arguments.append(("i1", "false"))
        return code.call(f"llvm.{name}.{suffix}", type_, arguments)

    return scalar


def is_finite(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write whether |x| is less than infinity."""
    if dtype.is_complex or not dtype.is_inexact:
        raise unsupported_dtype(op, dtype)
    modulus = absolute(code, op, dtype, xs)
    return code.value(f"fcmp one {llvm_type(dtype)} {modulus}, {literal(float('inf'), dtype)}")


def invert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the bitwise complement."""
    return code.value(f"xor {llvm_type(dtype)} {xs[0]}, {'true' if dtype.is_bool else '-1'}")


def conj(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write the complex conjugate."""
    (x,) = xs
    if not dtype.is_complex:
        return x
    return x[0], code.value(f"fneg {llvm_type(dtype)} {x[1]}")


def real(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Return the real part."""
    return xs[0][0] if dtype.is_complex else xs[0]


def imag(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Return the imaginary part."""
    return xs[0][1] if dtype.is_complex else literal(0, dtype)


def compose(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Return a complex number from its parts."""
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
    el.BitcastConvert: Row(bitcast, moves=True, materialises=True, refusal=bitcast_refusal),
    el.Conj: elementwise(conj),
    el.Real: elementwise(real),
    el.Imag: elementwise(imag),
    el.Complex: elementwise(compose),
    el.ReducePrecision: not_compiled("narrower mantissas are not compiled"),
}
