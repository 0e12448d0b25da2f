"""Conversions between dtypes, as NumPy casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.exec.llvm.code import LOW, Code, Element, Index, literal, llvm_type
from tenferro.exec.llvm.scalar import kind_of, suffix_of
from tenferro.exec.llvm.tensor import Body, Tensor, same_place
from tenferro.ops.elementwise import Convert
from tenferro.types import DType, TensorSpec

__all__ = ["bitcast", "bitcast_refusal", "convert", "number_of"]


def convert(code: Code, op: Any, dtype: DType, xs: Sequence[Element]) -> Element:
    """Into another dtype: floats to integers truncate and saturate, NaN becomes 0."""
    (x,), to = xs, op.to
    old, new = llvm_type(dtype), llvm_type(to)
    if dtype is to:
        return x
    if dtype.is_complex:
        return _of_complex(code, op, dtype, x)
    if to.is_complex:
        return convert(code, Convert(to.real), dtype, xs), literal(0, to.real)
    if to.is_bool:
        zero = literal(0, dtype)
        return code.value(f"{'fcmp une' if dtype.is_inexact else 'icmp ne'} {old} {x}, {zero}")
    is_signed = kind_of(dtype) == "signed"
    if to is DType.F16 and dtype is DType.F64:
        return code.rounded(_odd(code, x), to)
    if to in LOW:
        return code.rounded(convert(code, Convert(DType.F32), dtype, xs), to)
    if old == new:
        return x
    if dtype.is_inexact and to.is_inexact:
        return code.value(f"{'fpext' if new == 'double' else 'fptrunc'} {old} {x} to {new}")
    if dtype.is_inexact:
        name = "fptosi" if to.dtype.kind == "i" else "fptoui"
        return code.call(f"llvm.{name}.sat.{new}.{suffix_of(dtype)}", new, [(old, x)])
    if to.is_inexact:
        return code.value(f"{'sitofp' if is_signed else 'uitofp'} {old} {x} to {new}")
    if to.itemsize == dtype.itemsize and not dtype.is_bool:
        return x
    if dtype.is_bool or to.itemsize > dtype.itemsize:
        return code.value(f"{'sext' if is_signed else 'zext'} {old} {x} to {new}")
    return code.value(f"trunc {old} {x} to {new}")


def _of_complex(code: Code, op: Any, dtype: DType, x: Element) -> Element:
    """Each part into another complex dtype; the real part into others; bools say whether a part is not 0."""
    to = op.to
    if to.is_complex:
        return tuple([convert(code, Convert(to.real), dtype.real, [part]) for part in x])
    if not to.is_bool:
        return convert(code, op, dtype.real, x[:1])
    a, b = (convert(code, op, dtype.real, [part]) for part in x)
    return code.value(f"or i1 {a}, {b}")


def _odd(code: Code, x: str) -> str:
    """A float64 as float32, cut off, with a last bit that says so, so that it can be rounded a second time."""
    near = code.value(f"fptrunc double {x} to float")
    back = code.value(f"fpext float {near} to double")
    bits = code.value(f"bitcast float {near} to i32")
    sizes = [code.call("llvm.fabs.f64", "double", [("double", each)]) for each in (back, x)]
    is_larger = code.value(f"fcmp ogt double {sizes[0]}, {sizes[1]}")
    cut = code.value(f"sub i32 {bits}, {code.value(f'zext i1 {is_larger} to i32')}")
    is_other = code.value(f"fcmp une double {back}, {x}")
    cut = code.value(f"or i32 {cut}, {code.value(f'zext i1 {is_other} to i32')}")
    return code.value(f"bitcast i32 {cut} to float")


def bitcast(
    body: Body, op: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> Sequence[Tensor]:
    """The bits as another dtype, low bits first where widths differ."""
    (x,), (y,), code = operands, types, body.code
    old, new = x.spec.dtype, y.dtype
    ratio = max(old.itemsize, new.itemsize) // min(old.itemsize, new.itemsize)
    bits = f"i{8 * new.itemsize}"
    if old is new:
        return [x]
    if ratio == 1:
        same = same_place(
            y, lambda index: code.of_bits(code.bits(body.at(x, index), old), new), [x]
        )
        return [same]

    def narrower(index: tuple[Index, ...]) -> Element:
        wide, kind = code.bits(body.at(x, index[:-1]), old), f"i{8 * old.itemsize}"
        number: Any = index[-1]
        if not isinstance(number, int) and kind != "i64":
            number = code.value(f"trunc i64 {number} to {kind}")
        amount = code.value(f"mul {kind} {number}, {8 * new.itemsize}")
        part = code.value(f"lshr {kind} {wide}, {amount}")
        return code.of_bits(code.value(f"trunc {kind} {part} to {bits}"), new)

    def wider(index: tuple[Index, ...]) -> Element:
        total = "0"
        for number in range(ratio):
            part = code.bits(body.at(x, (*index, number)), old)
            part = code.value(f"zext i{8 * old.itemsize} {part} to {bits}")
            part = code.value(f"shl {bits} {part}, {8 * old.itemsize * number}")
            total = code.value(f"or {bits} {total}, {part}")
        return code.of_bits(total, new)

    return [Tensor(y, narrower if old.itemsize > new.itemsize else wider, x.reads)]


def bitcast_refusal(op: Any, operands: Sequence[TensorSpec]) -> str:
    """Complex numbers, and floats that registers hold as others, in which a NaN has not its bits."""
    for dtype in (operands[0].dtype, op.to):
        if dtype.is_complex or dtype in LOW:
            return f"bits of {dtype.value} are not compiled"
    return ""


def number_of(code: Code, i: str, dtype: DType) -> Any:
    """An index as a number of a dtype that counters have, as NumPy casts int64."""
    if dtype.is_complex:
        return number_of(code, i, dtype.real), literal(0, dtype.real)
    kind = llvm_type(dtype)
    if dtype.is_inexact:
        return code.rounded(code.value(f"sitofp i64 {i} to {kind}"), dtype)
    return i if kind == "i64" else code.value(f"trunc i64 {i} to {kind}")
