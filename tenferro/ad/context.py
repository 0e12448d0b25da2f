"""`AdContext`: the rules and the program cache of a family of transforms."""

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
    """Derivative rules, and a bounded cache of the programs that transforms create.

    A transform that is called on arrays traces its function each time, and looks the derivative program up by the
    structure of the trace. The program takes the arrays as arguments, so that the cache retains no array.

    Args:
        rule_sets: derivative rules of extension families, which replace the families' own.
        cache_size: the maximum number of cached derivative programs; the least recently used is dropped first.
        cache_bytes: the maximum total size of cached programs, estimated from constants and instructions. The
            latest program is always cached, however large it is.

    Raises:
        DuplicateFamilyError: a family has two rules.

    Attributes:
        extension_rules: the rules of `rule_sets`, by family.
        extension_caches: the plans that extensions create while a function is traced for a transform.

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
        """The derivative rules of ops."""
        return AD_RULES.cells

    def program(self, key: Any, make: Any) -> Any:
        """Return the cached program for `key`, or create and cache it with `make`.

        If `key` is None, the program is created and not cached.
        """
        return make() if key is None else self._programs.get(key, make)

    def cache_stats(self) -> CacheStats:
        """Return hits, misses, evictions and bytes of the cache of derivative programs."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Drop every derivative program, and every plan of extensions."""
        self._programs.clear()
        self.extension_caches.clear()


def _bytes_of(entry: Any) -> int:
    """Estimate the size in bytes of a cache entry: a program, or an object with an attribute `program`."""
    program = getattr(entry, "program", entry)
    return program.constant_bytes + INSTRUCTION_BYTES * len(program.instructions)
