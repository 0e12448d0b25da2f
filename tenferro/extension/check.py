"""`check_extension`: check that an operation obeys the rules for extensions.

Results are compared with the op's own execution, or with a definition. The checks cover equality and hash, shape
inference for numbers and symbols, the expansion, saving and loading, and the results of other executors. Derivatives
are compared with difference quotients and by the adjoint identity. Rules are also checked to emit only supported ops.
"""

from __future__ import annotations

import copy
import decimal
import gc
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import compress, count
from typing import Any

import numpy as np

from tenferro.ad import AdContext, batch_program, linearize, transpose
from tenferro.ad.algebra import zeros
from tenferro.ad.directions import direction_generator, inner_product, random_direction
from tenferro.ad.extension_rule import ExtensionRuleSet, has_role
from tenferro.dims import Symbol, SymDim, is_exact
from tenferro.errors import TenferroError, UnsupportedError
from tenferro.exec import GraphExecutor
from tenferro.exec.extensions import aliased_inputs, borrowed, outputs_of
from tenferro.exec.ownership import take_ownership
from tenferro.extension.extension_op import check_family_id
from tenferro.extension.saving import load, save
from tenferro.graph import Graph
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension
from tenferro.program import (
    ExtensionRuntime,
    Family,
    GraphProgram,
    HostReferenceRuntime,
    expand_extensions,
    family_of,
    lookup_extension_factory,
    prune_outputs,
)
from tenferro.types import DType, TensorSpec

__all__ = ["ExtensionCheck", "ExtensionReport", "check_extension"]

STEP = 1e-6


@dataclass(frozen=True)
class ExtensionCheck:
    """Law and the result of its check. The attribute `ok` is None if the law does not apply.

    Attributes:
        law: the statement that is checked.
        found: a description of how the law fails, or the reason why it does not apply.
        example: the smallest slice of the sample inputs on which the law still fails.
    """

    law: str
    ok: bool | None
    found: str = ""
    example: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "not checked"}[self.ok]
        finding = f": {self.found}" if self.found else ""
        example = f"\n{'':<14}for {self.example}" if self.example else ""
        return f"{mark:<12}{self.law}{finding}{example}"


@dataclass(frozen=True)
class ExtensionReport:
    """Results of all checks of one op; `print(report)` shows them.

    Attributes:
        derived: what is computed from the op's expansion because the family does not define it, such as "tangents".
    """

    family_id: str
    checks: tuple[ExtensionCheck, ...]
    derived: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.ok is not False for check in self.checks)

    def __repr__(self) -> str:
        return f"<ExtensionReport {self._verdict()}, {len(self.checks)} checks>"

    def _verdict(self) -> str:
        return f"{self.family_id} {'keeps' if self.ok else 'BREAKS'} the contract"

    def __str__(self) -> str:
        derived = [f"  from the expansion: {', '.join(self.derived)}"] if self.derived else []
        return "\n".join([self._verdict(), *(f"  {check}" for check in self.checks), *derived])


def check_extension(
    op: Any,
    sample_inputs: Sequence[Any],
    *,
    rules: ExtensionRuleSet | None = None,
    runtime: ExtensionRuntime | None = None,
    executor: Any = None,
    tolerance: float = 1e-6,
    analytic: bool = False,
) -> ExtensionReport:
    """Check one op on sample inputs. The report names each law that fails, with the smallest example.

    Args:
        sample_inputs: arrays. An input is differentiated in the checks if it is float64 or complex128.
        rules: the derivative rules to check instead of those of the op's family.
        runtime: the runtime to check instead of that of the op's family. If there is none, `HostReferenceRuntime` is
            used.
        executor: another executor, such as an `XlaExecutor`, or a list of executors. Their results must agree with the
            native results. `XlaExecutor(extensions="composite")` runs a composite and its decomposition.
        tolerance: the largest relative difference between values that count as equal.
        analytic: whether the op accepts complex numbers and is holomorphic. Then tangents are also compared with the
            complex step, which is accurate to 13 digits.

    >>> from tenferro.ext.linalg import families
    >>> a = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> check_extension(families.Solve(), [a, a]).ok
    True
    """
    executors = executor if isinstance(executor, list | tuple) else [executor] if executor else []
    bench = _Bench(op, sample_inputs, rules, runtime, executors, tolerance, analytic)
    checks: list[ExtensionCheck] = []
    for law in LAWS:
        finding = bench.tried(law)
        ok = None if isinstance(finding, _NotApplicable) else finding == ""
        example = bench.smallest(law) if ok is False and law not in ABOUT_THE_OP else ""
        checks.append(ExtensionCheck(law, ok, str(finding), example))
        if law in ESSENTIAL and ok is False:
            break
    family_id = str(getattr(op, "family_id", op))
    return ExtensionReport(family_id, tuple(checks), tuple(bench.derived()))


