"""Scaled dot product attention.

Source: jax.nn.dot_product_attention for name, signature and masks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.api.contraction import einsum
from tenferro.api.elementwise import add, less, multiply, where
from tenferro.api.logarithms import softmax
from tenferro.api.manipulation import expand_dims, reshape
from tenferro.api.promotion import broadcast_to, convert, promote_dtypes, result_type
from tenferro.dims import is_static
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.types import ArrayLike, DType, Tensor

__all__ = ["dot_product_attention"]

ABSENT = -0.7 * float(np.finfo(np.float32).max)
"""Logit of a masked source. It is finite, so that all sources have equal weights if all of them are masked."""


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
) -> Any:
    """Return softmax(query key^T scale + bias) value for each head. The softmax is over the sources.

    Logits and their softmax are computed in float32 if the operands are float16 or bfloat16.

    Args:
        query: one vector per target and head: [batch, targets, heads, features], or without the batch axis.
        key, value: one vector per source and group: [batch, sources, groups, features], of query's dtype. Each group
            serves heads / groups consecutive heads.
        bias: a tensor that is added to the logits, broadcast to [batch, heads, targets, sources].
        mask: bools, broadcast like `bias`; False masks a source. If all sources are masked, they have equal weights.
        scale: the factor by which logits are multiplied; None stands for 1 / sqrt(features).
        is_causal: whether target i attends only to the sources 0, .., i.
        query_seq_lengths, key_value_seq_lengths: the numbers of valid targets, and of valid sources, of each batch
            entry. The results for targets that are not valid are 0.
        local_window_size: the numbers of earlier and of later sources to which a target attends. A single number is
            used for both.

    Raises:
        ShapeError, DTypeError, InvalidConfigError: the shapes or dtypes of the operands do not fit each other.

    >>> import numpy as np
    >>> q = np.zeros((1, 2, 1, 4))
    >>> dot_product_attention(q, q, np.arange(8.0).reshape(1, 2, 1, 4), is_causal=True)[0, :, 0]
    array([[0., 1., 2., 3.],
           [2., 3., 4., 5.]])
    """
    q, k, v = (as_operand(x) for x in (query, key, value))
    is_single = len(q.shape) == 3
    if is_single:
        q, k, v = (expand_dims(x, axis=0) if len(x.shape) == 3 else x for x in (q, k, v))
    _require_fit(q, k, v)
    batch, targets, heads, features = q.shape
    sources, groups = k.shape[1], k.shape[2]
    dtype = spec_of(q).dtype
    wide = promote_dtypes(dtype, DType.F32)
    grouped = reshape(q, (batch, targets, groups, heads // groups, features))
    logits = einsum("btkgh,bskh->bkgts", convert(grouped, wide), convert(k, wide))
    logits = reshape(logits, (batch, heads, targets, sources))
    logits = multiply(logits, 1 / math.sqrt(features) if scale is None else scale)
    if bias is not None:
        bias = as_operand(bias)
        if result_type(logits, bias) is not spec_of(logits).dtype:
            raise DTypeError(
                f"nn.dot_product_attention: bias {spec_of(bias)} does not fit logits of {wide}; convert it"
            )
        logits = add(logits, _of_heads("bias", bias, logits))
    counts = (query_seq_lengths, key_value_seq_lengths)
    for allowed in _masks(mask, is_causal, counts, local_window_size, logits):
        logits = where(allowed, logits, ABSENT)
    weights = convert(softmax(logits, axis=-1), dtype)
    weights = reshape(weights, (batch, groups, heads // groups, targets, sources))
    result = reshape(einsum("bkgts,bskh->btkgh", weights, v), (batch, targets, heads, features))
    if query_seq_lengths is not None:
        counted = less(np.arange(targets)[:, None, None], _lengths(query_seq_lengths, batch))
        result = where(counted, result, 0.0)
    return reshape(result, (targets, heads, features)) if is_single else result


def _require_fit(q: Tensor, k: Any, v: Tensor) -> None:
    """Check that the ranks, extents and dtypes of query, key and value are compatible."""
    shown = f"query {spec_of(q)}, key {spec_of(k)}, value {spec_of(v)}"
    name = "nn.dot_product_attention"
    if not all(len(x.shape) == 4 for x in (q, k, v)):
        raise ShapeError(f"{name}: operands must be [batch, length, heads, features], got {shown}")
    if len({spec_of(x).dtype for x in (q, k, v)}) != 1 or not spec_of(q).dtype.is_float:
        raise DTypeError(f"{name}: operands must have one float dtype, got {shown}")
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ShapeError(
            f"{name}: key and value must have one shape, and query their batch and features, got {shown}"
        )
    heads, groups = q.shape[2], k.shape[2]
    if not is_static(heads) or not is_static(groups) or not groups or heads % groups:
        raise ShapeError(f"{name}: the heads of query must be a multiple of key's, got {shown}")


def _of_heads(what: str, x: Tensor, logits: Tensor) -> Any:
    """Broadcast a bias or mask to the shape of the logits."""
    if len(x.shape) > 4:
        raise ShapeError(
            f"nn.dot_product_attention: {what} must have at most 4 axes, got {spec_of(x)}"
        )
    return broadcast_to(x, logits.shape)


def _lengths(lengths: Any, batch: Any) -> Any:
    """Reshape the numbers of valid targets or sources to [batch, 1, 1, 1]."""
    counts = as_operand(lengths)
    if not spec_of(counts).dtype.is_integer or len(counts.shape) != 1:
        raise DTypeError(
            f"nn.dot_product_attention: sequence lengths must be a vector of integers, one for each of {batch} batch "
            f"entries, got {spec_of(counts)}"
        )
    return reshape(counts, (batch, 1, 1, 1))


def _masks(
    mask: Any, is_causal: bool, lengths: tuple[Any, Any], window: Any, logits: Any
) -> list[Any]:
    """Return the masks that the options require, one mask per option. False masks a source for a target."""
    masks: list[Any] = []
    batch, _, targets, sources = logits.shape
    if mask is not None:
        mask = as_operand(mask)
        if not spec_of(mask).dtype.is_bool:
            raise DTypeError(
                f"nn.dot_product_attention: mask must be bool, got {spec_of(mask)}; give numbers as bias"
            )
        masks.append(_of_heads("mask", mask, logits))
    if not (is_causal or window is not None or any(count is not None for count in lengths)):
        return masks
    if not is_static(targets) or not is_static(sources):
        raise NonStaticShapeError(
            f"nn.dot_product_attention: masks by position need known lengths, got logits {spec_of(logits)}"
        )
    at, to = np.arange(targets)[:, None], np.arange(sources)
    if is_causal:
        masks.append(at >= to)
    if window is not None:
        back, ahead = (window, window) if isinstance(window, int) else window
        if min(back, ahead) < 0:
            raise InvalidConfigError(
                f"nn.dot_product_attention: local_window_size must be at least 0, got {window!r}"
            )
        masks.append((at <= to + back) & (at >= to - ahead))
    for places, count in zip((at, to), lengths, strict=True):
        if count is not None:
            masks.append(less(places, _lengths(count, batch)))
    return masks
