"""Two arrays, element by element: how far apart, and in what way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.types import DType, TensorSpec
from xla_peer.parity.ulps import spacing, ulps_apart

__all__ = ["OutputParity", "Tolerance", "compare", "explained", "granted"]

SAFETY = 8.0
"""How many times what was seen to move may be apart."""
LEAST_ULPS = 4.0
"""Apart as far as this is never a disagreement of floats."""


@dataclass(frozen=True)
class Tolerance:
    """What the user allows in place of what rounding explains: any one of these suffices."""

    ulps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class OutputParity:
    """One output on both paths.

    Attributes:
        max_ulps, median_ulps: distance in units in the last place; infinite where one of the two is NaN or
            infinite and the other is not the same.
        max_abs, max_rel: absolute and relative distance of finite elements.
        worst: index of the element that is farthest beyond what is allowed there, or farthest apart.
        native, xla: its values.
        allowed: ulps allowed there.
        outside: how many elements are farther apart than allowed.
        nan, inf, zero_sign: how many elements are so on one path only; a zero's sign is no disagreement.
        flushed: how many are subnormal on one path and zero on the other, which is none either.
        unstable: how many may change altogether when rounding differs, such as the index of a maximum.
    """

    name: str
    spec: TensorSpec
    max_ulps: float
    median_ulps: float
    max_abs: float
    max_rel: float
    worst: tuple[int, ...] | None
    native: Any
    xla: Any
    allowed: float
    outside: int
    nan: int
    inf: int
    zero_sign: int
    flushed: int
    unstable: int

    @property
    def ok(self) -> bool:
        """Within what is allowed everywhere."""
        return self.outside == 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        found = asdict(self) | {"spec": str(self.spec), "ok": self.ok}
        return {**found, "native": repr(self.native), "xla": repr(self.xla)}


@np.errstate(all="ignore")
def compare(name: str, native: Any, xla: Any, limit: Any) -> OutputParity:
    """One output, native against another.

    Args:
        limit: how far apart each element may be; infinite where it may change altogether. See
            `explained` and `granted`.
    """
    native, xla = np.asarray(native), np.asarray(xla)
    dtype = DType.of(native.dtype)
    apart = np.array(ulps_apart(xla, native))
    flushed = _flushed(native, xla)
    apart[flushed] = 0.0
    if dtype.is_inexact:
        distance = np.abs(_wide(xla) - _wide(native))
    else:
        distance = np.where(xla == native, 0.0, np.inf)
    with np.errstate(all="ignore"):
        inside = (apart == 0) | (distance <= limit) | np.isinf(limit)
        beyond = np.where(inside, 0.0, np.where(np.isnan(distance), np.inf, distance / limit))
        size = np.abs(_wide(native)) if dtype.is_inexact else np.ones(native.shape)
        finite = np.isfinite(distance)
        relative = np.where(finite & (size > 0), distance / size, 0.0)
    worst = _place(beyond if beyond.any() else apart)
    units = spacing(native) if dtype.is_inexact else np.ones(native.shape)
    return OutputParity(
        name=name,
        spec=TensorSpec.of(native.shape, dtype),
        max_ulps=_max(apart),
        median_ulps=float(np.median(apart)) if apart.size else 0.0,
        max_abs=_max(np.where(finite, distance, 0.0)),
        max_rel=_max(relative),
        worst=worst,
        native=None if worst is None else native[worst],
        xla=None if worst is None else xla[worst],
        allowed=0.0 if worst is None else float(limit[worst] / units[worst]),
        outside=int(np.count_nonzero(~inside)),
        nan=_differ(np.isnan, native, xla, dtype),
        inf=_differ(np.isinf, native, xla, dtype),
        zero_sign=_zero_signs(native, xla, dtype),
        flushed=int(np.count_nonzero(flushed)),
        unstable=int(np.count_nonzero(np.isinf(limit))),
    )


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def explained(native: Any, moved: Sequence[Any]) -> Any:
    """How far each element may be apart because of rounding; infinite where that may change it altogether.

    Args:
        moved: the same output of a run op by op, and of runs that rounded differently; see
            `sensitivity`.
    """
    if native.dtype.kind in "biu":
        limit = np.zeros(native.shape)
        for other in moved[1:]:
            limit[other != moved[0]] = np.inf
        return limit
    least = LEAST_ULPS * spacing(native)
    with np.errstate(all="ignore"):
        spread = np.zeros(native.shape)
        for other in moved[1:]:
            away = np.abs(_wide(other) - _wide(moved[0]))
            same = (other == moved[0]) | (np.isnan(other) & np.isnan(moved[0]))
            spread = np.maximum(spread, np.where(same, 0.0, np.where(np.isnan(away), np.inf, away)))
        size = np.abs(_wide(native))
        shares = (spread / size)[np.isfinite(spread) & (size > 0) & np.isfinite(size)]
        usual = (
            float(np.median(shares)) * np.where(np.isfinite(size), size, 0) if shares.size else 0.0
        )
        return SAFETY * np.maximum(spread, usual) + least


def granted(native: Any, tolerance: Tolerance) -> Any:
    """How far each element may be apart because the user says so; integers and bools not at all."""
    if native.dtype.kind in "biu":
        return np.zeros(native.shape)
    size = np.abs(_wide(native))
    size = np.where(np.isfinite(size), size, 0.0)
    limits = (tolerance.ulps * spacing(native), tolerance.rtol * size, tolerance.atol + 0 * size)
    return np.maximum.reduce(limits)


def _flushed(native: Any, xla: Any) -> Any:
    """Where one path has a subnormal number and the other zero; of complex numbers, in each part."""
    if native.dtype.kind == "c":
        parts = [(native.real, xla.real), (native.imag, xla.imag)]
        same = [(a == b) | _flushed(a, b) for a, b in parts]
        return same[0] & same[1] & (_flushed(*parts[0]) | _flushed(*parts[1]))
    if native.dtype.kind in "biu":
        return np.zeros(native.shape, bool)
    smallest = float(ml_dtypes.finfo(native.dtype).smallest_normal)
    a, b = _wide(native), _wide(xla)
    with np.errstate(all="ignore"):
        tiny = (np.abs(a) < smallest) & (np.abs(b) < smallest)
        return tiny & (a != b) & ((a == 0) | (b == 0))


def _differ(test: Any, native: Any, xla: Any, dtype: DType) -> int:
    if not dtype.is_inexact:
        return 0
    return int(np.count_nonzero(test(_wide(native)) != test(_wide(xla))))


def _zero_signs(native: Any, xla: Any, dtype: DType) -> int:
    if not dtype.is_inexact:
        return 0
    parts = (
        [(native.real, xla.real), (native.imag, xla.imag)] if dtype.is_complex else [(native, xla)]
    )
    return sum(
        int(np.count_nonzero((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))))
        for a, b in parts
    )


def _max(x: Any) -> float:
    return float(x.max()) if x.size else 0.0


def _place(x: Any) -> tuple[int, ...] | None:
    if not x.size:
        return None
    return tuple(map(int, np.unravel_index(int(np.argmax(x)), x.shape)))
