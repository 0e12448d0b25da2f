"""Extents: the entries of shapes.

A `SymDim` is a symbolic extent of a whole program. A `DimExpr` is an extent that an op computes from its inputs.
`UpperBound` and `UNKNOWN` stand for data-dependent extents. A `Guard` is a condition on extents at run time.
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
