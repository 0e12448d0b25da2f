"""Samples of matrix products and convolutions.

Loops over every index compute the results.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from tenferro.ops import contraction as ops
from tenferro.types import DType, TensorSpec
from tests.samples.sample import (
    Array,
    OpSample,
    SampleRows,
    dtypes_of,
    indices,
    ordinary_values,
    python_number,
    wrap,
)

ROUNDS = "sums of products round in another order"


def accumulate(pairs: list[tuple[Any, Any]], dtype: DType) -> tuple[Any, float]:
    """Return the sum of the products of all pairs, and the sum of their absolute values.

    The sum of the products wraps if the dtype is an integer.
    """
    total = sum((a * b for a, b in pairs), start=0)
    weight = float(sum(abs(a * b) for a, b in pairs))
    return (wrap(total, dtype) if dtype.is_integer else total + 0.0), weight


def finished(
    op: Any,
    inputs: tuple[Array, ...],
    values: dict[Any, Any],
    shape: tuple[int, ...],
    dtype: DType,
    label: str,
) -> OpSample:
    """Return a sample with the results in `values`.

    `values` has, for each index, the result there and the sum of absolute values to which its error is relative.
    """
    y = np.zeros(shape, dtype.dtype)
    scale = np.zeros(shape, dtype.real.dtype)
    for index, (total, weight) in values.items():
        y[index] = total
        if not dtype.is_integer:
            scale[index] = weight
    exact = dtype.is_integer
    return OpSample(
        op,
        inputs,
        (y,),
        ulps=0 if exact else 4,
        xla_ulps=0 if exact else 8,
        scale=None if exact else (scale,),
        because="" if exact else ROUNDS,
        label=label,
    )


ENDS_THE_INTERPRETER = {"interpreter": "a contraction over nothing ends its process"}


def dot(op: Any, lhs: Array, rhs: Array, dtype: DType, label: str) -> OpSample:
    lhs_free, rhs_free = op.lhs_free(lhs.ndim), op.rhs_free(rhs.ndim)
    batch = [lhs.shape[a] for a in op.lhs_batch]
    left, right = [lhs.shape[a] for a in lhs_free], [rhs.shape[a] for a in rhs_free]
    contracted = [lhs.shape[a] for a in op.lhs_contracting]
    values = {}
    for b in indices(batch):
        for i in indices(left):
            for j in indices(right):
                pairs = []
                for c in indices(contracted):
                    at_lhs = dict(
                        zip(
                            (*op.lhs_batch, *lhs_free, *op.lhs_contracting),
                            (*b, *i, *c),
                            strict=True,
                        )
                    )
                    at_rhs = dict(
                        zip(
                            (*op.rhs_batch, *rhs_free, *op.rhs_contracting),
                            (*b, *j, *c),
                            strict=True,
                        )
                    )
                    pairs.append(
                        (
                            python_number(lhs[tuple(at_lhs[a] for a in range(lhs.ndim))]),
                            python_number(rhs[tuple(at_rhs[a] for a in range(rhs.ndim))]),
                        )
                    )
                values[(*b, *i, *j)] = accumulate(pairs, dtype)
    made = finished(op, (lhs, rhs), values, (*batch, *left, *right), dtype, label)
    return made if all(contracted) else replace(made, exempt=ENDS_THE_INTERPRETER)


DOTS = [
    ("matrix", (2, 3), (3, 4), ops.DotGeneral((1,), (0,))),
    ("transposed", (3, 2), (4, 3), ops.DotGeneral((0,), (1,))),
    ("outer", (2,), (3,), ops.DotGeneral((), ())),
    ("inner", (4,), (4,), ops.DotGeneral((0,), (0,))),
    ("batch-last", (2, 3, 5), (3, 4, 5), ops.DotGeneral((1,), (0,), (2,), (2,))),
    ("two-batch", (2, 3, 4, 5), (5, 3, 2), ops.DotGeneral((3,), (0,), (1, 0), (1, 2))),
    ("free-split", (2, 3, 4), (3, 5), ops.DotGeneral((1,), (0,))),
    ("two-contracted", (2, 3, 4), (4, 3, 5), ops.DotGeneral((2, 1), (0, 1))),
    ("empty-contraction", (2, 0), (0, 3), ops.DotGeneral((1,), (0,))),
    ("empty-result", (0, 2), (2, 3), ops.DotGeneral((1,), (0,))),
]


def dots() -> list[OpSample]:
    samples = []
    for dtype in dtypes_of(ops.DotGeneral):
        for label, left, right, op in DOTS:
            lhs, rhs = ordinary_values(left, dtype, 1), ordinary_values(right, dtype, 2)
            samples.append(dot(op, lhs, rhs, dtype, f"{label}-{dtype.short}"))
    wide = ops.DotGeneral((1,), (0,), accumulate_dtype=DType.I32)
    lhs = np.full((2, 3), 100, np.int8)
    samples.append(dot(wide, lhs, lhs.T.copy(), DType.I32, "int8-in-int32"))
    half = ops.DotGeneral((1,), (0,), accumulate_dtype=DType.F32)
    lhs = ordinary_values((2, 3), DType.F16, 1)
    samples.append(dot(half, lhs, lhs.T.copy(), DType.F32, "float16-in-float32"))
    return samples


def convolve(op: Any, x: Array, kernel: Array, dtype: DType, label: str) -> OpSample:
    """Return a sample of a convolution, computed by definition.

    Each output is a sum over the positions of the kernel. Positions outside of the input count as zero.
    """
    (out,) = op.infer(*(TensorSpec(a.shape, a.dtype) for a in (x, kernel)))
    groups, batch_groups = op.feature_group_count, op.batch_group_count
    per_group = kernel.shape[op.kernel_input_feature]
    outputs = kernel.shape[op.kernel_output_feature]
    values = {}
    for index in indices(out.shape):
        n, o = index[op.output_batch], index[op.output_feature]
        place = [index[a] for a in op.output_spatial]
        pairs = []
        for k in indices([kernel.shape[a] for a in op.kernel_spatial]):
            source = _source(op, x, place, k)
            if source is None:
                continue
            for i in range(per_group):
                at_x = [0] * x.ndim
                at_x[op.input_feature] = (o // (outputs // groups)) * per_group + i
                group = o // (outputs // batch_groups)
                at_x[op.input_batch] = group * out.shape[op.output_batch] + n
                for a, s in zip(op.input_spatial, source, strict=True):
                    at_x[a] = s
                at_k = [0] * kernel.ndim
                at_k[op.kernel_input_feature], at_k[op.kernel_output_feature] = i, o
                for a, j in zip(op.kernel_spatial, k, strict=True):
                    at_k[a] = j
                pairs.append((python_number(x[tuple(at_x)]), python_number(kernel[tuple(at_k)])))
        values[index] = accumulate(pairs, dtype)
    return finished(op, (x, kernel), values, out.shape, dtype, label)


def _source(op: Any, x: Array, place: list[int], k: tuple[int, ...]) -> list[int] | None:
    """Return the position in x that an output reads for a position of the kernel.

    The result is None if the position is in the padding, or is a zero that dilation inserts.
    """
    source = []
    for d, (p, j) in enumerate(zip(place, k, strict=True)):
        offset = j * op.rhs_dilation[d]
        position, rest = divmod(
            p * op.window_strides[d] + offset - op.padding[d][0], op.lhs_dilation[d]
        )
        if rest or not 0 <= position < x.shape[op.input_spatial[d]]:
            return None
        source.append(position)
    return source


def window(**changes: Any) -> Any:
    """Return a convolution with one spatial axis. By default, the order of axes is batch, feature, space."""
    plain: dict[str, Any] = {
        "window_strides": (1,),
        "padding": ((0, 0),),
        "lhs_dilation": (1,),
        "rhs_dilation": (1,),
        "window_reversal": (False,),
        "input_batch": 0,
        "input_feature": 1,
        "input_spatial": (2,),
        "kernel_input_feature": 1,
        "kernel_output_feature": 0,
        "kernel_spatial": (2,),
        "output_batch": 0,
        "output_feature": 1,
        "output_spatial": (2,),
    }
    return ops.Convolution(**(plain | changes))


CONVOLUTIONS = [
    ("plain", (2, 3, 6), (4, 3, 3), window()),
    ("strided-padded", (1, 2, 5), (3, 2, 2), window(window_strides=(2,), padding=((1, 2),))),
    (
        "dilated",
        (1, 2, 4),
        (2, 2, 3),
        window(lhs_dilation=(2,), rhs_dilation=(2,), padding=((1, 1),)),
    ),
    ("cut", (1, 1, 6), (1, 1, 2), window(padding=((-1, -1),))),
    ("feature-groups", (2, 4, 5), (6, 2, 2), window(feature_group_count=2)),
    ("batch-groups", (4, 2, 5), (6, 2, 2), window(batch_group_count=2)),
    (
        "last-feature",
        (2, 5, 3),
        (2, 3, 4),
        window(
            input_feature=2,
            input_spatial=(1,),
            kernel_input_feature=1,
            kernel_output_feature=2,
            kernel_spatial=(0,),
            output_feature=2,
            output_spatial=(1,),
        ),
    ),
    ("too-small", (1, 1, 2), (1, 1, 3), window()),
]


def convolutions() -> list[OpSample]:
    samples = []
    for dtype in dtypes_of(ops.Convolution):
        for label, left, right, op in CONVOLUTIONS:
            x, kernel = ordinary_values(left, dtype, 1), ordinary_values(right, dtype, 2)
            samples.append(convolve(op, x, kernel, dtype, f"{label}-{dtype.short}"))
    x, kernel = ordinary_values((1, 1, 5), DType.F64, 1), ordinary_values((1, 1, 3), DType.F64, 2)
    turned = convolve(window(), x, kernel[:, :, ::-1].copy(), DType.F64, "reversed")
    op = window(window_reversal=(True,))
    samples.append(
        OpSample(op, (x, kernel), turned.expected, 4, 8, turned.scale, ROUNDS, "reversed")
    )
    return samples


def other_dots() -> list[OpSample]:
    """Return dot products of two arrays that share three pairs of axes, in every order.

    Some of the last pairs are batch axes. Each array also has an axis that is not paired.
    """
    samples = []
    lhs, rhs = (ordinary_values(shape, DType.F64, 3) for shape in ((2, 5, 3, 4), (4, 2, 3, 2)))
    pairs = ((0, 1), (2, 2), (3, 0))
    for order in permutations(pairs):
        for count in range(3):
            summed, batch = order[: 3 - count], order[3 - count :]
            axes = [
                tuple([pair[side] for pair in part]) for part in (summed, batch) for side in (0, 1)
            ]
            samples.append(dot(ops.DotGeneral(*axes), lhs, rhs, DType.F64, f"order-{axes}"))
    return samples


def plane(**changes: Any) -> Any:
    """Return a convolution with two spatial axes, whose settings differ."""
    unlike: dict[str, Any] = {
        "window_strides": (2, 1),
        "padding": ((1, 2), (0, -1)),
        "lhs_dilation": (1, 2),
        "rhs_dilation": (2, 1),
        "window_reversal": (True, False),
        "input_batch": 2,
        "input_feature": 0,
        "input_spatial": (3, 1),
        "kernel_input_feature": 3,
        "kernel_output_feature": 1,
        "kernel_spatial": (0, 2),
        "output_batch": 3,
        "output_feature": 2,
        "output_spatial": (0, 1),
    }
    return ops.Convolution(**(unlike | changes))


PLANES: list[tuple[str, tuple[int, ...], tuple[int, ...], Any]] = [
    ("plane", (2, 3, 2, 5), (2, 3, 2, 2), plane()),
    ("plane-feature-groups", (4, 3, 2, 5), (2, 6, 2, 2), plane(feature_group_count=2)),
    ("plane-batch-groups", (2, 3, 4, 5), (2, 6, 2, 2), plane(batch_group_count=2)),
    (
        "plane-turned",
        (2, 3, 2, 5),
        (2, 3, 2, 2),
        plane(window_reversal=(False, True), padding=((2, 0), (1, 1)), window_strides=(1, 2)),
    ),
]


def other_convolutions() -> list[OpSample]:
    """Return samples of convolutions with two spatial axes, whose arrays have unusual orders of axes."""
    return [
        convolve(
            op, ordinary_values(x, DType.F64, 1), ordinary_values(w, DType.F64, 2), DType.F64, label
        )
        for label, x, w, op in PLANES
    ]


OTHER_DOTS, OTHER_CONVOLUTIONS = other_dots(), other_convolutions()
"""Samples with unusual orders of axes, in one dtype. They are for tests of passes that rewrite these ops."""
ROWS: SampleRows = {ops.DotGeneral: dots(), ops.Convolution: convolutions()}
