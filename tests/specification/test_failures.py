"""Failures: classes and messages of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import ExtensionRuleSet, HostReferenceRuntime, apply, register_extension
from tests.specification.operations import Scale, X, compiled, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "failures",
    "Failures",
    "Every error of an extension operation names its family. "
    "All errors derive from `tnf.errors.TenferroError`, and each class also derives from a builtin exception.",
)


def failing(error: Exception) -> Any:
    def eager_execute(self: Any, inputs: Any) -> Any:
        raise error

    return operation("failing", eager_execute=eager_execute)


def absent() -> Any:
    return operation("absent", runtime=None)


def counted(count: int) -> Any:
    return operation("counted", eager_execute=lambda self, inputs: [inputs[0] + 1] * count)


class Remote:
    """Array on a device, which the host cannot read."""

    shape, dtype, device = (3,), np.dtype("f8"), "cuda:0"

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def gradient(x: Any) -> Any:
    return tnf.grad(lambda x: tnf.sum(apply(counted(1), x)))(x)


def backward(x: Any) -> Any:
    y = apply(counted(1), tnf.EagerRuntime().variable(x))
    return tnf.sum(y).backward()


@chapter.table(
    "call, kind, words",
    {
        1: Row("An exception during execution becomes a `BackendFailureError` with its message.", lambda: apply(failing(RuntimeError("the plan is gone")), X), errors.BackendFailureError, r"extension: family_id=specification\.failing\.v1: RuntimeError: the plan is gone"),
        2: Row("If an operation reports a missing capability, the error contains its message.", lambda: apply(failing(errors.BackendFailureError("needs cuTENSOR")), X), errors.BackendFailureError, r"specification\.failing\.v1.*needs cuTENSOR"),
        3: Row("Executing an operation without a runtime eagerly is an error.", lambda: apply(absent(), X), errors.UnsupportedError, r"extension: specification\.absent\.v1: not registered"),
        4: Row("Compiling a program for an executor without a runtime for its operation is an error.", lambda: tnf.GraphExecutor().compile(compiled(absent()), X), errors.UnsupportedError, r"(?s)specification\.absent\.v1: not registered.*operations\.py"),
        5: Row("A gradient without a rule is an error in traces.", lambda: gradient(X), errors.ADRuleUnsupportedError, r"specification\.counted\.v1: no linearize rule"),
        6: Row("A gradient without a rule is an error in eager mode.", lambda: backward(X), errors.ADRuleUnsupportedError, r"specification\.counted\.v1: no linearize rule"),
        7: Row("A wrong number of inputs is an error that gives both numbers.", lambda: apply(counted(1), X, X), errors.InvalidConfigError, r"extension: family_id=specification\.counted\.v1: expected 1 inputs, got 2"),
        8: Row("A wrong number of outputs is an error that gives both numbers.", lambda: apply(counted(3), X), errors.InvalidConfigError, r"specification\.counted\.v1.*3 outputs.*1"),
        9: Row("An output on a device that the host cannot read is an error; the output is not moved.", lambda: apply(operation("remote", eager_execute=lambda self, inputs: [Remote()]), X), errors.BackendFailureError, r"specification\.remote\.v1.*cuda:0"),
        10: Row("An input on a device that the host cannot read is an error; the input is not moved.", lambda: compiled(counted(1)).run(Remote()), errors.BackendFailureError, "cuda:0.*asarray"),
        11: Row("Lowering an operation that cannot be lowered is an error that gives the user's line.", lambda: lowering.lower_to_stablehlo(compiled(counted(1))), errors.UnsupportedError, r"(?s)specification\.counted\.v1 at .*operations\.py"),
        12: Row("A platform that does not exist is an error that names it.", lambda: xla_peer.XlaExecutor("cupu"), errors.TenferroError, "cupu"),
    },
)  # fmt: skip
def test_failures(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


@chapter.works(13, "A failed call is not repeated, and nothing else is tried instead.")
def test_no_retry() -> None:
    calls = []

    def eager_execute(self: Any, inputs: Any) -> Any:
        calls.append(1)
        raise RuntimeError("once")

    op = operation("tried", eager_execute=eager_execute, lower_to_standard_ops=lambda *a: a[2][0])
    with pytest.raises(errors.BackendFailureError, match="once"):
        compiled(op).run(X)
    assert calls == [1]


@chapter.works(14, "An error inside a loop or a branch names the family, too.")
def test_failures_in_loops() -> None:
    op = failing(RuntimeError("inside"))
    loop = lambda x: tnf.fori_loop(0, 2, lambda i, y: apply(op, y), x)
    branch = lambda x: tnf.cond(tnf.sum(x) > 0, lambda x: apply(op, x), lambda x: x, x)
    for function in (loop, branch):
        with pytest.raises(errors.BackendFailureError, match=r"failing\.v1.*inside"):
            tnf.compile(function, X).run(X)


@chapter.works(15, "The original exception is the `__cause__` of the error.")
def test_causes() -> None:
    error = KeyError("axis")
    with pytest.raises(errors.BackendFailureError) as caught:
        compiled(failing(error)).run(X)
    chain = [caught.value]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    assert error in chain


@chapter.works(16, "An executor can be used again after a failure.")
def test_executors_survive() -> None:
    executor = tnf.GraphExecutor()
    with pytest.raises(errors.BackendFailureError):
        executor.run(compiled(failing(RuntimeError("once"))), X)
    np.testing.assert_array_equal(executor.run(compiled(Scale()), X), 2 * X)


@chapter.table(
    "kind, builtin",
    {
        17: Row("`ShapeError` is a `ValueError`.", errors.ShapeError, ValueError),
        18: Row("`DTypeError` is a `TypeError`.", errors.DTypeError, TypeError),
        19: Row("`InvalidConfigError` is a `ValueError`.", errors.InvalidConfigError, ValueError),
        20: Row("`UnsupportedError` is a `NotImplementedError`.", errors.UnsupportedError, NotImplementedError),
        21: Row("`ADRuleUnsupportedError` is an `UnsupportedError`.", errors.ADRuleUnsupportedError, errors.UnsupportedError),
        22: Row("`BackendFailureError` is a `RuntimeError`.", errors.BackendFailureError, RuntimeError),
        23: Row("`DuplicateFamilyError` is a `RegistrationError`.", errors.DuplicateFamilyError, errors.RegistrationError),
        24: Row("`MalformedFamilyIdError` is a `RegistrationError`.", errors.MalformedFamilyIdError, errors.RegistrationError),
    },
)  # fmt: skip
def test_kinds(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)
    assert issubclass(kind, errors.TenferroError)
    with pytest.raises(builtin, match="words"):
        raise kind("words")


@chapter.works(25, "A malformed id is an error wherever a family is registered.")
def test_malformed_ids() -> None:
    class Rule(tnf.ExtensionAdRule):
        family_id = "malformed"

    for register in (
        lambda: ExtensionRuleSet([Rule()]),
        lambda: tnf.GraphExecutor(runtimes=[HostReferenceRuntime("malformed")]),
        lambda: lowering.register_extension_lowering("malformed", lambda op, w, x: x),
        lambda: register_extension(Rule),
    ):
        with pytest.raises(errors.RegistrationError):
            register()
