"""Values that devices send to each other, simulated on one: an op of one device, and its meaning for all of them.

A program of one device becomes one of all by a batch along a leading axis, in which `Exchange` is a gather.
"""

from __future__ import annotations

import tenferro as tnf
from tenferro import GraphProgram, TensorSpec
from tenferro.ext.collectives.families import Exchange

__all__ = ["Exchange", "on_all_devices"]


def on_all_devices(program: GraphProgram, count: int) -> GraphProgram:
    """The program of one device, run by `count` devices: each input and output has a leading axis of devices.

    Raises:
        UnsupportedError: an op without a batch rule.
    """
    specs = [TensorSpec.of((count, *spec.shape), spec.dtype) for spec in program.input_specs]
    return tnf.compile(tnf.vmap(lambda *xs: program(*xs), axis_size=count), *specs)
