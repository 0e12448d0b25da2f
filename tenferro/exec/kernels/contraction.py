"""Kernels of the contraction family: matrix products, by BLAS for the dtypes that it supports."""

from __future__ import annotations

from tenferro.exec.kernels.convolution import ConvolutionKernel
from tenferro.exec.kernels.dot_general import DotGeneralKernel
from tenferro.exec.kernels.kernel import KernelRows
from tenferro.ops.contraction import Convolution, DotGeneral

__all__ = ["ROWS"]

ROWS: KernelRows = {DotGeneral: DotGeneralKernel(), Convolution: ConvolutionKernel()}
