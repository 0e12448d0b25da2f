"""`Exchange`, the op by which a device reads values of other devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.extension import ExtensionAdRule, ExtensionOp, extension_family
from tenferro.extension.algebra import constant_like, lead, zeros
from tenferro.extension.ops import BroadcastInDim, Gather, Select

__all__ = ["Exchange"]


class ExchangeRule(ExtensionAdRule):
    """Batch rule of `Exchange`: a gather along the axis of devices.

    On device d, y[k] is the x of device `sources[d][k]`.
    """

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        x = inputs[0] if batched[0] else lead(inputs[0], len(op.sources))
        sources = np.array(op.sources, np.int64)
        rank = x.rank
        gather = Gather(
            offset_dims=tuple(range(2, rank + 1)),
            collapsed_slice_dims=(0,),
            operand_batching_dims=(),
            start_indices_batching_dims=(),
            start_index_map=(0,),
            index_vector_dim=2,
            slice_sizes=(1, *x.shape[1:]),
        )
        y = builder.apply(gather, x, constant_like(x, np.maximum(sources, 0)))
        if (sources >= 0).all():
            return y
        spread = BroadcastInDim(y.shape, (0, 1))
        has_source = builder.apply(spread, constant_like(x, sources >= 0))
        return builder.apply(Select(), has_source, y, zeros(y))


@extension_family("tenferro", "exchange", version=1, rules=ExchangeRule)
@dataclass(frozen=True)
class Exchange(ExtensionOp):
    """Values of x on other devices: on device d, y[k] is the x of device `sources[d][k]`, or zeros if that is -1.

    The op is part of a program for one of `len(sources)` devices. Its second operand is the number d of the device. The
    op cannot run on one device alone, but only in a batch of all devices; see `on_all_devices`.
    """

    sources: tuple[tuple[int, ...], ...]
    input_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], (len(self.sources[0]), *input_shapes[0]))]
