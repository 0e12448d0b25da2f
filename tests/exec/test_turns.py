"""What a turn of a printed loop is, by looking at its text and its schedule."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec.kernels.buffered import FEW, has_zeros, maximum
from tenferro.exec.loop import LoopFunction
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family

X = np.linspace(0.1, 1.0, 6)
MANY = np.linspace(0.1, 1.0, 12)
EXECUTOR = tnf.GraphExecutor("K", compiled=False)
BY_STEPS = tnf.GraphExecutor("K", compiled=False, segmented=False)


def source(function: Any, *arrays: Any) -> str:
    """The text of a loop."""
    texts = EXECUTOR.source(tnf.compile(function, *arrays)).split("\n\n")
    return next(text for text in texts if text.startswith(("def scan", "def while")))


def test_an_element_at_a_counter_is_a_subscript_in_place() -> None:
    text = source(lambda x: tnf.fori_loop(0, 6, lambda i, c: c.at[i].set(c[i] * 2.0), x), X)
    assert "Scatter" not in text
    assert "Gather" not in text
    assert "clamped" not in text
    assert text.count(".copy(") == 1  # the first value of the carry, before the loop
    assert text.index(".copy(") < text.index("for ")


def test_an_index_that_is_not_known_is_clamped() -> None:
    places = np.array([0, 9, 2])
    text = source(lambda x, p: tnf.scan(lambda c, i: (c + x[i], None), 0.0, p)[0], X, places)
    assert "clamped" in text


def test_what_is_read_afterwards_is_not_written_over() -> None:
    text = source(lambda x: tnf.fori_loop(0, 5, lambda i, c: c.at[i].set(1.0) * c, x), X)
    body = text[text.index("for ") :]
    assert "Scatter" in body


def test_a_change_waits_until_what_it_writes_over_is_read() -> None:
    def turn(i: Any, c: Any) -> Any:
        first = c.at[i].set(1.0)
        second = first.at[i + 1].set(2.0)
        return second + 0.5 * c

    function = lambda x: tnf.fori_loop(0, 5, turn, x)
    text = source(function, X)
    body = text[text.index("for ") :]
    assert "Scatter" not in body
    assert body.index("multiply") < body.index("] = ")
    program = tnf.compile(function, X)
    assert EXECUTOR.run(program, X).tobytes() == BY_STEPS.run(program, X).tobytes()


ZEROS = np.array([0.0, -0.0, -0.0, 1.0, -0.0, 0.0])


@pytest.mark.parametrize(
    ("turn", "start", "is_added"),
    [
        (lambda i, c, x: c + tnf.zeros_like(c).at[i].add(c[i] * x[i]), np.zeros(6), False),
        (lambda i, c, x: tnf.zeros_like(c).at[i].add(c[i] * x[i]) + c, np.zeros(6), False),
        (lambda i, c, x: c + tnf.zeros_like(c).at[i].add(c[i] * x[i]), ZEROS, True),
        (lambda i, c, x: -c + tnf.zeros_like(c).at[i].add(c[i] * x[i]), np.zeros(6), True),
        (lambda i, c, x: (c * x + tnf.zeros_like(c).at[i].add(c[i] * x[i])) + tnf.zeros_like(c).at[5 - i].add(c[i] * x[i]), ZEROS, True),
        (lambda i, c, x: c + (tnf.zeros_like(c).at[i].add(c[i] * x[i]) + tnf.zeros_like(c).at[5 - i].add(c[i])), np.zeros(6), True),
        (lambda i, c, x: c + (-tnf.zeros_like(c)).at[i].add(c[i] * x[i]), np.zeros(6), None),
        (lambda i, c, x: c + tnf.ones_like(c).at[i].add(c[i] * x[i]), np.zeros(6), None),
        (lambda i, c, x: c + tnf.zeros_like(c).at[i].multiply(c[i]), np.zeros(6), None),
    ],
)  # fmt: skip
def test_a_window_is_added_to_zeros_in_place(turn: Any, start: Any, is_added: bool | None) -> None:
    """A sum with zeros but in a window: 0.0 is added by itself where a -0.0 may be."""
    function = lambda c, x: tnf.scan(lambda c, i: (turn(i, c, x), None), c, np.arange(6))[0]
    for constant in (True, False):
        wanted = (lambda x: function(start, x)) if constant else function
        arrays = (ZEROS,) if constant else (start, ZEROS)
        program = tnf.compile(wanted, *arrays)
        assert EXECUTOR.run(program, *arrays).tobytes() == BY_STEPS.run(program, *arrays).tobytes()
    if is_added is not None:
        text = source(lambda x: function(start, x), ZEROS)
        body = text[text.index("for ") :]
        assert "] += " in body
        assert ("add(" in body) == is_added


@pytest.mark.parametrize("read", [lambda y, z: y + z, lambda y, z: z - y * 2.0, lambda y, z: z])
def test_changes_of_changes_are_made_in_their_order(read: Any) -> None:
    def turn(i: Any, c: Any) -> Any:
        y = c.at[i].set(1.0)
        return read(y, y.at[i + 1].set(c[i] * 2.0))

    program = tnf.compile(lambda x: tnf.fori_loop(0, 5, turn, x), X)
    expected = X
    for i in range(5):
        y, z = expected.copy(), expected.copy()
        y[i] = z[i] = 1.0
        z[i + 1] = expected[i] * 2.0
        expected = read(y, z)
    np.testing.assert_array_equal(EXECUTOR.run(program, X), expected)


def test_what_a_view_looks_at_is_not_written_over() -> None:
    def turn(i: Any, c: Any) -> Any:
        half = c[:3]
        changed = c.at[i].set(9.0)
        return changed * tnf.concatenate([half, half])

    program = tnf.compile(lambda x: tnf.fori_loop(0, 3, turn, x), X)
    assert EXECUTOR.run(program, X).tobytes() == BY_STEPS.run(program, X).tobytes()


def test_views_of_what_stays_are_made_once() -> None:
    text = source(lambda x: tnf.scan(lambda c, _: (c * x[2], None), x, None, length=9)[0], MANY)
    assert text.index(".item(2)") < text.index("for ")


@pytest.mark.parametrize(
    ("turn", "is_copied"),
    [
        (lambda c, row: (c + row * 2.0, c[0]), False),
        (lambda c, row: (c + tnf.sin(row), c[0]), True),
        (lambda c, row: (c + row * 2.0, row), True),
        (lambda c, row: (row, c[0] + row[0]), True),
    ],
)
def test_a_window_is_read_where_it_lies_by_what_gives_the_same_bits_there(
    turn: Any, is_copied: bool
) -> None:
    x = np.arange(40.0).reshape(4, 10).T
    places = np.array([3, 1, 7])
    text = source(lambda x, p: tnf.scan(lambda c, i: turn(c, x[i]), x[0], p), x, places)
    assert ("contiguous(" in text) == is_copied


def test_a_number_is_an_array_where_a_step_on_arrays_reads_it() -> None:
    def turn(c: Any, _: Any) -> Any:
        number = c[0] * c[1]
        return c * number, number + 1.0

    text = source(lambda x: tnf.scan(turn, x, None, length=9), MANY)
    (operands,) = re.findall(r" = multiply\((\w+), (\w+)", text)
    assert any(f" {name} = asarray(" in text for name in operands)


def test_a_number_is_made_an_array_once() -> None:
    def turn(c: Any, _: Any) -> Any:
        number = c[0] * c[1]
        return (c * number + 2.0) / number, number + 1.0

    assert source(lambda x: tnf.scan(turn, x, None, length=9), MANY).count("= asarray(") == 1


def test_choices_that_are_decided_are_no_steps() -> None:
    """Of the gradient at a tie: 0 is no infinity, so that the conjunction is never true."""
    smooth = tnf.grad(lambda c: tnf.sum(tnf.logaddexp(0.0, c)))
    function = lambda x: tnf.scan(lambda c, _: (c - 0.5 * smooth(c), None), x, None, length=3)[0]
    text = source(function, X)
    assert "Logistic" in text
    assert "Select" not in text
    assert "bitwise_and" not in text
    program = tnf.compile(function, X)
    assert EXECUTOR.run(program, X).tobytes() == BY_STEPS.run(program, X).tobytes()


def test_the_schedule_shows_the_turns() -> None:
    program = tnf.compile(lambda x: tnf.fori_loop(0, 6, lambda i, c: c.at[i].set(0.0), x), X)
    (step,) = [
        step for step in EXECUTOR.compile(program).instructions
        if isinstance(step.function, LoopFunction)
    ]  # fmt: skip
    assert step.function.loop.counters == {0}
    assert step.function.loop.copied == {1: "C"}
    assert "over %" in str(step.parts[0])


def test_a_group_of_a_turn_is_the_steps_that_write_over_what_dies() -> None:
    """Column times row is left to NumPy, and nothing is cut into tiles."""
    a = np.linspace(-1.0, 1.0, 300 * 300).reshape(300, 300)

    def turn(i: Any, a: Any) -> Any:
        return tnf.minimum(a - a[:, i][:, None] * a[i], 2.0)

    program = tnf.compile(lambda a: tnf.fori_loop(0, 3, turn, a), a)
    text = EXECUTOR.source(program)
    assert "Tiles" not in text
    assert "BroadcastInDim" not in text
    assert re.search(r"= subtract\((\w+), (\w+), out=(\1|\2)\)", text)
    assert EXECUTOR.run(program, a).tobytes() == BY_STEPS.run(program, a).tobytes()
    y = a.copy()
    for i in range(3):
        y = np.minimum(y - y[:, i, None] * y[i], 2.0)
    assert EXECUTOR.run(program, a).tobytes() == y.tobytes()


@pytest.mark.parametrize(
    ("size", "function"),
    [
        (300, lambda a: a / tnf.sum(a * a, axis=1, keepdims=True)),  # sums of products have bits of their own
        (300, lambda a: tnf.where(a > 0, a, a * 0.5)),  # a choice in a buffer guesses for no element
        (1000, lambda a: a * 0.5 + 1.0),  # threads share it
    ],
)  # fmt: skip
def test_a_group_of_a_turn_that_saves_time_stays(size: int, function: Any) -> None:
    a = np.linspace(-1.0, 1.0, size * size).reshape(size, size)
    assert "Tiles" in source(lambda a: tnf.fori_loop(0, 3, lambda _, a: function(a), a), a)


@extension_family("tenferro-tests", "worn_in_turns", version=1)
@dataclass(frozen=True)
class Worn(ExtensionOp):
    """y = x, until it fails."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        if inputs[0].min() < 0:
            raise RuntimeError("worn out")
        return [inputs[0] * 1]


