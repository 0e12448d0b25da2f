"""Failing programs must be shrunk to a few lines with simple arguments, and matched with public bug reports."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowering.lower
import tenferro as tnf
from lowering import lower_to_stablehlo
from lowering.emit import EMITTERS
from tenferro import errors
from tenferro.ops.analytic import Sin
from xla_peer import check_parity
from xla_peer.parity.reproduction import save_reproduction, triage
from xla_peer.parity.shrinking import Case, shrunk
from xla_peer.parity.twins import form_of, public_reports, twins

X = np.linspace(0.123456, 2.345678, 12).reshape(3, 4)


def deep(x: Any) -> tuple[Any, Any]:
    y = tnf.exp(-x) * 1.25 + x @ np.ones((4, 4))
    z = tnf.tanh(tnf.sin(y) * 0.3 + tnf.sum(y, axis=0))
    return z * z - 1.0, tnf.sum(y)


def test_a_report_is_saved_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = {**EMITTERS, Sin: lambda op, w, x: w.op("cosine", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", wrong)
    report = check_parity(deep, X, interpreter=False)
    folder = report.save(tmp_path / "case")
    assert folder is not None
    module = (folder / "module.mlir").read_text().strip().splitlines()
    assert not any("loc(" in line for line in module)
    assert len(module) <= 10
    assert "cosine" in "\n".join(module)
    (x,) = np.load(folder / "inputs.npz").values()
    assert (x == 1).all()  # the arguments are simplified to 1
    about = json.loads((folder / "about.json").read_text())
    ((version, said),) = about["outcomes"].items()
    assert version.startswith("jaxlib ")
    assert "0.54" in said  # cos(1), the result of the planted fault
    assert "0.84" in said  # sin(1)
    assert isinstance(about["environment"], dict)


def test_the_whole_program_shrinks_to_what_fails() -> None:
    program = tnf.compile(deep, X)

    def has_tanh(case: Case) -> bool:
        used = {step.op.name for step in case.program.instructions}
        return "Tanh" in used and bool(np.all(case.leaves[0] > -5))

    small = shrunk(Case(program, (X,)), has_tanh)
    assert [step.op.name for step in small.program.instructions] == ["Tanh"]
    assert len(small.program.output_slots) == 1
    assert all((leaf == 1).all() for leaf in small.leaves)
    text = lower_to_stablehlo(small.program).plain_text
    assert len(text.strip().splitlines()) <= 10


def test_arguments_get_few_digits_where_ones_do_not_fail() -> None:
    program = tnf.compile(lambda x: tnf.exp(x), X)
    small = shrunk(Case(program, (X,)), lambda case: bool(np.ptp(case.leaves[0]) > 2.1))
    assert small.leaves[0].max() - small.leaves[0].min() > 2.1
    assert all(len(repr(float(x))) <= 4 for x in small.leaves[0].ravel())


def test_no_smaller_program_is_tried_after_the_time() -> None:
    program = tnf.compile(deep, X)
    tried = list[Case]()

    def slow(case: Case) -> bool:
        tried.append(case)
        time.sleep(0.05)
        return True

    shrunk(Case(program, (X,)), slow, seconds=0.01)
    assert len(tried) <= 1


class Report(NamedTuple):
    name: str
    words: str
    function: Any
    arrays: tuple[Any, ...]


def overflowing(x: Any) -> Any:
    return tnf.log(tnf.exp(x * 2.0))


REPORTS = (
    Report("a/b 1", "a log of an exp", overflowing, (np.float32(9),)),
    Report("a/b 2", "a sum", lambda x: tnf.sum(x), (np.ones(3),)),
    Report("a/b 3", "a text that cannot be read", "func.func @main() {", ()),
)


def test_a_twin_has_the_same_structure_whatever_its_values_are() -> None:
    def other(x: Any) -> Any:
        return tnf.log(tnf.exp(3.5 * x))

    program = tnf.compile(other, X)
    (twin,) = twins(program, REPORTS)
    assert (twin.name, twin.share) == ("a/b 1", 1.0)
    assert "https://github.com/a/b/issues/1" in str(twin)
    near = tnf.compile(lambda x: tnf.log(tnf.exp(x * 2.0)) - 1.0, X)
    assert [twin.name for twin in twins(near, REPORTS)] == ["a/b 1"]
    assert twins(near, REPORTS)[0].share < 1
    assert twins(tnf.compile(lambda x: tnf.cos(x), X), REPORTS) == ()


def shifted(x: Any) -> Any:
    rows = tnf.tanh(tnf.sin(x)) * 2.0 + 1.0
    return tnf.at(rows)[1:].set(tnf.sqrt(rows[:-1]) / tnf.exp(rows[1:])) - 1.0


@pytest.mark.parametrize(
    ("fn", "is_part"),
    [
        (lambda x: tnf.sqrt(x[:-1]) / tnf.exp(x[1:]), True),
        (lambda x: tnf.exp(x[:-1]) / tnf.sqrt(x[1:]), False),
        (lambda x: 3.0 + tnf.tanh(x) * 5.0, True),
        (lambda x: tnf.tanh(x) * x + 3.0, False),
        (lambda x: tnf.exp(x), False),
    ],
)
def test_a_shrunk_case_is_a_part_of_a_report(fn: Any, is_part: bool) -> None:
    report = Report("a/b 4", "rows are shifted", shifted, (np.ones(5),))
    named = twins(tnf.compile(fn, np.ones(5)), [report])
    assert [twin.has_part for twin in named] == [True] * is_part
    assert all("a part of the module in a/b 4" in str(twin) for twin in named)


def test_the_form_sees_operands_and_bodies() -> None:
    forms = [
        form_of(tnf.compile(fn, X, X))
        for fn in (
            lambda x, y: tnf.exp(x) - y,
            lambda x, y: y - tnf.exp(x),
            lambda x, y: tnf.exp(x) * y,
            lambda x, y: y * tnf.exp(x),
            lambda x, y: tnf.scan(lambda c, t: (tnf.sin(c), t), x, y)[0],
            lambda x, y: tnf.scan(lambda c, t: (tnf.cos(c), t), x, y)[0],
        )
    ]
    assert forms[0] != forms[1]
    assert forms[2] == forms[3]
    assert forms[4] != forms[5]


def test_the_hall_is_read_where_it_is() -> None:
    assert {report.name for report in public_reports()} >= {"jax-ml/jax 38099"}
    (twin, *_) = twins(tnf.compile(lambda x: tnf.log(tnf.exp(x)), np.float32(1)))
    assert (twin.name, twin.share) == ("jax-ml/jax 38099", 1.0)


def test_triage_names_public_reports_and_versions(tmp_path: Path) -> None:
    program = tnf.compile(overflowing, np.float32(3))
    text = lower_to_stablehlo(program).plain_text
    folder = save_reproduction(
        tmp_path / "case", program, [np.float32(3)], text, said="y[]: 7, expected 6"
    )
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 0.0.1 || echo fine\n')
    python.chmod(0o755)
    issue = triage(folder, [str(python), str(python)], REPORTS)
    assert issue.count("With jaxlib 0.0.1:") == 2
    assert "y[]: 7, expected 6" in issue
    assert "- the same structure as a/b 1, a log of an exp" in issue
    assert "No public report" in triage(folder, [str(python)], REPORTS[1:2])
    with pytest.raises(errors.InvalidConfigError, match="does not run"):
        triage(folder, [str(tmp_path / "none")])
    (folder / "about.json").write_text('{"versions": 3}')
    with pytest.raises(errors.InvalidConfigError, match="has no versions and digest"):
        triage(folder, [str(python)])
