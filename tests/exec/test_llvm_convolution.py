"""Small convolutions in compiled loops must equal the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.exec.llvm import contraction, link
from tenferro.ops.contraction import Convolution
from tests.exec.compiled_loops import in_a_loop

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
RNG = np.random.default_rng(8)


def payload(rank: int, **options: Any) -> Convolution:
    """Return a convolution op with this number of spatial axes; by default, channels are the last axis."""
    space = range(rank)
    plain: dict[str, Any] = {
        "window_strides": (1,) * rank, "padding": ((0, 0),) * rank, "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank, "window_reversal": (False,) * rank, "input_batch": 0,
        "input_feature": rank + 1, "input_spatial": tuple([1 + i for i in space]),
        "kernel_input_feature": rank, "kernel_output_feature": rank + 1, "kernel_spatial": tuple(space),
        "output_batch": 0, "output_feature": rank + 1, "output_spatial": tuple([1 + i for i in space]),
    }  # fmt: skip
    return Convolution(**(plain | options))


CASES = {
    "plain": (payload(2), (2, 6, 5, 3), (3, 2, 3, 4)),
    "padded": (payload(2, padding=((1, 1), (2, 0))), (2, 6, 5, 3), (3, 2, 3, 4)),
    "cut": (payload(2, padding=((-1, 1), (0, -2))), (2, 6, 5, 3), (3, 2, 3, 4)),
    "moved along its axis": (payload(1, padding=((1, -1),)), (2, 6, 3), (2, 3, 4)),
    "strides": (payload(2, window_strides=(2, 3), padding=((1, 1), (1, 1))), (2, 6, 5, 3), (3, 2, 3, 4)),
    "dilated": (payload(2, rhs_dilation=(2, 1), padding=((2, 2), (0, 0))), (2, 6, 5, 3), (3, 2, 3, 4)),
    "transposed": (payload(2, lhs_dilation=(2, 3), padding=((2, 1), (1, 3))), (2, 4, 3, 3), (3, 2, 3, 4)),
    "reversed": (payload(2, window_reversal=(True, False)), (2, 6, 5, 3), (3, 2, 3, 4)),
    "groups": (payload(2, feature_group_count=3), (2, 6, 5, 6), (3, 2, 2, 9)),
    "depthwise": (payload(2, feature_group_count=6, padding=((1, 1), (1, 1))), (2, 6, 5, 6), (3, 3, 1, 6)),
    "one by one": (payload(2), (2, 6, 5, 3), (1, 1, 3, 16)),
    "one axis": (payload(1, padding=((2, 2),)), (3, 9, 4), (5, 4, 16)),
    "three axes": (payload(3, padding=((1, 1), (0, 0), (1, 0))), (1, 4, 3, 5, 2), (2, 2, 2, 2, 3)),
    "no axis": (payload(0), (4, 3), (3, 5)),
    "channels first": (
        payload(2, input_feature=1, input_spatial=(2, 3), kernel_output_feature=0, kernel_input_feature=1,
                kernel_spatial=(2, 3), output_feature=1, output_spatial=(2, 3), padding=((1, 1), (1, 1))),
        (2, 3, 6, 5), (4, 3, 3, 2),
    ),
    "mixed axes": (
        payload(2, input_batch=3, input_feature=0, input_spatial=(2, 1), output_batch=1, output_feature=2,
                output_spatial=(3, 0)),
        (3, 5, 6, 2), (3, 2, 3, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *[(case, "float64") for case in CASES],
        *[
            (case, dtype)
            for number, dtype in enumerate(["float32", "float16", "bfloat16", "int32"])
            for case in [*CASES][number % 3 :: 3]
        ],
    ],
)
def test_convolutions_in_loops(case: str, dtype: str) -> None:
    """Compiled convolutions must equal interpreted ones, up to the rounding of another order of additions."""
    op, shape, kernel_shape = CASES[case]
    kind = tnf.DType.of(dtype).dtype
    xs = (RNG.standard_normal((3, *shape)) * 3).astype(kind)
    kernel = (RNG.standard_normal(kernel_shape) * 3).astype(kind)
    compiled = in_a_loop(lambda x: apply_one(op, x, kernel), xs)
    plain = tnf.GraphExecutor("K", compiled=False)
    program = tnf.compile(lambda x: apply_one(op, x, kernel), xs[0])
    for y, x in zip(np.asarray(compiled), xs, strict=True):
        wanted = plain.run(program, x).astype(np.float64)
        terms = kernel.size / kernel_shape[op.kernel_output_feature]
        eps = float(tnf.finfo(dtype).eps) if tnf.DType.of(dtype).is_inexact else 0.0
        np.testing.assert_allclose(
            y.astype(np.float64), wanted, rtol=4 * eps, atol=50 * eps * np.sqrt(terms)
        )


def test_padding_times_infinity() -> None:
    """Products of the zeros of padding and infinity must be NaN."""
    op, kernel = payload(2, padding=((1, 1), (1, 1))), np.full((2, 2, 1, 1), np.inf)
    x = RNG.standard_normal((1, 1, 3, 3, 1))
    (compiled,) = np.asarray(in_a_loop(lambda x: apply_one(op, x, kernel), x))
    program = tnf.compile(lambda x: apply_one(op, x, kernel), x[0])
    wanted = tnf.GraphExecutor("K", compiled=False).run(program, x[0])
    np.testing.assert_array_equal(compiled, wanted)
    assert np.isnan(wanted).any()


@pytest.mark.parametrize(
    ("options", "dtype", "most", "is_compiled"),
    [
        ({}, "float64", 1 << 20, True),
        ({}, "float64", 10, False),
        ({}, "complex64", 1 << 20, False),
        ({"batch_group_count": 2}, "float64", 1 << 20, False),
    ],
)
def test_convolutions_that_are_not_compiled(
    options: Any, dtype: str, most: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop must be interpreted if its convolution is large, complex, or grouped by the batch."""
    op = payload(2, **options)
    xs, kernel = np.ones((3, 2, 6, 5, 3), dtype), np.ones((3, 2, 3, 4), dtype)

    def fn(xs: Any, kernel: Any) -> Any:
        return tnf.scan(lambda c, x: (c + 1, apply_one(op, x, kernel)), 0, xs)[1]

    monkeypatch.setattr(contraction, "MAX_CONVOLUTION_MULTIPLICATIONS", most)
    program, executor = tnf.compile(fn, xs, kernel), tnf.GraphExecutor(compiled=True)
    assert ("define i64 @f(" in executor.source(program, "llvm")) == is_compiled
    expected = tnf.GraphExecutor(compiled=False).run(program, xs, kernel)
    np.testing.assert_array_equal(executor.run(program, xs, kernel), expected)
