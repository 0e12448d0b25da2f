"""Emitters of the contraction family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.extensions import GPUS
from lowering.inference import result_type
from lowering.types import integers
from lowering.writer import Value, Writer, signature
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]


def precision_of(op: DotGeneral | Convolution, w: Writer) -> str:
    """The op's own precision, or the module's."""
    return (op.precision or w.precision).upper()


def dot_general(op: DotGeneral, w: Writer, lhs: Value, rhs: Value) -> Value:
    """`stablehlo.dot_general`; low-precision operands accumulate in float32 and are rounded afterwards.

    Narrow integers are converted before they are multiplied, but on TPU, which has products of int8: on CUDA XLA passes
    int8 that accumulates in int32 on to cuBLAS, and gives twice the product of 2 x 3 and 3 x 2 among others (seen with
    jaxlib 0.11.2 on an H200).
    """
    result = result_type(op, lhs, rhs)
    work = (op.accumulate_dtype or lhs.dtype).accumulator
    if w.platform != "tpu" and lhs.dtype.is_integer:
        lhs, rhs = w.convert(lhs, work), w.convert(rhs, work)
    spec = TensorSpec.of(result.shape, work)
    batch = (
        f"batching_dims = {integers(op.lhs_batch)} x {integers(op.rhs_batch)}, "
        if op.lhs_batch
        else ""
    )
    precision = precision_of(op, w)
    (value,) = w.statement(
        "stablehlo.dot_general ",
        (lhs, rhs),
        f", {batch}contracting_dims = {integers(op.lhs_contracting)} x "
        f"{integers(op.rhs_contracting)}, precision = [{precision}, {precision}] : "
        f"{signature((lhs, rhs), (spec,))}",
        (spec,),
    )
    return w.convert(value, result.dtype)


def convolution(op: Convolution, w: Writer, x: Value, kernel: Value) -> Value:
    """`stablehlo.convolution`; narrow integers in int32, because XLA's CPU path saturates int8.

    On a GPU, where the library has real convolutions only, a complex one is four real ones.
    """
    result = result_type(op, x, kernel)
    if 0 in kernel.shape or 0 in x.shape:
        return w.full(0, result)  # because StableHLO has no empty windows; empty sums are 0
    if w.platform in GPUS and x.dtype.is_complex:
        return _complex_convolution(op, w, x, kernel, result)
    return _convolution(op, w, x, kernel, result)


def _complex_convolution(
    op: Convolution, w: Writer, x: Value, kernel: Value, result: TensorSpec
) -> Value:
    """(a + ib)(c + id) = (ac - bd) + i(ad + bc)."""
    real = TensorSpec.of(result.shape, result.dtype.real)
    (a, b), (c, d) = ([w.op(part, z) for part in ("real", "imag")] for z in (x, kernel))
    ac, bd, ad, bc = (_convolution(op, w, *pair, real) for pair in ((a, c), (b, d), (a, d), (b, c)))
    return w.op("complex", w.op("subtract", ac, bd), w.op("add", ad, bc))


def _convolution(op: Convolution, w: Writer, x: Value, kernel: Value, result: TensorSpec) -> Value:
    narrow = x.dtype.is_integer and x.dtype.bits < 32
    work = DType.I32 if narrow else x.dtype.accumulator
    if narrow:
        x, kernel = w.convert(x, work), w.convert(kernel, work)
    if x.dtype.is_integer:
        # XLA folds constants in double precision, and saturates.
        (x,) = w.barrier(x)
    spec = TensorSpec.of(result.shape, work)
    windows = ", ".join(
        [
            f"stride = {integers(op.window_strides)}",
            f"pad = [{', '.join(integers(pair) for pair in op.padding)}]",
            f"lhs_dilate = {integers(op.lhs_dilation)}",
            f"rhs_dilate = {integers(op.rhs_dilation)}",
            f"reverse = [{', '.join(str(flag).lower() for flag in op.window_reversal)}]",
        ]
        if op.window_strides
        else []
    )
    precision = precision_of(op, w)
    (value,) = w.statement(
        "stablehlo.convolution(",
        (x, kernel),
        f") dim_numbers = {_dimension_numbers(op)}, window = {{{windows}}} "
        f"{{batch_group_count = {op.batch_group_count} : i64, "
        f"feature_group_count = {op.feature_group_count} : i64, "
        f"precision_config = [#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]}} "
        f": {signature((x, kernel), (spec,))}",
        (spec,),
    )
    return w.convert(value, result.dtype)


def _dimension_numbers(op: Convolution) -> str:
    """`[b, 0, f]x[0, i, o]->[b, 0, f]`."""

    def written(first: tuple[str, int], second: tuple[str, int], spatial: tuple[int, ...]) -> str:
        letters = [""] * (len(spatial) + 2)
        for letter, axis in (first, second):
            letters[axis] = letter
        for number, axis in enumerate(spatial):
            letters[axis] = str(number)
        return f"[{', '.join(letters)}]"

    x = written(("b", op.input_batch), ("f", op.input_feature), op.input_spatial)
    kernel = written(
        ("i", op.kernel_input_feature), ("o", op.kernel_output_feature), op.kernel_spatial
    )
    y = written(("b", op.output_batch), ("f", op.output_feature), op.output_spatial)
    return f"{x}x{kernel}->{y}"


ROWS: EmitterRows = {DotGeneral: dot_general, Convolution: convolution}
