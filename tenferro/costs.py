"""Estimated costs of native execution, which planning and passes compare.

The unit is a call: the time of a step that calls `np.add` on small arrays. It is 0.17 to 0.4 microseconds, depending on
the processor. The docstring of a measured constant ends with the command that measures the constant. Thresholds are
computed from the constants. `python benchmarks/costs.py` prints all constants beside measured values.

The last bits of results may depend on what is fused or compiled. The same program must return the same bits in each
run, so no constant is measured at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, prod
from typing import Any, NamedTuple, TypeAlias

from tenferro.ops import ALL_OPS, Column
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import control as cf
from tenferro.ops import dynamic as dy
from tenferro.ops import elementwise as el
from tenferro.ops import extension as ex
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import source as so
from tenferro.ops import structural as st
from tenferro.types import TensorSpec

__all__ = ["COSTS", "Cost", "estimated_calls", "estimated_cost", "multiplications"]

Types: TypeAlias = Sequence[TensorSpec]

# ---- rates: work that takes as long as one call --------------------------------------------------------

ELEMENTS = 1000.0
"""Number of elements that NumPy adds in the time of a call, if the arrays exceed the second-level cache.
`python benchmarks/costs.py ELEMENTS`."""
FUNCTION_ELEMENTS = 60.0
"""Number of elements that NumPy computes in the time of a call, as the geometric mean over all analytic functions.
`python benchmarks/costs.py FUNCTION_ELEMENTS`."""
MULTIPLICATIONS = 3000.0
"""Number of multiplications of a matrix product in the time of a call, on one thread.
`python benchmarks/costs.py MULTIPLICATIONS`."""

# ---- times in calls -------------------------------------------------------------------------------

WAKE = 120.0
"""Time to wake a thread and to wait for its result. `python benchmarks/costs.py WAKE`."""
BLOCK_CALL, BLOCK_RESULT = 4.0, 1.0
"""Time to call a compiled block without results, and time for each result.
`python benchmarks/costs.py BLOCK_CALL BLOCK_RESULT`."""
LOOP_COMPILATION = 40_000.0
"""Time to compile a small loop, without waiting for LLVM's passes. `python benchmarks/costs.py LOOP_COMPILATION`."""
BLOCK_COMPILATION = 20_000.0
"""Time to compile a small block, without LLVM's passes. `python benchmarks/costs.py BLOCK_COMPILATION`."""
GROUP_COMPILATION = 40_000.0
"""Time to compile a fused group. `python benchmarks/costs.py GROUP_COMPILATION`."""
COMPILED = 0.25
"""Time of a compiled fused group, relative to the time of the same ops in NumPy.
`python benchmarks/costs.py COMPILED`."""

# ---- memory ---------------------------------------------------------------------------------------

CACHE_LINE = 64
"""Size of a cache line in bytes. `getconf LEVEL1_DCACHE_LINESIZE`."""
CACHE = 1 << 19
"""Size in bytes of the smallest usual second-level cache. `getconf LEVEL2_CACHE_SIZE` prints that of this machine."""
FRESH = 1 << 17
"""Size in bytes of an allocation from which malloc maps new pages: M_MMAP_THRESHOLD in `man mallopt`."""

SERIAL_BLAS = 1 << 18, 9216
"""Number of multiplications up to which OpenBLAS wakes no thread, according to its source code.

The first number is for a product of two matrices, and the second is for a product of a matrix and a vector.
"""

# ---- assumptions ----------------------------------------------------------------------------------

RUNS = 300
"""Number of runs after which a compilation must have saved the time that it took."""
JIT_RUNS = 4000
"""Number of runs that pay for compiling a block of a jitted function. The caller of `jit` asked for compiled code."""
WHILE_ITERATIONS = 16
"""Number of iterations of a loop whose trip count is unknown."""

# ---- thresholds -----------------------------------------------------------------------------------

MIN_PARALLEL_COST = 4 * WAKE
"""Minimum serial time of work that is divided among threads, in units of a call.

Two threads save half of this time, which is twice the time to wake a thread.
"""
MIN_COMPILED_COST = GROUP_COMPILATION / (RUNS * (1 - COMPILED))
"""Minimum interpreted time of a fused group for the group to be compiled, in units of a call."""
MIN_COMPILED_LOOP_COST = LOOP_COMPILATION / RUNS
"""Minimum interpreted time of a loop for the loop to be compiled, in units of a call."""
MIN_BLOCK_GAIN, MIN_JIT_BLOCK_GAIN = BLOCK_COMPILATION / RUNS, BLOCK_COMPILATION / JIT_RUNS
"""Minimum time that a compiled block must save in each run, in units of a call.

The first number is for an ordinary program, and the second is for a jitted function.
"""
SMALL = CACHE // 8
"""Number of float64 elements that fit into the second-level cache. A value with at most this number is small."""


class Cost(NamedTuple):
    """Time of an op that the interpreter runs step by step.

    Attributes:
        calls: the fixed time, in units of a call. For a loop it is per iteration, and for an extension per matrix.
        elements: the number of elements that the op processes in the time of a call.
        tiled: the size from which a single reduction is faster in tiles on threads than in NumPy, in units of
            `plan.group.MIN_REDUCED_BYTES`.
        multiplications: a function of the op and the types of its operands and results. It returns the number of
            multiplications.
    """

    calls: float = 1.0
    elements: float = ELEMENTS
    tiled: float = inf
    multiplications: Callable[[Any, Types, Types], int] | None = None


