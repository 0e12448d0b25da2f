"""Drawings of programs as graphs and pages, and profiles of time and memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.program.profile import InstructionProfile, Profile, shown_bytes, shown_seconds
from tools.browser import BROWSER, shown


def step(w: Any, x: Any) -> Any:
    h = x
    for _ in range(3):
        h = tnf.tanh(h @ w) * 0.5
    return tnf.sum(h * h)


W, X = np.ones((8, 8)), np.ones((16, 8))
PROGRAM = tnf.compile(tnf.value_and_grad(step), W, X)


def dom(page: str, folder: Path) -> str:
    """Return the document of a page in a browser, after the page's scripts have run."""
    return shown(page, folder, "--dump-dom")


def test_dot_has_a_node_for_every_box_and_an_arrow_for_every_operand() -> None:
    program = tnf.compile(lambda x, y: (x + y) * 2.0, np.ones(2), np.ones(2))
    text = program.to_dot()
    assert text.count("fillcolor") == 2 + 2 + 1
    assert text.count("->") == 2 + 1 + 1
    assert "(·, 2.0)" in text
    assert text.count("{") == text.count("}") == 1


def test_dot_escapes_what_names_may_hold() -> None:
    program = tnf.compile(lambda x: {'a"b\\': -x}, np.ones(2), name='q"')
    quoted = re.findall(r'"(?:[^"\\]|\\.)*"', program.to_dot())
    assert '"q\\""' in quoted
    assert any('a\\"b' in text for text in quoted)


