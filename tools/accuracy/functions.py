"""Functions of real numbers whose errors are measured, each with its definition in mpmath."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import mpmath
import numpy as np
import scipy.special as sp

import tenferro as tnf
from tenferro.definitions import definition_of
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tests.points.unary import UNARY
from tools.accuracy.activations import ACTIVATIONS, ndtr
from tools.accuracy.function import INF, Function

__all__ = ["FUNCTIONS", "Function"]


def elementary(names: Iterable[str], ulps: float) -> dict[str, Function]:
    """Return the records of functions of one argument that have the same name in NumPy.

    The definitions and domains are from the table of exceptional points.
    """
    return {
        name: Function(
            UNARY[name].function,
            UNARY[name].definition,
            getattr(np, name),
            UNARY[name].domain,
            UNARY[name].own,
            ulps,
        )
        for name in names
    }


def erfinv(x: Any) -> Any:
    """Return SciPy's erfinv inside the domain, and NaN outside.

    SciPy warns for each number outside of the domain, which is slow.
    """
    inside = np.abs(x) <= 1
    return np.where(inside, sp.erfinv(np.where(inside, x, 0.0)), np.nan)


def ndtri(p: Any) -> Any:
    """Return the inverse of the normal distribution function. Small p need more digits, so that 2 p - 1 is exact."""
    with mpmath.extradps(max(0, -int(mpmath.log10(p))) if p else 0):
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)


def relative_entropy(x: Any, y: Any) -> Any:
    """Return x log(x / y), and 0 if x is 0."""
    return x * mpmath.log(x / y) if x else mpmath.mpf(0)


def log_gamma_size(x: float) -> float:
    """Return the largest term of log |gamma(x)|, to which errors are relative.

    For negative x, it is a term of the reflection formula.
    """
    return abs(float(sp.gammaln(1.0 - x))) + 1.0 if x < 0 else 0.0


def of_special(name: str, definition: Any, **others: Any) -> Function:
    """Return the record of the function called `name` in `tenferro.special` and in SciPy."""
    reference = others.pop("reference", getattr(sp, name, None))
    return Function(getattr(tnf.special, name), definition, reference, **others)


def at_fixed(name: str, *parameters: float, **others: Any) -> Function:
    """Return the record of a special function as a function of its last argument, with the other arguments fixed.

    Unless `definition` is passed, mpmath's function of the same name is the definition.
    """
    function, reference = getattr(tnf.special, name), getattr(sp, name)
    definition = others.pop("definition", None) or getattr(mpmath, name)
    return Function(
        lambda x: function(*parameters, x),
        lambda x: definition(*parameters, x),
        lambda x: reference(*parameters, x),
        **others,
    )


def inverse_of(name: str, integral: Any) -> Any:
    """Return the inverse of a distribution function.

    It solves `integral(*parameters, 0, x) = p` for x, starting from the result of SciPy's function `name`.
    """

    def inverse(*operands: Any) -> Any:
        *parameters, p = operands
        guess = float(getattr(sp, name)(*parameters, float(p)))
        below = lambda x: integral(*parameters, 0, x, regularized=True) - p
        pair = (mpmath.mpf(guess), mpmath.mpf(guess) * (1 + mpmath.mpf(2) ** -40))
        return mpmath.findroot(below, pair, tol=1e-50, verify=False)

    return inverse


ZEROS_OF_GAMMA = (1.0, 2.0, -2.457024738220801, -2.7476826467274127, -3.1435808883499798)
HALVES = tuple([k / 2 for k in range(-9, 10)])
POSITIVE = (0.0, INF)

FUNCTIONS: dict[str, Function] = {
    **elementary(("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "cbrt"), 4.0),
    **elementary(("sin", "cos", "tan", "asin", "acos", "atan"), 4.0),
    **elementary(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 6.0),
    "rsqrt": Function(tnf.rsqrt, definition_of(an.Rsqrt()), lambda x: 1 / np.sqrt(x), POSITIVE, ulps=2.0),
    "logistic": Function(tnf.nn.sigmoid, definition_of(an.Logistic()), sp.expit),
    "erf": Function(tnf.erf, definition_of(an.Erf()), sp.erf),
    "erfc": Function(tnf.erfc, definition_of(an.Erfc()), sp.erfc),
    "erfinv": Function(tnf.erfinv, definition_of(an.ErfInv()), erfinv, (-1.0, 1.0)),
    "lgamma": Function(
        tnf.lgamma,
        definition_of(an.Lgamma()),
        # SciPy's gammaln is inaccurate near its zeros at 1 and 2.
        lambda x: sp.loggamma(x + 0j).real,
        (-100.0, INF),
        (*HALVES, *ZEROS_OF_GAMMA, 0.9, 1.01, 1.1, 1.9, 2.1),
        16.0,
        terms=log_gamma_size,
    ),
    "digamma": Function(
        tnf.digamma,
        definition_of(an.Digamma()),
        sp.digamma,
        (-100.0, INF),
        (*HALVES, 1.4616321449683623, -0.504083008264455),
        512.0,
        terms=lambda x: 4.0 + abs(math.log(abs(x) + 1e-300)),
    ),
    "polygamma(2, x)": Function(
        lambda x: tnf.polygamma(2, x),
        definition_of(an.Polygamma(2)),
        lambda x: sp.polygamma(2, x),
        POSITIVE,
        ulps=512.0,
    ),
    "pow": Function(tnf.pow, definition_of(el.Power()), np.power, POSITIVE, (1.0,), 8.0, 2),
    "atan2": Function(tnf.atan2, definition_of(an.Atan2()), np.arctan2, arity=2),
    "hypot": Function(tnf.hypot, mpmath.hypot, np.hypot, arity=2),
    "logaddexp": Function(
        tnf.logaddexp,
        lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
        np.logaddexp,
        (-1e4, 1e4),
        arity=2,
        terms=lambda x, y: max(abs(x), abs(y)),
    ),
    **ACTIVATIONS,
    "special.gamma": of_special("gamma", mpmath.gamma, domain=(0.0, 200.0), ulps=512.0),
    "special.ndtr": of_special("ndtr", ndtr, domain=(-37.0, 50.0), points=(-12.7, -35.5), ulps=16.0),
    "special.ndtri": of_special("ndtri", ndtri, domain=(0.0, 1.0), points=(0.5,), ulps=64.0),
    "special.log_ndtr": of_special(
        "log_ndtr",
        lambda x: mpmath.log(ndtr(x)) if x < 0 else mpmath.log1p(-ndtr(-x)),
        domain=(-1e6, 37.0),
        points=(12.7, 35.5),
        ulps=16.0,
    ),
    "special.logit": of_special(
        "logit", lambda p: mpmath.log(p / (1 - p)), domain=(0.0, 1.0), points=(0.5,), ulps=16.0
    ),
    "special.entr": of_special(
        "entr", lambda x: -x * mpmath.log(x), domain=POSITIVE, points=(1.0,), ulps=16.0
    ),
    **{
        f"special.{name}": of_special(name, definition, domain=(-700.0, 700.0), ulps=64.0)
        for name, definition in {
            "i0": lambda x: mpmath.besseli(0, x),
            "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
            "i1": lambda x: mpmath.besseli(1, x),
            "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
        }.items()
    },
    "special.xlogy": of_special(
        "xlogy", lambda x, y: x * mpmath.log(y), domain=POSITIVE, points=(1.0,), ulps=16.0, arity=2
    ),
    "special.xlog1py": of_special(
        "xlog1py", lambda x, y: x * mpmath.log1p(y), domain=POSITIVE, ulps=16.0, arity=2
    ),
    "special.rel_entr": of_special(
        "rel_entr",
        relative_entropy,
        domain=(1e-30, 1e30),
        ulps=64.0,
        arity=2,
        terms=lambda x, y: x,
    ),
    "special.kl_div": of_special(
        "kl_div",
        lambda x, y: relative_entropy(x, y) - x + y,
        domain=(1e-30, 1e30),
        ulps=64.0,
        arity=2,
        terms=lambda x, y: x + y,
    ),
    "special.betaln": of_special(
        "betaln",
        lambda x, y: mpmath.log(mpmath.beta(x, y)),
        domain=(1e-3, 1e4),
        ulps=512.0,
        arity=2,
        terms=lambda x, y: float(sp.gammaln(x + y)) + abs(float(sp.gammaln(x))) + 1.0,
    ),
    "special.zeta": of_special(
        "zeta", mpmath.zeta, domain=(1.01, 50.0), ulps=512.0, arity=2
    ),
    "special.jv(2.5, x)": at_fixed("jv", 2.5, definition=mpmath.besselj, domain=(1e-3, 1e3), ulps=64.0, terms=lambda x: 1.0),
    "special.yv(2.5, x)": at_fixed("yv", 2.5, definition=mpmath.bessely, domain=(1e-3, 1e3), ulps=256.0, terms=lambda x: 1.0),
    "special.iv(2.5, x)": at_fixed("iv", 2.5, definition=mpmath.besseli, domain=(1e-3, 600.0), ulps=256.0),
    "special.kv(2.5, x)": at_fixed("kv", 2.5, definition=mpmath.besselk, domain=(1e-3, 600.0), ulps=32.0),
    "special.bessel_jn(x, v=2)": Function(
        lambda x: tnf.special.bessel_jn(x, v=2)[2], lambda x: mpmath.besselj(2, x), lambda x: sp.jv(2, x), (1e-3, 1e3), ulps=64.0, terms=lambda x: 1.0
    ),
    "special.poch(2.5, x)": at_fixed("poch", 2.5, definition=mpmath.rf, domain=(0.1, 10.0), ulps=64.0),
    "special.sph_harm_y(3, 2, theta, 0.5)": Function(
        lambda x: tnf.special.sph_harm_y(3, 2, x, 0.5).real,
        lambda x: mpmath.re(mpmath.spherharm(3, 2, x, 0.5)),
        lambda x: sp.sph_harm_y(3, 2, x, 0.5).real,
        (0.0, 3.0),
        ulps=16.0,
        terms=lambda x: 1.0,
    ),
    "special.hyp1f1(1.5, 2.5, x)": at_fixed("hyp1f1", 1.5, 2.5, domain=(-10.0, 10.0), ulps=4096.0, terms=lambda x: 1.0),
    "special.hyp2f1(0.5, 1.5, 2.5, x)": at_fixed("hyp2f1", 0.5, 1.5, 2.5, domain=(-8.0, 0.89), ulps=4096.0),
    "special.gammaincinv(2.5, p)": at_fixed("gammaincinv", 2.5, definition=inverse_of("gammaincinv", mpmath.gammainc), domain=(1e-3, 0.999), ulps=256.0),
    "special.betaincinv(2.5, 1.5, p)": at_fixed("betaincinv", 2.5, 1.5, definition=inverse_of("betaincinv", mpmath.betainc), domain=(1e-3, 0.999), ulps=256.0),
}  # fmt: skip
