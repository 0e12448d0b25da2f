"""The schedule must expect the layouts in which kernels return results, and copy arrays in any other layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.kernel import bind_kernel
from tenferro.exec.layout import Layout, arranged, dense, in_memory, layout_of, row_major
from tenferro.ops.structural import Reshape
from tenferro.types import DType, TensorSpec
from tests.samples import SAMPLES
from tests.samples.each import each_card

ARRANGEMENTS = {
    "rows": lambda x: x.copy(),
    "columns": lambda x: x.copy(order="F"),
    "gaps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "backwards": lambda x: x[::-1].copy()[::-1] if x.ndim else x,
}


@each_card
def test_kernels_give_the_layouts_that_they_say(card: Any) -> None:
    """If a kernel declares the layout of its result, the result must have this layout."""
    kernel = KERNELS[card]
    if getattr(kernel, "_layout", None) is None:
        pytest.skip("rows are expected")
    for sample in SAMPLES[card]:
        if not all([x.size for x in sample.inputs]):
            continue
        for name, arrange in ARRANGEMENTS.items():
            if card is Reshape and name in ("gaps", "backwards"):
                continue  # because the result may be a view of the operand
            arrays = [arrange(x) for x in sample.inputs]
            types = tuple([TensorSpec(x.shape, DType.of(x.dtype)) for x in arrays])
            layouts = [layout_of(x) for x in arrays]
            y = np.asarray(bind_kernel(kernel, sample.op, types)(*arrays))
            if y.size:
                assert kernel.layout(sample.op, layouts, y.shape) == layout_of(y), (
                    sample.op,
                    layouts,
                )


ARRAYS = {
    "rows": np.arange(24.0).reshape(2, 3, 4),
    "columns": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "planes": np.arange(24.0).reshape(3, 2, 4).transpose(1, 0, 2),
    "gaps": np.arange(96.0).reshape(4, 6, 4)[::2, ::2, :],
    "backwards": np.arange(24.0).reshape(2, 3, 4)[:, ::-1],
    "complex": np.arange(24.0).reshape(2, 3, 4) * (1 + 2j),
}
LAYOUTS = [layout_of(x) for x in ARRAYS.values()]


@pytest.mark.parametrize("name", ARRAYS)
def test_arranged_arrays_have_the_layout_and_the_elements(name: str) -> None:
    x = ARRAYS[name]
    for layout in LAYOUTS:
        assert layout is not None
        y = arranged(x, layout)
        assert layout_of(y) == layout
        assert np.array_equal(y, x)
        assert (y is x) == (layout == layout_of(x))


def test_a_repeated_axis_is_not_copied() -> None:
    x = np.ascontiguousarray(np.broadcast_to(np.arange(3.0), (4, 3)))
    layout = layout_of(np.broadcast_to(np.arange(3.0), (4, 3)))
    assert layout == Layout((4, 3), (0, 1))
    assert layout.repeats
    y = arranged(x, layout)
    assert y.strides == (0, 8)
    assert np.array_equal(y, x)


def test_parts_of_elements_have_no_layout() -> None:
    records = np.zeros(5, [("a", "f8"), ("b", "i4")])
    assert layout_of(records["a"]) is None
    assert arranged(records["a"], row_major((5,))).strides == (8,)
    assert layout_of(np.zeros(1, [("a", "f8"), ("b", "i4")])["a"]) == row_major((1,))


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_arrays_in_memory_have_the_order_of_axes(axes: tuple[int, ...]) -> None:
    shape, dtype, inverse = in_memory(TensorSpec((2, 3, 4), "float32"), axes)
    y = np.zeros(shape, dtype).transpose(inverse)
    assert layout_of(y) == dense((2, 3, 4), axes)
    assert y.dtype == np.float32
    assert y.transpose(axes).flags.c_contiguous


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (np.zeros((3, 4)), (3, 1, 4)), (np.zeros((3, 4), order="F"), (1, 3, 4)), (np.zeros((3, 4)), (12,)),
        (np.zeros((3, 4), order="F"), (2, 6)), (np.zeros((1, 5)), (5,)), (np.zeros((4, 6))[:, ::2], (4, 1, 3)),
    ],
)  # fmt: skip
def test_reshaped_layouts(x: Any, shape: tuple[int, ...]) -> None:
    layout = layout_of(x)
    assert layout is not None
    assert layout.reshaped(shape) == layout_of(x.reshape(shape, order="F"))
