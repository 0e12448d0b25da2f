"""Special functions with jax.lax's names, for operands of one dtype and one shape.

Source: jax.lax, "Operators". The functions call those of `tenferro.special`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro import special
from tenferro.api.autodiff import jvp
from tenferro.api.creation import ones_like
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError
from tenferro.lax.operands import same_types
from tenferro.types import ArrayLike

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "polygamma",
    "zeta",
]


def bessel_i0e(x: ArrayLike) -> Any:
    """Return e^-|x| I0(x), the scaled modified Bessel function of order 0.

    Raises:
        DTypeError: x is complex.

    >>> import numpy as np
    >>> bessel_i0e(np.array([0.0, 1.0]))
    array([1.        , 0.46575961])
    """
    return special.i0e(x)


def bessel_i1e(x: ArrayLike) -> Any:
    """Return e^-|x| I1(x), the scaled modified Bessel function of order 1.

    Raises:
        DTypeError: x is complex.

    >>> import numpy as np
    >>> bessel_i1e(np.array([0.0, 1.0]))
    array([0.        , 0.20791042])
    """
    return special.i1e(x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Any:
    """Return the regularised incomplete beta function I_x(a, b), with derivatives in all arguments.

    Raises:
        DTypeError, ShapeError: the operands differ in dtype or shape.

    >>> import numpy as np
    >>> betainc(np.array([1.0]), np.array([2.0]), np.array([0.5]))
    array([0.75])
    """
    return special.betainc(*same_types("betainc", a, b, x))


def igamma(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the lower regularised incomplete gamma function P(a, x), with derivatives in both arguments.

    Raises:
        DTypeError, ShapeError: the operands differ in dtype or shape.

    >>> import numpy as np
    >>> igamma(np.array([1.0]), np.array([1.0]))
    array([0.63212056])
    """
    return special.gammainc(*same_types("igamma", a, x))


def igammac(a: ArrayLike, x: ArrayLike) -> Any:
    """Return the upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x).

    Raises:
        DTypeError, ShapeError: the operands differ in dtype or shape.

    >>> import numpy as np
    >>> igammac(np.array([1.0]), np.array([1.0]))
    array([0.36787944])
    """
    return special.gammaincc(*same_types("igammac", a, x))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Any:
    """Return dP(a, x) / da, the derivative of `igamma` in its first argument.

    Raises:
        DTypeError, ShapeError: the operands differ in dtype or shape.

    >>> import numpy as np
    >>> igamma_grad_a(np.array([1.0]), np.array([1.0]))
    array([-0.43172971])
    """
    a, x = same_types("igamma_grad_a", a, x)
    return jvp(lambda a: special.gammainc(a, x), (a,), (ones_like(a),))[1]


def polygamma(m: ArrayLike, x: ArrayLike) -> Any:
    """Return the m-th derivative of digamma, for a Python integer m or a tensor of orders.

    Raises:
        InvalidConfigError: m is a Python number, but is not an integer, or is negative.
        DTypeError, ShapeError: x is not a float, or m is a tensor of another dtype or shape.

    >>> import numpy as np
    >>> polygamma(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    array([-0.57721566,  1.64493407])
    """
    if not spec_of(as_operand(x)).dtype.is_float:
        raise DTypeError(f"lax.polygamma: x must be a float, got {spec_of(as_operand(x))}")
    if isinstance(m, (int, float, np.number)):
        return special.polygamma(m, x)
    return special.polygamma(*same_types("polygamma", m, x))


def zeta(x: ArrayLike, q: ArrayLike) -> Any:
    """Return the Hurwitz zeta function: the sum of (n + q)^-x over n = 0, 1, ..

    Raises:
        DTypeError, ShapeError: the operands differ in dtype or shape.

    >>> import numpy as np
    >>> zeta(np.array([2.0]), np.array([1.0]))
    array([1.64493407])
    """
    return special.zeta(*same_types("zeta", x, q))
