"""Shape rules may require relations between extents.

Numbers must be checked at once, and symbols when the program runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.dims import UpperBound
from tenferro.errors import GuardError, InvalidConfigError, ShapeError
from tenferro.extension import (
    ExtensionOp,
    Family,
    HostReferenceRuntime,
    apply,
    extension_family,
    register_extension,
    require,
)
from tenferro.extension.ops import ReduceSum, Reshape
from tenferro.types import TensorSpec

RELATIONS = {
    "==": ((4, 4), (4, 3), "n == m"),
    ">=": ((4, 3), (3, 4), "n >= m"),
    "divisible by": ((4, 2), (4, 3), "n divisible by m"),
}
"""Examples of each relation.

They are extents (n, m) that satisfy the relation, extents that violate it, and the guard for symbols n and m.
"""


@extension_family("tenferro-tests", "related", version=1)
@dataclass(frozen=True)
class Related(ExtensionOp):
    """The sum of a matrix. The extents of the matrix must satisfy a relation."""

    relation: str
    from_expansion = True

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        rows, columns = input_shapes[0]
        require(rows, self.relation, columns, "the extents of x0")
        return [(input_dtypes[0], ())]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return [builder.apply_one(ReduceSum((0, 1)), inputs[0])]


register_extension(Family(Related))


@extension_family("tenferro-tests", "quarters", version=1)
@dataclass(frozen=True)
class Quarters(ExtensionOp):
    """A vector that is reshaped to rows of four elements. Its length must be divisible by four."""

    from_expansion = True

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        (extent,) = input_shapes[0]
        require(extent, ">=", 1, "the extent of x0")
        require(extent, "divisible by", 4, "the extent of x0")
        return [(input_dtypes[0], (4, extent // 4))]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return [builder.apply_one(Reshape((4, input_shapes[0][0] // 4)), inputs[0])]


@extension_family("tenferro-tests", "repeated", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Repeated(ExtensionOp):
    """The positive elements of x, repeated `times` times. The length of the result depends on the data."""

    times: int

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], (UpperBound(input_shapes[0][0]),))]

    def eager_execute(self, inputs: Any) -> Any:
        return [np.tile(inputs[0][inputs[0] > 0], self.times)]


def related(relation: str) -> Any:
    return tnf.compile(lambda x: apply(Related(relation), x), TensorSpec(("n", "m"), "float64"))


@pytest.mark.parametrize("relation", RELATIONS)
def test_numbers_are_compared_while_tracing(relation: str) -> None:
    fits, unfit, _ = RELATIONS[relation]
    assert apply(Related(relation), np.ones(fits)) == np.prod(fits)
    with pytest.raises(ShapeError, match=f"related.v1: the extents of x0 needs .* {relation}"):
        tnf.compile(lambda x: apply(Related(relation), x), TensorSpec(unfit, "float64"))


@pytest.mark.parametrize("relation", RELATIONS)
def test_symbols_are_compared_when_the_program_runs(relation: str) -> None:
    fits, unfit, guard = RELATIONS[relation]
    program = related(relation)
    assert program.run(np.ones(fits)) == np.prod(fits)
    with pytest.raises(GuardError, match=r"test_requirements\.py") as caught:
        program.run(np.ones(unfit))
    message = f"related.v1: the extents of x0 needs {guard}, got {unfit[0]} and {unfit[1]}"
    assert message in str(caught.value)


@pytest.mark.parametrize("relation", RELATIONS)
def test_requirements_travel_in_files_and_artifacts(relation: str, tmp_path: Path) -> None:
    fits, unfit, guard = RELATIONS[relation]
    program = related(relation)
    tnf.save(program, tmp_path / "program.tnf")
    exported = xla_peer.export(program)
    for copy in (tnf.load(tmp_path / "program.tnf"), exported):
        assert copy.run(np.ones(fits)) == np.prod(fits)
        with pytest.raises(Exception, match=f"{guard}, got {unfit[0]} and {unfit[1]}"):
            copy.run(np.ones(unfit))


def test_gradients_keep_the_requirement() -> None:
    spec = TensorSpec(("n",), "float64")
    gradient = tnf.compile(tnf.grad(lambda x: tnf.sum(tnf.square(apply(Quarters(), x)))), spec)
    x = np.arange(8.0)
    np.testing.assert_array_equal(gradient.run(x), 2 * x)
    for extent in (0, 6):
        with pytest.raises(GuardError, match="the extent of x0"):
            gradient.run(np.ones(extent))


def test_what_arithmetic_decides_needs_no_guard() -> None:
    program = tnf.compile(
        lambda x: apply(Quarters(), tnf.concat([x, x, x, x, np.ones(4)])),
        TensorSpec(("n",), "float64"),
    )
    assert not program.guards
    assert program.run(np.ones(2)).shape == (4, 3)


def test_requirements_that_mean_nothing_are_refused() -> None:
    with pytest.raises(
        InvalidConfigError, match="relation must be one of ==, >=, divisible by, got '<'"
    ):
        require(1, "<", 2, "x")
    for entry in (None, "n", 3.0, True, (3,)):
        with pytest.raises(InvalidConfigError, match="extents must be integers, symbols"):
            require(4, "==", entry, "the extent of x0")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="needs 4 == 3"):
        require(np.int64(4), "==", np.int32(3), "the extent of x0")  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigError, match="call this in infer_output_meta"):
        require(tnf.SymDim("n"), "==", 2, "x")
    with pytest.raises(ShapeError, match="x needs 4 divisible by 0"):
        require(4, "divisible by", 0, "x")


def test_outputs_stay_below_declared_bounds() -> None:
    x = np.array([1.0, -1.0, 2.0])
    program = tnf.compile(lambda x: tnf.sum(apply(Repeated(1), x)), x)
    np.testing.assert_array_equal(apply(Repeated(1), x), [1.0, 2.0])
    assert program.run(x) == 3.0
    with pytest.raises(
        InvalidConfigError, match=r"is f64\[4\], infer_output_meta declares f64\[<=3\]"
    ):
        apply(Repeated(2), x)
