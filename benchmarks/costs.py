"""Measure the constants of tenferro/costs.py, and print the measured values beside those in the file.

python benchmarks/costs.py                 measures all constants
python benchmarks/costs.py WAKE ELEMENTS   measures only these constants
python benchmarks/costs.py calls           measures the cost of each op, in NumPy calls
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from timeit import Timer
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # because the variable must be set before NumPy loads BLAS

import tenferro as tnf
from tenferro import costs
from tenferro.dispatch import apply_one
from tenferro.exec.runtime.threads import Workers
from tenferro.ops import analytic

RNG = np.random.default_rng(0)
SMALL, LARGE = RNG.uniform(0.1, 0.9, 8), RNG.uniform(0.1, 0.9, 1 << 18)
SQUARE, INDEX, NUMBER = RNG.uniform(0.1, 0.9, (4, 4)), np.arange(4), np.array(2)
IMAGE, WINDOW = np.ones((1, 2, 8, 8)), np.ones((2, 2, 3, 3))
NUMBERS = count(1)
"""Numbers from which each program gets a different constant.

If the text of two programs were equal, the second would not be compiled again.
"""


def seconds(function: Callable[[], Any], budget: float = 0.2) -> float:
    """Return the shortest measured time of one call, in seconds."""
    calls = max(1, int(budget / 10 / max(Timer(function).timeit(3) / 3, 1e-8)))
    return min(Timer(function).repeat(10, calls)) / calls


def run_of(
    function: Callable[..., Any], *arrays: Any, compiled: bool = False, threads: int = 1
) -> Callable[[], Any]:
    """Compile a function for these arguments, and return a function without parameters that runs it."""
    executor = tnf.GraphExecutor("K", threads=threads, compiled=compiled)
    program = tnf.compile(function, *arrays)
    executor.run(program, *arrays)
    return lambda: executor.run(program, *arrays)


def steps(number: int) -> Callable[[Any], Any]:
    """Return a function that makes `number` additions, each of the preceding result to itself."""

    def chain(x: Any) -> Any:
        for _ in range(number):
            x = x + x
        return x

    return chain


def difference(short: Callable[[], Any], long: Callable[[], Any], amount: int) -> float:
    """Return the time of one unit of work, in seconds.

    `long` does `amount` units of work more than `short`.
    """
    return (seconds(long) - seconds(short)) / amount


CALL = difference(run_of(steps(50), SMALL), run_of(steps(250), SMALL), 200)
"""Time of one interpreted NumPy call, in seconds. The other measurements are multiples of it."""


def elements(function: Callable[[], Any], x: Any = LARGE) -> float:
    """Return the number of elements that `function` processes in the time of one NumPy call; `x` is its argument."""
    return CALL * x.size / seconds(function)


def function_elements() -> float:
    """Return the geometric mean, over all analytic functions of one operand, of the elements per NumPy call."""
    x = LARGE[: 1 << 15]
    cards = [card for card in analytic.CARDS if card.input_count == 1]
    counts = [elements(run_of(lambda x, op=op: apply_one(op, x), x), x) for op in map(an_op, cards)]
    return float(np.exp(np.mean(np.log(counts))))


def an_op(card: Any) -> Any:
    """Return an instance of an op class; `Polygamma` needs an order, here 1."""
    return card(1) if card is analytic.Polygamma else card()


def wake() -> float:
    """Return the time to split empty work between two threads, in NumPy calls."""
    workers = Workers(2)
    return seconds(lambda: workers.parallel_for(lambda start, stop: None, 2)) / CALL


def block_call(results: int = 1) -> float:
    """Return the cost of calling a compiled block that has `results` results, in NumPy calls."""
    sums = lambda x: tuple([x + float(number) for number in range(1, 1 + results)])
    function = steps(2) if results == 1 else sums
    count = 2 if results == 1 else results
    blocks = settled(run_of(function, SMALL, compiled=True))
    return (seconds(blocks) - seconds(run_of(function, SMALL))) / CALL + count


def chain(factor: float) -> Callable[[Any], Any]:
    """Return a function of ten products and ten sums. `factor` is a constant in its program."""

    def function(x: Any) -> Any:
        for _ in range(10):
            x = x * factor + x
        return x

    return function


def loop(factor: float) -> Callable[[Any], Any]:
    """Return a function that scans for a hundred iterations. `factor` is a constant in the loop's body."""
    body = lambda c, _: (c * factor + c, None)
    return lambda x: tnf.scan(body, x, None, length=100)[0]


def compilation(make: Callable[[float], Callable[..., Any]], *arrays: Any) -> float:
    """Return the time that compiling adds to a program's first run, compared with interpretation, in NumPy calls."""

    def first(compiled: bool) -> float:
        times: list[float] = []
        for _ in range(5):
            executor = tnf.GraphExecutor("K", compiled=compiled, cache_dir="", threads=1)
            program = tnf.compile(make(1 + next(NUMBERS) / 1e6), *arrays)
            start = time.perf_counter()
            executor.run(program, *arrays)
            times.append(time.perf_counter() - start)
        return min(times)

    return (first(True) - first(False)) / CALL


