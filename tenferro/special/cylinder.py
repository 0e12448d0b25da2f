"""Bessel functions of real order v, with derivatives of every order in v and x.

Derivatives in v are a separate function of the table. Its operands are n, the number of derivatives, v and x.
Derivatives in x are differences of functions of neighbouring orders (DLMF 10.6.1, 10.29.1).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tenferro.api.creation import zeros_like
from tenferro.api.elementwise import (
    abs,
    add,
    equal,
    greater,
    less,
    logical_and,
    logical_or,
    multiply,
    negative,
    sign,
    subtract,
    where,
)
from tenferro.api.manipulation import stack
from tenferro.api.promotion import convert
from tenferro.dispatch import apply_one, spec_of, stop_gradient
from tenferro.ops.elementwise import Complex
from tenferro.special import hankel, kernels, macdonald, orders
from tenferro.special.functions import TABLE, Row, function, value_of, written
from tenferro.special.operands import as_order
from tenferro.types import ArrayLike, DType

__all__ = [
    "bessel_jn", "hankel1", "hankel2", "iv", "ive", "j0", "j1", "jv", "k0", "k0e", "k1", "k1e", "kv", "kve", "y0", "y1", "yv",
]  # fmt: skip


def _neighbours(name: str, below: float, above: float) -> Any:
    """Return the derivative in x of a function f_v(x): (below f_(v-1) + above f_(v+1)) / 2.

    The operands may begin with n, the number of derivatives in v.
    """

    def slope(y: Any, *operands: Any) -> Any:
        return _steps(name, below, above, operands)[0]

    return slope


def _steps(name: str, below: float, above: float, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return (below f_(v-1) + above f_(v+1)) / 2, and whether one of f_(v-1) and f_(v+1) is infinite.

    Where the f with the larger |order| is infinite, the other f is set to 0, and evaluated at x = 1 so that it is
    finite. In the limit, the term with the larger |order| dominates, also in derivatives.
    """
    *counts, v, x = operands
    pair = [add(v, -1.0), add(v, 1.0)]
    lower_is_infinite, upper_is_infinite = (
        equal(abs(stop_gradient(value_of(name, *counts, order, x))), math.inf) for order in pair
    )
    left_out = (
        logical_and(upper_is_infinite, greater(v, 0.0)),
        logical_and(lower_is_infinite, less(v, 0.0)),
    )
    lower, upper = (
        where(is_out, 0.0, value_of(name, *counts, order, where(is_out, 1.0, x)))
        for is_out, order in zip(left_out, pair, strict=True)
    )
    total = add(multiply(below / 2, lower), multiply(above / 2, upper))
    return total, logical_or(lower_is_infinite, upper_is_infinite)


def _scaled(name: str, sign_of_scale: float) -> Any:
    """Return the derivative in x of a function that is scaled by an exponential, such as `ive` or `kve`."""

    def slope(y: Any, *operands: Any) -> Any:
        steps, is_infinite = _steps(name, sign_of_scale, sign_of_scale, operands)
        *rest, x = operands
        own = value_of(name, *rest, where(is_infinite, 1.0, x))
        own = multiply(sign(x), own) if sign_of_scale > 0 else negative(own)
        return subtract(steps, where(is_infinite, 0.0, own))

    return slope


def _by_order(name: str, letter: str, scale: float, slope: Any, expansion: Any = None) -> Any:
    """Add the derivatives of a function in v to the table. Return a function that computes the first derivative."""
    label = f"{name}_by_order"
    partials = (None, lambda y, n, v, x: value_of(label, add(n, 1.0), v, x), slope(label))
    row = Row(label, ("n", "v", "x"), orders.kernel_of(letter, scale), partials, expansion)
    function(row, f"Return the n-th derivative of `{name}` in v, for nonnegative integers n.")
    return lambda y, v, x: value_of(label, add(zeros_like(v), 1.0), v, x)


def _row(name: str, kernel: Any, slope: Any, letter: str, scale: float, *expansions: Any) -> Row:
    """Return the table entry of a function of v and x.

    `expansions` contains the expansion of the function, and the expansion of its derivatives in v.
    """
    by_order = _by_order(name, letter, scale, slope, *expansions[1:])
    return Row(name, ("v", "x"), kernel, (by_order, slope(name)), *expansions[:1])


