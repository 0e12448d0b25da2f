"""The watch on faults of XLA: its entries and tables, its search for a faulty pass, and its checks of new releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro.errors import BackendFailureError, InvalidConfigError, PeerEndedError
from tests.xla_peer import adapters
from xla_peer.cli import app
from xla_peer.opinions import Adapter, AdapterExecutor, jaxlib_adapter
from xla_peer.watch import (
    Bisection,
    Case,
    Entry,
    Table,
    bisect,
    fault_of,
    hall_cases,
    judged,
    watch,
)
from xla_peer.watch.bisection import releases_between
from xla_peer.watch.cases import is_close, ordinary_cases
from xla_peer.watch.passes import OPTIONS
from xla_peer.watch.table import Row

X = np.array([1.0, 2.0, -3.0])


def case(function: Any, expected: Any = None, **fields: Any) -> Case:
    program = tnf.compile(function, X)
    text = lower_to_stablehlo(program).plain_text
    right = None if expected is None else (expected,)
    return replace(Case("a case", "what", program, text, (X,), right), **fields)


def entry_of(function: Any, adapter: Any, expected: Any = None, **fields: Any) -> Entry:
    target = f"{adapters.__file__}:{adapter.__name__}"
    with AdapterExecutor(Adapter.of("mine", target), timeout=0.5) as executor:
        return judged(case(function, expected, **fields), executor)


def test_entries() -> None:
    assert entry_of(lambda x: x + x, adapters.doubled, X + X) == Entry("right")
    wrong = entry_of(lambda x: x * x, adapters.doubled, X * X)
    assert (wrong.state, wrong.words) == ("wrong", "wrong")
    assert str(wrong) == "**wrong**, at Multiply"
    assert entry_of(lambda x: x * x, adapters.doubled, X * X, is_rounding=True).state == "undecided"
    assert entry_of(lambda x: x, adapters.crashed) == Entry("ended", "SIGSEGV")
    assert str(entry_of(lambda x: x, adapters.slow)) == "**ended**: timeout"
    refused = entry_of(lambda x: x, adapters.refused)
    assert (refused.state, refused.is_red) == ("refused", False)
    two = entry_of(lambda x: (x, -x), adapters.doubled)
    assert (two.state, two.op) == ("wrong", "")


def test_closeness() -> None:
    x = np.array([1.0, np.nan])
    assert is_close(x, x)
    assert not is_close(x.astype(np.float32), x)
    assert not is_close(x[None], x)
    assert not is_close(np.array([2]), np.array([3]))


def test_cases_have_names_of_their_own() -> None:
    reports = hall_cases(["39257"])
    assert [each.name for each in reports] == ["jax-ml/jax 39257", "jax-ml/jax 39257 (2)"]
    assert {each.link for each in reports} == {"https://github.com/jax-ml/jax/issues/39257"}
    assert [each.name for each in ordinary_cases(["softmax", "blur"])] == ["softmax", "blur"]
    assert not hall_cases(["softmax"])


def table(**states: str) -> Table:
    compilers = tuple(f"{name} {number}" for number, name in enumerate(states))
    entries = {
        compiler: Entry(state) for compiler, state in zip(compilers, states.values(), strict=True)
    }
    return Table(compilers, (Row("a|b", "what", "https://a", "XLA", entries),))


def test_tables() -> None:
    first = table(jaxlib="right", iree="wrong", mine="ended")
    assert Table.from_json(first.to_json()) == first
    assert first.red == [("a|b", "iree 1"), ("a|b", "mine 2")]
    page = first.to_markdown()
    assert "| [a\\|b](https://a) | what | right | **wrong** | **ended** |" in page
    assert "| **iree 1** | 0 | 0 | 0 | 1 | 0 |" in page
    later = table(jaxlib="wrong", iree="wrong", mine="right")
    assert later.worse_than(first) == [("a|b", "jaxlib 0")]
    assert first.worse_than(first) == []
    renamed = replace(later, compilers=("jaxlib 9",), rows=(
        replace(later.rows[0], entries={"jaxlib 9": Entry("wrong")}),))  # fmt: skip
    assert renamed.worse_than(first) == [("a|b", "jaxlib 9")]
    for text in ("", "[]", "{}", '{"compilers": [], "cases": [{}]}'):
        with pytest.raises(InvalidConfigError, match="no table"):
            Table.from_json(text)
    with pytest.raises(InvalidConfigError, match="state"):
        Entry("good")


def test_results_that_are_the_same_are_judged_once() -> None:
    adapter = Adapter.of("mine", f"{adapters.__file__}:doubled")
    executors = [AdapterExecutor(replace(adapter, name=name)) for name in ("one", "other")]
    seen: list[str] = []
    table_of_two = watch([case(lambda x: x * x, X * X)], executors, progress=seen.append)
    for executor in executors:
        executor.close()
    assert seen == ["a case by one 7", "a case by other 7"]
    entries = table_of_two.rows[0].entries
    assert entries["one 7"] == entries["other 7"]
    assert entries["one 7"].op.startswith("Multiply")


def test_the_pass_of_a_public_report() -> None:
    (report,) = hall_cases(["jax-ml/jax 38099"])
    with AdapterExecutor(jaxlib_adapter()) as xla:
        if case_is_right(report, xla):
            pytest.skip("this jaxlib computes it rightly")
        fault = fault_of(report, xla)
    assert fault is not None
    assert (fault.name, fault.by_meaning, fault.by_disabling) == ("algsimp", True, True)
    assert str(fault).startswith("algsimp: its module has another meaning")


def case_is_right(report: Case, executor: AdapterExecutor) -> bool:
    return report.is_right(executor.outputs(report.text, report.arrays))


class Compiler:
    """Stand-in for a compiler.

    Its results are wrong unless all passes in `guilty` are disabled. It can write dumps.
    """

    def __init__(self, guilty: Sequence[str], dumps: Sequence[tuple[str, str]], option: str = ""):
        self.guilty, self.dumps, self.option = set(guilty), dumps, option

    def outputs(self, text: str, arrays: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
        if "xla_dump_to" in options:
            for number, (name, content) in enumerate(self.dumps):
                path = f"module_0000.main.{number:04}.pipe.after_{name}.before_next.txt"
                (Path(options["xla_dump_to"]) / path).write_text(content)
            raise PeerEndedError("SIGSEGV", "running")
        disabled = set(str(options.get("xla_disable_hlo_passes", "")).split(","))
        is_right = bool(self.guilty) and self.guilty <= disabled
        if is_right or (self.option and self.option in options):
            return [X + X]
        if not self.guilty:
            raise BackendFailureError("no such option")
        return [X]

    def text(self, function: str, text: str) -> str:
        if text == "unreadable":
            raise BackendFailureError("a fusion")
        return text


@pytest.mark.parametrize(
    ("compiler", "named"),
    [
        (Compiler(["b"], [("a", "r"), ("b", "unreadable"), ("c", "unreadable")]), "b"),
        (Compiler(["a", "c"], [("a", "r"), ("b", "r"), ("c", "r")]), "a with c"),
        (Compiler([], [("a", "r")], OPTIONS[-1][0]), "code generation, right with"),
        (Compiler([], []), None),
        (Compiler(["z"], [("a", "r"), ("b", "unreadable"), ("c", "w"), ("d", "w")]), "c"),
        (Compiler(["z"], [("a", "r"), ("pipeline-start", "w")]), "next"),
    ],
)
def test_naming(compiler: Any, named: str | None) -> None:
    right, wrong = (lower_to_stablehlo(tnf.compile(f, X)).plain_text for f in (
        lambda x: x + x, lambda x: x * 3))  # fmt: skip
    texts = {"r": right, "w": wrong}
    compiler.dumps = [(name, texts.get(text, text)) for name, text in compiler.dumps]
    fault = fault_of(case(lambda x: x + x, X + X), compiler)
    assert (fault is None) == (named is None)
    assert fault is None or fault.name.startswith(named or "")


def test_likely_passes_are_tried_first() -> None:
    fault = fault_of(case(lambda x: x + x, X + X), Compiler(["b"], []), ["a", "b"])  # type: ignore[arg-type]
    assert fault is not None
    assert fault.name == "b"


def test_bisection() -> None:
    releases = [f"0.{number}.0" for number in range(9)]
    asked: list[str] = []

    def run(of: Case, release: str) -> Entry:
        asked.append(release)
        return Entry("right" if release < "0.6.0" else "wrong")

    change = bisect(case(lambda x: x), releases, run)
    assert (change.last, change.first) == ("0.5.0", "0.6.0")
    assert len(asked) == len(set(asked)) == 5
    assert "changes in 0.6.0" in str(change)
    assert isinstance(change, Bisection)
    with pytest.raises(InvalidConfigError, match=r"is right with 0\.0\.0 and with 0\.2\.0"):
        bisect(case(lambda x: x), releases[:3], run)
    with pytest.raises(InvalidConfigError, match="two releases"):
        bisect(case(lambda x: x), releases[:1], run)
    with pytest.raises(InvalidConfigError, match="no release 7"):
        releases_between(releases, "0.1.0", "7")
    with pytest.raises(InvalidConfigError, match="after"):
        releases_between(releases, "0.3.0", "0.1.0")


def call(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, ["watch", *words], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.output


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = tmp_path / "module.mlir"
    module.write_text(case(lambda x: x + x).text)
    np.savez("x.npz", X)
    words = ("module.mlir", "--inputs", "x.npz", "-o", "page.md")
    mine = f"mine={adapters.__file__}:doubled"
    assert "0 red" in call(*words, "--opinion", mine)
    assert "| module.mlir |" in Path("page.md").read_text()
    module.write_text(case(lambda x: x * x).text)
    assert "was right before: module.mlir by mine 7" in call(*words, "--opinion", mine, status=1)
    document = json.loads(call(*words, "--opinion", mine, "--json", "--strict", status=1))
    assert document["cases"][0]["entries"]["mine 7"]["state"] == "wrong"
    call("no such report", status=2)
    call(*words[:-1], "page.txt", "--opinion", mine, status=2)
    call(*words, "--opinion", "none", status=2)
    call("module.mlir", "--since", "0.9.0", status=2)
    call("--since", "0.9.0", "--until", "0.9.2", status=2)
    assert not Path("page.txt").exists()