def settled(function: Callable[[], Any]) -> Callable[[], Any]:
    """Call the function for a second, and return it.

    In this time, LLVM finishes optimising the function's code.
    """
    stop = time.perf_counter() + 1.0
    while time.perf_counter() < stop:
        function()
    return function


def ratio(function: Callable[..., Any], *arrays: Any) -> float:
    """Return the time of a compiled run of the function divided by the time of an interpreted run."""
    compiled = settled(run_of(function, *arrays, compiled=True))
    return seconds(compiled) / seconds(run_of(function, *arrays))


MATRIX, OUT = RNG.normal(size=(128, 128)), np.empty_like(LARGE)
MEASURED: dict[str, Callable[[], float]] = {
    "ELEMENTS": lambda: elements(lambda: np.add(LARGE, LARGE, out=OUT)),
    "FUNCTION_ELEMENTS": function_elements,
    "MULTIPLICATIONS": lambda: CALL * MATRIX.size * len(MATRIX) / seconds(lambda: MATRIX @ MATRIX),
    "WAKE": wake,
    "BLOCK_CALL": block_call,
    "BLOCK_RESULT": lambda: (block_call(18) - block_call(2)) / 16,
    "LOOP_COMPILATION": lambda: compilation(loop, SMALL),
    "BLOCK_COMPILATION": lambda: compilation(chain, SMALL),
    "GROUP_COMPILATION": lambda: compilation(chain, LARGE),
    "COMPILED": lambda: ratio(chain(1.5), LARGE),
}

OPS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "Add": (lambda x: x + x, [SMALL]),
    "ReduceSum": (tnf.sum, [SMALL]),
    "Sort": (tnf.sort, [SMALL]),
    "TopK": (lambda x: tnf.top_k(x, 4), [SMALL]),
    "Transpose": (tnf.transpose, [SQUARE]),
    "Reshape": (lambda x: tnf.reshape(x, (2, 8)), [SQUARE]),
    "BroadcastInDim": (lambda x: tnf.broadcast_to(x, (3, 8)), [SMALL]),
    "Slice": (lambda x: x[1:3], [SMALL]),
    "Pad": (lambda x: tnf.pad(x, 2), [SMALL]),
    "Concatenate": (lambda x: tnf.concatenate([x, x]), [SMALL]),
    "Reverse": (tnf.flip, [SMALL]),
    "ExtractDiag": (tnf.diagonal, [SQUARE]),
    "EmbedDiag": (tnf.diag, [SMALL]),
    "Tril": (tnf.tril, [SQUARE]),
    "Gather": (lambda x, i: x[i], [SMALL, INDEX]),
    "Scatter": (lambda x, i: x.at[i].add(x[:4]), [SMALL, INDEX]),
    "DynamicSlice": (lambda x, i: tnf.lax.dynamic_slice(x, [i], (3,)), [SMALL, NUMBER]),
    "DynamicUpdateSlice": (
        lambda x, i: tnf.lax.dynamic_update_slice(x, x[:3], [i]),
        [SMALL, NUMBER],
    ),
    "DotGeneral": (lambda x: x @ x, [SQUARE]),
    "Convolution": (lambda x, w: tnf.lax.conv(x, w, (1, 1), "VALID"), [IMAGE, WINDOW]),
    "Extension": (tnf.linalg.cholesky, [SQUARE @ SQUARE.T + np.eye(4)]),
}
"""Function and arguments for each op. The function's program has exactly one instruction of the op."""


def calls(name: str) -> float:
    """Return the time of an op on a few elements, in NumPy calls, by timing its step of the schedule alone."""
    function, arrays = OPS[name]
    executor = tnf.GraphExecutor("K", compiled=False, threads=1)
    schedule = executor.compile(tnf.compile(function, *arrays))
    (step,) = [each for each in schedule.instructions if type(each.op).__name__ == name]
    # The operands are arrays of ones. The time of the step does not depend on their values, so the ops that would
    # compute them need not run.
    operands = [np.ones(spec.shape, spec.dtype.dtype) for spec in step.input_types]
    beside = CALL - seconds(lambda: np.add(SMALL, SMALL))
    return (seconds(lambda: step.function(*operands)) + beside) / CALL


def iteration() -> float:
    """Return the overhead of one iteration of a scan, in NumPy calls."""
    scan = lambda length: run_of(
        lambda x: tnf.scan(lambda c, _: (c + c, None), x, None, length=length)[0], SMALL * 0
    )
    return difference(scan(100), scan(300), 200) / CALL - 1


def main(names: Sequence[str]) -> None:
    """Print the present and the measured value of each constant.

    If `names` is not empty, only these constants are measured.
    """
    print(f"a call takes {CALL * 1e9:.0f} ns")
    for name, measured in MEASURED.items():
        if name in names or not names:
            print(f"{name:26}{getattr(costs, name):>10.5g}{measured():>10.4g}", flush=True)
    if "calls" in names or not names:
        cells = {card.__name__: cell for card, cell in costs.COSTS.items()}
        print(f"{'Scan':26}{cells['Scan'].calls:>10.5g}{iteration():>10.4g}")
        for name in OPS:
            print(f"{name:26}{cells[name].calls:>10.5g}{calls(name):>10.4g}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
