"""`check_extension` must accept valid operations, and show a minimal counterexample for invalid ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenferro.ext import einsum, fft, linalg
from tenferro.extension import ExtensionRuleSet, check_extension
from tests.extension.test_contract import Scale, ScaleRule, X
from tests.samples.matrices import general
from xla_peer import XlaExecutor

RULES = ExtensionRuleSet([ScaleRule()])


def test_a_right_op_passes_everywhere() -> None:
    executors = [XlaExecutor("cpu"), XlaExecutor("cpu", extensions="composite")]
    report = check_extension(Scale(3.0), [X], rules=RULES, executor=executors, analytic=True)
    assert report.ok, str(report)
    assert [check.ok for check in report.checks].count(None) == 4


SAMPLES: list[tuple[Any, tuple[Any, ...]]] = [
    (linalg.families.Cholesky(), (general(3, 3) @ general(3, 3).T + 9 * np.eye(3),)),
    (linalg.families.Qr(), (general(4, 2),)),
    (linalg.families.Qr(full=True), (general(2, 4),)),
    (linalg.families.Lu(), (general(3, 3),)),
    (linalg.families.Solve("C"), (general(3, 3), general(3, 2))),
    (linalg.families.TriangularSolve(), (general(3, 3) + 4 * np.eye(3), general(3, 2))),
    (linalg.families.Eigh(), (np.diag([1.0, 2.0, 5.0]),)),
    (linalg.families.Svd(), (general(4, 3),)),
    (linalg.families.Eig(), (general(3, 3),)),
    (linalg.families.Svd(full=True), (general(2, 3, 4),)),
    (einsum.Einsum(("ij", "jk", "ki"), "kk"), (general(2, 3), general(3, 4), general(4, 2))),
    (fft.families.Fft("rfft", (4, 5)), (general(2, 4, 5),)),
    (fft.families.Fft("irfft", (6,)), (general(2, 4) + 1j * general(2, 4),)),
]


@pytest.mark.parametrize(("op", "inputs"), SAMPLES, ids=lambda x: str(x)[:30])
def test_our_own_families_pass(op: Any, inputs: Any) -> None:
    report = check_extension(
        op, inputs, executor=[XlaExecutor("cpu"), XlaExecutor("cpu", extensions="composite")]
    )
    failed = [check for check in report.checks if check.ok is False]
    symbols = [check for check in failed if "symbols" in check.law]
    # The payload of a Fourier transform contains the lengths as numbers, so it cannot be checked with symbolic
    # extents.
    assert failed == (symbols if isinstance(op, fft.families.Fft) else []), str(report)


class WrongExpansion(Scale):
    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return [inputs[0]]


class WrongFromTheThird(Scale):
    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        if input_shapes[0][0] > 2:
            return [inputs[0]]
        return super().lower_to_standard_ops(builder, inputs, input_dtypes, input_shapes)


def test_the_example_is_the_smallest() -> None:
    x = np.ones((8, 5))
    report = check_extension(WrongExpansion(2.0), [x])
    (failed,) = [check for check in report.checks if check.ok is False]
    assert failed.example == "f64[1,1] = [[1.0]]"
    assert "for f64[1,1] = [[1.0]]" in str(report)
    report = check_extension(WrongFromTheThird(2.0), [x])
    (failed,) = [check for check in report.checks if check.ok is False]
    assert failed.example.startswith("f64[4,1] = ")


def test_the_fixture_fails_with_the_report(assert_extension: Any) -> None:
    assert_extension(Scale(2.0), [X], rules=RULES)
    with pytest.raises(AssertionError, match=r"BREAKS(.|\n)*FAILED +the expansion"):
        assert_extension(WrongExpansion(2.0), [X])
