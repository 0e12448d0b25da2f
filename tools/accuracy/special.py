"""Measure the errors of all functions of `tenferro.special`.

This module contains their ranges of arguments and their declared bounds.

python -m tools.accuracy.special             measures, and writes docs/special_functions.md
python -m tools.accuracy.special --count 50  sets the number of arguments of each function and dtype

The docstrings of the functions state the bounds, which hold within the ranges. The command fails if an error exceeds
its bound.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro import special
from tests.special.samples import CALLS
from tests.special.samples import digits as context
from tools.accuracy.errors import error_of
from tools.accuracy.function import Function

__all__ = ["OTHERS", "SPECIAL", "arguments", "largest_error"]

digits: Any = context
PAGE = Path(__file__).resolve().parents[2] / "docs" / "special_functions.md"
DTYPES = ("float32", "float64")
Range = tuple[float, float]

WIDE, UNIT = (-1e3, 1e3), (1e-12, 1.0 - 2.0**-20)
SHAPE, ORDER, POSITIVE = (0.05, 50.0), (0.0, 20.0), (1e-6, 50.0)


def _of(
    name: str,
    *ranges: Range,
    ulps: float,
    definition: Callable[..., Any] | None = None,
    call: Callable[..., Any] | None = None,
    terms: Any = None,
) -> Function:
    """Return the record of a function.

    By default, the definition is that of the samples in tests/special.
    """
    return Function(
        call or getattr(special, name),
        definition or CALLS[name].definition,
        lambda *xs: np.nan,
        ulps=ulps,
        arity=len(ranges),
        terms=terms,
        ranges=ranges,
    )


def _one(*_: float) -> float:
    return 1.0


def _log_size(*xs: float) -> float:
    return 1.0 + sum(abs(math.lgamma(x)) for x in xs) + abs(math.lgamma(sum(xs)))


def _student(df: Any, t: Any) -> Any:
    half = digits.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True) / 2
    return 1 - half if t > 0 else half


def _student_quantile(df: Any, p: Any) -> Any:
    return _root(lambda t: _student(df, t) - p, special.stdtrit(float(df), float(p)))


def _gamma_quantile(a: Any, p: Any) -> Any:
    below = lambda x: digits.gammainc(a, 0, x, regularized=True) - p
    return _root(below, special.gammaincinv(float(a), float(p)))


def _upper_gamma_quantile(a: Any, p: Any) -> Any:
    above = lambda x: digits.gammainc(a, x, regularized=True) - p
    return _root(above, special.gammainccinv(float(a), float(p)))


def _slope(name: str, position: int = 0) -> Callable[..., Any]:
    """Return the partial derivative of a special function with respect to the argument at `position`."""
    function = getattr(special, name)
    return tnf.grad(lambda *xs: tnf.sum(function(*xs)), argnums=position)


def _exact_slope(name: str, position: int = 0) -> Callable[..., Any]:
    """Return the partial derivative of a definition, by a finite difference.

    The difference is computed with fifty additional digits, because it cancels.
    """
    definition = CALLS[name].definition

    def slope(*xs: Any) -> Any:
        at = lambda x: definition(*xs[:position], x, *xs[position + 1 :])
        with digits.extradps(50):
            step = digits.mpf(10) ** -30
            x = digits.mpf(xs[position])
            return digits.re(at(x + step) - at(x - step)) / (2 * step)

    return slope


def _in(
    name: str,
    parameter: str,
    position: int,
    *ranges: Range,
    ulps: float,
    terms: Any = None,
    definition: Callable[..., Any] | None = None,
) -> dict[str, Function]:
    """Return the record of a derivative with respect to one argument, which the page calls `parameter`."""
    call, definition = _slope(name, position), definition or _exact_slope(name, position)
    record = _of(name, *ranges, ulps=ulps, call=call, definition=definition, terms=terms)
    return {f"{name}, derivative in {parameter}": record}


def _root(function: Callable[[Any], Any], guess: Any) -> Any:
    """Return the zero of a function near a guess, by the secant method."""
    pair = (digits.mpf(float(guess)), digits.mpf(float(guess)) * (1 + digits.mpf(2) ** -30))
    return digits.findroot(function, pair, tol=1e-80, verify=False)


def _gamma_quantile_slope(a: Any, p: Any) -> Any:
    """Return the derivative of the gamma quantile with respect to `a`, by the implicit function theorem."""
    x = _gamma_quantile(a, p)
    density = digits.exp((a - 1) * digits.log(x) - x - digits.loggamma(a))
    return -_exact_slope("gammainc", 0)(a, x) / density


def _beta_quantile_slope(position: int) -> Callable[..., Any]:
    """Return the partial derivative of the beta quantile x.

    The quantile is computed as x or as 1 - x, whichever is smaller, so that small values keep their relative
    precision.
    """

    def below(position: int, guess: Any, a: Any, b: Any, p: Any) -> Any:
        x = _root(lambda x: digits.betainc(a, b, 0, x, regularized=True) - p, guess)
        density = x ** (a - 1) * (1 - x) ** (b - 1) / digits.beta(a, b)
        return (1 if position == 2 else -_exact_slope("betainc", position)(a, b, x)) / density

    def slope(*xs: Any) -> Any:
        (a, b, p), (first, last, share) = map(digits.mpf, xs), map(float, xs)
        low = special.betaincinv(first, last, share)
        high = special.betainccinv(last, first, share)
        if low <= high:
            return below(position, low, a, b, p)
        swapped = below((1, 0, 2)[position], high, b, a, 1 - p)
        return swapped if position == 2 else -swapped

    return slope


def _owens_integrand(h: Any, a: Any) -> Any:
    """Return the derivative of Owen's T with respect to its upper limit.

    A finite difference would cancel, because T is small.
    """
    bend = 1 + a * a
    return digits.exp(-h * h * bend / 2) / (2 * digits.pi * bend)


def _harmonic(theta: Any, phi: Any) -> Any:
    return digits.re(digits.spherharm(3, 2, theta, phi))


def _spherical(name: str, ulps: float, terms: Any = None) -> Function:
    """Return the record of the spherical Bessel function `name` of order 3."""
    definition = CALLS[name].definition
    call = lambda z: getattr(special, name)(3.0, z)
    return _of(
        name, (0.1, 50.0), ulps=ulps, call=call, definition=lambda z: definition(3, z), terms=terms
    )


SPECIAL: dict[str, Function] = {
    "gamma": _of("gamma", (-20.0, 34.0), ulps=8),
    "gammaln": _of("gammaln", (1e-6, 1e6), ulps=16, terms=lambda x: 1.0),
    "loggamma": _of("loggamma", (1e-6, 1e6), ulps=16, terms=lambda x: 1.0),
    "digamma": _of("digamma", (1e-6, 1e6), ulps=16, terms=_one),
    "psi": _of("psi", (1e-6, 1e6), ulps=16, definition=digits.digamma, terms=_one),
    "polygamma(2, x)": _of("polygamma", (1e-3, 1e3), ulps=16, call=lambda x: special.polygamma(2, x), definition=lambda x: digits.polygamma(2, x)),
    "multigammaln(a, 3)": _of("multigammaln", (1.5, 1e3), ulps=32, call=lambda a: special.multigammaln(a, 3), definition=lambda a: 1.5 * digits.log(digits.pi) + sum(digits.loggamma(a - k / digits.mpf(2)) for k in range(3)), terms=lambda a: 2.0 + abs(math.lgamma(a))),
    "rgamma": _of("rgamma", (-20.0, 34.0), ulps=64),
    "factorial": _of("factorial", (0.0, 33.0), ulps=8),
    "beta": _of("beta", (1e-3, 5.0), (1e-3, 5.0), ulps=24),
    "betaln": _of("betaln", (1e-3, 1e3), (1e-3, 1e3), ulps=16, terms=_log_size),
    "comb, of whole numbers": _of("comb", (20.0, 31.0), (1.0, 19.0), call=lambda n, k: special.comb(n.round(), k.round()), definition=lambda n, k: digits.binomial(round(n), round(k)), ulps=32),
    "poch": _of("poch", (0.1, 20.0), (0.1, 10.0), ulps=16),
    "zeta": _of("zeta", (1.01, 16.0), SHAPE, ulps=24),
    "gammainc": _of("gammainc", SHAPE, SHAPE, ulps=12),
    "gammaincc": _of("gammaincc", SHAPE, SHAPE, ulps=12),
    "gammaincinv": _of("gammaincinv", (0.1, 30.0), (1e-3, 0.999), definition=_gamma_quantile, ulps=256),
    "gammainccinv": _of("gammainccinv", (0.1, 30.0), (1e-3, 0.999), definition=_upper_gamma_quantile, ulps=256),
    "betainc": _of("betainc", (0.05, 20.0), (0.05, 20.0), (0.05, 0.95), ulps=128),
    "betaincc": _of("betaincc", (0.05, 20.0), (0.05, 20.0), (0.05, 0.95), ulps=128),
    "betaincinv": _of("betaincinv", (0.2, 20.0), (0.2, 20.0), (1e-3, 0.999), ulps=256),
    "betainccinv": _of("betainccinv", (0.2, 20.0), (0.2, 20.0), (1e-3, 0.999), ulps=256),
    "stdtr": _of("stdtr", (0.5, 100.0), (-30.0, 30.0), definition=_student, ulps=64),
    "stdtrit": _of("stdtrit", (1.0, 50.0), (1e-3, 0.999), definition=_student_quantile, ulps=4096, terms=_one),
    "expn(3, x)": _of("expn", POSITIVE, call=lambda x: special.expn(3.0, x), definition=lambda x: digits.expint(3, x), ulps=64),
    "exp1": _of("exp1", POSITIVE, ulps=64),
    "expi": _of("expi", (-50.0, 50.0), ulps=16, terms=_one),
    "erf": _of("erf", (-6.0, 6.0), ulps=4),
    "erfc": _of("erfc", (-6.0, 5.0), ulps=8),
    "erfinv": _of("erfinv", (-0.999, 0.999), definition=digits.erfinv, ulps=8),
    "erfcinv": _of("erfcinv", (1e-12, 1.999), ulps=16, terms=lambda x: 1e-3),
    "erfcx": _of("erfcx", (-4.0, 1e3), ulps=16),
    "erfi": _of("erfi", (-6.0, 6.0), ulps=16),
    "dawsn": _of("dawsn", WIDE, ulps=16),
    "ndtr": _of("ndtr", (-12.0, 9.0), ulps=8),
    "log_ndtr": _of("log_ndtr", (-40.0, 9.0), ulps=8),
    "ndtri": _of("ndtri", UNIT, ulps=16, terms=lambda p: 1e-3),
    "fresnel, S": _of("fresnel", (-20.0, 20.0), call=lambda x: special.fresnel(x)[0], definition=digits.fresnels, ulps=64, terms=_one),
    "fresnel, C": _of("fresnel", (-20.0, 20.0), call=lambda x: special.fresnel(x)[1], definition=digits.fresnelc, ulps=64, terms=_one),
    "sici, Si": _of("sici", WIDE, call=lambda x: special.sici(x)[0], definition=digits.si, ulps=64, terms=_one),
    "sici, Ci": _of("sici", (1e-6, 1e3), call=lambda x: special.sici(x)[1], definition=digits.ci, ulps=64, terms=_one),
    "spence": _of("spence", (1e-6, 1e3), ulps=16, terms=_one),
    "lambertw": _of("lambertw", (-0.35, 1e3), ulps=16),
    "owens_t": _of("owens_t", (-6.0, 6.0), (-3.0, 3.0), ulps=64),
    "hyp1f1": _of("hyp1f1", (0.1, 10.0), (0.5, 10.0), (-10.0, 10.0), ulps=4096, terms=_one),
    "hyp2f1": _of("hyp2f1", (0.1, 4.0), (0.1, 4.0), (0.5, 5.0), (-8.0, 0.9), ulps=4096),
    **_in("gammainc", "a", 0, SHAPE, SHAPE, ulps=256),
    **_in("gammaincc", "a", 0, (0.05, 20.0), (0.5, 50.0), ulps=256),
    **_in("gammaincinv", "a", 0, (0.1, 30.0), (1e-3, 0.999), ulps=256, definition=_gamma_quantile_slope),
    **_in("betainc", "a", 0, (0.05, 20.0), (0.05, 20.0), (0.05, 0.95), ulps=256),
    **_in("betainc", "b", 1, (0.05, 20.0), (0.05, 20.0), (0.05, 0.95), ulps=256),
    **_in("betaincinv", "a", 0, (0.2, 20.0), (0.2, 20.0), (1e-3, 0.999), ulps=256, definition=_beta_quantile_slope(0)),
    **_in("betaincinv", "b", 1, (0.2, 20.0), (0.2, 20.0), (1e-3, 0.999), ulps=256, definition=_beta_quantile_slope(1)),
    **_in("betaincinv", "p", 2, (0.2, 20.0), (0.2, 20.0), (1e-3, 0.999), ulps=256, definition=_beta_quantile_slope(2)),
    **_in("zeta", "x", 0, (1.01, 16.0), SHAPE, ulps=256),
    **_in("zeta", "q", 1, (1.01, 16.0), SHAPE, ulps=256),
    **_in("owens_t", "h", 0, (-6.0, 6.0), (-3.0, 3.0), ulps=64),
    **_in("owens_t", "a", 1, (-6.0, 6.0), (-3.0, 3.0), ulps=1024, definition=_owens_integrand),
    **_in("hyp1f1", "a", 0, (0.1, 10.0), (0.5, 10.0), (-10.0, 10.0), ulps=64, terms=_one),
    **_in("hyp1f1", "b", 1, (0.1, 10.0), (0.5, 10.0), (-10.0, 10.0), ulps=64, terms=_one),
    **_in("hyp2f1", "a", 0, (0.1, 4.0), (0.1, 4.0), (0.5, 5.0), (-1e3, 0.999), ulps=4096),
    **_in("hyp2f1", "b", 1, (0.1, 4.0), (0.1, 4.0), (0.5, 5.0), (-1e3, 0.999), ulps=4096),
    **_in("hyp2f1", "c", 2, (0.1, 4.0), (0.1, 4.0), (0.5, 5.0), (-1e3, 0.999), ulps=4096),
    "jv": _of("jv", ORDER, POSITIVE, ulps=64, terms=_one),
    "yv": _of("yv", ORDER, (0.1, 50.0), ulps=256, terms=_one),
    "iv": _of("iv", ORDER, (0.1, 50.0), ulps=256),
    "ive": _of("ive", ORDER, (0.1, 50.0), ulps=256),
    "kv": _of("kv", (0.0, 10.0), (0.1, 50.0), ulps=32),
    "kve": _of("kve", (0.0, 10.0), (0.1, 50.0), ulps=32),
    **_in("jv", "v", 0, ORDER, POSITIVE, ulps=32, terms=_one),
    **_in("yv", "v", 0, ORDER, (0.1, 50.0), ulps=64, terms=_one),
    **_in("iv", "v", 0, ORDER, (0.1, 50.0), ulps=64),
    **_in("ive", "v", 0, ORDER, (0.1, 50.0), ulps=64),
    **_in("kv", "v", 0, (0.01, 10.0), (0.1, 50.0), ulps=32),
    **_in("kve", "v", 0, (0.01, 10.0), (0.1, 50.0), ulps=32),
    "j0": _of("j0", (-50.0, 50.0), ulps=64, terms=_one),
    "j1": _of("j1", (-50.0, 50.0), ulps=64, terms=_one),
    "y0": _of("y0", POSITIVE, ulps=64, terms=_one),
    "y1": _of("y1", POSITIVE, ulps=64, terms=_one),
    "k0": _of("k0", POSITIVE, ulps=64),
    "k1": _of("k1", POSITIVE, ulps=64),
    "k0e": _of("k0e", POSITIVE, ulps=64),
    "k1e": _of("k1e", POSITIVE, ulps=64),
    "hankel1, imaginary part": _of("hankel1", ORDER, (0.1, 50.0), call=lambda v, x: special.hankel1(v, x).imag, definition=digits.bessely, ulps=256, terms=_one),
    "hankel2, imaginary part": _of("hankel2", ORDER, (0.1, 50.0), call=lambda v, x: special.hankel2(v, x).imag, definition=lambda v, x: -digits.bessely(v, x), ulps=256, terms=_one),
    "spherical_jn(3, z)": _spherical("spherical_jn", 64, _one),
    "spherical_yn(3, z)": _spherical("spherical_yn", 256, _one),
    "spherical_in(3, z)": _spherical("spherical_in", 64),
    "spherical_kn(3, z)": _spherical("spherical_kn", 64),
    "bessel_jn(x, v=2)": _of("bessel_jn", POSITIVE, call=lambda x: special.bessel_jn(x, v=2)[2], definition=lambda x: digits.besselj(2, x), ulps=64, terms=_one),
    "i0": _of("i0", (-80.0, 80.0), ulps=10),
    "i1": _of("i1", (-80.0, 80.0), ulps=10),
    "i0e": _of("i0e", (-80.0, 80.0), ulps=10),
    "i1e": _of("i1e", (-80.0, 80.0), ulps=10),
    "expit": _of("expit", (-80.0, 80.0), ulps=4),
    "logit": _of("logit", UNIT, ulps=4),
    "entr": _of("entr", (1e-12, 1e6), ulps=6),
    "xlogy": _of("xlogy", POSITIVE, POSITIVE, ulps=6),
    "xlog1py": _of("xlog1py", POSITIVE, POSITIVE, ulps=6),
    "rel_entr": _of("rel_entr", POSITIVE, POSITIVE, ulps=4, terms=lambda p, q: p),
    "kl_div": _of("kl_div", POSITIVE, POSITIVE, ulps=4, terms=lambda p, q: p + q),
    "sph_harm_y(3, 2, theta, phi)": _of("sph_harm_y", (0.1, 3.0), (0.1, 6.0), call=lambda theta, phi: special.sph_harm_y(3, 2, theta, phi).real, definition=_harmonic, ulps=16, terms=_one),
}  # fmt: skip
"""Measured functions. Each key is the call that the page shows."""

OTHERS = {
    "bernoulli": "constants, each a correctly rounded fraction",
    "gammasgn": "signs, which are exact",
    "logsumexp": "takes a vector. `tnf.logaddexp` is the same function of two numbers",
    "log_softmax": "takes a vector, as `logsumexp` does",
    "softmax": "takes a vector, as `logsumexp` does",
}
"""Functions that are not measured, each with the reason."""


def arguments(name: str, dtype: str, count: int) -> list[np.ndarray]:
    """Draw numbers from each argument's range: half of them uniformly, and half with a uniform logarithm."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    columns = []
    for low, high in SPECIAL[name].ranges:
        least = max(low, 1e-6 if low <= 0 else low)
        sizes = np.exp(rng.uniform(math.log(least), math.log(max(-low, high)), count))
        sized = np.where((low < 0) & rng.integers(0, 2, count).astype(bool), -sizes, sizes)
        evenly = rng.uniform(low, high, count)
        is_sized = rng.permutation(np.arange(count) % 2 == 0) & (sized >= low) & (sized <= high)
        columns.append(np.where(is_sized, sized, evenly).astype(dtype))
    return columns


