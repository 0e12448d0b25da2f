"""Typical faults of extension authors. Each is in an op that is otherwise valid.

`check_extension` must name the law that the fault violates.
"""

from __future__ import annotations

import gc
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuleSet,
    ExtensionRuntime,
    check_extension,
    extension_family,
)
from tenferro.extension.algebra import add
from tenferro.extension.ops import Convert, Multiply

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
W = np.array([[2.0, 1.0, -0.5], [0.75, -1.25, 3.0]])


@extension_family("tenferro-tests", "planted", version=1)
@dataclass(frozen=True)
class Product(ExtensionOp):
    """y = factor x w."""

    factor: float = 2.0
    input_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if input_shapes[0] != input_shapes[1] or input_dtypes[0] is not input_dtypes[1]:
            raise tnf.errors.ShapeError("Product: operands of one type")
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] * inputs[1] * self.factor]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x, w = map(builder.value, inputs)
        return x * w * self.factor


class Runtime(ExtensionRuntime):
    """Runtime that passes the inputs to a function of the test."""

    family_id = Product.family_id

    def __init__(self, function: Callable[..., Any], order: str = "F") -> None:
        self.function = function
        self.order = order

    def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
        return self.function(*inputs)


class Rule(ExtensionAdRule):
    """y_dot = factor (x_dot w + x w_dot)."""

    family_id = Product.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (x, w), (x_dot, w_dot) = primals, tangents
        first = None if x_dot is None else builder.apply(op, x_dot, w)
        second = None if w_dot is None else builder.apply(op, x, w_dot)
        return add(first, second)

    def transpose_rule(self, op: Any, builder: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        x, w = inputs
        if linear[0]:
            return builder.apply(op, bars[0], w), None
        return None, builder.apply(op, x, bars[0])

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        x, w = inputs
        if not all(batched):
            x, w = tnf.broadcast_arrays(x, w)
        return builder.apply(op, x, w)


def product(x: Any, w: Any) -> Any:
    return x * w * 2.0


def test_without_a_fault_every_law_holds() -> None:
    report = check_extension(
        Product(), [X, W], rules=ExtensionRuleSet([Rule()]), runtime=Runtime(product, "K")
    )
    assert report.ok, str(report)
    left = [check.law for check in report.checks if check.ok is None]
    smaller = "where nothing reads some outputs, the others stay the same"
    assert left == [smaller, "a file brings it back", "the other executor agrees"]


# ---- faults of the op class ------------------------------------------------------------------------


class MalformedId(Product):
    family_id = "planted"


class NeverEqual(Product):
    def payload_eq(self, other: Any) -> bool:
        return False


class EqualToAnything(Product):
    def payload_eq(self, other: Any) -> bool:
        return True


class EqualOfItsClass(Product):
    def payload_eq(self, other: Any) -> bool:
        return isinstance(other, Product)

    def payload_hash(self) -> int:
        return 0


class HashOfTheObject(Product):
    def payload_hash(self) -> int:
        return id(self)


class OneInput(Product):
    input_count = 1


class CountIsAFunction(Product):
    def output_count(self) -> int:  # type: ignore[override]
        return 1


class AliasOfNothing(Product):
    aliases = {0: 2}  # noqa: RUF012  # nobody writes to it


class AnotherShape(Product):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0][::-1])]


class AnotherDtype(Product):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [("float32", input_shapes[0])]


class TwoOutputsDeclared(Product):
    output_count = 2


class ExtentsAsNumbers(Product):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], tuple(int(n) for n in input_shapes[0]))]


class CarelessRefusal(Product):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        assert len(input_shapes[0]) == 2
        return [(input_dtypes[0], input_shapes[0])]


class UndeclaredEffects(Product):
    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] * inputs[1] * (self.factor + np.random.rand())]


# ---- faults of the runtime -------------------------------------------------------------------------

WORKSPACE = np.zeros_like(X)
BY_PLACE: dict[int, Any] = {}
CALLS = [0]
KEPT: list[Any] = []


def writes_to_an_input(x: Any, w: Any) -> Any:
    x *= w
    return x * 2.0


def ignores_the_flag(x: Any, w: Any) -> Any:
    x.flags.writeable = True
    result = x * w * 2.0
    x[...] = 0.0
    return result


