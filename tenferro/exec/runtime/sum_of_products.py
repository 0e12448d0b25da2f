"""Descriptions of sums of products of two strided arrays, such as matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tenferro.types import DType

__all__ = ["ONE_IMAGE", "CompiledSum", "SumCompiler", "SumOfProducts"]

ONE_IMAGE = 0, 0, 0, 0
"""Value of `SumOfProducts.images` if there is one image."""


@dataclass(frozen=True)
class SumOfProducts:
    """Sum y[r, m, o] = sum over terms of a[r, m, terms] b[terms, o]; strides are in elements.

    Attributes:
        rows: the stride of axis r in a and in y.
        images: the number of rows per image, and the strides between images in a, b and y; all 0 if there is one image.
        places: the extent of axis m, and its strides in a and y.
        outputs: the extent of axis o, and its strides in b and y. Either the axis is contiguous in b, or there is one
            summed axis, which is contiguous in a and b.
        terms: for each summed axis, slowest first, its extent and its strides in a and b.
    """

    dtype: DType
    rows: tuple[int, int]
    images: tuple[int, int, int, int]
    places: tuple[int, int, int]
    outputs: tuple[int, int, int]
    terms: tuple[tuple[int, int, int], ...]

    @property
    def matrix_bytes(self) -> int:
        """Size of b in bytes if a, b and y are matrices, else 0."""
        if len(self.terms) > 1:
            return 0
        return prod([count for count, *_ in self.terms]) * self.outputs[0] * self.dtype.itemsize


CompiledSum: TypeAlias = tuple[Callable[..., Any], int]
"""Function of pointers to a, b and y and of a range of tasks, and the number of tasks per row."""
SumCompiler: TypeAlias = Callable[[SumOfProducts, int], CompiledSum | None]
"""Function that compiles a sum with this number of multiplications; it returns None if the sum is not compiled."""
