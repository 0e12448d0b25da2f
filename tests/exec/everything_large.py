"""A pytest plugin under which every array is large: groups, tiles, threads and places everywhere.

python -m pytest -p tests.exec.everything_large tests/ad tests/ops
"""

import pytest

from tenferro.exec import fusion, grouping, straight_line
from tenferro.exec.exec_program import ExecProgram
from tenferro.exec.kernels import dot_general, matrix_product, row_sums


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before anything runs."""
    grouping.SMALLEST = 1
    fusion.ALONE = 0
    fusion.TILE_BYTES = fusion.ROW_TILE_BYTES = 256
    straight_line.SMALLEST_BLOCK = 1
    matrix_product.LARGE = 1
    matrix_product.PIECE = 2
    matrix_product.SMALLEST_SCRATCH = 1
    dot_general.LARGE_RESULT = 1
    row_sums.BLOCK = 4
    dot_general.SMALLEST_SCRATCH = 1
    ExecProgram.is_worth_generating = lambda _: True  # type: ignore[method-assign]
