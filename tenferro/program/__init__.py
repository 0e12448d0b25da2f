"""Programs: the frozen form between graphs and executors."""

from tenferro.program.cache import BoundedCache, CacheStats, ExtensionCacheKey, ExtensionCaches
from tenferro.program.expand import expand_extensions, expansion_of
from tenferro.program.native import Executor, install_native_executor, native_executor
from tenferro.program.program import GraphProgram, Instruction, LoweringView

__all__ = [
    "BoundedCache",
    "CacheStats",
    "Executor",
    "ExtensionCacheKey",
    "ExtensionCaches",
    "GraphProgram",
    "Instruction",
    "LoweringView",
    "expand_extensions",
    "expansion_of",
    "install_native_executor",
    "native_executor",
]
