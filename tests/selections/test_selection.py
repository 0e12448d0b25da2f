"""Files of selected tests must be read and written right.

The plugin must compare them with the calls of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenferro.exec.llvm.link import is_installed
from tests.selections import selection
from tests.selections.thinned import thinned

ROOT = Path(__file__).parents[2]


def test_a_function_of_which_most_tests_are_selected_is_selected_as_a_whole() -> None:
    ran = [
        f"tests/a.py::{name}" for name in ("f[1]", "f[2]", "f[x-3]", "g[1]", "g[[2]]", "g[3]", "h")
    ]
    tests = {ran[0], ran[1], ran[4], ran[6]}
    selected = selection.named(tests, ran, share=0.5)
    assert selected == {"tests/a.py::f", "tests/a.py::g[[2]]", "tests/a.py::h"}
    assert [test for test in ran if selection.has(selected, test)] == [*ran[:3], ran[4], ran[6]]
    assert selection.named(tests, ran, share=1.0) == tests
    assert selection.named({*ran}, ran, share=1.0) == {"tests/a.py"}
    assert selection.has({"tests/a.py"}, ran[0])


def test_the_file_says_what_is_selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "FOLDER", tmp_path)
    selected = {
        "c.py",
        "b.py::f",
        "b.py::T::g[ x - [1]]",
        "b.py::T::g[2]",
        "a/b.py::a.b.f",
        "b.py::h[]",
    }
    text = selection.text_of(selected, "make it")
    assert text == (
        "# Written by `make it`.\n"
        "a/b.py\n  a.b.f\n"
        "b.py\n  T::g\n     x - [1]\n    2\n  f\n  h\n    \n"
        "c.py\n"
    )
    (tmp_path / "it.txt").write_text(text)
    assert selection.read("it") == selected
    assert selection.read("another") == frozenset()


@pytest.mark.parametrize("marker", [path.stem for path in selection.FOLDER.glob("*.txt")])
def test_the_files_are_as_they_are_written(marker: str) -> None:
    text = (selection.FOLDER / f"{marker}.txt").read_text()
    command = text.partition("`")[2].partition("`")[0]
    assert selection.text_of(selection.read(marker), command) == text


ELSEWHERE = """
from pathlib import Path
from tests.selections import selection
selection.FOLDER = Path("selections")
from tests.conftest import *
"""
TESTS = """
import numpy as np
import pytest

import tenferro as tnf

X = np.linspace(0.0, 1.0, 7)


@pytest.fixture(scope="module")
def shared():
    return tnf.jit(lambda x: x @ x)(X)


def test_of_a_product():
    assert tnf.jit(lambda x: tnf.tensordot(x, x, 1))(X) > 0


def test_of_what_a_fixture_ran(shared):
    assert shared > 0


def test_of_a_loop():
    program = tnf.compile(lambda x: tnf.fori_loop(0, 9, lambda i, y: y * 0.5 + x, x), X)
    assert tnf.GraphExecutor(compiled=True).run(program, X)[0] == 0


def test_of_an_addition_alone():
    assert tnf.add(X, X)[0] == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_of_another(number, shared):
    assert number
"""


@pytest.mark.skipif(not is_installed(), reason="needs llvmlite")
def test_a_test_that_is_not_marked_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    folder = tmp_path / "selections"
    folder.mkdir()
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)

    def run(*options: str) -> tuple[int, str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "elsewhere",
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
        done = subprocess.run(
            [*command, "--rootdir", ".", *options, "test_it.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment,
        )
        return done.returncode, done.stdout + done.stderr

    status, said = run("-n", "1")
    assert status == 1, said
    assert "7 passed" in said
    assert "processor: test_it.py::test_of_a_product calls Contraction.__init__" in said
    assert "compiled: test_it.py::test_of_a_loop calls Linker.baseline" in said
    assert "test_it.py::test_of_another[2] calls" in said
    assert "run `make processors TESTS='test_it.py'`" in said
    status, said = run("--write-processors")
    assert status == 0, said
    written = (folder / "processor.txt").read_text()
    names = ["test_of_a_loop", "test_of_a_product", "test_of_another", "test_of_what_a_fixture_ran"]
    assert written.splitlines()[1:] == ["test_it.py", *[f"  {name}" for name in names]]
    assert (folder / "compiled.txt").read_text().splitlines()[1:] == [
        "test_it.py",
        "  test_of_a_loop",
    ]
    status, said = run("-m", "processor")
    assert status == 0, said
    assert "6 passed, 1 deselected" in said


@pytest.mark.parametrize("table", ["each", "all"])
def test_thinned_functions_exist(table: str) -> None:
    for test in thinned()[table]:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text(), test


@pytest.mark.parametrize("marker", ["processor", "compiled", "core"])
def test_selected_files_exist(marker: str) -> None:
    files = {selection.file_of(test) for test in selection.read(marker)}
    assert not [file for file in sorted(files) if not Path(file).exists()]
