"""Special functions that SciPy's kernels compute.

They are tested as functions of one number, with their other parameters fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath

from tenferro import special
from tests.points.records import INF, Binary, Unary

__all__ = ["SPECIAL", "SPECIAL_PAIRS"]

Formula = Callable[[Any], Any]
DIGITS = 120
"""Number of digits with which slow formulas are evaluated."""


def quick(formula: Formula, powers: int = 3) -> Formula:
    """Return a function that evaluates a formula with `DIGITS` digits, and as many more as cancellation loses.

    The loss is assumed to be the number of digits of x to the power `powers`.
    """

    def evaluate(x: Any) -> Any:
        lost = powers * max(0, int(mpmath.log10(abs(x)))) if x else 0
        with mpmath.workdps(DIGITS + lost):
            return formula(x)

    return evaluate


def root_pi() -> Any:
    return mpmath.sqrt(mpmath.pi)


def parts(name: str, index: int) -> Callable[[Any], Any]:
    return lambda x: getattr(special, name)(x)[index]


# ---- error functions -------------------------------------------------------------------------------


def erfcx(x: Any) -> Any:
    if x > 50:
        return mpmath.hyperu(0.5, 0.5, x * x) / root_pi()
    return mpmath.exp(x * x) * mpmath.erfc(x)


def dawsn(x: Any) -> Any:
    return root_pi() / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


def erfcx_first(x: Any) -> Any:
    return 2 * x * erfcx(x) - 2 / root_pi()


def erfcx_second(x: Any) -> Any:
    return 2 * erfcx(x) + 2 * x * erfcx_first(x)


def dawsn_first(x: Any) -> Any:
    return 1 - 2 * x * dawsn(x)


def dawsn_second(x: Any) -> Any:
    return -2 * dawsn(x) - 2 * x * dawsn_first(x)


def expn(n: int, x: Any) -> Any:
    """Return the exponential integral E_n(x).

    For n > 0 it is computed by recurrence from E_1, and for n <= 0 by formulas.
    """
    if n <= 0:
        return mpmath.exp(-x) * (1 / x, (1 + 1 / x) / x, (1 + (2 + 2 / x) / x) / x)[-n]
    value = mpmath.e1(x)
    for k in range(1, n):
        value = (mpmath.exp(-x) - x * value) / k
    return value


# ---- Bessel functions ------------------------------------------------------------------------------


def bessely(v: float, x: Any) -> Any:
    """Return Y_v(x).

    From x = 300 on, its asymptotic series (DLMF 10.17.4) is used, because mpmath is slow there.
    """
    if x < 300:
        return mpmath.bessely(v, x)
    term, series, k = mpmath.mpf(1), [mpmath.mpf(0)] * 4, 0
    while abs(term) > mpmath.eps / 100:
        series[k % 4] += term
        k += 1
        term *= (4 * v * v - (2 * k - 1) ** 2) / (8 * k * x)
    phase = x - (mpmath.mpf(v) / 2 + mpmath.mpf(1) / 4) * mpmath.pi
    even, odd = series[0] - series[2], series[1] - series[3]
    return mpmath.sqrt(2 / (mpmath.pi * x)) * (even * mpmath.sin(phase) + odd * mpmath.cos(phase))


def besselk(v: float, x: Any) -> Any:
    """Return K_v(x).

    In a middle range it is computed by the trapezoidal rule (DLMF 10.32.9), because mpmath is slow there.
    """
    if x < 0.2 or x > 1000:
        return mpmath.besselk(v, x)
    # Beyond `end`, the integrand is smaller than the precision. The error of the trapezoidal rule is as small.
    end = mpmath.acosh(1 + (2.4 * mpmath.mp.dps + 20 + 4 * v) / x)
    count = 3 * mpmath.mp.dps
    terms = [
        mpmath.exp(-x * mpmath.cosh(t)) * mpmath.cosh(v * t)
        for t in (k * end / count for k in range(1, count + 1))
    ]
    return end / count * (mpmath.exp(-x) / 2 + mpmath.fsum(terms))


LETTERS = {"j": mpmath.besselj, "y": bessely, "i": mpmath.besseli, "k": besselk}


def bessel(name: str, v: float) -> tuple[Formula, Formula, Formula]:
    """Return the Bessel function of order v and its first two derivatives.

    If the name ends in e, the function is the scaled one.
    """
    letter = LETTERS[name[0]]
    back = -1 if name[0] == "k" else 1
    ahead = 1 if name[0] == "i" else -1

    def value(x: Any) -> Any:
        return letter(v, x)

    def first(x: Any) -> Any:
        return (back * letter(v - 1, x) + ahead * letter(v + 1, x)) / 2

    def second(x: Any) -> Any:
        return (letter(v - 2, x) + 2 * back * ahead * letter(v, x) + letter(v + 2, x)) / 4

    if not name.endswith("e"):
        return value, quick(first, int(name[0] == "y")), quick(second, int(name[0] == "y"))
    sign = 1 if name[0] == "k" else -1
    scale = lambda x: mpmath.exp(sign * x)
    return (
        lambda x: scale(x) * value(x),
        quick(lambda x: scale(x) * (first(x) + sign * value(x))),
        quick(lambda x: scale(x) * (second(x) + 2 * sign * first(x) + value(x))),
    )


def oscillating(call: Callable[[Any], Any], name: str, v: float, **others: Any) -> Unary:
    """Return the record of a Bessel function J or Y. Both tend to 0 at both infinities."""
    value, first, second = bessel(name, v)
    zero = (0.0, 0.0, "limit")
    ends = {"inf": zero, "-inf": zero}
    return Unary(call, value, first, second, conventions=ends, is_native=True, **others)


def modified(call: Callable[[Any], Any], name: str, v: float, **others: Any) -> Unary:
    value, first, second = bessel(name, v)
    terms = value if name.endswith("e") else 0.0
    return Unary(call, value, first, second, terms=terms, **others)


HALF_LINE = (0.0, INF)

# ---- the rows --------------------------------------------------------------------------------------

SPECIAL = {
    "special.erfcx": Unary(
        special.erfcx,
        erfcx,
        quick(erfcx_first),
        quick(erfcx_second, 5),
        own=(5.0, -5.0, 9.0, 26.0, -27.0),
    ),
    "special.erfi": Unary(
        special.erfi,
        mpmath.erfi,
        lambda x: 2 / root_pi() * mpmath.exp(x * x),
        lambda x: 4 * x / root_pi() * mpmath.exp(x * x),
        own=(5.0, 26.0, 27.0),
        is_native=True,
    ),
    "special.dawsn": Unary(
        special.dawsn,
        dawsn,
        quick(dawsn_first),
        quick(dawsn_second, 5),
        own=(0.9241388730045919, 5.0, 6.25, 6.75, 12.0, 26.0),
        terms=lambda x: mpmath.mpf(abs(x) < 6.5),
        is_native=True,
    ),
    "special.exp1": Unary(
        special.exp1,
        mpmath.e1,
        lambda x: -mpmath.exp(-x) / x,
        lambda x: mpmath.exp(-x) * (x + 1) / x**2,
        domain=HALF_LINE,
    ),
    "special.expi": Unary(
        special.expi,
        mpmath.ei,
        lambda x: mpmath.exp(x) / x,
        lambda x: mpmath.exp(x) * (x - 1) / x**2,
        own=(44.0, 46.0, 709.0, 715.0),
    ),
    **{
        f"special.expn({n}, x)": Unary(
            lambda x, n=n: special.expn(float(n), x),
            lambda x, n=n: mpmath.expint(n, x),
            quick(lambda x, n=n: -expn(n - 1, x)),
            quick(lambda x, n=n: expn(n - 2, x)),
            domain=HALF_LINE,
        )
        for n in (0, 1, 2, 3)
    },
    "special.spence": Unary(
        special.spence,
        lambda x: mpmath.polylog(2, 1 - x).real,
        lambda x: mpmath.log(x) / (1 - x),
        lambda x: 1 / x / (1 - x) + mpmath.log(x) / (1 - x) ** 2,
        domain=HALF_LINE,
        own=(0.97, 1.03, 1.05),
        conventions={"1.0": (-1.0, 0.5, "limit")},
        is_native=True,
    ),
    "special.lambertw": Unary(
        special.lambertw,
        lambda x: mpmath.lambertw(x).real,
        lambda x: 1 / (mpmath.exp(mpmath.lambertw(x).real) * (1 + mpmath.lambertw(x).real)),
        lambda x: (
            -mpmath.exp(-2 * mpmath.lambertw(x).real)
            * (2 + mpmath.lambertw(x).real)
            / (1 + mpmath.lambertw(x).real) ** 3
        ),
        domain=(-0.36787944, INF),
        own=(-0.36, -0.3678),
        is_native=True,
    ),
    "special.sici(x)[0]": Unary(
        parts("sici", 0),
        mpmath.si,
        lambda x: mpmath.sin(x) / x,
        lambda x: (
            (x * mpmath.cos(x) - mpmath.sin(x)) / x**2
            if abs(x) > mpmath.mpf(10) ** -100
            else -x / 3
        ),
        is_native=True,
    ),
    "special.sici(x)[1]": Unary(
        parts("sici", 1),
        lambda x: mpmath.ci(abs(x)),
        lambda x: mpmath.cos(x) / x,
        lambda x: -(x * mpmath.sin(x) + mpmath.cos(x)) / x**2,
        is_native=True,
    ),
    "special.fresnel(x)[0]": Unary(
        parts("fresnel", 0),
        mpmath.fresnels,
        quick(lambda x: mpmath.sin(mpmath.pi / 2 * x * x)),
        quick(lambda x: mpmath.pi * x * mpmath.cos(mpmath.pi / 2 * x * x)),
        is_native=True,
    ),
    "special.fresnel(x)[1]": Unary(
        parts("fresnel", 1),
        mpmath.fresnelc,
        quick(lambda x: mpmath.cos(mpmath.pi / 2 * x * x)),
        quick(lambda x: -mpmath.pi * x * mpmath.sin(mpmath.pi / 2 * x * x)),
        is_native=True,
    ),
    "special.j0": oscillating(special.j0, "j", 0),
    "special.j1": oscillating(special.j1, "j", 1),
    "special.y0": oscillating(special.y0, "y", 0, domain=HALF_LINE),
    "special.y1": oscillating(special.y1, "y", 1, domain=HALF_LINE),
    **{
        f"special.{name}({v}, x)": oscillating(
            lambda x, name=name, v=v: getattr(special, name)(v, x), name, v, domain=HALF_LINE
        )
        for name in ("jv", "yv")
        for v in (0.5, 2.0)
    },
    "special.k0": modified(special.k0, "k", 0, domain=HALF_LINE),
    "special.k1": modified(special.k1, "k", 1, domain=HALF_LINE),
    "special.k0e": modified(special.k0e, "ke", 0, domain=HALF_LINE),
    "special.k1e": modified(special.k1e, "ke", 1, domain=HALF_LINE),
    **{
        f"special.{name}({v}, x)": modified(
            lambda x, name=name, v=v: getattr(special, name)(v, x),
            name,
            v,
            domain=HALF_LINE,
            is_native=name[0] == "i",
        )
        for name in ("iv", "ive", "kv", "kve")
        for v in (0.5, 2.0)
    },
    "special.betainc(2, 3, x)": Unary(
        lambda x: special.betainc(2.0, 3.0, x),
        lambda x: x * x * (6 - 8 * x + 3 * x * x),
        lambda x: 12 * x * (1 - x) ** 2,
        lambda x: 12 * (1 - x) * (1 - 3 * x),
        domain=(0.0, 1.0),
        own=(1.0 - 2.0**-20,),
    ),
    "special.betaincc(0.5, 0.5, x)": Unary(
        lambda x: special.betaincc(0.5, 0.5, x),
        lambda x: 1 - 2 / mpmath.pi * mpmath.asin(mpmath.sqrt(x)),
        lambda x: -1 / mpmath.pi / mpmath.sqrt(x * (1 - x)),
        lambda x: (1 - 2 * x) / 2 / mpmath.pi / (x * (1 - x)) ** mpmath.mpf(1.5),
        domain=(0.0, 1.0),
        own=(1.0 - 2.0**-20,),
    ),
    "special.stdtr(3, x)": Unary(
        lambda x: special.stdtr(3.0, x),
        lambda x: (
            mpmath.mpf(1) / 2
            + (x / mpmath.sqrt(3) / (1 + x * x / 3) + mpmath.atan(x / mpmath.sqrt(3))) / mpmath.pi
        ),
        lambda x: 6 * mpmath.sqrt(3) / mpmath.pi / (3 + x * x) ** 2,
        lambda x: -24 * mpmath.sqrt(3) / mpmath.pi * x / (3 + x * x) ** 3,
    ),
}


def owens_t(h: Any, a: Any) -> Any:
    density = lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t)
    return mpmath.quad(density, [0, a]) / (2 * mpmath.pi)


def owens_partials(h: Any, a: Any) -> tuple[Any, ...]:
    fall, bend = mpmath.exp(-h * h / 2), 1 + a * a
    root = mpmath.sqrt(2 * mpmath.pi)
    both = mpmath.exp(-h * h * bend / 2) / (2 * mpmath.pi)
    by_h = -fall * mpmath.erf(a * h / mpmath.sqrt(2)) / (2 * root)
    return (
        by_h,
        both / bend,
        -h * by_h - a * both,
        -h * both,
        -a * both * (h * h / bend + 2 / bend**2),
    )


def differences(definition: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any, ...]]:
    """Return a function for all partial derivatives of a definition.

    They are computed as finite differences with 70 digits.
    """

    def partials(x: Any, y: Any) -> tuple[Any, ...]:
        if mpmath.isnan(x) or mpmath.isnan(y):
            return (mpmath.nan,) * 5
        with mpmath.workdps(70):
            orders = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
            return tuple(mpmath.re(mpmath.diff(definition, (x, y), order)) for order in orders)

    return partials


NAN = math.nan
NOWHERE = ((NAN,) * 5, "NaN outside of the domain")
FLAT = ((0.0,) * 5, "limit")
SHAPES = ((0.5, 0.25), (2.5, 3.0), (20.0, 15.0), (0.5, 2.0**-55), (1.0, 2.0**-55), (1.0, 40.0))


def gamma_ends(sign: float) -> dict[tuple[float, float], tuple[tuple[float, ...], str]]:
    """Return the partial derivatives of an incomplete gamma function at the ends of its domain.

    `sign` is 1 for the lower function, and -1 for the upper one.
    """
    return {
        (1.0, 0.0): ((0.0, sign, 0.0, -sign * INF, -sign), "limit"),
        (0.5, 0.0): ((0.0, sign * INF, 0.0, -sign * INF, -sign * INF), "limit"),
        (2.5, 0.0): FLAT,
        (2.5, INF): FLAT,
        (2.5, -1.0): NOWHERE,
        (-1.0, 1.0): NOWHERE,
        (2.5, NAN): NOWHERE,
        (NAN, 1.0): NOWHERE,
    }


def incomplete(name: str, definition: Callable[[Any, Any], Any], sign: float) -> Binary:
    return Binary(
        getattr(special, name),
        definition,
        differences(definition),
        SHAPES,
        conventions=gamma_ends(sign),
        jax=f"scipy.special.{name}",
        torch=f"special.{name}",
    )


SPECIAL_PAIRS = {
    "special.gammainc": incomplete(
        "gammainc", lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), 1.0
    ),
    "special.gammaincc": incomplete(
        "gammaincc", lambda a, x: mpmath.gammainc(a, x, regularized=True), -1.0
    ),
    "special.owens_t": Binary(
        special.owens_t,
        owens_t,
        owens_partials,
        (
            *((0.5, 0.25), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (3.0, -0.5), (-2.0, 3.0)),
            *((20.0, 2.0), (2.0, 20.0), (0.0, 2.0**100), (2.0**100, 0.0)),
        ),
        conventions={
            (0.0, INF): ((0.0,) * 5, "zero at the kink"),
            (INF, 1.0): FLAT,
            (1.0, INF): (
                (
                    -math.exp(-0.5) / math.sqrt(8 * math.pi),
                    0.0,
                    math.exp(-0.5) / math.sqrt(8 * math.pi),
                    0.0,
                    0.0,
                ),
                "limit",
            ),
            (NAN, 1.0): NOWHERE,
            (1.0, NAN): NOWHERE,
        },
        is_native=True,
    ),
}
