"""Ops that multiply and sum: general dot products and convolutions."""

from __future__ import annotations

from typing import Any, ClassVar

from tenferro.dims import GuardLog, dim_max, is_exact
from tenferro.errors import DTypeError, InvalidConfigError, NonStaticShapeError, ShapeError
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import NUMERIC, require_dtype
from tenferro.rules.payload import as_bool, as_choice, as_int, as_ints, distinct_axes
from tenferro.rules.shapes import same_extent
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "Convolution", "DotGeneral"]

PRECISIONS = (None, "default", "high", "highest")


@card
class DotGeneral(StdTensorOp):
    """Contract: y[b, i, j] = sum over c of lhs[b, i, c] rhs[b, c, j]; each index stands for several axes.

    The axes of y are the batch axes (b) in the order of the lists, then the free axes of lhs (i) and of rhs (j). Free
    axes are in the order of their operand. The contracting axes (c) are summed.

    Shapes:  lhs, rhs with equal extents on paired axes -> y
    Dtypes:  every integer, float and complex dtype, one for both. The result has the dtype
             `accumulate_dtype`, by default that of the operands. Products are summed in this dtype; but
             float16 and bfloat16 are summed in float32, and narrow dtypes in their dtype `wide`. Such
             a sum is rounded once, at the end
    AD:      bilinear
    Lowers:  one stablehlo.dot_general, with conversions if the dtype of the sum differs. If
             `precision` is None, the operation gets the precision of the module
    Errors:  InvalidConfigError if two lists that form pairs differ in length; AxisError if an axis
             occurs twice or does not exist; ShapeError if paired axes differ in extent; DTypeError
             if the operands' dtypes differ or are bool

    >>> DotGeneral((1,), (0,)).infer(TensorSpec.parse("f64[2,3]"), TensorSpec.parse("f64[3,4]"))
    (f64[2,4],)
    >>> DotGeneral((1,), (0,)).infer(TensorSpec.parse("f64[2,3]"), TensorSpec.parse("f64[5,4]"))
    Traceback (most recent call last):
        ...
    tenferro.errors.ShapeError: DotGeneral: contracting axis 1 of lhs f64[2,3] and axis 0 of rhs \
f64[5,4] must agree, got 3 and 5
    """

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()
    precision: str | None = None
    accumulate_dtype: DType | None = None

    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        for name in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch"):
            normalize(self, **{name: as_ints("DotGeneral", name, getattr(self, name))})
        if self.accumulate_dtype is not None:
            normalize(self, accumulate_dtype=DType.of(self.accumulate_dtype))
        as_choice("DotGeneral", "precision", self.precision, PRECISIONS)
        for kind in ("contracting", "batch"):
            lhs, rhs = getattr(self, f"lhs_{kind}"), getattr(self, f"rhs_{kind}")
            if len(lhs) != len(rhs):
                raise InvalidConfigError(
                    f"DotGeneral: {kind} axes must pair up, got {lhs} for lhs and {rhs} for rhs"
                )

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        lhs, rhs = inputs
        require_dtype("DotGeneral", "lhs", lhs.dtype, self.accepts)
        if lhs.dtype is not rhs.dtype:
            raise DTypeError(
                f"DotGeneral: lhs and rhs must have the same dtype, got {lhs} and {rhs}"
            )
        distinct_axes("DotGeneral", "lhs axes", self.lhs_batch + self.lhs_contracting, lhs.rank)
        distinct_axes("DotGeneral", "rhs axes", self.rhs_batch + self.rhs_contracting, rhs.rank)
        for a, b in zip(self.lhs_contracting, self.rhs_contracting, strict=True):
            what = f"contracting axis {a} of lhs {lhs} and axis {b} of rhs {rhs}"
            same_extent("DotGeneral", what, lhs.shape[a], rhs.shape[b], guards)
        batch = [
            same_extent(
                "DotGeneral",
                f"batch axis {a} of lhs {lhs} and axis {b} of rhs {rhs}",
                lhs.shape[a],
                rhs.shape[b],
                guards,
            )
            for a, b in zip(self.lhs_batch, self.rhs_batch, strict=True)
        ]
        shape = (
            *batch,
            *(lhs.shape[axis] for axis in self.lhs_free(lhs.rank)),
            *(rhs.shape[axis] for axis in self.rhs_free(rhs.rank)),
        )
        return (TensorSpec.of(shape, self.accumulate_dtype or lhs.dtype),)

    def lhs_free(self, rank: int) -> tuple[int, ...]:
        """Return the axes of lhs that are neither batch axes nor contracting axes."""
        named = {*self.lhs_batch, *self.lhs_contracting}
        return tuple(axis for axis in range(rank) if axis not in named)

    def rhs_free(self, rank: int) -> tuple[int, ...]:
        """Return the axes of rhs that are neither batch axes nor contracting axes."""
        named = {*self.rhs_batch, *self.rhs_contracting}
        return tuple(axis for axis in range(rank) if axis not in named)


