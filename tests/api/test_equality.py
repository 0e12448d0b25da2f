"""`==` between a public object and any other object must return True, False or a tensor, and never raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors


class Hostile:
    """Object whose attributes and comparisons all raise an error."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("==")

    __hash__ = None  # type: ignore[assignment]  # because it is only compared


class HostileDType:
    """Object whose attribute `dtype` raises an error. NumPy reads this attribute when it converts an object."""

    @property
    def dtype(self) -> Any:
        raise RuntimeError("dtype")


NO_DTYPES = [
    None, "x,y:", "f8,f8", "1f8,", "abs", "", "M8[fortnight]", "no dtype", b"\xff", {"func_name": "abs"}, {},
    [], ("float32", "float32"), [("a", "f8")], (1, 2), 3, 2.5, np, object(), object, HostileDType(), NotImplemented, ..., slice(1),
    np.dtype("O"), np.dtype("f8,f8"), tnf.TensorSpec((2,), "float64"), tnf,
]  # fmt: skip


@pytest.mark.parametrize("other", NO_DTYPES, ids=lambda other: f"{type(other).__name__}")
def test_a_dtype_differs_from_what_is_no_dtype(other: Any) -> None:
    for dtype in tnf.DType:
        assert not dtype == other  # noqa: SIM201  # because == is what is tested
        assert dtype != other
        assert dtype not in [other]


def test_a_dtype_equals_numpys_names_for_it() -> None:
    names: dict[tnf.DType, list[Any]] = {
        tnf.float64: ["float64", "f8", "d", float, np.float64, np.dtype("f8"), "=f8"],
        tnf.float32: ["float32", "f4", np.float32, np.dtype("f4")],
        tnf.int64: ["int64", int, np.int64], tnf.bool: ["bool", "?", bool, np.bool_],
        tnf.complex128: ["complex128", complex], tnf.bfloat16: ["bfloat16"],
    }  # fmt: skip
    for dtype, others in names.items():
        for other in others:
            assert dtype == other
            assert not dtype != other  # noqa: SIM202  # because != is what is tested
            assert dtype in [other]
            assert all((one == other) is (one is dtype) for one in tnf.DType)
        assert hash(dtype) == hash(dtype.dtype)
    assert {np.dtype("f4"): 1}[tnf.float32] == 1  # type: ignore[index]  # their hashes are equal


def test_a_dtype_compares_before_a_hostile_object_does() -> None:
    assert not tnf.float32 == Hostile()  # noqa: SIM201  # because == is what is tested


@pytest.mark.parametrize("name", ["x,y:", {"func_name": "abs"}, np, "1f8,", "no dtype"])
def test_what_names_no_dtype_is_refused(name: Any) -> None:
    with pytest.raises(errors.DTypeError, match="not supported"):
        tnf.DType.of(name)


def test_public_values_compare_with_anything() -> None:
    program = tnf.compile(lambda x: x * np.arange(3.0), np.ones(3))
    subjects: list[Any] = [
        tnf.TensorSpec((2, "n"), "float64"), tnf.SymDim("n"), 2 * tnf.SymDim("n") + 1, program,
        *[instruction.op for instruction in program.instructions], xla_peer.PartitionSpec("x", None),
        tnf.finfo("float64"), tnf.iinfo("int8"), tnf.__array_namespace_info__(), tnf.EagerRuntime(),
        tnf.EagerRuntime().plan_stats(), tnf.check_grads(tnf.sum, (np.ones(2),)), tnf.GraphExecutor(),
    ]  # fmt: skip
    for subject in subjects:
        for other in (*NO_DTYPES, *subjects):
            assert (subject == other) is (subject is other)
            assert (subject != other) is (subject is not other)


@pytest.mark.parametrize("kind", ["eager", "traced"])
def test_a_tensor_differs_from_what_is_no_tensor(kind: str) -> None:
    def compare(x: Any) -> Any:
        for other in (None, "abc", {}, object(), np, tnf.float32, HostileDType()):
            assert (x == other) is False
            assert (other == x) is False
            assert (x != other) is True
            assert x not in [other]
        return x == [1.0, 2.0], x != np.float64(1.0), x == 1

    if kind == "eager":
        results = compare(tnf.EagerRuntime().constant([1.0, 3.0]))
    else:
        results = tnf.compile(compare, np.ones(2)).run(np.array([1.0, 3.0]))
    assert [np.asarray(y).tolist() for y in results] == [
        [True, False],
        [False, True],
        [True, False],
    ]
