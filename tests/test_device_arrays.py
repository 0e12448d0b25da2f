"""Arrays on a device must raise an error. They must not be copied to the host without notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.types import host_array
from xla_peer import XlaExecutor


class DeviceArray:
    """Array on a GPU. NumPy could convert it by a copy to the host, and the array counts such copies."""

    shape, dtype, device = (3,), np.dtype("f4"), "cuda:0"

    def __init__(self, kind: int | Exception = 2) -> None:
        self.kind = kind
        self.copies = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        if isinstance(self.kind, Exception):
            raise self.kind
        return self.kind, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.copies += 1
        return np.arange(3, dtype="f4")


def double(x: Any) -> Any:
    return x + x


PROGRAM = tnf.compile(double, tnf.TensorSpec((3,), "float32"))
XLA = XlaExecutor("cpu")
CALLS: dict[str, Callable[[Any], Any]] = {
    "program.run": PROGRAM.run,
    "GraphExecutor.run": lambda x: tnf.GraphExecutor().run(PROGRAM, x),
    "jit": tnf.jit(double),
    "jit through XLA": tnf.jit(double, executor=XLA),
    "XlaExecutor.run": lambda x: XLA.run(PROGRAM, x),
    "a surface function": tnf.sin,
    "an operand": lambda x: tnf.add(np.ones(3, "f4"), x),
    "grad": lambda x: tnf.grad(lambda x: tnf.sum(x * x))(x),
    "a constant of a trace": lambda x: tnf.compile(lambda y: tnf.add(x, y), np.ones(3, "f4")),
    "a result of a trace": lambda x: tnf.compile(lambda y: (y, x), np.ones(3, "f4")),
    "a variable": lambda x: tnf.EagerRuntime().variable(x),
    "an eager operand": lambda x: tnf.EagerRuntime().variable(np.ones(3, "f4")) * x,
}


@pytest.mark.parametrize("name", CALLS)
def test_no_copy_from_a_gpu(name: str) -> None:
    x = DeviceArray()
    with pytest.raises(errors.BackendFailureError, match=r"DeviceArray is on cuda:0.*asarray"):
        CALLS[name](x)
    assert not x.copies


def test_several_devices_and_those_that_dlpack_does_not_know() -> None:
    """For an array on several devices, the error must name the argument.

    Libraries raise BufferError in `__dlpack_device__` for such arrays.
    """
    with pytest.raises(errors.BackendFailureError, match=r"x: this DeviceArray"):
        PROGRAM.run(DeviceArray(BufferError("only for unsharded arrays")))


@pytest.mark.parametrize("kind", [1, 3, 11, 13])
def test_memory_that_the_host_reads(kind: int) -> None:
    np.testing.assert_array_equal(PROGRAM.run(DeviceArray(kind)), [0, 2, 4])


def test_jax_arrays_on_the_cpu_come_without_a_copy() -> None:
    x = jnp.arange(3, dtype="float32")
    assert np.shares_memory(host_array(x, "x"), np.asarray(x))
    for name in ("program.run", "jit", "jit through XLA", "XlaExecutor.run"):
        np.testing.assert_array_equal(CALLS[name](x), [0, 2, 4])


# ---- arrays of other libraries ---------------------------------------------------------------


class Producer:
    """Array of another library. Its elements are accessible only by DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ForeignDType:
    """A dtype object that NumPy does not recognise, such as PyTorch's."""

    def __repr__(self) -> str:
        return "torch.float32"


class Tensor(Producer):
    """A tensor on the CPU with the attributes of PyTorch's tensors."""

    dtype, shape, device = ForeignDType(), (3,), "cpu"

    def __init__(self, array: Any, requires_grad: bool = False) -> None:
        super().__init__(array)
        self.requires_grad = requires_grad

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self.array, dtype)


FOREIGN_CALLS = {
    **CALLS,
    "asarray": tnf.asarray,
    "compile": lambda x: tnf.compile(double, x).run(x),
    "vmap": lambda x: tnf.vmap(double)(x),
    "a tree": lambda x: tnf.jit(lambda p: p["w"] + 1)({"w": x}),
    "ravel": lambda x: tnf.tree.ravel([x])[0],
    "an optimiser": lambda x: tnf.optim.apply_updates(x, x),
}
ELEMENTS = np.arange(3, dtype="f4")


@pytest.mark.parametrize("kind", [Producer, Tensor])
@pytest.mark.parametrize("name", [name for name in FOREIGN_CALLS if name != "an optimiser"])
def test_arrays_of_other_libraries_are_arrays(name: str, kind: Any) -> None:
    expected = FOREIGN_CALLS[name](ELEMENTS)
    actual = FOREIGN_CALLS[name](kind(ELEMENTS))
    if not hasattr(expected, "dtype"):  # this call returns a program
        actual, expected = actual.run(ELEMENTS), expected.run(ELEMENTS)
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
    assert np.asarray(actual).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("name", FOREIGN_CALLS)
def test_tensors_that_require_grad_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"requires grad.*x\.detach\(\)"):
        FOREIGN_CALLS[name](Tensor(ELEMENTS, requires_grad=True))


class Unread(Tensor):
    """Tensor of a dtype that NumPy lacks. Its conversion to an array raises an error."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("name", FOREIGN_CALLS)
def test_tensors_that_numpy_does_not_read(name: str) -> None:
    with pytest.raises(errors.BackendFailureError, match="Unread: Got unsupported ScalarType"):
        FOREIGN_CALLS[name](Unread(ELEMENTS))


@pytest.mark.parametrize("name", [name for name in FOREIGN_CALLS if name != "an optimiser"])
def test_tensors_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    expected = FOREIGN_CALLS[name](ELEMENTS)
    actual = FOREIGN_CALLS[name](torch.arange(3, dtype=torch.float32))
    if not hasattr(expected, "dtype"):
        actual, expected = actual.run(ELEMENTS), expected.run(ELEMENTS)
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
    with pytest.raises(errors.InvalidConfigError, match="requires grad"):
        FOREIGN_CALLS[name](torch.ones(3, requires_grad=True))