def largest_error(name: str, dtype: str, count: int) -> tuple[float, tuple[float, ...]]:
    """Return the largest error of a function, in units in the last place, and the arguments with this error."""
    function, columns = SPECIAL[name], arguments(name, dtype, count)
    values = np.asarray(function.call(*columns))
    rows = zip(*[column.tolist() for column in columns], strict=True)
    kind: Any = np.dtype(dtype)
    judged = [
        (error_of(function, row, y, kind), row)
        for row, y in zip(rows, values.tolist(), strict=True)
    ]
    return max(judged)


HEAD = """# Accuracy of special functions

This page is for readers who need the error of a function of `tnf.special`.
Afterwards you can look up its bound, the arguments for which the bound is declared, and the largest error seen.

Errors are in units in the last place of the exact value, which [mpmath](https://mpmath.org) computes with at least 50 digits. A star marks functions with zeros or cancelling terms; their errors are relative to 1 or to the terms, if these are larger.
Functions run natively, with {count:,} random arguments in each dtype, half of them uniform in the range and half log-uniform.
[Accuracy](accuracy.md) covers the functions that compiled code and XLA compute, with more arguments.

`python -m tools.accuracy.special` writes this page, and fails where an error is beyond its bound.

| function | arguments | bound | float64 | at | float32 | at |
| --- | --- | --- | --- | --- | --- | --- |
"""


