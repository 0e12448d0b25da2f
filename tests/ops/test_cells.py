"""Incomplete ops must raise errors that name the missing file.

The changes in docs/add_an_op.md must make a complete op.
"""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenferro.errors import MissingCellError
from tenferro.ops import STD_OPS, StdTensorOp
from tenferro.ops.column import require_listed

ROOT = Path(__file__).parents[2]
PACKAGES = ("tenferro", "lowering", "xla_peer", "tests/samples")
PAGE = (ROOT / "docs/add_an_op.md").read_text()
CHANGES = dict(re.findall(r"```diff\n\+\+\+ (\S+)\n(.*?)```", PAGE, re.DOTALL))
CARD = "tenferro/ops/analytic.py"
COLUMNS = {
    "kernel": "tenferro/exec/kernels/analytic.py",
    "derivative rule": "tenferro/ad/rules/analytic.py",
    "emitter": "lowering/emit/analytic.py",
    "numpy source": "lowering/numpy_source/analytic.py",
    "sample": "tests/samples/analytic.py",
    "row of facts": "tenferro/facts.py",
    "definition": "tenferro/definitions.py",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the folders that define ops to a temporary folder; return this folder."""
    unread = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in PACKAGES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unread)
    shutil.copy(ROOT / "tests/__init__.py", tmp_path / "tests/__init__.py")
    return tmp_path


def change(tree: Path, name: str) -> None:
    """Apply the changes that docs/add_an_op.md shows for a file to the copy of the file."""
    text = (tree / name).read_text()
    for hunk in CHANGES[name].split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        assert text.count(before) == 1, f"{name}: {before}"
        text = text.replace(before, "".join(line[1:] for line in lines if line[0] != "-"))
    (tree / name).write_text(text)


def run(tree: Path, *arguments: str) -> Any:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )


def cells(tree: Path) -> list[str]:
    return list(runpy.run_path(str(ROOT / "tools/cells.py"))["gaps"](tree))


def test_nothing_is_missing() -> None:
    assert cells(ROOT) == []


def test_a_column_names_its_own_file_or_folder() -> None:
    sources = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    calls = [
        (path.relative_to(ROOT), node.args[1].value)
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Column"
    ]
    assert len(calls) > 10
    for path, named in calls:
        assert named in {path.as_posix(), path.parent.as_posix()}


def test_every_gap_of_a_card_is_told_at_once(tree: Path) -> None:
    change(tree, CARD)
    path = tree / CARD
    path.write_text(path.read_text().replace('    ufunc: ClassVar[str] = "exp2"\n', ""))
    told = [f"no {column}: {file}" for column, file in COLUMNS.items()]
    told.append("no public function: tenferro/api or tenferro/lax")
    assert cells(tree) == ["\n  ".join(["Exp2", *told])]
    imported = run(tree, "-c", "import tenferro").stderr
    assert "Exp2; write it in tenferro/" in imported
    assert "tools/cells.py" in imported


def test_a_card_that_is_not_listed_is_told(tree: Path) -> None:
    change(tree, CARD)
    path = tree / CARD
    path.write_text(path.read_text().replace("    Exp,\n    Exp2,\n", "    Exp,\n"))
    assert cells(tree)[0].startswith(f"Exp2\n  not in CARDS of {CARD}\n")
    imported = run(tree, "-c", "import tenferro").stderr
    assert f"Exp2 is not an op yet; list it in CARDS of {CARD}" in imported


def test_a_card_without_special_values_is_told(tree: Path) -> None:
    for name in CHANGES:
        change(tree, name)
    path = tree / "tests/samples/analytic.py"
    path.write_text(re.sub(r"    ops\.Exp2: \{.*\},\n", "", path.read_text()))
    imported = run(tree, "-c", "import tests.samples").stderr
    assert "table SPECIAL has no row for Exp2; write it in tests/samples/analytic.py" in imported


ADDED = """
import numpy as np
import lowering, tenferro as tnf
from ml_dtypes import finfo
from tenferro.dispatch import apply
from tenferro.exec.llvm.control import COMPILED
from tenferro.ops.analytic import Exp2
from tests.samples import SAMPLES

x = np.array([0.0, 1.0, 2.0])
print(tnf.exp2(x), tnf.grad(lambda x: tnf.sum(tnf.exp2(x)))(x) / np.log(2))
print([step.op.name for step in tnf.compile(tnf.exp2, x).instructions], COMPILED[Exp2].reason)
for dtype in [dtype for dtype in tnf.DType if dtype in Exp2.accepts and not dtype.is_narrow]:
    module = lowering.lower_to_stablehlo(tnf.compile(tnf.exp2, x.astype(dtype.dtype)))
    module.verify()
    print(dtype, "stablehlo.power" in module.text)
for sample in SAMPLES[Exp2]:
    (y,), (expected,) = apply(sample.op, *sample.inputs), sample.expected
    np.testing.assert_allclose(y.astype("f8"), expected.astype("f8"), 2 * finfo(y.dtype).eps)
print(len(SAMPLES[Exp2]))
"""


PRINTED = """[1. 2. 4.] [1. 2. 4.]
['Exp2'] no scalar form is written
float16 True
bfloat16 True
float32 True
float64 True
8
"""
NUMBERS = {7: "seven"}


def test_the_page_adds_an_op(tree: Path) -> None:
    for name in CHANGES:
        change(tree, name)
    assert cells(tree) == []
    done = run(tree, "-W", "error", "-c", ADDED)
    assert done.stdout == PRINTED, done.stderr


def test_the_page_says_what_it_takes() -> None:
    added = [line for text in CHANGES.values() for line in text.splitlines() if line[:1] == "+"]
    assert f"{len(added)} lines in {NUMBERS[len(CHANGES)]} files" in PAGE


def test_bases_of_cards_are_no_ops() -> None:
    class Base(StdTensorOp):
        """Base class of another op class. It is not an op itself."""

    class Leaf(Base):
        """Op class that is not in the list of ops."""

    require_listed([Base], STD_OPS)
    with pytest.raises(
        MissingCellError, match=r"Leaf is not an op yet; .* tests/ops/test_cells\.py"
    ):
        require_listed([Base, Leaf], STD_OPS)


@pytest.mark.parametrize("folder", ["tenferro/ad/rules", "tenferro/exec/kernels", "lowering/emit"])
def test_the_file_that_a_cell_belongs_into_is_told(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If an op class has no implementation in a folder, the folder's error must name the file to write."""
    card = type("Exp2", (StdTensorOp,), {"__module__": "tenferro.ops.analytic"})
    monkeypatch.setattr("tenferro.ops.ALL_OPS", [*STD_OPS, card])
    told = re.escape(f"Exp2; write it in {folder}/analytic.py")
    with pytest.raises(MissingCellError, match=told):
        runpy.run_path(str(ROOT / folder / "__init__.py"))
