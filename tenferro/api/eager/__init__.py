"""Operations that run at once and record their derivatives."""

from tenferro.api.eager.runtime import EagerRuntime
from tenferro.api.eager.tensor import EagerTensor

__all__ = ["EagerRuntime", "EagerTensor"]
