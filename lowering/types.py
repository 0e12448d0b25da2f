"""Types in StableHLO's notation.

Source: StableHLO spec, section "Types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenferro.types import DType, TensorSpec

__all__ = ["dtype_of_element", "element_type", "integers", "is_promotable", "tensor_type"]

_ELEMENT: Mapping[DType, str] = {
    DType.Bool: "i1",
    DType.I8: "i8",
    DType.I16: "i16",
    DType.I32: "i32",
    DType.I64: "i64",
    DType.U8: "ui8",
    DType.U16: "ui16",
    DType.U32: "ui32",
    DType.U64: "ui64",
    DType.F16: "f16",
    DType.BF16: "bf16",
    DType.F32: "f32",
    DType.F64: "f64",
    DType.C32: "complex<f32>",
    DType.C64: "complex<f64>",
    DType.I2: "i2",
    DType.I4: "i4",
    DType.U2: "ui2",
    DType.U4: "ui4",
    DType.F4E2M1FN: "f4E2M1FN",
    DType.F6E2M3FN: "f6E2M3FN",
    DType.F6E3M2FN: "f6E3M2FN",
    DType.F8E3M4: "f8E3M4",
    DType.F8E4M3: "f8E4M3",
    DType.F8E4M3B11FNUZ: "f8E4M3B11FNUZ",
    DType.F8E4M3FN: "f8E4M3FN",
    DType.F8E4M3FNUZ: "f8E4M3FNUZ",
    DType.F8E5M2: "f8E5M2",
    DType.F8E5M2FNUZ: "f8E5M2FNUZ",
    DType.F8E8M0FNU: "f8E8M0FNU",
}


def element_type(dtype: DType) -> str:
    """Return StableHLO's name of a dtype.

    >>> element_type(DType.C64), element_type(DType.U8)
    ('complex<f64>', 'ui8')
    """
    return _ELEMENT[dtype]


_DTYPES = {element: dtype for dtype, element in _ELEMENT.items()}


def dtype_of_element(element: str) -> DType | None:
    """Return the dtype with this name in StableHLO; None if the type is not supported.

    >>> dtype_of_element("complex<f64>"), dtype_of_element("tf32")
    (DType.C64, None)
    """
    return _DTYPES.get(element)


def is_promotable(dtype: DType, wider: DType) -> bool:
    """Return whether `dtype` can be promoted to `wider`, the same kind of numbers with at least as many bits.

    Source: StableHLO spec, `is_promotable`.

    >>> is_promotable(DType.I8, DType.I32), is_promotable(DType.F32, DType.BF16), is_promotable(DType.U8, DType.I32)
    (True, False, False)
    """
    kinds = [
        (item.is_complex, item.is_inexact, item is DType.Bool, item.kind == "u")
        for item in (dtype, wider)
    ]
    return kinds[0] == kinds[1] and dtype.bits <= wider.bits


def tensor_type(spec: TensorSpec) -> str:
    """Return the text of a tensor type, with a question mark for each extent that is not a number.

    >>> tensor_type(TensorSpec((2, "n"), "float64")), tensor_type(TensorSpec((), "bool"))
    ('tensor<2x?xf64>', 'tensor<i1>')
    """
    extents = [f"{n}x" if isinstance(n, int) else "?x" for n in spec.shape]
    return f"tensor<{''.join(extents)}{_ELEMENT[spec.dtype]}>"


def integers(values: Iterable[int]) -> str:
    """Return the text of a list of integers, such as `[1, 2]`."""
    return f"[{', '.join(map(str, values))}]"
