"""Elementary functions as arithmetic that LLVM can vectorise, with error bounds.

A function of float32 is computed in float64, and its result is rounded. If the processor has no fused multiply-adds,
the error may exceed the bound by one unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tenferro.exec.llvm import error_function as err
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm import inverse_trigonometric as inv
from tenferro.exec.llvm import power, single
from tenferro.exec.llvm import trigonometric as trig
from tenferro.exec.llvm.code import Code, llvm_type
from tenferro.exec.llvm.formula import Number, are_all
from tenferro.exec.llvm.ir import Declaration, Function, Instruction, Value, VectorType
from tenferro.types import DType

__all__ = ["FUNCTIONS", "SINGLE_ULPS", "call", "in_float64"]


@dataclass(frozen=True)
class Elementary:
    """Formulas of an elementary function, and its error bound.

    Attributes:
        double: the formula for float64.
        single: a shorter formula for float32, which is evaluated in float64; None if `double` is used.
        ulps: the error bound of `double`, in units in the last place of the exact value; `SINGLE_ULPS` for `single`.
        max_magnitude: the bound on |x| below which the formula holds; the C library is called for other arguments. If
            it is finite, vectorised loops call a function of several lanes, which tests its arguments.
    """

    double: Callable[..., Number]
    single: Callable[..., Number] | None
    ulps: float
    max_magnitude: float = math.inf
    arity: int = 1


SINGLE_ULPS = 0.52
"""Error bound of functions of float32, in units in the last place; the largest measured error is 0.5104 (expm1)."""
FUNCTIONS = {
    "exp": Elementary(ex.exp, single.exp, 1.0),
    "expm1": Elementary(ex.expm1, single.expm1, 1.5),
    "log": Elementary(ex.log, single.log, 1.0),
    "log1p": Elementary(ex.log1p, single.log1p, 1.0),
    "tanh": Elementary(ex.tanh, single.tanh, 2.5),
    "logistic": Elementary(ex.logistic, single.logistic, 2.5),
    "sin": Elementary(trig.sin, None, 1.0, trig.MAX_ARGUMENT),
    "cos": Elementary(trig.cos, None, 1.0, trig.MAX_ARGUMENT),
    "tan": Elementary(trig.tan, None, 2.5, trig.MAX_ARGUMENT),
    "sinh": Elementary(ex.sinh, None, 2.5),
    "cosh": Elementary(ex.cosh, None, 2.0),
    "asinh": Elementary(ex.asinh, None, 2.0),
    "acosh": Elementary(ex.acosh, None, 2.5),
    "atanh": Elementary(ex.atanh, None, 2.0),
    "asin": Elementary(inv.asin, None, 1.0),
    "acos": Elementary(inv.acos, None, 1.0),
    "atan": Elementary(inv.atan, None, 1.0),
    "atan2": Elementary(inv.atan2, None, 1.0, arity=2),
    "erf": Elementary(err.erf, None, 1.5),
    "erfc": Elementary(err.erfc, None, 5.0),
    "erfinv": Elementary(err.erfinv, None, 3.0),
    "cbrt": Elementary(power.cbrt, None, 1.0),
    "hypot": Elementary(power.hypot, None, 1.5, arity=2),
    "pow": Elementary(power.pow_, None, 1.0, arity=2),
}
PURE = "nounwind willreturn readnone"
"""LLVM attributes of a function without side effects."""


def call(code: Code, name: str, dtype: DType, *xs: Value) -> Value:
    """Write a call of the function `FUNCTIONS[name]`, and return its result."""
    function = FUNCTIONS[name]
    is_single = function.single is not None and llvm_type(dtype) == "float"
    is_bounded = function.max_magnitude < math.inf
    symbol = f"tenferro_{name}{'_single' if is_single else ''}"
    several = f"{symbol}_{code.lanes}"
    if symbol not in code.functions:
        code.functions[symbol], declared = _definition(symbol, name, code.contracts)
        code.declared |= declared
        if is_bounded:
            code.vector_functions[several], declared = _definition(
                symbol, name, code.contracts, code.lanes
            )
            code.vector_functions |= declared
            code.retained.append(several)
    work = len(code.functions[symbol].instructions)
    # By LLVM's vector function ABI, a vectorised loop calls this function of several lanes instead.
    variant = f"_ZGV_LLVM_N{code.lanes}v_{symbol}({several})"
    attributes = f' "vector-function-abi-variant"="{variant}"' if is_bounded else ""

    def called(*numbers: Value) -> Value:
        return code.call_defined(symbol, "double", numbers, attributes, work)

    return in_float64(code, dtype, called, *xs)


def in_float64(code: Code, dtype: DType, write: Callable[..., Value], *xs: Value) -> Value:
    """Write a function of float64 for arguments of a dtype; for float32, convert arguments and result."""
    if llvm_type(dtype) == "double":
        return write(*xs)
    y = write(*[code.cast("fpext", x, "double") for x in xs])
    return code.cast("fptrunc", y, "float")


@lru_cache(maxsize=256)
def _definition(
    symbol: str, name: str, contracts: bool, lanes: int = 1
) -> tuple[Function, dict[str, Declaration]]:
    """Return the definition of an elementary function, and the declarations of the functions that it calls.

    A formula for arguments of limited magnitude is guarded. The definition calls the C library for larger arguments.
    With several lanes, it calls the scalar definition for each lane if one of the arguments is larger.

    Args:
        symbol: the name of the scalar definition; the formula for float32 is used if it ends in "_single".
        lanes: the number of lanes of the arguments and of the result.
    """
    function = FUNCTIONS[name]
    formula = function.single if symbol.endswith("_single") else function.double
    assert formula is not None
    part, kind = Code(contracts), "double" if lanes == 1 else VectorType(lanes, "double")
    parameters = tuple([Value(x, kind) for x in ("%x", "%y")[: function.arity]])
    arguments = [Number(part, x) for x in parameters]
    is_bounded = function.max_magnitude < math.inf
    if is_bounded:
        result = _guarded(symbol, name, formula, arguments[0], function.max_magnitude)
    else:
        result = formula(*arguments).value
    part.ret(result)
    attributes = f" noinline {PURE}" if is_bounded else " alwaysinline nounwind"
    full_name = symbol if lanes == 1 else f"{symbol}_{lanes}"
    definition = Function(
        full_name, kind, parameters, part.region, part.entry, attributes, is_internal=True
    )
    return definition, part.declared


def _guarded(
    symbol: str, name: str, formula: Callable[..., Number], x: Number, max_magnitude: float
) -> Value:
    """Write the formula for arguments below `max_magnitude`, and calls of scalar functions for larger ones."""
    part, kind = x.code, x.value.type

    def scalar() -> Value:
        if not isinstance(kind, VectorType):
            return part.call(name, "double", [x.value])
        y = Value("poison", kind)
        for lane in range(kind.lanes):
            element = part.extract(x.value, lane)
            y = part.insert(y, part.call_defined(symbol, "double", [element]), lane)
        return y

    are_small = are_all(abs(x) < max_magnitude)
    cell = part.name("cell", "ptr")
    part.entry.append(Instruction("alloca", (), cell, kind))
    part.branch(
        are_small,
        lambda: part.store_value(formula(x).value, cell),
        lambda: part.store_value(scalar(), cell),
    )
    return part.load_value(kind, cell)
