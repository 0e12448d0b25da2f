"""Values in the middle of compiled code are arguments of its function, so that LLVM knows that they lie apart."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

llvm = pytest.importorskip("llvmlite.binding")
from tenferro.exec.attempts import NotCompiledError  # noqa: E402
from tenferro.exec.llvm.code import Code  # noqa: E402
from tenferro.exec.llvm.link import Linker, module_of  # noqa: E402  because of what it needs
from tenferro.exec.llvm.tensor import Body, Tensor, same_place  # noqa: E402
from tenferro.types import DType, TensorSpec  # noqa: E402

RNG = np.random.default_rng(5)
SCORES = RNG.standard_normal((8, 20, 20))
WEIGHTS = RNG.standard_normal((20, 20))


def softmaxes(scores: Any, weights: Any) -> Any:
    return tnf.fori_loop(0, 5, lambda _, s: tnf.nn.softmax(s + weights, axis=-1), scores)


def test_exponentials_between_values_go_along_lanes() -> None:
    executor = tnf.GraphExecutor("K", compiled=True)
    program = tnf.compile(softmaxes, SCORES, WEIGHTS)
    text = executor.source(program, "llvm")
    head = re.search(r"define internal i64 @loop\((.*?)\)", text)
    assert head is not None
    assert len(re.findall(r"ptr noalias %at\d+", head[1])) >= 4
    executor.run(program, SCORES, WEIGHTS)  # which initialises LLVM
    processor = Linker().processor
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=3, cpu=processor.name, features=processor.features)
    optimised = str(module_of(text[text.index("\n") + 1 :], machine))
    multiply_adds = re.findall(r"call .*@llvm\.fma\.(v\df64|f64)", optimised)
    if processor.multiplies_and_adds:
        assert multiply_adds
        assert "f64" not in multiply_adds


@pytest.mark.parametrize("threads", [1, 3])
def test_groups_have_areas_of_scratch_too(threads: int) -> None:
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
def test_memory_of_few_elements_is_the_functions_own(text: str, cell: str, size: int) -> None:
    """Other areas lie behind each other in scratch, each at a multiple of 64 bytes."""
    body = Body(Code())
    body.scratch_bytes = 640
    spec = TensorSpec.parse(text)
    memory = body.memory(spec)
    assert memory.spec == spec
    assert memory in body.writable
    assert body.scratch_bytes == 640 + size
    if cell:
        assert body.code.entry == [f"  {memory.pointer} = alloca {cell}, align 64"]
        assert memory.pointer not in body.code.areas
    else:
        assert body.code.entry == []
        assert body.code.areas == {memory.pointer: 640}


def test_scratch_has_an_end() -> None:
    body = Body(Code())
    body.memory(TensorSpec.of((1 << 26,), DType.I8))
    with pytest.raises(
        NotCompiledError, match="values in the middle take more than 67108864 bytes"
    ):
        body.memory(TensorSpec.of((33,), DType.I8))


def test_a_result_goes_where_it_is_looked_for_if_that_fits() -> None:
    """Once, and what is not of its type goes elsewhere."""
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


def test_memory_is_taken_over_by_what_lies_in_it() -> None:
    """Everything else is copied."""
    body = Body(Code())
    memory, other = (body.memory(TensorSpec.parse("f64[40]")) for _ in range(2))
    x = body.stored(memory)
    body.taken = memory
    assert body.taken_over(x) is memory
    assert body.taken is None
    assert body.taken_over(x) not in (memory, other)
    body.taken = other
    assert body.taken_over(x) not in (memory, other)
    assert body.taken is None


def test_values_know_what_they_read() -> None:
    """And what they may be written over: memory that is read at an element's own place alone."""
    body = Body(Code())
    spec = TensorSpec.parse("f64[40]")
    memories = [body.memory(spec) for _ in range(3)]
    a, b, c = (body.stored(memory) for memory in memories)
    turned = Tensor(spec, lambda index: body.at(c, index), c.reads)
    both = same_place(spec, lambda index: body.at(a, index), [a, b])
    assert (both.reads, both.aligned, both.is_flat) == (a.reads | b.reads, a.reads | b.reads, True)
    assert both.memory is None
    assert not both.is_cheap
    mixed = same_place(spec, lambda index: body.at(a, index), [both, turned, c])
    assert mixed.reads == a.reads | b.reads | c.reads
    assert mixed.aligned == a.reads | b.reads
    assert not mixed.is_flat
    row = body.number(TensorSpec.parse("f64[]"), "0.0")
    assert not same_place(spec, lambda index: "0.0", [a, row]).is_flat
    assert (row.reads, row.is_cheap, row.is_flat, row.memory) == (frozenset(), True, True, None)
    assert body.dense(a) is memories[0]
    assert body.settled(a) is a
    assert body.dense(both) not in memories
    assert body.settled(both).memory not in memories
    assert body.settled(same_place(row.spec, lambda index: "0.0", [row])).memory is None
