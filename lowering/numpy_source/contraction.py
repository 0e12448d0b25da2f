"""Python code of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from lowering.numpy_source.expression import Code, Expression, Level, Rows, call, tuple_of
from tenferro.errors import UnsupportedError
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.structural import Transpose
from tenferro.types import DType

if TYPE_CHECKING:
    from lowering.numpy_source.writer import Writer

__all__ = ["ROWS"]


SPACE = "DHW"
"""Letters of up to three spatial axes."""


def _converted(w: Writer, x: Expression, dtype: DType) -> Code:
    """Return the code of x, converted to `dtype`, in which products are summed."""
    if x.spec.dtype is dtype:
        return x.code
    return Code(f"{x.at(Level.ATOM)}.astype({w.dtype(dtype)})")


def dot_general(
    op: DotGeneral, w: Writer, lhs: Expression, rhs: Expression, perm: Sequence[int] | None = None
) -> Code:
    """Write the operator `@` for products of matrices or vectors, else `np.outer` or `np.einsum`.

    Args:
        perm: the order of axes of the result, if it is transposed.
    """
    dtype = op.accumulate_dtype or lhs.spec.dtype
    result = dtype
    if dtype is DType.F16:
        dtype = DType.F32
    w.dtype(dtype)
    codes = [_converted(w, x, dtype) for x in (lhs, rhs)]
    if perm is None:
        code = _as_matrices(op, w, lhs, rhs, codes) or _as_einsum(op, lhs, rhs, codes)
    elif tuple(perm) == (1, 0) and lhs.spec.rank == rhs.spec.rank == 2:
        exchanged = replace(
            op, lhs_contracting=op.rhs_contracting, rhs_contracting=op.lhs_contracting
        )
        code = _as_matrices(exchanged, w, rhs, lhs, codes[::-1]) or _as_einsum(
            op, lhs, rhs, codes, perm
        )
    else:
        code = _as_einsum(op, lhs, rhs, codes, perm)
    if result is dtype:
        return code
    text = code.text if code.level >= Level.ATOM else f"({code.text})"
    return Code(f"{text}.astype({w.dtype(result)})")


def _as_matrices(
    op: DotGeneral, w: Writer, lhs: Expression, rhs: Expression, codes: list[Code]
) -> Code | None:
    """Return the code of a product as `lhs @ rhs`; None if the operator `@` cannot express the product."""
    if len(op.lhs_contracting) != 1:
        return None
    batch = len(op.lhs_batch)
    lead = tuple(range(batch))
    (a,), (b,) = op.lhs_contracting, op.rhs_contracting
    rank = lhs.spec.rank, rhs.spec.rank
    if op.lhs_batch != lead or op.rhs_batch != lead:
        return None
    if batch and not rank[0] == rank[1] == batch + 2:
        return None
    if not batch and (rank[1] > 2 or (rank[0] > 2 and a != rank[0] - 1)):
        return None
    left, right = codes
    if a != rank[0] - 1:
        left = _swapped(left, lhs, batch)
    if b != max(rank[1] - 2, 0):
        right = _swapped(right, rhs, batch)
    left_text = left.text if left.level >= Level.PRODUCT else f"({left.text})"
    right_text = right.text if right.level > Level.PRODUCT else f"({right.text})"
    return Code(f"{left_text} @ {right_text}", Level.PRODUCT)


def _swapped(code: Code, x: Expression, batch: int) -> Code:
    if not batch:
        inner = code.text.removesuffix(".T") if code.text.endswith(".T") else ""
        if inner.isidentifier():
            return Code(inner)
        return Code(f"{code.text}.T" if code.level >= Level.ATOM else f"({code.text}).T")
    return call("np.swapaxes", code.text, -1, -2)


def _as_einsum(
    op: DotGeneral,
    lhs: Expression,
    rhs: Expression,
    codes: list[Code],
    perm: Sequence[int] | None = None,
) -> Code:
    """Return the product by `np.einsum`, or by `np.outer` for two vectors.

    The result has the batch axes, then the free axes of `lhs`, then the free axes of `rhs`; or these axes in the order
    `perm`. Transposes of operands are written as an order of labels.

    Raises:
        UnsupportedError: the operands have more axes than there are letters for the subscripts of `np.einsum`.
    """
    count = lhs.spec.rank + rhs.spec.rank
    if (
        perm is None
        and lhs.spec.rank == rhs.spec.rank == 1
        and not (op.lhs_contracting or op.lhs_batch)
    ):
        return call("np.outer", codes[0].text, codes[1].text)
    if count > len(ascii_letters):
        raise UnsupportedError(
            f"to_numpy: DotGeneral of {count} axes; np.einsum has {len(ascii_letters)} labels"
        )
    labels = iter(ascii_letters)
    left = {axis: next(labels) for axis in range(lhs.spec.rank)}
    right = {
        **{b: left[a] for a, b in zip(op.lhs_batch, op.rhs_batch, strict=True)},
        **{b: left[a] for a, b in zip(op.lhs_contracting, op.rhs_contracting, strict=True)},
    }
    for axis in range(rhs.spec.rank):
        if axis not in right:
            right[axis] = next(labels)
    free = [left[axis] for axis in op.lhs_free(lhs.spec.rank)]
    free += [right[axis] for axis in op.rhs_free(rhs.spec.rank)]
    output = "".join([*[left[axis] for axis in op.lhs_batch], *free])
    if perm is not None:
        output = "".join(output[axis] for axis in perm)
    inputs: list[str] = []
    texts: list[str] = []
    for x, code, own in zip((lhs, rhs), codes, (left, right), strict=True):
        order = range(len(own))
        if isinstance(x.op, Transpose) and code is x.code:
            order, code = sorted(order, key=x.op.perm.__getitem__), x.operands[0].code
        inputs.append("".join(own[axis] for axis in order))
        texts.append(code.text)
    notation = f'"{inputs[0]},{inputs[1]}->{output}"'
    return call("np.einsum", notation, *texts)


def convolution(op: Convolution, w: Writer, x: Expression, kernel: Expression) -> Code:
    """Write a call of `convolution` in `functions.py`; arguments with default values are omitted.

    The function accepts x with the axes batch, features, space, and a kernel with the axes output features, input
    features, space. For other orders of axes, write a call of `convolution_of`, whose first argument states the orders.
    """
    dtype = x.spec.dtype
    wide = DType.F32 if dtype is DType.F16 else dtype
    w.dtype(wide)
    texts = [_converted(w, operand, wide).text for operand in (x, kernel)]
    orders = (
        (op.input_batch, op.input_feature, *op.input_spatial),
        (op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial),
        (op.output_batch, op.output_feature, *op.output_spatial),
    )
    name = "convolution"
    if any(list(order) != sorted(order) for order in orders):
        name = "convolution_of"
        count = len(op.input_spatial)
        space = SPACE[-count:] if count <= len(SPACE) else digits
        lhs, rhs, result = [
            "".join(letter for _, letter in sorted(zip(order, first + space, strict=False)))
            for order, first in zip(orders, ("NC", "OI", "NC"), strict=True)
        ]
        texts.insert(0, f'"{lhs},{rhs}->{result}"')
    ones = (1,) * len(op.window_strides)
    reverse = any(op.window_reversal)
    code = call(
        w.function(name),
        *texts,
        strides=None if op.window_strides == ones else tuple_of(op.window_strides),
        padding=tuple_of([tuple_of(pair) for pair in op.padding])
        if any(map(any, op.padding))
        else None,
        x_dilation=None if op.lhs_dilation == ones else tuple_of(op.lhs_dilation),
        kernel_dilation=None if op.rhs_dilation == ones else tuple_of(op.rhs_dilation),
        reverse=tuple_of(op.window_reversal) if reverse else None,
        feature_groups=None if op.feature_group_count == 1 else op.feature_group_count,
        batch_groups=None if op.batch_group_count == 1 else op.batch_group_count,
    )
    return code if wide is dtype else Code(f"{code.text}.astype({w.dtype(dtype)})")


ROWS: Rows = {DotGeneral: dot_general, Convolution: convolution}
