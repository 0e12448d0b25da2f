"""Comparison of two arrays, element by element, by absolute and relative differences and units in the last place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tenferro.types import DType, TensorSpec
from xla_peer.json_values import json_value
from xla_peer.parity.confidence import SAFETY
from xla_peer.parity.ulps import modulus, spacing, ulps_apart

__all__ = [
    "NO_ALTERNATIVES",
    "Allowance",
    "Alternatives",
    "OutputParity",
    "Tolerance",
    "beyond",
    "compare",
    "explained",
    "granted",
]

GAP = 1e4
"""Factor by which runs in which a decision flipped differ more from the first run than all other runs.

If some runs are at least `GAP` times as far from the first run as all other runs, a decision flipped in these runs.
"""
NEAR = 4.0
"""Distance in units in the last place up to which two values agree even if the bound is too wide to decide."""


class Alternatives(NamedTuple):
    """Alternative values of elements, which are right within rounding, too.

    Examples are the index of another element that equals the maximum within rounding, and infinity in place of the
    largest number.

    Attributes:
        places: row-major positions of the elements; a position may occur several times.
        values: the alternative value of each element, in the dtype of the output.
    """

    places: Any
    values: Any


NO_ALTERNATIVES = Alternatives(np.zeros(0, np.int64), np.zeros(0, bool))


class Allowance(NamedTuple):
    """Allowed distances of the elements of an output, and alternative values of some elements.

    Attributes:
        limit: the allowed distance of each element.
        alternatives: alternative values of some elements.
        is_granted: whether the user gave the limits. The user's limits decide, however wide they are.
        unbounded: mask of the elements without a bound, which may have any value; or None.
        are_bits: whether the elements are copies of bit patterns, which are never flushed to zero.
    """

    limit: Any
    alternatives: Alternatives = NO_ALTERNATIVES
    is_granted: bool = False
    unbounded: Any = None
    are_bits: bool = False


@dataclass(frozen=True)
class Tolerance:
    """User's tolerances, which replace the bound of rounding; an element needs to satisfy only one of them."""

    ulps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class OutputParity:
    """Comparison of one output of the native run with the same output of the other path.

    Attributes:
        name, spec: name and type of the output.
        max_ulps, median_ulps: distance in units in the last place; infinite if one value is NaN or infinite and the
            other differs.
        max_abs, max_rel: absolute and relative distance of finite elements.
        of_norm: Frobenius norm of the differences of finite elements, relative to the norm of the native elements.
        share: the largest quotient of an element's distance and its allowed distance. It is 0 if all elements are
            equal, and infinite if no distance is allowed. Undecided elements do not count.
        worst: index of the element with the quotient `share`; if the bound is 0, of the element with the largest
            difference.
        native, xla: the values of the element `worst`, natively and on the other path.
        ulps, allowed: the distance and the allowed distance of the element `worst`, in units in the last place.
        undecided: the number of differing elements that are not judged, because their bound exceeds the largest
            element of the output, so that any value would pass.
        reached: the number of elements of the other path that equal an alternative value, but are not close to the
            native value.
        outside: number of elements that differ by more than is allowed.
        nan, inf: the number of elements that are NaN, or infinite, on one path only.
        zero_sign: the number of zeros of different signs, which is not a disagreement.
        flushed: the number of elements that are subnormal on one path and zero on the other path, unless they are
            close.
        unstable: the number of elements with alternatives, such as the index of a maximum that is nearly
            attained twice.
        alone: the path that is wrong, if known.
        departs: the known reason why the peer differs; see `explanations`.
        lower: a description of the peer's products if they have fewer bits, as the module permits, with the measured
            number of significant bits.
        ended: how the peer's process ended instead of computing this output. Other attributes then describe the
            native output.
    """

    name: str
    spec: TensorSpec
    max_ulps: float
    median_ulps: float
    max_abs: float
    max_rel: float
    of_norm: float
    share: float
    worst: tuple[int, ...] | None
    native: Any
    xla: Any
    ulps: float
    allowed: float
    undecided: int
    outside: int
    nan: int
    inf: int
    zero_sign: int
    flushed: int
    unstable: int
    reached: int = 0
    alone: str = ""
    departs: str = ""
    lower: str = ""
    ended: str = ""

    @property
    def distance(self) -> str:
        """The difference and the bound at `worst`, in words. Integers and bools that are wrong must be equal."""
        if self.outside and not self.spec.dtype.is_inexact:
            return "must be equal"
        return f"{self.ulps:.3g} ulps apart, {self.allowed:.3g} allowed"

    @property
    def verdict(self) -> str:
        """`equal`, `rounding`, `unstable`, `peer departs`, `not decidable here`, `wrong: side`,
        `lower precision: how`, or `peer ended: how`.

        - `equal`: the values are equal.
        - `rounding`: the values differ, and all elements are within the bound.
        - `unstable`: rounding flips a decision, and both outcomes are right.
        - `peer departs`: XLA deviates from StableHLO for a known reason, such as flushing subnormal numbers to zero.
        - `not decidable here`: elements differ by more than plain rounding, but rounding can cause any difference.
        - `wrong`: none of these explains the difference. `side` is the wrong path; it is omitted if it is unknown.
        - `lower precision`: products omit bits of their operands, as the module's `precision_config` permits.
        - `peer ended`: XLA crashed, took too long or ran out of memory, so there is no output to compare.
        """
        if self.ended:
            return f"peer ended: {self.ended}"
        if self.lower:
            return f"lower precision: {self.lower}"
        if self.outside and self.departs:
            return "peer departs"
        if self.outside:
            return f"wrong: {self.alone}" if self.alone else "wrong"
        if self.undecided:
            return "not decidable here"
        if self.reached:
            return "unstable"
        if self.flushed:
            return "peer departs"
        return "rounding" if self.max_ulps else "equal"

    @property
    def ok(self) -> bool:
        """Whether every element is within the bound, and the bound is narrow enough to decide."""
        return not (self.outside or self.undecided or self.ended)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values; see `xla_peer.json_values`."""
        return json_value(
            asdict(self) | {"spec": str(self.spec), "ok": self.ok, "verdict": self.verdict}
        )


@np.errstate(all="ignore")
def compare(
    name: str,
    native: Any,
    xla: Any,
    limit: Any,
    alternatives: Alternatives = NO_ALTERNATIVES,
    is_granted: bool = False,
    unbounded: Any = None,
    are_bits: bool = False,
) -> OutputParity:
    """Compare a native output with the same output of another path.

    Args:
        name: name of the output.
        native, xla: the output natively, and on the other path.
        limit: allowed difference of each element. An infinite limit allows no difference. See `explained` and
            `granted`.
        alternatives: alternative values of some elements; a value within the limit of one of them agrees.
        is_granted: whether the limit decides, however wide it is.
        unbounded: mask of elements that are undecided if they differ.
        are_bits: whether a subnormal number differs from zero.
    """
    native, xla = np.asarray(native), np.asarray(xla)
    dtype = DType.of(native.dtype)
    apart = np.array(ulps_apart(xla, native))
    flushed = np.zeros(native.shape, bool) if are_bits else _flushed(native, xla)
    apart[flushed] = 0.0
    distance = _distance(native, xla)
    limit = np.where(np.isfinite(limit), limit, 0.0)
    inside = np.array((apart == 0) | (distance <= limit))
    size = modulus(native) if dtype.is_inexact else np.ones(native.shape)
    largest = _max(np.where(np.isfinite(size), size, 0.0))
    # The limit does not apply if one of the two values is infinite or NaN. Such values must be equal, or the other
    # path's value must equal an alternative.
    decides = (limit <= largest) | ~np.isfinite(size) | bool(is_granted or not dtype.is_inexact)
    if dtype.is_complex:
        inside |= _same_but_one_part(native, xla)
    reached = np.zeros(native.shape, bool)
    reached.ravel()[_reached(native, xla, np.where(decides, limit, 0.0), alternatives)] = True
    reached &= ~(inside & decides)
    inside |= reached
    finite = np.isfinite(distance)
    relative = np.where(finite & (size > 0), distance / size, 0.0)
    undecided = inside & ~reached & (apart > NEAR) & (limit > largest) & (not is_granted)
    if unbounded is not None:
        undecided |= unbounded & ~inside
        inside |= unbounded
    share = np.where(np.isnan(distance) | (limit == 0), np.inf, distance / limit)
    share = np.where((apart == 0) | reached | undecided, 0.0, share)
    worst = _place(share if share.any() else apart)
    units = spacing(native) if dtype.is_inexact else np.ones(native.shape)
    return OutputParity(
        name=name,
        spec=TensorSpec.of(native.shape, dtype),
        max_ulps=_max(apart),
        median_ulps=float(np.median(apart)) if apart.size else 0.0,
        max_abs=_max(np.where(finite, distance, 0.0)),
        max_rel=_max(relative),
        of_norm=_of_norm(np.where(finite, distance, 0.0), np.where(np.isfinite(size), size, 0.0)),
        share=_max(share),
        worst=worst,
        native=None if worst is None else native[worst],
        xla=None if worst is None else xla[worst],
        ulps=0.0 if worst is None else float(apart[worst]),
        allowed=0.0 if worst is None else float(limit[worst] / units[worst]),
        undecided=int(np.count_nonzero(undecided)),
        outside=int(np.count_nonzero(~inside)),
        nan=_differ(np.isnan, native, xla, dtype),
        inf=_differ(np.isinf, native, xla, dtype),
        zero_sign=_zero_signs(native, xla, dtype),
        flushed=int(np.count_nonzero(flushed)),
        unstable=len(np.unique(alternatives.places)),
        reached=int(np.count_nonzero(reached & (apart > 0))),
    )


def _same_but_one_part(native: Any, xla: Any) -> Any:
    """Return a mask of complex numbers with an equal infinite or NaN part, and a nearly equal other part."""
    parts = [(native.real, xla.real), (native.imag, xla.imag)]
    same = [(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in parts]
    special = [same_part & ~np.isfinite(a) for same_part, (a, _) in zip(same, parts, strict=True)]
    near = [
        same_part | (ulps_apart(b, a) <= 64) for same_part, (a, b) in zip(same, parts, strict=True)
    ]
    return (special[0] & near[1]) | (special[1] & near[0])


def _reached(native: Any, xla: Any, limit: Any, alternatives: Alternatives) -> Any:
    """Return the row-major positions of elements that equal one of their alternatives within the limit.

    If the native element is infinite and a perturbed run computed a number x in its place, all numbers from x /
    `SAFETY` upwards are accepted.
    """
    places, values = alternatives
    there = xla.ravel()[places]
    apart = ulps_apart(there, values)
    near = (apart == 0) | (_distance(values, there) <= limit.ravel()[places])
    if DType.of(native.dtype).kind not in "biu":
        near |= apart <= float(ml_dtypes.finfo(native.real.dtype).eps) ** -0.25
    if DType.of(native.dtype).kind not in "biuc":
        number, reached = _wide(there), _wide(values)
        is_beside = np.isinf(_wide(native.ravel()[places])) & np.isfinite(reached)
        near |= is_beside & (number * np.sign(reached) >= np.abs(reached) / SAFETY)
    return places[near]


def _distance(a: Any, b: Any) -> Any:
    """Return |a - b| for floats and complex numbers; for other dtypes 0 where they are equal, else infinity."""
    if DType.of(a.dtype).kind in "biu":
        return np.where(a == b, 0.0, np.inf)
    return modulus(_wide(b) - _wide(a))


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@np.errstate(all="ignore")
def explained(
    native: Any,
    moved: Sequence[Any],
    least_ulps: float = 0.0,
    drawn: int | None = None,
    flips: bool = True,
) -> Allowance:
    """Compute the values that rounding allows for each element.

    Args:
        native: the native output.
        moved: the output of a run op by op with ordinary rounding, then of runs that rounded differently; see
            `sensitivity`.
        drawn: the number of perturbed runs, from the first on, in which every op was rounded at random; by default all.
        flips: whether rounding may flip a decision in the program.
        least_ulps: the difference that is always allowed, in units in the last place; 0 if all implementations
            round alike.
    """
    if DType.of(native.dtype).kind in "biu":
        return Allowance(np.zeros(native.shape), _alternatives(native, moved))
    spread, size = _spread(native, moved, drawn, flips), _finite_size(native, moved)
    alternatives = _alternatives(native, moved, spread)
    shares = (spread / size)[np.isfinite(modulus(native)) & (size > 0)]
    usual = np.median(shares) if shares.size else 0.0
    limit = SAFETY * np.maximum(spread, usual * size)
    eps = float(ml_dtypes.finfo(native.real.dtype).eps)
    limit += least_ulps * np.where(np.isfinite(modulus(native)), spacing(native), eps * size)
    return Allowance(np.minimum(limit, np.finfo(np.float64).max), alternatives)


def _finite_size(native: Any, moved: Sequence[Any]) -> Any:
    """Return |native|, or where it is not finite the largest finite |x| of the perturbed runs, or else 0."""
    size = modulus(native)
    is_finite = np.isfinite(size)
    size = np.where(is_finite, size, 0.0)
    if not is_finite.all():
        for other in moved:
            reached = modulus(other)
            size = np.where(is_finite | ~np.isfinite(reached), size, np.maximum(size, reached))
    return size


def _spread(native: Any, moved: Sequence[Any], drawn: int | None, flips: bool) -> Any:
    """Measure the largest distance of each element from its value in the first run, over the runs with finite values.

    If some runs are `GAP` times farther away than all other runs, a decision flipped in these runs. Their values are
    alternatives, and not part of the spread. Runs that perturb only one kind of op may leave an element unchanged. Then
    a decision is assumed to have flipped in other runs only if the element changes by a large fraction of its size.
    """
    first = _wide(moved[0])
    distances: list[Any] = []
    for other in map(_wide, moved[1:]):
        first = np.where(np.isfinite(first), first, other)
        away = modulus(other - first)
        distances.append(np.where(np.isfinite(away), away, 0.0))
    if not distances:
        return np.zeros(native.shape)
    ordered = np.sort(np.stack(distances[:drawn]), axis=0)
    spread = ordered[-1]
    eps = float(ml_dtypes.finfo(native.real.dtype).eps)
    # An element much smaller than the largest one, such as log Gamma at 1 or a cancelled sum, changes by the rounding
    # errors of large terms. So a change that is small relative to the largest element shows no flipped decision.
    largest = np.max(np.where(np.isfinite(first), modulus(first), 0.0), initial=0.0)
    least = np.maximum(8 * eps * modulus(first), min(8 * eps, eps**0.25 / GAP) * largest)
    decides = np.isfinite(modulus(native))
    if len(ordered) > 1:
        gaps = ordered[1:] > GAP * np.maximum(ordered[:-1], least)
        below = np.take_along_axis(ordered, gaps.argmax(axis=0)[None], axis=0)[0]
        spread = np.where(gaps.any(axis=0) & decides, below, spread)
    calm = np.zeros(native.shape)
    for away in distances[len(ordered) :]:
        is_far = (away > GAP * np.maximum(spread, least)) & decides
        calm = np.where(is_far, calm, np.maximum(calm, away))
    if flips and len(distances) > len(ordered):
        far = np.maximum(GAP * np.maximum(calm, least), eps**0.25 * modulus(first))
        far = np.where(far == 0, np.inf, far)  # nothing is far if all other distances are 0
        return np.where((ordered[0] > far) & decides, calm, np.maximum(spread, calm))
    return np.maximum(spread, calm)


def _alternatives(native: Any, moved: Sequence[Any], spread: Any = None) -> Alternatives:
    """Return the values of perturbed runs that are alternatives of the native values.

    For integers and bools, any value that differs is an alternative. For floats, alternatives are infinities and NaN
    in place of a number, numbers in place of infinities and NaN, and numbers much farther away than the spread.
    """
    places: list[Any] = []
    values: list[Any] = []
    for other in moved:
        if DType.of(native.dtype).kind in "biu":
            altered = other != native
        else:
            wide, was = _wide(other), _wide(native)
            differs = (wide != was) & ~(np.isnan(wide) & np.isnan(was))
            largest = _max(np.where(np.isfinite(was), modulus(was), 0.0))
            altered = differs & ~(np.isfinite(wide) & np.isfinite(was))
            altered |= modulus(wide - was) > np.minimum(largest / SAFETY, SAFETY * spread)
        (there,) = np.nonzero(altered.ravel())
        places.append(there)
        values.append(other.ravel()[there])
    if not any(map(len, places)):
        return NO_ALTERNATIVES
    return Alternatives(np.concatenate(places), np.concatenate(values))


@np.errstate(all="ignore")
def beyond(native: Any, moved: Sequence[Any], limit: Any) -> Alternatives:
    """Return the values of perturbed runs that differ from the native values by more than `limit`.

    A number in place of an infinity or NaN, and the reverse, is also returned.
    """
    return _alternatives(native, moved, np.asarray(limit) / SAFETY)


def granted(native: Any, tolerance: Tolerance) -> Allowance:
    """Compute the differences that the user's tolerances allow; integers and bools must be equal."""
    if DType.of(native.dtype).kind in "biu":
        return Allowance(np.zeros(native.shape), is_granted=True)
    size = modulus(native)
    size = np.where(np.isfinite(size), size, 0.0)
    limits = (tolerance.ulps * spacing(native), tolerance.rtol * size, tolerance.atol + 0 * size)
    return Allowance(np.maximum.reduce(limits), is_granted=True)


def _flushed(native: Any, xla: Any) -> Any:
    """Return a mask of the elements that are subnormal on one path and zero on the other path.

    For a complex number, each part must be equal on both paths, or subnormal on one and zero on the other.
    """
    if native.dtype.kind == "c":
        parts = [(native.real, xla.real), (native.imag, xla.imag)]
        same = [(a == b) | _flushed(a, b) for a, b in parts]
        return same[0] & same[1] & (_flushed(*parts[0]) | _flushed(*parts[1]))
    if DType.of(native.dtype).kind in "biu":
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


def _of_norm(distance: Any, size: Any) -> float:
    """Return the norm of `distance` divided by the norm of `size`, computed so that no square overflows."""
    norms = []
    for x in (distance, size):
        largest = _max(x)
        norms.append(largest * float(np.linalg.norm(x.ravel() / largest)) if largest else 0.0)
    apart, whole = norms
    return apart / whole if whole else float(np.inf if apart else 0.0)


def _max(x: Any) -> float:
    return float(x.max()) if x.size else 0.0


def _place(x: Any) -> tuple[int, ...] | None:
    if not x.size:
        return None
    return tuple(map(int, np.unravel_index(int(np.argmax(x)), x.shape)))
