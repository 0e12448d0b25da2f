"""Composites and calls that name an extension family must be imported as its ops.

Unknown names must be listed together in one error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo, register_composite_reader
from lowering.read import composites
from tenferro import errors
from tenferro.ext.fft.families import Fft
from tenferro.ext.lapack.families import Geqrf
from tenferro.ext.linalg.families import Cholesky, Eigh, Qr, Svd, TriangularSolve
from tenferro.extension import (
    ExtensionOp,
    HostReferenceRuntime,
    apply,
    extension_family,
    register_extension,
)
from tenferro.ops.analytic import Sin, Tanh
from tenferro.ops.elementwise import Negate
from tenferro.ops.extension import Extension

X = np.random.default_rng(0).normal(size=(3, 3))
X = X @ X.T + np.eye(3)


def families(program: tnf.GraphProgram) -> list[Any]:
    return [i.op.op for i in program.instructions if isinstance(i.op, Extension)]


@pytest.mark.parametrize(
    ("op", "count"),
    [
        (Qr(full=True), 1), (Svd(degenerate="nan"), 1), (Eigh(), 1), (Cholesky(), 1), (Geqrf(), 1),
        (TriangularSolve(lower=False, transpose="T"), 2), (Fft("rfft", (3,)), 1),
    ],
)  # fmt: skip
def test_our_families_come_back(op: Any, count: int) -> None:
    arguments = (X,) * count
    program = tnf.compile(lambda *xs: apply(op, *xs), *arguments)
    text = lower_to_stablehlo(program, extensions="composite").text
    again = import_stablehlo(text)
    assert families(again) == [op]
    assert lower_to_stablehlo(again, extensions="composite").text == text


@extension_family("tenferro-tests", "every_payload", version=2)
@dataclass(frozen=True)
class EveryPayload(ExtensionOp):
    """y = x, with a payload that has a field of every supported type."""

    truth: bool = True
    count: int = -3
    rate: float = 0.1
    limit: float = float("-inf")
    none: Any = None
    phase: complex = 1.5 - 0.0j
    dtype: Any = tnf.DType.BF16
    words: tuple[str, ...] = ('a "quoted" one', "ä\n", "none")
    pairs: tuple[tuple[int, ...], ...] = ((1, 2), ())

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0]]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, *meta: Any) -> Any:
        return [inputs[0] * 1]


register_extension(EveryPayload)


def test_every_payload_comes_back() -> None:
    for op in (EveryPayload(), EveryPayload(rate=-0.0, limit=float("inf"), none=0.1 + 0.2)):
        text = lower_to_stablehlo(
            tnf.compile(lambda x, op=op: apply(op, x), X), extensions="composite"
        ).text
        (again,) = families(import_stablehlo(text))
        assert again.payload_eq(op)
    runtime = HostReferenceRuntime(op.family_id)
    np.testing.assert_array_equal(
        tnf.GraphExecutor(runtimes=[runtime]).run(import_stablehlo(text), X), X
    )


def test_a_payload_for_people_alone_leaves_the_decomposition() -> None:
    op = EveryPayload(none=range(3))
    text = lower_to_stablehlo(tnf.compile(lambda x: apply(op, x), X), extensions="composite").text
    assert 'shown = "range(0, 3)"' in text
    again = import_stablehlo(text)
    assert families(again) == []
    np.testing.assert_array_equal(again.run(X), X)


class Negated(EveryPayload):
    """y = -x, by a subclass that the factory of the family does not create."""

    def eager_execute(self, inputs: Any) -> Any:
        return [-inputs[0]]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, *meta: Any) -> Any:
        return builder.apply(Negate(), inputs[0])


def test_an_op_that_the_family_does_not_create_leaves_the_decomposition() -> None:
    program = tnf.compile(lambda x: apply(Negated(), x), X)
    again = import_stablehlo(lower_to_stablehlo(program, extensions="composite").text)
    assert families(again) == []
    np.testing.assert_array_equal(again.run(X), -X)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Letter(StrEnum):
    A = "a"


@extension_family("tenferro-tests", "enum_payload", version=1)
@dataclass(frozen=True)
class EnumPayload(EveryPayload):
    """y = x, with members of enums that are also numbers or strings."""

    level: Level = Level.HIGH
    letter: Letter = Letter.A


register_extension(EnumPayload)


def test_a_member_of_an_enum_of_numbers_comes_back() -> None:
    program = tnf.compile(lambda x: apply(EnumPayload(), x), X)
    (again,) = families(import_stablehlo(lower_to_stablehlo(program, extensions="composite").text))
    assert again == EnumPayload()
    assert type(again.level) is Level
    assert type(again.letter) is Letter


TEXT = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = stablehlo.composite "{name}" %x {{composite_attributes = {{{attributes}}}, decomposition = @body, version = 1 : i32}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}}
func.func private @body(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = stablehlo.cosine %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}}
"""


