"""The driver of mutants, run on a small tree: its edits, its sampling, and its outcomes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.campaign import Campaign, Mutant, equivalents, mutants_of
from tools.mutants.columns import FOLDERS, is_of_column, is_of_floor, units_within
from tools.mutants.copies import copy_tree
from tools.mutants.edits import Edit, edits_of, is_another_program
from tools.mutants.readers import readers_elsewhere

ROOT = Path(__file__).parents[1]
EQUIVALENTS = ROOT / "tools" / "mutants" / "equivalents.toml"

SOURCES = {
    "y = a - b * 2": ["a + b * 2", "b * 2 - a", "a - b / 2", "a - b * 3", "a - b * 1"],
    "y = a if x <= 0 else -b": ["a if x < 0 else -b", "a if x > 0 else -b", "a if x <= 1 else -b",
                                "a if x <= 0 else (b)"],
    "y = conj(x) ** k": ["(x) ** k", "conj(x) * k", "k ** conj(x)"],
    "y = f(a, b) and not c": ["(a) and not c", "f(b, a) and not c", "f(a, b) or not c", "f(a, b) and (c)"],
    "ROWS = {A: one, B: two}": ["{B: two}", "{A: one}"],
    "y = [a, *b, c]": ["[*b, c]", "[a, *b]"],
    "y = a is not None, 'GT', True": ["a is None, 'GT', True", "a is not None, 'XXGT', True",
                                      "a is not None, 'GT', False", "'GT', True", "a is not None, True",
                                      "a is not None, 'GT'"],
    "keep(x)": ["...", "(x)"],
    "y = tuple(x)": [],
    "y = zip(a, b, strict=True)": ["(a)", "zip(b, a, strict=True)"],
    "y = 'words for people'": [],
    "y: int | None": [],
    "Rule = Callable[[Op, int], bool | None]": [],
    "Rule: TypeAlias = Callable[[Op, int], None]": [],
    "y = rules[a, 1]": ["rules[a, 2]", "rules[a, 0]"],
    "MOST = 40\n'Of a page.'": [],
    "MOST = 1 << 16\n'Bytes.'": [],
    "CALL = 0.35\n'Microseconds.'": [],
    "y = max(a, b)": ["(a)"],
    "y = code.multiply_add(a, b, c)": ["(a)"],
    "assert a < b": [],
    "raise ValueError('a', 3)": [],
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_edits_of_a_line(source: str) -> None:
    edits = [edit for edit in edits_of(source + "\n") if is_another_program(source, edit)]
    lines = {edit.applied(source).partition("= ")[2] or edit.applied(source) for edit in edits}
    assert lines == set(SOURCES[source])
    for edit in edits:
        assert edit.difference(source) == (source, edit.applied(source))


def test_numbers_that_are_not_chosen_by_measuring_are_edited() -> None:
    """A number may be exempt from edits only if it is a tuning parameter.

    It must be large, be assigned to a name in capitals, and have a docstring.
    """
    for source in (
        "MOST = 3\n'Of a page.'\n",
        "MOST = 40\nLEAST = 2\n",
        "most = 40\n'Of a page.'\n",
    ):
        assert edits_of(source)


def test_edits_of_lines_that_are_not_ascii_and_go_on() -> None:
    source = "x = 'é'; y = (a\n     # of one\n     - b)\n"
    texts = [edit.applied(source) for edit in edits_of(source)]
    assert "x = 'é'; y = (a\n     # of one\n     + b)\n" in texts
    assert "x = 'é'; y = (b\n     # of one\n     - a)\n" in texts


def test_a_seed_gives_the_same_mutants_of_each_folder() -> None:
    folders = ["tenferro/passes", "tenferro/program"]
    first, again, other = (list(islice(mutants_of(ROOT, folders, seed), 20)) for seed in (3, 3, 4))
    assert first == again != other
    assert {mutant.folder for mutant in first} == set(folders)
    assert len({(mutant.path, mutant.edit.lines[0]) for mutant in first}) == 20
    for mutant in first:
        ast.parse(mutant.edit.applied((ROOT / mutant.path).read_text()))


def test_tests_are_of_one_column_and_no_floor_above() -> None:
    for folder, places in FOLDERS.items():
        for place in places:
            assert (ROOT / place).exists()
            assert is_of_column(f"{place}::test_it", folder)
            assert not is_of_floor(f"{place}::test_it", folder)
    assert is_of_floor("tests/api/test_jit.py::test_it", "tenferro/ad")
    assert not is_of_floor("tests/lowering/test_module.py::test_it", "tenferro/ad")
    assert is_of_column("tenferro/passes/folding.py::tenferro.passes.folding", "tenferro/passes")


def test_equivalents_are_of_lines_that_are_there() -> None:
    for path, before, _ in equivalents(EQUIVALENTS):
        source = (ROOT / path).read_text()
        assert before in {edit.difference(source)[0] for edit in edits_of(source)}, (path, before)


def test_an_equivalent_has_a_proof(tmp_path: Path) -> None:
    file = tmp_path / "equivalents.toml"
    file.write_text('[[mutant]]\npath = "a.py"\nbefore = "x"\nafter = "y"\nbecause = ""\n')
    with pytest.raises(ValueError, match="has no proof"):
        equivalents(file)


# ---- a small tree --------------------------------------------------------------------------------

TESTED = {
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "one/__init__.py": "",
    "one/source.py": "LIMIT = 3\n\n\ndef small(x):\n    return x < LIMIT\n\n\ndef unused():\n    return 1 + 1\n",
    "tests/test_own.py": "from one.source import small\n\n\ndef test_small():\n    assert small(1)\n\n\n"
    "def test_large():\n    assert not small(7)\n",
    "tests/test_floor.py": "from one.source import small\n\n\ndef test_bound():\n    assert not small(3)\n",
}
SCRIPT = """
import json, sys
sys.dont_write_bytecode = True  # because the file changes within a second
from pathlib import Path
from tools.mutants.trials import tried
tree = Path(sys.argv[1])
source = tree / "one" / "source.py"
files = ["tests/test_own.py", "tests/test_floor.py"]
names = ["tests/test_own.py::test_large", "tests/test_own.py::test_small", "tests/test_floor.py::test_bound"]
trials = []
for text in ("<", "<=", "< ("):
    source.write_text(source.read_text().replace("<", text, 1))
    trials.append(tried(tree, files, names, seconds=20)[:2])
    source.write_text(source.read_text().replace(text, "<", 1))
