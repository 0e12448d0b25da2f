"""Functions of tenferro with the signatures of PyTorch's operators.

They are for operators whose arguments differ from tenferro's in more than their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tenferro as tnf

Call = Callable[..., Any]


class NotMappedError(Exception):
    """Error for a sample with an option that tenferro lacks. The message names the option."""


def require(condition: Any, option: str) -> None:
    """Raise `NotMappedError` if the condition is false, because the sample then uses an option that tenferro lacks."""
    if not condition:
        raise NotMappedError(option)


def rank(x: Any) -> int:
    return len(tnf.shape(x))


# ---- elementwise ---------------------------------------------------------------------------------


def rounded(x: Any, decimals: int = 0) -> Any:
    return tnf.round(x, decimals)


def fraction(x: Any) -> Any:
    return tnf.modf(x)[0]


def polygamma(x: Any, n: int) -> Any:
    return tnf.polygamma(n, x)


def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return tnf.add(x, alpha * y)


def subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    return tnf.subtract(x, alpha * y)


def reversed_subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    return tnf.subtract(y, alpha * x)


def divide(x: Any, y: Any, rounding_mode: str) -> Any:
    quotient = tnf.divide(x, y)
    return tnf.trunc(quotient) if rounding_mode == "trunc" else tnf.floor_divide(x, y)


def where(x: Any, condition: Any, y: Any) -> Any:
    return tnf.where(condition, x, y)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return tnf.where(mask, value, x)


def threshold(x: Any, threshold: float, value: float) -> Any:
    return tnf.where(x > threshold, x, value)


def hardshrink(x: Any, lambd: float = 0.5) -> Any:
    return tnf.where(tnf.abs(x) > lambd, x, 0.0)


def logit(x: Any, eps: float | None = None) -> Any:
    return tnf.special.logit(x if eps is None else tnf.clip(x, eps, 1 - eps))


def multigammaln(x: Any, p: int) -> Any:
    return tnf.special.multigammaln(x, p)


def pointwise_kl_div(x: Any, y: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    losses = tnf.special.rel_entr(tnf.exp(y) if log_target else y, tnf.exp(x))
    if reduction == "batchmean":
        return tnf.sum(losses) / x.shape[0]
    return losses if reduction == "none" else getattr(tnf, reduction)(losses)


# ---- reductions, scans, orders -------------------------------------------------------------------


def extreme(name: str) -> Call:
    def along(x: Any, dim: int, keepdim: bool = False) -> Any:
        values = getattr(tnf, name)(x, axis=dim, keepdims=keepdim)
        return values, getattr(tnf, "arg" + name)(x, axis=dim, keepdims=keepdim)

    return along


def ptp(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    low = tnf.min(x, axis=dim, keepdims=keepdim)
    return low, low + tnf.ptp(x, axis=dim, keepdims=keepdim)


def correction_of(unbiased: Any, correction: Any) -> float:
    return float(unbiased) if unbiased is not None else (1.0 if correction is None else correction)


def spread(name: str) -> Call:
    def along(x: Any, dim: Any = None, unbiased: Any = None, keepdim: Any = False, correction: Any = None) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction_of(unbiased, correction)
        return getattr(tnf, name)(x, axis=dim, correction=ddof, keepdims=keepdim)

    return along


def mean_of_spread(x: Any, dim: Any = None, *args: Any, keepdim: bool = False, **rest: Any) -> Any:
    variance = spread("var")(x, dim, *args, keepdim=keepdim, **rest)
    return variance, tnf.average(x, axis=None if isinstance(dim, bool) else dim, keepdims=keepdim)


def odd_median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    extent = math.prod(x.shape) if dim is None else x.shape[dim] if x.shape else 1
    require(extent % 2, "the lower median of an even number of elements")
    return tnf.median(x, axis=dim, keepdims=keepdim)


def odd_nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    odd_median(x, dim)
    return tnf.nanmedian(x, axis=dim, keepdims=keepdim)


def cumulative(name: str) -> Call:
    return lambda x, dim, dtype=None: getattr(tnf, name)(
        x, axis=dim if x.shape else None, dtype=dtype
    )


def cumulative_extreme(name: str) -> Call:
    return lambda x, dim: getattr(tnf.lax, name)(x, axis=dim)


def softmin(x: Any, dim: int) -> Any:
    return tnf.softmax(-x, axis=dim)


def typed(path: str) -> Call:
    def convert(x: Any, dim: int, dtype: Any) -> Any:
        return getattr(tnf.nn, path.removeprefix("nn."))(tnf.astype(x, dtype), axis=dim)

    return convert


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, dim: int = -1) -> Any:
    return tnf.trapezoid(y, x, dx, dim)


def histogram(x: Any, bins: Any, weight: Any = None, density: bool = False) -> Any:
    return tnf.histogram(x, bins, weights=weight, density=density)


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    options = {"axis": dim, "descending": descending, "stable": True}
    return tnf.sort(x, **options), tnf.argsort(x, **options)


def msort(x: Any) -> Any:
    return tnf.sort(x, axis=0)


def argsort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    return tnf.argsort(x, axis=dim, descending=descending, stable=True)


def top_k(x: Any, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    require(largest, "the smallest elements")
    require(rank(x), "a scalar's only element")
    return tnf.top_k(x, k, axis=dim)


def searchsorted(a: Any, v: Any, out_int32: bool = False, right: bool = False, **options: Any) -> Any:  # fmt: skip
    require(rank(a) == 1, "a matrix of sorted rows")
    side = options.get("side") or ("right" if right else "left")
    return tnf.searchsorted(a, v, side, options.get("sorter"))


def digitize(x: Any, bins: Any, out_int32: bool = False, right: bool = False) -> Any:
    return tnf.digitize(x, bins, right=not right)


def unique(x: Any, sorted: bool, dim: Any, return_inverse: bool, return_counts: bool) -> Any:
    require(dim is None, "unique slices along an axis")
    uniques = tnf.unique_all(x)
    chosen = [uniques.values]
    chosen += [uniques.inverse_indices] * return_inverse + [uniques.counts] * return_counts
    return chosen


def nonzero(x: Any, as_tuple: bool) -> Any:
    return tnf.nonzero(x) if as_tuple else tnf.argwhere(x)


def gradient(x: Any, spacing: Any, dim: Any, edge_order: int) -> Any:
    steps = spacing if isinstance(spacing, list | tuple) else [spacing] * (spacing is not None)
    return tnf.gradient(x, *steps, axis=dim, edge_order=edge_order)


# ---- shapes ----------------------------------------------------------------------------


def expand(x: Any, *sizes: Any) -> Any:
    shape = sizes[0] if isinstance(sizes[0], list | tuple) else sizes
    require(-1 not in shape, "an extent of -1, which keeps the operand's extent")
    return tnf.broadcast_to(x, shape)


def squeeze(x: Any, dim: Any) -> Any:
    axes = [dim] if isinstance(dim, int) else dim
    require(all([not rank(x) or x.shape[i] == 1 for i in axes]), "a named axis of another extent")
    return tnf.squeeze(x, axis=tuple(axes))


def expand_as(x: Any, y: Any) -> Any:
    return tnf.broadcast_to(x, y.shape)


def broadcast_arrays(*xs: Any) -> Any:
    return tnf.broadcast_arrays(*xs)


def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    axis = dim % rank(x)
    return tnf.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def tile(x: Any, counts: Any) -> Any:
    return tnf.tile(x, counts)


def split(x: Any, sizes: Any, dim: int = 0) -> Any:
    extent = x.shape[dim]
    ends = range(sizes, extent, sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1]
    return tnf.split(x, [int(end) for end in ends], axis=dim)


def array_split(x: Any, sections: Any, dim: int = 0) -> Any:
    parts = sections if isinstance(sections, int | tuple | list) else np.asarray(sections).tolist()
    return tnf.array_split(x, parts, axis=dim)


def meshgrid(*xs: Any, indexing: str) -> Any:
    return tnf.meshgrid(*(xs[0] if isinstance(xs[0], list | tuple) else xs), indexing=indexing)


def atleast(name: str) -> Call:
    return lambda x: getattr(tnf, name)(*(x if isinstance(x, list | tuple) else [x]))


def embed_diag(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    require((offset, dim1, dim2) == (0, -2, -1), "an offset, or axes that are not the last")
    return tnf.embed_diag(x, rank(x) - 1, rank(x))


def padded(mode: str) -> Call:
    def with_widths(x: Any, widths: Any, name: str | float = "constant", value: float = 0) -> Any:
        require(min(widths, default=0) >= 0, "negative widths, which cut")
        value = value if isinstance(name, str) else name
        pairs = [(0, 0)] * (rank(x) - len(widths) // 2)
        pairs += [tuple(widths[i : i + 2]) for i in range(len(widths) - 2, -1, -2)]
        options = {"constant_values": value} if mode == "constant" else {}
        return tnf.pad(x, pairs, mode, **options)

    return with_widths
