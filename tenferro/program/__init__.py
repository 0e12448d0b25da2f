"""Programs: the frozen form between graphs and executors."""

from tenferro.graph import SourceLine
from tenferro.program.arguments import bind_symbols, check_arguments
from tenferro.program.builder import ProgramBuilder
from tenferro.program.cache import BoundedCache, CacheStats, ExtensionCacheKey, ExtensionCaches
from tenferro.program.expand import expand_extensions, expansion_of
from tenferro.program.hoist import hoist_constants
from tenferro.program.native import Executor, install_native_executor, native_executor
from tenferro.program.program import GraphProgram, Instruction, LoweringView
from tenferro.program.subprogram import Subprogram, require_depth

__all__ = [
    "BoundedCache",
    "CacheStats",
    "Executor",
    "ExtensionCacheKey",
    "ExtensionCaches",
    "GraphProgram",
    "ProgramBuilder",
    "Subprogram",
    "SourceLine",
    "Instruction",
    "LoweringView",
    "bind_symbols",
    "check_arguments",
    "expand_extensions",
    "expansion_of",
    "hoist_constants",
    "install_native_executor",
    "native_executor",
    "require_depth",
]
