"""Execution: the inputs and outputs of a runtime."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.dims import Exact
from tenferro.extension import (
    Extension,
    ExtensionRuntime,
    HostReferenceRuntime,
    apply,
    check_extension,
)
from tests.specification.operations import Scale, X, compiled, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "execution",
    "Execution",
    "A runtime executes the operations of a family on an executor. "
    "It borrows its inputs, and the executor owns its outputs.",
)
MATRIX = np.arange(6.0).reshape(2, 3)


def running(function: Any, **members: Any) -> Any:
    """Return an operation whose runtime calls `function` with the operation's input."""
    return operation("running", eager_execute=lambda self, inputs: function(inputs[0]), **members)


# ---- runtimes --------------------------------------------------------------------------------


@chapter.works(1, "The runtime of a family executes its operations, in programs and eagerly.")
def test_runtimes_execute() -> None:
    np.testing.assert_array_equal(apply(Scale(3.0), X), 3 * X)
    np.testing.assert_array_equal(compiled(Scale(3.0)).run(X), 3 * X)
    eager = tnf.EagerRuntime().constant(X)
    np.testing.assert_array_equal(apply(Scale(3.0), eager).numpy(), 3 * X)


@chapter.differs(
    2,
    "`eager_execute` is used only if `HostReferenceRuntime` allows it.",
    because="a slow reference implementation, or one on the host, is never run by accident",
)
def test_no_runtime() -> None:
    op = operation("reference", runtime=None, eager_execute=lambda self, inputs: [2 * inputs[0]])
    with pytest.raises(errors.UnsupportedError, match=r"reference\.v1: not registered"):
        apply(op, X)
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(op.family_id)])
    np.testing.assert_array_equal(executor.run(compiled(op), X), 2 * X)


@chapter.works(3, "A runtime registered on an executor takes precedence over that of the family.")
def test_registered_runtimes_come_first() -> None:
    class Negating(ExtensionRuntime):
        family_id = Scale.family_id

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return -inputs[0]

    executor = tnf.GraphExecutor(runtimes=[Negating()])
    np.testing.assert_array_equal(executor.run(compiled(Scale(3.0)), X), -X)
    np.testing.assert_array_equal(compiled(Scale(3.0)).run(X), 3 * X)


@chapter.works(4, "A replaced runtime is not used from the next call on.")
def test_replaced_runtimes() -> None:
    class Times(ExtensionRuntime):
        family_id = Scale.family_id

        def __init__(self, factor: float) -> None:
            self.factor = factor

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return self.factor * inputs[0]

    executor, program = tnf.GraphExecutor(runtimes=[Times(1.0)]), compiled(Scale())
    for factor in (1.0, 5.0, 7.0):
        executor.register_runtime(Times(factor), replace=True)
        np.testing.assert_array_equal(executor.run(program, X), factor * X)


@chapter.works(5, "Runtimes of one executor are not visible to another.")
def test_executors_apart() -> None:
    op = operation("apart", runtime=None, eager_execute=lambda self, inputs: [inputs[0] + 1])
    tnf.GraphExecutor(runtimes=[HostReferenceRuntime(op.family_id)])
    with pytest.raises(errors.UnsupportedError):
        tnf.GraphExecutor().run(compiled(op), X)


@chapter.works(6, "A runtime can access the executor that calls it, and run programs on it.")
def test_the_owner() -> None:
    executor = tnf.GraphExecutor()
    owners = []

    class Doubling(ExtensionRuntime):
        family_id = Scale.family_id

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            owners.append(caches.owner)
            return caches.owner.run(tnf.compile(lambda x: x + x, inputs[0]), inputs[0])

    executor.register_runtime(Doubling())
    np.testing.assert_array_equal(executor.run(compiled(Scale()), X), 2 * X)
    assert owners == [executor]


@chapter.works(7, "An extension operation is one step, which is never fused.")
def test_one_step() -> None:
    program = tnf.compile(
        lambda x: tnf.exp(apply(Scale(), tnf.exp(x) + 1) + 1), np.ones((512, 512))
    )
    schedule = tnf.GraphExecutor().compile(program, np.ones((512, 512)))
    (step,) = [s for s in schedule.instructions if isinstance(s.op, Extension)]
    assert step.op.family_id == Scale.family_id
    assert not [
        s for s in schedule.instructions if s.op.name.startswith("Tiles") and "scale" in s.op.name
    ]


