"""`check_grads`: derivatives compared with complex steps, finite differences and the adjoint identity.

Each check uses one random direction v, so it needs a fixed number of evaluations for tensors of any size:

- Forward mode: if the program is analytic, J v is compared with the complex step Im f(x + i h v) / h, in which no
  digits cancel. Otherwise J v is compared with a central difference of fourth order.
- Reverse mode: the adjoint identity <w, J v> = <J^H w, v> is checked for a random cotangent w.
- A second executor, if one is passed, must compute equal derivatives.

For higher orders, the derivatives of f are themselves checked as functions in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tenferro.ad import AdContext
from tenferro.ad.directions import direction_generator, inner_product, random_direction
from tenferro.api.autodiff import jvp, vjp
from tenferro.api.compile import compile
from tenferro.api.phases import invariants, phase_dependence
from tenferro.dispatch import apply
from tenferro.dispatch.replay import applied
from tenferro.errors import GradientMismatchError, InvalidConfigError, TenferroError
from tenferro.exec.interpreter import interpret
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact, ops_with
from tenferro.graph import SourceLine
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.control import ControlOp
from tenferro.ops.indexing import Scatter
from tenferro.ops.source import Constant
from tenferro.program import Executor, GraphProgram, native_executor
from tenferro.table import aligned
from tenferro.types import ArrayLike, DType, PyTree, Tensor, flatten, leaf_paths, unflatten

__all__ = ["GradientCheck", "GradientReport", "check_grads"]

HOLOMORPHIC = ops_with(Fact.HOLOMORPHIC)


@dataclass(frozen=True)
class GradientCheck:
    """Result of the comparison of one derivative with an independent method.

    Attributes:
        derivative: the label of the derivative, such as "J v".
        method: the name of the independent method.
        worst_input: the name of the input that contributes most to the error.
        error, allowed: the relative error and its tolerance.
        note: advice, for example about NaN.
    """

    derivative: str
    method: str
    worst_input: str
    error: float
    allowed: float
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the error is within the tolerance; False if the error is NaN."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class GradientReport:
    """Results of all comparisons in one call of `check_grads`; `print(report)` shows them as a table.

    Attributes:
        culprit: a description of the first op whose derivative rule is wrong; empty if there is none.
        undefined: the reason why the derivative does not exist; empty if it exists.
    """

    function: str
    checks: tuple[GradientCheck, ...]
    culprit: str = ""
    undefined: str = ""

    @property
    def ok(self) -> bool:
        """Whether every derivative is right."""
        return all(check.ok for check in self.checks)

    def __repr__(self) -> str:
        return f"<GradientReport {self._verdict()}, {len(self.checks)} checks>"

    def _verdict(self) -> str:
        wrong = "are not defined" if self.undefined else "are WRONG"
        return f"{self.function}: derivatives {'are right' if self.ok else wrong}"

    def __str__(self) -> str:
        header = ("derivative", "against", "error", "allowed", "")
        differs = "differs" if self.undefined else "WRONG"
        rows = [
            (
                check.derivative,
                check.method,
                f"{check.error:.1e}",
                f"{check.allowed:.1e}",
                "ok" if check.ok else f"{differs}, most for {check.worst_input}",
            )
            for check in self.checks
        ]
        lines = [self._verdict(), *aligned([header, *rows])]
        lines += sorted({check.note for check in self.checks if check.note})
        lines += [text for text in (self.undefined, self.culprit) if text]
        return "\n".join(lines)


def check_grads(
    fn: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    rtol: float | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    context: AdContext | None = None,
) -> GradientReport:
    """Check the derivatives of `fn` at `args` up to the given order, in forward and reverse mode.

    Args:
        args: one tree of arrays per argument, in a tuple or list; integer leaves are held fixed.
        order: the highest order of derivatives.
        modes: any of "fwd" and "rev".
        rtol: the tolerance, relative to the size of the derivative; by default derived from the method and the
            dtype.
        executor: a second executor, such as an `XlaExecutor`, that must compute the same derivatives.
        seed: the seed of the random directions.
        context: the derivative rules to check, for all orders.

    Returns:
        The report, if all checks pass.

    Raises:
        GradientMismatchError: a check fails; the message is the report. It names the derivative, the input with the
            largest error and the first op whose rule is wrong. If the function has no derivative because it depends on
            the phases of singular vectors or eigenvectors, it says so. The error is also an AssertionError.
        InvalidConfigError: `order` is below 1, a mode is neither "fwd" nor "rev", or no argument is a float or complex
            tensor.

    >>> import tenferro as tnf
    >>> print(check_grads(lambda x: tnf.sin(x) * x, (np.array([0.5, 2.0]),), order=1))
    <lambda>: derivatives are right
    derivative  against           error    allowed
    J v         complex step      2.0e-17  1.0e-12  ok
    J^H w       adjoint identity  2.0e-17  1.0e-12  ok

    Source: for the complex step, Squire and Trapp, SIAM Review 40 (1998).
    """
    if isinstance(order, bool) or order < 1:
        raise InvalidConfigError(f"check_grads: order must be at least 1, got {order!r}")
    if not modes or not set(modes) <= {"fwd", "rev"}:
        raise InvalidConfigError(f'check_grads: modes must be "fwd", "rev" or both, got {modes!r}')
    if not isinstance(args, tuple | list):
        raise InvalidConfigError("check_grads: args must be a tuple, one entry per argument")
    name = getattr(fn, "__name__", "function")
    function, primals, names = _of_active_leaves(fn, tuple(args))
    generator = direction_generator(seed)
    peers = _Peers(AdContext() if context is None else context, executor)
    checks: list[GradientCheck] = []
    level: list[tuple[str, Any]] = [("", function)]
    for _ in range(order):
        above: list[tuple[str, Any]] = []
        for prefix, f in level:
            level_checks, derived = _check_one(
                prefix, f, primals, names, modes, rtol, peers, generator
            )
            checks += level_checks
            above += derived
        level = above
    report = GradientReport(name, tuple(checks))
    if report.ok:
        return report
    program = compile(function, *primals)
    undefined = phase_dependence(program, primals, generator)
    culprit = "" if undefined else _first_wrong_op(program, primals, peers.context, generator)
    raise GradientMismatchError(str(replace(report, culprit=culprit, undefined=undefined)))


class _Peers(NamedTuple):
    """Context with the derivative rules, and a second executor or None."""

    context: AdContext
    executor: Any = None


def _of_active_leaves(
    fn: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], list[str]]:
    """Restrict `fn` to its float and complex arguments. All other arguments keep their values from `args`.

    Returns:
        A function from the float and complex leaves of the arguments to a tuple of the float and complex leaves of the
        result; the values of these arguments; and their names.
    """
    leaves, tree = flatten(args)
    arrays = [np.asarray(leaf) for leaf in leaves]
    active = [i for i, x in enumerate(arrays) if DType.of(x.dtype).is_inexact]
    if not active:
        raise InvalidConfigError("check_grads: no argument is a float or complex tensor")
    paths = leaf_paths(args)
    names = [f"argument {paths[i]}" for i in active]

    def function(*xs: ArrayLike) -> tuple[Any, ...]:
        full: list[Any] = list(arrays)
        for i, x in zip(active, xs, strict=True):
            full[i] = x
        results = [_as_tensor(leaf) for leaf in flatten(fn(*unflatten(tree, full)))[0]]
        return tuple(y for y in results if DType.of(y.dtype).is_inexact)

    return function, tuple(arrays[i] for i in active), names


def _as_tensor(leaf: PyTree) -> Any:
    return leaf if hasattr(leaf, "dtype") else np.asarray(leaf)


def _check_one(
    prefix: str,
    f: Callable[..., Any],
    primals: tuple[Any, ...],
    names: Sequence[str],
    modes: Sequence[str],
    rtol: float | None,
    peers: _Peers,
    generator: np.random.Generator,
) -> tuple[list[GradientCheck], list[tuple[str, Any]]]:
    """Check the derivatives of one function f.

    Args:
        prefix: the label of f if f is itself a derivative, such as "J v", otherwise an empty string.

    Returns:
        The checks, and pairs of a label and a derivative of f. At the next order, these derivatives are checked.
    """
    context = peers.context
    v = tuple(random_direction(generator, x) for x in primals)
    y = compile(f, *primals).run(*primals)
    w = tuple(random_direction(generator, np.asarray(leaf)) for leaf in y)
    # The adjoint identity needs J v: it is computed in forward mode, or estimated if forward mode is not checked.
    forward = "fwd" in modes
    _, y_dot, doubt = (
        ("", jvp(f, primals, v, context=context)[1], 0.0)
        if forward
        else next(_estimates(f, primals, v))
    )
    inside = prefix or "f"
    checks: list[GradientCheck] = []
    derived: list[tuple[str, Any]] = []
    precision = max(_epsilon(x) for x in (*primals, *y, *primals))
    if forward:
        label = "J v" if not prefix else f"J[{inside}] v"
        method, error, trusted = _oracle(f, primals, v, y_dot)
        allowed = trusted if rtol is None else rtol
        worst = names[0] if len(names) == 1 else _worst_input(f, primals, v, names, context)
        checks.append(
            GradientCheck(label, method, worst, error, allowed, _nan_note(f, primals, y_dot))
        )

        def pushed(*xs: ArrayLike) -> Any:
            return jvp(f, xs, v, context=context)[1]

        derived.append((label, pushed))
        checks += _on_peer(label, pushed, primals, peers.executor, names[0], precision)
    if "rev" in modes:
        label = "J^H w" if not prefix else f"J[{inside}]^H w"

        def pulled(*xs: ArrayLike) -> Any:
            return vjp(f, *xs, context=context)[1](w)

        x_bar = pulled(*primals)
        parts = [inner_product(a, b) for a, b in zip(x_bar, v, strict=True)]
        left = sum(inner_product(a, b) for a, b in zip(w, y_dot, strict=True))
        size = sum(_absolute(a, b) for a, b in zip(w, y_dot, strict=True))
        size += sum(_absolute(a, b) for a, b in zip(x_bar, v, strict=True))
        error = abs(left - sum(parts)) / (1 + size)
        worst = names[int(np.argmax(np.abs(parts)))]
        note = _nan_note(f, primals, x_bar)
        allowed = max(1e-12, 64 * precision) + doubt if rtol is None else rtol
        checks.append(GradientCheck(label, "adjoint identity", worst, error, allowed, note))
        derived.append((label, pulled))
        checks += _on_peer(label, pulled, primals, peers.executor, names[0], precision)
    return checks, derived


def _on_peer(
    label: str,
    derivative: Callable[..., Any],
    primals: tuple[Any, ...],
    executor: Executor | None,
    name: str,
    precision: float,
) -> list[GradientCheck]:
    if executor is None:
        return []
    program = compile(derivative, *primals)
    error = _relative(executor.run(program, *primals), program.run(*primals))
    method = f"the same on {getattr(executor, 'platform', 'the other peer')}"
    return [GradientCheck(label, method, name, error, max(1e-10, 256 * precision))]


# ---- oracles ---------------------------------------------------------------------------------------


Estimate = tuple[str, list[Any], float]
"""Name of a numerical method, the estimated derivative, and the relative accuracy of the estimate."""


def _estimates(
    f: Callable[..., Any], primals: tuple[Any, ...], v: tuple[Any, ...]
) -> Iterator[Estimate]:
    """Estimate the derivative along v by several independent methods. The most accurate estimate comes first.

    The program is evaluated in double precision, even if its dtypes are narrower. Each further central difference uses
    a smaller step, which is less likely to cross a kink of the function.
    """
    program = compile(f, *primals)
    narrow = max(_epsilon(x) for x in (*primals, *program.run(*primals)))
    floor = 1e-12 if narrow < 1e-15 else 256 * narrow
    if _is_analytic(program):
        step = 1e-100
        moved = [_wide(x) + 1j * step * _wide(d) for x, d in zip(primals, v, strict=True)]
        yield "complex step", [y.imag / step for y in _run_as(program, moved, COMPLEX)], floor
        return
    for step in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        values: list[list[Any]] = []
        for factor in (1, -1, 2, -2):
            at = [_wide(x) + factor * step * _wide(d) for x, d in zip(primals, v, strict=True)]
            values.append(_run_as(program, at, DOUBLE))
        slope = [
            (8 * (near - back) - (far - behind)) / (12 * step)
            for near, back, far, behind in zip(*values, strict=True)
        ]
        yield "central difference", slope, floor + 1e-14 / step + 100 * step**4


def _oracle(
    f: Callable[..., Any], primals: tuple[Any, ...], v: tuple[Any, ...], actual: Any
) -> tuple[str, float, float]:
    """Compare the derivative `actual` with one estimate after another, until it agrees with an estimate.

    Returns:
        The method of the last estimate, the error of `actual`, and the accuracy of the method.
    """
    comparisons: list[tuple[str, float, float]] = []
    for method, expected, allowed in _estimates(f, primals, v):
        comparisons.append((method, _relative(actual, expected), allowed))
        if comparisons[-1][1] <= allowed:
            break
    return comparisons[-1]


DOUBLE = {
    **dict.fromkeys((DType.F16, DType.BF16, DType.F32, DType.F64), DType.F64),
    **dict.fromkeys((DType.C32, DType.C64), DType.C64),
}
COMPLEX = dict.fromkeys(DOUBLE, DType.C64)


def _is_analytic(program: GraphProgram) -> bool:
    inputs = [program.types[slot].dtype for slot in program.input_slots]
    return not any(dtype.is_complex for dtype in inputs) and _has_analytic_ops(program)


def _has_analytic_ops(program: GraphProgram) -> bool:
    return all(isinstance(i.op, Constant) or _is_function_of_z(i.op) for i in program.instructions)


def _is_function_of_z(op: StdTensorOp) -> bool:
    """Return whether an op is a holomorphic function of complex operands. A control op is, if its bodies are."""
    if isinstance(op, ControlOp):
        return DType.C64 in op.accepts and all(_has_analytic_ops(part.program) for part in op.parts)
    compares = isinstance(op, Scatter) and op.combiner in ("min", "max")
    return type(op) in HOLOMORPHIC and not compares


def _run_as(
    program: GraphProgram, inputs: Sequence[Any], dtypes: Mapping[DType, DType]
) -> list[Any]:
    """Evaluate the program, including the bodies of its loops, with dtypes replaced according to `dtypes`."""
    wanted = {old.dtype: new.dtype for old, new in dtypes.items()}

    def around(
        _: ExecProgram, step: ExecInstruction, operands: Sequence[Any], call: Callable[..., Any]
    ) -> Sequence[Any]:
        op: Any = step.op
        results = call(operands) if step.bodies else apply(_op_in(op, dtypes), *operands)
        return [_cast(np.asarray(y), wanted) for y in results]

    schedule = replace(native_executor().binder, passes=(), plan=()).bind(program)
    return interpret(schedule, [_cast(x, wanted) for x in inputs], around)


def _cast(x: Any, wanted: Mapping[Any, Any]) -> Any:
    return x.astype(wanted.get(x.dtype, x.dtype), copy=False)


def _op_in(op: StdTensorOp, dtypes: Mapping[DType, DType]) -> StdTensorOp:
    """Replace the dtypes among the parameters of an op, such as the target of a conversion, according to `dtypes`."""
    changes = {
        field.name: dtypes[value]
        for field in fields(op)
        if isinstance(value := getattr(op, field.name), DType) and value in dtypes
    }
    return replace(op, **changes) if changes and not isinstance(op, Constant) else op


# ---- the op that is wrong --------------------------------------------------------------------------


def _first_wrong_op(
    program: GraphProgram,
    primals: tuple[Any, ...],
    context: AdContext,
    generator: np.random.Generator,
) -> str:
    """Check the derivative rule of each instruction at its operands in this run.

    Describe the first rule that is wrong.
    """
    values: dict[int, Any] = dict(zip(program.input_slots, primals, strict=True))
    for instruction, inputs, _ in applied(program.instructions, values):
        if reason := _wrong(instruction.op, inputs, context, generator):
            types = ", ".join(str(program.types[slot]) for slot in instruction.inputs)
            return (
                f"first op whose rule disagrees: {instruction.op} of {types}: {reason}"
                + _source_suffix(instruction.source)
            )
    return "the rule of each op is right; a custom rule may be wrong, or the function has no derivative at this point"


def _wrong(
    op: StdTensorOp, inputs: Sequence[Any], context: AdContext, generator: np.random.Generator
) -> str:
    active = [i for i, x in enumerate(inputs) if DType.of(x.dtype).is_inexact]
    if not active:
        return ""

    def alone(*xs: ArrayLike) -> Any:
        full = list(inputs)
        for i, x in zip(active, xs, strict=True):
            full[i] = x
        outputs = invariants(op, apply(op, *full))
        return tuple(y for y in outputs if DType.of(y.dtype).is_inexact)

    primals = tuple(inputs[i] for i in active)
    names = [f"operand {i}" for i in active]
    if not alone(*primals):
        return ""
    try:
        checks, _ = _check_one(
            "", alone, primals, names, ("fwd", "rev"), None, _Peers(context), generator
        )
    except TenferroError as error:
        return str(error)
    wrong = next((check for check in checks if not check.ok), None)
    return "" if wrong is None else f"{wrong.derivative} is off by {wrong.error:.1e}"


def _source_suffix(source: SourceLine | None) -> str:
    return "" if source is None else f"\n  at {source}"


def _worst_input(
    f: Callable[..., Any],
    primals: tuple[Any, ...],
    v: tuple[Any, ...],
    names: Sequence[str],
    context: AdContext,
) -> str:
    """Find the input whose partial derivative has the largest error."""
    errors: list[float] = []
    for index in range(len(primals)):
        alone = tuple(d if i == index else np.zeros_like(d) for i, d in enumerate(v))
        errors.append(_oracle(f, primals, alone, jvp(f, primals, alone, context=context)[1])[1])
    return names[int(np.argmax(np.nan_to_num(errors, nan=np.inf)))]


def _nan_note(f: Callable[..., Any], primals: tuple[Any, ...], derivative: Any) -> str:
    """Return a note if the derivative is not finite, and an empty string otherwise.

    The usual cause is `where`: in the branch that is not selected, an infinite derivative is multiplied by zero.
    """
    if all(np.isfinite(_wide(d)).all() for d in derivative):
        return ""
    program = compile(f, *primals)
    if not all(np.isfinite(_wide(y)).all() for y in program.run(*primals)):
        return "note: the function itself is not finite here"
    if any(isinstance(i.op, el.Select) for i in program.instructions):
        return (
            "note: a derivative is not finite though the value is; where() differentiates both "
            "branches, and 0 times an infinite derivative is NaN: make the branch not taken harmless "
            "too, where(ok, f(where(ok, x, 1)), 0)"
        )
    return "note: a derivative is not finite here"


# ---- numbers ---------------------------------------------------------------------------------------


def _wide(x: Tensor) -> Any:
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _absolute(a: Tensor, b: Tensor) -> float:
    return float(np.sum(np.abs(_wide(a)) * np.abs(_wide(b))))


def _epsilon(x: Tensor) -> float:
    return float(ml_dtypes.finfo(np.asarray(x).dtype).eps)


def _relative(actual: Any, expected: Any) -> float:
    """Return the largest difference between two lists of arrays, relative to 1 + max |expected|.

    The result is NaN if `actual` has a NaN.
    """
    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        a, b = _wide(a), _wide(b)
        if a.size:
            scale = 1 + np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            worst = max(worst, float(np.max(np.where(a == b, 0, np.abs(a - b)))) / scale)
            if np.isnan(a).any():
                return float("nan")
    return worst
