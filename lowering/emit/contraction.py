"""Emitters of the contraction family."""

from __future__ import annotations

from lowering.emit.emitter import EmitterRows
from lowering.extensions import GPUS
from lowering.inference import result_type
from lowering.operations import Enum
from lowering.writer import Value, Writer
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.types import DType, TensorSpec

__all__ = ["ROWS"]


def precision_of(op: DotGeneral | Convolution, w: Writer) -> str:
    """Return the op's precision in upper case, or the precision of the module if the op has none."""
    return (op.precision or w.precision).upper()


def dot_general(op: DotGeneral, w: Writer, lhs: Value, rhs: Value) -> Value:
    """Emit `stablehlo.dot_general`; products of low-precision floats are summed in float32, and the sum is rounded.

    Integers are converted to the dtype of the sum before they are multiplied, except on TPU, which can multiply int8.
    On CUDA, XLA would pass int8 matrices to a routine of cuBLAS that accumulates in int32. Some of its results are
    twice the product, for example for 2 x 3 and 3 x 2 matrices (seen with jaxlib 0.11.2 on an H200).
    """
    result = result_type(op, lhs, rhs)
    work = (op.accumulate_dtype or lhs.dtype).accumulator
    if w.platform != "tpu" and lhs.dtype.is_integer:
        lhs, rhs = w.convert(lhs, work), w.convert(rhs, work)
    spec = TensorSpec.of(result.shape, work)
    value = w.op(
        "dot_general",
        lhs,
        rhs,
        result=spec,
        lhs_batching_dimensions=op.lhs_batch,
        rhs_batching_dimensions=op.rhs_batch,
        lhs_contracting_dimensions=op.lhs_contracting,
        rhs_contracting_dimensions=op.rhs_contracting,
        precision=[precision_of(op, w)] * 2,
    )
    return w.convert(value, result.dtype)


def convolution(op: Convolution, w: Writer, x: Value, kernel: Value) -> Value:
    """Emit `stablehlo.convolution`.

    Integers of fewer than 32 bits are converted to int32, because XLA's int8 convolution on the CPU saturates instead
    of wrapping. GPU libraries support only real convolutions, so on GPUs a complex convolution is computed by four real
    convolutions.
    """
    result = result_type(op, x, kernel)
    if 0 in kernel.shape or 0 in x.shape:
        return w.full(0, result)  # StableHLO rejects empty windows; every result is an empty sum
    if w.platform in GPUS and x.dtype.is_complex:
        return _complex_convolution(op, w, x, kernel, result)
    return _convolution(op, w, x, kernel, result)


def _complex_convolution(
    op: Convolution, w: Writer, x: Value, kernel: Value, result: TensorSpec
) -> Value:
    """Emit four real convolutions, by (a + ib)(c + id) = (ac - bd) + i(ad + bc)."""
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
        # The barrier keeps XLA from folding constants: it would compute in double precision and saturate, not wrap.
        (x,) = w.barrier(x)
    spec = TensorSpec.of(result.shape, work)
    value = w.op(
        "convolution",
        x,
        kernel,
        result=spec,
        dimension_numbers=_dimension_numbers(op),
        window_strides=op.window_strides,
        padding=op.padding,
        lhs_dilation=op.lhs_dilation,
        rhs_dilation=op.rhs_dilation,
        window_reversal=op.window_reversal,
        batch_group_count=op.batch_group_count,
        feature_group_count=op.feature_group_count,
        precision_config=[Enum("precision", precision_of(op, w))] * 2,
    )
    return w.convert(value, result.dtype)


def _dimension_numbers(op: Convolution) -> tuple[list[str], ...]:
    """Label the axes of the input, the kernel and the output, for example as `b0f`, `0io` and `b0f`.

    b is the batch, f the feature, i the input feature and o the output feature; spatial axes are numbered.
    """

    def letters_of(
        first: tuple[str, int], second: tuple[str, int], spatial: tuple[int, ...]
    ) -> list[str]:
        letters = [""] * (len(spatial) + 2)
        for letter, axis in (first, second):
            letters[axis] = letter
        for number, axis in enumerate(spatial):
            letters[axis] = str(number)
        return letters

    i, o = ("i", op.kernel_input_feature), ("o", op.kernel_output_feature)
    return (
        letters_of(("b", op.input_batch), ("f", op.input_feature), op.input_spatial),
        letters_of(i, o, op.kernel_spatial),
        letters_of(("b", op.output_batch), ("f", op.output_feature), op.output_spatial),
    )


ROWS: EmitterRows = {DotGeneral: dot_general, Convolution: convolution}