def _of_matrices(op: Any, operands: Types, results: Types) -> int:
    return max([spec.size * (spec.shape[-1] if spec.shape else 1) for spec in operands], default=0)


def _of_products(op: Any, operands: Types, results: Types) -> int:
    return results[0].size * prod([operands[0].shape[axis] for axis in op.lhs_contracting])


def _of_windows(op: Any, operands: Types, results: Types) -> int:
    return results[0].size * operands[1].size


STEP, VIEW = Cost(), Cost(0.5, inf)
"""Costs of an elementwise op and of a view."""

COSTS: Column[Cost] = Column(
    "cost",
    "tenferro/costs.py",
    ALL_OPS,
    dict.fromkeys(so.CARDS, Cost()),
    dict.fromkeys(el.CARDS, Cost()),
    dict.fromkeys(an.CARDS, Cost(1.0, FUNCTION_ELEMENTS)),
    dict.fromkeys((re.ReduceSum, re.ReduceProd), Cost(3.0, tiled=1.0)),
    dict.fromkeys((re.ReduceMax, re.ReduceMin), Cost(3.0, tiled=2.0)),
    dict.fromkeys((re.ReduceAnd, re.ReduceOr), Cost(3.0)),  # because NumPy stops early
    dict.fromkeys((re.ArgMax, re.ArgMin, re.CumSum, re.CumProd, re.CumMax, re.CumMin), Cost(3.0)),
    dict.fromkeys(dy.CARDS, Cost(4.0)),
    dict.fromkeys(cf.CARDS, Cost(3.0, inf)),
    {
        st.Transpose: VIEW,
        st.Reshape: VIEW,
        st.BroadcastInDim: Cost(2.0, inf),
        st.Slice: VIEW,
        st.Pad: Cost(3.0),
        st.Concatenate: Cost(3.0),
        st.Reverse: Cost(6.0),
        st.ExtractDiag: Cost(2.0),
        st.EmbedDiag: Cost(36.0),
        st.Tril: Cost(5.0),
        st.Triu: Cost(5.0),
        st.OptimizationBarrier: VIEW,
        co.DotGeneral: Cost(4.0, multiplications=_of_products),
        co.Convolution: Cost(800.0, multiplications=_of_windows),
        ix.Gather: Cost(12.0),
        ix.GatherDynamicSliceSizes: Cost(100.0),
        ix.Scatter: Cost(100.0),
        ix.DynamicSlice: Cost(10.0),
        ix.DynamicUpdateSlice: Cost(10.0),
        re.Sort: Cost(12.0),
        re.TopK: Cost(36.0),
        ex.Extension: Cost(120.0, multiplications=_of_matrices),
    },
)
"""Cost of each op. `python benchmarks/costs.py calls` measures the ops that take more than one call."""


def estimated_cost(op: Any, operands: Types, results: Types) -> float:
    """Return the estimated time of an op in the interpreter on one thread, in units of a call.

    The number of elements is that of the largest operand or result. The time of a loop includes all iterations.
    """
    cost = 0.0
    for each, times, types in _steps(op, operands, results):
        cell = COSTS.cell(each, STEP)
        elements = max([spec.size for spec in types if spec.is_static], default=0)
        cost += times * (cell.calls + elements / cell.elements)
    return cost


def estimated_calls(op: Any, operands: Types, results: Types) -> float:
    """Return the part of `estimated_cost` that does not depend on the number of elements.

    A compiled block saves this part.
    """
    return sum(
        [times * COSTS.cell(each, STEP).calls for each, times, _ in _steps(op, operands, results)]
    )


def multiplications(op: Any, operands: Types, results: Types) -> int:
    """Return the estimated number of multiplications of a product, convolution or factorisation.

    It is 0 for other ops.
    """
    cell = COSTS.cell(op, STEP)
    return 0 if cell.multiplications is None else cell.multiplications(op, operands, results)


def _steps(
    op: Any, operands: Types, results: Types
) -> Iterator[tuple[Any, float, Sequence[TensorSpec]]]:
    """Yield an op and the ops in its bodies, each with its number of runs and the types of its operands and results.

    The runs of a conditional are divided equally among its branches. Of several alternatives, the first runs.
    """
    left: list[tuple[Any, Sequence[TensorSpec], Sequence[TensorSpec], float]]
    left = [(op, operands, results, 1.0)]
    while left:
        op, operands, results, times = left.pop()
        parts: Sequence[Any] = ()
        if isinstance(op, cf.ControlOp):
            parts = op.parts[:1] if isinstance(op, cf.Alternatives) else op.parts
            if isinstance(op, cf.Scan | cf.While):
                times *= op.length if isinstance(op.length, int) else WHILE_ITERATIONS
        elif isinstance(op, ex.Extension):
            times *= prod(results[0].shape[:-2]) if results[0].is_static else 1
        yield op, times, (*operands, *results)
        share = times / len(parts) if isinstance(op, cf.Cond) else times
        for part in parts:
            types = part.program.types
            left += [
                (step.op, [types[x] for x in step.inputs], [types[y] for y in step.outputs], share)
                for step in part.program.instructions
            ]
