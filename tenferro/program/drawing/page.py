"""A program as a self-contained HTML page."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenferro.program.drawing.picture import Box, boxes_of
from tenferro.program.tape import tapes_of

if TYPE_CHECKING:
    from tenferro.program.profile import InstructionProfile
    from tenferro.program.program import GraphProgram

__all__ = ["as_frame", "to_html"]

MOST_INSIDE = 40
"""Maximum number of lines that are shown for the body of a loop when the mouse is over the loop."""


def to_html(program: GraphProgram, rows: Sequence[InstructionProfile] | None = None) -> str:
    """Return an HTML page that draws the ops of a program and the types of their outputs.

    Consecutive ops from one source line or function are collapsed into one box. Details of a box are shown when the
    mouse is over it.

    Args:
        rows: the instructions of a profile of the program, whose times are shown. Instructions inside a loop follow the
            loop.
    """
    inside = _inside(program) if rows is None else _inside_of_rows(rows)
    tapes = {number: tape.lines() for number, tape in tapes_of(program).items()}
    inside |= {number: [*lines, *inside.get(number, [])] for number, lines in tapes.items()}
    outermost = None if rows is None else [row for row in rows if not row.depth]
    data = {
        "name": program.name,
        "boxes": [_described(box, outermost, inside) for box in boxes_of(program)],
        "live": [row.live_bytes for row in outermost or []],
        "ops": [instruction.op.name for instruction in program.instructions],
        "timed": rows is not None,
    }
    # The text "</script>" inside a string would end the script, so each "<" is escaped.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = Path(__file__).with_name("page.html").read_text("utf-8")
    return page.replace("TITLE", html.escape(program.name)).replace("DATA", text)


def as_frame(page: str, height: int = 560) -> str:
    """Return HTML that embeds `page` in another page, such as a notebook."""
    style = f"width:100%;height:{height}px;border:1px solid #d0d7de;border-radius:6px"
    return f'<iframe style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _described(
    box: Box, rows: Sequence[InstructionProfile] | None, inside: dict[int, list[str]]
) -> dict[str, Any]:
    source, index = box.source, box.instruction
    row = None if rows is None or index is None else rows[index]
    return {
        "kind": box.kind,
        "name": box.name,
        "detail": box.detail if len(box.detail) < 400 else box.detail[:400] + " ..",
        "gives": box.gives,
        "takes": box.takes,
        "file": source.file.rpartition("/")[2] if source else "",
        "line": source.line if source else 0,
        "function": source.function if source else "",
        "of": source.derivative_of if source else "",
        "seconds": None if row is None else row.seconds,
        "bytes": None if row is None else row.made_bytes,
        "inside": [] if index is None else inside.get(index, [])[:MOST_INSIDE],
    }


def _inside(program: GraphProgram) -> dict[int, list[str]]:
    """Return lines of text that describe the ops in the bodies of each loop or conditional.

    The keys are the positions of the loops and conditionals in the program.
    """
    inside: dict[int, list[str]] = {}
    for number, instruction in enumerate(program.instructions):
        waiting = [(1, step) for step in reversed(_steps_inside(instruction.op))]
        while waiting:
            depth, (op, types) = waiting.pop()
            inside.setdefault(number, []).append(f"{'  ' * depth}{op} -> {types}")
            waiting += [(depth + 1, step) for step in reversed(_steps_inside(op))]
    return inside


def _steps_inside(op: Any) -> list[tuple[Any, str]]:
    """Return the ops in the bodies of `op`, each with the types of its outputs. `op` need not be a loop."""
    return [
        (step.op, ", ".join([str(part.program.types[slot]) for slot in step.outputs]))
        for part in op.parts
        for step in part.program.instructions
    ]


def _inside_of_rows(rows: Sequence[InstructionProfile]) -> dict[int, list[str]]:
    """Return lines of text that describe the ops in the bodies of loops, with their times, from a profile's rows."""
    inside: dict[int, list[str]] = {}
    number = -1
    for row in rows:
        number += not row.depth
        if row.depth:
            text = f"{'  ' * row.depth}{row.op} -> {row.types}: {1e6 * row.seconds:.1f} us in {row.executions} executions"
            inside.setdefault(number, []).append(text)
    return inside