def test_an_error_in_an_inner_loop_names_its_line() -> None:
    def inner(_: Any, c: Any) -> Any:
        return apply(Worn(), c) - 0.3  # the line that fails

    def function(x: Any) -> Any:
        return tnf.fori_loop(0, 2, lambda _, c: tnf.fori_loop(0, 2, inner, c) + 0.0, x)

    program = tnf.compile(function, X)
    executor = tnf.GraphExecutor(
        "K", compiled=False, runtimes=[HostReferenceRuntime(Worn.family_id)]
    )
    for _ in range(2):
        executor.run(program, X + 2.0)
        with pytest.raises(errors.BackendFailureError, match="worn out") as caught:
            executor.run(program, X)
        place = str(caught.value).rpartition(".py:")[2]
        line = Path(__file__).read_text().splitlines()[int(place.split()[0]) - 1]
        assert "the line that fails" in line


@pytest.mark.parametrize("size", [3, FEW + 1])
def test_zeros_of_few_and_of_many_elements(size: int) -> None:
    x = np.ones(size)
    assert not has_zeros(x)
    x[-1] = np.nan
    assert not has_zeros(x)
    x[0] = -0.0
    assert has_zeros(x)
    y = np.zeros(size)
    assert not np.signbit(maximum(x, y)[0])
    assert not np.signbit(maximum(y, x)[0])


