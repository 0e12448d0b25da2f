"""Functions as arithmetic, which LLVM vectorises: a reduced argument, a polynomial, and powers of two.

Those of float32 are computed in float64 and rounded once. Where the processor multiplies and adds at once, so do
they; elsewhere the same formulas are right within another unit.

Sources: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapter 10; the arrangement of the logarithm
is that of Ng's in fdlibm; two-sum is Knuth's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenferro.exec.llvm import coefficients
from tenferro.exec.llvm import trigonometric as trig
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.formula import BIAS, Formula
from tenferro.types import DType

__all__ = ["FUNCTIONS", "SINGLE_ULPS", "call"]

LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The logarithm of 2 in so few bits that its products with exponents are exact, and the rest."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SQRT_HALF = struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0]
ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]
SIGNIFICAND = (1 << 52) - 1


@dataclass
class ReducedExp:
    """The parts of exp and expm1: e^x = 2^n (1 + r + rest), with |r| <= ln(2) / 2."""

    n: str
    r: str
    rest: str


def _reduced(f: Formula, x: str, low: float, high: float, terms: Sequence[float]) -> ReducedExp:
    """Of x between two bounds; NaN stays."""
    x = f.select("ogt", x, f.number(high), f.number(high), x)
    x = f.select("olt", x, f.number(low), f.number(low), x)
    n = f.nearest(x, LOG2_E)
    minus_n = f.negate(n)
    near = f.multiply_add(minus_n, f.number(LN2_HIGH), x)
    r = f.multiply_add(minus_n, f.number(LN2_LOW), near)
    lost = f.multiply_add(minus_n, f.number(LN2_LOW), f.subtract(near, r))
    return ReducedExp(n, r, f.multiply_add(f.multiply(r, r), f.polynomial(r, terms), lost))


def _one_and(f: Formula, part: ReducedExp) -> str:
    """1 + r + rest; the error of the first sum is added with the rest."""
    one = f.number(1.0)
    y = f.add(one, part.r)
    lost = f.add(f.subtract(one, y), part.r)
    return f.add(y, f.add(lost, part.rest))


def exp(f: Formula, x: str) -> str:
    """2^n e^r, in two steps, because 2^n may be too large or too small."""
    part = _reduced(f, x, -746.0, 710.0, coefficients.EXP)
    half = f.nearest(part.n, 0.5)
    y = f.multiply(_one_and(f, part), f.power_of_two(half))
    return f.multiply(y, f.power_of_two(f.subtract(part.n, half)))


def exp_single(f: Formula, x: str) -> str:
    """2^n e^r."""
    part = _reduced(f, x, -104.0, 89.0, coefficients.EXP_SINGLE)
    return f.multiply(_one_and(f, part), f.power_of_two(part.n))


def _expm1(f: Formula, x: str, high: float, terms: Sequence[float]) -> str:
    part = _reduced(f, x, -60.0, high, terms)
    scale = f.power_of_two(f.subtract(part.n, f.number(1.0)))
    half = f.number(0.5)
    base, step = f.subtract(scale, half), f.multiply(scale, part.r)
    y = f.add(base, step)
    lost = f.add(f.subtract(base, y), step)
    lost = f.add(lost, f.subtract(f.subtract(scale, base), half))
    y = f.multiply(f.number(2.0), f.add(y, f.multiply_add(scale, part.rest, lost)))
    y = f.select("oeq", part.n, f.number(0.0), f.add(part.r, part.rest), y)
    return f.with_sign(y, x)


def expm1(f: Formula, x: str) -> str:
    """2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), of which nothing is lost where n is 0."""
    return _expm1(f, x, 710.0, coefficients.EXP)


def expm1_single(f: Formula, x: str) -> str:
    """The same."""
    return _expm1(f, x, 89.0, coefficients.EXP_SINGLE)


def _logarithm(
    f: Formula, u: str, terms: Sequence[float], correction: Callable[[str], tuple[str, str]] | None
) -> str:
    """Ln(u) = e ln(2) + ln(1 + g) of a positive number; subnormal ones may come where nothing is corrected."""
    shift = f.number(0.0)
    if correction is None:
        shift = f.select("olt", u, f.number(2.0**-1022), f.number(54.0), shift)
        larger = f.multiply(u, f.number(2.0**54))
        u = f.select("olt", u, f.number(2.0**-1022), larger, u)
    biased = f.integer("add", f.bits(u), ONE - SQRT_HALF)
    exponent = f.of_bits(f.integer("or", f.integer("lshr", biased, 52), 0x433 << 52))
    e = f.subtract(f.subtract(exponent, f.number(2.0**52 + BIAS)), shift)
    g = f.of_bits(f.integer("add", f.integer("and", biased, SIGNIFICAND), SQRT_HALF))
    g = f.subtract(g, f.number(1.0))
    low = f.multiply(e, f.number(LN2_LOW))
    if correction is not None:
        exact, rest = correction(g)
        g = f.select("oeq", e, f.number(0.0), exact, g)
        rest = f.select("oeq", e, f.number(0.0), f.number(0.0), rest)
        low = f.add(low, rest)
    s = f.divide(g, f.add(f.number(2.0), g))
    z = f.multiply(s, s)
    half_square = f.multiply(f.multiply(f.number(0.5), g), g)
    tail = f.multiply(z, f.polynomial(z, terms))
    inner = f.multiply_add(s, f.add(half_square, tail), low)
    below = f.subtract(f.subtract(half_square, inner), g)
    return f.subtract(f.multiply(e, f.number(LN2_HIGH)), below)


def _where_defined(f: Formula, x: str, y: str, pole: float) -> str:
    """Y; at the pole -infinity, below it NaN; infinity and NaN stay."""
    y = f.select("olt", x, f.number(math.inf), y, x)
    y = f.select("oeq", x, f.number(pole), f.number(-math.inf), y)
    return f.select("olt", x, f.number(pole), f.number(math.nan), y)


def _log(f: Formula, x: str, terms: Sequence[float]) -> str:
    return _where_defined(f, x, _logarithm(f, x, terms, None), 0.0)


def log(f: Formula, x: str) -> str:
    """The logarithm."""
    return _log(f, x, coefficients.LOG)


def log_single(f: Formula, x: str) -> str:
    """The same."""
    return _log(f, x, coefficients.LOG_SINGLE)


def _log1p(f: Formula, x: str, terms: Sequence[float]) -> str:
    u = f.add(f.number(1.0), x)
    part = f.subtract(u, f.number(1.0))
    lost = f.add(f.subtract(f.number(1.0), f.subtract(u, part)), f.subtract(x, part))
    y = _logarithm(f, u, terms, lambda _: (x, f.divide(lost, u)))
    return f.select("oeq", x, f.number(0.0), x, _where_defined(f, x, y, -1.0))


def log1p(f: Formula, x: str) -> str:
    """Ln(u) + d / u, with u + d = 1 + x exactly."""
    return _log1p(f, x, coefficients.LOG)


def log1p_single(f: Formula, x: str) -> str:
    """The same."""
    return _log1p(f, x, coefficients.LOG_SINGLE)


def _tanh(f: Formula, x: str, high: float, expm1: Callable[[Formula, str], str]) -> str:
    a = f.magnitude(x)
    a = f.select("ogt", a, f.number(high), f.number(high), a)
    t = expm1(f, f.add(a, a))
    return f.with_sign(f.divide(t, f.add(t, f.number(2.0))), x)


def tanh(f: Formula, x: str) -> str:
    """t / (t + 2), with t = e^(2|x|) - 1."""
    return _tanh(f, x, 22.0, expm1)


def tanh_single(f: Formula, x: str) -> str:
    """The same."""
    return _tanh(f, x, 22.0, expm1_single)


def _logistic(f: Formula, x: str, exp: Callable[[Formula, str], str]) -> str:
    e = exp(f, f.negate(f.magnitude(x)))
    above = f.select("olt", x, f.number(0.0), e, f.number(1.0))
    return f.divide(above, f.add(f.number(1.0), e))


def logistic(f: Formula, x: str) -> str:
    """1 / (1 + e), or e / (1 + e) of a negative number, with e = e^-|x|."""
    return _logistic(f, x, exp)


def logistic_single(f: Formula, x: str) -> str:
    """The same."""
    return _logistic(f, x, exp_single)


@dataclass(frozen=True)
class Function:
    """A function of float64, and of float32 inside of float64.

    Attributes:
        ulps: a bound on the error of `double`, in units in the last place of the exact value; of `single` it is
            `SINGLE_ULPS`.
        largest: arguments that are not smaller, and NaN, are the C library's, if that is not infinite. Loops have
            functions of several lanes then, which look whether there is one among them.
    """

    double: Callable[[Formula, str], str]
    single: Callable[[Formula, str], str]
    ulps: float
    largest: float = math.inf


SINGLE_ULPS = 0.51
"""Of functions of float32, which are rounded once."""


FUNCTIONS = {
    "exp": Function(exp, exp_single, 1.0),
    "expm1": Function(expm1, expm1_single, 1.5),
    "log": Function(log, log_single, 1.0),
    "log1p": Function(log1p, log1p_single, 1.0),
    "tanh": Function(tanh, tanh_single, 2.5),
    "logistic": Function(logistic, logistic_single, 2.5),
    "sin": Function(trig.sin, trig.sin_single, 1.0, trig.LARGEST),
    "cos": Function(trig.cos, trig.cos_single, 1.0, trig.LARGEST),
    "tan": Function(trig.tan, trig.tan_single, 2.5, trig.LARGEST),
}
PURE = "nounwind willreturn readnone"


def call(code: Code, name: str, dtype: DType, x: str) -> str:
    """A function's value, of float32 or float64."""
    function = FUNCTIONS[name]
    is_single = dtype is DType.F32
    symbol = f"tenferro_{name}{'_single' if is_single else ''}"
    write = function.single if is_single else function.double
    is_bounded = function.largest < math.inf
    if symbol not in code.functions:
        code.functions[symbol] = (
            _bounded(code, symbol, name, write, function.largest)
            if is_bounded
            else _defined(code, f"double @{symbol}(double %x) alwaysinline", write)
        )
    attributes = ""
    if is_bounded:
        attributes = f' "vector-function-abi-variant"="{_variants(code, symbol)}"'
    if not is_single:
        return code.value(f"call double @{symbol}(double {x}){attributes}")
    wide = code.value(f"fpext float {x} to double")
    y = code.value(f"call double @{symbol}(double {wide}){attributes}")
    return code.value(f"fptrunc double {y} to float")