@chapter.works(8, "Compiling a program executes no operation.")
def test_compiling_executes_nothing() -> None:
    calls = []
    op = running(lambda x: calls.append(1) or [x + 1])
    program = compiled(op)
    tnf.GraphExecutor().compile(program, X)
    assert not calls
    program.run(X)
    assert calls == [1]


@chapter.works(
    9, "The schedule contains the operation with the dtypes and shapes from its shape rule."
)
def test_the_schedule() -> None:
    op = operation(
        "pair",
        output_count=2,
        infer_output_meta=lambda self, d, s: [(d[0], s[0]), ("int32", ())],
        eager_execute=lambda self, inputs: [inputs[0] + 1, np.int32(2)],
    )
    (step,) = tnf.GraphExecutor().compile(compiled(op), X).instructions[:1]
    assert step.op.op is op
    assert step.dtype is tnf.DType.F64
    assert step.output_shapes == ((3,), ())
    assert step.output_extents == ((Exact(3),), ())


@chapter.works(10, "An operation runs only if a result depends on it.")
def test_dead_calls() -> None:
    calls = []
    op = running(lambda x: calls.append(1) or [x + 1])
    tnf.compile(lambda x: (apply(op, x), x)[1], X).run(X)
    assert not calls


@chapter.works(11, "Operations with effects run in the order in which they were traced.")
def test_order_of_effects() -> None:
    seen: list[float] = []
    op = running(lambda x: seen.append(float(x[0])) or [x + 1], effects=True)
    tnf.compile(lambda x: (apply(op, 3 * x), apply(op, x), apply(op, 2 * x))[1], X).run(X)
    assert seen == [3.0, 1.0, 2.0]


# ---- inputs --------------------------------------------------------------------------------------


@chapter.table(
    "array",
    {
        12: Row("Row-major arguments reach a runtime as dense column-major arrays.", MATRIX),
        13: Row(
            "Strided arguments reach a runtime as dense column-major arrays.",
            np.ones((4, 6))[::2, ::3],
        ),
        14: Row(
            "Broadcast arguments reach a runtime as dense column-major arrays.",
            np.broadcast_to(X, (2, 3)),
        ),
    },
)
def test_inputs_are_columns(array: Any) -> None:
    flags = []
    op = running(lambda x: flags.append(x.flags.f_contiguous) or [x + 1])
    np.testing.assert_array_equal(compiled(op, array).run(array), array + 1)
    assert flags == [True]


@chapter.works(15, "A runtime may declare that it accepts any layout.")
def test_any_order() -> None:
    class Any_(ExtensionRuntime):
        family_id, order = Scale.family_id, "K"

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            assert inputs[0].flags.c_contiguous
            return 2 * inputs[0]

    executor = tnf.GraphExecutor(runtimes=[Any_()])
    np.testing.assert_array_equal(executor.run(compiled(Scale(), MATRIX), MATRIX), 2 * MATRIX)


@chapter.works(
    16, "Inputs are read-only: writing to one is an error, and the caller's array is unchanged."
)
def test_inputs_are_borrowed() -> None:
    x = X.copy()
    with pytest.raises(errors.BackendFailureError, match=r"running\.v1.*read-only"):
        apply(running(lambda x: x.fill(0) or [x.copy()]), x)
    np.testing.assert_array_equal(x, X)


@chapter.works(
    17, "An operation receives its own copy of each input that it declares to overwrite."
)
def test_declared_aliases() -> None:
    op = running(lambda x: [np.negative(x, out=x)], aliases={0: 0})
    x = X.copy()
    y, same = tnf.compile(lambda x: (apply(op, x), x + 0), X).run(x)
    np.testing.assert_array_equal([y, same, x], [-X, X, X])


@chapter.works(18, "An alias that names a nonexistent input or output is an error.")
def test_wrong_aliases() -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"running\.v1"):
        apply(running(lambda x: [x + 1], aliases={0: 1}), X)


# ---- outputs -------------------------------------------------------------------------------------

WORKSPACE = np.zeros(3)