@pytest.mark.parametrize(
    "attributes",
    [
        'family_id = "nobody.knows.v1"', 'family_id = "no id"', "family_id = 3 : i64",
        'family_id = "tenferro.qr.v1"', 'family_id = "tenferro.cholesky.v1", more = 1 : i64',
        'family_id = "tenferro.fft.v1", kind = {dtype = "no dtype"}, lengths = [3 : i64]', "",
    ],
)  # fmt: skip
def test_what_makes_no_op_that_fits_is_its_decomposition(attributes: str) -> None:
    program = import_stablehlo(TEXT.format(name="some.thing", attributes=attributes))
    np.testing.assert_allclose(program.run(np.zeros(3, "f4")), 1)


@extension_family("tenferro-tests", "particular", version=1)
@dataclass(frozen=True)
class Particular(ExtensionOp):
    """y = x. Creating the op, or inferring its type, raises the error that the test chooses."""

    where: str
    error: str

    def __post_init__(self) -> None:
        self.fail("create")

    def fail(self, where: str) -> None:
        if self.where == where:
            raise {"type": TypeError, "value": ValueError, "attribute": AttributeError,
                   "config": errors.InvalidConfigError}[self.error]("no")  # fmt: skip

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        self.fail("infer")
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0]]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, *meta: Any) -> Any:
        return [inputs[0] * 1]


register_extension(Particular)


@pytest.mark.parametrize("error", ["type", "value", "attribute", "config"])
@pytest.mark.parametrize("where", ["create", "infer"])
def test_an_op_that_refuses_what_the_text_says_is_its_decomposition(where: str, error: str) -> None:
    attributes = f'family_id = "{Particular.family_id}", where = "{where}", error = "{error}"'
    program = import_stablehlo(TEXT.format(name="some.thing", attributes=attributes))
    assert families(program) == []
    np.testing.assert_allclose(program.run(np.zeros(3, "f4")), 1)


def test_others_say_what_their_composites_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composites, "_READERS", {})
    seen: list[Any] = []

    def reader(attributes: Any, given: Any, made: Any) -> Any:
        seen.append((dict(attributes), given, made))
        return Tanh() if attributes["wide"] else None

    register_composite_reader("their.squash", reader)
    spec = tnf.TensorSpec((3,), "float32")
    for wide, op in (("true", Tanh), ("false", None)):
        program = import_stablehlo(TEXT.format(name="their.squash", attributes=f"wide = {wide}"))
        assert (op is None) or [type(i.op) for i in program.instructions] == [op]
    assert seen == [({"wide": True}, [spec], [spec]), ({"wide": False}, [spec], [spec])]
    with pytest.raises(errors.DuplicateFamilyError, match="already"):
        register_composite_reader("their.squash", reader)
    with pytest.raises(errors.InvalidConfigError, match="function"):
        register_composite_reader("their.other", 3)  # pyright: ignore[reportArgumentType]
    register_composite_reader("their.squash", lambda *_: Sin(), replace=True)
    program = import_stablehlo(TEXT.format(name="their.squash", attributes=""))
    assert [type(i.op) for i in program.instructions] == [Sin]


CALLS = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @mystery(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.custom_call @other(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.custom_call @mystery(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = stablehlo.custom_call @Sharding(%2) : (tensor<3xf32>) -> tensor<3xf32>
  return %3 : tensor<3xf32>
}"""


def test_all_unknown_calls_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UnsupportedError) as caught:
        import_stablehlo(CALLS)
    assert "@mystery (-:3, -:5), custom_call @other (-:4)" in str(caught.value)
    assert "Sharding" not in str(caught.value)
    monkeypatch.setattr(
        composites, "_READERS", {"mystery": lambda *_: Sin(), "other": lambda *_: Tanh()}
    )
    program = import_stablehlo(CALLS)
    assert [type(i.op) for i in program.instructions] == [Sin, Tanh, Sin]


def test_a_call_that_names_a_family_is_it() -> None:
    text = """
func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %0 = stablehlo.custom_call @theirs(%x) {api_version = 4 : i32, backend_config = {family_id = "tenferro.cholesky.v1"}} : (tensor<3x3xf64>) -> tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
}"""
    assert families(import_stablehlo(text)) == [Cholesky()]
    # JAX writes the attributes of its foreign-function calls in the MHLO dialect.
    by_jax = text.replace(
        "api_version = 4 : i32, backend_config =", 'backend_config = "", mhlo.backend_config ='
    )
    assert families(import_stablehlo(by_jax)) == [Cholesky()]


def test_the_hook_is_public() -> None:
    assert lowering.register_composite_reader is register_composite_reader


def test_what_unknown_calls_need() -> None:
    one = CALLS.replace("@other", "@mystery")
    instead = "give lowering.register_composite_reader an op for the target, or lowering.register_custom_call a Python function"
    for text, shown in (
        (CALLS, "custom_call @mystery (-:3, -:5), custom_call @other (-:4): their meanings are"),
        (one, "custom_call @mystery (-:3, -:4, -:5): its meaning is"),
    ):
        with pytest.raises(errors.UnsupportedError) as caught:
            import_stablehlo(text)
        message = f"{shown} not known here; {instead}"
        assert str(caught.value).splitlines()[0] == message
