"""The ledger must contain the checks that passed, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenferro.ops import STD_OPS
from tenferro.ops.analytic import Sin
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.dynamic import DynamicTruncate
from tests.conftest import Collector
from tests.ledger.ledger import COLUMNS, Ledger, lines_of, shortened
from tests.ledger.recording import Passes
from tests.ledger.writing import EXTENSIONS, OPS, as_text, digest, document, exemption
from tests.samples import SAMPLES
from tests.samples.families import FAMILIES
from tests.samples.sample import COMMON, OpSample

PLACES = {name: place for place, name in enumerate(COLUMNS)}


def ledger_of(*said: str) -> Ledger:
    return Ledger.of(json.loads(as_text(document(said))))


def count_of(ledger: Ledger, op: str, dtype: str, column: str) -> int | None:
    (row,) = ledger.only([op], [dtype]).rows
    return row.counts[PLACES[column]]


def test_what_passed_is_counted_once() -> None:
    ledger = ledger_of("native Sin f32 0", "native Sin f32 0", "native Sin f32 1", "jvp Sin f64 0")
    assert count_of(ledger, "Sin", "f32", "native") == 2
    assert count_of(ledger, "Sin", "f64", "jvp") == 1
    assert count_of(ledger, "Sin", "f32", "jvp") == 0
    assert count_of(ledger, "Cos", "f32", "native") == 0


def test_where_a_check_applies_and_nothing_ran_is_a_gap() -> None:
    ledger = ledger_of("native Sin f32 0")
    (row,) = ledger.only(["Sin"], ["f32"]).rows
    assert row.marks == ("x", *["GAP"] * 6)
    assert row.shown == ("1", *["GAP"] * 6)
    everywhere = [
        f"{column} Sin {dtype.short} 0"
        for column in COLUMNS
        for dtype in COMMON
        if dtype.is_inexact
    ]
    assert not ledger_of(*everywhere).only(["Sin"], gaps=True).rows
    assert len(lines_of(ledger_of(*everywhere).only(["Sin"]).rows)) == 1


def test_where_a_check_has_no_meaning_is_no_gap() -> None:
    ledger = ledger_of()
    assert count_of(ledger, "Add", "i32", "jvp") is None
    assert count_of(ledger, "Add", "i32", "export") == 0
    assert count_of(ledger, "Floor", "f32", "vjp") is None
    assert count_of(ledger, "DynamicTruncate", "f32", "PJRT") is None
    assert count_of(ledger, "Cholesky", "f64", "interpreter") is None
    notes = "\n".join(map(str, ledger.notes))
    assert "Floor: not checked by jvp, vjp" in notes
    assert "the extent of the result is data" in notes


def test_exemptions_of_samples() -> None:
    empty = next(sample for sample in SAMPLES[DotGeneral] if "empty-contraction" in str(sample))
    assert "ends its process" in str(exemption("interpreter", empty))
    assert exemption("PJRT", empty) is None
    assert exemption("import", SAMPLES[DynamicTruncate][0]) == "the extent of the result is data"
    ours = OpSample(Sin(), (), (), exempt={"vjp": "loops are forward only"})
    assert exemption("vjp", ours) == "loops are forward only"


def test_a_test_counts_once_all_of_it_has_passed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    config = SimpleNamespace(getoption=lambda name: str(path))
    collector = Collector(config)  # type: ignore[arg-type]

    def report(when: str, passed: bool, number: int) -> Any:
        properties: list[tuple[str, object]] = [("other", "x")]
        Passes(properties).passed("native", SAMPLES[Sin][number])
        return SimpleNamespace(when=when, passed=passed, user_properties=properties)

    dtype = SAMPLES[Sin][0].dtype.short
    collector.pytest_runtest_logreport(report("call", True, 0))
    collector.pytest_runtest_logreport(report("call", False, 1))
    collector.pytest_runtest_logreport(report("teardown", True, 2))
    collector.pytest_sessionfinish(1)
    assert not path.exists()
    collector.pytest_sessionfinish(0)
    assert count_of(Ledger.load(path), "Sin", dtype, "native") == 1


def test_nothing_is_kept_where_no_ledger_is_asked_for(ledger: Passes) -> None:
    Passes(None).passed("native", SAMPLES[Sin][0])
    with pytest.raises(AssertionError):
        ledger.passed("typo", SAMPLES[Sin][0])


def test_the_text_is_the_same_in_any_order() -> None:
    said = ["native Sin f32 0", "jvp Sin f64 3", "PJRT Cos f32 1"]
    assert as_text(document(said)) == as_text(document(said[::-1]))
    assert digest() == digest()


def test_every_op_and_family_has_its_rows() -> None:
    assert [entry.op for entry in OPS] == [card.__name__ for card in STD_OPS]
    assert [entry.op for entry in EXTENSIONS] == [family.__name__ for family in FAMILIES]
    assert not {entry.op for entry in OPS} & {entry.op for entry in EXTENSIONS}
    rows = {row.op for row in Ledger.load().rows}
    assert rows == {entry.op for entry in (*OPS, *EXTENSIONS)}


def test_runs_of_dtypes_are_short() -> None:
    ledger = ledger_of()
    (line,) = lines_of(ledger.only(["And"]).rows)
    assert shortened(line.dtypes) == "bool i8..i64 u8..u64"
    assert "| And | elementwise | bool i8..i64 u8..u64 | GAP |" in ledger.to_markdown()
