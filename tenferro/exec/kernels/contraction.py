"""Kernels of the contraction family: matrix products, by BLAS for the dtypes that it supports."""

from __future__ import annotations

from tenferro.exec.kernels.convolution import CONVOLUTION
from tenferro.exec.kernels.dot_general import DOT_GENERAL
from tenferro.exec.kernels.kernel import KernelRows
from tenferro.ops.contraction import Convolution, DotGeneral

__all__ = ["ROWS"]

ROWS: KernelRows = {DotGeneral: DOT_GENERAL, Convolution: CONVOLUTION}