def test_lines_are_those_of_their_steps_and_of_the_loops_around() -> None:
    def outer(_: Any, c: Any) -> Any:
        c = tnf.fori_loop(0, 2, lambda _, u: tnf.tanh(u), tnf.exp(c))
        c = tnf.fori_loop(0, 3, lambda _, u: tnf.sqrt(u), tnf.sin(c))
        return tnf.cos(c)

    program = tnf.compile(lambda x: tnf.fori_loop(0, 2, outer, x), X)
    (step,) = [
        step for step in EXECUTOR.compile(program).instructions
        if isinstance(step.function, LoopFunction)
    ]  # fmt: skip
    printer = step.function._printer()
    lines = printer.source("turn").splitlines()
    steps = {line.strip().partition("(")[0].partition(" = ")[2]: printer.steps[number]
             for number, line in enumerate(lines, 1) if number in printer.steps}  # fmt: skip
    around = {"exp": [], "tanh": [2], "sin": [], "sqrt": [3], "cos": []}
    for name, lengths in around.items():
        first, *loops = steps[name]
        assert (first.op.name.lower(), [loop.op.length for loop in loops]) == (name, lengths)
    assert len(lines) == max(printer.steps)
    assert printer.steps[len(lines)] == ()


def test_rows_of_an_inner_loop_that_do_not_fit_name_its_line() -> None:
    def outer(_: Any, c: Any) -> Any:
        rows = tnf.scan(lambda u, _: (u, u), c, None, length=1 << 50)[1]  # the rows that do not fit
        return c + rows[0]

    program = tnf.compile(lambda x: tnf.fori_loop(0, 2, outer, x), X)
    for _ in range(2):
        with pytest.raises(errors.BackendFailureError, match=r"Scan: the kernel for .* failed") as caught:  # fmt: skip
            EXECUTOR.run(program, X)
        place = str(caught.value).rpartition(".py:")[2]
        line = Path(__file__).read_text().splitlines()[int(place.split()[0]) - 1]
        assert "the rows that do not fit" in line


