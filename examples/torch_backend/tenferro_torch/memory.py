"""Tensors: their dtypes, and conversion from and to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tenferro import DType, TensorSpec

__all__ = ["DTYPES", "LOW", "allocate", "download", "upload"]

DTYPES = {dtype: getattr(torch, dtype.value) for dtype in DType}
"""PyTorch's dtype for each dtype, by the same name."""
LOW = (torch.float16, torch.bfloat16)
"""Dtypes that are computed in float32 and rounded once, unless the result is exact."""


def upload(array: Any) -> torch.Tensor:
    """Copy a NumPy array into a PyTorch tensor."""
    own = np.array(array)
    if DType.of(own.dtype) is DType.BF16:  # PyTorch lacks NumPy's name for it
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def download(tensor: torch.Tensor) -> Any:
    """Return a NumPy array that shares the memory of a tensor."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(DType.BF16.dtype)
    return tensor.numpy()


def allocate(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor of this type with undefined elements."""
    return torch.empty(spec.shape, dtype=DTYPES[spec.dtype])
