"""Public functions, dtypes and constants of the Array API and of NumPy."""

# ruff: noqa: F403  # because this package exports every public name of its modules

import math

import numpy as np

from tenferro.api import (
    arrangement,
    calculus,
    creation,
    data_types,
    elementwise,
    grids,
    insertion,
    integers,
    linear,
    manipulation,
    mapping,
    padding,
    pointwise,
    polynomial,
    products,
    reductions,
    searching,
    segments,
    sets,
    shapes,
    splitting,
    stacking,
    statistics,
    truncation,
    window_functions,
)
from tenferro.api.arrangement import *
from tenferro.api.calculus import *
from tenferro.api.contraction import einsum, einsum_path
from tenferro.api.creation import *
from tenferro.api.data_types import *
from tenferro.api.einsum_plan import einsum_plan
from tenferro.api.elementwise import *
from tenferro.api.grids import *
from tenferro.api.indexing import take, take_along_axis
from tenferro.api.insertion import *
from tenferro.api.inspection import __array_namespace_info__
from tenferro.api.integers import *
from tenferro.api.linear import *
from tenferro.api.logarithms import log_softmax, logaddexp, logsumexp, softmax
from tenferro.api.manipulation import *
from tenferro.api.mapping import *
from tenferro.api.padding import *
from tenferro.api.pointwise import *
from tenferro.api.polynomial import *
from tenferro.api.products import *
from tenferro.api.promotion import broadcast_shapes, result_type
from tenferro.api.reductions import *
from tenferro.api.searching import *
from tenferro.api.segments import *
from tenferro.api.sets import *
from tenferro.api.shapes import *
from tenferro.api.splitting import *
from tenferro.api.stacking import *
from tenferro.api.statistics import *
from tenferro.api.truncation import *
from tenferro.api.updates import at
from tenferro.api.window_functions import *
from tenferro.types import DType

__array_api_version__ = "2024.12"

bool = DType.Bool
int8, int16, int32, int64 = DType.I8, DType.I16, DType.I32, DType.I64
uint8, uint16, uint32, uint64 = DType.U8, DType.U16, DType.U32, DType.U64
float16, bfloat16, float32, float64 = DType.F16, DType.BF16, DType.F32, DType.F64
complex64, complex128 = DType.C32, DType.C64
int2, int4, uint2, uint4 = DType.I2, DType.I4, DType.U2, DType.U4
float4_e2m1fn, float6_e2m3fn, float6_e3m2fn = DType.F4E2M1FN, DType.F6E2M3FN, DType.F6E3M2FN
float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz = (
    DType.F8E3M4, DType.F8E4M3, DType.F8E4M3B11FNUZ, DType.F8E4M3FN, DType.F8E4M3FNUZ,
)  # fmt: skip
float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = DType.F8E5M2, DType.F8E5M2FNUZ, DType.F8E8M0FNU
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
euler_gamma = np.euler_gamma
bool_, byte, short, intc, int_, intp, long, longlong = (
    bool, int8, int16, int32, int64, int64, int64, int64,
)  # fmt: skip
ubyte, ushort, uintc, uint, uintp, ulong, ulonglong = (
    uint8, uint16, uint32, uint64, uint64, uint64, uint64,
)  # fmt: skip
half, single, double, csingle, cdouble = float16, float32, float64, complex64, complex128
generic, number, integer, signedinteger, unsignedinteger = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger,
)  # fmt: skip
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating


__all__ = [
    "bool_", "byte", "cdouble", "complexfloating", "csingle", "double", "euler_gamma", "floating", "generic", "half", "inexact", "int_",
    "intc", "integer", "intp", "long", "longlong", "number", "short", "signedinteger", "single", "ubyte", "uint", "uintc", "uintp",
    "ulong", "ulonglong", "unsignedinteger", "ushort",
]  # fmt: skip
__all__ += [dtype.value for dtype in DType if dtype.is_narrow]
__all__ += [
    "__array_api_version__",
    "__array_namespace_info__",
    "at",
    "bfloat16",
    "bool",
    "broadcast_shapes",
    "complex64",
    "complex128",
    "e",
    "einsum",
    "einsum_path",
    "einsum_plan",
    "float16",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "softmax",
    "take",
    "take_along_axis",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
__all__ += arrangement.__all__
__all__ += calculus.__all__
__all__ += creation.__all__
__all__ += data_types.__all__
__all__ += elementwise.__all__
__all__ += grids.__all__
__all__ += insertion.__all__
__all__ += integers.__all__
__all__ += linear.__all__
__all__ += manipulation.__all__
__all__ += mapping.__all__
__all__ += padding.__all__
__all__ += pointwise.__all__
__all__ += polynomial.__all__
__all__ += products.__all__
__all__ += reductions.__all__
__all__ += searching.__all__
__all__ += segments.__all__
__all__ += sets.__all__
__all__ += shapes.__all__
__all__ += splitting.__all__
__all__ += stacking.__all__
__all__ += statistics.__all__
__all__ += truncation.__all__
__all__ += window_functions.__all__
