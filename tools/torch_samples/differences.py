"""Intended differences from PyTorch: each entry has the functions, checks and outcomes that it explains, and the
reason.

An outcome is a text: a difference or an error. When the page is written, every outcome other than agreement must be
explained by an entry, and every entry must explain an outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DIFFERENCES", "Difference", "difference_of"]


@dataclass(frozen=True)
class Difference:
    """Expected outcomes and the reason for them.

    `outcome` is a regular expression that matches the beginning of the outcome, and `words` is the reason. An empty
    tuple of functions, checks or dtypes means all of them.
    """

    outcome: str
    words: str
    functions: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def explains(self, function: str, check: str, dtype: str, outcome: str) -> bool:
        """Tell whether this entry explains the outcome."""
        return (
            (not self.functions or function in self.functions)
            and (not self.checks or check in self.checks)
            and (not self.dtypes or dtype in self.dtypes)
            and re.match(self.outcome, outcome) is not None
        )


OFF = "off by "
DERIVATIVES = ("jvp", "vjp", "forward over reverse", "reverse over reverse")

DIFFERENCES: dict[str, Difference] = {
    "axis of a scalar": Difference(
        r"AxisError: .* is outside a tensor of rank 0|ShapeError: cumulative_\w+: give axis= for \S+\[\]",
        "a scalar has no axis, as in NumPy; PyTorch accepts 0 and -1 as its axis",
    ),
    "complex order": Difference(
        r"DTypeError: .*(takes real numbers|must be float, got c)",
        "complex numbers have no order, so these functions accept only real numbers here",
    ),
    "no broadcasting": Difference(
        "ShapeError: lax.complex: operands must have one shape",
        "functions of `lax` do not broadcast, as in JAX",
        ("lax.complex",),
    ),
    "nothing beside matrices": Difference(
        "AxisError: concat.*: axis 1 is outside a tensor of rank 1",
        "operands have the same rank; PyTorch ignores a vector without elements",
        ("concat", "concatenate"),
    ),
    "extents of one": Difference(
        "ShapeError: DotGeneral: contracting axis",
        "contracted extents must be equal; PyTorch broadcasts an extent of 1",
        ("tensordot", "linalg.tensordot"),
    ),
    "extents that elements decide": Difference(
        "DataDependentShapeError: ",
        "a program's shapes are known before it runs: such functions run natively, on arrays alone",
    ),
    "stacks of vectors": Difference(
        "ShapeError: Solve: x0 .* must have one batch shape",
        "only a right-hand side with one axis is a vector, as in NumPy 2; PyTorch also accepts a stack of vectors if the shapes fit",
        ("linalg.solve",),
    ),
    "bound of another dtype": Difference(
        r"float64\[.*\] for float32\[",
        "an array of int32 as a bound promotes float32 to float64, as in NumPy",
        ("clip",),
        ("value",),
    ),
    "two tolerances": Difference(
        "InvalidConfigError: matrix_rank: give one of tol and rtol",
        "one tolerance at a time, as in NumPy",
        ("linalg.matrix_rank",),
    ),
    "float64 statistics": Difference(
        r"(float64|complex128)\[.*\] for (float32|complex64)\[",
        "computed in double precision, as in NumPy",
        ("cov", "corrcoef"),
        ("value",),
    ),
    "counts": Difference(
        r"int64\[.*\] for float", "counts are integers, as in NumPy", ("histogram",), ("value",)
    ),
    "int64 indices": Difference(
        r"int64\[.*\] for int32",
        "indices are always int64; PyTorch has the option `out_int32`",
        ("searchsorted", "digitize"),
        ("value",),
    ),
    "neighbours": Difference(
        OFF,
        "a neighbour has no derivative here; PyTorch returns the derivative of the first argument",
        ("nextafter",),
        DERIVATIVES,
    ),
    "cumulative logarithms": Difference(
        OFF + "inf where",
        "PyTorch's JVP, the derivative of its VJP by the cotangent, is NaN",
        ("lax.cumlogsumexp",),
        ("jvp",),
    ),
    "digits of polygamma": Difference(
        OFF,
        "PyTorch's trigamma has only nine correct digits; tenferro's has all digits, by mpmath",
        ("special.multigammaln",),
        ("forward over reverse", "reverse over reverse"),
        ("float64",),
    ),
    "tail of the normal distribution": Difference(
        OFF,
        "PyTorch's ndtr is (1 + erf) / 2, which loses its tail below -5",
        ("special.ndtr",),
        ("value",),
    ),
    "shares of large exponents": Difference(
        OFF,
        "PyTorch's shares are exp(x - logsumexp(x)), which lose as many digits as x has before the point",
        ("logsumexp", "special.logsumexp", "nn.logsumexp"),
        ("vjp", "forward over reverse", "reverse over reverse"),
        ("float64",),
    ),
    "a sixth in single precision": Difference(
        OFF,
        "PyTorch multiplies float64 by a sixth that was rounded to single precision",
        ("nn.hard_sigmoid",),
        ("vjp",),
        ("float64",),
    ),
}


def difference_of(function: str, check: str, dtype: str, outcome: str) -> str | None:
    """Return the name of the first entry that explains the outcome, or None."""
    names = [n for n, d in DIFFERENCES.items() if d.explains(function, check, dtype, outcome)]
    return names[0] if names else None
