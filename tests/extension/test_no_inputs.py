"""Ops without inputs and ops with effects must become instructions of a traced function, and not constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import (
    Extension,
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuntime,
    HostReferenceRuntime,
    apply,
    extension_family,
    register_extension,
)
from tenferro.ops.source import Iota
from tenferro.types import DType

X = np.array([1.0, 2.0, 3.0])


@extension_family("tenferro-tests", "ramp", version=1)
@dataclass(frozen=True)
class Ramp(ExtensionOp):
    """The vector 0, 1, .., n - 1. The op has no runtime, so that its expansion must compute it."""

    n: int
    input_count = 0
    from_expansion = True

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [("float64", (self.n,))]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return [builder.apply_one(Iota((self.n,), 0, DType.F64))]


@extension_family("tenferro-tests", "unknown_ramp", version=1)
@dataclass(frozen=True)
class UnknownRamp(Ramp):
    from_expansion = False


register_extension(Ramp)


def weighted(x: Any) -> Any:
    return tnf.sum(x * x * apply(Ramp(3)))


PROGRAM = tnf.compile(weighted, X)
TRANSFORMED: dict[str, tuple[Any, Any]] = {
    "jit": (tnf.jit(weighted), 22.0),
    "grad": (tnf.grad(weighted), [0.0, 4.0, 12.0]),
    "jit of grad": (tnf.jit(tnf.grad(weighted)), [0.0, 4.0, 12.0]),
    "jvp": (lambda x: tnf.jvp(weighted, (x,), (x,))[1], 44.0),
    "hessian": (tnf.hessian(weighted), np.diag([0.0, 2.0, 4.0])),
    "vmap": (lambda x: tnf.vmap(weighted)(np.stack([x, 2 * x])), [22.0, 88.0]),
    "checkpoint": (tnf.grad(tnf.checkpoint(weighted)), [0.0, 4.0, 12.0]),
    "scan": (lambda x: tnf.scan(lambda c, y: (c + y * tnf.sum(apply(Ramp(3))), y), 0.0, x)[0], 18.0),
    "no argument": (lambda x: tnf.jit(lambda: apply(Ramp(3)))(), [0.0, 1.0, 2.0]),
}  # fmt: skip


def test_it_is_an_instruction() -> None:
    assert [type(step.op) for step in PROGRAM.instructions].count(Extension) == 1
    assert PROGRAM.families == (Ramp.family_id,)
    assert PROGRAM.run(X) == 22.0
    np.testing.assert_array_equal(apply(Ramp(3)), [0.0, 1.0, 2.0])


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed(name: str) -> None:
    function, expected = TRANSFORMED[name]
    np.testing.assert_array_equal(function(X), expected)


def test_tracing_needs_no_runtime() -> None:
    program = tnf.compile(lambda x: x * apply(UnknownRamp(3)), X)
    with pytest.raises(errors.UnsupportedError, match=r"unknown_ramp\.v1: not registered"):
        program.run(X)
    np.testing.assert_array_equal(xla_peer.XlaExecutor().run(program, X), [0.0, 2.0, 6.0])


def test_saved(tmp_path: Path) -> None:
    tnf.save(PROGRAM, tmp_path / "program")
    loaded = tnf.load(tmp_path / "program")
    assert loaded.fingerprint == PROGRAM.fingerprint
    assert loaded.run(X) == 22.0


def test_lowered_as_a_composite_and_read_again() -> None:
    text = str(lowering.lower_to_stablehlo(PROGRAM, extensions="composite"))
    assert 'stablehlo.composite "tenferro_tests.ramp.v1"' in text
    again = lowering.import_stablehlo(text)
    assert again.families == (Ramp.family_id,)
    assert again.run(X) == 22.0


def test_like_says_which_runtime_it_is_for() -> None:
    class Backwards(ExtensionRuntime):
        family_id = UnknownRamp.family_id

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return [np.arange(op.n)[::-1] * 1.0]

    runtime = tnf.EagerRuntime(runtimes=[Backwards()])
    y = apply(UnknownRamp(3), like=runtime.constant(X))
    np.testing.assert_array_equal(np.asarray(y), [2.0, 1.0, 0.0])


class Weights(ExtensionAdRule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return tangents[0] * apply(Ramp(3), like=tangents[0])


@extension_family("tenferro-tests", "weighing", version=1, runtime=HostReferenceRuntime, rules=Weights())  # fmt: skip
@dataclass(frozen=True)
class Weighing(ExtensionOp):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] * np.arange(3.0)]


def test_rules_put_it_beside_a_value() -> None:
    def derivative(x: Any) -> Any:
        return tnf.jvp(lambda x: apply(Weighing(), x), (x,), (x,))[1]

    for function in (derivative, tnf.jit(derivative)):
        np.testing.assert_array_equal(function(X), [0.0, 2.0, 6.0])


CALLS: Iterator[int] = count()


@extension_family("tenferro-tests", "calls", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Calls(ExtensionOp):
    """y = x plus the number of earlier calls. This number is an effect of the op."""

    effects = True

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] + next(CALLS)]


def test_effects_on_arrays_happen_when_the_program_runs() -> None:
    start = next(CALLS) + 1
    program = tnf.compile(lambda x: x + apply(Calls(), np.zeros(3)), X)
    for number in range(2):
        np.testing.assert_array_equal(program.run(X), X + start + number)
    gradient = tnf.grad(lambda x: tnf.sum(x * apply(Calls(), np.zeros(3))))
    for number in range(2, 4):
        np.testing.assert_array_equal(gradient(X), np.full(3, start + number))
