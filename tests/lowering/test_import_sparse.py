"""Products with a sparse matrix in compressed-row form must be read from the custom call that JAX writes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tenferro as tnf
from lowering import import_stablehlo
from tenferro import errors
from xla_peer import XlaExecutor

TEXT = """
func.func @main(%data: tensor<7xf64>, %starts: tensor<5xi32>, %columns: tensor<7xi32>, %rhs: tensor<3{n}xf64>)
    -> tensor<4{n}xf64> {{
  %0 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%data, %starts, %columns, %rhs)
    : (tensor<7xf64>, tensor<5xi32>, tensor<7xi32>, tensor<3{n}xf64>) -> tensor<4{n}xf64>
  return %0 : tensor<4{n}xf64>
}}"""
# Rows 0 and 2 are empty. The last two elements are padding in the column 3, which is out of bounds.
STARTS = np.array([0, 0, 3, 3, 5], "i4")
COLUMNS = np.array([0, 1, 2, 2, 0, 3, 3], "i4")
DATA = np.array([1.5, -2.0, 0.25, 3.0, -0.5, np.nan, np.inf])


@pytest.fixture(scope="module")
def peer() -> XlaExecutor:
    return XlaExecutor("cpu", notices=False)


@pytest.mark.parametrize("n", ["", "x1", "x2"])
def test_a_product_is_scipys(n: str, peer: XlaExecutor) -> None:
    program = import_stablehlo(TEXT.format(n=n))
    rhs = np.random.default_rng(0).standard_normal((3, *map(int, n[1:])))
    expected = scipy.sparse.csr_array((DATA[:5], COLUMNS[:5], STARTS), shape=(4, 3)) @ rhs
    np.testing.assert_allclose(program.run(DATA, STARTS, COLUMNS, rhs), expected, rtol=1e-15)
    (result,) = peer.compile(program).run_leaves([DATA, STARTS, COLUMNS, rhs])
    np.testing.assert_allclose(result, expected, rtol=1e-15)


def test_derivatives_are_those_of_the_dense_product() -> None:
    program = import_stablehlo(TEXT.format(n="x2"))
    rhs = np.random.default_rng(0).standard_normal((3, 2))
    y_bar = np.random.default_rng(1).standard_normal((4, 2))
    data = np.where(np.isfinite(DATA), DATA, 0.0)
    loss = lambda d, x: tnf.sum(y_bar * program(d, STARTS, COLUMNS, x))
    data_bar, rhs_bar = tnf.grad(loss, (0, 1))(data, rhs)
    dense = scipy.sparse.csr_array((DATA[:5], COLUMNS[:5], STARTS), shape=(4, 3)).toarray()
    rows = [1, 1, 1, 3, 3]
    np.testing.assert_allclose(rhs_bar, dense.T @ y_bar, rtol=1e-14)
    np.testing.assert_allclose(data_bar[:5], (y_bar @ rhs.T)[rows, COLUMNS[:5]], rtol=1e-14)
    np.testing.assert_array_equal(data_bar[5:], 0.0)


def test_shapes_that_are_no_such_matrix_are_refused() -> None:
    text = TEXT.format(n="").replace("tensor<5xi32>", "tensor<4xi32>")
    with pytest.raises(errors.ShapeError, match="cpu_csr_sparse_dense_ffi: operands"):
        import_stablehlo(text)
