"""Intended differences from PyTorch: functions, checks, outcomes, and reasons.

An outcome is the text of a judgement or of an error. Unused entries and unexplained outcomes are errors when
the page is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DIFFERENCES", "Difference", "difference_of"]


@dataclass(frozen=True)
class Difference:
    """An expected outcome, as a pattern of its beginning; () stands for all functions, or all checks."""

    outcome: str
    words: str
    functions: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def explains(self, function: str, check: str, dtype: str, outcome: str) -> bool:
        """Return whether the entry explains an outcome."""
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
        "a scalar has no axis, as in NumPy; PyTorch takes 0 and -1 for one",
    ),
    "complex order": Difference(
        r"DTypeError: .*(takes real numbers|must be float, got c)",
        "complex numbers have no order, and these functions are of real numbers here",
    ),
    "no broadcasting": Difference(
        "ShapeError: lax.complex: operands must have one shape",
        "functions of `lax` do not broadcast, as JAX's",
        ("lax.complex",),
    ),
    "nothing beside matrices": Difference(
        "AxisError: concat.*: axis 1 is outside a tensor of rank 1",
        "operands have one rank; PyTorch leaves out a vector of no elements",
        ("concat", "concatenate"),
    ),
    "extents of one": Difference(
        "ShapeError: DotGeneral: contracting axis",
        "contracted extents agree; PyTorch repeats one of 1",
        ("tensordot", "linalg.tensordot"),
    ),
    "extents that elements decide": Difference(
        "DataDependentShapeError: ",
        "a program's shapes are known before it runs: such functions run natively, on arrays alone",
    ),
    "stacks of vectors": Difference(
        "ShapeError: Solve: x0 .* must have one batch shape",
        "only a b of one axis is a vector, as in NumPy 2; PyTorch takes a stack of them where shapes fit",
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
        "indices are int64, whatever `out_int32` says",
        ("searchsorted", "digitize"),
        ("value",),
    ),
    "neighbours": Difference(
        OFF,
        "a neighbour has no derivative here; PyTorch passes that of the first argument",
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
        "PyTorch's trigamma is right to nine digits only; ours to the last, by mpmath",
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
        "PyTorch multiplies float64 by a sixth in single precision",
        ("nn.hard_sigmoid",),
        ("vjp",),
        ("float64",),
    ),
}


def difference_of(function: str, check: str, dtype: str, outcome: str) -> str | None:
    """Return the name of the entry that explains an outcome."""
    names = [n for n, d in DIFFERENCES.items() if d.explains(function, check, dtype, outcome)]
    return names[0] if names else None
