"""Functions of one number, with formulas of their first and second derivatives and their exceptional points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy as np

import tenferro as tnf
from tenferro.definitions import definition_of
from tenferro.ops import analytic as an
from tests.points.records import INF, Unary
from tests.points.special import SPECIAL

__all__ = ["COMPLEX_POINTS", "UNARY", "Unary", "points"]

COMMON = (0.0, 2.0**-12, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 20.0, 40.0, 90.0, 350.0, 720.0)
EXTREME: Mapping[str, tuple[float, ...]] = {
    "float32": (float(np.float32(1e-41)), float(np.float32(1e-30)), 2.0**100, 1.5 * 2.0**127),
    "float64": (1e-310, 1e-300, 2.0**500, 2.0**800, 1.5 * 2.0**1023),
}


def points(record: Unary, dtype: str) -> list[str]:
    """Return the points in the closed domain of a function, and NaN, as text.

    The points are those of all functions, the extremes of the dtype, and the function's own points.
    """
    low, high = record.domain
    sizes = (*COMMON, *EXTREME[dtype], INF)
    candidates = (*sizes, *[-x for x in sizes], *record.own)
    exact = [float(np.dtype(dtype).type(x)) for x in candidates if low <= x <= high]
    return [*dict.fromkeys(map(repr, exact)), "nan"]


COMPLEX_POINTS: tuple[complex, ...] = (
    *[complex(re, im) for re in (0.0, -0.0) for im in (0.0, -0.0)],
    *[complex(re, im) for re in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5) for im in (0.0, -0.0)],
    *[complex(re, im) for im in (1.0, -1.0, 2.0, -2.0) for re in (0.0, -0.0)],
    *[complex(re, im) for re in (20.0, -20.0, 720.0, -720.0) for im in (0.0, 0.5)],
    *[complex(re, im) for re in (0.0, 0.5) for im in (20.0, -20.0, 720.0)],
    *[complex(0.5, 0.5), complex(-0.5, 2.0), complex(1e-300, 1e-300), complex(1e-310, 0.0)],
    *[complex(2.0**500, 2.0**500), complex(2.0**800, 1.0), complex(1.0, 2.0**800)],
    *[complex(-(2.0**800), 2.0**800), complex(1.5 * 2.0**1023, 0.0)],
    *[complex(INF, 0.0), complex(-INF, 0.0), complex(math.nan, 0.0)],
)

# ---- longer formulas -------------------------------------------------------------------------------


def ln2() -> Any:
    return mpmath.log(2)


def ln10() -> Any:
    return mpmath.log(10)


def root_pi() -> Any:
    return mpmath.sqrt(mpmath.pi)


def is_complex(x: Any) -> bool:
    return isinstance(x, mpmath.mpc)


def circle(x: Any) -> Any:
    """Return sqrt(1 - x^2), with the branch cuts of sqrt(1 - x) sqrt(1 + x)."""
    return mpmath.sqrt(1 - x) * mpmath.sqrt(1 + x)


def hyperbola(x: Any) -> Any:
    """Return sqrt(1 + x^2) with the branch cuts of sqrt(1 - ix) sqrt(1 + ix)."""
    if is_complex(x):
        return mpmath.sqrt(1 - 1j * x) * mpmath.sqrt(1 + 1j * x)
    return mpmath.sqrt(1 + x * x)


def cosh_root(x: Any) -> Any:
    """Return sqrt(x - 1) sqrt(x + 1), which has the branch cut of acosh."""
    return mpmath.sqrt(x - 1) * mpmath.sqrt(x + 1)


def erfinv_first(x: Any) -> Any:
    return root_pi() / 2 * mpmath.exp(mpmath.erfinv(x) ** 2)


def erfinv_second(x: Any) -> Any:
    y = mpmath.erfinv(x)
    return mpmath.pi / 2 * y * mpmath.exp(2 * y * y)


def sech_squared(x: Any) -> Any:
    return mpmath.sech(x) ** 2


def bell(x: Any) -> Any:
    return 2 / root_pi() * mpmath.exp(-x * x)


def hazard(x: Any) -> tuple[Any, Any]:
    """Return h(x) and x + h(x), where h is the normal density divided by its integral up to x."""
    if x > -1e9:
        h = mpmath.npdf(x) / mpmath.ncdf(x)
        return h, x + h
    rest = mpmath.mpf(0)
    for k in range(40, 0, -1):
        rest = k / (rest - x)
    return rest - x, rest


def silu_second(x: Any) -> Any:
    return sech_squared(x / 2) * (2 - x * mpmath.tanh(x / 2)) / 4


def polygamma(order: int) -> Callable[[Any], Any]:
    return lambda x: mpmath.polygamma(order, x)


def zero(x: Any) -> Any:
    return mpmath.mpf(0)


def analytic(name: str, definition: Any, first: Any, second: Any, **others: Any) -> Unary:
    """Return the record of a function that has the same name in tenferro, NumPy, JAX and PyTorch."""
    return Unary(
        getattr(tnf, name),
        definition,
        first,
        second,
        **{"is_complex": True, "jax": f"numpy.{name}", "torch": name, **others},
    )


def step(name: str) -> Unary:
    """Return the record of a piecewise constant function such as floor. All its derivatives are zero."""
    own = (0.5, 1.5, -0.5, -1.5, 2.5)
    return analytic(name, getattr(mpmath, name, mpmath.nint), zero, zero, is_complex=False, own=own)


SIDES = "NaN: the sides of a pole differ"


def at_zero(first: float, second: float) -> Mapping[str, tuple[float, float, str]]:
    """Return the convention for a pole at zero.

    The one-sided limits differ there, and the convention holds for zeros of both signs.
    """
    return dict.fromkeys(("0.0", "-0.0"), (first, second, SIDES))


POLES = tuple(-float(k) for k in range(6))
HALVES = (-0.5, -1.5, -2.5, -7.25, -20.5, 60.0)
KINK = "zero at the kink"

UNARY: Mapping[str, Unary] = {
    "exp": analytic("exp", definition_of(an.Exp()), mpmath.exp, mpmath.exp),
    "expm1": analytic("expm1", definition_of(an.Expm1()), mpmath.exp, mpmath.exp),
    "exp2": analytic(
        "exp2",
        lambda x: mpmath.mpf(2) ** x,
        lambda x: ln2() * mpmath.exp(x * ln2()),
        lambda x: ln2() ** 2 * mpmath.exp(x * ln2()),
    ),
    "log": analytic(
        "log", definition_of(an.Log()), lambda x: 1 / x, lambda x: -1 / x**2, domain=(0, INF)
    ),
    "log1p": analytic(
        "log1p",
        definition_of(an.Log1p()),
        lambda x: 1 / (1 + x),
        lambda x: -1 / (1 + x) ** 2,
        domain=(-1, INF),
    ),
    "log2": analytic(
        "log2",
        lambda x: mpmath.log(x) / ln2(),
        lambda x: 1 / x / ln2(),
        lambda x: -1 / x**2 / ln2(),
        domain=(0, INF),
    ),
    "log10": analytic(
        "log10",
        lambda x: mpmath.log(x) / ln10(),
        lambda x: 1 / x / ln10(),
        lambda x: -1 / x**2 / ln10(),
        domain=(0, INF),
    ),
    "sqrt": analytic(
        "sqrt",
        definition_of(an.Sqrt()),
        lambda x: 1 / mpmath.sqrt(x) / 2,
        lambda x: -1 / mpmath.sqrt(x) / x / 4,
        domain=(0, INF),
    ),
    "rsqrt": analytic(
        "rsqrt",
        definition_of(an.Rsqrt()),
        lambda x: -1 / mpmath.sqrt(x) / x / 2,
        lambda x: 3 / mpmath.sqrt(x) / x**2 / 4,
        domain=(0, INF),
        jax="lax.rsqrt",
    ),
    "cbrt": analytic(
        "cbrt",
        definition_of(an.Cbrt()),
        lambda x: 1 / mpmath.cbrt(abs(x)) ** 2 / 3,
        lambda x: -2 / mpmath.cbrt(abs(x)) ** 5 * mpmath.sign(x) / 9,
        is_complex=False,
        torch="",
    ),
    "sin": analytic("sin", definition_of(an.Sin()), mpmath.cos, lambda x: -mpmath.sin(x)),
    "cos": analytic(
        "cos", definition_of(an.Cos()), lambda x: -mpmath.sin(x), lambda x: -mpmath.cos(x)
    ),
    "tan": analytic(
        "tan",
        definition_of(an.Tan()),
        lambda x: mpmath.sec(x) ** 2,
        lambda x: 2 * mpmath.tan(x) * mpmath.sec(x) ** 2,
    ),
    "asin": analytic(
        "asin",
        definition_of(an.Asin()),
        lambda x: 1 / circle(x),
        lambda x: x / circle(x) ** 3,
        domain=(-1, 1),
    ),
    "acos": analytic(
        "acos",
        definition_of(an.Acos()),
        lambda x: -1 / circle(x),
        lambda x: -x / circle(x) ** 3,
        domain=(-1, 1),
    ),
    "atan": analytic(
        "atan",
        definition_of(an.Atan()),
        lambda x: 1 / (1 + x * x),
        lambda x: -2 * x / (1 + x * x) ** 2,
    ),
    "sinh": analytic("sinh", definition_of(an.Sinh()), mpmath.cosh, mpmath.sinh),
    "cosh": analytic("cosh", definition_of(an.Cosh()), mpmath.sinh, mpmath.cosh),
    "tanh": analytic(
        "tanh",
        definition_of(an.Tanh()),
        sech_squared,
        lambda x: -2 * mpmath.tanh(x) * sech_squared(x),
    ),
    "asinh": analytic(
        "asinh",
        definition_of(an.Asinh()),
        lambda x: 1 / hyperbola(x),
        lambda x: -x / hyperbola(x) ** 3,
    ),
    "acosh": analytic(
        "acosh",
        definition_of(an.Acosh()),
        lambda x: 1 / cosh_root(x),
        lambda x: -x / cosh_root(x) ** 3,
        domain=(1, INF),
    ),
    "atanh": analytic(
        "atanh",
        definition_of(an.Atanh()),
        lambda x: 1 / (1 - x) / (1 + x),
        lambda x: 2 * x / ((1 - x) * (1 + x)) ** 2,
        domain=(-1, 1),
    ),
    "logistic": analytic(
        "logistic",
        definition_of(an.Logistic()),
        lambda x: sech_squared(x / 2) / 4,
        lambda x: -sech_squared(x / 2) * mpmath.tanh(x / 2) / 4,
        jax="nn.sigmoid",
        torch="sigmoid",
    ),
    "erf": analytic(
        "erf",
        definition_of(an.Erf()),
        bell,
        lambda x: -2 * x * bell(x),
        own=(5.0, 9.0, 26.0, 28.0),
        is_complex=False,
        jax="lax.erf",
        torch="special.erf",
    ),
    "erfc": analytic(
        "erfc",
        definition_of(an.Erfc()),
        lambda x: -bell(x),
        lambda x: 2 * x * bell(x),
        own=(5.0, 9.0, 26.0, 28.0),
        is_complex=False,
        jax="lax.erfc",
        torch="special.erfc",
    ),
    "erfinv": analytic(
        "erfinv",
        definition_of(an.ErfInv()),
        erfinv_first,
        erfinv_second,
        domain=(-1, 1),
        is_complex=False,
        jax="lax.erf_inv",
        torch="special.erfinv",
    ),
    "special.ndtr": Unary(
        tnf.special.ndtr,
        mpmath.ncdf,
        mpmath.npdf,
        lambda x: -x * mpmath.npdf(x),
        own=(5.0, -5.0, -12.5, -14.0, -37.0),
        jax="scipy.special.ndtr",
        torch="special.ndtr",
    ),
    "special.log_ndtr": Unary(
        tnf.special.log_ndtr,
        lambda x: mpmath.log(mpmath.ncdf(x)),
        lambda x: hazard(x)[0],
        lambda x: -mpmath.fprod(hazard(x)),
        own=(5.0, -5.0, -7.0, -9.5, -10.0, -10.5, 37.0, -1e4, -1e8, -1.5e8),
        jax="scipy.special.log_ndtr",
        torch="special.log_ndtr",
    ),
    "nn.silu": Unary(
        tnf.nn.silu,
        lambda x: x / (1 + mpmath.exp(-x)),
        lambda x: (1 + x / (1 + mpmath.exp(x))) / (1 + mpmath.exp(-x)),
        silu_second,
        own=(-87.0, -88.0, -104.0, -708.0, -709.0, -745.0, 999.0, -999.0, 1000.0, -1000.0),
        jax="nn.silu",
        torch="nn.functional.silu",
    ),
    "lgamma": analytic(
        "lgamma",
        definition_of(an.Lgamma()),
        mpmath.digamma,
        polygamma(1),
        own=(*POLES, *HALVES),
        is_complex=False,
        conventions=at_zero(math.nan, INF),
        jax="lax.lgamma",
        torch="lgamma",
        domain=(-100, INF),
    ),
    "digamma": analytic(
        "digamma",
        definition_of(an.Digamma()),
        polygamma(1),
        polygamma(2),
        own=(*POLES, *HALVES),
        is_complex=False,
        conventions=at_zero(INF, math.nan),
        jax="lax.digamma",
        torch="digamma",
        domain=(-100, INF),
    ),
    "polygamma(2, x)": Unary(
        lambda x: tnf.polygamma(2, x),
        definition_of(an.Polygamma(2)),
        polygamma(3),
        polygamma(4),
        own=(*POLES, *HALVES),
        conventions=at_zero(INF, math.nan),
        domain=(-100, INF),
    ),
    "square": analytic("square", lambda x: x * x, lambda x: 2 * x, lambda x: mpmath.mpf(2)),
    "x**3": Unary(
        lambda x: tnf.pow(x, 3),
        lambda x: x**3,
        lambda x: 3 * x**2,
        lambda x: 6 * x,
        is_complex=True,
    ),
    "reciprocal": analytic("reciprocal", lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "abs": analytic(
        "abs",
        abs,
        mpmath.sign,
        zero,
        is_complex=False,
        conventions={"0.0": (0.0, 0.0, KINK), "-0.0": (0.0, 0.0, KINK)},
    ),
    "sign": analytic("sign", mpmath.sign, zero, zero, is_complex=False),
    "floor": step("floor"),
    "ceil": step("ceil"),
    "round": step("round"),
    "trunc": step("trunc"),
    "angle": analytic("angle", lambda x: mpmath.arg(x), zero, zero, is_complex=False),
    "log_softmax([x, 1])[0]": Unary(
        lambda x: tnf.log_softmax(tnf.stack([x, tnf.ones_like(x)]), axis=0)[0],
        lambda x: -mpmath.log(1 + mpmath.exp(1 - x)),
        lambda x: 1 / (1 + mpmath.exp(x - 1)),
        lambda x: -sech_squared((x - 1) / 2) / 4,
        terms=1.0,
    ),
    "softmax([x, 1])[0]": Unary(
        lambda x: tnf.softmax(tnf.stack([x, tnf.ones_like(x)]), axis=0)[0],
        lambda x: 1 / (1 + mpmath.exp(1 - x)),
        lambda x: sech_squared((x - 1) / 2) / 4,
        lambda x: -sech_squared((x - 1) / 2) * mpmath.tanh((x - 1) / 2) / 4,
        terms=1.0,
    ),
    **SPECIAL,
}
