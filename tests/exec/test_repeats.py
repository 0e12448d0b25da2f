"""Loops that were written out: one text for every turn, and each turn's own constants, kernels and lines."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec import straight_line
from tenferro.exec.repeats import Repeats
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family
from tenferro.types import flatten

LOOP = tnf.GraphExecutor(segmented=False)
TURNS = 60

CHOICES: list[Callable[..., Any]] = [
    lambda x, y, c: x + y,
    lambda x, y, c: x * c,
    lambda x, y, c: tnf.sin(x) - y,
    lambda x, y, c: tnf.transpose(x) + c,
    lambda x, y, c: x + tnf.sum(y, axis=0, keepdims=True),
    lambda x, y, c: tnf.maximum(x, y[::-1]),
    lambda x, y, c: x * tnf.max(x),
    lambda x, y, c: tnf.where(x > y, x, c),
]


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straight_line, "LONGEST", 40)
    monkeypatch.setattr(straight_line, "STEP", 20)


def written_lines(program: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """The generated functions, and how many lines were written for them one by one."""
    count = 0
    write = straight_line._Writer._line

    def counted(self: Any, position: int) -> str:
        nonlocal count
        count += 1
        return write(self, position)

    with monkeypatch.context() as patch:
        patch.setattr(straight_line._Writer, "_line", counted)
        line = tnf.GraphExecutor().compile(program).straight_line
    return line, count


@pytest.mark.parametrize("seed", range(12))
def test_any_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    body = [CHOICES[i] for i in rng.integers(len(CHOICES), size=rng.integers(1, 5))]
    constants = rng.normal(size=(TURNS, 3, 3))
    leaving = {int(i) for i in rng.integers(TURNS, size=rng.integers(0, 4))}

    def fn(x: Any, y: Any) -> Any:
        kept = []
        for turn in range(TURNS):
            for step in body:
                x, y = y, tnf.tanh(step(x, y, constants[turn]))
            if turn in leaving:
                kept.append(x)
        return x, y, kept

    x, y = rng.normal(size=(2, 3, 3))
    program = tnf.compile(fn, x, y)
    line, _ = written_lines(program, monkeypatch)
    assert len(line.parts) > 2
    found = tnf.GraphExecutor()
    for _ in range(3):
        expected, values = LOOP.run(program, x, y), found.run(program, x, y)
        for a, b in zip(flatten(expected)[0], flatten(values)[0], strict=True):
            np.testing.assert_array_equal(a, b)
    gradient = tnf.compile(tnf.grad(lambda x, y: tnf.sum(fn(x, y)[0] * 0.5)), x, y)
    np.testing.assert_array_equal(LOOP.run(gradient, x, y), found.run(gradient, x, y))


def test_what_repeats_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: Any) -> Any:
        for _ in range(500):
            x = x * x + x
        return x

    x = np.full(3, 1e-3)
    line, count = written_lines(tnf.compile(fn, x), monkeypatch)
    assert len(line.parts) == 50
    assert count <= 3 * straight_line.STEP
    assert [part.source.count(" = ") for part in line.parts] == [20] * 50
    line, count = written_lines(tnf.compile(tnf.grad(lambda x: tnf.sum(fn(x))), x), monkeypatch)
    assert len(line.parts) > 100
    assert count <= 200


def test_results_that_leave() -> None:
    def fn(x: Any) -> Any:
        kept = []
        for turn in range(100):
            x = tnf.sin(x + 1.0)
            if turn % 37 == 5:
                kept.append(x)
        return kept, x

    x = np.linspace(0, 1, 5)
    program = tnf.compile(fn, x)
    for found, expected in zip(
        flatten(tnf.GraphExecutor().run(program, x))[0],
        flatten(LOOP.run(program, x))[0],
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@extension_family("tenferro-tests", "fragile", version=1)
@dataclass(frozen=True)
class Fragile(ExtensionOp):
    """y = x + 1, as long as x is small."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        if inputs[0].max() > 70:
            raise RuntimeError("too large")
        return [inputs[0] + 1]


def test_an_error_in_a_later_turn_names_its_own_line() -> None:
    def fn(x: Any) -> Any:
        for _ in range(50):
            x = apply(Fragile(), x)
        for _ in range(50):
            x = apply(Fragile(), x)  # the second loop
        return x

    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(Fragile.family_id)])
    program = tnf.compile(fn, np.zeros(2))
    assert len(executor.compile(program).straight_line.parts) == 5
    executor.run(program, -np.ones(2) * 40)
    with pytest.raises(errors.BackendFailureError, match="too large") as caught:
        executor.run(program, np.zeros(2))
    place = next(line for line in str(caught.value).splitlines() if "test_repeats" in line)
    number = int(place.rpartition(".py:")[2].split()[0])
    assert "the second loop" in Path(__file__).read_text().splitlines()[number - 1]


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("words", ["add", "add", "mul", "add", "add", "sub"]),
        ("reads", [(0, 0), (1,), (1, 2), (3, 3), (4,), (5, 4)]),
        ("last_read", [3, 2, 2, 6, 5, 6, 6]),
        ("marks", [0, 0, 0, 0, 0, 1, 0]),
    ],
)
def test_stretches_that_differ(change: str, value: Any) -> None:
    alike = {
        "words": ["add", "add", "mul"] * 2,
        "functions": [np.add, np.add, np.multiply] * 2,
        "reads": [(0, 0), (1,), (1, 2), (3, 3), (4,), (4, 5)],
        "makes": [(1,), (2,), (3,), (4,), (5,), (6,)],
        "last_read": [0, 2, 2, 3, 5, 5, 6],
        "marks": [0] * 7,
    }
    repeats = Repeats(**alike)
    assert repeats.key(0, 3) == repeats.key(3, 6)
    assert repeats.key(0, 2) != repeats.key(0, 3)
    assert Repeats(**alike | {change: value}).key(0, 3) != Repeats(**alike | {change: value}).key(
        3, 6
    )
    # Two kernels for one, and one for two.
    two = Repeats(**alike | {"functions": [np.add, np.add, np.multiply, np.add, np.sin, np.cos]})
    assert two.key(0, 3) != two.key(3, 6)
    others = Repeats(**alike | {"functions": [np.add, np.add, np.multiply, np.sin, np.sin, np.cos]})
    assert others.key(0, 3) == others.key(3, 6)
