"""Functions of a distribution: densities, distribution functions and their inverses, derived from its formulas.

A distribution is a record of formulas in the standard variable z = (x - loc) / scale, valid inside the support. This
module adds location and scale, the ends of the support, and the treatment of invalid parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    negative,
    subtract,
    where,
)
from tenferro.special.operands import in_reals, with_signature
from tenferro.types import Tensor

__all__ = ["Continuous", "Discrete", "Distribution"]

Formula = Callable[..., Any]

METHODS: Mapping[str, str] = {
    "pdf": "Probability density",
    "logpdf": "Logarithm of the probability density",
    "pmf": "Probability",
    "logpmf": "Logarithm of the probability",
    "cdf": "Distribution function, the probability of values up to x,",
    "logcdf": "Logarithm of the distribution function",
    "sf": "Survival function, the probability of values above x,",
    "logsf": "Logarithm of the survival function",
    "ppf": "Quantile, the x at which `cdf` is q,",
    "isf": "Upper quantile, the x at which `sf` is q,",
    "entropy": "Entropy",
}
"""First words of the docstrings of a distribution's functions, by the name of the function."""


def full(x: Tensor, value: float) -> Any:
    """Return a tensor of the shape and dtype of x with every element equal to `value`."""
    return add(zeros_like(x), value)


def positive(*parameters: Tensor) -> Any:
    """Return, elementwise, whether all parameters are positive."""
    return functools.reduce(logical_and, [greater(x, 0.0) for x in parameters])


