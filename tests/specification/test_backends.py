"""Backends: kernels, executors, devices and capabilities."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.exec.backend import NUMPY, Backend
from tenferro.extension.ops import Add, Multiply, Sin, Sort
from tests.specification.operations import PEERS, Scale, X, compiled, runs_without
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "backends",
    "Backends and peers",
    "A backend is a value: its kernels by op, and functions to upload, download and allocate arrays. "
    "XLA is a peer and not a backend: it receives programs as text.",
)


class Boxed:
    """Array of another library, which boxes a NumPy array."""

    def __init__(self, array: Any) -> None:
        self.array = array


BOXES = Backend(
    "boxes",
    {
        Multiply: lambda op, x, y: Boxed(x.array * y.array),
        Add: lambda op, x, y: Boxed(x.array + y.array),
    },
    upload=Boxed,
    download=lambda box: box.array,
)
SQUARED = tnf.compile(lambda x: x * x + x, X)


# ---- the interface ------------------------------------------------------------------------------------


@chapter.works(1, "Another backend runs a program by its own kernels, on its own arrays.")
def test_kernels() -> None:
    np.testing.assert_array_equal(tnf.GraphExecutor(backend=BOXES).run(SQUARED, X), X * X + X)


@chapter.works(2, "Each argument is uploaded once, and results are downloaded.")
def test_transfers() -> None:
    counts = {"up": 0, "down": 0}

    def upload(array: Any) -> Any:
        counts["up"] += 1
        return Boxed(array)

    def download(box: Any) -> Any:
        counts["down"] += 1
        return box.array

    counting = replace(BOXES, upload=upload, download=download)
    tnf.GraphExecutor(backend=counting).run(SQUARED, X)
    assert counts == {"up": 1, "down": 1}


@chapter.works(3, "Constants of programs are uploaded.")
def test_constants() -> None:
    program = tnf.compile(lambda x: x + np.array([10.0, 20.0, 30.0]), X)
    result = tnf.GraphExecutor(backend=BOXES).run(program, X)
    np.testing.assert_array_equal(result, X + np.array([10.0, 20.0, 30.0]))


@chapter.works(
    4, "An op without a kernel on a backend is an error that names the op: there is no fallback."
)
def test_missing_kernels() -> None:
    with pytest.raises(
        errors.UnsupportedError, match=r"(?s)Sin: backend 'boxes' has no kernel.*test_backends"
    ):
        tnf.GraphExecutor(backend=BOXES).run(tnf.compile(lambda x: tnf.sin(x * x), X), X)


@chapter.works(5, "A dtype that a backend does not support is an error with the backend's reason.")
def test_refused_dtypes() -> None:
    wide = replace(BOXES, refuses=lambda op, dtype: "too wide" if dtype.itemsize > 4 else None)
    with pytest.raises(errors.UnsupportedError, match=r"'boxes' on float64: too wide"):
        tnf.GraphExecutor(backend=wide).run(SQUARED, X)


@chapter.works(
    6, "A kernel that raises is a `BackendFailureError` with the op and the user's line."
)
def test_failing_kernels() -> None:
    def fails(op: Any, x: Any, y: Any) -> Any:
        raise ValueError("no room")

    failing = replace(BOXES, kernels={**BOXES.kernels, Multiply: fails})
    with pytest.raises(
        errors.BackendFailureError, match=r"(?s)Multiply.*no room.*test_backends"
    ) as caught:
        tnf.GraphExecutor(backend=failing).run(SQUARED, X)
    assert isinstance(caught.value.__cause__, ValueError)


@chapter.works(7, "A kernel that returns None instead of an array is an error that names the op.")
def test_kernels_that_give_nothing() -> None:
    empty = replace(BOXES, kernels={**BOXES.kernels, Multiply: lambda op, x, y: None})
    executor = tnf.GraphExecutor(backend=empty)
    for call in (lambda: executor.run(SQUARED, X), lambda: executor.apply(Multiply(), [X, X])):
        with pytest.raises(errors.BackendFailureError, match=r"Multiply: .*gives None"):
            call()


@chapter.works(8, "A kernel that returns another number of results than its op has is an error.")
def test_kernels_that_give_too_few() -> None:
    short = Backend("short", {Sort: lambda op, *xs: (xs[0],)})
    program = tnf.compile(lambda x: tnf.extension.algebra.apply(Sort(0, count=2), x, x), X)
    with pytest.raises(errors.BackendFailureError, match=r"Sort: .*gives 1 results, the op has 2"):
        tnf.GraphExecutor(backend=short).run(program, X)


@chapter.works(9, "A backend can run one op outside of a program.")
def test_one_op() -> None:
    (y,) = tnf.GraphExecutor(backend=BOXES).apply(Multiply(), [X, X])
    np.testing.assert_array_equal(y, X * X)


@chapter.works(10, "NumPy is a backend like any other, and the default.")
def test_numpy() -> None:
    explicit = tnf.GraphExecutor(backend=NUMPY).run(SQUARED, X)
    np.testing.assert_array_equal(explicit, tnf.GraphExecutor().run(SQUARED, X))
    assert Multiply in NUMPY.kernels


@chapter.works(11, "Extension operations need no backend interface: their runtime executes them.")
def test_extensions() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"scale\.v1: backend 'boxes' has no kernel"):
        tnf.GraphExecutor(backend=BOXES).run(compiled(Scale()), X)
    np.testing.assert_array_equal(tnf.GraphExecutor().run(compiled(Scale()), X), 2 * X)


@chapter.differs(
    12,
    "There are no sessions: a schedule is a function of its arrays and holds all of its state.",
    because="calls need no set-up and no cleanup",
)
def test_no_sessions() -> None:
    assert not hasattr(Backend, "with_backend_session")
    source = tnf.GraphExecutor("K").source(SQUARED, X)
    assert source.count("def ") == 1


@chapter.differs(
    13,
    "The schedule decides when memory is reused, without calls to the backend.",
    because="authors of kernels do not manage memory",
)
def test_no_reclaiming() -> None:
    made: list[Any] = []
    alive_at_the_end: list[bool] = []

    def product(op: Any, x: Any, y: Any) -> Any:
        made.append(weakref.ref(box := Boxed(x.array * y.array)))
        return box

    def total(op: Any, x: Any, y: Any) -> Any:
        alive_at_the_end.extend(ref() is not None for ref in made)
        return Boxed(x.array + y.array)

    tracking = replace(BOXES, kernels={Multiply: product, Add: total})
    program = tnf.compile(lambda x: ((x * x) * x) + x, X)
    tnf.GraphExecutor(backend=tracking).run(program, X)
    assert alive_at_the_end == [False, True]
    assert not hasattr(Backend, "reclaim_buffer")


# ---- executors -----------------------------------------------------------------------------------


class Counting:
    """Executor with the only method that executors must have, `run(program, *arrays)`."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, program: Any, *arrays: Any) -> Any:
        self.runs += 1
        return program.run(*arrays)


