"""Implementation of `tenferro inspect`: a program's text at every stage of compilation, its cost and memory."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tenferro as tnf
from tenferro.passes import NATIVE_PASSES
from tenferro.program import GraphProgram
from tenferro.program.drawing.page import as_frame
from tenferro.program.profile import shown_bytes
from xla_peer.executor import XlaExecutor

__all__ = ["Inspection", "PassResult", "inspect_program"]

STYLE = """body { font: 13px/1.45 system-ui, sans-serif; margin: 16px; color: #1f2328; background: #fff; }
h1 { font: 600 16px ui-monospace, monospace; } h2 { font-size: 13px; margin: 0 0 6px; }
.stages { display: flex; gap: 12px; } .stages > section { flex: 1; min-width: 0; }
pre { font: 11.5px/1.45 ui-monospace, monospace; background: #f6f8fa; border: 1px solid #d0d7de; border-radius: 6px;
  padding: 8px; margin: 0; overflow: auto; max-height: 62vh; }
table { border-collapse: collapse; margin: 10px 0 14px; } td, th { text-align: left; padding: 2px 16px 2px 0; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; } pre { background: #161b22; border-color: #30363d; } }
"""


@dataclass(frozen=True)
class PassResult:
    """The name of a native pass, and the number of instructions before and after it."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Inspection:
    """A program at every stage of compilation.

    Attributes:
        stages: the title and the text of each stage, from the traced program to XLA's optimised HLO.
        passes: the native passes, in order.
        cost: XLA's estimates of the cost, by XLA's names.
        memory: the memory of XLA's executable in bytes, by kind.
        native_peak: the maximum size of live arrays in a native run, in bytes.
        graph: the HTML page with the program's graph.
    """

    name: str
    stages: tuple[tuple[str, str], ...]
    passes: tuple[PassResult, ...]
    cost: dict[str, float]
    memory: dict[str, int]
    native_peak: int
    graph: str

    def to_dict(self) -> dict[str, Any]:
        """Convert the inspection to dicts, lists, numbers and strings, for JSON."""
        return {
            "name": self.name,
            "stages": dict(self.stages),
            "passes": [asdict(row) for row in self.passes],
            "cost": self.cost,
            "memory": self.memory,
            "native_peak_bytes": self.native_peak,
        }

    def facts(self) -> list[tuple[str, str]]:
        """Return the cost and the memory as pairs of a label and a formatted value."""
        counted = {"flops", "transcendentals", "bytes accessed"}
        rows = [(name, f"{value:.6g}") for name, value in self.cost.items() if name in counted]
        rows += [
            (f"{name.replace('_', ' ')} memory", shown_bytes(size))
            for name, size in self.memory.items()
        ]
        return [*rows, ("peak memory, native", shown_bytes(self.native_peak))]

    def to_html(self) -> str:
        """Return a self-contained page that shows all stages side by side, and the graph below them."""
        stages = "".join(
            f"<section><h2>{html.escape(title)}</h2><pre>{html.escape(text)}</pre></section>"
            for title, text in self.stages
        )
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.facts()
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{html.escape(self.name)}</title><style>{STYLE}</style></head><body>"
            f"<h1>{html.escape(self.name)}</h1><div class=stages>{stages}</div>"
            f"<table>{rows}</table>{as_frame(self.graph, 640)}</body></html>"
        )


def inspect_program(
    program: GraphProgram, arguments: Sequence[Any], platform: str = "cpu"
) -> Inspection:
    """Compile a program for the given arguments, natively and with XLA, and return all stages.

    Raises:
        TenferroError: the program cannot be lowered or compiled.
    """
    leaves = program.check_arguments(tuple(arguments))
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    rows: list[PassResult] = []
    passed = static
    for rewrite in NATIVE_PASSES:
        before, passed = len(passed.instructions), rewrite(passed)
        name = getattr(rewrite, "__name__", type(rewrite).__name__)
        rows.append(PassResult(name, before, len(passed.instructions)))
    executable = XlaExecutor(platform).compile(static, *leaves)
    profile = program.profile(*arguments, runs=1)
    native = str(tnf.GraphExecutor().compile(program, *leaves))
    return Inspection(
        name=program.name,
        stages=(
            (f"program, {len(program.instructions)} ops", str(program)),
            (f"native instructions, {len(passed.instructions)}", native),
            ("StableHLO", executable.text),
            (f"HLO for {platform}, optimised", executable.optimized_hlo()),
        ),
        passes=tuple(rows),
        cost=executable.cost_analysis(),
        memory=executable.memory_analysis(),
        native_peak=profile.peak_bytes,
        graph=profile.to_html(),
    )
