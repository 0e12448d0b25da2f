"""Eager tensors, whose operations run at once and are recorded for differentiation."""

from tenferro.api.eager.runtime import EagerRuntime
from tenferro.api.eager.tensor import EagerTensor

__all__ = ["EagerRuntime", "EagerTensor"]
