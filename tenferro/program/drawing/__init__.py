"""Programs as pictures: boxes and arrows, for Graphviz and for a browser."""

from tenferro.program.drawing.dot import to_dot
from tenferro.program.drawing.page import to_html

__all__ = ["to_dot", "to_html"]
