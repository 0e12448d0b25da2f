"""The core selection of tests, which `make test` runs, must be complete and consistent."""

from __future__ import annotations

from pathlib import Path

from tests.ledger.writing import EXTENSIONS, OPS
from tests.selections import selection

ROOT = Path(__file__).parents[2]


def test_the_core_has_every_file_of_tests_and_every_op_and_family() -> None:
    core = selection.read("core")
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    missing = files - {selection.file_of(test) for test in core}
    assert not missing, (
        f"add a test of each to tests/selections/core.txt, or run `make core`: {missing}"
    )
    values = {
        "tests/ops/test_samples.py::test_kernel_gives_the_definition": OPS,
        "tests/ext/test_families.py::test_values": EXTENSIONS,
    }
    assert all(
        selection.has(core, f"{function}[{entry.op}]")
        for function, entries in values.items()
        for entry in entries
    )