def _row(name: str, count: int) -> tuple[str, bool]:
    function = SPECIAL[name]
    cells, is_beyond = [], False
    for dtype in reversed(DTYPES):
        error, at = largest_error(name, dtype, count)
        is_beyond |= error > function.ulps
        cells += [f"{error:.3g}", ", ".join(f"{x:.6g}" for x in at)]
    ranges = ", ".join(f"{low:g} to {high:g}" for low, high in function.ranges)
    bound = f"{function.ulps:g}{'*' if function.terms else ''}"
    return f"| {name} | {ranges} | {bound} | {' | '.join(cells)} |", is_beyond


def main() -> int:
    """Measure all functions and write the page; return 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(prog="tools.accuracy.special")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--only", nargs="*", choices=list(SPECIAL), help="print rows, and write nothing"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, are_beyond = [], []
    for name in options.only or SPECIAL:
        row, is_beyond = _row(name, options.count)
        print(row, "BEYOND" if is_beyond else "", flush=True)
        rows.append(row)
        are_beyond.append(is_beyond)
    if not options.only:
        others = "\n".join(f"- `{name}`: {reason}." for name, reason in OTHERS.items())
        text = f"\n\nThe following are not measured:\n\n{others}\n"
        PAGE.write_text(HEAD.format(count=options.count) + "\n".join(rows) + text)
    return int(any(are_beyond))


if __name__ == "__main__":
    raise SystemExit(main())
