"""The graph: where programs are written down before they are compiled."""

from tenferro.graph.builder import ArgumentBuilder, BodyBuilder, GraphBuilder
from tenferro.graph.graph import Graph, Node
from tenferro.graph.mark import Alias, Mark, Opaque, StopGradient
from tenferro.graph.source_line import SourceLine, line_of

__all__ = [
    "Alias",
    "ArgumentBuilder",
    "BodyBuilder",
    "Graph",
    "GraphBuilder",
    "Mark",
    "Node",
    "Opaque",
    "SourceLine",
    "StopGradient",
    "line_of",
]
