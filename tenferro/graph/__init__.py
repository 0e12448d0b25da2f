"""The graph to which traces, derivatives and batches append instructions; programs are made from it."""

from tenferro.graph.builder import ArgumentBuilder, BodyBuilder, GraphBuilder
from tenferro.graph.graph import Graph
from tenferro.graph.instruction import Instruction
from tenferro.graph.mark import Alias, Mark, Opaque, StopGradient
from tenferro.graph.source_line import SourceLine, line_of
from tenferro.graph.value import Value

__all__ = [
    "Alias",
    "ArgumentBuilder",
    "BodyBuilder",
    "Graph",
    "GraphBuilder",
    "Instruction",
    "Mark",
    "Opaque",
    "SourceLine",
    "StopGradient",
    "Value",
    "line_of",
]