def in_a_workspace(x: Any, w: Any) -> Any:
    np.multiply(x, w, out=WORKSPACE)
    np.multiply(WORKSPACE, 2.0, out=WORKSPACE)
    return WORKSPACE


def remembers_by_place(x: Any, w: Any) -> Any:
    place = x.ctypes.data
    if place not in BY_PLACE:
        BY_PLACE[place] = x * w * 2.0
    return BY_PLACE[place].copy()


def keeps_its_result(x: Any, w: Any) -> Any:
    KEPT.append(x * w * 2.0)
    return KEPT[-1]


def counts_its_calls(x: Any, w: Any) -> Any:
    CALLS[0] += 1
    return x * w * CALLS[0]


def by_memory_order(x: Any, w: Any) -> Any:
    flat = x.ravel(order="K") * w.ravel(order="K")
    return flat.reshape(x.shape, order="C" if x.flags.c_contiguous else "F") * 2.0


def of_a_draw(draw: Callable[[], Any]) -> Callable[..., Any]:
    def drawn(x: Any, w: Any) -> Any:
        draw()
        return x * w * 2.0

    return drawn


def set_environment() -> None:
    os.environ["TENFERRO_PLANTED"] = str(len(os.environ.get("TENFERRO_PLANTED", "")) * "x" + "x")


@dataclass(frozen=True)
class Same(Product):
    """Op with two outputs that are both equal to x, so that nothing has to be computed."""

    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return super().infer_output_meta(input_dtypes, input_shapes) * 2

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return inputs[0], inputs[0]


def once_given_twice(x: Any, w: Any) -> Any:
    copy = x.copy()
    return copy, copy


@dataclass(frozen=True)
class TwoProducts(Product):
    """Op with the outputs factor x w and x + w.

    If the second output is not used, another op replaces it. `smaller` selects this op.
    """

    smaller: str = "right"

    @property
    def output_count(self) -> int:  # type: ignore[override]
        return 2 if self.smaller != "one" else 1

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return super().infer_output_meta(input_dtypes, input_shapes) * self.output_count

    def eager_execute(self, inputs: Any) -> Any:
        outputs = [*super().eager_execute(inputs), inputs[0] + inputs[1]]
        return outputs[: self.output_count]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x, w = map(builder.value, inputs)
        if self.smaller == "one" and self.factor == 5.0:
            return None
        return [x * w * self.factor, x + w][: self.output_count]

    def prune_outputs(self, used: Any) -> Any:
        if tuple(used) != (True, False):
            return None
        factor = {"wrong": 4.0, "no expansion": 5.0}.get(self.smaller, self.factor)
        smaller = TwoProducts(factor, "one")
        return {"whole": self}.get(self.smaller, smaller)


# ---- expansions and rules --------------------------------------------------------------------------


class WrongExpansion(Product):
    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return builder.apply_one(Multiply(), *inputs)


class ExpansionOfAnotherType(Product):
    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return builder.apply_one(Convert(tnf.DType.F32), inputs[0])


class ExpansionFails(Product):
    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return inputs[2]


class WrongSign(Rule):
    def linearize(self, op: Any, *arguments: Any) -> Any:
        return -super().linearize(op, *arguments)


class AlmostRight(Rule):
    def linearize(self, op: Any, *arguments: Any) -> Any:
        return super().linearize(op, *arguments) * (1.0 + 1e-5)


class OneTermForgotten(Rule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0], primals[1])


