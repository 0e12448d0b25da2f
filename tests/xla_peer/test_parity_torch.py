"""`check_parity` against functions of PyTorch. Arrays may share memory with PyTorch's tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor, check_parity

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(4, 3))


def of_torch(x: Any) -> Any:
    return torch.softmax(x, dim=1)


def closures() -> dict[str, Any]:
    package = torch

    def imports(x: Any) -> Any:
        import torch as local

        return local.softmax(x, dim=1)

    return {
        "a function that names the package": of_torch,
        "a closure that holds it": lambda x: package.softmax(x, dim=1),
        "a function that imports it": imports,
        "its function, partly applied": partial(torch.softmax, dim=1),
        "its Python function": partial(torch.nn.functional.softmax, dim=1),
        "a module of layers": torch.nn.Softmax(dim=1),
        "a method of a module": torch.nn.Softmax(dim=1).forward,
        "a method of tensors": partial(torch.Tensor.softmax, dim=1),
    }


@pytest.mark.parametrize("name", closures())
def test_functions_of_torch_get_tensors(name: str) -> None:
    assert check_parity(lambda x: tnf.softmax(x, axis=1), X, against=closures()[name]).ok


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(tnf.sin, torch.sin), (tnf.linalg.pinv, torch.linalg.pinv), (tnf.erf, torch.special.erf)],
)
def test_functions_in_c_get_tensors(ours: Any, theirs: Any) -> None:
    assert check_parity(ours, X, against=theirs).ok


def test_a_wrong_function_of_torch_is_noticed() -> None:
    report = check_parity(tnf.sin, X, against=torch.cos)
    assert not report.ok
    assert "wrong" in str(report)


def test_views_that_are_conjugated_or_negated_are_read() -> None:
    z = X + 1j * X[::-1]
    assert check_parity(tnf.conj, z, against=torch.conj).ok
    assert check_parity(lambda z: tnf.imag(tnf.conj(z)), z, against=lambda z: z.conj().imag).ok


def test_bfloat16_goes_there_and_back() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    assert check_parity(lambda x: x + x, x, against=lambda x: torch.add(x, x)).ok


def test_trees_and_numbers_of_torch() -> None:
    ours = lambda p: {"double": p["x"] * 2, "rank": tnf.asarray(2.0)}
    assert check_parity(ours, {"x": X}, against=lambda p: {"double": torch.mul(p["x"], 2), "rank": 2.0}).ok  # fmt: skip


def test_tensors_share_memory_both_ways() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    array = tnf.from_dlpack(tensor.T)
    assert array.shape == (3, 2)
    tensor[0, 1] = 7.0
    assert array[1, 0] == 7.0
    result = tnf.exp(X)
    assert torch.from_dlpack(result).data_ptr() == result.__array_interface__["data"][0]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)  # fmt: skip
def test_dtypes_survive_the_way_there_and_back(dtype: str) -> None:
    x = np.array([0, 1, 2]).astype(dtype)
    tensor = torch.from_dlpack(tnf.EagerRuntime().constant(x))
    assert str(tensor.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(tnf.from_dlpack(tensor), x)
    assert tnf.from_dlpack(tensor).dtype == x.dtype


def test_buffers_of_the_peer_are_read_by_torch() -> None:
    executor = XlaExecutor()
    np.testing.assert_array_equal(torch.from_dlpack(executor.put(X)), X)
    program = tnf.compile(tnf.sin, X)
    np.testing.assert_array_equal(executor.run(program, torch.tensor(X)), executor.run(program, X))


@pytest.mark.parametrize(
    ("tensor", "kind", "words"),
    [
        (torch.ones(2, requires_grad=True), BufferError, "detach"),
        (torch.ones(2, dtype=torch.complex64).conj(), BufferError, "conjugate"),
        (torch.ones(2, dtype=torch.bfloat16), errors.BackendFailureError, r"^from_dlpack: .* float32"),
        (torch.empty(2, device="meta"), BufferError, "meta"),
    ],
    ids=["requires grad", "conjugated", "bfloat16", "without memory"],
)  # fmt: skip
def test_tensors_that_cannot_be_shared_say_why(tensor: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        tnf.from_dlpack(tensor)
