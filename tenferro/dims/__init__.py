"""Extents: the entries of shapes.

`SymDim` is an extent of the whole program, `DimExpr` one that an op computes from its inputs,
`UpperBound` and `UNKNOWN` are data-dependent extents, and a `Guard` is a condition at run time.
"""

from tenferro.dims.dimexpr import DimExpr, resolve_shape
from tenferro.dims.extent import (
    UNKNOWN,
    Exact,
    Extent,
    ShapeExtent,
    Unknown,
    UpperBound,
    extent_of,
    is_exact,
)
from tenferro.dims.guards import Guard, GuardLog, load_guards, save_guards
from tenferro.dims.parsing import parse_dim
from tenferro.dims.polynomial import at_least, dim_max, dim_min, is_static, product
from tenferro.dims.symdim import Dim, InputAxis, Symbol, SymDim

__all__ = [
    "UNKNOWN",
    "Dim",
    "DimExpr",
    "Exact",
    "Extent",
    "Guard",
    "GuardLog",
    "InputAxis",
    "ShapeExtent",
    "SymDim",
    "Symbol",
    "Unknown",
    "UpperBound",
    "at_least",
    "dim_max",
    "dim_min",
    "extent_of",
    "is_exact",
    "is_static",
    "load_guards",
    "parse_dim",
    "product",
    "resolve_shape",
    "save_guards",
]
