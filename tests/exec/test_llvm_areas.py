"""Values in the middle of compiled code are arguments of its function, so that LLVM knows that they lie apart."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tenferro as tnf

llvm = pytest.importorskip("llvmlite.binding")
from tenferro.exec.llvm.link import Linker, module_of  # noqa: E402  because of what it needs

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
