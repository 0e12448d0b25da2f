"""An in-place update must run after the other readers of its operand, unless a reader depends on the update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.llvm.update_order import UPDATE_OPS, delay_updates


def test_updates_run_after_other_readers() -> None:
    x = np.zeros((4, 5))

    def fn(x: Any) -> Any:
        y = x.at[1].set(0.0)
        z = x.at[2].set(1.0)
        return y, x[1] * 2.0, tnf.sum(y[0]), z, tnf.sum(x)

    program = tnf.compile(fn, x)
    (argument,) = program.input_slots
    order = delay_updates(program)
    assert sorted([step.outputs for step in order]) == sorted(
        [step.outputs for step in program.instructions]
    )
    written = set(program.input_slots)
    for step in order:
        assert written.issuperset(step.inputs)
        written.update(step.outputs)
    readers = [step for step in order if argument in step.inputs]
    assert isinstance(readers[-1].op, UPDATE_OPS)
    assert [argument in np.array(step.inputs)[list(step.last_use)] for step in readers] == [
        *[False] * (len(readers) - 1),
        True,
    ]


def test_programs_without_updates_keep_their_order() -> None:
    program = tnf.compile(lambda x: tnf.sin(x) * x, np.zeros((4, 5)))
    assert delay_updates(program) is program.instructions


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
def test_the_derivative_of_an_update_copies_nothing() -> None:
    """The derivative must read a row of the cotangent before it sets the row to zero in place."""
    size = 300

    def loss(x: Any) -> Any:
        table = tnf.fori_loop(0, size, lambda i, y: y.at[i].set(tnf.sin(x)), tnf.ones((size, size)))
        return tnf.sum(table * table)

    x = np.linspace(0.5, 1.0, size)
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(tnf.grad(loss), x)
    np.testing.assert_allclose(
        executor.run(program, x), 2 * size * np.sin(x) * np.cos(x), rtol=1e-12
    )
    text = executor.source(program, "llvm")
    assert not [line for line in text.splitlines() if "icmp slt" in line and f", {size**2}" in line]


def drawn(seed: int) -> Any:
    """Return a random function that updates arrays, and reads them between the updates."""
    random = np.random.default_rng(seed)

    def fn(x: Any) -> Any:
        values, read = [x], list[Any]()
        for k in range(8):
            y = values[random.integers(len(values))]
            if random.random() < 0.5:
                values.append(y.at[k % 4].set(float(k)))
            else:
                read.append(y * float(k + 2))
        return [*read, *[y for y in values[1:] if random.random() < 0.5], read[0] if read else x]

    return fn


@pytest.mark.parametrize("seed", range(12))
def test_updates_precede_readers_only_by_dependence(seed: int) -> None:
    program = tnf.compile(drawn(seed), np.zeros((4, 5)))
    before = list(program.instructions)
    place = {step.outputs: number for number, step in enumerate(before)}
    order = delay_updates(program)
    assert sorted([place[step.outputs] for step in order]) == list(range(len(before)))
    known, outputs = set(program.input_slots), set(program.output_slots)
    for step in order:
        assert known.issuperset(step.inputs)
        known.update(step.outputs)
    for number, step in enumerate(order):
        later = {slot for other in order[number + 1 :] for slot in other.inputs}
        assert list(step.last_use) == [
            slot not in later and slot not in outputs and slot not in step.inputs[position + 1 :]
            for position, slot in enumerate(step.inputs)
        ]
        if isinstance(step.op, UPDATE_OPS) and step.inputs[0] not in outputs:
            own = place[step.outputs]
            for reader in order[number + 1 :]:
                if step.inputs[0] in reader.inputs and not isinstance(reader.op, UPDATE_OPS):
                    between = before[own + 1 : place[reader.outputs] + 1]
                    assert any([step.outputs[0] in other.inputs for other in between])


def once(x: Any, _: Any) -> Any:
    y = x.at[1].set(0.0)
    return tnf.exp(tnf.sin(x)), y


def twice(x: Any, _: Any) -> Any:
    y, z = x.at[1].set(0.0), x.at[2].set(1.0)
    return tnf.exp(tnf.sin(x)), y, z


def read_again(x: Any, _: Any) -> Any:
    y = x.at[1].set(0.0)
    return tnf.exp(x * x), tnf.tanh(tnf.cos(x)), y


def needed(x: Any, _: Any) -> Any:
    y = x.at[1].set(0.0)
    return tnf.sin(x), tnf.exp(y), tnf.cos(x)


def returned(x: Any, _: Any) -> Any:
    y = x.at[1].set(0.0)
    return tnf.sin(x), y, x


def chained(x: Any, _: Any) -> Any:
    y = x.at[1].set(0.0)
    z = y.at[2].set(0.0)
    return tnf.sin(x), tnf.cos(y), tnf.exp(z), tnf.tanh(x)


def written_by_what_is_updated(x: Any, w: Any) -> Any:
    u = w.at[0].set(2.0)
    y = tnf.lax.dynamic_update_slice(x[0], w, (1,))
    return tnf.sin(x[0]), tnf.exp(x), u, y


def updated_and_written(x: Any, w: Any) -> Any:
    row = x[0]
    u = tnf.lax.dynamic_update_slice(w, w[:1], (1,))
    y = tnf.lax.dynamic_update_slice(row, w, (1,))
    return tnf.sin(row), tnf.exp(w * 2.0), tnf.cos(u), y, tnf.tanh(y)


def read_by_nothing_else(x: Any, w: Any) -> Any:
    return tnf.exp(w), x.at[1].set(0.0), tnf.cos(w)


def updated_alone(x: Any, w: Any) -> Any:
    return tnf.exp(w), x.at[1].set(0.0), x.at[2].set(0.0), tnf.cos(w)


@pytest.mark.parametrize(
    ("fn", "order"),
    [
        (read_by_nothing_else, "Exp Update Cos"),
        (updated_alone, "Exp Update Cos Update"),
        (once, "Sin Exp Update"),
        (twice, "Sin Exp Update Update"),
        (read_again, "Multiply Exp Cos Tanh Update"),
        (needed, "Sin Update Exp Cos"),
        (returned, "Update Sin"),
        (written_by_what_is_updated, "Sin Exp Update Update"),
        (updated_and_written, "Sin Multiply Exp Update Cos Update Tanh"),
        (chained, "Update Sin Cos Update Exp Tanh"),
    ],
)
def test_updates_with_other_readers_run_when_their_result_is_read(fn: Any, order: str) -> None:
    steps = delay_updates(tnf.compile(fn, np.zeros((4, 5)), np.zeros(3)))
    names = ["Update" if isinstance(step.op, UPDATE_OPS) else step.op.name for step in steps]
    wanted = {"Update", "Sin", "Cos", "Exp", "Tanh", "Multiply"}
    assert " ".join([name for name in names if name in wanted]) == order
