"""Random bits in compiled loops must be the interpreter's, and must be computed without calls of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm.link import is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")


@pytest.mark.parametrize("shape", [(), (3,), (2, 17)], ids=str)
def test_draws(shape: tuple[int, ...]) -> None:
    def walk(key: Any, x: Any) -> Any:
        def turn(c: Any, _: Any) -> Any:
            key, x = c
            keys = tnf.random.split(key, 3)
            step = tnf.random.normal(keys[1], shape)
            return (keys[0], x + step), (step, tnf.random.bits(keys[2], shape))

        return tnf.scan(turn, (key, x), None, length=20)

    key, x = tnf.random.key(7), np.zeros(shape)
    program = tnf.compile(walk, key, x)
    executor = tnf.GraphExecutor("K", compiled=True)
    text = executor.source(program, "llvm")
    assert "define i64 @f(" in text
    assert "define i64 @f(" in text
    (last_key, _), (steps, bits) = executor.run(program, key, x)
    interpreted = tnf.GraphExecutor("K", compiled=False).run(program, key, x)
    np.testing.assert_array_equal(last_key, interpreted[0][0])
    np.testing.assert_array_equal(bits, interpreted[1][1])
    np.testing.assert_allclose(steps, interpreted[1][0], rtol=1e-14)