class BothTangentsAssumed(Rule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (x, w), (x_dot, w_dot) = primals, tangents
        return builder.apply(op, x_dot, w) + builder.apply(op, x, w_dot)


class NotLinear(Rule):
    def linearize(self, op: Any, *arguments: Any) -> Any:
        y_dot = super().linearize(op, *arguments)
        return y_dot * y_dot


class TangentOfAnotherShape(Rule):
    def linearize(self, op: Any, *arguments: Any) -> Any:
        return tnf.sum(super().linearize(op, *arguments))


class NoTransposeRule(Rule):
    def transpose_rule(self, *arguments: Any) -> Any:
        return ExtensionAdRule.transpose_rule(self, *arguments)


class WrongAdjoint(Rule):
    def transpose_rule(self, op: Any, builder: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        first, second = super().transpose_rule(op, builder, inputs, linear, bars)
        return first, None if second is None else second * 0.5


class CotangentOfTheWrongInput(Rule):
    def transpose_rule(self, *arguments: Any) -> Any:
        return super().transpose_rule(*arguments)[::-1]


class OpWithoutRules(Product):
    family_id = "tenferro-tests.unruled.v1"


class EmitsWhatHasNoRules(Rule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        y_dot = super().linearize(op, builder, primals, outputs, tangents)
        return y_dot + builder.apply(OpWithoutRules(0.0), *primals)


class BatchOfTheFirst(Rule):
    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        x, w = tnf.broadcast_arrays(*inputs)
        return builder.apply(op, tnf.broadcast_to(x[:1], x.shape), w)


class BatchOfAllAlone(Rule):
    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, *inputs)


# ---- the list --------------------------------------------------------------------------------------


class Fault(NamedTuple):
    law: str
    op: Any = Product()
    runtime: Any = None
    rule: Any = None


FAULTS: dict[str, Fault] = {
    "malformed id": Fault("well-formed", MalformedId()),
    "no payload equals its copy": Fault("equal payloads", NeverEqual()),
    "a payload equal to anything": Fault("equal payloads", EqualToAnything()),
    "a payload of which a field is not compared": Fault("equal payloads", EqualOfItsClass()),
    "equal payloads of unequal hash": Fault("equal payloads", HashOfTheObject()),
    "fewer inputs declared": Fault("counts", OneInput()),
    "a count that is a function": Fault("counts", CountIsAFunction()),
    "an alias of an input that is not there": Fault("counts", AliasOfNothing()),
    "another shape declared": Fault("execution gives", AnotherShape()),
    "another dtype declared": Fault("execution gives", AnotherDtype()),
    "fewer types than outputs": Fault("types are inferred", TwoOutputsDeclared()),
    "symbols made numbers": Fault("symbols", ExtentsAsNumbers()),
    "a refusal by assert": Fault("refused", CarelessRefusal()),
    "draws, and does not say so": Fault("execution gives", UndeclaredEffects()),
    "writes to an input": Fault("execution gives", runtime=Runtime(writes_to_an_input)),
    "writes to an input by force": Fault(
        "leaves its inputs alone", runtime=Runtime(ignores_the_flag)
    ),
    "two outputs for one": Fault("execution gives", runtime=Runtime(lambda x, w: [x * w, x])),
    "no array": Fault("execution gives", runtime=Runtime(lambda x, w: None)),
    "a masked array": Fault(
        "execution gives", runtime=Runtime(lambda x, w: np.ma.masked_less(x * w, 0.0))
    ),
    "counts its calls": Fault("execution gives", runtime=Runtime(counts_its_calls)),
    "an input given back": Fault("memory", Same(), Runtime(lambda x, w: (x, x.copy()))),
    "a view of an input": Fault("memory", Same(), Runtime(lambda x, w: (x.copy(), x[:]))),
    "one array twice": Fault("memory", Same(), Runtime(once_given_twice)),
    "a workspace": Fault("memory", runtime=Runtime(in_a_workspace)),
    "keeps its result": Fault("memory", runtime=Runtime(keeps_its_result)),
    "changes the directory": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: os.chdir(os.path.dirname(os.getcwd()) or "/")))
    ),
    "goes to the root directory": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: os.chdir("/")))
    ),
    "ends the collector": Fault("process", runtime=Runtime(of_a_draw(gc.disable))),
    "silences warnings": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: warnings.simplefilter("ignore")))
    ),
    "prints fewer digits": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: np.set_printoptions(precision=3)))
    ),
    "reads memory in its order": Fault("how the inputs lie", runtime=Runtime(by_memory_order, "K")),
    "remembers by address": Fault("earlier calls", runtime=Runtime(remembers_by_place)),
    "advances NumPy's generator": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: np.random.rand()))
    ),
    "advances Python's generator": Fault("process", runtime=Runtime(of_a_draw(random.random))),
    "silences NumPy's errors": Fault(
        "process", runtime=Runtime(of_a_draw(lambda: np.seterr(all="ignore")))
    ),
    "sets the environment": Fault("process", runtime=Runtime(of_a_draw(set_environment))),
    "a smaller form of other values": Fault("reads some", TwoProducts(2.0, "wrong")),
    "a smaller form of as many outputs": Fault("reads some", TwoProducts(2.0, "whole")),
    "a smaller form without expansion": Fault("reads some", TwoProducts(5.0, "no expansion")),
    "another expansion": Fault("expansion", WrongExpansion()),
    "an expansion of another type": Fault("expansion", ExpansionOfAnotherType()),
    "an expansion that fails": Fault("expansion", ExpansionFails()),
    "a wrong sign": Fault("tangents are", rule=WrongSign()),
    "a factor that is nearly one": Fault("tangents are", rule=AlmostRight()),
    "a term forgotten": Fault("tangents are", rule=OneTermForgotten()),
    "a tangent that is not linear": Fault("tangents are", rule=NotLinear()),
    "a tangent of another shape": Fault("tangents are", rule=TangentOfAnotherShape()),
    "no inactive tangent expected": Fault("one input alone", rule=BothTangentsAssumed()),
    "no transpose": Fault("cotangents", rule=NoTransposeRule()),
    "a wrong adjoint": Fault("cotangents", rule=WrongAdjoint()),
    "cotangents exchanged": Fault("cotangents", rule=CotangentOfTheWrongInput()),
    "an op without rules": Fault("only what has rules", rule=EmitsWhatHasNoRules()),
    "a batch of one slice": Fault("batch", rule=BatchOfTheFirst()),
    "a batch of all inputs assumed": Fault("batch", rule=BatchOfAllAlone()),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TENFERRO_PLANTED", raising=False)
    monkeypatch.chdir(Path(__file__).parent)
    BY_PLACE.clear()
    KEPT.clear()
    with np.printoptions(), warnings.catch_warnings():
        yield
    gc.enable()


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFERRO_PLANTED", "")  # because a fault changes it for good
    fault = FAULTS[name]
    rules = None if fault.rule is None else ExtensionRuleSet([fault.rule])
    report = check_extension(fault.op, [X.copy(), W.copy()], rules=rules, runtime=fault.runtime)
    failed = [check for check in report.checks if check.ok is False]
    assert any(fault.law in check.law for check in failed), str(report)
    assert "BREAKS" in str(report)