jv = function(
    _row(
        "jv",
        kernels.jv,
        partial(_neighbours, below=1.0, above=-1.0),
        "J",
        0.0,
        partial(written, hankel.jv),
        hankel.by_order(hankel.jv, at_zero=0.0, at_infinity=0.0),
    ),
    """The Bessel function of the first kind J_v(x); NaN for x < 0 unless v is whole.

    Derivatives in v and x are supported. For |x|, |v| < 50, the native error of the value and of its first derivative
    in v is at most 64 ulps of the larger of 1 and the value.
    On other peers, for |v| <= 50 and x in (1e-3, 1e3), the error is at most 2e-13 of the value or, where the function
    oscillates, of its amplitude. This is also the bound of the first two derivatives in v; further derivatives in v, and
    values for |v| > 2e4, are NaN.

    >>> jv(0.5, [0.0, 1.0])
    array([0.        , 0.67139671])

    Source: NIST's DLMF, section 10.2; scipy.special.jv.
    """,
)
yv = function(
    _row(
        "yv",
        kernels.yv,
        partial(_neighbours, below=1.0, above=-1.0),
        "Y",
        0.0,
        partial(written, hankel.yv),
        hankel.by_order(hankel.yv, at_zero=math.nan, at_infinity=0.0),
    ),
    """The Bessel function of the second kind Y_v(x); NaN for x < 0.

    Derivatives in v and x are supported. For |x|, |v| < 50, the native error of the value and of its first derivative
    in v is at most 256 ulps of the larger of 1 and the value.
    On other peers, for |v| <= 50 and x in (1e-3, 1e3), the error is at most 2e-13 of the value or, where the function
    oscillates, of its amplitude. This is also the bound of the first two derivatives in v; further derivatives in v, and
    values for |v| > 2e4, are NaN.

    >>> yv(0.5, 1.0)
    array(-0.43109887)

    Source: NIST's DLMF, section 10.2; scipy.special.yv.
    """,
)
iv = function(
    _row(
        "iv",
        kernels.iv,
        partial(_neighbours, below=1.0, above=1.0),
        "I",
        0.0,
        partial(written, hankel.iv),
        hankel.by_order(hankel.iv, at_zero=0.0, at_infinity=math.nan),
    ),
    """The modified Bessel function of the first kind I_v(x); NaN for x < 0 unless v is whole.

    Derivatives in v and x are supported. For |v| < 50, the native error of the value and of its first derivative in v
    is at most 256 ulps.
    On other peers, for |v| <= 50 and x in (1e-3, 1e3), the error is at most 2e-13 of the value, and that of the first
    two derivatives in v at most 2e-13 of the larger of value and derivative. Further derivatives in v, and values for
    |v| > 2e4, are NaN.

    >>> iv(0.5, [0.0, 1.0])
    array([0.        , 0.93767489])

    Source: NIST's DLMF, section 10.25; scipy.special.iv.
    """,
)
ive = function(
    _row(
        "ive",
        kernels.ive,
        partial(_scaled, sign_of_scale=1.0),
        "I",
        -1.0,
        partial(written, hankel.ive),
        hankel.by_order(hankel.ive, at_zero=0.0, at_infinity=0.0),
    ),
    """e^-|x| I_v(x), which does not overflow; see `iv`.

    >>> ive(0.5, [1.0, 1000.0])
    array([0.34495131, 0.01261566])

    Source: scipy.special.ive.
    """,
)
kv = function(
    _row(
        "kv",
        kernels.kv,
        partial(_neighbours, below=-1.0, above=-1.0),
        "K",
        0.0,
        macdonald.kv,
        macdonald.kv_by_order,
    ),
    """The modified Bessel function of the second kind K_v(x); NaN for x < 0.

    Derivatives in v and x are supported. For |v| < 50, the native error is at most 32 ulps. On other
    peers, third derivatives in v are NaN for x < 1e-10.

    >>> kv(0.5, [1.0, 2.0])
    array([0.4610685 , 0.11993777])

    Source: NIST's DLMF, section 10.25; scipy.special.kv.
    """,
)
kve = function(
    _row(
        "kve",
        kernels.kve,
        partial(_scaled, sign_of_scale=-1.0),
        "K",
        1.0,
        macdonald.kve,
        macdonald.kve_by_order,
    ),
    """e^x K_v(x), which does not underflow; see `kv`.

    >>> kve(0.5, [1.0, 1000.0])
    array([1.25331414, 0.03963327])

    Source: scipy.special.kve.
    """,
)


