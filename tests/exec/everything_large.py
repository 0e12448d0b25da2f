"""Pytest plugin that lowers the thresholds of large arrays.

Small tests then use groups, tiles, threads and planned memory:

python -m pytest -p tests.exec.everything_large tests/ad tests/ops
"""

import pytest

from tenferro import costs
from tenferro.exec.kernels import dot_general, matrix_product
from tenferro.exec.plan import group, place, tiling


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    group.MIN_GROUPED_ELEMENTS = 1
    costs.MIN_PARALLEL_COST = 0.0
    tiling.TILE_BYTES = 256
    place.MIN_PLACED_BYTES = 1
    matrix_product.MIN_PARALLEL_WORK = 1
    matrix_product.MIN_BLOCK_EXTENT = 2
    matrix_product.MIN_POOLED_BYTES = 1
    dot_general.MIN_BUFFERED_ELEMENTS = 1
