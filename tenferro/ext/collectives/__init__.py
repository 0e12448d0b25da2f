"""Communication between devices, which is simulated on one device.

The program for one device is batched along a leading axis of devices. `Exchange` then becomes a gather along that axis.
"""

from __future__ import annotations

from tenferro.ad import AdContext, batch_program
from tenferro.ext.collectives.families import Exchange
from tenferro.program import GraphProgram

__all__ = ["Exchange", "on_all_devices"]


def on_all_devices(program: GraphProgram, count: int) -> GraphProgram:
    """Return a program that runs `program`, written for one device, on `count` devices.

    Inputs and outputs get a leading axis of devices.

    Raises:
        UnsupportedError: an op has no batch rule.
    """
    return batch_program(program, [True] * len(program.input_slots), count, AdContext())