class _NotApplicable(str):
    """Reason why a law does not apply to the op."""

    __slots__ = ()


FORMAT = "the family id is well-formed"
IDENTITY = "equal payloads are equal and hash alike; other things are not equal"
ARITY = "the counts are declared, and fit the sample"
METADATA = "types are inferred for numbers"
EXECUTION = "execution gives what is declared, twice the same, and leaves its inputs alone"
TANGENTS = "tangents are the derivative"
MEMORY = "outputs have memory of their own, but for declared aliases"
ORDER = "values do not depend on how the inputs lie in memory"
HISTORY = "values do not depend on earlier calls"
PROCESS = "the process is left as it was, unless effects are declared"
BATCHES = "a batch gives what its slices give"

LAWS: dict[str, str] = {
    FORMAT: "format",
    IDENTITY: "identity",
    ARITY: "arity",
    METADATA: "metadata",
    EXECUTION: "execution",
    MEMORY: "memory",
    ORDER: "order",
    HISTORY: "history",
    PROCESS: "process",
    "types are inferred for symbols, and come out as for numbers": "symbols",
    "what does not fit is refused by an error of tenferro's": "refusals",
    "the expansion computes the same": "expansion",
    "where nothing reads some outputs, the others stay the same": "pruning",
    TANGENTS: "tangents",
    "tangents are the derivative where one input alone has one": "lone_tangents",
    "cotangents are the adjoint": "cotangents",
    "rules emit only what has rules": "closure",
    BATCHES: "batches",
    "a file brings it back": "file",
    "the other executor agrees": "peers",
}
"""Names of the methods that check the laws. A method returns an empty text if its law holds."""
ESSENTIAL = (FORMAT, ARITY, METADATA, EXECUTION)
ABOUT_THE_OP = (FORMAT, IDENTITY, ARITY)


