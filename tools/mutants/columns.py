"""Tests that belong to each mutated folder: its own test files (its column), and the tests of its layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

__all__ = ["FOLDERS", "is_of_column", "is_of_floor", "units_within"]

FOLDERS: dict[str, tuple[str, ...]] = {
    "tenferro/ad": ("tests/ad", "tests/points"),
    "tenferro/exec": (
        "tests/exec",
        "tests/ops/test_samples.py",
        "tests/test_printed_programs.py",
        "tests/test_replay.py",
        "tests/test_check_finite.py",
        "tests/test_native_limits.py",
    ),
    "tenferro/passes": ("tests/passes",),
    "tenferro/program": (
        "tests/test_program.py",
        "tests/test_wrong_input.py",
        "tests/test_extents.py",
        "tests/test_programs_in_traces.py",
        "tests/test_identity.py",
        "tests/test_reprs.py",
        "tests/test_files.py",
        "tests/test_interruption.py",
        "tests/test_drawing.py",
    ),
    "tenferro/ext": ("tests/ext",),
    "lowering/families": ("tests/lowering/test_linalg.py", "tests/lowering/test_module.py"),
    "lowering/numpy_source": ("tests/lowering/test_to_numpy.py",),
    "lowering/syntax": ("tests/lowering/test_syntax.py", "tests/lowering/test_import_by_specification.py"),
    "xla_peer/parity": tuple(
        f"tests/xla_peer/test_{name}.py"
        for name in (
            "confidence", "definitions", "digits", "error_bounds", "parity", "parity_bounds", "parity_special",
            "flipping", "report", "untouched", "verdicts",
        )
    ),
    "lowering/emit": ("tests/ops/test_parity.py", "tests/lowering/test_module.py", "tests/lowering/test_traps.py"),
    "lowering/read": tuple(
        f"tests/lowering/test_import{suffix}.py"
        for suffix in (
            "", "_arg_reductions", "_assertions", "_composites", "_conversions", "_forms", "_lapack",
            "_operations", "_scatters", "_symbolic", "_total_order",
        )
    ),
}  # fmt: skip
"""Test files of each mutated folder. The doctests in the folder belong to the folder, too."""
ABOVE = {"tenferro": ("tests/lowering", "tests/xla_peer", "lowering", "xla_peer")}
"""Tests of the packages above each package. They are not run against mutants of the lower package."""


def _is_in(test: str, places: tuple[str, ...]) -> bool:
    path = PurePosixPath(test.partition("::")[0])
    return any(path.is_relative_to(place) for place in places)


def is_of_column(test: str, folder: str) -> bool:
    """Tell from its name whether a test is in the test files of a folder, or is a doctest in the folder."""
    return _is_in(test, (*FOLDERS[folder], folder))


def is_of_floor(test: str, folder: str) -> bool:
    """Tell whether a test belongs to the layer of a folder, but not to the folder itself."""
    package = folder.partition("/")[0]
    return not _is_in(test, ABOVE.get(package, ())) and not is_of_column(test, folder)


def units_within(units: Sequence[str], places: Sequence[str]) -> list[str]:
    """Return the units (test files, or folders with doctests) that are among `places` or inside one of them.

    Raises:
        ValueError: an element of `places` contains no unit.
    """
    for path in places:
        if not any(PurePosixPath(unit).is_relative_to(path) for unit in units):
            raise ValueError(f"no tests are recorded within {path}")
    return [unit for unit in units if any(map(PurePosixPath(unit).is_relative_to, places))]