def _defined(code: Code, head: str, write: Callable[[Formula, str], str], lanes: int = 1) -> str:
    """A function's text."""
    part = Code(code.contracts)
    formula = Formula(part, lanes)
    part.line(f"ret {formula.kind} {write(formula, '%x')}")
    code.declared.update(part.declared)
    return "\n".join([f"define internal {head} {{", *part.lines, "}"])


def _bounded(
    code: Code, symbol: str, name: str, write: Callable[[Formula, str], str], largest: float
) -> str:
    """The text of a function that is the C library's for large arguments: of one number, and of lanes, which go
    one by one where there is a large one among them.
    """

    def guarded(f: Formula, x: str) -> str:
        part, lanes = f.code, f.lanes
        are_small = f.compare("olt", f.magnitude(x), f.number(largest))
        if lanes > 1:
            truths = [(f"<{lanes} x i1>", are_small)]
            are_small = part.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", truths)
        cell = part.name("cell")
        part.lines.insert(0, f"  {cell} = alloca {f.kind}")

        def put(y: str) -> None:
            part.line(f"store {f.kind} {y}, ptr {cell}")

        part.branch(are_small, lambda: put(write(f, x)), lambda: put(one_by_one(f, x)))
        return part.value(f"load {f.kind}, ptr {cell}")

    def one_by_one(f: Formula, x: str) -> str:
        part = f.code
        if f.lanes == 1:
            return part.call(name, "double", [("double", x)])
        y = "poison"
        for lane in range(f.lanes):
            number = part.value(f"extractelement {f.kind} {x}, i64 {lane}")
            value = part.value(f"call double @{symbol}(double {number})")
            y = part.value(f"insertelement {f.kind} {y}, double {value}, i64 {lane}")
        return y

    texts = [_defined(code, f"double @{symbol}(double %x) noinline {PURE}", guarded)]
    for lanes in code.lanes:
        kind = f"<{lanes} x double>"
        head = f"{kind} @{symbol}_{lanes}({kind} %x) noinline {PURE}"
        texts.append(_defined(code, head, guarded, lanes))
    code.keep([f"{symbol}_{lanes}" for lanes in code.lanes])
    return "\n".join(texts)


def _variants(code: Code, symbol: str) -> str:
    """The vector variant of a function, by LLVM's vector function ABI."""
    return ",".join([f"_ZGV_LLVM_N{lanes}v_{symbol}({symbol}_{lanes})" for lanes in code.lanes])
