"""ONNX nodes of products and convolutions."""

from __future__ import annotations

from string import ascii_lowercase

from lowering.numpy_source.functions import padded
from tenferro.errors import UnsupportedError
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.decomposition import written
from xla_peer.onnx.emit.elementwise import Rows
from xla_peer.onnx.writer import Value, Writer

__all__ = ["ROWS"]


def dot_general(op: DotGeneral, w: Writer, lhs: Value, rhs: Value) -> Value:
    """Emit MatMul for a product of two matrices, and Einsum for any other contraction."""
    spec = w.specs[0]
    dtype = op.accumulate_dtype or lhs.dtype
    wide = DType.F32 if dtype is DType.F16 else dtype
    if wide.is_integer and wide.itemsize < 4:
        raise UnsupportedError(
            "ONNX has no counterpart: products of narrow integers wrap, and are not written"
        )
    x, y = w.cast(lhs, wide), w.cast(rhs, wide)
    result = TensorSpec.of(spec.shape, wide)
    is_plain = not op.lhs_batch and x.rank == y.rank == 2 and len(op.lhs_contracting) == 1
    if is_plain:
        left = x if op.lhs_contracting == (1,) else w.transpose(x, (1, 0))
        right = y if op.rhs_contracting == (0,) else w.transpose(y, (1, 0))
        return w.cast(w.op("MatMul", left, right, spec=result), spec.dtype)
    if x.rank + y.rank > len(ascii_lowercase):
        raise UnsupportedError(f"Einsum has {len(ascii_lowercase)} labels")
    labels = iter(ascii_lowercase)
    of_x = {axis: next(labels) for axis in range(x.rank)}
    of_y = {b: of_x[a] for a, b in zip(op.lhs_contracting, op.rhs_contracting, strict=True)}
    of_y |= {b: of_x[a] for a, b in zip(op.lhs_batch, op.rhs_batch, strict=True)}
    for axis in range(y.rank):
        of_y.setdefault(axis, "")
        of_y[axis] = of_y[axis] or next(labels)
    output = [of_x[axis] for axis in (*op.lhs_batch, *op.lhs_free(x.rank))]
    output += [of_y[axis] for axis in op.rhs_free(y.rank)]
    inputs = ["".join(of[axis] for axis in range(len(of))) for of in (of_x, of_y)]
    equation = f"{inputs[0]},{inputs[1]}->{''.join(output)}"
    return w.cast(w.op("Einsum", x, y, spec=result, equation=equation), spec.dtype)


def convolution(op: Convolution, w: Writer, x: Value, kernel: Value) -> Value:
    """Write a Conv node for each batch group, with transposes before and after it.

    ONNX requires the axes in the order batch, features, spatial axes.
    """
    spec = w.specs[0]
    if not x.dtype.is_float:
        raise UnsupportedError("ONNX has no counterpart: Conv takes floats")
    if not (x.spec.is_static and kernel.spec.is_static) or 0 in (
        *x.spec.shape,
        *kernel.spec.shape,
        *spec.shape,
    ):
        raise UnsupportedError("to_onnx writes convolutions of extents that are numbers above 0")
    x = w.transpose(x, (op.input_batch, op.input_feature, *op.input_spatial))
    kernel = w.transpose(
        kernel, (op.kernel_output_feature, op.kernel_input_feature, *op.kernel_spatial)
    )
    count = x.rank - 2
    if not count:
        raise UnsupportedError("ONNX has no counterpart: Conv has at least one axis of space")
    if any(op.window_reversal):
        axes = [axis + 2 for axis, flag in enumerate(op.window_reversal) if flag]
        steps = w.integers(*[-1] * len(axes))
        kernel = w.op(
            "Slice", kernel, steps, w.integers(*[-(2**62)] * len(axes)), w.integers(*axes), steps
        )
    padding = op.padding
    gaps = tuple([step - 1 for step in op.lhs_dilation])
    if any(gaps) or any(n < 0 for pair in padding for n in pair):
        low, high = ((0, 0, *[pair[side] for pair in padding]) for side in (0, 1))
        zero = w.number(0, x.dtype)
        (x,) = written(w, lambda x, zero: padded(x, zero, low, high, (0, 0, *gaps)), x, zero)
        padding = ((0, 0),) * count
    batch = x.spec.shape[0] // op.batch_group_count
    outputs = kernel.spec.shape[0] // op.batch_group_count
    space = [spec.shape[axis] for axis in op.output_spatial]
    parts: list[Value] = []
    for g in range(op.batch_group_count):
        rows, part = x, kernel
        if op.batch_group_count > 1:
            rows = _rows(w, x, g * batch, batch)
            part = _rows(w, kernel, g * outputs, outputs)
        parts.append(
            w.op(
                "Conv",
                rows,
                part,
                spec=TensorSpec.of((batch, outputs, *space), x.dtype),
                strides=list(op.window_strides),
                dilations=list(op.rhs_dilation),
                pads=[*[low for low, _ in padding], *[high for _, high in padding]],
                group=op.feature_group_count,
            )
        )
    whole = TensorSpec.of((batch, kernel.spec.shape[0], *space), x.dtype)
    y = parts[0] if len(parts) == 1 else w.op("Concat", *parts, spec=whole, axis=1)
    order = (op.output_batch, op.output_feature, *op.output_spatial)
    return w.transpose(y, sorted(range(len(order)), key=order.__getitem__))


def _rows(w: Writer, x: Value, start: int, count: int) -> Value:
    spec = TensorSpec.of((count, *x.spec.shape[1:]), x.dtype)
    return w.op("Slice", x, w.integers(start), w.integers(start + count), w.integers(0), spec=spec)


ROWS: Rows = {DotGeneral: dot_general, Convolution: convolution}