source.write_text("while True: pass")
trials.append(tried(tree, files, names, seconds=0)[:2])
source.write_text("import os; os.abort()")
trials.append(tried(tree, files, names, seconds=20)[:2])
print(json.dumps(trials))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TESTED.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_becomes_of_a_run(tree: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tree)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    outcomes = json.loads(ended.stdout)
    assert outcomes[0] == ["passed", ""]
    assert outcomes[1] == ["failed", "tests/test_floor.py::test_bound"]
    assert outcomes[2][0] == "import"
    assert [kind for kind, _ in outcomes[3:]] == ["time", "signal"]


class Recording:
    """Record of the tests of the small tree that run each line."""

    seconds = dict.fromkeys(
        ("tests/test_own.py::test_small", "tests/test_floor.py::test_bound"), 0.01
    )

    def tests(self, path: str, first: int, last: int) -> set[str]:
        return set(self.seconds) if first == 5 else set()


def test_column_then_floor_and_a_log_that_goes_on(tree: Path, monkeypatch: Any) -> None:
    from tools.mutants import campaign as module
    from tools.mutants.trials import Trial

    monkeypatch.setitem(module.FOLDERS, "one", ("tests/test_own.py",))
    source = (tree / "one" / "source.py").read_text()
    asked: list[tuple[str, str]] = []

    def tried(tree: Path, files: Any, names: list[str], *, seconds: float) -> Trial:
        text = (tree / "one" / "source.py").read_text()
        asked.append((names[0].partition("::")[2], text))
        notices = "<=" in text and names[0].startswith("tests/test_floor.py")
        return Trial("failed" if notices else "passed", names[0] if notices else "", {}, 0.5)

    monkeypatch.setattr(module, "tried", tried)
    edits = [edit for edit in edits_of(source) if edit.lines[0] == 5]
    mutants = [Mutant("one", "one/source.py", edit) for edit in edits]
    assert [edit.text for edit in edits] == ["<=", ">="]
    log, proof = (
        tree / "log.jsonl",
        {("one/source.py", "return x < LIMIT", "return x >= LIMIT"): "because"},
    )
    first = Campaign(tree, Recording(), log, {})  # pyright: ignore[reportArgumentType]  # no other methods are called
    outcomes = list(first.run(mutants, range(9)))
    assert [(one["outcome"], one["stage"]) for one in outcomes] == [
        ("killed", "floor"),
        ("survived", ""),
    ]
    assert [name for name, _ in asked] == ["test_small", "test_bound"] * 2
    assert (tree / "one" / "source.py").read_text() == source
    assert "+ return x >= LIMIT" in first.report()

    again = Campaign(tree, Recording(), log, proof)  # pyright: ignore[reportArgumentType]
    assert list(again.run(mutants, range(9))) == []
    assert again.verdict(outcomes[1]) == "equivalent"
    assert "+ return x >= LIMIT" not in again.report()
    assert "100.0%" in again.report()
    # Edits of lines that run on import must be tested by the folder's own tests, and by the tests of its layer for
    # functions that use the lines.
    at_import = Mutant("one", "one/source.py", Edit("constant", (1, 1), 8, 9, "4", True))
    assert again.stages(at_import) == (
        ["tests/test_own.py::test_small"],
        ["tests/test_floor.py::test_bound"],
        [],
    )
    # Tests that exceed the limits of the first two stages must run in the last stage if they run the edited line.
    monkeypatch.setattr(module, "MOST_FILES", 0)
    assert again.stages(mutants[0]) == (
        ["tests/test_own.py::test_small"],
        [],
        ["tests/test_floor.py::test_bound"],
    )
    monkeypatch.setattr(module, "STAGE_SECONDS", 0.0)
    assert again.stages(mutants[0]) == (
        [],
        [],
        ["tests/test_floor.py::test_bound", "tests/test_own.py::test_small"],
    )
    monkeypatch.undo()
    monkeypatch.setitem(module.FOLDERS, "one", ("tests/test_own.py",))
    monkeypatch.setattr(Recording, "tests", lambda *_: set())
    assert again.stages(at_import) == (["tests/test_own.py::test_small"], [], [])


