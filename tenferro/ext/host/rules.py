"""Rules of checks and callbacks. They have no derivatives.

A batch is checked by one check. The attribute `method` of a callback decides how its batch is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenferro.errors import ADRuleUnsupportedError, NonStaticShapeError, UnsupportedError
from tenferro.ext.host.families import Callback, Check
from tenferro.extension import ExtensionAdRule
from tenferro.extension.algebra import apply_one
from tenferro.extension.ops import BroadcastInDim
from tenferro.types import TensorSpec

__all__ = ["CallbackRule", "CheckRule"]


def _leading(x: Any, size: Any) -> Any:
    """Broadcast x along a new leading axis."""
    return apply_one(BroadcastInDim((size, *x.shape), tuple(range(1, x.rank + 1))), x)


class CheckRule(ExtensionAdRule):
    """Rule of `Check`: the output has no tangent."""

    family_id = Check.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return None

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        after, *values = inputs
        size = next(x.shape[0] for x, many in zip(inputs, batched, strict=True) if many)
        if any(batched[1:]):
            op = replace(op, batch_rank=op.batch_rank + 1)
            values = [
                x if many else _leading(x, size)
                for x, many in zip(values, batched[1:], strict=True)
            ]
        return apply_one(BroadcastInDim((size,), ()), builder.apply(op, after, *values))


@dataclass(frozen=True)
class OneByOne:
    """Map of `function` over slices along the leading axis of the batched operands. The results are stacked."""

    function: Callable[..., Sequence[Any]]
    batched: tuple[bool, ...]
    size: int
    results: tuple[TensorSpec, ...]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        """Compute the results for all slices, and stack them."""
        outputs = [np.empty((self.size, *spec.shape), spec.dtype.dtype) for spec in self.results]
        for i in range(self.size):
            results = self.function(
                *[x[i] if many else x for x, many in zip(arrays, self.batched, strict=True)]
            )
            for output, result in zip(outputs, results, strict=True):
                output[i] = result
        return outputs


class CallbackRule(ExtensionAdRule):
    """Rule of `Callback`: it has no derivative, and its attribute `method` decides how a batch is computed."""

    family_id = Callback.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        if op.effects and len(op.results) == 1:
            return None  # because the call has no outputs besides the effect
        raise ADRuleUnsupportedError(
            "pure_callback: the derivative of a Python function is not known; give it one by custom_jvp or custom_vjp "
            "around the call"
        )

    def batch_rule(self, op: Callback, builder: Any, inputs: Any, batched: Any) -> Any:
        size = next(x.shape[0] for x, many in zip(inputs, batched, strict=True) if many)
        if op.method is None:
            raise UnsupportedError(
                "pure_callback: vmap needs vmap_method: 'sequential' calls the function for each slice, "
                "'broadcast_all' and 'expand_dims' call it once with a leading axis"
            )
        if not isinstance(size, int):
            raise NonStaticShapeError(
                f"pure_callback: the size of the batch is {size}, which is not a number"
            )
        results = tuple([TensorSpec.of((size, *spec.shape), spec.dtype) for spec in op.results])
        function = op.function
        if op.method == "sequential":
            function = OneByOne(op.function, tuple(batched), size, op.results)
        else:
            width = size if op.method == "broadcast_all" else 1
            inputs = [
                x if many else _leading(x, width) for x, many in zip(inputs, batched, strict=True)
            ]
        return builder.apply(replace(op, function=function, results=results), *inputs)
