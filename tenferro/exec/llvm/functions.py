"""Elementary functions as arithmetic that LLVM vectorises: the table of functions with their error bounds, and their calls.

Functions of float32 are computed in float64 and rounded once. They use fused multiply-adds where the processor has them;
elsewhere the same formulas have an error of up to one more unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tenferro.exec.llvm import error_function as err
from tenferro.exec.llvm import exponential as ex
from tenferro.exec.llvm import inverse_trigonometric as inv
from tenferro.exec.llvm import power, single
from tenferro.exec.llvm import trigonometric as trig
from tenferro.exec.llvm.code import Code, llvm_type
from tenferro.exec.llvm.formula import Formula
from tenferro.types import DType

__all__ = ["FUNCTIONS", "SINGLE_ULPS", "call", "in_float64"]


@dataclass(frozen=True)
class Function:
    """A function with its float64 formula, and with that of float32 evaluated in float64.

    Attributes:
        ulps: error bound of `double`, in units in the last place of the exact value; that of `single` is `SINGLE_ULPS`.
        max_magnitude: exclusive bound of the supported arguments. Others are passed to the C library, and vectorised
            loops call functions of several lanes, which test their arguments.
        arity: number of arguments.
    """

    double: Callable[..., str]
    single: Callable[..., str]
    ulps: float
    max_magnitude: float = math.inf
    arity: int = 1


SINGLE_ULPS = 0.52
"""Error bound of functions of float32, which are rounded once; the largest measured error is 0.5104, of expm1."""


FUNCTIONS = {
    "exp": Function(ex.exp, single.exp, 1.0),
    "expm1": Function(ex.expm1, single.expm1, 1.5),
    "log": Function(ex.log, single.log, 1.0),
    "log1p": Function(ex.log1p, single.log1p, 1.0),
    "tanh": Function(ex.tanh, single.tanh, 2.5),
    "logistic": Function(ex.logistic, single.logistic, 2.5),
    "sin": Function(trig.sin, single.sin, 1.0, trig.MAX_ARGUMENT),
    "cos": Function(trig.cos, single.cos, 1.0, trig.MAX_ARGUMENT),
    "tan": Function(trig.tan, single.tan, 2.5, trig.MAX_ARGUMENT),
    "sinh": Function(ex.sinh, single.sinh, 2.5),
    "cosh": Function(ex.cosh, single.cosh, 2.0),
    "asinh": Function(ex.asinh, single.asinh, 2.0),
    "acosh": Function(ex.acosh, single.acosh, 2.5),
    "atanh": Function(ex.atanh, single.atanh, 2.0),
    "asin": Function(inv.asin, single.asin, 1.0),
    "acos": Function(inv.acos, single.acos, 1.0),
    "atan": Function(inv.atan, single.atan, 1.0),
    "atan2": Function(inv.atan2, single.atan2, 1.0, arity=2),
    "erf": Function(err.erf, single.erf, 1.5),
    "erfc": Function(err.erfc, single.erfc, 5.0),
    "erfinv": Function(err.erfinv, single.erfinv, 3.0),
    "cbrt": Function(power.cbrt, power.cbrt_single, 1.0),
    "hypot": Function(power.hypot, single.hypot, 1.5, arity=2),
    "pow": Function(power.pow_, power.pow_single, 1.0, arity=2),
}
PURE = "nounwind willreturn readnone"
"""LLVM's attributes of a function without side effects."""


def call(code: Code, name: str, dtype: DType, *xs: str) -> str:
    """Write a call of a function of float64 or float32; registers hold smaller floats as float32."""
    function = FUNCTIONS[name]
    is_single = llvm_type(dtype) == "float"
    symbol = f"tenferro_{name}{'_single' if is_single else ''}"
    write = function.single if is_single else function.double
    is_bounded = function.max_magnitude < math.inf
    names = ["%x", "%y"][: function.arity]
    if symbol not in code.functions:
        head = f"double @{symbol}({', '.join([f'double {each}' for each in names])}) alwaysinline nounwind"
        code.functions[symbol] = (
            _bounded(code, symbol, name, write, function.max_magnitude)
            if is_bounded
            else _defined(code, head, lambda formula: write(formula, *names))
        )
    work = code.functions[symbol].partition("\n}")[0].count("\n")
    attributes = ""
    if is_bounded:
        attributes = f' "vector-function-abi-variant"="{_variants(code, symbol)}"'

    def called(*numbers: str) -> str:
        operands = ", ".join([f"double {x}" for x in numbers])
        return code.value(f"call double @{symbol}({operands}){attributes}", work)

    return in_float64(code, dtype, called, *xs)


def in_float64(code: Code, dtype: DType, write: Callable[..., str], *xs: str) -> str:
    """Write a function of float64 on floats of a dtype; float32 is converted, and the result rounded once."""
    if llvm_type(dtype) == "double":
        return write(*xs)
    y = write(*[code.value(f"fpext float {x} to double") for x in xs])
    return code.value(f"fptrunc double {y} to float")


def _defined(code: Code, head: str, write: Callable[[Formula], str], lanes: int = 1) -> str:
    """Return the definition of a function in LLVM's text."""
    part = Code(code.contracts)
    formula = Formula(part, lanes)
    part.line(f"ret {formula.kind} {write(formula)}")
    declared = code.declared if lanes == 1 else code.vector_functions
    declared |= part.declared
    return "\n".join([f"define internal {head} {{", *part.lines, "}"])


def _bounded(
    code: Code, symbol: str, name: str, write: Callable[[Formula, str], str], max_magnitude: float
) -> str:
    """Return the scalar definition of a function that calls the C library for large arguments.

    The definitions for several lanes are added for vectorised loops. They call the scalar function lane by lane if any
    argument is large.
    """

    def guarded(f: Formula) -> str:
        part, lanes, x = f.code, f.lanes, "%x"
        are_small = f.compare("olt", f.magnitude(x), f.number(max_magnitude))
        if lanes > 1:
            truths = [(f"<{lanes} x i1>", are_small)]
            are_small = part.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", truths)
        cell = part.name("cell")
        part.lines.insert(0, f"  {cell} = alloca {f.kind}")

        def store(y: str) -> None:
            part.line(f"store {f.kind} {y}, ptr {cell}")

        part.branch(are_small, lambda: store(write(f, x)), lambda: store(scalar(f, x)))
        return part.value(f"load {f.kind}, ptr {cell}")

    def scalar(f: Formula, x: str) -> str:
        part = f.code
        if f.lanes == 1:
            return part.call(name, "double", [("double", x)])
        y = "poison"
        for lane in range(f.lanes):
            number = part.value(f"extractelement {f.kind} {x}, i64 {lane}")
            value = part.value(f"call double @{symbol}(double {number})")
            y = part.value(f"insertelement {f.kind} {y}, double {value}, i64 {lane}")
        return y

    for lanes in code.lanes:
        kind, several = f"<{lanes} x double>", f"{symbol}_{lanes}"
        head = f"{kind} @{several}({kind} %x) noinline {PURE}"
        code.vector_functions[several] = _defined(code, head, guarded, lanes)
        code.retain([several])
    return _defined(code, f"double @{symbol}(double %x) noinline {PURE}", guarded)


def _variants(code: Code, symbol: str) -> str:
    """Return the names of the vector variants of a function, by LLVM's vector function ABI."""
    return ",".join([f"_ZGV_LLVM_N{lanes}v_{symbol}({symbol}_{lanes})" for lanes in code.lanes])
