"""`AdContext`: derivative rules of extensions, and a cache of derivative programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenferro.ad.extension_rule import ExtensionRuleSet
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.rule import AdRule
from tenferro.ad.rules import AD_RULES
from tenferro.graph import Graph
from tenferro.program import BoundedCache, CacheStats, ExtensionCaches

__all__ = ["AdContext"]

INSTRUCTION_BYTES = 400
"""Estimated size of one instruction of a derivative program, in bytes."""


class AdContext:
    """Derivative rules of extensions, and a bounded cache of derivative programs.

    `tenferro.grad` and similar transforms trace a function each time that they are called on arrays. The structure of
    the trace is the key under which the derivative program is cached. The arrays are arguments of the program, so the
    cache does not keep them alive.

    Args:
        rule_sets: derivative rules by extension family. A rule replaces the rule that the family itself defines.
        cache_size: the maximum number of cached derivative programs; the least recently used is dropped first.
        cache_bytes: the maximum total size of cached programs, estimated from constants and instructions. The
            latest program is always cached, however large it is.

    Raises:
        DuplicateFamilyError: a family has two rules.

    Attributes:
        extension_rules: the rules of `rule_sets`, by family.
        extension_caches: caches for the plans that extensions create while a transform traces a function.

    >>> import numpy as np, tenferro as tnf
    >>> context = AdContext()
    >>> square = tnf.grad(lambda x: x * x, context=context)
    >>> square(3.0), square(4.0)
    (array(6.), array(8.))
    >>> context.cache_stats().hits
    1
    """

    def __init__(
        self, *rule_sets: ExtensionRuleSet, cache_size: int = 256, cache_bytes: int = 1 << 30
    ) -> None:
        self.extension_rules = ExtensionRuleSet([r for rules in rule_sets for r in rules.values()])
        self._programs: BoundedCache[Any] = BoundedCache(cache_size, cache_bytes, _bytes_of)
        self.extension_caches = ExtensionCaches(cache_size, owner=self)

    def __repr__(self) -> str:
        families = len(self.extension_rules)
        return f"<AdContext: rules of {families} families, {len(self._programs)} programs>"

    def emitter(self, graph: Graph) -> GraphEmitter:
        """Return an emitter for a graph, with this context's rules."""
        return GraphEmitter(graph, self.rules, self.extension_rules)

    @property
    def rules(self) -> Mapping[Any, AdRule]:
        """The derivative rules of the standard ops, by op class."""
        return AD_RULES.cells

    def program(self, key: Any, make: Any) -> Any:
        """Return the cached program for `key`. If there is none, call `make`, and cache the program that it returns.

        If `key` is None, the program is created and not cached.
        """
        return make() if key is None else self._programs.get(key, make)

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses, evictions and total bytes of the cache of derivative programs."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Remove all derivative programs from the cache, and all plans of extensions."""
        self._programs.clear()
        self.extension_caches.clear()


def _bytes_of(entry: Any) -> int:
    """Estimate the size in bytes of a cache entry: a program, or an object with an attribute `program`."""
    program = getattr(entry, "program", entry)
    return program.constant_bytes + INSTRUCTION_BYTES * len(program.instructions)
