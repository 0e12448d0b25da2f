"""A pytest plugin under which every array is large: groups, tiles, threads and places everywhere.

python -m pytest -p tests.exec.everything_large tests/ad tests/ops
"""

import pytest

from tenferro.exec import tiles
from tenferro.exec.kernels import dot_general, matrix_product, row_sums
from tenferro.exec.plan import group, place


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before anything runs."""
    group.SMALLEST = 1
    tiles.LARGE = 0
    tiles.WORTH = 0.0
    tiles.TILE_BYTES = tiles.ROW_TILE_BYTES = 256
    place.SMALLEST_BLOCK = 1
    matrix_product.LARGE = 1
    matrix_product.PIECE = 2
    matrix_product.SMALLEST_SCRATCH = 1
    dot_general.LARGE_RESULT = 1
    row_sums.BLOCK = 4
    dot_general.SMALLEST_SCRATCH = 1
