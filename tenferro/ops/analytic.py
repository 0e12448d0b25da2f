"""Ops that are analytic functions of each element.

float16 and bfloat16 operands are converted to float32, and the result is rounded once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tenferro.ops.elementwise import SameType
from tenferro.ops.op import card, normalize
from tenferro.rules.dtypes import FLOATS, INEXACT
from tenferro.rules.payload import as_int
from tenferro.types import DType

__all__ = [
    "CARDS",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atan2",
    "Atanh",
    "Cbrt",
    "Cos",
    "Cosh",
    "Digamma",
    "Erf",
    "ErfInv",
    "Erfc",
    "Exp",
    "Expm1",
    "Lgamma",
    "Log",
    "Log1p",
    "Logistic",
    "Polygamma",
    "Rsqrt",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
    "Tanh",
]


class Exp(SameType):
    """Exponential: y = e^x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "exp"


class Expm1(SameType):
    """y = e^x - 1, accurate near 0.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT


class Log(SameType):
    """Natural logarithm: y = log(x); for complex x, the branch cut is the negative real axis.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "log"


class Log1p(SameType):
    """y = log(1 + x), accurate near 0.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT


class Sqrt(SameType):
    """Square root: y = x^(1/2), with a real part that is not negative.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "sqrt"


class Rsqrt(SameType):
    """Reciprocal square root: y = x^(-1/2).

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT


class Cbrt(SameType):
    """Real cube root: y = x^(1/3), with the sign of x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS
    ufunc: ClassVar[str] = "cbrt"


class Sin(SameType):
    """Sine: y = sin(x), x in radians.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "sin"


class Cos(SameType):
    """Cosine: y = cos(x), x in radians.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "cos"


class Tan(SameType):
    """Tangent: y = tan(x), x in radians.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "tan"


class Tanh(SameType):
    """Hyperbolic tangent: y = tanh(x).

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT


class Logistic(SameType):
    """Logistic function: y = 1 / (1 + e^-x).

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT


class Asin(SameType):
    """Inverse sine: y in [-pi/2, pi/2] with sin(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arcsin"


class Acos(SameType):
    """Inverse cosine: y in [0, pi] with cos(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arccos"


class Atan(SameType):
    """Inverse tangent: y in [-pi/2, pi/2] with tan(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arctan"


class Sinh(SameType):
    """Hyperbolic sine: y = (e^x - e^-x) / 2.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "sinh"


class Cosh(SameType):
    """Hyperbolic cosine: y = (e^x + e^-x) / 2.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "cosh"


class Asinh(SameType):
    """Inverse hyperbolic sine: y with sinh(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arcsinh"


class Acosh(SameType):
    """Inverse hyperbolic cosine: y >= 0 with cosh(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arccosh"


class Atanh(SameType):
    """Inverse hyperbolic tangent: y with tanh(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float and complex dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = INEXACT
    ufunc: ClassVar[str] = "arctanh"


class Erf(SameType):
    """Error function: y = 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Erfc(SameType):
    """Complementary error function: y = 1 - erf(x), accurate for large x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class ErfInv(SameType):
    """Inverse error function: y with erf(y) = x.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Lgamma(SameType):
    """Logarithm of the gamma function: y = log |Gamma(x)|.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Digamma(SameType):
    """Digamma function: y = Gamma'(x) / Gamma(x); NaN at the poles.

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS


class Atan2(SameType):
    """Angle of the point (x1, x0): y = arg(x1 + i x0), from -pi to pi; signed zeros as in C99.

    Shapes:  x0 S, x1 S -> S
    Dtypes:  every float dtype
    AD:      rule
    """

    __slots__ = ()
    accepts: ClassVar[frozenset[DType]] = FLOATS
    ufunc: ClassVar[str] = "arctan2"
    input_count: ClassVar[Any] = 2


@card
class Polygamma(SameType):
    """Polygamma function: y = the `order`-th derivative of digamma; order 0 is digamma itself.

    For order n above 0, y = (-1)^(n+1) n! zeta(n + 1, x), with poles at 0, -1, -2, ..

    Shapes:  x S -> S
    Dtypes:  every float dtype
    AD:      rule, which uses the polygamma function of the next order
    Lowers:  sums over the poles in plain StableHLO; order 0 as digamma
    Errors:  DTypeError on another dtype; InvalidConfigError unless order is 0 to 1000
    Source:  Abramowitz and Stegun 6.4
    """

    order: int

    accepts: ClassVar[frozenset[DType]] = FLOATS

    def __post_init__(self) -> None:
        normalize(self, order=as_int("Polygamma", "order", self.order, 0, 1000))


def derivative_of_cotangent(order: int) -> list[int]:
    """Return the coefficients, in rising powers of c = cot x, of the `order`-th derivative of cot x.

    >>> derivative_of_cotangent(2)
    [0, 2, 0, 2]
    """
    coefficients = [0, 1]
    for _ in range(order):
        slopes = [j * c for j, c in enumerate(coefficients)][1:]
        coefficients = [0] * (len(slopes) + 2)
        for j, slope in enumerate(slopes):
            coefficients[j] -= slope
            coefficients[j + 2] -= slope
    return coefficients


CARDS = (
    Exp,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Cbrt,
    Sin,
    Cos,
    Tan,
    Tanh,
    Logistic,
    Atan2,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    ErfInv,
    Lgamma,
    Digamma,
    Polygamma,
)
