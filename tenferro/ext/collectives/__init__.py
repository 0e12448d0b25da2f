"""Communication between devices, simulated on one device.

The program of one device is batched along a leading axis of devices; `Exchange` becomes a gather along that axis.
"""

from __future__ import annotations

from tenferro.ad import AdContext, batch_program
from tenferro.ext.collectives.families import Exchange
from tenferro.program import GraphProgram

__all__ = ["Exchange", "on_all_devices"]


def on_all_devices(program: GraphProgram, count: int) -> GraphProgram:
    """Return a program that runs a program for one device on `count` devices; inputs and outputs get a leading axis.

    Raises:
        UnsupportedError: an op has no batch rule.
    """
    return batch_program(program, [True] * len(program.input_slots), count, AdContext())
