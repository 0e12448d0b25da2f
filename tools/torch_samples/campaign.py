"""Campaign that runs PyTorch's samples for every row of the table.

It records the outcomes, one line for each row and dtype.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tools.torch_samples.adapted import NotMappedError
from tools.torch_samples.differences import difference_of
from tools.torch_samples.row import Row
from tools.torch_samples.samples import trials_of
from tools.torch_samples.table import ROWS
from tools.torch_samples.trial import CHECKS, Trial

__all__ = ["Campaign", "outcomes_of", "record_of", "units"]

OPERATORS = {(operator.name, operator.variant_test_name): operator for operator in op_db}
DTYPES = (torch.float64, torch.float32, torch.complex128, torch.complex64)
WHOLE = (torch.int64, torch.bool)
Unit = tuple[str, Row, Any]


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def units(only: list[str] | None = None) -> Iterator[Unit]:
    """Yield the units of work, each a function, a row of the table, and a dtype.

    The dtypes are all inexact dtypes that the operator supports, and one integer dtype.
    """
    for function, rows in ROWS.items():
        if only and function not in only:
            continue
        for row in rows:
            operator = OPERATORS[row.torch, row.variant]
            dtypes = [dtype for dtype in DTYPES if operator.supports_dtype(dtype, "cpu")]
            whole = [dtype for dtype in WHOLE if operator.supports_dtype(dtype, "cpu")][:1]
            yield from [(function, row, dtype) for dtype in dtypes or whole]


def checks_of(trial: Trial) -> tuple[str, ...]:
    """Return the checks for which PyTorch computes a reference.

    Some of value, JVP, VJP and two second derivatives are absent if the operator is not differentiable, or only once.
    """
    first = CHECKS[1:3] if trial.has_second else CHECKS[2:3]
    return (CHECKS[0], *first * trial.has_gradient, *CHECKS[3:] * trial.has_second)


def refusal(error: Exception) -> str:
    """Return the outcome of a call that raised `error`: a text with the reason."""
    if isinstance(error, NotMappedError):
        return f"not mapped: {error}"
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def natively(trial: Trial, checks: tuple[str, ...]) -> Iterator[Any]:
    """Run each check natively; yield its outputs, or the error that it raises."""
    for check in checks:
        try:
            yield trial.computed(check, trial.arrays, trial.tangents)
        except Exception as error:
            yield error


def through_pjrt(trial: Trial, checks: tuple[str, ...], executor: Any) -> Iterator[Any]:
    """Run one program that computes all checks through PJRT, and yield the outputs of each.

    If the program fails, its error is yielded for every check.
    """
    try:
        yield from trial.on_peer(executor, checks)
    except Exception as error:
        yield from [error] * len(checks)


def judgement(trial: Trial, check: str, outputs: Any) -> str:
    """Return the outcome of a check: `agree`, `undecided`, `not mapped: ..`, how an output differs, or an error."""
    if isinstance(outputs, Exception):
        return refusal(outputs)
    try:
        return trial.judged(check, outputs)
    except RuntimeError as error:
        return f"PyTorch: {str(error).partition(chr(10))[0]}"


def outcomes_of(unit: Unit, count: int, executor: Any = None) -> Iterator[tuple[int, str, str]]:
    """Yield, for each trial and each of its checks, the number of the sample, the check, and the outcome."""
    function, row, dtype = unit
    operator = OPERATORS[row.torch, row.variant]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for trial in trials_of(row, function, operator, dtype, count):
            checks = checks_of(trial)
            results = natively(trial, checks) if executor is None else through_pjrt(trial, checks, executor)  # fmt: skip
            for check, outputs in zip(checks, results, strict=False):
                outcome = judgement(trial, check, outputs)
                yield trial.seed, check, outcome
                if outcome.startswith("not mapped"):
                    break


def record_of(unit: Unit, count: int, executor: Any = None) -> dict[str, Any]:
    """Run a unit and return its record.

    The record has the number of samples, the counts of outcomes, and each outcome that no entry explains.
    """
    function, row, dtype = unit
    counts: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    unmapped: Counter[str] = Counter()
    failures: list[str] = []
    samples = set()
    for sample, check, outcome in outcomes_of(unit, count, executor):
        if outcome.startswith("not mapped: "):
            unmapped[outcome.removeprefix("not mapped: ")] += 1
            continue
        samples.add(sample)
        difference = difference_of(function, check, name_of(dtype), outcome)
        if outcome in ("agree", "undecided"):
            counts[outcome] += 1
        elif difference:
            counts["differ"] += 1
            explained[difference] += 1
        else:
            failures.append(f"sample {sample}, {check}: {outcome}")
    return {
        "function": function,
        "torch": row.torch,
        "variant": row.variant,
        "dtype": name_of(dtype),
        "executor": "native" if executor is None else "PJRT",
        "count": count,
        "samples": len(samples),
        **counts,
        "explained": explained,
        "unmapped": unmapped,
        "failures": failures,
    }


class Campaign:
    """Records of units in a file. The method `run` skips units that have a record."""

    def __init__(self, file: Path, count: int) -> None:
        self.file, self.count = file, count

    def key(self, record: dict[str, Any]) -> tuple[Any, ...]:
        """Return the values that identify the unit of a record."""
        return tuple(record[name] for name in ("function", "torch", "variant", "dtype", "executor", "count"))  # fmt: skip

    @property
    def records(self) -> list[dict[str, Any]]:
        """Last record of each unit. A line that an interrupted run truncated is skipped."""
        latest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            with suppress(json.JSONDecodeError):
                record = json.loads(line)
                latest[self.key(record)] = record
        return list(latest.values())

    def run(self, only: list[str] | None, executor: Any = None) -> Iterator[dict[str, Any]]:
        """Run and record the units that have no record. If `only` names functions, run all their units again."""
        done = {self.key(record) for record in self.records}
        name = "native" if executor is None else "PJRT"
        for unit in units(only):
            function, row, dtype = unit
            key = (function, row.torch, row.variant, name_of(dtype), name, self.count)
            if key in done and not only:
                continue
            record = record_of(unit, self.count, executor)
            with self.file.open("a") as file:
                file.write(json.dumps(record) + "\n")
            yield record
