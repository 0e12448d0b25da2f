"""Types: arities, and the rule that gives the dtypes and shapes of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.dims import UpperBound
from tenferro.extension import (
    Extension,
    ExtensionOp,
    HostReferenceRuntime,
    apply,
    check_extension,
    extension_family,
    require,
)
from tests.specification.operations import Scale, X, compiled, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "types",
    "Arities and types",
    "An operation declares how many inputs and outputs it has, and `infer_output_meta(dtypes, shapes)` gives one pair of dtype and shape per output. "
    "Extents are integers, symbols, or bounds.",
)
N, M = tnf.SymDim("n"), tnf.SymDim("m")


def shaped(rule: Any, **members: Any) -> Any:
    """Return an operation whose shape rule calls the function `rule(dtypes, shapes)`."""
    return operation("shaped", infer_output_meta=lambda self, d, s: rule(d, s), **members)


def spec(*shape: Any, dtype: Any = "float64") -> tnf.TensorSpec:
    return tnf.TensorSpec(shape, dtype)


# ---- arities -------------------------------------------------------------------------------------


@chapter.works(1, "A call with another number of inputs than declared is an error.")
def test_input_count() -> None:
    with pytest.raises(
        errors.InvalidConfigError,
        match=r"extension: family_id=specification\.scale\.v1: expected 1 inputs, got 2",
    ):
        compiled(Scale(), X, X)


@chapter.works(2, "A shape rule that returns another number of outputs than declared is an error.")
def test_output_count() -> None:
    op = shaped(lambda d, s: [(d[0], s[0])] * 3, output_count=2)
    with pytest.raises(errors.InvalidConfigError, match="gives 3 outputs, output_count declares 2"):
        compiled(op)


@chapter.works(3, "The shape rule receives one dtype and one shape per input.")
def test_rule_arguments() -> None:
    seen = []
    op = shaped(lambda d, s: seen.append((d, s)) or [(d[0], s[1])], input_count=2)
    Extension(op).infer(spec(2, dtype="int32"), spec(3))
    assert seen == [([tnf.DType.I32, tnf.DType.F64], [(2,), (3,)])]


@chapter.works(4, "Arities may depend on the payload, but not change from call to call.")
def test_arity_in_the_payload() -> None:
    @extension_family("specification", "total", version=1, runtime=HostReferenceRuntime)
    @dataclass(frozen=True)
    class Total(ExtensionOp):
        count: int
        input_count = property(lambda self: self.count)  # type: ignore[assignment]  # from the payload

        def infer_output_meta(self, dtypes: Any, shapes: Any) -> Any:
            return [(dtypes[0], shapes[0])]

        def eager_execute(self, inputs: Any) -> Any:
            return [sum(inputs)]

    np.testing.assert_array_equal(apply(Total(3), X, X, X), 3 * X)
    with pytest.raises(errors.InvalidConfigError, match="expected 2 inputs, got 3"):
        compiled(Total(2), X, X, X)


@chapter.works(5, "An operation without inputs is an instruction of the trace.")
def test_no_inputs() -> None:
    op = shaped(
        lambda d, s: [("float64", (3,))], input_count=0, eager_execute=lambda self, inputs: [X]
    )
    program = tnf.compile(lambda x: x * apply(op), X)
    assert op.family_id in program.families
    np.testing.assert_array_equal(program.run(X), X * X)


@chapter.works(6, "An operation without outputs is dead code.")
def test_no_outputs() -> None:
    calls = []
    members = {"output_count": 0, "eager_execute": lambda self, inputs: calls.append(1) or []}
    tnf.compile(lambda x: (apply(shaped(lambda d, s: [], **members), x), x)[1], X).run(X)
    assert not calls
    effective = shaped(lambda d, s: [], effects=True, **members)
    with pytest.raises(errors.InvalidConfigError, match="return something from it"):
        compiled(effective)


@chapter.works(7, "`check_extension` reports counts that differ from the declared ones.")
def test_counts_in_the_report() -> None:
    op = shaped(lambda d, s: [(d[0], s[0])] * 2)
    report = check_extension(op, [X])
    assert not report.ok
    assert "output_count" in str(report)


@chapter.differs(
    8,
    "Counts are attributes or properties: `input_count = 2`, not a method.",
    because="an operation with one input and one output declares nothing, and an attribute cannot vary from call to call",
)
def test_counts_are_attributes() -> None:
    assert (Scale().input_count, Scale().output_count) == (1, 1)
    with pytest.raises(errors.InvalidConfigError, match="expected"):
        compiled(operation("method", input_count=lambda self: 1))


# ---- results of the rule -------------------------------------------------------------------------


@chapter.works(9, "Each output has its own dtype and shape, and dtypes may differ.")
def test_mixed_outputs() -> None:
    op = shaped(
        lambda d, s: [(d[0], s[0]), ("int32", ())],
        output_count=2,
        eager_execute=lambda self, inputs: [inputs[0] + 1, np.int32(inputs[0].size)],
    )
    program = compiled(op)
    assert program.output_specs == (spec(3), spec(dtype="int32"))
    values, size = program.run(X)
    np.testing.assert_array_equal(values, X + 1)
    assert size == 3
    assert size.dtype == np.int32


@chapter.works(10, "Two outputs of one operation are different values.")
def test_output_slots() -> None:
    op = shaped(
        lambda d, s: [(d[0], s[0])] * 2,
        output_count=2,
        eager_execute=lambda self, inputs: [inputs[0] + 1, inputs[0] - 1],
    )
    program = tnf.compile(lambda x: tuple(reversed(apply(op, x))), X)
    np.testing.assert_array_equal(program.run(X), [X - 1, X + 1])


@chapter.table(
    "answer",
    {
        11: Row(
            "A shape rule may return dtypes as names and extents as NumPy integers.",
            [("float64", (np.int64(3),))],
        ),
        12: Row("A shape rule may return a `TensorSpec`.", [spec(3)]),
        13: Row("A shape rule may return any iterable.", iter([(np.float64, [3])])),
    },
)
def test_answers(answer: Any) -> None:
    (result,) = Extension(shaped(lambda d, s: answer)).infer(spec(3))
    assert result == spec(3)


@chapter.table(
    "answer, words",
    {
        14: Row("A shape rule that returns no list is an error.", 3, "got 3"),
        15: Row("A shape rule that returns an entry other than a pair is an error.", [3], "got 3"),
        16: Row("`True` is not an extent.", [("float64", (True,))], "True"),
        17: Row("A negative number is not an extent.", [("float64", (-1,))], "-1"),
        18: Row("A fraction is not an extent.", [("float64", (2.5,))], "2.5"),
    },
)
def test_answers_that_are_refused(answer: Any, words: str) -> None:
    with pytest.raises(errors.TenferroError, match=words):
        compiled(shaped(lambda d, s: answer))


@chapter.works(
    19, "An error raised by a shape rule is reported with the family and the types of the inputs."
)
def test_a_rule_that_raises() -> None:
    def fails(dtypes: Any, shapes: Any) -> Any:
        raise KeyError("axis")

    with pytest.raises(
        errors.InvalidConfigError, match=r"shaped\.v1: .*f64\[3\]: KeyError"
    ) as caught:
        compiled(shaped(fails))
    assert isinstance(caught.value.__cause__, KeyError)


# ---- symbols -------------------------------------------------------------------------------------


@chapter.differs(
    20,
    "Static extents are plain integers; only symbolic extents are `SymDim`s.",
    because="shape rules are ordinary arithmetic, with no conversions",
)
def test_known_extents_are_integers() -> None:
    seen = []
    op = shaped(lambda d, s: seen.extend(s[0]) or [(d[0], s[0])])
    Extension(op).infer(spec(3, "n"))
    assert seen == [3, N]
    assert type(seen[0]) is int
    with pytest.raises(errors.TenferroError, match="3"):
        tnf.SymDim(3)  # type: ignore[arg-type]  # must raise


@chapter.table(
    "expression, value",
    {
        21: Row("Symbolic extents can be added.", lambda n, m: n + m + 1, 9),
        22: Row("Symbolic extents can be subtracted.", lambda n, m: n - m, 2),
        23: Row("Symbolic extents can be multiplied.", lambda n, m: n * m, 15),
        24: Row("Symbolic extents can be divided, rounding down.", lambda n, m: n // m, 1),
        25: Row("Symbolic extents have remainders.", lambda n, m: n % m, 2),
    },
)
def test_arithmetic(expression: Any, value: int) -> None:
    op = shaped(
        lambda d, s: [(d[0], (expression(s[0][0], s[1][0]),))],
        input_count=2,
        eager_execute=lambda self, inputs: [np.ones(expression(*map(len, inputs)))],
    )
    program = tnf.compile(lambda x, y: apply(op, x, y), spec("n"), spec("m"))
    assert program.output_specs[0].shape != (value,)
    assert program.run(np.ones(5), np.ones(3)).shape == (value,)


@chapter.works(
    26, "The shape rule for a symbolic extent returns an expression in the symbol, not a number."
)
def test_symbolic_answers() -> None:
    program = tnf.compile(lambda x: tnf.linalg.qr(x)[0], spec("n", "m"))
    rows, columns = program.output_specs[0].shape
    assert rows == N
    assert "min" in str(columns)
    assert program.run(np.ones((4, 2))).shape == (4, 2)
    assert program.run(np.ones((2, 4))).shape == (2, 2)


@chapter.table(
    "relation, fitting, unfit",
    {
        27: Row("A shape rule may require two extents to be equal.", "==", (4, 4), (4, 3)),
        28: Row(
            "A shape rule may require one extent to be at least another.", ">=", (4, 3), (3, 4)
        ),
        29: Row(
            "A shape rule may require an extent to be divisible.", "divisible by", (4, 2), (4, 3)
        ),
    },
)
def test_requirements(relation: str, fitting: Any, unfit: Any) -> None:
    def rule(dtypes: Any, shapes: Any) -> Any:
        require(shapes[0][0], relation, shapes[0][1], "the extents of x0")
        return [(dtypes[0], ())]

    op = shaped(rule, eager_execute=lambda self, inputs: [np.sum(inputs[0])])
    with pytest.raises(errors.ShapeError, match=f"the extents of x0 needs .* {relation}"):
        compiled(op, np.ones(unfit))
    program = tnf.compile(lambda x: apply(op, x), spec("n", "m"))
    assert program.run(np.ones(fitting)) == np.prod(fitting)
    with pytest.raises(errors.GuardError, match=r"test_types\.py"):
        program.run(np.ones(unfit))


@chapter.works(30, "A condition that arithmetic decides adds no guard.")
def test_no_guard() -> None:
    def rule(dtypes: Any, shapes: Any) -> Any:
        require(shapes[0][0], "divisible by", 2, "the extent")
        return [(dtypes[0], shapes[0])]

    program = tnf.compile(lambda x: apply(shaped(rule), tnf.concat([x, x])), spec("n"))
    assert not program.guards


@chapter.works(31, "Guards are saved with files and artifacts.")
def test_guards_travel(tmp_path: Any) -> None:
    program = tnf.compile(tnf.linalg.cholesky, spec("n", "m"))
    tnf.save(program, tmp_path / "program")
    artifact = xla_peer.export(tnf.compile(lambda x, y: x + y, spec("n"), spec("m")))
    np.testing.assert_array_equal(tnf.load(tmp_path / "program").run(np.eye(2)), np.eye(2))
    with pytest.raises(errors.GuardError, match="n == m"):
        tnf.load(tmp_path / "program").run(np.ones((2, 3)))
    with pytest.raises(errors.TenferroError, match="n == m"):
        artifact.run(np.ones(2), np.ones(3))


@chapter.works(32, "An output may declare an upper bound for an extent that depends on data.")
def test_upper_bounds() -> None:
    op = shaped(
        lambda d, s: [(d[0], (UpperBound(s[0][0]),))],
        eager_execute=lambda self, inputs: [inputs[0][inputs[0] > 1.5]],
    )
    assert tnf.compile(lambda x: tnf.sum(apply(op, x)), X).run(X) == 5.0
    longer = shaped(
        lambda d, s: [(d[0], (UpperBound(s[0][0]),))],
        eager_execute=lambda self, inputs: [np.ones(4)],
    )
    with pytest.raises(errors.InvalidConfigError, match=r"f64\[4\].*declares f64\[<=3\]"):
        apply(longer, X)


@chapter.works(33, "A bounded extent may be the input of an operation, and arithmetic works on it.")
def test_bounds_as_inputs() -> None:
    def twice(x: Any) -> Any:
        shorter = tnf.dynamic_truncate(x, tnf.asarray(np.int64(2)), axis=0)
        return apply(operation("same", eager_execute=lambda self, inputs: [2 * inputs[0]]), shorter)

    np.testing.assert_array_equal(tnf.compile(twice, X).run(X), 2 * X[:2])


@chapter.works(34, "A symbol that no input binds is an error when the program runs.")
def test_fresh_symbols() -> None:
    op = shaped(
        lambda d, s: [(d[0], (tnf.SymDim("fresh"),))], eager_execute=lambda self, inputs: [X]
    )
    with pytest.raises(errors.TenferroError, match=r"shaped\.v1|fresh"):
        tnf.compile(lambda x: apply(op, x), X).run(X)


LINALG = {
    35: Row("`tnf.linalg.lu` takes symbolic extents.", tnf.linalg.lu, ("n", "n")),
    36: Row("`tnf.linalg.qr` takes symbolic extents.", tnf.linalg.qr, ("n", "m")),
    37: Row("`tnf.linalg.svd` takes symbolic extents.", tnf.linalg.svdvals, ("n", "m")),
    38: Row("`tnf.linalg.pinv` takes symbolic extents.", tnf.linalg.pinv, ("n", "m")),
    39: Row("`tnf.linalg.slogdet` takes symbolic extents.", tnf.linalg.slogdet, ("n", "n")),
    40: Row("`tnf.linalg.cholesky` takes symbolic extents.", tnf.linalg.cholesky, ("n", "n")),
    41: Row("`tnf.linalg.inv` takes symbolic extents.", tnf.linalg.inv, ("n", "m")),
}


@chapter.table("function, shape", LINALG)
def test_symbolic_linear_algebra(function: Any, shape: Any) -> None:
    a = np.array([[2.0, 0.5], [0.5, 1.0]])
    program = tnf.compile(function, spec(*shape))
    numbers = tnf.compile(function, a)
    for symbolic, concrete in zip(
        tnf.tree.leaves(program.run(a)), tnf.tree.leaves(numbers.run(a)), strict=True
    ):
        np.testing.assert_array_equal(symbolic, concrete)

    def loss(a: Any) -> Any:
        return sum(tnf.sum(tnf.real(y)) for y in tnf.tree.leaves(function(a)) if y.dtype.is_float)

    gradient = tnf.compile(tnf.grad(loss), spec(*shape)).run(a)
    np.testing.assert_allclose(gradient, tnf.compile(tnf.grad(loss), a).run(a), rtol=1e-12)


@chapter.works(42, "`check_extension` tries shape rules on symbols.")
def test_symbols_in_the_report() -> None:
    op = shaped(
        lambda d, s: [(d[0], s[0] if s[0][0] > 1 else ())], eager_execute=lambda self, x: [x[0] + 1]
    )
    report = check_extension(op, [X])
    assert not report.ok
    assert "symbols" in str(report)
