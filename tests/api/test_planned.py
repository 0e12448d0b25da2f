"""An eager runtime stores a plan for a repeated call.

With a plan, functions must have the same values, gradients and errors.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.api.indexing import getitem
from tenferro.api.planned import NotFixedError, fixed

RT = tnf.EagerRuntime()
M = np.arange(1.0, 13.0).reshape(3, 4)
V = np.array([0.5, -1.0, 2.0, 0.0])

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add": (lambda x, y: x + y, (M, V)),
    "number": (lambda x: 2.0 * x - 1, (M,)),
    "quotient": (lambda x, y: x / (y + 3.0), (M, V)),
    "remainder": (lambda x: x % 2.5, (M,)),
    "maximum": (lambda x: tnf.maximum(x, 3.0), (M,)),
    "tanh": (tnf.tanh, (M,)),
    "sum": (tnf.sum, (M,)),
    "sum of an axis": (lambda x: tnf.sum(x, axis=-1, keepdims=True), (M,)),
    "prod": (lambda x: x.prod(axis=(0, 1)), (M,)),
    "max": (lambda x: tnf.max(x, axis=0), (M,)),
    "mean": (lambda x: x.mean(axis=1), (M,)),
    "cumulative sum": (lambda x: tnf.cumulative_sum(x, axis=1), (M,)),
    "reshape": (lambda x: x.reshape(2, -1), (M,)),
    "reshape F": (lambda x: tnf.reshape(x, (2, 6), order="F"), (M,)),
    "ravel": (lambda x: x.T.ravel(), (M,)),
    "permute": (lambda x: tnf.permute_dims(x, (1, 0)), (M,)),
    "expand": (lambda x: tnf.expand_dims(x, axis=1), (M,)),
    "flip": (lambda x: tnf.flip(x, axis=1), (M,)),
    "slice": (lambda x: x[1:, ::-2], (M,)),
    "row": (lambda x: x[-1], (M,)),
    "element": (lambda x: x[1, 2], (M,)),
    "new axis": (lambda x: x[None, ..., 1], (M,)),
    "indices": (lambda x: x[np.array([2, 0])], (M,)),
    "mask": (lambda x: x[M > 3.0], (M,)),
    "matrices": (lambda x, y: x @ y.T, (M, M)),
    "matrix and vector": (lambda x, y: x @ y, (M, V)),
    "where": (lambda x, y: tnf.where(x > 4.0, x, y), (M, V)),
    "clip": (lambda x: tnf.clip(x, 2.0, 7) + tnf.clip(x, max=5.0), (M,)),
    "where a number": (lambda x: tnf.where(x > 4.0, x, 0.0), (M,)),
    "astype": (lambda x: x.astype("float32").astype("float64"), (M,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_those_of_arrays(name: str) -> None:
    function, arrays = CALLS[name]
    wanted = function(*arrays)
    _, pull = tnf.vjp(function, *arrays)
    bars = pull(np.ones(wanted.shape))
    for _ in range(2):
        constant = function(*map(RT.constant, arrays))
        assert constant.numpy().tobytes() == wanted.tobytes()
        assert (constant.shape, constant.dtype) == (wanted.shape, wanted.dtype)
        variables: list[Any] = [RT.variable(x) for x in arrays]
        y = function(*variables)
        assert y.numpy().tobytes() == wanted.tobytes()
        y.backward(np.ones(wanted.shape))
        for x, bar in zip(variables, bars, strict=True):
            np.testing.assert_allclose(x.grad.numpy(), bar, rtol=1e-14)


REFUSED: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda x: tnf.sum(x, axis=1), lambda x: tnf.sum(x, axis=True)),
    (lambda x: tnf.sum(x, axis=1), lambda x: tnf.sum(x, axis=1.0)),  # pyright: ignore[reportArgumentType]
    (lambda x: tnf.sum(x), lambda x: tnf.sum(x, axis=(0, 0))),
    (lambda x: tnf.reshape(x, (2, 6)), lambda x: tnf.reshape(x, (2.0, 6.0))),
    (lambda x: tnf.reshape(x, (2, 6)), lambda x: tnf.reshape(x, (2, 5))),
    (lambda x: tnf.reshape(x, (2, 6)), lambda x: tnf.reshape(x, (2, 6), order="K")),
    (lambda x: getitem(x, 1), lambda x: getitem(x, 1.0)),
    (lambda x: getitem(x, 1), lambda x: getitem(x, 7)),
    (lambda x: getitem(x, slice(1, 2)), lambda x: getitem(x, slice(1.0, 2))),
    (lambda x: getitem(x, slice(1, 2)), lambda x: getitem(x, slice(1, 2, 0))),
    (lambda x: tnf.permute_dims(x, (1, 0)), lambda x: tnf.permute_dims(x, (0, 0))),
    (lambda x: tnf.matmul(x, x.T), lambda x: tnf.matmul(x, x)),
    (lambda x: tnf.add(x, x), lambda x: tnf.add(x, x[:2])),
    (lambda x: tnf.max(x), lambda x: tnf.max(x[:0])),
    (lambda x: tnf.clip(x, 1.0), lambda x: tnf.clip(x, 1j)),
    (lambda x: tnf.where(x > 1.0, x, 0.0), lambda x: tnf.where(x > 1.0, x, x[:2])),
    (lambda x: tnf.exp(x), lambda x: tnf.exp(x, x)),
    (lambda x: tnf.mean(x), lambda x: tnf.mean(x, dtype="int64")),
]


@pytest.mark.parametrize(("fine", "refused"), REFUSED)
def test_what_is_refused_is_refused_as_on_arrays(
    fine: Callable[..., Any], refused: Callable[..., Any]
) -> None:
    with pytest.raises(Exception) as wanted:  # because the classes of two exceptions are compared
        refused(M)
    x = RT.constant(M)
    fine(x)
    for _ in range(2):
        with pytest.raises(type(wanted.value)) as found:
            refused(x)
        assert str(found.value) == str(wanted.value)


def test_an_index_of_one_is_no_mask() -> None:
    x = RT.constant(M)
    assert x[1].shape == (4,)
    assert x[True].shape == (1, 3, 4)
    assert x[False].shape == (0, 3, 4)
    assert x[np.int64(1)].tolist() == x[1].tolist()


def test_what_changes_nothing_gives_the_tensor_itself() -> None:
    x = RT.variable(M)
    for _ in range(2):
        assert x[:] is x
        assert x.reshape(3, 4) is x
        assert x.astype("float64") is not x


def test_a_call_is_one_plan_and_one_record() -> None:
    rt = tnf.EagerRuntime()
    x = rt.variable(M)
    x.reshape(2, 6)
    x.reshape(2, 6)
    y = x.reshape(2, 6)
    assert (rt.plan_stats().misses, rt.plan_stats().hits) == (1, 2)
    assert y.record is not None
    assert y.record.operands[0].variable is x


def test_tensors_of_two_runtimes_do_not_meet() -> None:
    other = tnf.EagerRuntime().constant(M)
    for function in (tnf.add, tnf.matmul, lambda x, y: tnf.where(x > 1.0, x, y)):
        with pytest.raises(errors.InvalidConfigError, match="two EagerRuntimes"):
            function(RT.constant(M), other)


def test_plans_made_during_a_trace_stay_outside_it() -> None:
    c = RT.constant(M)
    program = tnf.compile(lambda x: x * tnf.sum(tnf.reshape(c, (2, 6)) / 3.0), np.ones(2))
    assert np.allclose(program.run(np.ones(2)), M.sum() / 3)
    assert [step.op.name for step in program.instructions if step.op.name == "Reshape"] == []


def test_the_line_is_that_of_each_call() -> None:
    x = RT.variable(M)

    def first() -> Any:
        return tnf.sum(x)

    def second() -> Any:
        return tnf.sum(x)

    assert [y.record.source.function for y in (first(), second())] == ["first", "second"]


def test_only_equal_arguments_have_equal_keys() -> None:
    assert fixed((1, 2)) == fixed((1, 2))
    kinds = [1, True, "1", None, (1,), slice(1), slice(1, 1), ..., bool, tnf.float32, np.float32]
    keys = [fixed(kind) for kind in kinds]
    assert len(set(keys)) == len(keys)
    for argument in (1.0, [1], np.ones(1), np.int64(1), (1, 1.0), slice(1.0)):
        with pytest.raises(NotFixedError):
            fixed(argument)
