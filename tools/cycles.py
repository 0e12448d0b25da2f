"""List the import cycles of the packages; the exit status is 1 if there are any: `python tools/cycles.py`.

Imports inside functions count, because a late import hides a cycle without removing it. Imports under TYPE_CHECKING
do not count, because they never run. The implicit import of a module's package does not count either.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import grimp

PACKAGES = ("tenferro", "lowering", "xla_peer")


def main() -> int:
    """Print the import cycles of the packages; return 1 if there are any."""
    # grimp searches for the packages in the folders of `sys.path`.
    sys.path.insert(0, str(Path(__file__).parent.parent))
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    imports = {
        module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)
    }
    import_cycles = list(cycles(imports))
    for cycle in import_cycles:
        lines = [
            f"{a}:{graph.get_import_details(importer=a, imported=b)[0]['line_number']}"
            for a, b in itertools.pairwise(cycle)
        ]
        print(" -> ".join([*lines, cycle[-1]]))
    return 1 if import_cycles else 0


def cycles(imports: Mapping[str, Collection[str]]) -> Iterator[tuple[str, ...]]:
    """Yield shortest import cycles that share no module.

    Every group of modules that import each other contains at least one of the cycles.

    >>> list(cycles({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["a"]}))
    [('b', 'c', 'b')]
    """
    left = {module: set(imported) for module, imported in imports.items()}
    while left:
        # Remove modules that import no remaining module: they are in no cycle. Every remaining module is in a cycle,
        # or imports one, directly or not.
        ends = [module for module, imported in left.items() if not imported & left.keys()]
        for module in ends:
            del left[module]
        if ends or not left:
            continue
        cycle = min(filter(None, (_shortest(left, module) for module in left)), key=len)
        yield cycle
        for module in cycle[1:]:
            del left[module]


def _shortest(imports: Mapping[str, Collection[str]], start: str) -> tuple[str, ...]:
    """Return a shortest path of imports from `start` back to itself, by breadth-first search.

    The path is empty if `start` is in no cycle.
    """
    ways = [(start,)]
    seen: set[str] = set()
    for way in ways:
        for module in sorted(imports.get(way[-1], ())):
            if module == start:
                return (*way, start)
            if module not in seen and module in imports:
                seen.add(module)
                ways.append((*way, module))
    return ()


if __name__ == "__main__":
    raise SystemExit(main())