@chapter.table(
    "call",
    {
        14: Row("`jit` runs on the given executor.", lambda e: tnf.jit(lambda x: x * x, executor=e)(X)),
        15: Row("`grad` runs on the given executor.", lambda e: tnf.grad(lambda x: tnf.sum(x * x * x) / 3, executor=e)(X)),
        16: Row("`vmap` runs on the given executor.", lambda e: tnf.vmap(lambda x: x * x, executor=e)(X)),
        17: Row("Loops on arrays run on the given executor.", lambda e: tnf.fori_loop(0, 1, lambda i, x: x * x, X, executor=e)),
        18: Row("Conditionals on arrays run on the given executor.", lambda e: tnf.cond(True, lambda x: x * x, lambda x: x, X, executor=e)),
        19: Row("`scan` on arrays runs on the given executor.", lambda e: tnf.scan(lambda c, x: (c, x * x), 0.0, X, executor=e)[1]),
    },
)  # fmt: skip
def test_executors(call: Any) -> None:
    executor = Counting()
    np.testing.assert_allclose(call(executor), X * X, rtol=1e-15)
    assert executor.runs >= 1


@chapter.works(20, "An executor given to `jit` runs eager tensors, too.")
def test_eager_tensors() -> None:
    executor = Counting()
    y = tnf.jit(lambda x: x * x, executor=executor)(tnf.EagerRuntime().constant(X))
    np.testing.assert_array_equal(y.numpy(), X * X)
    assert executor.runs == 1


