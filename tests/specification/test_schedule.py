"""Programs and schedules: passes, planning and execution."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors, passes
from tenferro.dims import Exact
from tenferro.extension import apply
from tenferro.program import GraphProgram
from tests.specification.operations import Scale, X, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "schedule",
    "Programs and schedules",
    "A traced function becomes a `GraphProgram`, which is compiled to an `ExecProgram` for the shapes of its arguments. "
    "The `ExecProgram`, or schedule, describes everything that a run does.",
)
WIDE = np.linspace(0.0, 1.0, 1 << 18).reshape(512, 512)


def schedule_of(function: Any, *arrays: Any, **options: Any) -> Any:
    program = tnf.compile(function, *arrays)
    return tnf.GraphExecutor(**options).compile(program, *arrays)


def names(program: Any) -> list[str]:
    return [step.op.name for step in program.instructions]


# ---- the schedule --------------------------------------------------------------------------------


@chapter.works(1, "Values and derivatives use one pipeline: both become programs, then schedules.")
def test_one_pipeline() -> None:
    loss = lambda x: tnf.sum(tnf.sin(x) * x)
    for function in (loss, tnf.grad(loss)):
        program = tnf.compile(function, X)
        assert isinstance(program, GraphProgram)
        assert schedule_of(function, X).instructions
    np.testing.assert_allclose(tnf.grad(loss)(X), np.cos(X) * X + np.sin(X), rtol=1e-15)


@chapter.works(
    2, "A schedule has instructions, input slots, output slots, and the number of slots."
)
def test_the_schedule() -> None:
    schedule = schedule_of(lambda x, y: (x + y, x * y), X, X)
    assert len(schedule.instructions) == 2
    assert len(schedule.input_slots) == len(schedule.output_slots) == 2
    used = {
        slot for step in schedule.instructions for slot in (*step.input_slots, *step.output_slots)
    }
    assert used == set(range(schedule.n_slots))


@chapter.works(3, "Every slot is written once.")
def test_ssa() -> None:
    loss = lambda x: tnf.sum(tnf.tanh(x @ x.T) * tnf.sin(x @ x.T))
    schedule = schedule_of(tnf.grad(loss), np.ones((3, 3)), order="K")
    written = [slot for step in schedule.instructions for slot in step.output_slots]
    assert len(set(written)) == len(written)
    assert not set(written) & {*schedule.input_slots, *schedule.constants}


@chapter.works(4, "An instruction has one dtype and one shape per output, which may differ.")
def test_output_metadata() -> None:
    op = operation(
        "two",
        output_count=2,
        infer_output_meta=lambda self, d, s: [("int32", ()), (d[0], s[0])],
        eager_execute=lambda self, inputs: [np.int32(1), inputs[0] + 1],
    )
    step = schedule_of(lambda x: apply(op, x), X).instructions[0]
    assert [spec.dtype for spec in step.output_types] == [tnf.DType.I32, tnf.DType.F64]
    assert step.output_shapes == ((), (3,))


@chapter.works(5, "An instruction's dtype is that of its first output.")
def test_representative_dtype() -> None:
    step = schedule_of(lambda x: tnf.argmax(x), X).instructions[0]
    assert step.dtype is step.output_types[0].dtype is tnf.DType.I64


@chapter.works(6, "An instruction has one vector of extents per output.")
def test_output_extents() -> None:
    step = schedule_of(tnf.exp, np.ones((2, 3))).instructions[0]
    assert step.output_extents == ((Exact(2), Exact(3)),)


@chapter.works(7, "`last_use` lists the operands that an instruction uses last, each of them once.")
def test_last_use() -> None:
    schedule = schedule_of(lambda x: tnf.exp(x) + tnf.sin(tnf.exp(x)), X, order="K")
    deaths = [
        slot
        for step in schedule.instructions
        for slot, last in zip(step.input_slots, step.last_use, strict=True)
        if last
    ]
    made = {slot for step in schedule.instructions for slot in step.output_slots}
    assert len(set(deaths)) == len(deaths)
    assert set(deaths) >= made - set(schedule.output_slots)


@chapter.works(8, "A program has no instruction whose result is unused.")
def test_dead_code() -> None:
    assert names(tnf.compile(lambda x: (tnf.exp(x), x + 1)[1], X))[-1] == "Add"
    assert "Exp" not in names(tnf.compile(lambda x: (tnf.exp(x), x + 1)[1], X))


@chapter.works(9, "Equal subexpressions are merged into one instruction.")
def test_common_subexpressions() -> None:
    assert names(tnf.compile(lambda x: tnf.sin(x) * tnf.sin(x), X)) == ["Sin", "Multiply"]


@chapter.differs(
    10,
    "Programs and schedules contain the same ops: there is no second vocabulary for execution.",
    because="an op has one definition, one name and one meaning wherever it is printed",
)
def test_one_vocabulary() -> None:
    program = tnf.compile(lambda x: tnf.exp(x).T, np.ones((2, 3)))
    schedule = tnf.GraphExecutor("K").compile(program, np.ones((2, 3)))
    assert [type(s.op) for s in schedule.instructions][:2] == [
        type(i.op) for i in program.instructions
    ]


@chapter.differs(
    11,
    "The shapes of a schedule are integers: a program with symbols has one schedule per shape.",
    because="memory and tiles are assigned once, and not at each call",
)
def test_schedules_are_concrete() -> None:
    executor = tnf.GraphExecutor()
    program = tnf.compile(tnf.exp, tnf.TensorSpec(("n",), "float64"))
    for extent in (2, 3):
        executor.run(program, np.ones(extent))
        assert executor.compile(program, np.ones(extent)).input_types[0].shape == (extent,)
    assert executor.cache_stats().entries == 2


@chapter.works(12, "A program names no device: the same program runs natively and on XLA.")
def test_placement() -> None:
    program = tnf.compile(lambda x: tnf.sin(x) + 1, X)
    np.testing.assert_allclose(
        xla_peer.XlaExecutor("cpu").run(program, X), program.run(X), rtol=1e-15
    )


@chapter.works(13, "A printed schedule shows every kernel, buffer, copy and tile.")
def test_printing() -> None:
    text = str(schedule_of(lambda x: (tnf.exp(x) + 1.0).T @ x, WIDE))
    for part in ("Fused", "DotGeneral", "into", "%0"):
        assert part in text
    text = str(schedule_of(tnf.linalg.qr, np.ones((3, 2))))
    assert "\n%1: f64[3,2], %2: f64[2,2] = Extension(Qr(" in f"\n{text}"


@chapter.works(14, "A program cannot be changed.")
def test_frozen() -> None:
    program = tnf.compile(tnf.exp, X)
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.instructions = ()  # type: ignore[misc]  # must raise
    assert isinstance(program.instructions, tuple)


# ---- passes --------------------------------------------------------------------------------------


@chapter.works(
    15, "Passes are pure functions from program to program, in a tuple that can be replaced."
)
def test_passes() -> None:
    program = tnf.compile(lambda x: (x.T).T, np.ones((2, 3)))
    text = str(program)
    for one in passes.NATIVE_PASSES:
        assert isinstance(one(program), GraphProgram)
    assert str(program) == text
    untouched = tnf.GraphExecutor(passes=(), order="K")
    np.testing.assert_array_equal(untouched.run(program, np.ones((2, 3))), np.ones((2, 3)))


@chapter.differs(
    16,
    "Passes run on the program, before kernels are chosen.",
    because="each pass is tested alone: the program must compute the same values before and after",
)
def test_passes_run_on_programs() -> None:
    seen = []

    def noting(program: GraphProgram) -> GraphProgram:
        seen.append(program)
        return program

    tnf.GraphExecutor(passes=[noting]).run(tnf.compile(tnf.exp, X), X)
    assert [type(program) for program in seen] == [GraphProgram]


A, B = np.arange(24.0).reshape(2, 3, 4), np.arange(40.0).reshape(2, 4, 5)


@chapter.table(
    "one, function, arrays",
    {
        17: Row("Sorting the axes of contractions does not change their results.", passes.sort_dot_dimensions, lambda a, b: tnf.einsum("bij,bjk->kbi", a, b), (A, B)),
        18: Row("Folding transposes into contractions does not change their results, even if extents are unequal.", passes.fold_transposes, lambda a, b: tnf.permute_dims(a, (0, 2, 1)) @ tnf.permute_dims(b, (0, 2, 1))[:, :3, :], (A, np.arange(30.0).reshape(2, 5, 3))),
        19: Row("Decomposing contractions into batched products does not change their results.", passes.decompose_dots, lambda a, b: tnf.einsum("bij,bjk->bik", a, b), (A, B)),
        20: Row("Removing redundant instructions does not change results.", passes.clean_up, lambda a, b: (a.T.T * 1.0) @ b, (A, B)),
    },
)  # fmt: skip
def test_laws(one: Any, function: Any, arrays: Any) -> None:
    program = tnf.compile(function, *arrays)
    after = one(program)
    assert after.output_specs == program.output_specs
    plain = tnf.GraphExecutor(passes=())
    np.testing.assert_array_equal(plain.run(after, *arrays), plain.run(program, *arrays))


@chapter.works(21, "A transpose before a contraction is folded into it.")
def test_folding() -> None:
    program = tnf.compile(lambda a, b: a.T @ b, np.ones((4, 2)), np.ones((4, 3)))
    assert names(program) == ["Transpose", "DotGeneral"]
    assert names(passes.fold_transposes(program)) == ["DotGeneral"]


@chapter.differs(
    22,
    "The pass `decompose_dots` exists, but the native path does not run it.",
    because="the NumPy kernel uses strides and merges axes without copies",
)
def test_decomposition_is_left_out() -> None:
    assert passes.decompose_dots not in passes.NATIVE_PASSES


# ---- execution -----------------------------------------------------------------------------------


@chapter.works(
    23, "Neighbouring elementwise instructions are fused into groups that run tile by tile."
)
def test_fusion() -> None:
    schedule = schedule_of(lambda x: tnf.exp(x) * 2.0 + x, WIDE)
    assert names(schedule)[0] == "Fused(Exp, Multiply, Add)"


@chapter.works(24, "A fused group contains no contraction.")
def test_boundaries() -> None:
    schedule = schedule_of(lambda x: tnf.exp((tnf.exp(x) + 1.0) @ x) + 1.0, WIDE)
    assert "DotGeneral" in names(schedule)
    assert not [name for name in names(schedule) if "Fused" in name and "DotGeneral" in name]


@chapter.works(25, "Fused and step-by-step execution give the same values.")
def test_segmented_and_not() -> None:
    program = tnf.compile(lambda x: tnf.exp(x) * 2.0 + x / 3.0, WIDE)
    segmented = tnf.GraphExecutor(compiled=False).run(program, WIDE)
    single = tnf.GraphExecutor(segmented=False, compiled=False).run(program, WIDE)
    np.testing.assert_array_equal(segmented, single)


@chapter.works(26, "The number of threads does not change results.")
def test_threads() -> None:
    program = tnf.compile(lambda x: tnf.sum(tnf.exp(x) * x, axis=1), WIDE)
    one, many = (tnf.GraphExecutor(threads=n).run(program, WIDE) for n in (1, 4))
    np.testing.assert_array_equal(one, many)


@chapter.works(27, "Memory is reused after the last use of its value.")
def test_memory() -> None:
    plan = tnf.GraphExecutor().memory_plan(tnf.compile(lambda x: ((x @ x) @ x) @ x, WIDE), WIDE)
    assert plan.size <= 2 * WIDE.nbytes


@chapter.works(28, "A result shares memory with no argument, constant or other result.")
def test_results() -> None:
    program = tnf.compile(lambda x: (x, x.T, x[:1], x), np.ones((2, 3)))
    x = np.ones((2, 3))
    results = program.run(x)
    for index, y in enumerate(results):
        assert not np.may_share_memory(x, y)
        assert not any(np.may_share_memory(y, z) for z in results[index + 1 :])


@chapter.works(
    29,
    "A graph of many thousands of instructions is traced, differentiated and run without recursion.",
)
def test_depth() -> None:
    def deep(x: Any) -> Any:
        for _ in range(3000):
            x = tnf.sin(x)
        return tnf.sum(x)

    expected = 1.0
    y = 0.5
    for _ in range(3000):
        expected, y = expected * np.cos(y), np.sin(y)
    np.testing.assert_allclose(
        tnf.compile(tnf.grad(deep), np.float64(0.5)).run(0.5), expected, rtol=1e-10
    )


# ---- host ops ------------------------------------------------------------------------------------


@chapter.works(30, "`ShapeOf` returns an extent as a tensor, also if the extent is a symbol.")
def test_shape_of() -> None:
    program = tnf.compile(lambda x: tnf.shape_of(x, 0), tnf.TensorSpec(("n", 3), "float64"))
    assert program.run(np.ones((5, 3))) == 5


@chapter.works(31, "`DynamicTruncate` truncates an axis to an extent that depends on data.")
def test_dynamic_truncate() -> None:
    program = tnf.compile(
        lambda x: tnf.dynamic_truncate(x, tnf.sum(tnf.astype(x > 1.5, "int64")), axis=0), X
    )
    np.testing.assert_array_equal(program.run(X), X[:2])


@chapter.works(32, "`PadToMatch` pads with zeros to the extents of another tensor.")
def test_pad_to_match() -> None:
    program = tnf.compile(lambda x, y: tnf.pad_to_match(x, y, axis=0), X, np.ones(5))
    np.testing.assert_array_equal(program.run(X, np.ones(5)), [1, 2, 3, 0, 0])


@chapter.works(33, "Gradients pass through a truncation to a rank that depends on data.")
def test_gradient_of_truncation() -> None:
    def loss(x: Any) -> Any:
        return tnf.sum(tnf.dynamic_truncate(x, tnf.sum(tnf.astype(x > 1.5, "int64")), axis=0) ** 2)

    np.testing.assert_array_equal(tnf.grad(loss)(X), [2.0, 4.0, 0.0])


@chapter.works(
    34,
    "An argument of another shape or dtype than the program expects is an error; it is not cast.",
)
def test_arguments() -> None:
    program = tnf.compile(tnf.exp, X)
    with pytest.raises(errors.ShapeError):
        program.run(np.ones(4))
    with pytest.raises(errors.DTypeError):
        program.run(X.astype("f4"))


@chapter.works(
    36, "If some outputs of an op are unused, its `prune_outputs` returns the op that runs instead."
)
def test_smaller_forms() -> None:
    schedule = schedule_of(lambda a: tnf.linalg.svd(a).S, WIDE[:4, :3])
    (op,) = [step.op.op for step in schedule.instructions if step.op.name == "tenferro.svd.v1"]
    assert (op.vectors, op.output_count) == (False, 1)
    pair = operation(
        "pair",
        output_count=2,
        infer_output_meta=lambda self, dtypes, shapes: [(dtypes[0], shapes[0])] * 2,
        prune_outputs=lambda self, used: Scale(),
    )
    with pytest.raises(errors.InvalidConfigError, match="prune_outputs gives"):
        tnf.jit(lambda x: apply(pair, x)[0])(X)


@chapter.works(35, "An extension is never part of a fused group.")
def test_extensions_are_no_part() -> None:
    names_of_steps = names(schedule_of(lambda x: tnf.exp(apply(Scale(), tnf.exp(x) + 1)) + 1, WIDE))
    assert Scale.family_id in names_of_steps
    assert not [name for name in names_of_steps if "Fused" in name and "scale" in name]
