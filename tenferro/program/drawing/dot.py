"""A program in DOT, the language of Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenferro.program.drawing.picture import Box, boxes_of

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram

__all__ = ["to_dot"]

FILLS = {"input": "#dbeafe", "op": "#f8fafc", "output": "#dcfce7"}


def to_dot(program: GraphProgram) -> str:
    r"""Return a program in DOT, with one node per input, op and output. The command `dot -Tsvg` draws it.

    >>> import tenferro as tnf
    >>> print(to_dot(tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "f8"))))  # doctest: +ELLIPSIS
    digraph "<lambda>" {
      node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];
      n0 [label="x\nf64[2]", fillcolor="#dbeafe"];
      n1 [label="Add\nf64[2]", fillcolor="#f8fafc", tooltip="Add ..."];
      n2 [label="result\nf64[2]", fillcolor="#dcfce7"];
      n0 -> n1;
      n0 -> n1;
      n1 -> n2;
    }
    """
    boxes = boxes_of(program)
    lines = [
        f"digraph {_quoted(program.name)} {{",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
    ]
    lines += [f"  n{index} [{_attributes(box)}];" for index, box in enumerate(boxes)]
    lines += [
        f"  n{source} -> n{index};" for index, box in enumerate(boxes) for source in box.takes
    ]
    return "\n".join([*lines, "}"])


def _attributes(box: Box) -> str:
    label = "\\n".join([_escaped(text) for text in (box.name, *box.gives)])
    attributes = f'label="{label}", fillcolor="{FILLS[box.kind]}"'
    if box.kind != "op":
        return attributes
    told = [box.detail, *([str(box.source)] if box.source else [])]
    return f'{attributes}, tooltip="{_escaped(" at ".join(told))}"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
