"""Programs: immutable lists of instructions. They are built from graphs, and executors run them."""

from tenferro.graph import Instruction, SourceLine
from tenferro.program.arguments import (
    as_extents,
    bind_symbols,
    check_arguments,
    extents_spec,
    is_extents,
)
from tenferro.program.bits import note_bits
from tenferro.program.builder import ProgramBuilder
from tenferro.program.cache import BoundedCache, CacheStats, ExtensionCacheKey, ExtensionCaches
from tenferro.program.capability import Capability, capabilities, install_platforms
from tenferro.program.expand import expand_extensions, expansion_of
from tenferro.program.families import (
    ExtensionFactory,
    Family,
    OpFactory,
    factory_of,
    family_count,
    family_of,
    install_default_families,
    lookup_extension_factory,
    register_extension,
    registered_families,
    registered_family,
)
from tenferro.program.hoist import hoist_constants
from tenferro.program.instructions import (
    copy_into,
    dependents,
    last_uses,
    makers,
    needed,
    pruned,
    readers,
    renumber,
)
from tenferro.program.native import (
    Executor,
    install_native_executor,
    native_executor,
    new_native_executor,
)
from tenferro.program.program import GraphProgram
from tenferro.program.prune_outputs import prune_outputs
from tenferro.program.runtimes import ExtensionRuntime, HostReferenceRuntime, Routine
from tenferro.program.subprogram import KeptMark, Subprogram, require_depth

__all__ = [
    "BoundedCache",
    "CacheStats",
    "Capability",
    "Executor",
    "ExtensionCacheKey",
    "ExtensionCaches",
    "ExtensionFactory",
    "ExtensionRuntime",
    "Family",
    "GraphProgram",
    "HostReferenceRuntime",
    "Instruction",
    "KeptMark",
    "OpFactory",
    "ProgramBuilder",
    "Routine",
    "SourceLine",
    "Subprogram",
    "as_extents",
    "bind_symbols",
    "capabilities",
    "check_arguments",
    "copy_into",
    "dependents",
    "expand_extensions",
    "expansion_of",
    "extents_spec",
    "factory_of",
    "family_count",
    "family_of",
    "hoist_constants",
    "install_default_families",
    "install_native_executor",
    "install_platforms",
    "is_extents",
    "last_uses",
    "lookup_extension_factory",
    "makers",
    "native_executor",
    "needed",
    "new_native_executor",
    "note_bits",
    "prune_outputs",
    "pruned",
    "readers",
    "register_extension",
    "registered_families",
    "registered_family",
    "renumber",
    "require_depth",
]
