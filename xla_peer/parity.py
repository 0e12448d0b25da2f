"""`check_parity`: do both paths agree?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec, flatten
from xla_peer.executor import XlaExecutor
from xla_peer.ulps import ulps_apart

__all__ = ["OutputParity", "ParityReport", "check_parity"]


@dataclass(frozen=True)
class OutputParity:
    """One output, native against PJRT."""

    name: str
    spec: TensorSpec
    max_ulps: float
    median_ulps: float
    worst: tuple[int, ...] | None
    native: Any
    xla: Any
    allowed: float

    @property
    def ok(self) -> bool:
        """Within the allowed distance everywhere."""
        return self.max_ulps <= self.allowed


@dataclass(frozen=True)
class ParityReport:
    """All outputs of one run on both paths; `print(report)` shows a table."""

    program: str
    platform: str
    outputs: tuple[OutputParity, ...]

    @property
    def ok(self) -> bool:
        """Every output agrees."""
        return all(output.ok for output in self.outputs)

    @property
    def first_divergence(self) -> OutputParity | None:
        """The first output that disagrees."""
        return next((output for output in self.outputs if not output.ok), None)

    def __str__(self) -> str:
        header = ("output", "type", "max ulps", "median", "allowed", "")
        rows = [
            (
                output.name,
                str(output.spec),
                f"{output.max_ulps:.3g}",
                f"{output.median_ulps:.3g}",
                f"{output.allowed:g}",
                "ok" if output.ok else f"at {output.worst}: {output.native!r} | {output.xla!r}",
            )
            for output in self.outputs
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        verdict = "agree" if self.ok else "DISAGREE"
        lines = [f"{self.program}: native and {self.platform} {verdict}"]
        for row in (header, *rows):
            lines.append(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                ).rstrip()
            )
        return "\n".join(lines)


def check_parity(
    fn_or_program: Callable[..., Any] | GraphProgram,
    *arrays: Any,
    executor: XlaExecutor | None = None,
    ulps: float = 64,
) -> ParityReport:
    """Run natively and through PJRT, and compare every element of every output.

    Args:
        fn_or_program: a function is traced on the arrays' shapes and dtypes.
        executor: where to run the other path; the CPU by default.
        ulps: how far floats may be apart; integers and bools must be equal.

    >>> report = check_parity(lambda x: x * 2, np.arange(3.0))
    >>> report.ok, report.outputs[0].max_ulps
    (True, 0.0)
    """
    program = (
        fn_or_program
        if isinstance(fn_or_program, GraphProgram)
        else tnf.compile(fn_or_program, *arrays)
    )
    peer = XlaExecutor() if executor is None else executor
    native, _ = flatten(program.run(*arrays))
    other, _ = flatten(peer.run(program, *arrays))
    outputs = tuple(
        _compare(name, np.asarray(a), np.asarray(b), ulps)
        for name, a, b in zip(program.output_names, native, other, strict=True)
    )
    return ParityReport(program.name, peer.platform, outputs)


def _compare(name: str, native: Any, xla: Any, ulps: float) -> OutputParity:
    apart = ulps_apart(xla, native)
    worst = np.unravel_index(int(np.argmax(apart)), apart.shape) if apart.size else None
    place = None if worst is None else tuple(map(int, worst))
    return OutputParity(
        name=name,
        spec=TensorSpec.of(native.shape, DType.of(native.dtype)),
        max_ulps=float(apart.max()) if apart.size else 0.0,
        median_ulps=float(np.median(apart)) if apart.size else 0.0,
        worst=place,
        native=native[worst] if worst is not None else None,
        xla=xla[worst] if worst is not None else None,
        allowed=ulps if native.dtype.kind not in "biu" else 0,
    )
