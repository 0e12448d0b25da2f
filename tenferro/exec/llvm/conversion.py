"""Conversions between dtypes, with the semantics of NumPy's casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.llvm.code import (
    HALF_DTYPES,
    Code,
    Element,
    Index,
    intrinsic_suffix,
    literal,
    llvm_type,
)
from tenferro.exec.llvm.ir import Value
from tenferro.exec.llvm.scalar import instruction_kind
from tenferro.exec.llvm.tensor import Body, Specs, Tensor, Tensors, elementwise_tensor
from tenferro.ops.elementwise import Convert
from tenferro.types import DType

__all__ = ["bitcast", "bitcast_refusal", "convert", "convert_index"]


def convert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Write a conversion to `op.to`; floats are truncated and saturated to integers, and NaN is converted to 0."""
    (x,), to = xs, op.to
    old, new = llvm_type(dtype), llvm_type(to)
    if dtype is to:
        return x
    if dtype.is_complex:
        return _convert_complex(code, op, dtype, x)
    if to.is_complex:
        return convert(code, Convert(to.real), dtype, xs), literal(0, to.real)
    if to.is_bool:
        zero = literal(0, dtype)
        return code.fcmp("une", x, zero) if dtype.is_inexact else code.icmp("ne", x, zero)
    is_signed = instruction_kind(dtype) == "signed"
    if to is DType.F16 and dtype is DType.F64:
        return code.rounded(_round_to_odd(code, x), to)
    if to in HALF_DTYPES:
        return code.rounded(convert(code, Convert(DType.F32), dtype, xs), to)
    if old == new:
        return x
    if dtype.is_inexact and to.is_inexact:
        return code.cast("fpext" if new == "double" else "fptrunc", x, new)
    if dtype.is_inexact:
        name = "fptosi" if to.dtype.kind == "i" else "fptoui"
        return code.call(f"llvm.{name}.sat.{new}.{intrinsic_suffix(old)}", new, [x])
    if to.is_inexact:
        return code.cast("sitofp" if is_signed else "uitofp", x, new)
    if to.itemsize == dtype.itemsize and not dtype.is_bool:
        return x
    if dtype.is_bool or to.itemsize > dtype.itemsize:
        return code.cast("sext" if is_signed else "zext", x, new)
    return code.cast("trunc", x, new)


def _convert_complex(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """Convert each part to a complex dtype, the real part to a real dtype; bool is true if a part is not 0."""
    to = op.to
    if to.is_complex:
        return tuple([convert(code, Convert(to.real), dtype.real, [part]) for part in x])
    if not to.is_bool:
        return convert(code, op, dtype.real, x[:1])
    a, b = (convert(code, op, dtype.real, [part]) for part in x)
    return code.value("or", a, b)


def _round_to_odd(code: Code, x: str) -> str:
    """Round a float64 to odd in float32, which makes a second rounding to float16 exact."""
    near = code.cast("fptrunc", x, "float")
    back = code.cast("fpext", near, "double")
    bits = code.cast("bitcast", near, "i32")
    sizes = [code.intrinsic("fabs", each) for each in (back, x)]
    is_larger = code.fcmp("ogt", sizes[0], sizes[1])
    cut = code.value("sub", bits, code.cast("zext", is_larger, "i32"))
    is_other = code.fcmp("une", back, x)
    cut = code.value("or", cut, code.cast("zext", is_other, "i32"))
    return code.cast("bitcast", cut, "float")


def bitcast(body: Body, op: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write the bits as another dtype, low bits first where widths differ."""
    (x,), (y,), code = operands, types, body.code
    old, new = x.spec.dtype, y.dtype
    ratio = max(old.itemsize, new.itemsize) // min(old.itemsize, new.itemsize)
    bits = f"i{8 * new.itemsize}"
    if old is new:
        return [x]
    if ratio == 1:
        same = elementwise_tensor(
            y, lambda index: code.from_bits(code.bits(body.at(x, index), old), new), [x]
        )
        return [same]

    def narrower(index: tuple[Index, ...]) -> Element:
        wide, kind = code.bits(body.at(x, index[:-1]), old), f"i{8 * old.itemsize}"
        number: Any = index[-1]
        if not isinstance(number, int) and kind != "i64":
            number = code.cast("trunc", number, kind)
        amount = code.value("mul", number, 8 * new.itemsize, type=kind)
        part = code.value("lshr", wide, amount)
        return code.from_bits(code.cast("trunc", part, bits), new)

    def wider(index: tuple[Index, ...]) -> Element:
        total = Value(0, bits)
        for number in range(ratio):
            part = code.bits(body.at(x, (*index, number)), old)
            part = code.cast("zext", part, bits)
            part = code.value("shl", part, 8 * old.itemsize * number)
            total = code.value("or", total, part)
        return code.from_bits(total, new)

    return [Tensor(y, narrower if old.itemsize > new.itemsize else wider, x.reads)]


def bitcast_refusal(op: Any, operands: Specs) -> str:
    """Return why complex numbers and 16-bit floats are not compiled: registers do not hold the bits of their NaNs."""
    for dtype in (operands[0].dtype, op.to):
        if dtype.is_complex or dtype in HALF_DTYPES:
            return f"bits of {dtype.value} are not compiled"
    return ""


def convert_index(code: Code, i: str, dtype: DType) -> Any:
    """Convert an index to a dtype of `Iota`, as NumPy casts int64."""
    if dtype.is_complex:
        return convert_index(code, i, dtype.real), literal(0, dtype.real)
    kind = llvm_type(dtype)
    if dtype.is_inexact:
        return code.rounded(code.cast("sitofp", i, kind), dtype)
    return i if kind == "i64" else code.cast("trunc", i, kind)
