"""Drawings of programs as boxes and arrows, for Graphviz and for web browsers."""

from tenferro.program.drawing.dot import to_dot
from tenferro.program.drawing.page import to_html

__all__ = ["to_dot", "to_html"]