@chapter.table(
    "function",
    {
        19: Row("An input that is returned as an output is copied.", lambda x: [x]),
        20: Row("An output that is a view of an input is copied.", lambda x: [x[::-1]]),
        21: Row(
            "An output with another reference, such as a workspace, is copied.",
            lambda x: [WORKSPACE],
        ),
        22: Row(
            "An output that is a broadcast array is materialised.",
            lambda x: [np.broadcast_to(1.0, 3)],
        ),
        23: Row(
            "An output in memory that NumPy does not own is copied.",
            lambda x: [np.frombuffer(bytearray(24))],
        ),
    },
)
def test_outputs_are_given_away(function: Any) -> None:
    x = X.copy()
    y = compiled(running(function)).run(x)
    expected = function(x)[0].copy()
    y += 1.0
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(WORKSPACE, np.zeros(3))
    np.testing.assert_array_equal(y, expected + 1.0)


@chapter.works(24, "Two calls that return the same workspace have separate results.")
def test_two_results_of_one_workspace() -> None:
    workspace = np.zeros(3)
    op = running(lambda x: [np.add(x, 1.0, out=workspace)])
    program = tnf.compile(lambda x: (apply(op, x), apply(op, 3 * x)), X)
    first = program.run(X)
    program.run(-X)
    np.testing.assert_array_equal(first, [X + 1, 3 * X + 1])


@chapter.works(25, "A new array is used without a copy.")
def test_fresh_outputs_are_taken() -> None:
    places = []

    def fresh(x: Any) -> Any:
        y = x + 1.0
        places.append(y.ctypes.data)
        return [y]

    assert compiled(running(fresh)).run(X).ctypes.data == places[0]


@chapter.table(
    "outputs, words",
    {
        26: Row("Too many outputs are an error that gives both counts.", [X, X], "2 outputs"),
        27: Row("Too few outputs are an error that gives both counts.", [], "0 outputs"),
        28: Row("An output of another shape is an error.", [X[:2]], r"f64\[2\].*declares f64\[3\]"),
        29: Row(
            "An output of another dtype is an error; it is not cast.",
            [X.astype("f4")],
            r"f32\[3\].*declares f64\[3\]",
        ),
        30: Row("A result that is not an array is an error.", None, "NoneType"),
        31: Row(
            "A masked array is an error, because its mask would be lost.",
            [np.ma.masked_greater(X, 2)],
            "mask",
        ),
    },
)
def test_outputs_that_are_refused(outputs: Any, words: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match=rf"running\.v1.*{words}"):
        apply(running(lambda x: outputs), X)


@chapter.works(32, "An output on a device that the host cannot read is an error; it is not moved.")
def test_outputs_on_devices() -> None:
    class DeviceArray:
        shape, dtype, device = (3,), np.dtype("f8"), "cuda:0"

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise AssertionError("this would be a hidden copy")

    with pytest.raises(errors.BackendFailureError, match=r"running\.v1.*cuda:0"):
        apply(running(lambda x: [DeviceArray()]), X)
    with pytest.raises(errors.BackendFailureError, match="cuda:0"):
        compiled(Scale()).run(DeviceArray())


# ---- the executor --------------------------------------------------------------------------------


@chapter.works(33, "Eager calls, programs, and programs run step by step give the same bits.")
def test_eager_and_compiled_agree() -> None:
    op = running(lambda x: [np.tanh(x) / 3.0])
    np.testing.assert_array_equal(apply(op, X), compiled(op).run(X))
    np.testing.assert_array_equal(
        tnf.GraphExecutor(segmented=False).run(compiled(op), X), compiled(op).run(X)
    )


@chapter.works(34, "An interruption by the user is not reported as a failure of the operation.")
def test_interruptions() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(running(interrupted), X)


@chapter.works(35, "A runtime runs in the thread that calls the executor.")
def test_the_thread() -> None:
    threads = []
    compiled(running(lambda x: threads.append(threading.get_ident()) or [x + 1])).run(X)
    assert threads == [threading.get_ident()]


@chapter.table(
    "function, words",
    {
        36: Row(
            "`check_extension` reports an operation that writes to its inputs.",
            lambda x: x.fill(0) or [x.copy()],
            "read-only",
        ),
        37: Row(
            "`check_extension` reports outputs with other references.",
            lambda x: [np.add(x, 1, out=WORKSPACE_OF_REPORT)],
            "copied",
        ),
        38: Row(
            "`check_extension` reports values that depend on earlier calls.",
            lambda x: CALLS.append(1) or [x + len(CALLS)],
            "differs from one run to the next",
        ),
    },
)
def test_reports(function: Any, words: str) -> None:
    report = check_extension(running(function), [X])
    assert not report.ok
    assert words in str(report)


WORKSPACE_OF_REPORT = np.zeros(3)
CALLS: list[int] = []
