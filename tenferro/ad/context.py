"""`AdContext`: who owns the rules and the cache of a family of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from tenferro.ad.extension_rule import ExtensionRuleSet
from tenferro.ad.graph_emitter import GraphEmitter
from tenferro.ad.rule import AdRule
from tenferro.ad.rules import AD_RULES
from tenferro.graph import Graph
from tenferro.program import BoundedCache, CacheStats, ExtensionCaches

__all__ = ["AdContext", "install_default_rule_sets"]


class AdContext:
    """Derivative rules, and a bounded cache of the programs that transforms make.

    A transform called on arrays traces its function each time and looks up the derivative program by
    the structure of the trace; arrays are arguments of it, so that none is retained.

    Args:
        rule_sets: derivative rules of extension families, beside those that come with the package.
        replacing: rules that take the place of others of their families.
        cache_size: how many derivative programs are kept, least recently used dropped first.

    Attributes:
        extension_caches: the plans that extensions make while a function is traced for a transform.

    >>> import numpy as np, tenferro as tnf
    >>> context = AdContext()
    >>> square = tnf.grad(lambda x: x * x, context=context)
    >>> square(3.0), square(4.0)
    (array(6.), array(8.))
    >>> context.cache_stats().hits
    1
    """

    def __init__(
        self,
        *rule_sets: ExtensionRuleSet,
        replacing: ExtensionRuleSet | None = None,
        cache_size: int = 256,
    ) -> None:
        self._rule_sets = rule_sets
        self._replacing = dict(replacing or {})
        self._programs: BoundedCache[Any] = BoundedCache(cache_size)
        self.extension_caches = ExtensionCaches()
        if rule_sets:
            len(self.extension_rules)  # because two rules of one family are an error now, not later

    def __repr__(self) -> str:
        families = len(self.extension_rules)
        return f"<AdContext: rules of {families} families, {len(self._programs)} programs>"

    @cached_property
    def extension_rules(self) -> ExtensionRuleSet:
        """The rules of extension families; those of the package are loaded when first asked for."""
        known = [
            rule for rules in (*default_rule_sets(), *self._rule_sets) for rule in rules.values()
        ]
        kept = [rule for rule in known if rule.family_id not in self._replacing]
        return ExtensionRuleSet([*kept, *self._replacing.values()])

    def emitter(self, graph: Graph) -> GraphEmitter:
        """What differentiates in that graph, by this context's rules."""
        return GraphEmitter(graph, self.rules, lambda: self.extension_rules)

    @property
    def rules(self) -> Mapping[Any, AdRule]:
        """The AD column."""
        return AD_RULES.cells

    def program(self, key: Any, make: Any) -> Any:
        """The program of this key, made now unless it is kept; a key of None is not kept."""
        return make() if key is None else self._programs.get(key, make)

    def cache_stats(self) -> CacheStats:
        """What the cache of derivative programs has done."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Forget every derivative program."""
        self._programs.clear()


_default_rule_sets: list[Callable[[], Iterable[ExtensionRuleSet]]] = []


def install_default_rule_sets(make: Callable[[], Iterable[ExtensionRuleSet]]) -> None:
    """What every new context has; the package's top floor says so on import."""
    _default_rule_sets[:] = [make]


def default_rule_sets() -> list[ExtensionRuleSet]:
    """The rules of the families that come with the package."""
    return [rules for make in _default_rule_sets for rules in make()]
