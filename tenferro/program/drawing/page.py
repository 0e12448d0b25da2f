"""A program as a page for a browser: complete in itself, nothing is fetched."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenferro.program.drawing.picture import Box, boxes_of

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["as_frame", "to_html"]


def to_html(
    program: GraphProgram,
    seconds: Sequence[float] | None = None,
    made_bytes: Sequence[int] | None = None,
    live_bytes: Sequence[int] | None = None,
) -> str:
    """The graph with types, runs of ops of one line or function folded, and what hovering tells.

    Args:
        seconds, made_bytes, live_bytes: of each instruction, from a profile.
    """
    data = {
        "name": program.name,
        "boxes": [_described(box, seconds, made_bytes) for box in boxes_of(program)],
        "live": list(live_bytes or []),
        "ops": [instruction.op.name for instruction in program.instructions],
        "timed": seconds is not None,
    }
    # A closing tag inside a string would end the script.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    page = Path(__file__).with_name("page.html").read_text("utf-8")
    return page.replace("TITLE", html.escape(program.name)).replace("DATA", text)


def as_frame(page: str, height: int = 560) -> str:
    """The page inside another, as notebooks need it."""
    style = f"width:100%;height:{height}px;border:1px solid #d0d7de;border-radius:6px"
    return f'<iframe style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _described(
    box: Box, seconds: Sequence[float] | None, made_bytes: Sequence[int] | None
) -> dict[str, Any]:
    source, index = box.source, box.instruction
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
        "seconds": None if seconds is None or index is None else seconds[index],
        "bytes": None if made_bytes is None or index is None else made_bytes[index],
    }
