"""Operations that run at once and note what derivatives need."""

from tenferro.api.eager.runtime import EagerRuntime
from tenferro.api.eager.tensor import EagerTensor

__all__ = ["EagerRuntime", "EagerTensor"]