@card
class Convolution(StdTensorOp):
    """Slide a kernel over spatial axes: StableHLO's convolution with all options.

    In the formula, the axes of x are batch n, space and input feature i. The axes of the kernel w are window position
    k, input feature i and output feature o. Then y[n, o, p] = sum over k and i of x'[n, i, p strides + k rhs_dilation]
    w[k, i, o]. Here x' is x with lhs_dilation - 1 zeros between elements, and with `padding` around them. Negative
    padding removes elements. `feature_group_count` splits the features into groups with separate kernels, and
    `batch_group_count` splits the batch into such groups. `window_reversal` flags the spatial axes along which the
    kernel is reversed.

    Shapes:  x and kernel of one rank, axes named by the payload -> y
    Dtypes:  every integer, float and complex dtype, one for both; float16 and bfloat16 sum in float32
    AD:      bilinear
    Errors:  ShapeError, DTypeError, InvalidConfigError where features, groups or windows do not fit
    Source:  docs/specification/primitives.md, StableHLO spec #convolution
    """

    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    window_reversal: tuple[bool, ...]
    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: str | None = None

    accepts: ClassVar[frozenset[DType]] = NUMERIC
    input_count: ClassVar[Any] = 2

    def __post_init__(self) -> None:
        name = "Convolution"
        for field in ("window_strides", "lhs_dilation", "rhs_dilation"):
            normalize(self, **{field: as_ints(name, field, getattr(self, field), 1)})
        for field in ("input_spatial", "kernel_spatial", "output_spatial"):
            normalize(self, **{field: as_ints(name, field, getattr(self, field), 0)})
        for field in (
            "input_batch",
            "input_feature",
            "kernel_input_feature",
            "kernel_output_feature",
            "output_batch",
            "output_feature",
        ):
            normalize(self, **{field: as_int(name, field, getattr(self, field), 0)})
        for field in ("feature_group_count", "batch_group_count"):
            normalize(self, **{field: as_int(name, field, getattr(self, field), 1)})
        pairs = tuple(as_ints(name, "padding", pair) for pair in self.padding)
        reversal = tuple(as_bool(name, "window_reversal", flag) for flag in self.window_reversal)
        normalize(self, padding=pairs, window_reversal=reversal)
        as_choice(name, "precision", self.precision, PRECISIONS)
        count = len(self.window_strides)
        fields = (pairs, self.lhs_dilation, self.rhs_dilation, reversal)
        spatial = (self.input_spatial, self.kernel_spatial, self.output_spatial)
        if any(len(entries) != count for entries in (*fields, *spatial)) or any(
            len(pair) != 2 for pair in pairs
        ):
            raise InvalidConfigError(f"{name}: windows must name {count} spatial axes throughout")
        for role, axes in (
            ("input", (self.input_batch, self.input_feature, *self.input_spatial)),
            (
                "kernel",
                (self.kernel_input_feature, self.kernel_output_feature, *self.kernel_spatial),
            ),
            ("output", (self.output_batch, self.output_feature, *self.output_spatial)),
        ):
            distinct_axes(name, f"{role} axes", axes, count + 2)
        if self.feature_group_count > 1 and self.batch_group_count > 1:
            raise InvalidConfigError(f"{name}: only one of the group counts may exceed 1")

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        x, kernel = inputs
        require_dtype("Convolution", "x", x.dtype, self.accepts)
        if x.dtype is not kernel.dtype:
            raise DTypeError(
                f"Convolution: x and kernel must have the same dtype, got {x} and {kernel}"
            )
        rank = len(self.window_strides) + 2
        for role, spec in (("x", x), ("kernel", kernel)):
            if spec.rank != rank:
                raise ShapeError(f"Convolution: {role} must have rank {rank}, got {spec}")
            if not spec.is_exact:
                raise NonStaticShapeError(f"Convolution: {role} {spec} has data-dependent extents")
        features = x.shape[self.input_feature]
        outputs = kernel.shape[self.kernel_output_feature]
        batch = x.shape[self.input_batch]
        _divides("feature_group_count", self.feature_group_count, "input features", features)
        _divides("feature_group_count", self.feature_group_count, "output features", outputs)
        _divides("batch_group_count", self.batch_group_count, "batch", batch)
        _divides("batch_group_count", self.batch_group_count, "output features", outputs)
        same_extent(
            "Convolution",
            f"features of x {x} per group and of kernel {kernel}",
            features // self.feature_group_count,
            kernel.shape[self.kernel_input_feature],
            guards,
        )
        shape: list[Any] = [0] * rank
        shape[self.output_batch] = batch // self.batch_group_count
        shape[self.output_feature] = outputs
        for i, axis in enumerate(self.output_spatial):
            shape[axis] = self._windows(
                i, x.shape[self.input_spatial[i]], kernel.shape[self.kernel_spatial[i]]
            )
        return (TensorSpec.of(tuple(shape), x.dtype),)

    def _windows(self, i: int, extent: Any, size: Any) -> Any:
        """Return the number of window positions along spatial axis `i`."""
        low, high = self.padding[i]
        dilated = dim_max((extent - 1) * self.lhs_dilation[i] + 1, 0) if extent != 0 else 0
        padded = low + dilated + high
        window = dim_max((size - 1) * self.rhs_dilation[i] + 1, 0) if size != 0 else 0
        if isinstance(padded, int) and isinstance(window, int):
            if padded < 0:
                raise ShapeError(f"Convolution: spatial axis {i} is padded to {padded}")
            return (
                0
                if padded == 0 or window > padded
                else (padded - window) // self.window_strides[i] + 1
            )
        return dim_max((padded - window) // self.window_strides[i] + 1, 0)


def _divides(field: str, count: int, what: str, extent: Any) -> None:
    if is_exact(extent) and isinstance(extent, int) and extent % count:
        raise ShapeError(f"Convolution: {field} {count} does not divide the {what}, {extent}")


CARDS = (DotGeneral, Convolution)
