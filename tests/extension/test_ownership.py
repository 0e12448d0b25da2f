"""However an op is called, its runtime borrows the inputs, and the outputs belong to the executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec.printer import printed
from tenferro.extension import (
    ExtensionCacheKey,
    ExtensionOp,
    ExtensionRuntime,
    apply,
    extension_family,
)

X = np.array([1.0, 2.0, 3.0])


@extension_family("tenferro-tests", "owned", version=1)
@dataclass(frozen=True)
class Owned(ExtensionOp):
    """Op whose runtime calls a function of the test. Each output has the same type as the input."""

    output_count: int = 1  # pyright: ignore[reportIncompatibleVariableOverride]  # each test chooses it

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])] * self.output_count


class Calling(ExtensionRuntime):
    family_id = Owned.family_id

    def __init__(self, function: Callable[[Any], Any], order: str = "F") -> None:
        self.function = function
        self.order = order

    def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
        return self.function(inputs[0])


def by_graph(runtime: ExtensionRuntime, fn: Any) -> Callable[[Any], Any]:
    executor = tnf.GraphExecutor("K", segmented=False, runtimes=[runtime])
    program = tnf.compile(fn, X)
    return lambda x: executor.run(program, x)


def by_generated_code(runtime: ExtensionRuntime, fn: Any) -> Callable[[Any], Any]:
    executor = tnf.GraphExecutor("K", runtimes=[runtime])
    program = tnf.compile(fn, X)
    run = printed(executor.compile(program, X))
    return lambda x: program.pack(run(x))


def by_eager(runtime: ExtensionRuntime, fn: Any) -> Callable[[Any], Any]:
    eager = tnf.EagerRuntime(runtimes=[runtime])

    def run(x: Any) -> Any:
        result = fn(eager.adopt(x))
        return (
            tuple(y.array for y in result)
            if isinstance(result, tuple)
            else getattr(result, "array", result)
        )

    return run


def by_loop(runtime: ExtensionRuntime, fn: Any) -> Callable[[Any], Any]:
    executor = tnf.GraphExecutor("K", runtimes=[runtime])
    program = tnf.compile(lambda x: tnf.fori_loop(0, 1, lambda i, y: fn(y), x), X)
    return lambda x: executor.run(program, x)


PATHS = [by_graph, by_generated_code, by_eager, by_loop]


@pytest.mark.parametrize("order", ["F", "K"])
@pytest.mark.parametrize("path", PATHS)
def test_inputs_are_read_only(path: Any, order: str) -> None:
    def destroys(x: Any) -> Any:
        x[...] = 0.0
        return x.copy()

    run = path(Calling(destroys, order), lambda x: apply(Owned(), x))
    x = X.copy()
    with pytest.raises(errors.BackendFailureError, match=r"read-only.*inputs\[0\]\.copy\(\)"):
        run(x)
    np.testing.assert_array_equal(x, X)


def test_other_errors_of_runtimes_get_no_advice() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("worn out")

    tnf.default_executor().register_runtime(Calling(fails), replace=True)
    with pytest.raises(errors.BackendFailureError, match=r"ValueError: worn out$"):
        apply(Owned(), X)


def test_inputs_are_read_only_at_once() -> None:
    def destroys(x: Any) -> Any:
        np.negative(x, out=x)
        return x.copy()

    tnf.default_executor().register_runtime(Calling(destroys), replace=True)
    x = X.copy()
    with pytest.raises(errors.BackendFailureError, match="read-only"):
        apply(Owned(), x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("path", PATHS)
def test_a_workspace_that_is_given_is_copied(path: Any) -> None:
    workspace = np.zeros(3)

    def in_workspace(x: Any) -> Any:
        np.add(x, 1.0, out=workspace)
        return workspace

    run = path(Calling(in_workspace), lambda x: apply(Owned(), apply(Owned(), x) * 3.0))
    first = run(X)
    np.testing.assert_array_equal(first, 3.0 * (X + 1.0) + 1.0)
    run(-X)
    np.testing.assert_array_equal(first, 3.0 * (X + 1.0) + 1.0)


@pytest.mark.parametrize("path", [by_graph, by_generated_code, by_eager])
def test_two_calls_give_two_arrays(path: Any) -> None:
    workspace = np.zeros(3)

    def in_workspace(x: Any) -> Any:
        np.add(x, 1.0, out=workspace)
        return [workspace]

    run = path(Calling(in_workspace), lambda x: (apply(Owned(), x), apply(Owned(), x * 3.0)))
    for _ in range(3):
        one, two = run(X)
        np.testing.assert_array_equal(one, X + 1.0)
        np.testing.assert_array_equal(two, 3.0 * X + 1.0)


KEPT = [np.zeros(3)]
WHOLE = np.zeros((2, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: x[::-1],
        lambda x: KEPT,
        lambda x: KEPT[0],
        lambda x: WHOLE[1],
        lambda x: np.broadcast_to(np.zeros(1), 3),
        lambda x: np.frombuffer(bytearray(24)),
    ],
    ids=["input", "view", "kept list", "kept", "kept view", "repeated", "foreign memory"],
)
@pytest.mark.parametrize("path", [by_graph, by_generated_code, by_eager])
def test_outputs_have_memory_of_their_own(path: Any, function: Any) -> None:
    x = X.copy()
    found = path(Calling(function, "K"), lambda x: apply(Owned(), x))(x)
    for other in (x, KEPT[0], WHOLE):
        assert not np.may_share_memory(found, other)
    assert found.flags.writeable
    assert found.strides == (8,)


def test_outputs_of_one_call_are_apart() -> None:
    def halves(x: Any) -> Any:
        both = np.zeros((2, 3))
        return both[0], both[0]

    run = by_eager(Calling(halves), lambda x: apply(Owned(2), x))
    one, two = run(X)
    assert not np.may_share_memory(one, two)


def test_what_is_kept_is_not_written_by_the_program() -> None:
    kept = np.ones(3)
    run = by_graph(Calling(lambda x: kept), lambda x: (apply(Owned(), x) * 2.0 + x) * 3.0)
    for _ in range(3):
        np.testing.assert_array_equal(run(X), (2.0 + X) * 3.0)
    np.testing.assert_array_equal(kept, np.ones(3))


@pytest.mark.parametrize("path", [by_graph, by_generated_code, by_eager])
def test_fresh_outputs_are_not_copied(path: Any) -> None:
    places: list[int] = []

    def fresh(x: Any) -> Any:
        y = np.zeros((3, 2)).T[0]
        places.append(y.ctypes.data)
        return [y]

    found = path(Calling(fresh, "K"), lambda x: apply(Owned(), x))(X)
    assert found.ctypes.data == places[-1]


def test_masks_are_not_lost() -> None:
    run = by_graph(Calling(lambda x: np.ma.masked_greater(x, 2.0)), lambda x: apply(Owned(), x))
    with pytest.raises(errors.InvalidConfigError, match="mask"):
        run(X)


def test_what_is_no_result_is_refused() -> None:
    run = by_graph(Calling(lambda x: None), lambda x: apply(Owned(), x))
    with pytest.raises(errors.InvalidConfigError, match=f"{Owned.family_id}.*got NoneType"):
        run(X)


class Planning(ExtensionRuntime):
    """Runtime that multiplies by a factor. The factor is part of a plan in its cache."""

    family_id = Owned.family_id

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
        plans = caches.store(ExtensionCacheKey(self.family_id, "plans"))
        return inputs[0] * plans.get("factor", lambda: self.factor)


def test_a_runtime_that_is_replaced_is_not_used_again() -> None:
    executor = tnf.GraphExecutor(runtimes=[Planning(1.0)])
    eager = tnf.EagerRuntime(runtimes=[Planning(1.0)])
    once = tnf.compile(lambda x: apply(Owned(), x), X)
    loop = tnf.compile(lambda x: tnf.fori_loop(0, 2, lambda i, y: apply(Owned(), y), x), X)
    jitted = tnf.jit(lambda x: apply(Owned(), x), executor=executor)
    for factor in (1.0, 5.0, 7.0):
        executor.register_runtime(Planning(factor), replace=True)
        eager.register_runtime(Planning(factor), replace=True)
        for _ in range(3):
            np.testing.assert_array_equal(executor.run(once, X), factor * X)
            np.testing.assert_array_equal(executor.run(loop, X), factor**2 * X)
            np.testing.assert_array_equal(jitted(X), factor * X)
            np.testing.assert_array_equal(apply(Owned(), eager.constant(X)).numpy(), factor * X)


@extension_family("tenferro-tests", "in_place", version=1)
@dataclass(frozen=True)
class InPlace(Owned):
    """Op like `Owned`, but its only output may use the memory of the input."""

    aliases = {0: 0}  # noqa: RUF012  # nobody writes to it


class CallingInPlace(Calling):
    family_id = InPlace.family_id


@pytest.mark.parametrize("order", ["F", "K"])
@pytest.mark.parametrize("path", PATHS)
def test_a_declared_alias_is_written_in_place(path: Any, order: str) -> None:
    places: list[int] = []

    def negated(x: Any) -> Any:
        places.append(x.ctypes.data)
        return np.negative(x, out=x)

    run = path(CallingInPlace(negated, order), lambda x: apply(InPlace(), x))
    x = X.copy()
    found = run(x)
    np.testing.assert_array_equal(found, -X)
    np.testing.assert_array_equal(x, X)
    assert not np.may_share_memory(found, x)
    if path is not by_loop:
        assert found.ctypes.data == places[-1]


def test_an_alias_leaves_other_uses_of_its_input_alone() -> None:
    def negated(x: Any) -> Any:
        return np.negative(x, out=x)

    def both(x: Any) -> Any:
        y = x + 1.0
        return apply(InPlace(), y), y

    for path in (by_graph, by_generated_code, by_eager):
        run = path(CallingInPlace(negated), both)
        for _ in range(3):
            negative, positive = run(X)
            np.testing.assert_array_equal(negative, -(X + 1.0))
            np.testing.assert_array_equal(positive, X + 1.0)


def test_aliases_of_what_is_not_there_are_refused() -> None:
    class Beyond(InPlace):
        aliases = {0: 1}  # noqa: RUF012  # nobody writes to it

    run = by_graph(CallingInPlace(lambda x: x), lambda x: apply(Beyond(), x))
    with pytest.raises(errors.InvalidConfigError, match=r"in_place.*inputs below 1, got \{0: 1\}"):
        run(X)