def test_a_copy_has_what_the_checkout_has(tmp_path: Path) -> None:
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    checkout.mkdir()
    subprocess.run(["git", "init", "-q", checkout], check=True)
    for name in ("kept.py", "changed.py", "gone.py"):
        (checkout / name).write_text("1")
    copy_tree(checkout, copy)
    stamp = (copy / "kept.py").stat().st_mtime_ns
    (checkout / "changed.py").write_text("2")
    (checkout / "gone.py").unlink()
    copy_tree(checkout, copy)
    assert {path.name for path in copy.iterdir()} == {"kept.py", "changed.py"}
    assert (copy / "changed.py").read_text() == "2"
    assert (copy / "kept.py").stat().st_mtime_ns == stamp


def test_a_map_of_some_tests_is_of_files_and_of_folders_with_all_that_is_in_them() -> None:
    units = ["tests/ad/test_rules.py", "tests/ad/test_batch.py", "tests/ad_hoc.py", "tests/ext"]
    assert units_within(units, ["tests/ad"]) == units[:2]
    assert units_within(units, ["tests/ext", "tests/ad/test_batch.py"]) == [units[1], units[3]]
    with pytest.raises(ValueError, match="tests/exec"):
        units_within(units, ["tests/ad", "tests/exec"])


def test_readers_of_a_constant_in_other_files() -> None:
    path = "tenferro/exec/llvm/coefficients.py"
    lines = (ROOT / path).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text == "EXP_SINGLE = (") + 1
    readers = dict(readers_elsewhere(ROOT, path, line, line))
    folder = "tenferro/exec/llvm"
    assert readers.keys() == {f"{folder}/single.py"}
    assert not [*readers_elsewhere(ROOT, path, 1, 1)]
