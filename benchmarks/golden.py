"""Time of running a module that JAX lowered, natively, to compute reference values, compared with `jax.jit`.

python benchmarks/golden.py            prints the table
python benchmarks/golden.py --write    also writes it into docs/performance.md

Times are processor seconds of all threads. Native runs and runs of `jax.jit` alternate in one process. The
interpreter of StableHLO from jaxlib is measured, too. It gets smaller arguments and runs only once, because it takes
seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from interleaved import medians, show

import lowering
from lowering.mlir_bindings import canonical, evaluate

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECONDS = 6.0
HEAD = """| module | native, ms | `jax.jit`, ms | ratio | StableHLO's interpreter, on smaller arguments |
| --- | --- | --- | --- | --- |"""


class Case(NamedTuple):
    """A measured JAX function with its arguments.

    Attributes:
        smaller: smaller arguments for StableHLO's interpreter, which still takes seconds for them.
    """

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    smaller: Sequence[Any]


def cases() -> list[Case]:
    """Return the measured functions: a matrix product, a ResNet block, and attention."""
    import jax
    from jax import numpy as jnp

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype("f4")

    def convolved(x: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift

    def block(x: Any, w: Any, v: Any, scale: Any, shift: Any) -> Any:
        y = jax.nn.relu(normalised(convolved(x, w), scale, shift))
        return jax.nn.relu(normalised(convolved(y, v), scale, shift) + x)

    def attention(x: Any, query: Any, key: Any, value: Any, out: Any) -> Any:
        q, k, v = (jnp.einsum("bsd,dhe->bhse", x, w) for w in (query, key, value))
        scores = jnp.einsum("bhse,bhte->bhst", q, k) / np.float32(np.sqrt(q.shape[-1]))
        causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return jnp.einsum("bhse,hed->bsd", jnp.einsum("bhst,bhte->bhse", weights, v), out)

    def blocks(batch: int, extent: int, features: int) -> Sequence[Any]:
        filters = [normal(3, 3, features, features) / 24 for _ in range(2)]
        return normal(batch, extent, extent, features), *filters, normal(features), normal(features)

    def sequences(batch: int, length: int, features: int, heads: int) -> Sequence[Any]:
        each = features // heads
        inside = [normal(features, heads, each) / 16 for _ in range(3)]
        return normal(batch, length, features), *inside, normal(heads, each, features) / 16

    matrices = normal(128, 128), normal(128, 128)
    return [
        Case("product of 128 x 128", lambda a, b: a @ b, matrices, matrices),
        Case("ResNet block, 4 x 28 x 28 x 64", block, blocks(4, 28, 64), blocks(1, 8, 16)),
        Case("attention, 4 x 128 x 256, 8 heads", attention, sequences(4, 128, 256, 8), sequences(1, 32, 32, 4)),
    ]  # fmt: skip


def measured(case: Case, seconds: float = SECONDS) -> tuple[float, float]:
    """Return the processor seconds of a native run and of a run of `jax.jit`, after checking that the results agree."""
    import jax

    compiled = jax.jit(case.function)
    text = compiled.lower(*case.arguments).as_text()
    program = lowering.import_stablehlo(text)
    on_device = [jax.device_put(x) for x in case.arguments]
    np.testing.assert_allclose(program.run(*case.arguments), compiled(*on_device), 1e-2, 1e-3)
    times = medians(
        {
            "native": lambda: program.run(*case.arguments),
            "jit": lambda: compiled(*on_device).block_until_ready(),
        },
        seconds,
        time.process_time,
    )
    return times["native"], times["jit"]


def interpreted(case: Case) -> float:
    """Return the time of StableHLO's interpreter divided by the time of a native run, both on the smaller arguments."""
    import jax

    text = jax.jit(case.function).lower(*case.smaller).as_text()
    program = lowering.import_stablehlo(text)
    native = medians({"native": lambda: program.run(*case.smaller)}, 0.2, time.process_time)
    plain = canonical(text)  # because the interpreter does not support CHLO operations
    start = time.process_time()
    evaluate(plain, case.smaller)
    return (time.process_time() - start) / native["native"]


def row(case: Case, native: float, jit: float, interpreter: float) -> str:
    """Format the measurements of a case as a row of the table."""
    return f"| {case.name} | {1e3 * native:.3g} | {1e3 * jit:.3g} | {native / jit:.2f} | {interpreter:,.0f} times native |"


def main() -> None:
    """Measure all cases, and print the table."""
    lines = [row(case, *measured(case), interpreted(case)) for case in cases()]
    show("\n".join([HEAD, *lines]), PAGE, "golden")


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    main()