def test_the_text_of_a_program_is_python() -> None:
    """A function for the steps, and one for each loop, branch and group."""

    def fn(x: Any, big: Any) -> Any:
        def turn(c: Any, _: Any) -> Any:
            return tnf.cond(c[0] > 0, tnf.tanh, tnf.negative, c), None

        y = tnf.scan(turn, x, None, length=3)[0]
        z = tnf.cond(y[0] > 0, lambda y: tnf.sin(y), lambda y: tnf.cos(y), y)
        return z, tnf.exp(big) * big + 1.0

    big = np.ones((512, 512))
    text = EXECUTOR.source(tnf.compile(fn, X, big))
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert names == re.findall(r"^def (\w+)", text, re.MULTILINE)
    kinds = sorted(re.sub(r"\d+", "n", name) for name in names)
    assert kinds == ["cond_n_n_n", "cond_n_n_n", "run_n", "scan_n", "tiles_n_n"]
    assert sorted(name[-4:] for name in names if name.startswith("cond")) == ["_0_0", "_1_0"]


@pytest.mark.parametrize(
    ("period", "steps", "starts"),
    [
        (1, 1000, [0]), (1, 1001, [0, 250, 500, 750, 1000]), (3, 1100, [0, 249, 498, 747, 996]),
        (125, 1100, [0, 250, 500, 750, 1000]), (126, 1100, [0, 882]), (300, 1500, [0, 900]),
    ],
)  # fmt: skip
def test_long_programs_are_cut_where_they_repeat_themselves(
    period: int, steps: int, starts: list[int]
) -> None:
    def fn(x: Any) -> Any:
        for number in range(steps):
            x = tnf.cos(x) if number % period == 0 else tnf.sin(x)
        return x

    x = np.array([0.5, -0.25])
    program = tnf.compile(fn, x)
    text = EXECUTOR.source(program)
    assert [int(start) for start in re.findall(r"^def run_(\d+)", text, re.MULTILINE)] == starts
    y = x
    for number in range(steps):
        y = np.cos(y) if number % period == 0 else np.sin(y)
    for _ in range(2):
        np.testing.assert_array_equal(EXECUTOR.run(program, x), y)
