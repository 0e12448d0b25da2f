"""Readers of functions with a required accuracy, the attribute `result_accuracy`.

In a program, an extension op represents the function and its required accuracy. If native execution may be less
accurate, reading the operation raises an error.

Source: StableHLO spec, `result_accuracy`; JAX's `Tolerance`, for the sum of tolerances.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import wraps
from typing import Any

import ml_dtypes

from lowering.emit.analytic import ACCURATE
from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ext.accuracy.families import ResultAccuracy
from tenferro.ops.extension import Extension
from tenferro.types import DType

__all__ = ["with_accuracy"]

_FIELDS = re.compile(r"(atol|rtol|ulps|mode) ?= ?(?:#stablehlo\.result_accuracy_mode<(\w+)>|([^,>]+))")  # fmt: skip


def with_accuracy(read: Read) -> Read:
    """Extend the reader of a function by the attribute `result_accuracy`.

    The extended reader raises UnsupportedError if the error of native execution may exceed the tolerance.
    """

    @wraps(read)
    def read_accurately(r: Reader, operation: Operation, operands: Sequence[int]) -> Any:
        demand = operation.attributes.get("result_accuracy")
        if demand is None:
            return read(r, operation, operands)
        fields: dict[str, Any] = {
            name: mode or number for name, mode, number in _FIELDS.findall(str(demand))
        }
        mode = fields.pop("mode", "DEFAULT")
        amounts = [float(fields.get(name, 0)) for name in ("atol", "rtol", "ulps")]
        if min(amounts) < 0 or (mode != "TOLERANCE" and any(amounts)):
            raise InvalidConfigError(f"{operation.name}: no such accuracy is demanded: {demand}")
        y = read(r, operation, operands)
        if mode == "DEFAULT" or not isinstance(y, int):
            return y
        made = r.builder.made_by(y)
        if made is None or type(made[0]) not in ACCURATE:
            return y  # the requirement is dropped: a complex cube root is read as several ops
        tolerances = {name: float(fields.get(name, 0)) for name in ("atol", "rtol")}
        op = ResultAccuracy(made[0], mode, ulps=int(fields.get("ulps", 0)), **tolerances)
        if mode == "TOLERANCE":
            _require_met(operation.name, op, r.spec(y).dtype)
        return r.apply_one(Extension(op), *operands)

    return read_accurately


def _require_met(name: str, op: ResultAccuracy, dtype: DType) -> None:
    """Require that the error of native execution is at most the tolerance; both are in units in the last place.

    Raises:
        UnsupportedError: the error may exceed the tolerance, or is unknown.
    """
    if dtype.is_complex:
        raise UnsupportedError(
            f"{name}: result_accuracy of {dtype}: native errors of complex functions are not tabulated; take the mode HIGHEST"
        )
    function = ACCURATE[type(op.function)]
    error = function.error(dtype)
    unit = float(ml_dtypes.finfo(dtype.dtype).eps)
    allowed = op.ulps + op.rtol / unit + (op.atol / unit if function.is_bounded else 0)  # fmt: skip
    if error > allowed:
        raise UnsupportedError(
            f"{name}: result_accuracy asks for {allowed:.3g} units in the last place of {dtype}, and the native function is up to "
            f"{error:g} off (docs/accuracy.md); take the mode HIGHEST, or a wider dtype"
        )
