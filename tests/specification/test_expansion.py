"""Expansion and lowering: operations on peers without their runtimes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import ExtensionOp, apply, check_extension, extension_family
from tenferro.extension.ops import Multiply
from tests.specification.operations import PEERS, Scale, X, compiled, operation, runs_without
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "expansion",
    "Expansion and lowering",
    "`lower_to_standard_ops` expands an operation into standard ops, for peers without its runtime. "
    "A registered lowering emits StableHLO instead.",
)


def square(self: Any, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
    return builder.apply_one(Multiply(), inputs[0], inputs[0])


def expanding(expansion: Any = square, **members: Any) -> Any:
    """Return an operation that is expanded by the function `expansion`."""
    return operation("expanding", lower_to_standard_ops=expansion, **members)


def text_of(op: Any, *arrays: Any, **options: Any) -> str:
    return lowering.lower_to_stablehlo(compiled(op, *arrays), **options).text


# ---- the expansion -------------------------------------------------------------------------------


@chapter.works(
    1, "An operation is lowered by its expansion and runs through PJRT without its runtime."
)
def test_the_expansion_is_lowered() -> None:
    op = expanding(runtime=None)
    assert "stablehlo.multiply %arg0, %arg0" in text_of(op)
    np.testing.assert_array_equal(xla_peer.XlaExecutor("cpu").run(compiled(op), X), X * X)


@chapter.works(2, "The expansion receives the dtypes and shapes of its inputs.")
def test_arguments() -> None:
    seen = []

    def expansion(self: Any, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        seen.append((len(inputs), dtypes, shapes))
        return inputs[0]

    text_of(expanding(expansion), np.ones((2, 3), "f4"))
    assert seen == [(1, [tnf.DType.F32], [(2, 3)])]


@chapter.works(3, "The expansion is called once all extents of its inputs are known.")
def test_known_extents() -> None:
    seen = []

    def expansion(self: Any, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        seen.append(shapes)
        return inputs[0]

    program = tnf.compile(
        lambda x: apply(expanding(expansion), x), tnf.TensorSpec(("n",), "float64")
    )
    lowering.lower_to_stablehlo(program, specs=[tnf.TensorSpec((3,), "float64")])
    assert seen == [[(3,)]]


@chapter.works(
    4, "The expansion returns one value of its builder, or a list with one value per output."
)
def test_results() -> None:
    one = lambda self, builder, inputs, dtypes, shapes: inputs[0]
    many = lambda self, builder, inputs, dtypes, shapes: [builder.value(inputs[0])]
    for expansion in (one, many):
        assert "return %arg0" in text_of(expanding(expansion))


@chapter.works(5, "In expansions, tenferro's functions and Python's operators accept values.")
def test_functions() -> None:
    def expansion(self: Any, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x = builder.value(inputs[0])
        return tnf.add(tnf.exp(x) * 2, tnf.sum(x))

    program = compiled(expanding(expansion))
    expected = np.exp(X) * 2 + np.sum(X)
    np.testing.assert_allclose(xla_peer.XlaExecutor("cpu").run(program, X), expected, rtol=1e-14)


@chapter.works(6, "An operation without expansion cannot be lowered: there is no fallback.")
def test_no_expansion() -> None:
    assert ExtensionOp.lower_to_standard_ops(Scale(), None, [], [], []) is None
    with pytest.raises(errors.UnsupportedError, match=r"scale\.v1"):
        text_of(Scale())


@chapter.works(7, "The error lists all operations that cannot be lowered, with the user's lines.")
def test_all_at_once() -> None:
    program = tnf.compile(lambda x: (apply(Scale(1.0), x), apply(Scale(2.0), x)), X)
    with pytest.raises(errors.UnsupportedError) as caught:
        lowering.lower_to_stablehlo(program)
    assert str(caught.value).count("specification.scale.v1 at") == 2
    assert "test_expansion.py" in str(caught.value)


@chapter.table(
    "result, words",
    {
        8: Row("An expansion that returns an index without a value in the builder is an error.", lambda b, x: [99], "got 99"),
        9: Row("An expansion that returns a negative index is an error.", lambda b, x: [-1], "got -1"),
        10: Row("An expansion that returns an array is an error.", lambda b, x: X, "got array"),
        11: Row("An expansion whose results have other types than declared is an error.", lambda b, x: [b.constant(1.0)], r"gives \(f64\[\]\), infer_output_meta declares"),
        12: Row("An expansion with a wrong number of results is an error.", lambda b, x: [x, x], "declares"),
        13: Row("An expansion that contains another extension operation is an error.", lambda b, x: b.apply_one(tnf.extension.Extension(Scale()), x), "not a standard op"),
    },
)  # fmt: skip
def test_results_that_are_refused(result: Any, words: str) -> None:
    op = expanding(lambda self, builder, inputs, dtypes, shapes: result(builder, inputs[0]))
    with pytest.raises(errors.ExtensionLoweringError, match=rf"expanding\.v1.*{words}"):
        text_of(op)


@chapter.works(
    14, "An error raised by an expansion is reported with the family and the user's line."
)
def test_failures() -> None:
    def fails(*arguments: Any) -> Any:
        raise KeyError("axis")

    with pytest.raises(
        errors.ExtensionLoweringError, match=r"(?s)expanding\.v1.*KeyError.*operations\.py"
    ) as caught:
        text_of(expanding(fails))
    assert isinstance(caught.value.__cause__, KeyError)


@chapter.works(
    15, "An `ExtensionLoweringError` raised by an expansion reaches the caller unchanged."
)
def test_own_errors() -> None:
    def refuses(*arguments: Any) -> Any:
        raise errors.ExtensionLoweringError("no such mode")

    with pytest.raises(errors.ExtensionLoweringError, match=r"expanding\.v1.*no such mode"):
        text_of(expanding(refuses))


@chapter.works(43, "An error in an expansion names the user's line once.")
def test_lines() -> None:
    unequal = lambda self, b, inputs, d, s: tnf.sum(b.value(inputs[0])) + b.value(inputs[0])
    with pytest.raises(errors.ExtensionLoweringError, match=r"expanding\.v1: Add: ") as caught:
        text_of(expanding(unequal))
    assert str(caught.value).count("\n  at ") == 1


@chapter.works(
    16, "`from_expansion` derives native execution, derivatives and batches from the expansion."
)
def test_what_follows() -> None:
    op = expanding(from_expansion=True, runtime=None)
    np.testing.assert_array_equal(apply(op, X), X * X)
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(apply(op, x)))(X), 2 * X)
    rows = np.stack([X, -X])
    np.testing.assert_array_equal(tnf.vmap(lambda x: apply(op, x))(rows), rows * rows)
    assert check_extension(op, [X]).derived == (
        "native execution", "tangents", "cotangents", "batches",
    )  # fmt: skip


@chapter.works(
    17, "The family's own runtime and rules take precedence over those derived from the expansion."
)
def test_what_is_given_comes_first() -> None:
    op = expanding(from_expansion=True, eager_execute=lambda self, inputs: [inputs[0] ** 2 + 1])
    np.testing.assert_array_equal(apply(op, X), X**2 + 1)


@chapter.works(
    18, "`check_extension` reports an expansion whose results differ from the runtime's."
)
def test_reports() -> None:
    wrong = expanding(eager_execute=lambda self, inputs: [3 * inputs[0]])
    assert not check_extension(wrong, [X]).ok


@chapter.works(19, "An operation with effects is never expanded.")
def test_effects() -> None:
    op = expanding(effects=True, eager_execute=lambda self, inputs: [inputs[0] * 1])
    with pytest.raises(errors.UnsupportedError, match=r"expanding\.v1"):
        text_of(op)


# ---- registered lowerings ------------------------------------------------------------------------


def lowered(name: str) -> Any:
    """Return an operation of a new family. The test registers a lowering for this family."""
    return operation(name, lower_to_standard_ops=square)


def by(name: str) -> Any:
    return lambda op, w, x: w.op(name, x, result=x.spec)


@chapter.works(20, "A registered lowering takes precedence over the expansion.")
def test_registered_lowerings() -> None:
    op = lowered("direct")
    lowering.register_extension_lowering(op.family_id, by("negate"))
    assert "stablehlo.negate" in text_of(op)


@chapter.works(
    21, "A lowering for one platform takes precedence over the lowering for all platforms."
)
def test_platforms() -> None:
    op = lowered("placed")
    lowering.register_extension_lowering(op.family_id, by("negate"))
    lowering.register_extension_lowering(op.family_id, by("abs"), "cuda")
    assert "stablehlo.abs" in text_of(op, platform="cuda")
    assert "stablehlo.negate" in text_of(op)


@chapter.works(
    22,
    "A second lowering for a family and a platform is an error unless it is registered as a replacement.",
)
def test_duplicates() -> None:
    op = lowered("twice_lowered")
    lowering.register_extension_lowering(op.family_id, by("negate"))
    with pytest.raises(errors.DuplicateFamilyError, match=r"twice_lowered\.v1"):
        lowering.register_extension_lowering(op.family_id, by("abs"))
    lowering.register_extension_lowering(op.family_id, by("abs"), replace=True)
    assert "stablehlo.abs" in text_of(op)


@chapter.works(
    23, "A replaced lowering is not used again, not even by executors that compiled with it."
)
def test_replaced_lowerings() -> None:
    op = lowered("relowered")
    program, xla, results = compiled(op), xla_peer.XlaExecutor("cpu"), []
    for name in ("negate", "abs"):
        lowering.register_extension_lowering(op.family_id, by(name), replace=True)
        results.append(xla.run(program, X))
    np.testing.assert_array_equal(results, [-X, X])


@chapter.table(
    "rule, words",
    {
        24: Row("A lowering whose results have other types than declared is an error.", lambda op, w, x: w.scalar(0, x.dtype), "declares"),
        25: Row("A lowering that returns None is an error.", lambda op, w, x: None, "got None"),
        26: Row("An error raised by a lowering is reported with the family and the platform.", lambda op, w, x: {}["axis"], "for cpu failed: KeyError"),
    },
)  # fmt: skip
def test_lowerings_that_are_refused(rule: Any, words: str) -> None:
    op = lowered("mislowered")
    lowering.register_extension_lowering(op.family_id, rule, replace=True)
    with pytest.raises(errors.ExtensionLoweringError, match=rf"mislowered\.v1.*{words}") as caught:
        text_of(op)
    assert "operations.py" in str(caught.value)


@chapter.table(
    "family, platform, kind",
    {
        27: Row("Registering a lowering for a malformed family id is an error.", "lowered", None, errors.MalformedFamilyIdError),
        28: Row("Registering a lowering for an unknown platform is an error.", "a.b.v1", "cupu", errors.InvalidConfigError),
    },
)  # fmt: skip
def test_registrations_that_are_refused(family: str, platform: Any, kind: Any) -> None:
    with pytest.raises(kind):
        lowering.register_extension_lowering(family, by("negate"), platform)


# ---- StableHLO -----------------------------------------------------------------------------------


@chapter.works(
    29, "On request extensions are lowered to composites, with their family id and payload."
)
def test_composites() -> None:
    @extension_family("specification", "kept", version=2)
    @dataclass(frozen=True)
    class Kept(Scale):
        lower_to_standard_ops = square

    module = lowering.lower_to_stablehlo(compiled(Kept(2.5)), extensions="composite")
    module.verify()
    assert 'stablehlo.composite "specification.kept.v2"' in module.text
    assert "factor = 2.5 : f64" in module.text
    assert "version = 2 : i32" in module.text


@chapter.works(30, "All lowered text parses and verifies.")
def test_verification() -> None:
    lowering.lower_to_stablehlo(compiled(expanding())).verify()


@chapter.works(31, "A program can be serialised as bytecode and as a portable artifact.")
def test_serialisation() -> None:
    module = lowering.lower_to_stablehlo(compiled(expanding()))
    for encoded in (module.bytecode(), module.portable_artifact()):
        again = lowering.import_stablehlo(encoded)
        np.testing.assert_array_equal(again.run(X), X * X)


@chapter.works(32, "The text is the same in every process.")
def test_deterministic_text() -> None:
    code = (
        "import numpy as np, tenferro as tnf, lowering\n"
        "f = lambda x: tnf.linalg.det(tnf.exp(x) @ x.T)\n"
        "print(lowering.lower_to_stablehlo(tnf.compile(f, np.ones((3, 3)))).fingerprint)"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1


@chapter.differs(
    33,
    "StableHLO is not an internal representation: `lower_to_stablehlo` writes text and artifacts for peers.",
    because="native execution needs no MLIR and starts at once",
)
def test_no_layer_inside() -> None:
    runs_without(
        PEERS,
        "import numpy as np, tenferro as tnf\n"
        "tnf.compile(lambda x: tnf.linalg.inv(tnf.exp(x)), np.eye(2)).run(np.eye(2))",
    )


@chapter.works(34, "`Conj` is lowered to `real`, `imag`, `negate` and `complex`.")
def test_conj() -> None:
    text = lowering.lower_to_stablehlo(tnf.compile(tnf.conj, np.ones(2, "c16"))).text
    ops = [
        line.split("stablehlo.")[1].split()[0] for line in text.splitlines() if "stablehlo." in line
    ]
    assert ops == ["imag", "negate", "real", "complex"]


@chapter.works(35, "Column-major arguments enter a lowered program without a copy.")
def test_column_major_arguments() -> None:
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(
        xla_peer.XlaExecutor("cpu").run(compiled(expanding(), x), x), x * x
    )
    program = compiled(expanding(), x)
    module = lowering.lower_to_stablehlo(program, input_orders=["F"])
    assert "tensor<3x2xf64>" in module.text


@chapter.works(36, "Neither peer falls back to the other.")
def test_no_fallback() -> None:
    with pytest.raises(errors.UnsupportedError):
        xla_peer.XlaExecutor("cpu").run(compiled(Scale()), X)
    with pytest.raises(errors.UnsupportedError):
        compiled(expanding(runtime=None)).run(X)


@chapter.table(
    "target, function",
    {
        37: Row("The singular value decomposition is lowered to LAPACK's custom call.", "lapack_dgesdd_ffi", tnf.linalg.svdvals),
        38: Row("The QR decomposition is lowered to LAPACK's custom call.", "lapack_dgeqrf_ffi", tnf.linalg.qr),
        39: Row("The eigenvalue decomposition is lowered to LAPACK's custom call.", "lapack_dsyevd_ffi", tnf.linalg.eigh),
        40: Row("`solve` is lowered to LAPACK's custom call.", "lapack_dgetrf_ffi", lambda a: tnf.linalg.solve(a, a)),
        41: Row("`cholesky` is lowered to LAPACK's custom call, with StableHLO's own op on request.", "lapack_dpotrf_ffi", tnf.linalg.cholesky, because="a failed factorisation gives NaN on every platform"),
    },
)  # fmt: skip
def test_linear_algebra(target: str, function: Any) -> None:
    program = tnf.compile(function, np.eye(2))
    assert target in lowering.lower_to_stablehlo(program).text
    inline = lowering.lower_to_stablehlo(program, linalg="inline").text
    assert "custom_call" not in inline


@chapter.works(
    42, "An artifact that is exported to a file and loaded again computes the same values."
)
def test_artifacts(tmp_path: Any) -> None:
    program = compiled(expanding())
    xla_peer.export(program, path=tmp_path / "artifact.mlirbc")
    np.testing.assert_array_equal(xla_peer.load(tmp_path / "artifact.mlirbc").run(X), X * X)


@chapter.works(44, "Exporting a library call on symbolic extents is an error.")
def test_routines_on_symbols() -> None:
    for function in (tnf.linalg.cholesky, tnf.linalg.inv, tnf.linalg.svdvals):
        program = tnf.compile(function, tnf.TensorSpec(("n", "n"), "float64"))
        with pytest.raises(errors.NonStaticShapeError, match=r"f64\[n,n\].*concrete specs"):
            xla_peer.export(program)


@chapter.differs(
    45,
    "An artifact with linear algebra needs concrete extents; a native program takes symbols.",
    because="the routine and its workspace are chosen for fixed extents when the artifact is written, "
    "and test vectors cover this choice",
)
def test_symbolic_artifacts() -> None:
    program = tnf.compile(tnf.linalg.inv, tnf.TensorSpec(("n", "n"), "float64"))
    with pytest.raises(errors.NonStaticShapeError):
        xla_peer.export(program)
    for n in (2, 3):
        artifact = xla_peer.export(tnf.linalg.inv, tnf.TensorSpec((n, n), "float64"))
        np.testing.assert_array_equal(artifact.run(np.eye(n)), np.eye(n))
        np.testing.assert_array_equal(program.run(np.eye(n)), np.eye(n))