def _of_order(name: str, of: str, order: float, shown: str) -> Any:
    """Add the function of fixed order that SciPy has in addition to the function `of` of any order, and return it."""
    general = TABLE[of]
    slope, expansion = general.partials[1], general.expansion

    def at_order(x: Any) -> Any:
        return add(zeros_like(x), order)

    def by_x(y: Any, x: Any) -> Any:
        return slope(y, at_order(x), x)  # pyright: ignore[reportCallIssue, reportOptionalCall]  # because it is a formula

    def expanded(x: Any) -> Any:
        return expansion(at_order(x), x)  # pyright: ignore[reportOptionalCall]  # because it is used where there is one

    row = Row(
        name,
        ("x",),
        kernels.of_order(general.kernel, order, name),
        (by_x,),
        None if expansion is None else expanded,
    )
    text = f"""{shown}(x): `{of}` of order {order:g}.

    The native error is at most 64 ulps of the larger of 1 and the value.

    Source: scipy.special.{name}.
    """
    return function(row, text)


j0 = _of_order("j0", "jv", 0.0, "The Bessel function J_0")
j1 = _of_order("j1", "jv", 1.0, "The Bessel function J_1")
y0 = _of_order("y0", "yv", 0.0, "The Bessel function Y_0")
y1 = _of_order("y1", "yv", 1.0, "The Bessel function Y_1")
k0 = _of_order("k0", "kv", 0.0, "The modified Bessel function K_0")
k1 = _of_order("k1", "kv", 1.0, "The modified Bessel function K_1")
k0e = _of_order("k0e", "kve", 0.0, "The scaled Bessel function e^x K_0")
k1e = _of_order("k1e", "kve", 1.0, "The scaled Bessel function e^x K_1")


def _complex(*parts: Any) -> Any:
    """Return a complex tensor from its real and imaginary parts. It is complex64 if the parts have 16 bits."""
    dtype = spec_of(parts[0]).dtype
    return apply_one(
        Complex(), *[convert(x, DType.F32) if dtype.itemsize == 2 else x for x in parts]
    )


def hankel1(v: ArrayLike, z: ArrayLike) -> Any:
    """Compute Hankel's function of the first kind H_v(z) = J_v(z) + i Y_v(z); NaN for z < 0.

    Derivatives and error bounds are those of `jv` and `yv`.

    Raises:
        DTypeError: an operand is complex.

    >>> hankel1(0.5, 1.0)
    array(0.67139671-0.43109887j)

    Source: NIST's DLMF, section 10.2; scipy.special.hankel1.
    """
    return _complex(jv(v, z), yv(v, z))


def hankel2(v: ArrayLike, z: ArrayLike) -> Any:
    """Compute Hankel's function of the second kind J_v(z) - i Y_v(z), the conjugate of `hankel1`.

    Raises:
        DTypeError: an operand is complex.

    >>> hankel2(0.5, 1.0)
    array(0.67139671+0.43109887j)

    Source: NIST's DLMF, section 10.2; scipy.special.hankel2.
    """
    return _complex(jv(v, z), negative(yv(v, z)))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Any:
    """Compute the Bessel functions J_0(z), .. J_v(z), stacked along a new first axis.

    Args:
        v: the largest order, a Python int.
        n_iter: no effect. In JAX, the recurrence starts at this order.

    Raises:
        InvalidConfigError: v is not an int of at least 0.
        DTypeError: z is complex.

    >>> bessel_jn(1.0, v=1)
    array([0.76519769, 0.44005059])

    Source: jax.scipy.special.bessel_jn.
    """
    count = as_order("bessel_jn", "v", v, 0) + 1
    return stack([jv(float(order), z) for order in range(count)])
