"""Conversion between NumPy arrays and tensors, and allocation of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tenferro import DType, TensorSpec

__all__ = ["DTYPES", "LOW", "allocate", "download", "upload"]

DTYPES = {dtype: getattr(torch, dtype.value) for dtype in DType}
"""PyTorch's dtype for each of tenferro's dtypes."""
LOW = (torch.float16, torch.bfloat16)
"""Dtypes for which kernels compute in float32 and round once, unless their result is exact."""


def upload(array: Any) -> torch.Tensor:
    """Copy a NumPy array into a PyTorch tensor."""
    own = np.array(array)
    if DType.of(own.dtype) is DType.BF16:  # `from_numpy` does not accept bfloat16
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def download(tensor: torch.Tensor) -> Any:
    """Return a NumPy array with the tensor's elements; it shares the tensor's memory if possible."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(DType.BF16.dtype)
    return tensor.numpy()


def allocate(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor of the shape and dtype of `spec`, with undefined elements."""
    return torch.empty(spec.shape, dtype=DTYPES[spec.dtype])