class _Bench:
    """Op under test, with the inputs, rules, runtime and executors for the checks."""

    def __init__(
        self,
        op: Any,
        inputs: Sequence[Any],
        rules: ExtensionRuleSet | None,
        runtime: ExtensionRuntime | None,
        executors: Sequence[Any],
        tolerance: float,
        analytic: bool,
    ) -> None:
        self.op = op
        self.carrier = Extension(op)
        self.family = family_of(op) if hasattr(op, "family_id") else None
        self.inputs = [np.asarray(x) for x in inputs]
        self.specs = [TensorSpec(x.shape, x.dtype) for x in self.inputs]
        self.rules = rules
        self.runtime = runtime
        self.executors = executors
        self.tolerance = tolerance
        self.analytic = analytic
        self.at_start = _process_state()

    def tried(self, law: str) -> str:
        """Check a law. Return a text that says how it fails, or an empty text. An exception counts as a failure."""
        try:
            return getattr(self, LAWS[law])()
        except Exception as error:
            if is_interruption(error):
                raise
            return f"{type(error).__name__}: {error}"

    def smallest(self, law: str) -> str:
        """Describe the smallest slice of the sample inputs on which `law` fails while all other essential laws hold."""
        bench = self
        for extent in sorted({n for x in self.inputs for n in x.shape}, reverse=True):
            for fewer in (1, 2, extent // 2):
                if 0 < fewer < extent:
                    part = bench.cut(extent, fewer)
                    if part.fails(law):
                        bench = part
                        break
        shown = ", ".join(str(spec) for spec in bench.specs)
        if sum(x.size for x in bench.inputs) <= 8:
            shown += " = " + ", ".join(str(x.tolist()) for x in bench.inputs)
        return shown

    def cut(self, extent: int, fewer: int) -> _Bench:
        """Return a copy for smaller inputs: along axes of extent `extent`, only the first `fewer` elements remain."""
        inputs = [
            x[tuple(slice(fewer if n == extent else n) for n in x.shape)] for x in self.inputs
        ]
        return _Bench(
            self.op, inputs, self.rules, self.runtime, self.executors, self.tolerance, self.analytic
        )

    def fails(self, law: str) -> bool:
        """Return whether `law` fails although all other essential laws hold."""
        if any(self.tried(essential) for essential in ESSENTIAL if essential != law):
            return False
        finding = self.tried(law)
        return bool(finding) and not isinstance(finding, _NotApplicable)

    def format(self) -> str:
        check_family_id(self.op.family_id)
        return ""

    def identity(self) -> str:
        twin = Extension(copy.deepcopy(self.op))
        if self.carrier != twin or twin != self.carrier:
            return "a copy of the op is not equal to it"
        if hash(self.carrier) != hash(twin) or hash(self.carrier) != hash(self.carrier):
            return "equal ops have different hashes"
        if self.op.payload_eq(object()):
            return "payload_eq takes another object for equal"
        for name in self.payload_names():
            other = copy.copy(self.op)
            vars(other).pop("_normal", None)
            object.__setattr__(other, name, object())
            try:
                is_equal = self.op.payload_eq(other)
            except (AttributeError, TypeError, ValueError):
                continue  # payload_eq reads attributes that this object lacks
            if is_equal:
                return f"payload_eq takes an op with another {name} for equal"
        return ""

    def payload_names(self) -> list[str]:
        """Return the names of the dataclass fields that distinguish ops of the family."""
        op: Any = self.op
        if not is_dataclass(op) or not hasattr(op, "__dict__"):
            return []
        compared = {field.name for field in fields(op) if field.compare}
        names: Any = getattr(op, "payload_fields", dict)()
        return [name for name in names if name in compared]

    def arity(self) -> str:
        for name in ("input_count", "output_count"):
            count = getattr(self.op, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                return f"{name} is {count!r}"
        if len(self.inputs) != self.op.input_count:
            return f"input_count is {self.op.input_count}, the sample has {len(self.inputs)} inputs"
        aliased_inputs(self.op)
        return ""

    def metadata(self) -> str:
        self.carrier.infer(*self.specs)
        return ""

    # ---- values ------------------------------------------------------------------------------

    def native(self) -> GraphExecutor:
        """Create an executor with a runtime of the op's family."""
        executor = GraphExecutor()
        if self.runtime is not None:
            executor.register_runtime(self.runtime)
        elif not self.has_runtime():
            executor.register_runtime(HostReferenceRuntime(self.op.family_id))
        return executor

    def has_runtime(self) -> bool:
        """Return whether the op's family has a runtime or an expansion."""
        return getattr(self.op, "from_expansion", False) or (
            self.family is not None and self.family.runtime is not None
        )

    def derived(self) -> list[str]:
        """Return what is computed from the op's expansion because the family does not define it."""
        if not getattr(self.op, "from_expansion", False):
            return []
        family = self.family or Family(type(self.op))
        rules = [(self.rules or {}).get(self.op.family_id), family.rules]
        lacking = [] if self.runtime or family.runtime else ["native execution"]
        roles = {"linearize": "tangents", "transpose_rule": "cotangents", "batch_rule": "batches"}
        for role, what in roles.items():
            has_batch = role == "batch_rule" and family.batch is not None
            if not has_batch and not any(
                rule is not None and has_role(rule, role) for rule in rules
            ):
                lacking.append(what)
        return lacking

    def called(self, executor: GraphExecutor, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Call the runtime.

        Return the inputs that it received for these arrays, and its outputs, which are not copied.
        """
        runtime = executor.extensions.runtime_of(self.carrier)
        inputs = borrowed(runtime, self.op, arrays)
        with np.errstate():
            result = runtime.execute(self.op, inputs, executor.extensions.caches)
        return inputs, outputs_of(self.op.family_id, result, self.op.output_count)

    def program(self, used: Sequence[bool] | None = None) -> GraphProgram:
        """Build a program of the op alone, with all its outputs, or with the outputs that `used` flags."""
        graph = Graph()
        values = tuple(graph.add_input(spec) for spec in self.specs)
        outputs = graph.add(self.carrier, values)
        return GraphProgram.from_graph(
            graph, outputs if used is None else [*compress(outputs, used)]
        )

    def execution(self) -> str:
        # Runtimes receive column-major arrays without a copy. So the check notices if a runtime writes to its inputs.
        inputs = [np.array(x, order="F") for x in self.inputs]
        executor, program = self.native(), self.program()
        first, second = executor.run(program, *inputs), executor.run(program, *inputs)
        for index, (x, before) in enumerate(zip(inputs, self.inputs, strict=True)):
            if x.tobytes() != before.tobytes():
                return f"input {index} was written to"
        for index, (a, b) in enumerate(zip(first, second, strict=True)):
            if a.tobytes() != b.tobytes() and not self.carrier.has_effects:
                return f"output {index} differs from one run to the next"
        return ""

    def memory(self) -> str:
        executor, aliases = self.native(), getattr(self.op, "aliases", {})
        inputs, outputs = self.called(executor, self.inputs)
        for position, y in enumerate(outputs):
            for index, x in enumerate(inputs):
                if aliases.get(position) != index and np.may_share_memory(x, y):
                    return (
                        f"output {position} shares memory with input {index}, and is copied at each call; "
                        "give a fresh array, or declare aliases"
                    )
            for earlier in range(position):
                if np.may_share_memory(outputs[earlier], y):
                    return f"outputs {earlier} and {position} share memory; the second is copied at each call"
        _, later = self.called(executor, self.inputs)
        for position, y in enumerate(later):
            if any(np.may_share_memory(x, y) for x in outputs):
                return (
                    f"output {position} lies where a result of an earlier call lies, such as in a workspace, "
                    "and is copied at each call; give a fresh array"
                )
        return self.held(executor)

    def held(self, executor: GraphExecutor) -> str:
        """Return the position of an output that the runtime still refers to after the call, described as text.

        An output to which other references exist is copied by `take_ownership`, so that its address changes.
        """
        _, outputs = self.called(executor, self.inputs)
        addresses = [y.ctypes.data if _is_owned(y) else None for y in list(outputs)]
        take_ownership(outputs)
        for position, address in enumerate(addresses):
            is_alias = position in getattr(self.op, "aliases", {})
            is_empty = not outputs[position].size
            if not (is_alias or is_empty) and address not in (None, outputs[position].ctypes.data):
                return (
                    f"output {position} is referred to elsewhere after the call, and is copied at each call; give a "
                    "fresh array"
                )
        return ""

    def order(self) -> str:
        executor, program = self.native(), self.program()
        if self.carrier.has_effects:
            return _NotApplicable("effects are declared")
        layouts = {"in rows": np.ascontiguousarray, "in columns": np.asfortranarray,
                   "backwards and with gaps": _spread}  # fmt: skip
        for shown, layout in layouts.items():
            laid = [layout(x) if x.ndim else x for x in self.inputs]
            if difference := self.compare(executor.run(program, *laid), f"inputs {shown}"):
                return difference
        return ""

    def history(self) -> str:
        """Check that results depend only on the contents of arrays, not on their addresses.

        A runtime that caches results by address fails the check. The second run gets arrays at the addresses of the
        first run but with other values.
        """
        if self.carrier.has_effects:
            return _NotApplicable("effects are declared")
        executor, program = self.native(), self.program()
        reused = [np.array(x, order="F") for x in self.inputs]
        executor.run(program, *reused)
        for x in reused:
            if x.dtype.kind in "fcV":
                x[...] = np.multiply(x, 0.75, dtype=x.dtype)
        again = executor.run(program, *reused)
        # Compare with several copies, because one copy may be stored at the address of an array of an earlier call.
        copies = [[x.copy(order="F") for x in reused] for _ in range(COPIES)]
        for fresh in copies:
            for index, (a, b) in enumerate(zip(again, executor.run(program, *fresh), strict=True)):
                if a.tobytes() != b.tobytes():
                    return f"output {index} equals the result for other arrays, which were at the same addresses in an earlier call"
        return ""

    def process(self) -> str:
        if self.carrier.has_effects:
            return _NotApplicable("effects are declared")
        registry = self.native().extensions
        runtime, caches = registry.runtime_of(self.carrier), registry.caches
        inputs = borrowed(runtime, self.op, self.inputs)
        # These contexts restore the settings. The warning filter must be new, because Python would only move an
        # existing filter to the front.
        with np.errstate(), warnings.catch_warnings():
            warnings.simplefilter("default", category=_OfThisCheck)
            before = _process_state()
            runtime.execute(self.op, inputs, caches)
            after = _process_state()
        # These settings are compared with their values before the whole check, because an earlier call of the kernel
        # may already have changed them. The other settings may also be changed by imports, so they are compared around
        # the call.
        before |= {name: self.at_start[name] for name in LEFT_ALONE_BY_IMPORTS}
        changed = [name for name in before if before[name] != after[name]]
        return f"a call changes {', '.join(changed)}" if changed else ""

    def symbols(self) -> str:
        names: dict[int, SymDim] = {}
        for x in self.inputs:
            for extent in x.shape:
                names.setdefault(extent, SymDim(f"n{len(names)}"))
        bindings: dict[Any, int] = {Symbol(str(name)): n for n, name in names.items()}
        specs = [
            TensorSpec(tuple(names[n] for n in x.shape), spec.dtype)
            for x, spec in zip(self.inputs, self.specs, strict=True)
        ]
        for inferred, declared in zip(
            self.carrier.infer(*specs), self.carrier.infer(*self.specs), strict=True
        ):
            shape = tuple(
                extent.evaluate(bindings) if isinstance(extent, SymDim) else extent
                for extent in inferred.shape
            )
            exact = all(is_exact(extent) for extent in shape)
            if inferred.dtype is not declared.dtype or (exact and shape != declared.shape):
                shown = ", ".join(map(str, specs))
                return f"for {shown} gives {inferred}, which comes out as {shape}, not {declared}"
        return ""

    def refusals(self) -> str:
        """Check what happens if an input has rank 0, or the dtype bool.

        The op must accept the input or raise one of tenferro's errors.
        """
        for position, spec in enumerate(self.specs):
            for replacement in (TensorSpec((), spec.dtype), TensorSpec(spec.shape, "bool")):
                specs = [*self.specs[:position], replacement, *self.specs[position + 1 :]]
                shown = ", ".join(map(str, specs))
                try:
                    self.carrier.infer(*specs)
                except TenferroError as error:
                    if error.__cause__ is not None:
                        return f"for {shown} infer_output_meta fails with {error.__cause__!r}"
        return ""

    def expansion(self) -> str:
        if "native execution" in self.derived():
            return _NotApplicable("it is what executes")
        try:
            expanded = expand_extensions(self.program())
        except TenferroError as error:
            if "no expansion" in str(error):
                return _NotApplicable("there is none")
            raise
        return self.compare(self.native().run(expanded, *self.inputs), "expansion")

    def pruning(self) -> str:
        """Check that the op from `prune_outputs` has the same outputs, in native execution and as an expansion."""
        prune = getattr(self.op, "prune_outputs", None)
        if prune is None or self.carrier.has_effects:
            return _NotApplicable("the op has no smaller form")
        choices = [one for one in _selections(self.op.output_count) if prune(one) is not None]
        if not choices:
            return _NotApplicable("the op has no smaller form")
        executor, has_expansion = self.native(), not self.expansion()
        whole = executor.run(self.program(), *self.inputs)
        for used in choices:
            shown = f"smaller form with outputs {', '.join(map(str, compress(count(), used)))}"
            program, expected = prune_outputs(self.program(used)), [*compress(whole, used)]
            if finding := self.compare(executor.run(program, *self.inputs), shown, expected):
                return finding
            if has_expansion:
                results = executor.run(expand_extensions(program), *self.inputs)
                if finding := self.compare(results, f"expansion of the {shown}", expected):
                    return finding
        return ""

    def compare(
        self, results: Sequence[Any], what: str, expected: Sequence[Any] | None = None
    ) -> str:
        """Describe the first result that differs from `expected`, by default from the result of native execution."""
        values = self.native().run(self.program(), *self.inputs) if expected is None else expected
        for index, (a, b) in enumerate(zip(results, values, strict=True)):
            difference = _relative_distance(np.asarray(a), b)
            if not difference <= self.tolerance:
                return f"output {index} of the {what} is {difference:.1e} apart, relative"
        return ""

    # ---- derivatives -------------------------------------------------------------------------

    def differentiable(self) -> _NotApplicable | None:
        has_rules = self.family is not None and self.family.rules is not None
        if self.rules is None and not has_rules and not getattr(self.op, "from_expansion", False):
            return _NotApplicable("there are no rules")
        wide = (DType.F64, DType.C64)
        active = [spec for spec in self.specs if spec.dtype.is_inexact]
        if not active or any(spec.dtype not in wide for spec in active):
            return _NotApplicable("the sample is not float64 or complex128")
        return None

    def context(self) -> AdContext:
        """Return an `AdContext` with the rules under test."""
        return AdContext() if self.rules is None else AdContext(self.rules)

    def derivative(
        self, places: Sequence[int], second: bool = False
    ) -> tuple[GraphProgram, GraphProgram]:
        """Build two programs for the derivatives of the op.

        The first computes tangents from inputs and directions. The second computes cotangents of the inputs from inputs
        and cotangents of the outputs.

        Args:
            places: the positions of the inputs that have a direction.
            second: whether to differentiate the results once more, which checks that their derivatives also have rules.
        """
        context = self.context()
        graph = Graph()
        emitter = context.emitter(graph)
        inputs = [graph.add_input(spec) for spec in self.specs]
        start = len(graph)
        outputs = list(graph.add(self.carrier, tuple(inputs)))
        active = [inputs[i] for i in places]
        results = [v for v in outputs if graph.types[v].dtype.is_inexact]
        dots = [graph.add_stand_in(graph.types[v]) for v in active]
        primal_dots = dict(zip(active, dots, strict=True))
        first = len(graph)
        y_dots = _filled(emitter, linearize(emitter, start, results, primal_dots), results)
        bars = [graph.add_stand_in(graph.types[v]) for v in results]
        pairs = list(zip(y_dots, bars, strict=True))
        x_bars = _filled(emitter, transpose(emitter, first, dots, pairs), active)
        forward = GraphProgram.from_graph(graph, y_dots, inputs=[*inputs, *dots])
        backward = GraphProgram.from_graph(graph, x_bars, inputs=[*inputs, *bars])
        if second:
            again = [graph.add_stand_in(graph.types[v]) for v in active]
            linearize(emitter, start, [*y_dots, *x_bars], dict(zip(active, again, strict=True)))
        return forward, backward

    def directions(self, seed: int, like: Sequence[Any]) -> list[Any]:
        """Draw random directions with the shapes and dtypes of the arrays `like`."""
        generator = direction_generator(seed)
        return [random_direction(generator, x) for x in like]

    def active(self) -> list[int]:
        """Return the positions of the inputs that have derivatives."""
        return [i for i, spec in enumerate(self.specs) if spec.dtype.is_inexact]

    def tangents(self) -> str:
        if reason := self.differentiable():
            return reason
        places = self.active()
        v = self.directions(1, [self.inputs[i] for i in places])
        y_dots = self.pushed(places, v)
        if difference := self.off_differences(places, v, y_dots):
            return difference
        return self.complex_step(y_dots, v) if self.analytic else ""

    def lone_tangents(self) -> str:
        if reason := self.differentiable():
            return reason
        places = self.active()
        if len(places) < 2:
            return _NotApplicable("there are no two inputs that have tangents")
        for position in places:
            v = self.directions(1, [self.inputs[position]])
            if difference := self.off_differences([position], v, self.pushed([position], v)):
                return f"for input {position}, {difference}"
        return ""

    def pushed(self, places: Sequence[int], v: Sequence[Any]) -> Any:
        """Compute the tangents of the outputs for the directions `v` of the inputs at the positions `places`."""
        forward, _ = self.derivative(places)
        return self.native().run(forward, *self.inputs, *v)

    def off_differences(self, places: Sequence[int], v: Sequence[Any], y_dots: Any) -> str:
        """Describe the first tangent in `y_dots` that differs from the central difference quotient."""
        executor, program = self.native(), self.program()
        sides: list[list[Any]] = []
        for sign in (1, -1):
            moved = list(self.inputs)
            for i, d in zip(places, v, strict=True):
                moved[i] = moved[i] + sign * STEP * d
            values = executor.run(program, *moved)
            sides.append([y for y in values if y.dtype.kind in "fc"])
        for index, (a, up, down) in enumerate(zip(y_dots, *sides, strict=True)):
            difference = _relative_distance(a, (up - down) / (2 * STEP))
            if not difference <= max(self.tolerance, 1e-6):
                return f"the tangent of output {index} is {difference:.1e} off, relative"
        return ""

    def complex_step(self, tangents: Sequence[Any], v: Sequence[Any]) -> str:
        """Compare tangents with the complex step Im f(x + i h v) / h, in which no digits cancel."""
        moved: list[Any] = list(self.inputs)
        for i, d in zip(self.active(), v, strict=True):
            if np.iscomplexobj(moved[i]):
                return "the complex step needs real inputs"
            moved[i] = moved[i] + 1e-100j * d
        step = _Bench(self.op, moved, None, self.runtime, (), self.tolerance, False)
        values = self.native().run(step.program(), *moved)
        for index, (a, y) in enumerate(zip(tangents, values, strict=True)):
            difference = _relative_distance(a, y.imag / 1e-100)
            if not difference <= 1e-13:
                return f"the tangent of output {index} is {difference:.1e} off the complex step"
        return ""

    def cotangents(self) -> str:
        if reason := self.differentiable():
            return reason
        forward, backward = self.derivative(self.active())
        executor = self.native()
        v = self.directions(1, [self.inputs[i] for i in self.active()])
        y_dots = executor.run(forward, *self.inputs, *v)
        w = self.directions(2, y_dots)
        x_bars = executor.run(backward, *self.inputs, *w)
        left = sum(inner_product(a, b) for a, b in zip(w, y_dots, strict=True))
        right = sum(inner_product(a, b) for a, b in zip(x_bars, v, strict=True))
        size = 1 + abs(left) + abs(right)
        if not abs(left - right) <= 1e-9 * size:
            return f"<w, J v> is {left:.6g}, <J^H w, v> is {right:.6g}"
        return ""

    def closure(self) -> str:
        if reason := self.differentiable():
            return reason
        self.derivative(self.active(), second=True)
        return ""

    def batches(self) -> str:
        """Check batches in which all inputs have a batch axis, and batches in which a single input has a batch axis."""
        count = len(self.inputs)
        masks = [(True,) * count, *[tuple(i == j for j in range(count)) for i in range(count)]]
        for mask in dict.fromkeys(masks):
            slices = [[x * x.dtype.type(scale) if has and x.dtype.kind in "fc" else x
                       for x, has in zip(self.inputs, mask, strict=True)]
                      for scale in BATCH_SCALES]  # fmt: skip
            stacked = [
                np.stack([one[i] for one in slices]) if mask[i] else self.inputs[i]
                for i in range(count)
            ]
            try:
                program = batch_program(self.program(), mask, len(slices), self.context())
            except UnsupportedError as error:
                if ": no batch_rule" in str(error):
                    return _NotApplicable("there is no batch rule")
                raise
            results = self.native().run(program, *stacked)
            singles = [self.native().run(self.program(), *one) for one in slices]
            for index, y in enumerate(results):
                difference = _relative_distance(y, np.stack([single[index] for single in singles]))
                if not difference <= self.tolerance:
                    return f"with a batch of inputs {mask}, output {index} is {difference:.1e} off"
        return ""

    # ---- elsewhere ---------------------------------------------------------------------------

    def file(self) -> str:
        if lookup_extension_factory(self.op.family_id) is None:
            return _NotApplicable("no factory is registered")
        program = self.program()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            save(program, path)
            loaded = load(path)
        if [step.op for step in loaded.instructions] != [self.carrier]:
            return "the op that comes back is another one"
        return ""

    def peers(self) -> str:
        if not self.executors:
            return _NotApplicable("none was given")
        for executor in self.executors:
            finding = self.compare(executor.run(self.program(), *self.inputs), "other executor")
            if finding:
                return finding
        return ""


def _is_owned(array: Any) -> bool:
    """Return whether NumPy, and not another library, allocated the memory of an array."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base is None and bool(array.flags.owndata)


COPIES = 16
BATCH_SCALES = (1.0, 0.75, 0.5)
"""Factors by which floating-point inputs are multiplied, one factor for each slice of a batch."""


def _selections(count: int) -> list[tuple[bool, ...]]:
    """Return masks of outputs: all proper subsets or, if there are many outputs, each one alone and all but one."""
    every = range(1, (1 << count) - 1) if count <= 4 else ()
    choices = [tuple([bool(bits >> i & 1) for i in range(count)]) for bits in every]
    if not choices:
        choices = [tuple([(i == j) is one for j in range(count)]) for one in (True, False)
                   for i in range(count)]  # fmt: skip
    return choices if count > 1 else []


def _spread(x: Any) -> Any:
    """Return x as a strided view: its elements are reversed in memory, with a gap after each element."""
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    view = wide[tuple(slice(None, None, -2) for _ in x.shape)]
    view[...] = x
    return view


class _OfThisCheck(UserWarning):
    """Category of warnings that only this check uses, so that no other code has a filter for it."""


LEFT_ALONE_BY_IMPORTS = ("NumPy's print options", "the working directory", "the collector")


def _process_state() -> dict[str, Any]:
    """Return the global state of the process, which kernels must not change."""
    return {
        "NumPy's handling of errors": np.geterr(),
        "NumPy's print options": repr(np.get_printoptions()),
        "the decimal context": repr(decimal.getcontext()),
        "NumPy's global random state": repr(np.random.get_state(legacy=False)),
        "Python's global random state": random.getstate(),
        "the working directory": os.getcwd(),
        "the environment": dict(os.environ),
        "the filters of warnings": list(warnings.filters),
        "the collector": gc.isenabled(),
        "the recursion limit": sys.getrecursionlimit(),
    }


def _filled(emitter: Any, values: Sequence[int | None], like: Sequence[int]) -> list[int]:
    return [
        zeros(emitter.values([value_like])[0]).handle if value is None else value
        for value, value_like in zip(values, like, strict=True)
    ]


def _relative_distance(a: Any, b: Any) -> float:
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        scale = 1 + np.max(np.abs(b[np.isfinite(b)]), initial=0)
        return float(np.max(np.where(same, 0, np.abs(np.subtract(a, b, dtype=complex)))) / scale)
