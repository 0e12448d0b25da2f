"""An op with unused outputs must be replaced by a smaller op, which computes only the other outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro.ext.linalg import families
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.passes import prune_outputs

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]])
TALL = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25], [-2.0, 1.5]])
XLA = xla_peer.XlaExecutor()


def roots(coefficients: Any) -> Any:
    """Return the absolute values of the roots of a polynomial, in descending order."""
    return np.sort(np.abs(np.roots(coefficients)))[::-1]


SINGULAR = np.sqrt(roots(np.poly(TALL.T @ TALL)))
EIGENVALUES = np.sort(np.roots(np.poly(A)).real)
FIRST_ROW = np.hypot.reduce(TALL[:, 0])
SMALLER = {
    "svd": (lambda a: tnf.linalg.svd(a).S, TALL, SINGULAR),
    "svd, wide": (lambda a: tnf.linalg.svd(a, full_matrices=False).S, TALL.T, SINGULAR),
    "eigh": (lambda a: tnf.linalg.eigh(a).eigenvalues, A, EIGENVALUES),
    "eig": (lambda a: tnf.sort(tnf.real(tnf.linalg.eig(a).eigenvalues)), A, EIGENVALUES),
    "qr": (lambda a: tnf.abs(tnf.linalg.qr(a).R[0, 0]), TALL, FIRST_ROW),
    "qr, complete": (lambda a: tnf.abs(tnf.linalg.qr(a, "complete").R[0, 0]), TALL, FIRST_ROW),
}


def extensions(program: Any) -> list[Any]:
    return [i.op.op for i in program.instructions if isinstance(i.op, Extension)]


@pytest.mark.parametrize("name", SMALLER)
def test_factorisations_without_vectors(name: str) -> None:
    function, a, expected = SMALLER[name]
    program = tnf.compile(function, a)
    (whole,), (smaller,) = extensions(program), extensions(prune_outputs(program))
    assert whole.vectors
    assert not smaller.vectors
    for result in (program.run(a), XLA.run(program, a), function(a)):
        np.testing.assert_allclose(result, expected, rtol=1e-10)
    module = lowering.lower_to_stablehlo(program, linalg="inline") if name != "eig" else None
    assert module is None or "custom_call" not in module.text


@pytest.mark.parametrize(
    "fn", [tnf.linalg.svdvals, tnf.linalg.eigvalsh, tnf.linalg.eigvals, lambda a: tnf.linalg.qr(a, "r")]
)  # fmt: skip
def test_concrete_arrays_take_the_smaller_form(fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ops: list[Any] = []
    monkeypatch.setattr(
        tnf.api.linalg.matrices, "apply", lambda op, x: ops.append(op) or apply(op, x)
    )
    np.testing.assert_allclose(np.abs(fn(A)), np.abs(tnf.jit(fn)(A)), rtol=1e-12)
    assert [op.vectors for op in ops] == [False, True]


@pytest.mark.parametrize(
    "op",
    [families.Svd(vectors=False), families.Eigh(vectors=False), families.Qr(vectors=False)],
    ids=lambda op: type(op).__name__,
)
def test_derivatives_of_the_smaller_form(op: Any) -> None:
    tnf.check_grads(lambda a: tnf.sum(apply(op, a + tnf.matrix_transpose(a)) ** 3), (A,), order=2)


def test_derivatives_share_the_vectors() -> None:
    fn = lambda a: tnf.sum(tnf.linalg.svdvals(a) ** 2)
    program = prune_outputs(tnf.compile(tnf.value_and_grad(fn), TALL))
    assert [op.vectors for op in extensions(program)] == [True]
    np.testing.assert_allclose(program.run(TALL)[1], 2 * TALL, rtol=1e-12)


def test_loops_and_branches_are_pruned() -> None:
    def fn(a: Any) -> Any:
        step = lambda x, _: (tnf.eye(3) * tnf.linalg.svd(x).S, None)
        return tnf.scan(step, a, None, length=2)[0]

    program = tnf.compile(fn, A)
    pruned = prune_outputs(program)
    (loop,) = [i.op for i in pruned.instructions if isinstance(i.op, ControlOp)]
    assert [op.vectors for part in loop.parts for op in extensions(part.program)] == [False]
    for result in (program.run(A), pruned.run(A), XLA.run(program, A)):
        np.testing.assert_allclose(result, np.diag(EIGENVALUES[::-1]), rtol=1e-10, atol=1e-14)
    assert prune_outputs(pruned) is pruned


# ---- ops of other packages -----------------------------------------------------------------------


@extension_family("tenferro-tests", "moments", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Moments(ExtensionOp):
    """The sums of x and of x^2. `powers` selects one of them, or both."""

    powers: tuple[int, ...] = (1, 2)
    fault: str = ""

    @property
    def output_count(self) -> int:  # type: ignore[override]
        return len(self.powers)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], ())] * len(self.powers)

    def eager_execute(self, inputs: Any) -> Any:
        CALLS.append(self.powers)
        return [np.sum(inputs[0] ** power) for power in self.powers]

    def prune_outputs(self, used: Any) -> Any:
        if self.fault == "count":
            return self
        if self.fault == "family":
            return Another(self.powers[:1])
        return Moments(tuple([p for p, one in zip(self.powers, used, strict=True) if one]))


@extension_family("tenferro-tests", "other_moments", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Another(Moments):
    pass


CALLS: list[tuple[int, ...]] = []
X = np.array([1.0, 2.0, 4.0])


def test_an_op_of_another_package() -> None:
    CALLS.clear()
    assert tnf.compile(lambda x: apply(Moments(), x)[1], X).run(X) == 21.0
    assert tnf.jit(lambda x: apply(Moments(), x)[0])(X) == 7.0
    assert tuple(tnf.jit(lambda x: apply(Moments(), x))(X)) == (7.0, 21.0)
    assert CALLS == [(2,), (1,), (1, 2)]


@pytest.mark.parametrize("fault", ["count", "family"])
def test_what_does_not_fit_is_an_error(fault: str) -> None:
    with pytest.raises(tnf.errors.InvalidConfigError, match=r"moments\.v1: prune_outputs gives"):
        tnf.jit(lambda x: apply(Moments(fault=fault), x)[0])(X)


@extension_family("tenferro-tests", "loud_moments", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Loud(Moments):
    """An op with effects, which must not be replaced."""

    effects = True


def test_an_op_with_effects_is_left_as_it_is() -> None:
    program = tnf.compile(lambda x: apply(Loud(), x)[1], X)
    CALLS.clear()
    assert program.run(X) == 21.0
    assert CALLS == [(1, 2)]