@chapter.works(21, "`EagerRuntime` runs on the given executor.")
def test_eager_runtimes() -> None:
    executor = tnf.GraphExecutor("K")
    runtime = tnf.EagerRuntime(executor=executor)
    assert runtime.executor is executor
    np.testing.assert_array_equal((runtime.constant(X) * 2.0).numpy(), 2 * X)


# ---- the peer ------------------------------------------------------------------------------------


@chapter.works(22, "The native path never imports the libraries of the XLA peer.")
def test_imports() -> None:
    runs_without(
        PEERS,
        "import numpy as np, tenferro as tnf\ntnf.grad(lambda x: tnf.sum(tnf.sin(x)))(np.ones(3))",
    )


@chapter.works(23, "The XLA peer reads the program's lowering view, which is immutable.")
def test_lowering_view() -> None:
    import dataclasses

    view = SQUARED.lowering_view()
    assert [i.op.name for i in view.instructions] == ["Multiply", "Add"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.instructions = ()  # type: ignore[misc]  # must raise


@chapter.works(24, "A device that does not exist is an error that names it.")
def test_devices() -> None:
    with pytest.raises(errors.PlatformUnavailableError, match="cuda"):
        xla_peer.XlaExecutor("cuda").run(SQUARED, X)


@chapter.works(25, "A plugin that cannot be loaded is an error that names its path.")
def test_plugins() -> None:
    with pytest.raises(errors.TenferroError, match=r"no_such_plugin\.so"):
        xla_peer.XlaExecutor("/tmp/no_such_plugin.so").run(SQUARED, X)


@chapter.works(
    26, "Arrays are moved to the peer's device and back only where the caller asks for it."
)
def test_put_and_get() -> None:
    xla = xla_peer.XlaExecutor("cpu")
    result = xla.compile(SQUARED)(xla.put(X))
    np.testing.assert_array_equal(xla.get(result), X * X + X)


# ---- what runs where -----------------------------------------------------------------------------


@chapter.table(
    "op, dtype, platform, is_supported",
    {
        27: Row("`capabilities` reports that an op runs natively.", "Sin", "float64", "native", True),
        28: Row("`capabilities` reports that an op does not support a dtype.", Sin, "int32", "native", False),
        29: Row("`capabilities` reports what runs on the peer's platforms.", "Sort", "float32", "cpu", True),
        30: Row("`capabilities` reports what does not run on a platform.", "DynamicTruncate", "float64", "cpu", False),
        31: Row("`capabilities` accepts extension families.", "tenferro.svd.v1", "float64", "native", True),
        32: Row("`capabilities` reports that a family without a runtime does not run.", "specification.nobody.v1", "float64", "native", False),
    },
)  # fmt: skip
def test_capabilities(op: Any, dtype: str, platform: str, is_supported: bool) -> None:
    answer = tnf.capabilities(op, dtype, platform)
    assert bool(answer) is is_supported
    assert bool(answer.reason) is not is_supported


# ---- layout --------------------------------------------------------------------------------------


@chapter.works(33, "`GraphExecutor` returns dense column-major arrays.")
def test_columns() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for function in (tnf.exp, lambda x: x.T, lambda x: x[:, :1] + x, tnf.linalg.qr):
        for y in tnf.tree.leaves(tnf.GraphExecutor().run(tnf.compile(function, x), x)):
            assert y.flags.f_contiguous


@chapter.differs(
    34,
    "Calls without a named executor return arrays in the layout in which they were computed.",
    because="another layout costs a copy for which NumPy users see no reason",
)
def test_any_order() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for y in (tnf.exp(x), tnf.jit(tnf.exp)(x), tnf.compile(tnf.exp, x).run(x)):
        assert y.flags.c_contiguous


@chapter.works(35, "Arguments may have any strides; results do not depend on them.")
def test_strides() -> None:
    x = np.arange(24.0).reshape(4, 6)[::2, ::-2]
    program = tnf.compile(lambda x: tnf.tanh(x) @ x.T, x)
    np.testing.assert_array_equal(program.run(x), program.run(np.ascontiguousarray(x)))
