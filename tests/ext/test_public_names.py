"""Extension packages must import only public modules and names of tenferro. This includes tenferro's own extensions."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PUBLIC = (
    "tenferro",
    "tenferro.dims",
    "tenferro.errors",
    "tenferro.extension",
    "tenferro.extension.algebra",
    "tenferro.extension.ops",
    "tenferro.extension.fields",
    "tenferro.types",
)
FOR_BACKENDS = ("tenferro.exec.backend", "tenferro.ops")
"""Modules that backends may import in addition: the interface for backends, and the ops."""
FOR_DEVICES = ("tenferro.ad", "tenferro.program")
"""Additional modules that a simulation of devices, as a batch of one device's program, may import.
"""
FILES = sorted([*(ROOT / "tenferro/ext").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
FILES = [
    path for path in FILES if "torch_backend/tests" not in str(path)
]  # because these tests replace NumPy's kernels


def imported(path: Path) -> list[tuple[str, str]]:
    """Return the module and the name for each import from tenferro in a file."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "tenferro"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_are_imported(path: Path) -> None:
    own = "tenferro.ext" if path.is_relative_to(ROOT / "tenferro/ext") else "none of tenferro's"
    for module, name in imported(path):
        if module.startswith(own):
            continue
        if "tenferro_torch" in path.parts and module.startswith(FOR_BACKENDS):
            continue
        if path.parent.name == "collectives" and module in FOR_DEVICES:
            continue
        assert module in PUBLIC, f"{path.name} imports {module}"
        found = importlib.import_module(module)
        names = getattr(found, "__all__", [name for name in dir(found) if name[0] != "_"])
        assert not name or name in names, f"{path.name} imports {module}.{name}"


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 15
    assert any(imported(path) for path in FILES)