@dataclass(frozen=True)
class Continuous:
    """Formulas of a continuous distribution: functions of z or of a probability q in (0, 1), and of shape parameters.

    Attributes:
        parameters: the names of the shape parameters.
        text: the name of the distribution, with its density.
        logpdf, cdf, sf, logcdf, logsf, ppf, isf: the formulas. A formula that is None is derived from the others if
            that is possible.
        support: the two ends of the support. Each is a number, or a function of the shape parameters.
        inner: a point inside the support: a number, or a function of the shape parameters.
        is_valid: a function of the shape parameters that returns, elementwise, whether they are valid.
        is_symmetric: whether the distribution is symmetric about 0, so that sf(z) is cdf(-z).
    """

    parameters: tuple[str, ...]
    text: str
    logpdf: Formula
    cdf: Formula | None = None
    sf: Formula | None = None
    logcdf: Formula | None = None
    logsf: Formula | None = None
    ppf: Formula | None = None
    isf: Formula | None = None
    support: tuple[Any, Any] = (-math.inf, math.inf)
    inner: Any = 0.5
    is_valid: Formula | None = None
    is_symmetric: bool = False

    variable = "x"

    def methods(self) -> dict[str, Formula]:
        """Return the functions of the distribution by name.

        Their arguments are x or q, the shape parameters, loc and scale.
        """
        methods = {"logpdf": self._density, "pdf": lambda *xs: exp(self._density(*xs))}
        cdf, sf = self.cdf, self.sf
        logcdf, logsf, isf = self.logcdf, self.logsf, self.isf
        if self.is_symmetric:
            sf, logsf = _mirrored(cdf), _mirrored(logcdf)
            isf = None if self.ppf is None else _negated(self.ppf)
        if cdf is not None and sf is not None:
            methods["cdf"] = self._between(cdf, 0.0, 1.0)
            methods["sf"] = self._between(sf, 1.0, 0.0)
            methods["logcdf"] = self._between(logcdf or _logarithm(cdf, sf), -math.inf, 0.0)
            methods["logsf"] = self._between(logsf or _logarithm(sf, cdf), 0.0, -math.inf)
        if self.ppf is not None:
            methods["ppf"] = self._quantile(self.ppf, upper=False)
        if isf is not None:
            methods["isf"] = self._quantile(isf, upper=True)
        return methods

    def _standard(self, x: Tensor, operands: Sequence[Tensor]) -> _Standard:
        *shapes, loc, scale = operands
        low, high = [_at(end, x, shapes) for end in self.support]
        is_valid = greater(scale, 0.0)
        if self.is_valid is not None:
            is_valid = logical_and(is_valid, self.is_valid(*shapes))
        return _Standard(
            divide(subtract(x, loc), scale), shapes, low, high, _at(self.inner, x, shapes), is_valid
        )

    def _density(self, x: Tensor, *operands: Tensor) -> Any:
        z, shapes, low, high, inner, is_valid = self._standard(x, operands)
        is_outside = logical_or(logical_or(less(z, low), greater(z, high)), equal(abs(z), math.inf))
        y = subtract(self.logpdf(where(is_outside, inner, z), *shapes), log(operands[-1]))
        return where(is_valid, where(is_outside, -math.inf, y), math.nan)

    def _between(self, formula: Formula, at_low: float, at_high: float) -> Formula:
        def values(x: Tensor, *operands: Tensor) -> Any:
            z, shapes, low, high, inner, is_valid = self._standard(x, operands)
            is_below, is_above = less_equal(z, low), greater_equal(z, high)
            y = formula(where(logical_or(is_below, is_above), inner, z), *shapes)
            y = where(is_below, at_low, where(is_above, at_high, y))
            return where(is_valid, y, math.nan)

        return values

    def _quantile(self, formula: Formula, upper: bool) -> Formula:
        def values(q: Tensor, *operands: Tensor) -> Any:
            *shapes, loc, scale = operands
            _, _, low, high, _, is_valid = self._standard(q, operands)
            is_inside = logical_and(greater(q, 0.0), less(q, 1.0))
            z = formula(where(is_inside, q, 0.5), *shapes)
            first, last = (high, low) if upper else (low, high)
            ends = where(equal(q, 0.0), first, where(equal(q, 1.0), last, math.nan))
            x = add(loc, multiply(scale, where(is_inside, z, ends)))
            return where(is_valid, x, math.nan)

        return values

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the parameters after the first parameter, x or q. None stands for no default."""
        return {**dict.fromkeys(self.parameters), "loc": 0, "scale": 1}


class _Standard(NamedTuple):
    """Standard variable of a distribution, with the facts that its functions need.

    These are the shape parameters, the ends of the support, a point inside it, and whether the parameters are valid.
    """

    z: Any
    shapes: Sequence[Any]
    low: Any
    high: Any
    inner: Any
    is_valid: Any


def _at(value: Any, x: Tensor, shapes: Sequence[Tensor]) -> Any:
    return value(*shapes) if callable(value) else full(x, value)


def _mirrored(formula: Formula | None) -> Formula | None:
    """Return `formula` with z replaced by -z; None if `formula` is None."""
    return None if formula is None else lambda z, *shapes: formula(negative(z), *shapes)


def _negated(formula: Formula) -> Formula:
    return lambda q, *shapes: negative(formula(q, *shapes))


def _logarithm(this: Formula, other: Formula) -> Formula:
    """Return a formula for the logarithm of p, from the formulas `this` for p and `other` for 1 - p."""

    def values(z: Tensor, *shapes: Tensor) -> Any:
        p, rest = this(z, *shapes), other(z, *shapes)
        is_small = less(p, 0.5)
        small, large = log(where(is_small, p, 1.0)), log1p(negative(where(is_small, 0.0, rest)))
        return where(is_small, small, large)

    return values


@dataclass(frozen=True)
class Discrete:
    """Formulas of a discrete distribution on whole numbers: functions of k = x - loc and the shape parameters.

    Attributes:
        parameters: the names of the shape parameters.
        text: the name of the distribution, with its probabilities.
        logpmf: a formula for the logarithm of the probability of a whole k in the support.
        support: the two ends of the support. Each is a number, or a function of the shape parameters.
        is_valid: a function of the shape parameters that returns, elementwise, whether they are valid.
        cdf, sf, logsf: formulas for a whole k in the support, or None.
        ppf: a formula for the quantile for q in [0, 1], or None.
        entropy: a function of the shape parameters, or None.
    """

    parameters: tuple[str, ...]
    text: str
    logpmf: Formula
    support: tuple[Any, Any]
    is_valid: Formula
    cdf: Formula | None = None
    sf: Formula | None = None
    logsf: Formula | None = None
    ppf: Formula | None = None
    entropy: Formula | None = None

    variable = "k"

    def methods(self) -> dict[str, Formula]:
        """Return the functions of the distribution by name.

        Their arguments are k or q, the shape parameters and loc.
        """
        methods = {"logpmf": self._probability, "pmf": lambda *xs: exp(self._probability(*xs))}
        cdf, sf, ppf = self.cdf, self.sf, self.ppf
        if cdf is not None and sf is not None:
            methods["cdf"] = self._between(cdf, 0.0, 1.0)
            methods["sf"] = self._between(sf, 1.0, 0.0)
            methods["logcdf"] = self._between(_logarithm(cdf, sf), -math.inf, 0.0)
            methods["logsf"] = self._between(self.logsf or _logarithm(sf, cdf), 0.0, -math.inf)
        if ppf is not None:
            methods["ppf"] = lambda q, *p: where(
                logical_and(
                    self.is_valid(*p[:-1]), logical_and(greater_equal(q, 0.0), less_equal(q, 1.0))
                ),
                add(p[-1], ppf(q, *p[:-1])),
                math.nan,
            )
        if self.entropy is not None:
            entropy = self.entropy
            methods["entropy"] = lambda *p: where(
                self.is_valid(*p[:-1]), entropy(*p[:-1]), math.nan
            )
        return methods

    def _probability(self, x: Tensor, *operands: Tensor) -> Any:
        *shapes, loc = operands
        k = subtract(x, loc)
        low, high = [_at(end, x, shapes) for end in self.support]
        is_whole = logical_or(equal(k, floor(k)), isnan(k))
        is_outside = logical_or(logical_or(less(k, low), greater(k, high)), logical_not(is_whole))
        is_outside = logical_or(is_outside, equal(abs(k), math.inf))
        y = self.logpmf(where(is_outside, low, k), *shapes)
        return where(self.is_valid(*shapes), where(is_outside, -math.inf, y), math.nan)

    def _between(self, formula: Formula, at_low: float, at_high: float) -> Formula:
        def values(x: Tensor, *operands: Tensor) -> Any:
            *shapes, loc = operands
            k = floor(subtract(x, loc))
            low, high = [_at(end, x, shapes) for end in self.support]
            is_below, is_above = less(k, low), greater_equal(k, high)
            y = formula(where(logical_or(is_below, is_above), low, k), *shapes)
            y = where(is_below, at_low, where(is_above, at_high, y))
            is_number = logical_and(self.is_valid(*shapes), equal(k, k))
            return where(is_number, y, math.nan)

        return values

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the parameters after the first parameter, k or q. None stands for no default."""
        return {**dict.fromkeys(self.parameters), "loc": 0}


class Distribution:
    """Probability distribution. Its functions are attributes, as in `scipy.stats` and `jax.scipy.stats`."""

    def __init__(self, name: str, record: Continuous | Discrete) -> None:
        names: list[str] = []
        for method, formula in record.methods().items():
            first = {"ppf": {"q": None}, "isf": {"q": None}, "entropy": {}}.get(
                method, {record.variable: None}
            )
            label = f"stats.{name}.{method}"

            def compute(*xs: Any, formula: Formula = formula, label: str = label) -> Any:
                return in_reals(label.removeprefix("stats."), formula, *xs)

            text = f"""{METHODS[method]} of {record.text}

            The result is NaN where a parameter is invalid.

            Source: scipy.stats.{name}.
            """
            public = with_signature(
                f"{name}.{method}", "tenferro.stats", {**first, **record.defaults}, text, compute
            )
            setattr(self, method, public)
            names.append(method)
        self.__doc__ = f"Functions of {record.text}"
        self.__name__, self.__all__ = name, names

    def __repr__(self) -> str:
        return f"<tnf.stats.{self.__name__}: {', '.join(self.__all__)}>"