def test_the_page_is_complete_in_itself_and_safe() -> None:
    program = tnf.compile(lambda x: {"</script><b>": -x}, np.ones(2), name="<i>")
    page = program.to_html()
    assert page.count("</script>") == 1
    assert "<i>" not in page
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(", page)
    assert "srcdoc" in program._repr_html_()


def boxes(page: str) -> dict[str, dict[str, Any]]:
    """Return the data that a page stores for each box of its drawing. The keys are the names of the boxes."""
    start = page.index('{"name":')
    return {box["name"]: box for box in json.JSONDecoder().raw_decode(page[start:])[0]["boxes"]}


def layer(x: Any) -> Any:
    return tnf.sin(x)


def test_hovering_tells_all_of_a_box() -> None:
    line = layer.__code__.co_firstlineno + 1
    page = tnf.compile(lambda x: layer(x), np.ones(2)).to_html()
    assert boxes(page)["Sin"] == {
        "kind": "op", "name": "Sin", "detail": "Sin", "gives": ["f64[2]"], "takes": [0],
        "file": "test_drawing.py", "line": line, "function": "layer", "of": "",
        "seconds": None, "bytes": None, "inside": [],
    }  # fmt: skip
    of_gradient = boxes(tnf.compile(tnf.grad(lambda x: tnf.sum(layer(x))), np.ones(2)).to_html())
    assert (of_gradient["Cos"]["of"], of_gradient["Cos"]["line"]) == ("Sin", line)
    argument = boxes(page)["x"]
    assert (argument["kind"], argument["file"], argument["line"]) == ("input", "", 0)


def test_the_body_of_a_loop_is_told_in_order() -> None:
    def turn(i: Any, x: Any) -> Any:
        return tnf.cond(x[0] > 0, lambda: tnf.exp(tnf.sin(x)), lambda: tnf.cos(x))

    page = tnf.compile(lambda x: tnf.fori_loop(0, 2, turn, x), np.ones(4)).to_html()
    (inside,) = [box["inside"] for box in boxes(page).values() if box["inside"]]
    names = [line.split("(")[0].split(" ->")[0] for line in inside]
    branches = names.index("  Cond")
    assert names[branches + 1 : branches + 4] == ["    Cos", "    Sin", "    Exp"]


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_a_browser_draws_it(tmp_path: Path) -> None:
    drawn = dom(PROGRAM.to_html(), tmp_path)
    assert 'data-drawn="yes"' in drawn
    assert drawn.count('class="folded"') >= 2
    assert "result[1]" in drawn
    assert "in step" not in drawn  # because no box is selected
    small = dom(
        tnf.compile(lambda x: tnf.sin(x), np.ones(2)).profile(np.ones(2)).to_html(), tmp_path
    )
    assert small.count("<rect") == 3 + 1
    assert "memory alive after each op" in small
    assert "f64[2]" in small


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_a_browser_draws_programs_without_ops_and_large_ones(tmp_path: Path) -> None:
    assert 'data-drawn="yes"' in dom(tnf.compile(lambda x: x, np.ones(2)).to_html(), tmp_path)
    assert 'data-drawn="yes"' in dom(tnf.compile(lambda: np.ones(2)).to_html(), tmp_path)

    def long(x: Any) -> Any:
        for _ in range(4000):
            x = tnf.sin(x)
        return x

    assert 'data-drawn="yes"' in dom(tnf.compile(long, np.ones(2)).to_html(), tmp_path)


def test_a_profile_counts_every_instruction_and_its_memory() -> None:
    x = np.ones((64, 32))
    program = tnf.compile(lambda x: tnf.sum(tnf.exp(x).T * 2.0), x)
    profile = program.profile(x, runs=3)
    assert len(profile.instructions) == len(profile.program.instructions)
    assert profile.runs == 3
    assert all(row.seconds > 0 for row in profile.instructions)
    by_name = {row.op.partition("(")[0]: row for row in profile.instructions}
    assert by_name["Exp"].made_bytes == x.nbytes
    assert by_name["Exp"].moved_bytes == 2 * x.nbytes
    assert by_name["Transpose"].made_bytes == 0
    assert profile.peak_bytes >= 3 * x.nbytes
    assert profile.peak_bytes < 3 * x.nbytes + 64
    assert "test_drawing.py" in str(profile)
    assert profile.to_dict()["peak_bytes"] == profile.peak_bytes


def test_profiles_and_pages_reach_into_loops() -> None:
    x = np.ones((8, 8))

    def fn(x: Any) -> Any:
        def turn(c: Any, _: Any) -> Any:
            return tnf.cond(tnf.sum(c) > 0, tnf.tanh, lambda y: y, c @ x), None

        return tnf.scan(turn, x, None, length=3)[0]

    program = tnf.compile(fn, x)
    profile = program.profile(x, runs=2)
    rows = {row.op.partition("(")[0]: row for row in profile.instructions}
    assert (rows["Scan"].depth, rows["DotGeneral"].depth, rows["Tanh"].depth) == (0, 1, 2)
    assert (rows["Scan"].executions, rows["DotGeneral"].executions, rows["Tanh"].executions) == (
        1,
        3,
        3,
    )
    assert rows["Tanh"].seconds < rows["Cond"].seconds < rows["Scan"].seconds == profile.seconds
    assert "Tanh x 3" in str(profile)
    assert "Tanh -> f64[8,8]: " in profile.to_html()
    assert "Tanh -> f64[8,8]" in program.to_html()


def test_profiles_of_gradients_name_the_forward_op() -> None:
    assert "derivative of Tanh" in PROGRAM.profile(W, X, runs=1).table(100)
    assert "derivative of DotGeneral" in str(PROGRAM)


def test_profiles_of_wrong_input() -> None:
    with pytest.raises(errors.ArityError):
        PROGRAM.profile(W)
    with pytest.raises(errors.InvalidConfigError, match="runs"):
        PROGRAM.profile(W, X, runs=0)
    empty = tnf.compile(lambda x: x, np.ones(2)).profile(np.ones(2))
    assert (empty.seconds, empty.peak_bytes) == (0, 0)
    assert "0 instructions" in str(empty)


def test_what_is_inside_of_a_loop_is_set_in_by_its_depth() -> None:
    def twice(x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda i, y: tnf.fori_loop(0, 3, lambda j, z: tnf.sin(z), y), x)

    page = tnf.compile(twice, np.ones(4)).to_html()
    assert re.search(r'"  (Scan|While)[^"]*"', page)
    assert '"    Sin -> f64[4]"' in page


def test_a_profile_is_printed_in_columns() -> None:
    """A printed profile must list the slowest ops first.

    Their percentages are of the time outside of loops.
    """
    program = tnf.compile(lambda x: x, np.ones(2), name="given")
    profile = Profile(
        program,
        (
            InstructionProfile("Sin", "f64[9]", "/a/b/c.py:3", 2.5e-4, 1536, 2_000_000, 4096),
            InstructionProfile("A" * 41, "f64[]", "", 7.5e-4, 0, 3_000_000, 1 << 20),
            InstructionProfile("B" * 40, "f64[]", "x.py:1", 0.0, 1 << 30, 5, 1 << 18, 2, 7),
            InstructionProfile("Cos", "f64[2]", "x.py:2", 2.0, 1023, 1000, 1 << 22, 1, 3),
        ),
        3,
    )
    assert profile.seconds == 1e-3
    assert repr(profile) == (
        "<Profile of given: 4 instructions, 1 ms, median of 3 runs; at most 4.0 MiB alive>"
    )
    assert [line.split() for line in profile.table(3).splitlines()] == [
        [
            "given:",
            "4",
            "instructions,",
            "1",
            "ms,",
            "median",
            "of",
            "3",
            "runs;",
            "at",
            "most",
            "4.0",
            "MiB",
            "alive",
        ],
        ["share", "time", "GB/s", "made", "op", "line"],
        ["200000.0%", "2.00", "s", "5e-07", "1023", "B", "Cos", "x", "3", "->", "f64[2]", "x.py:2"],
        ["75.0%", "750.0", "us", "4", "0", "B", "A" * 38 + "..", "->", "f64[]"],
        ["25.0%", "250.0", "us", "8", "1.5", "KiB", "Sin", "->", "f64[9]", "c.py:3"],
        ["..", "and", "1", "faster", "ones"],
        ["memory", "|▁▂|"],
    ]
    header, nested, longest, plain = profile.table(3).splitlines()[1:5]
    assert (
        header.index("op") == plain.index("Sin") == longest.index("AAA") == nested.index("Cos") - 2
    )
    assert header.index("made") + 4 == plain.index("1.5 KiB") + 7 == longest.index("0 B") + 3
    assert ".." not in str(profile).splitlines()[-2]
    last = str(profile).splitlines()[-2]
    assert f"    {'B' * 40} x 7 -> f64[]" in last
    assert last.split()[:4] == ["0.0%", "0.0", "us", "0"]
    assert "1.0 GiB" in last


@pytest.mark.parametrize("count", [1, 2, 7, 71, 72, 73, 200])
def test_memory_over_time_shows_each_peak(count: int) -> None:
    program = tnf.compile(lambda x: x, np.ones(2))
    for place in {0, count // 2, count - 1}:
        live = [100] * count
        live[place] = 800
        rows = [InstructionProfile("Sin", "f64[]", "", 1.0, 0, 0, each) for each in live]
        line = Profile(program, tuple(rows), 1).memory_timeline()
        assert len(line) == min(count, 72)
        assert line.count("█") == 1
        assert line.index("█") == pytest.approx(place * len(line) / count, abs=1)
        assert set(line) <= set("▁█")
    assert Profile(program, (), 1).memory_timeline() == ""
    for most, bars in ((0, "  "), (1, " █"), (16, " █"), (17, " █")):
        rows = [InstructionProfile("Sin", "f64[]", "", 1.0, 0, 0, each) for each in (0, most)]
        assert Profile(program, tuple(rows), 1).memory_timeline() == bars


def test_bars_are_rounded_up() -> None:
    program = tnf.compile(lambda x: x, np.ones(2))
    live = [0, 1, 200, 201, 400, 600, 601, 800, 1000, 1200, 1400, 1401, 1599, 1600]
    rows = [InstructionProfile("Sin", "f64[]", "", 1.0, 0, 0, each) for each in live]
    assert Profile(program, tuple(rows), 1).memory_timeline() == " ▁▁▂▂▃▄▄▅▆▇███"


def test_durations_and_sizes_are_shown_in_the_unit_that_fits() -> None:
    seconds = {0.0: "0.0 us", 9.994e-4: "999.4 us", 1e-3: "1 ms", 0.9994: "999 ms", 1.0: "1.00 s"}
    sizes = {
        1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", (1 << 20) - 1024: "1023.0 KiB", 1 << 20: "1.0 MiB",
        1 << 30: "1.0 GiB", 5 << 40: "5120.0 GiB",
    }  # fmt: skip
    assert {number: shown_seconds(number) for number in seconds} == seconds
    assert {number: shown_bytes(number) for number in sizes} == sizes


def test_times_are_medians_of_all_runs_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [100.0, 1.0, 5.0, 2.0]
    ticks = iter([moment for n in seconds for moment in (10.0, 10.0 + n)])
    monkeypatch.setattr("tenferro.exec.profiling.time.perf_counter", lambda: next(ticks))
    x = np.ones(3)
    (row,) = tnf.compile(lambda x: tnf.exp(x), x).profile(x, runs=3).instructions
    assert (row.seconds, row.executions) == (2.0, 1)


def test_times_of_turns_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def tick() -> float:
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr("tenferro.exec.profiling.time.perf_counter", tick)
    x = np.ones(3)
    program = tnf.compile(
        lambda x: tnf.scan(lambda c, _: (tnf.exp(c), None), x, None, length=4)[0], x
    )
    scan, exp = program.profile(x, runs=1).instructions
    # The fake clock counts its calls. It is read twice in each iteration, and once before and once after the loop.
    assert (exp.seconds, exp.executions, scan.seconds) == (4.0, 4, 9.0)
    assert (scan.depth, exp.depth) == (0, 1)
    assert (exp.made_bytes, exp.moved_bytes) == (24, 48)


def test_profiles_of_symbolic_programs_are_of_the_shapes_that_run() -> None:
    program = tnf.compile(lambda x: tnf.exp(x[1:]), tnf.TensorSpec(("n",), "float64"))
    for n in (3, 5):
        rows = program.profile(np.ones(n), runs=1).instructions
        assert rows[-1].types == f"f64[{n - 1}]"
        assert rows[-1].moved_bytes == 16 * (n - 1)
