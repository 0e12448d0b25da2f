"""Payloads must be equal exactly if their types, signs and values are equal at any depth.

This must hold within a process and between processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.extension import (
    Extension,
    ExtensionOp,
    HostReferenceRuntime,
    apply,
    extension_family,
    register_extension,
)

X = np.array([1.0, 2.0, 3.0])
NAN = float("nan")
Pair = namedtuple("Pair", ["left", "right"])  # because payloads may contain one


class Kind(Enum):
    MAX = 1
    MIN = 2


@dataclass(frozen=True)
class Config:
    scale: float
    note: Any = field(default=None, compare=False)


@extension_family("tenferro-tests", "signed", version=1)
@dataclass(frozen=True)
class Signed(ExtensionOp):
    """y = |x|, with the sign of the first number in the payload."""

    k: Any

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [np.copysign(inputs[0], self.k[0])]


APART = [
    ((0.0,), (-0.0,)),
    ((1,), (True,)),
    ((1,), (1.0,)),
    (((0.0, (1,)),), ((0.0, (1.0,)),)),
    (complex(0, 0.0), complex(0, -0.0)),
    ((complex(0.0, 0),), (complex(-0.0, 0),)),
    (frozenset([0.0]), frozenset([-0.0])),
    (frozenset([1]), frozenset([True])),
    (Config(0.0), Config(-0.0)),
    ((Config(1.0),), (Config(1),)),
    (np.float32(0.0), np.float32(-0.0)),
    (np.float64(1.0), 1.0),
    (np.float32(1.0), np.float64(1.0)),
    (Pair(1, 2), (1, 2)),
    (Kind.MAX, Kind.MIN),
    (None, ()),
    ("1", 1),
    (tnf.DType.F32, tnf.DType.F64),
    (tnf.SymDim("n"), tnf.SymDim("m")),
]
ALIKE = [
    ((NAN,), (float("nan"),)),
    ((complex(NAN, 0.0),), (complex(float("nan"), 0.0),)),
    (Config(NAN), Config(float("nan"))),
    (Config(1.0, "a"), Config(1.0, "b")),
    (np.float32("nan"), np.float32("nan")),
    (frozenset([1, "a"]), frozenset(["a", 1])),
    ((tnf.SymDim("n") + 1,), (1 + tnf.SymDim("n"),)),
    (Kind.MAX, Kind.MAX),
]


def fingerprint(op: Any) -> str:
    return tnf.compile(lambda x: apply(op, x), X).fingerprint


@pytest.mark.parametrize(("a", "b"), APART)
def test_payloads_that_differ(a: Any, b: Any) -> None:
    assert Extension(Signed(a)) != Extension(Signed(b))
    assert fingerprint(Signed(a)) != fingerprint(Signed(b))


@pytest.mark.parametrize(("a", "b"), ALIKE)
def test_payloads_that_are_one(a: Any, b: Any) -> None:
    assert Extension(Signed(a)) == Extension(Signed(b))
    assert hash(Extension(Signed(a))) == hash(Extension(Signed(b)))
    assert fingerprint(Signed(a)) == fingerprint(Signed(b))


def test_what_differs_is_not_merged() -> None:
    program = tnf.compile(lambda x: (apply(Signed((0.0,)), x), apply(Signed((-0.0,)), x)), X)
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(Signed.family_id)])
    plus, minus = executor.run(program, X)
    np.testing.assert_array_equal(plus, X)
    np.testing.assert_array_equal(minus, -X)


@pytest.mark.parametrize("payload", [[1], {"a": 1}, {1}, ({},), np.ones(2), (np.ones(2),)])
def test_payloads_without_a_hash_are_refused(payload: Any) -> None:
    with pytest.raises(errors.InvalidConfigError, match="tuples"):
        tnf.compile(lambda x: apply(Signed(payload), x), X)


class Plain(ExtensionOp):
    """An op whose class is not a dataclass, so that its payload has no fields."""

    family_id = "tenferro-tests.plain.v1"

    def __init__(self, k: float) -> None:
        self.k = k

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [self.k * inputs[0]]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return [inputs[0]]


class OwnIdentity(Plain):
    def payload_hash(self) -> int:
        return hash(self.k)

    def payload_eq(self, other: Any) -> bool:
        return type(other) is type(self) and other.k == self.k


class Written(Plain):
    family_id = "tenferro-tests.written.v1"

    def payload_fields(self) -> dict[str, Any]:
        return {"k": self.k}


class WrittenFactory:
    family_id = Written.family_id
    version = 1

    def instantiate(self, payload: dict[str, Any]) -> Any:
        return Written(payload.get("k", 1.0))


class Slotted(Plain):
    __slots__ = ("m",)

    def __init__(self) -> None:
        self.m = 1


class Widened(Signed):
    """An op whose class inherits from a dataclass but is not one itself."""

    def __init__(self, k: Any, more: int) -> None:
        super().__init__(k)
        vars(self)["more"] = more


@pytest.mark.parametrize(("op", "name"), [(Slotted(), "m"), (Widened((1.0,), 2), "more")])
def test_attributes_that_are_no_fields(op: Any, name: str) -> None:
    with pytest.raises(
        errors.UnsupportedError, match=rf"{name} of {type(op).__name__} may distinguish"
    ):
        tnf.compile(lambda x: apply(op, x), X)


def test_ops_that_do_not_say_what_tells_them_apart() -> None:
    with pytest.raises(errors.UnsupportedError, match=rf"{Plain.family_id}.*\bk of Plain.*payload"):
        tnf.compile(lambda x: (apply(Plain(7.0), x), apply(Plain(1.0), x)), X)


def test_a_payload_is_saved_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    own = tnf.compile(lambda x: apply(OwnIdentity(7.0), x), X)
    with pytest.raises(errors.UnsupportedError, match=f"{OwnIdentity.family_id}.*payload_fields"):
        tnf.save(own, path)
    assert not path.exists()
    assert "shown" in lowering.lower_to_stablehlo(own, extensions="composite").text
    register_extension(WrittenFactory())
    program = tnf.compile(lambda x: apply(Written(7.0), x), X)
    tnf.save(program, path)
    loaded = tnf.load(path)
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(Written.family_id)])
    np.testing.assert_array_equal(executor.run(loaded, X), 7.0 * X)
    assert loaded.fingerprint == program.fingerprint
    module = lowering.lower_to_stablehlo(program, extensions="composite")
    again = lowering.import_stablehlo(module.text)
    np.testing.assert_array_equal(executor.run(again, X), 7.0 * X)


def test_numbers_of_numpy_come_back_as_they_were(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "numbers", version=1)
    @dataclass(frozen=True)
    class Numbers(Signed):
        pass

    register_extension(Numbers)
    payload = (np.float64(0.1), np.float32(-0.0), np.int8(3), np.bool_(True), 1.5)
    program = tnf.compile(lambda x: apply(Numbers(payload), x), X)
    tnf.save(program, tmp_path / "program")
    (step,) = tnf.load(tmp_path / "program").instructions
    assert step.op == Extension(Numbers(payload))
    assert tnf.load(tmp_path / "program").fingerprint == program.fingerprint


def test_fields_that_a_file_would_lose_are_refused(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "lossy", version=1)
    @dataclass(frozen=True)
    class Lossy(Signed):
        plan: Any = field(compare=False)

    program = tnf.compile(lambda x: apply(Lossy(1.0, object()), x), X)
    with pytest.raises(errors.UnsupportedError, match="plan of Lossy is not compared"):
        tnf.save(program, tmp_path / "program")


def test_fingerprints_go_by_identity() -> None:
    @extension_family("tenferro-tests", "hidden", version=1)
    @dataclass(frozen=True)
    class Hidden(Signed):
        k: Any = field(repr=False)

    assert fingerprint(Hidden(2.0)) != fingerprint(Hidden(3.0))
    assert fingerprint(Hidden(2.0)) == fingerprint(Hidden(2.0))
    assert fingerprint(Written(2.0)) == fingerprint(Written(2.0)) != fingerprint(Written(3.0))
    # If a payload cannot be serialised in the same way by two processes, no other payload may equal it.
    assert fingerprint(OwnIdentity(2.0)) != fingerprint(OwnIdentity(2.0))
    assert fingerprint(Signed(object())) != fingerprint(Signed(object()))
    local = lambda: None
    assert fingerprint(Signed(local)) != fingerprint(Signed(local))
    assert fingerprint(Signed(np.sort)) == fingerprint(Signed(np.sort))
    program = tnf.compile(lambda x: apply(OwnIdentity(2.0), x), X)
    assert program.fingerprint == program.fingerprint


MIXED = Signed((frozenset("abc"), Config(-0.0), Kind.MIN, NAN, "b", 1j, np.float32(2), np.sort))


def test_fingerprints_are_equal_in_every_process() -> None:
    code = "from tests.extension.test_identity import *; print(fingerprint(MIXED))"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == fingerprint(MIXED)


def test_a_factory_of_another_version_is_refused() -> None:
    class Newer:
        family_id = "tenferro-tests.newer.v1"
        version = 2

        def instantiate(self, payload: Any) -> Any:
            raise AssertionError

    with pytest.raises(errors.RegistrationError, match=r"newer\.v1: .* version 2, .* says 1"):
        register_extension(Newer())
    with pytest.raises(errors.RegistrationError, match="instantiate"):
        register_extension(type("None", (), {"family_id": "a.b.v1", "version": 1})())
    with pytest.raises(errors.MalformedFamilyIdError):
        register_extension(object())


def test_eager_numbers_keep_the_signs_of_zeros() -> None:
    rt = tnf.EagerRuntime()
    spec = tnf.TensorSpec((1,), "complex128")
    for value in (0j, complex(0.0, -0.0), complex(-0.0, 0.0)):
        (element,) = rt.number(value, spec).numpy()
        assert repr(complex(element)) == repr(value)
