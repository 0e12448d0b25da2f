"""The graph: where programs are written down before they are compiled."""

from tenferro.graph.builder import GraphBuilder
from tenferro.graph.graph import Graph, Node
from tenferro.graph.source_line import SourceLine, line_of

__all__ = ["Graph", "GraphBuilder", "Node", "SourceLine", "line_of"]
