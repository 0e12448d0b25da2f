"""Lowering of calls of Python functions to custom calls of a handler in jaxlib, which runs them on the CPU.

The StableHLO text identifies each function by a number. The functions themselves are passed to the compiler as a list,
and the handler calls the function at the index that the text contains.
"""

from __future__ import annotations

from typing import Any

from lowering.families.linalg.library import custom_call
from lowering.inference import result_types
from lowering.operations import Integer
from lowering.writer import Value, Writer
from tenferro.errors import UnsupportedError

__all__ = ["FAMILY", "callback"]

FAMILY = "tenferro.pure_callback.v1"
HANDLER = "xla_ffi_python_cpu_callback"


def callback(op: Any, w: Writer, *operands: Value) -> tuple[Value, ...]:
    """Append the function to the module's list of functions, and emit a call by its number.

    Raises:
        UnsupportedError: an operand or result has elements of less than 8 bits, which the handler would read as bytes.
    """
    assert w.callbacks is not None
    results = result_types(op, operands)
    for spec in (*[x.spec for x in operands], *results):
        if spec.dtype.is_narrow and spec.dtype.bits < 8:
            raise UnsupportedError(
                f"pure_callback: {spec} has elements of {spec.dtype.bits} bits, of which PJRT's handler gives others "
                "than the program has; convert it to int8 or float32 for the callback, or run natively"
            )
    w.callbacks.append(op.function)
    flags = {"index": Integer(len(w.callbacks) - 1, "ui64")}
    kinds = "v" * len(operands), "v" * len(results)
    return custom_call(w, HANDLER, flags, operands, kinds[0], results, kinds[1], in_place=False)
