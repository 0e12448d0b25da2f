"""Functions and points at which values other than the expected ones are allowed, each with a reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXCUSED", "Excuse"]


@dataclass(frozen=True)
class Excuse:
    """Reason why the values of a function may differ from the expected ones at some points.

    An empty tuple means all points.
    """

    function: str
    points: tuple[str, ...]
    reason: str
    peers: tuple[str, ...] = ("native", "PJRT")
    dtypes: tuple[str, ...] = ()

    def covers(self, function: str, peer: str, dtype: str, point: str) -> bool:
        return (
            self.function == function
            and peer in self.peers
            and (not self.dtypes or dtype in self.dtypes)
            and point in self.points
        )


SUBNORMAL = tuple(f"{sign}{x}" for x in ("9.999665841421895e-42", "1e-310") for sign in ("", "-"))
CUT = "XLA's complex square root loses the sign of an imaginary zero, so that the point is on the other side of the cut."
ABSOLUTE = "XLA computes complex sines and cosines from e^y - e^-y, whose error is a last bit of 1 and not of the small result."

EXCUSED = (
    Excuse(
        "pow",
        ("(0.0, 1.0)", "(0.0, 0.5)"),
        "The mixed derivative is minus infinity. At x = 0 the derivative in the exponent is 0 by convention, so its slope is 0, 1 or NaN.",
    ),
    Excuse(
        "pow",
        ("(inf, 2.0)",),
        "The mixed derivative is infinite; in one of the two orders of differentiation it is infinity over infinity.",
    ),
    Excuse(
        "hypot",
        (f"(1.0, {2.0**100!r})", f"({2.0**100!r}, 1.0)"),
        "The forward slope of a ratio of 2^-100 squared underflows in float32.",
        dtypes=("float32",),
    ),
    Excuse(
        "logaddexp",
        ("(0.0, 90.0)", "(720.0, 0.0)"),
        "A share below the smallest normal number is 0, because 1 + e^x overflows.",
        ("PJRT",),
    ),
    Excuse(
        "nn.silu",
        ("720.0",),
        "The second derivative is 720 times a subnormal number, so an error in its last bit is multiplied by 720.",
        ("native",),
        ("float64",),
    ),
    Excuse(
        "nn.silu",
        ("90.0",),
        "The second derivative is 90 times a subnormal number, which XLA flushes to zero.",
        ("PJRT",),
        ("float32",),
    ),
    Excuse("cbrt", SUBNORMAL, "XLA's cube root of a subnormal number is wrong.", ("PJRT",)),
    Excuse("sqrt", ("(-1-0j)", "(-2-0j)", "(-0.5-0j)"), CUT, ("PJRT",)),
    *[
        Excuse(name, ("(1e-300+1e-300j)",), ABSOLUTE, ("PJRT",))
        for name in ("sin", "cos", "sinh", "cosh")
    ],
    *[
        Excuse(
            f"special.{name}",
            ("(1.0, 0.0)", "(0.5, 0.0)"),
            "The mixed derivative is infinite. The derivative in the exponent of a power of 0 is 0 by convention, as for `pow`.",
        )
        for name in ("gammainc", "gammaincc")
    ],
    Excuse(
        "special.betaincc(0.5, 0.5, x)",
        SUBNORMAL,
        "XLA's power of a subnormal number is wrong.",
        ("PJRT",),
    ),
)
