"""Handwritten training loops on eager tensors.

Inside `no_grad` nothing is recorded, and variables are updated in place.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from xla_peer import XlaExecutor


@pytest.fixture
def rt() -> tnf.EagerRuntime:
    return tnf.EagerRuntime()


def test_nothing_is_recorded_under_no_grad(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0, 2.0])
    with tnf.no_grad():
        y = tnf.sum(w * w + tnf.exp(w)[0])
        z = tnf.grad(lambda a: tnf.sum(a**3))(w)
        assert not w.is_tracked
    assert z.record is None
    with pytest.raises(InvalidConfigError, match="no variable led"):
        y.backward()
    assert w.is_tracked
    np.testing.assert_allclose(z, [3.0, 12.0])


def test_recording_comes_back_also_after_an_error(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0])
    with pytest.raises(ValueError, match="no"), tnf.no_grad(), tnf.no_grad():
        raise ValueError("no")
    assert (w * w).is_tracked


def test_no_grad_decorates(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([3.0])

    @tnf.no_grad()
    def evaluate(x: Any) -> Any:
        return w * x

    for _ in range(2):
        assert not evaluate(2.0).is_tracked
    assert (w * 2).is_tracked


def test_other_threads_record(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0])
    seen = []
    with tnf.no_grad():
        thread = threading.Thread(target=lambda: seen.append((w * w).is_tracked))
        thread.start()
        thread.join()
    assert seen == [True]


@pytest.mark.parametrize("trace", [tnf.grad, tnf.jit, lambda f: tnf.compile(f, np.ones(2)).run])
def test_no_grad_is_refused_in_traces(trace: Any) -> None:
    def f(x: Any) -> Any:
        with tnf.no_grad():
            return tnf.sum(x)

    with pytest.raises(InvalidConfigError, match="stop_gradient"):
        trace(f)(np.ones(2))


def test_a_model_is_trained_in_place(rt: tnf.EagerRuntime) -> None:
    x = np.linspace(-1, 1, 20).reshape(10, 2)
    y = x @ np.array([2.0, -3.0]) + 0.5
    w, b = rt.variable(np.zeros(2)), rt.variable(0.0)
    names = (w, b)
    expected_w, expected_b = np.zeros(2), 0.0
    for _ in range(50):
        loss = tnf.mean((x @ w + b - y) ** 2)
        loss.backward()
        residual = x @ expected_w + expected_b - y
        expected_w = expected_w - 0.3 * 2 * x.T @ residual / 10
        expected_b = expected_b - 0.3 * 2 * residual.mean()
        with tnf.no_grad():
            w -= 0.3 * w.grad
            b -= 0.3 * b.grad
        w.clear_grad()
        b.clear_grad()
    assert (w, b)[0] is names[0]
    assert w.is_variable
    np.testing.assert_allclose(w, expected_w, rtol=1e-10)
    np.testing.assert_allclose(b, expected_b, rtol=1e-10)
    assert rt.cache_stats().misses == 1


def test_variables_are_updated_by_an_optimiser(rt: tnf.EagerRuntime) -> None:
    params = {"w": rt.variable([1.0, -2.0])}
    optimizer = tnf.optim.adamw(0.1)
    state = optimizer.init(params)
    arrays: Any = {"w": np.array([1.0, -2.0])}
    array_state = optimizer.init(arrays)
    for _ in range(5):
        tnf.sum(params["w"] ** 2).backward()
        with tnf.no_grad():
            grads = tnf.tree.map(lambda p: p.grad, params)
            updates, state = optimizer.update(grads, state, params)
            tnf.tree.map(lambda p, u: p.assign(p + u), params, updates)
        params["w"].clear_grad()
        updates, array_state = optimizer.update({"w": 2 * arrays["w"]}, array_state, arrays)
        arrays = tnf.optim.apply_updates(arrays, updates)
    np.testing.assert_allclose(params["w"], arrays["w"], rtol=1e-12)


OPERATIONS = {
    "+=": lambda w: w.__iadd__(1.0),
    "-=": lambda w: w.__isub__(1.0),
    "*=": lambda w: w.__imul__(2.0),
    "/=": lambda w: w.__itruediv__(2.0),
    "//=": lambda w: w.__ifloordiv__(2.0),
    "%=": lambda w: w.__imod__(2.0),
    "**=": lambda w: w.__ipow__(2),
    "@=": lambda w: w.__imatmul__(np.eye(2)),
    "[]=": lambda w: w.__setitem__(0, 7.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_changes_in_place_are_for_no_grad(name: str, rt: tnf.EagerRuntime) -> None:
    w = rt.variable([3.0, 5.0])
    with pytest.raises(InvalidConfigError, match=r"with tenferro.no_grad\(\)"):
        OPERATIONS[name](w)
    np.testing.assert_array_equal(w, [3.0, 5.0])
    array = np.array([3.0, 5.0])
    with tnf.no_grad():
        OPERATIONS[name](w)
    if name == "@=":
        array = array @ np.eye(2)
    else:
        OPERATIONS[name](array)
    np.testing.assert_array_equal(w, array)
    assert w.is_variable
    assert w.is_tracked


def test_tensors_that_are_no_variables_are_replaced(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0, 2.0])
    y = z = w * w
    y += w
    assert y is not z
    tnf.sum(y).backward()
    np.testing.assert_allclose(w.grad, [3.0, 5.0])


def test_what_was_recorded_keeps_the_value_of_its_time(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([2.0])
    y = w * w * w
    with tnf.no_grad():
        w *= 10.0
    tnf.sum(y).backward()
    np.testing.assert_allclose(w.grad, [12.0])


@pytest.mark.parametrize("change", ["assign", "in place"])
def test_one_tape_may_hold_two_values_of_a_variable(change: str, rt: tnf.EagerRuntime) -> None:
    w = rt.variable([2.0])
    y = w * w
    if change == "assign":
        w.assign([5.0])
    else:
        with tnf.no_grad():
            w += 3.0
    z = y + w * w * w
    tnf.sum(z).backward()
    np.testing.assert_allclose(w.grad, [2 * 2.0 + 3 * 25.0])


def test_backward_before_and_after_a_change(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([2.0])
    y = w * w
    y.backward([1.0])
    w.assign([5.0])
    y.backward([1.0])
    (w * w).backward([1.0])
    np.testing.assert_allclose(w.grad, [4.0 + 4.0 + 10.0])


def test_values_are_assigned_by_copy(rt: tnf.EagerRuntime) -> None:
    w = rt.variable(np.ones(2, np.float32))
    array = np.array([1.0, 2.0], np.float32)
    w.assign(array)
    array[:] = 9
    np.testing.assert_array_equal(w, [1.0, 2.0])
    w.assign([3, 4.5])
    assert w.dtype == tnf.float32
    w.assign((w * 2).detach())
    np.testing.assert_array_equal(w, [6.0, 9.0])


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (ShapeError, r"f64\[2\], got the shape \(3,\)", lambda w: w.assign(np.ones(3))),
        (ShapeError, r"got the shape \(\)", lambda w: w.assign(0.0)),
        (DTypeError, "float32", lambda w: w.assign(np.ones(2, np.float32))),
        (DTypeError, "1j", lambda w: w.assign([1j, 2j])),
        (InvalidConfigError, "gradient would be lost", lambda w: w.assign(w * 2)),
        (InvalidConfigError, "not a variable", lambda w: (w * 2).assign(np.ones(2))),
    ],
)
def test_values_that_do_not_fit(kind: Any, words: str, call: Any, rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0, 2.0])
    with pytest.raises(kind, match=words):
        call(w)
    np.testing.assert_array_equal(w, [1.0, 2.0])


def test_changes_do_not_change_the_type(rt: tnf.EagerRuntime) -> None:
    w = rt.variable(np.ones(2, np.float32))
    with tnf.no_grad(), pytest.raises(DTypeError, match="float64"):
        w -= np.ones(2)
    with tnf.no_grad(), pytest.raises(ShapeError):
        w -= np.ones((3, 2), np.float32)


def test_a_tracked_tensor_runs_on_another_executor_under_no_grad(rt: tnf.EagerRuntime) -> None:
    w = rt.variable([1.0, 2.0])
    with tnf.no_grad():
        result = tnf.jit(lambda x: x * 2, executor=XlaExecutor())(w)
    np.testing.assert_array_equal(result, [2.0, 4.0])
