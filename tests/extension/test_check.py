"""The kit passes what is right, and names each fault planted in an op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenferro.ext import fft, linalg
from tenferro.extension import ExtensionRuleSet, check_extension
from tests.extension.test_contract import Scale, ScaleRule, X
from xla_peer import XlaExecutor

RULES = ExtensionRuleSet([ScaleRule()])


def test_a_right_op_passes_everywhere() -> None:
    report = check_extension(Scale(3.0), [X], rules=RULES, executor=XlaExecutor("cpu"))
    assert report.ok, str(report)
    assert [check.ok for check in report.checks].count(None) == 1


def general(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape)


SAMPLES: list[tuple[Any, tuple[Any, ...]]] = [
    (linalg.families.Cholesky(), (general(3, 3) @ general(3, 3).T + 9 * np.eye(3),)),
    (linalg.families.Qr(), (general(4, 2),)),
    (linalg.families.Qr(full=True), (general(2, 4),)),
    (linalg.families.Lu(), (general(3, 3),)),
    (linalg.families.Solve("C"), (general(3, 3), general(3, 2))),
    (linalg.families.TriangularSolve(), (general(3, 3) + 4 * np.eye(3), general(3, 2))),
    (linalg.families.Eigh(), (np.diag([1.0, 2.0, 5.0]),)),
    (linalg.families.Svd(), (general(4, 3),)),
    (fft.families.Fft("rfft", (4, 5)), (general(2, 4, 5),)),
    (fft.families.Fft("irfft", (6,)), (general(2, 4) + 1j * general(2, 4),)),
]


@pytest.mark.parametrize(("op", "inputs"), SAMPLES, ids=lambda x: str(x)[:30])
def test_our_own_families_pass(op: Any, inputs: Any) -> None:
    runtimes = {r.family_id: r for r in (*linalg.runtimes(), *fft.runtimes())}
    report = check_extension(
        op,
        inputs,
        rules=linalg.rule_set() + fft.rule_set(),
        runtime=runtimes[op.family_id],
        executor=XlaExecutor("cpu"),
    )
    failed = [check for check in report.checks if check.ok is False]
    symbols = [check for check in failed if "symbols" in check.law]
    # A transform's lengths are part of the op: with symbols there is no such op.
    assert failed == (symbols if isinstance(op, fft.families.Fft) else []), str(report)


class WrongFormat(Scale):
    family_id = "scale"


class NeverEqual(Scale):
    def payload_eq(self, other: Any) -> bool:
        return False


class TwoInputs(Scale):
    input_count = 2


class WrongShape(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], (*input_shapes[0], 1))]


class Writes(Scale):
    def eager_execute(self, inputs: Any) -> Any:
        inputs[0] += 1
        return [inputs[0]]


class Collapses(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], (int(input_shapes[0][0]),))]


class WrongExpansion(Scale):
    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return [inputs[0]]


class WrongSign(ScaleRule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return -builder.apply(op, tangents[0])


class WrongAdjoint(ScaleRule):
    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        return cotangents[0]


class Unruled(ScaleRule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(Scale(op.factor), tangents[0]) * builder.apply(
            UnruledOp(0.0), primals[0]
        )


class UnruledOp(Scale):
    family_id = "tenferro-tests.unruled.v1"


@pytest.mark.parametrize(
    ("op", "rule", "law"),
    [
        (WrongFormat(1.0), None, "well-formed"),
        (NeverEqual(1.0), None, "equal payloads"),
        (TwoInputs(1.0), None, "counts"),
        (WrongShape(1.0), None, "execution gives"),
        (Writes(1.0), None, "execution gives"),
        (Collapses(1.0), None, "symbols"),
        (WrongExpansion(2.0), None, "expansion"),
        (Scale(2.0), WrongSign(), "tangents"),
        (Scale(2.0), WrongAdjoint(), "cotangents"),
        (Scale(2.0), Unruled(), "only what has rules"),
    ],
)
def test_each_planted_fault_is_named(op: Any, rule: Any, law: str) -> None:
    rules = None if rule is None else ExtensionRuleSet([rule])
    report = check_extension(op, [X.copy()], rules=rules)
    assert not report.ok
    assert any(law in check.law for check in report.checks if check.ok is False), str(report)
    assert "BREAKS" in str(report)
