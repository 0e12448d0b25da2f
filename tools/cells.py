"""List the ops that lack an implementation in a table (a cell in a column), and the files in which to write it.

    python tools/cells.py           checks this tree
    python tools/cells.py FOLDER    checks another checkout

The tool reads the sources, so it also works while a missing cell prevents the package from being imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

CARDS = "tenferro/ops"
COLUMNS = {
    "kernel": "tenferro/exec/kernels",
    "compiled form": "tenferro/exec/llvm",
    "derivative rule": "tenferro/ad/rules",
    "emitter": "lowering/emit",
    "numpy source": "lowering/numpy_source",
    "ONNX node": "xla_peer/onnx/emit",
    "sample": "tests/samples",
    "row of facts": "tenferro/facts.py",
    "cost": "tenferro/costs.py",
    "sparsity": "tenferro/sparsity/reads.py",
    "definition": "tenferro/definitions.py",
    "rounding": "xla_peer/parity/rounding.py",
    "ball rule": "xla_peer/parity/balls",
    "proposal of the fuzzer": "xla_peer/fuzz/proposals.py",
}
WITHOUT_DEFAULTS = {"kernel", "definition", "numpy source"}
"""Columns that import `CARDS` only to list the ops.

In other columns, an import of `CARDS` gives each of its ops a cell.
"""
WITH_UFUNCS = {"kernel", "numpy source"}
"""Columns in which an op has a cell if its card names a NumPy function.

The column then uses this function, and need not name the op.
"""
OF_FAMILIES = {
    "definition": {"analytic"},
    "sparsity": {
        "analytic",
        "contraction",
        "dynamic",
        "elementwise",
        "indexing",
        "reduction",
        "source",
        "structural",
    },
}
"""Columns with cells for some families of ops only. The families are named after the files of `tenferro/ops`."""
SURFACE = ("tenferro/api", "tenferro/lax")
NO_FAMILIES = {"__init__", "column", "op", "extension"}
NO_FUNCTION = {
    "Constant": "an array is one",
    "OptimizationBarrier": "comes from StableHLO alone",
    "GatherDynamicSliceSizes": "comes from StableHLO alone",
    "RoundNearestAfz": "comes from StableHLO alone",
}
"""Ops without a public function, each with the reason."""


def main() -> int:
    """Print the missing cells; return 1 if there are any."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    lines = list(gaps(root))
    for line in lines:
        print(line)
    return 1 if lines else 0


def gaps(root: Path) -> Iterator[str]:
    """Yield a line for each op that lacks cells, with its name, the columns, and the files of the columns."""
    names = {place: _names_in(root / place) for place in (*COLUMNS.values(), *SURFACE)}
    surface = set[str]().union(*[known for place in SURFACE for known in names[place].values()])
    for path in sorted((root / CARDS).glob("*.py")):
        if path.stem in NO_FAMILIES:
            continue
        tree = ast.parse(path.read_text())
        listed, ufuncs = _listed(tree), set(_with_ufuncs(tree))
        for card in _cards(tree):
            missing = [] if card in listed else [f"not in CARDS of {CARDS}/{path.name}"]
            for column, place in COLUMNS.items():
                if path.stem not in OF_FAMILIES.get(column, {path.stem}):
                    continue
                file = Path(place if place.endswith(".py") else f"{place}/{path.name}")
                known = names[place].get(file.stem, set())
                if column in WITHOUT_DEFAULTS:
                    known = known - {f"{path.stem}.CARDS"}
                if column in WITH_UFUNCS:
                    known = known | ufuncs
                if known.isdisjoint({card, f"{path.stem}.CARDS"}):
                    missing.append(f"no {column}: {file}")
            if card not in surface and card not in NO_FUNCTION:
                missing.append(f"no public function: {' or '.join(SURFACE)}")
            if missing:
                yield f"{card}\n  " + "\n  ".join(missing)


def _cards(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the classes whose docstring states a derivative (`AD:`).

    Base classes of ops do not state one.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "AD:" in (ast.get_docstring(node) or ""):
            yield node.name


def _with_ufuncs(tree: ast.Module) -> Iterator[str]:
    """Yield the ops whose class has an attribute `ufunc`, the name of the NumPy function that serves as kernel."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "ufunc" in {
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }:
            yield node.name


def _listed(tree: ast.Module) -> set[str]:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "CARDS":
            return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return set()


def _names_in(place: Path) -> dict[str, set[str]]:
    """Return the names that each file uses outside of imports.

    Here `an.CARDS`, the list of all ops of a family, counts as the name of the family's module `an`.
    """
    files = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
    return {path.stem: set(_names(ast.parse(path.read_text()))) for path in files}


def _names(tree: ast.Module) -> Iterator[str]:
    families = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tenferro.ops"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
            if isinstance(node.value, ast.Name) and node.attr == "CARDS":
                yield f"{families.get(node.value.id, node.value.id)}.CARDS"


if __name__ == "__main__":
    raise SystemExit(main())