def test_memory_of_another_library_is_no_fault() -> None:
    def foreign(x: Any, w: Any) -> Any:
        return np.frombuffer(bytearray((x * w * 2.0).tobytes())).reshape(x.shape)

    report = check_extension(Product(), [X, W], runtime=Runtime(foreign))
    assert report.ok, str(report)


def test_a_smaller_form_is_no_fault() -> None:
    report = check_extension(TwoProducts(), [X, W])
    assert report.ok, str(report)
    (law,) = [check for check in report.checks if "reads some" in check.law]
    assert law.ok is True


def test_declared_effects_and_aliases_are_no_faults() -> None:
    @dataclass(frozen=True)
    class Drawing(UndeclaredEffects):
        effects = True

    @dataclass(frozen=True)
    class InPlace(Product):
        aliases = {0: 1}  # noqa: RUF012  # nobody writes to it

    def in_place(x: Any, w: Any) -> Any:
        w *= x
        w *= 2.0
        return w

    assert check_extension(Drawing(), [X, W]).ok
    report = check_extension(InPlace(), [X, W], runtime=Runtime(in_place))
    assert report.ok, str(report)


def test_effects_stay_apart() -> None:
    calls: list[int] = []

    @dataclass(frozen=True)
    class Counting(Product):
        effects = True

    def counted(x: Any, w: Any) -> Any:
        calls.append(len(calls))
        return x * 0.0 + calls[-1]

    executor = tnf.GraphExecutor(runtimes=[Runtime(counted)])

    def twice(x: Any, w: Any) -> Any:
        return tnf.extension.apply(Counting(), x, w), tnf.extension.apply(Counting(), x, w)

    for fn in (twice, tnf.checkpoint(twice), tnf.jit(twice)):
        first, second = executor.run(tnf.compile(fn, X, W), X, W)
        np.testing.assert_array_equal(second - first, np.ones_like(X))
    with pytest.raises(tnf.errors.UnsupportedError, match="no expansion"):
        lowering.lower_to_stablehlo(tnf.compile(twice, X, W))
