"""Compiled functions must get scratch memory for intermediate values as `noalias` arguments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

llvm = pytest.importorskip("llvmlite.binding")
from tenferro.exec.attempts import NotCompiledError  # noqa: E402
from tenferro.exec.llvm.code import Code  # noqa: E402
from tenferro.exec.llvm.link import Linker, optimised_module  # noqa: E402  # needs llvmlite
from tenferro.exec.llvm.tensor import Body, Tensor, elementwise_tensor  # noqa: E402
from tenferro.types import DType, TensorSpec  # noqa: E402

RNG = np.random.default_rng(5)
SCORES = RNG.standard_normal((8, 20, 20))
WEIGHTS = RNG.standard_normal((20, 20))


def softmaxes(scores: Any, weights: Any) -> Any:
    return tnf.fori_loop(0, 5, lambda _, s: tnf.nn.softmax(s + weights, axis=-1), scores)


def test_exponentials_of_scratch_memory_are_vectorised() -> None:
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(softmaxes, SCORES, WEIGHTS)
    text = executor.source(program, "llvm")
    head = re.search(r"define internal i64 @loop\((.*?)\)", text)
    assert head is not None
    assert len(re.findall(r"ptr noalias %at\d+", head[1])) >= 4
    executor.run(program, SCORES, WEIGHTS)  # the run also initialises LLVM
    processor = Linker().processor
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=3, cpu=processor.name, features=processor.features)
    (step,) = [x for x in executor.compile(program).instructions if hasattr(x.function, "module")]
    optimised = str(optimised_module(step.function.module, machine))
    multiply_adds = re.findall(r"call .*@llvm\.fma\.(v\df64|f64)", optimised)
    if processor.has_fma:
        assert multiply_adds
        assert "f64" not in multiply_adds


@pytest.mark.parametrize("threads", [1, 3])
def test_fused_groups_have_scratch_areas(threads: int) -> None:
    x = RNG.standard_normal((700, 300))

    def fn(x: Any) -> Any:
        y = x - tnf.mean(x, axis=1, keepdims=True)
        return y / tnf.sqrt(tnf.mean(y * y, axis=1, keepdims=True))

    program = tnf.compile(fn, x)
    executor = tnf.GraphExecutor("K", threads=threads, compiled=True)
    text = executor.source(program, "llvm")
    assert "define internal i64 @rows(" in text
    assert "%status = call i64 @rows(" in text
    y = x - x.mean(axis=1, keepdims=True)
    expected = y / np.sqrt((y * y).mean(axis=1, keepdims=True))
    for _ in range(3):
        np.testing.assert_allclose(executor.run(program, x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("text", "cell", "size"),
    [
        ("f64[]", "double, i64 1", 0),
        ("f64[0,3]", "double, i64 1", 0),
        ("f64[32]", "double, i64 32", 0),
        ("i8[4,8]", "i8, i64 32", 0),
        ("c128[16]", "double, i64 32", 0),
        ("bool[3]", "i8, i64 3", 0),
        ("f16[5]", "i16, i64 5", 0),
        ("f64[33]", "", 33 * 8 + 56),
        ("i8[33]", "", 64),
        ("c64[17]", "", 17 * 8 + 56),
        ("c128[4,5]", "", 20 * 16),
        ("i8[64]", "", 64),
        ("i8[65]", "", 128),
    ],
)
def test_small_values_are_on_the_stack(text: str, cell: str, size: int) -> None:
    """Small values must be on the stack, and large values in scratch memory that is aligned to 64 bytes."""
    body = Body(Code())
    body.scratch_bytes = 640
    spec = TensorSpec.parse(text)
    memory = body.memory(spec)
    assert memory.spec == spec
    assert memory in body.writable
    assert body.scratch_bytes == 640 + size
    if cell:
        assert [*map(str, body.code.entry)] == [f"  {memory.pointer} = alloca {cell}, align 64"]
        assert memory.pointer not in body.code.areas
    else:
        assert body.code.entry == []
        assert body.code.areas == {memory.pointer: 640}


def test_maximum_scratch_memory() -> None:
    body = Body(Code())
    body.memory(TensorSpec.of((1 << 26,), DType.I8))
    with pytest.raises(NotCompiledError, match="intermediate values take more than 67108864 bytes"):
        body.memory(TensorSpec.of((33,), DType.I8))


def test_results_are_written_to_their_destination() -> None:
    """A destination must be used for one result, and only if the result has its type."""
    body = Body(Code())
    spec = TensorSpec.parse("f64[3,4]")
    target = body.memory(spec)
    body.target = target
    assert body.result(spec) is target
    assert body.target is None
    assert body.result(spec) is not target
    for other in ("f64[4,3]", "i64[3,4]"):
        body.target = target
        assert body.result(TensorSpec.parse(other)) is not target
        assert body.target is None


def test_operands_are_updated_in_place() -> None:
    """An operand in the reusable memory may be updated in place once; any other operand must be copied."""
    body = Body(Code())
    memory, other = (body.memory(TensorSpec.parse("f64[40]")) for _ in range(2))
    x = body.stored(memory)
    body.reusable = memory
    assert body.reuse_or_copy(x) is memory
    assert body.reusable is None
    assert body.reuse_or_copy(x) not in (memory, other)
    body.reusable = other
    assert body.reuse_or_copy(x) not in (memory, other)
    assert body.reusable is None


def test_memory_that_values_read() -> None:
    """Memory must count as aligned with a value if the value's element i reads only the memory's element i."""
    body = Body(Code())
    spec = TensorSpec.parse("f64[40]")
    memories = [body.memory(spec) for _ in range(3)]
    a, b, c = (body.stored(memory) for memory in memories)
    reversed_ = Tensor(spec, lambda index: body.at(c, index), c.reads)
    both = elementwise_tensor(spec, lambda index: body.at(a, index), [a, b])
    assert (both.reads, both.aligned) == (a.reads | b.reads, a.reads | b.reads)
    assert both.memory is None
    assert not both.is_cheap
    mixed = elementwise_tensor(spec, lambda index: body.at(a, index), [both, reversed_, c])
    assert mixed.reads == a.reads | b.reads | c.reads
    assert mixed.aligned == a.reads | b.reads
    row = body.number(TensorSpec.parse("f64[]"), "0.0")
    assert (row.reads, row.is_cheap, row.memory) == (frozenset(), True, None)
    assert body.dense(a) is memories[0]
    assert body.materialised(a) is a
    assert body.dense(both) not in memories
    assert body.materialised(both).memory not in memories
    assert (
        body.materialised(elementwise_tensor(row.spec, lambda index: "0.0", [row])).memory is None
    )


def test_a_concatenation_is_written_to_the_carry() -> None:
    """Nothing reads the previous carry, so the next carry needs no scratch memory."""
    x, y = np.ones(40), np.ones(60)
    program = tnf.compile(
        lambda x, y: tnf.fori_loop(0, 50, lambda i, z: tnf.concatenate([x * i, y]), tnf.zeros(100)),
        x,
        y,
    )
    executor = tnf.GraphExecutor(compiled=True)
    text = executor.source(program, "llvm")
    assert "call i64 @loop(" in text
    assert "%at" not in text
    np.testing.assert_array_equal(executor.run(program, x, y), [49.0] * 40 + [1.0] * 60)
