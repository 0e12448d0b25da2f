"""The score of the parity check: its edits of modules, its outcomes, and its page."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from tools.parity_score import __main__ as score
from tools.parity_score.faults import KINDS, faults
from tools.parity_score.page import summary, write_page
from tools.parity_score.programs import Subject
from tools.parity_score.references import wide_outputs
from tools.parity_score.rewrites import rewrites
from tools.parity_score.trials import fault_trial, places_of, rewrite_trial
from xla_peer import XlaExecutor

X = np.linspace(0.2, 1.8, 9).reshape(3, 3)


def fn(x: Any) -> Any:
    def body(c: Any, t: Any) -> Any:
        c = tnf.where(c > t, tnf.sin(c) - t, c + t + 0.5)
        return c, c * 2.0

    last, ys = tnf.scan(body, x[0], x[1:])
    return (
        tnf.sum(-ys.T[1:] / 3.0, axis=0) + tnf.sum((x @ x.T) + last, axis=1)[:2],
        tnf.exp(last),
        tnf.round(x[0] * 3.3),
    )


SUBJECT = Subject("f", "loop", lower_to_stablehlo(tnf.compile(fn, X)).plain_text, (X,))


@pytest.fixture(scope="module")
def peer() -> XlaExecutor:
    return XlaExecutor("cpu", notices=False)


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_is_a_module_that_computes_something_else(kind: str, peer: XlaExecutor) -> None:
    edits = [edit for edit in faults(SUBJECT.text) if edit.kind == kind]
    assert edits, kind
    outcomes = [fault_trial(SUBJECT, edit, peer) for edit in edits[:2]]
    assert all(outcome["outcome"] in ("caught", "equal") for outcome in outcomes), outcomes
    assert all(outcome["named"] for outcome in outcomes if outcome["outcome"] == "caught"), outcomes


def test_each_rewrite_keeps_the_meaning(peer: XlaExecutor) -> None:
    kinds = set[str]()
    native = tnf.compile(fn, X).run(X)
    for edit in rewrites(SUBJECT.text):
        if edit.kind in kinds:
            continue
        kinds.add(edit.kind)
        assert rewrite_trial(SUBJECT, edit.text, peer)["outcome"] == "accepted", edit.kind
        results = import_stablehlo(edit.text, trusted=True).run(X)
        for y, z in zip(native, results, strict=True):
            np.testing.assert_allclose(z, y, rtol=1e-13)
    assert {
        "commuted",
        "reassociated",
        "another order of a sum",
        "another order of a product",
    } <= kinds


def test_the_places_of_a_line_in_a_loop() -> None:
    lines = SUBJECT.text.splitlines()
    (inside,) = [n for n, line in enumerate(lines, 1) if "stablehlo.sine" in line]
    (loop,) = [n for n, line in enumerate(lines, 1) if '"stablehlo.while"' in line]
    assert {inside, loop} <= places_of(SUBJECT.text, inside)


def test_a_region_that_is_one_op_is_a_place_of_its_lines() -> None:
    text = lower_to_stablehlo(tnf.compile(lambda x: tnf.argmax(tnf.sin(x)), X[0])).plain_text
    lines = text.splitlines()
    (head,) = [n for n, line in enumerate(lines, 1) if '"stablehlo.reduce"' in line]
    (inside,) = [n for n, line in enumerate(lines, 1) if "%first = " in line]
    (before,) = [n for n, line in enumerate(lines, 1) if "stablehlo.sine" in line]
    assert head in places_of(text, inside)
    assert head not in places_of(text, before)


def test_the_reference_keeps_what_is_given_by_its_bits() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = stablehlo.constant dense<[0x7FC00000, 0xFF800000]> : tensor<2xf32>
      %z = stablehlo.add %x, %y : tensor<2xf32>
      return %z : tensor<2xf32>
    }"""
    (result,) = wide_outputs(text, [np.ones(2, np.float32)])
    assert result.dtype == np.float64
    assert np.isnan(result[0])
    assert result[1] == -np.inf


def test_silence_is_told_from_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "SILENCE", 0.2)
    for seconds, silent in ((30, True), (0, False)):
        script = f"import time; print('{{}}', flush=True); time.sleep({seconds})"
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
            if not silent:
                process.wait()
            else:
                assert process.stdout is not None
                select.select([process.stdout], [], [])
            assert score._noted(process, tmp_path / "outcomes") == (1, silent)
            process.kill()


def test_a_slow_start_is_no_silence_of_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "SILENCE", 0.3)
    script = "import time; time.sleep(0.6); print('ready', flush=True); print('{}', flush=True); time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert score._noted(process, tmp_path / "outcomes") == (1, True)
        process.kill()


def test_a_run_that_was_ended_goes_on_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a line of the record is truncated, a resumed run must repeat the trial of this line.

    It must also repeat the trial that follows, whose record is on the same line.
    """
    path = tmp_path / "faults.jsonl"
    path.write_text('{"number": 0}\n{"number": 2}\n{"num{"number": 3}\n')
    assert [record["number"] for record in score.outcomes(path)] == [0, 2]
    asked: list[int] = []
    monkeypatch.setattr(score, "drawn", lambda *_: [(0, 0, "")] * 5)
    monkeypatch.setattr(
        score, "_children", lambda kind, seed, count, numbers, *_: asked.extend(numbers)
    )
    score.run("faults", 0, 5, path, time.monotonic() + 60)
    assert asked == [1, 3, 4]


def test_the_page_adds_up_the_parts() -> None:
    fault = {"number": 0, "program": "p", "of": "loop", "kind": "wrong axis", "line": 3, "outcome": "caught",
             "named": True, "blamed": True, "seconds": 0.5, "verdicts": ["wrong: program"]}  # fmt: skip
    escaped = fault | {"number": 1, "outcome": "escaped", "named": False, "verdicts": ["rounding"]}
    rewrite = {"number": 0, "program": "p", "of": "loop", "kind": "commuted", "line": 3, "options": "",
               "outcome": "accepted", "verdicts": ["equal"], "seconds": 0.1}  # fmt: skip
    parts = [
        summary(7, "0.10.2", [fault, escaped, fault | {"outcome": "equal"}], [rewrite]),
        summary(8, "0.10.2", [fault], [rewrite, rewrite | {"outcome": "accused"}]),
    ]
    page = write_page(parts)
    assert "from 2 parts with jaxlib 0.10.2" in page
    assert "| judged faults that were caught | 2 of 3 (66.67%) |" in page
    assert "| wrong axis | 3 | 2 | 2 |" in page
    assert "- seed 7: p, line 3, wrong axis: rounding" in page
    assert "| judged rewrites that were accused | 1 of 3 (33.33%) |" in page


def test_a_part_is_counted_when_all_its_trials_have_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "ROOT", tmp_path)
    monkeypatch.setattr(score, "PART", 1)
    (tmp_path / "docs").mkdir()
    record = {"number": 0, "kind": "commuted", "outcome": "caught", "named": True}

    def ran(kind: str, seed: int, count: int, path: Path, *_: Any) -> None:
        path.write_text(json.dumps(record) + "\n" if seed < 2 else "")

    monkeypatch.setattr(score, "run", ran)
    command = ["score", "--count", "3", "--write", "--folder", str(tmp_path / "build")]
    monkeypatch.setattr(sys, "argv", command)
    assert score.main() == 0
    assert score.main() == 0
    parts = json.loads((tmp_path / "docs" / "verdicts.json").read_text())
    assert [part["seed"] for part in parts] == [0, 1]
