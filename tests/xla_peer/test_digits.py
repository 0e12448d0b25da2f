"""Reports of lost digits.

The first link must name the line of a planted cancellation, among 20 to 2,000 ops.
"""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
from tenferro import errors
from xla_peer import digits
from xla_peer.cli import app

RNG = np.random.default_rng(5)


def planted(folder: Path, ops: int, seed: int, in_loop: bool) -> tuple[Any, int]:
    """Write a function of about `ops` ops, one per line.

    One line cancels, and all others are harmless. Return the function and the number of this line.
    """
    rng = np.random.default_rng([seed, ops])
    harmless = [
        "y = tnf.tanh(y) * 0.9 + 0.3", "y = y / (1.0 + y * y)", "y = tnf.exp(-y) + 0.5",
        "y = tnf.sqrt(y * y + 1.0)", "y = tnf.where(y > 0, y, 0.1) + x",
    ]  # fmt: skip
    body = [harmless[int(rng.integers(len(harmless)))] for _ in range(ops // 3)]
    place = int(rng.integers(1, len(body)))
    body.insert(place, "y = (y + 1e7) - 1e7")
    lines = ["import tenferro as tnf", "def f(x):"]
    if in_loop:
        lines += [
            "    def body(y, x):",
            *[f"        {line}" for line in body],
            "        return y, y[0]",
        ]
        lines += ["    return tnf.scan(body, x[0], x)[0]"]
        first = 4
    else:
        lines += ["    y = x", *[f"    {line}" for line in body], "    return y"]
        first = 4
    path = folder / f"planted_{ops}_{seed}_{in_loop}.py"
    return function_of(path, lines), first + place


def function_of(path: Path, lines: list[str]) -> Any:
    """Write a module with these lines to a file, import the module, and return its function `f`."""
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def test_the_first_link_leads_to_the_planted_line(tmp_path: Path) -> None:
    hits = 0
    cases = [(20, 0), (20, 1), (60, 2), (200, 3), (200, 4), (700, 5), (2000, 6)]
    looped = [(20, 7), (60, 8), (200, 9)]
    for ops, seed in [*cases, *looped]:
        in_loop = (ops, seed) in looped
        f, line = planted(tmp_path, ops, seed, in_loop)
        x = RNG.uniform(0.2, 0.9, (5, 3) if in_loop else 4)
        report = digits(f, x)
        page = report.to_html()
        assert len(page) < 200_000
        link = re.search(r"<a href=\"#culprit\">[^<]*:(\d+)</a>", page)
        assert link is not None
        assert page.count('id="culprit"') == 1
        hits += int(link[1]) == line
    assert hits >= 9, hits


def test_what_is_lost_and_left() -> None:
    def f(x: Any) -> Any:
        y = x + 1e8
        return y - 1e8

    report = digits(f, np.array([0.1, 0.2]))
    assert report.culprit is not None
    assert report.culprit.op == "Subtract"
    assert report.culprit.lost == pytest.approx(math.log10(1e8 / 0.2), abs=1)
    assert report.left[0] == pytest.approx(16 - math.log10(1e8 / 0.2), abs=1.5)
    assert "return y - 1e8" in str(report)
    assert report.to_html().count("<h3>") == 1  # because both lines are in one file


def test_a_small_element_beside_a_large_one_loses_digits_of_its_own() -> None:
    shift = np.array([0.0, 1e8])

    def f(x: Any) -> Any:
        y = x + shift
        z = y - shift
        return tnf.sum(z[1:] * 2.0)

    report = digits(f, np.array([1e8, 0.1]))
    assert report.culprit is not None
    assert report.culprit.text.strip() == "z = y - shift"
    assert report.culprit.lost == pytest.approx(math.log10(1e8 / 0.1), abs=1)


def test_one_element_of_many_that_ends_near_zero_is_not_the_culprit() -> None:
    grid = np.linspace(-1.0, 1.0, 201) + 1e-13

    def f(x: Any) -> Any:
        y = x * 3.0 - 0.5
        z = (y + 1e5) - 1e5
        return tnf.exp(z)

    report = digits(f, grid)
    assert report.culprit is not None
    assert report.culprit.text.strip() == "z = (y + 1e5) - 1e5"


def test_a_page_of_many_long_lines_keeps_the_culprit(tmp_path: Path) -> None:
    lines = ["import tenferro as tnf", "def f(x):", "    y = x"]
    lines += [f"    y = tnf.tanh(y) + 0.5  # {'<' * 400}"] * 1500
    lines += ["    return y"]
    lines[1400] = "    y = (y + 1e7) - 1e7"
    f = function_of(tmp_path / "long_lines.py", lines)
    report = digits(f, np.array([0.3, 0.4]))
    page = report.to_html()
    assert len(page.encode()) < 200_000
    assert page.count('id="culprit"') == 1
    assert ":1401</a>" in page
    assert "that lose most" in page


def test_a_function_that_loses_nothing() -> None:
    report = digits(lambda x: tnf.exp(x) * 2.0, np.array([0.1, 0.2]))
    assert report.culprit is None
    assert "no line loses a digit" in report.to_html()
    assert report.left[0] > 14


def test_the_gradient_has_columns_of_its_own() -> None:
    def f(x: Any) -> Any:
        return tnf.sum(tnf.sqrt((x * x + 1e7) - 1e7 + 1.0))

    report = digits(f, np.array([0.5, 0.25]), grad=True)
    assert any(line.gradient_left is not None for line in report.lines)
    assert len(report.left) == 2


def test_integers_have_all_their_digits() -> None:
    assert digits(lambda x: x * 2, np.arange(3)).left == (math.inf,)


def test_values_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xla_peer.parity.movement.MOST_ELEMENTS", 10)
    with pytest.raises(errors.InvalidConfigError, match="smaller arrays"):
        digits(lambda x: tnf.exp(x) * 2.0, np.ones(20))


def test_the_command(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("def f(x):\n    return (x + 1e8) - 1e8\n")
    page = tmp_path / "digits.html"
    result = CliRunner().invoke(app, ["digits", f"{model}:f", "4xf64", "--html", str(page)])
    assert result.exit_code == 0, result.output
    assert "loses" in result.output
    assert "model.py:2" in page.read_text()
