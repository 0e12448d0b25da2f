"""Tensors: their dtypes, and conversion from and to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tenferro import DType, TensorSpec

__all__ = ["DTYPES", "LOW", "allocate", "download", "upload"]

DTYPES = {dtype: getattr(torch, dtype.value) for dtype in DType}
"""PyTorch's dtype of the same name."""
LOW = (torch.float16, torch.bfloat16)
"""Computed in float32 and rounded once, unless the result is exact."""


def upload(array: Any) -> torch.Tensor:
    """Return a copy of a NumPy array, in memory of PyTorch's."""
    own = np.array(array)
    if DType.of(own.dtype) is DType.BF16:  # which PyTorch does not know under NumPy's name
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def download(tensor: torch.Tensor) -> Any:
    """Return a NumPy array on the memory of a tensor."""
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(DType.BF16.dtype)
    return tensor.numpy()


def allocate(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor of a type, its elements undefined."""
    return torch.empty(spec.shape, dtype=DTYPES[spec.dtype])
