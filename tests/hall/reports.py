"""Public reports of wrong values and crashes of XLA on CPU, rebuilt, with the right values by the definition of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo
from tenferro.errors import PeerEndedError
from tenferro.types import flatten
from xla_peer import ParityReport, check_parity
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity.contenders import original_outputs

__all__ = ["ELSEWHERE", "REPORTS", "SEARCHES", "Report", "Visit", "visit", "visited"]

SEARCHES = (
    "wrong result CPU XLA miscompile incorrect value jit",
    "openxla/xla CPU backend wrong numerical result HLO reference interpreter mismatch",
    "jax jit gives different result than without jit on CPU wrong value bug",
    "tensorflow XLA jit_compile=True incorrect result CPU",
    "XLA CPU reduce_window wrong result init value not identity",
    "openxla xla CPU miscompile wrong value",
    "AlgebraicSimplifier incorrect rewrite changes result integer CPU StableHLO",
    "XLA returns wrong result integer overflow abs clamp convert CPU jit_compile differs from eager",
)
"""Of GitHub's issues."""
ELSEWHERE = (
    ("openxla/xla 47290 to 47342", "the modules are in archives that the reports link to"),
    ("openxla/xla 13054", "a fault of the oneDNN library in builds of 2024, on a million rows"),
    ("openxla/xla 5544", "only on NVIDIA's GPUs"),
    ("openxla/xla 19716", "of its text only what is on a GPU's code was at hand"),
    (
        "openxla/xla 49176",
        "its text was not at hand; the rewrites of its kind are the rows on exp, log and sqrt",
    ),
    ("jax-ml/jax 939", "the fast-math mode of 2019, which is off since"),
    ("jax-ml/jax 3602", "a sampler whose results differ on some computers only"),
    ("jax-ml/jax 23590", "a benchmark of several files"),
    ("jax-ml/jax 27231", "TensorFloat-32 on GPUs"),
    (
        "tensorflow/tensorflow 58752",
        "tan(cosh(cosh(x))): the argument's rounding decides the result",
    ),
    ("tensorflow/tensorflow 118314", "needs Keras and TensorFlow's tracing"),
    ("tensorflow/tensorflow 126212", "StableHLO leaves NaN as an integer to the implementation"),
)


class Report(NamedTuple):
    """One report.

    name:      of the project's issue
    words:     what goes wrong
    function:  the program, or its StableHLO text
    arrays:    its arguments
    expected:  the result that the ops' definitions give, each rounded to its dtype
    rounding:  whether another right implementation may round to what XLA gives
    """

    name: str
    words: str
    function: Callable[..., Any] | str
    arrays: tuple[Any, ...]
    expected: Any
    rounding: bool = False

    @property
    def link(self) -> str:
        """The issue, in Markdown."""
        project, number = self.name.split()
        return f"[{self.name}](https://github.com/{project}/issues/{number})"


def f32(*numbers: float) -> Any:
    """A float32 array."""
    return np.array(numbers, np.float32)


def i8(*numbers: int) -> Any:
    """An int8 array."""
    return np.array(numbers, np.int8)


def absolute_where_negative(base: Any) -> Any:
    """The absolute value of a square that wraps around."""
    product = base * base
    return tnf.where(product < 0, tnf.abs(product), product)


def rolled_row(x: Any) -> Any:
    """The first row rolled in place."""
    row = x[0]
    return tnf.stack([tnf.concatenate([row[-5:], row[:-5]]), x[1]])


def masked_scores(mask: Any, scores: Any) -> Any:
    """A mask of 1 takes nothing away."""
    shifted = scores + -1e30 * (1.0 - mask)
    return shifted - tnf.max(shifted)


def scaled_difference(x: Any, s: Any) -> Any:
    """The difference of two squares that are equal."""
    y = x * (1.0 + s)
    return y * y - x * x


CLAMP = """func.func public @main(%low: tensor<1xf32>, %x: tensor<1xf32>, %high: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.clamp %low, %x, %high : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
SQUARED_ROWS = """func.func public @main(%x: tensor<16385x3xf64>) -> tensor<16385xf64> {
  %identity = stablehlo.constant dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf64>
  %0 = stablehlo.dot_general %identity, %x, contracting_dims = [1] x [1] : (tensor<3x3xf64>, tensor<16385x3xf64>) -> tensor<3x16385xf64>
  %1 = stablehlo.multiply %0, %0 : tensor<3x16385xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3x16385xf64>, tensor<f64>) -> tensor<16385xf64>
  return %2 : tensor<16385xf64>
}
"""
INTEGERS = np.arange(16385.0)
ROWS = np.arange(200.0, dtype=np.float32).reshape(2, 100)
IMAGE = np.linspace(0, 1, 131 * 111 * 3, dtype=np.float32).reshape(131, 111, 3)
LARGEST = float(np.finfo(np.float32).max)


def sum_of_products(*shape: int) -> str:
    """The module that multiplies by its first argument along three axes, and sums along the third."""
    first, both, results = (
        f"tensor<{'x'.join(map(str, extents))}xf32>"
        for extents in (shape[:3], shape, shape[:2] + shape[3:])
    )
    return f"""func.func public @main(%x: {first}, %y: {both}) -> {results} {{
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1, 2] : ({first}) -> {both}
  %1 = stablehlo.multiply %0, %y : {both}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [2] : ({both}, tensor<f32>) -> {results}
  return %2 : {results}
}}
"""


def ones(*shape: int) -> Any:
    """A float32 array of ones."""
    return np.ones(shape, np.float32)


REPORTS = (
    Report("tensorflow/tensorflow 118178", "abs of an int8 square that wraps around is left out",
           absolute_where_negative, (i8(12, 7, 20, 15, 11),), i8(112, 49, 112, 31, 121)),
    Report("tensorflow/tensorflow 117142", "the same, with other numbers",
           absolute_where_negative, (i8(5, 13, 22, 26, 0, 8),), i8(25, 87, 28, 92, 0, 64)),
    Report("tensorflow/tensorflow 123169", "exp(x) exp(y) is computed as exp(x + y)",
           lambda x, y: tnf.exp(x) * tnf.exp(y), (f32(100), f32(-200)), f32(np.nan)),
    Report("jax-ml/jax 38099", "log(exp(x)) is computed as x, where exp(x) overflows",
           lambda x: tnf.log(tnf.exp(x)), (f32(89),), f32(np.inf)),
    Report("jax-ml/jax 38100", "log2(exp2(x)) is computed as x, where exp2(x) overflows",
           lambda x: tnf.log(tnf.exp(x * 0.6931471805599453)) / 0.6931471805599453,
           (f32(129),), f32(np.inf)),
    Report("jax-ml/jax 37919", "sqrt(abs(x x)) is computed as abs(x), where x x overflows",
           lambda x: tnf.sqrt(tnf.abs(x * x)), (f32(LARGEST),), f32(np.inf)),
    Report("openxla/xla 42732", "sqrt(x x) is computed as abs(x), where x x underflows to 0",
           lambda x: tnf.sqrt(x * x), (f32(1e-30),), f32(0)),
    Report("tensorflow/tensorflow 57744", "log(x^y) is computed as y log(x), where x^y overflows",
           lambda x, y: tnf.log(tnf.power(x, y)), (f32(10), f32(40)), f32(np.inf)),
    Report("openxla/xla 41579", "a x + b x is computed with one product unrounded",
           lambda a, b, x: a * x + b * x, (f32(1e20), f32(-1e20), f32(1e10)), f32(0), rounding=True),
    Report("jax-ml/jax 26147", "x x - x x is computed with one product unrounded",
           scaled_difference, (f32(0.1), f32(0)), f32(0), rounding=True),
    Report("jax-ml/jax 6566", "a sum with -0 is reassociated, and scores are lost",
           masked_scores, (np.float32(1), f32(0.75, 0.5)), f32(0, -0.25)),
    Report("jax-ml/jax 8022", "x - (x + y) + y is reassociated to 0",
           lambda x, y: x - (x + y) + y, (f32(1e30), f32(1)), f32(1)),
    Report("jax-ml/jax 10129", "a row is rolled in place, and read while it is written",
           rolled_row, (ROWS,), np.stack([np.roll(ROWS[0], 5), ROWS[1]])),
    Report("jax-ml/jax 7229", "a number added to an image of odd extents",
           lambda image, delta: image + delta, (IMAGE, np.float32(0.25)), IMAGE + np.float32(0.25)),
    Report("tensorflow/tensorflow 102043", "a sum of int32 that wraps around, divided",
           lambda x: tnf.sum(x, dtype="int32") // 4,
           (np.array([2**30, 2**30, 2**30, 1], np.int32),), np.int32(-268435456)),
    Report("r-xla/anvl 545", "clamp with a NaN for its least value",
           CLAMP, (f32(np.nan), f32(0), f32(1)), f32(np.nan)),
    Report("jax-ml/jax 39103", "sums of three squares are wrong in rows at the end of many",
           SQUARED_ROWS, (np.stack([INTEGERS, 0 * INTEGERS, 0 * INTEGERS], 1),), INTEGERS**2),
    Report("jax-ml/jax 39257", "a sum of products of eight axes ends the process",
           sum_of_products(3, 2, 2, 5, 5, 5, 5, 5), (ones(3, 2, 2), ones(3, 2, 2, 5, 5, 5, 5, 5)),
           2 * ones(3, 2, 5, 5, 5, 5, 5)),
    Report("jax-ml/jax 39257", "the same, with other extents, gives wrong sums",
           sum_of_products(1, 1, 6, 9, 9, 9, 9, 9), (ones(1, 1, 6), ones(1, 1, 6, 9, 9, 9, 9, 9)),
           6 * ones(1, 1, 9, 9, 9, 9, 9)),
)  # fmt: skip


class Visit(NamedTuple):
    """A report as it is with the jaxlib that is installed.

    native:  the native result
    state:   of XLA's result: "right", "wrong", or the signal that ended its process
    parity:  the parity check's verdict; None where XLA gave none to compare with
    """

    native: Any
    state: str
    parity: ParityReport | None


def visit(report: Report, peer: IsolatedExecutor) -> Visit:
    """Run a report on both paths, and judge it; XLA runs in a process of its own, because a report may end it."""
    if isinstance(report.function, str):
        program = import_stablehlo(report.function)
    else:
        program = tnf.compile(report.function, *report.arrays)
    with np.errstate(all="ignore"):
        native = np.asarray(flatten(program.run(*report.arrays))[0][0])
    try:
        written = original_outputs(program, report.arrays, peer)
        other = peer.run(program, *report.arrays) if written is None else written[0]
    except PeerEndedError as error:
        return Visit(native, f"ended by {error.ending}", None)
    parity = check_parity(program, *report.arrays, executor=peer, interpreter=False)
    is_right = np.allclose(np.asarray(other), report.expected, rtol=1e-6, atol=0, equal_nan=True)
    return Visit(native, "right" if is_right else "wrong", parity)


def visited() -> list[tuple[str, str, str]]:
    """The rows of the hall's table: link, fault, and what is seen of it here."""
    rows: list[tuple[str, str, str]] = []
    with IsolatedExecutor() as peer:
        for report in REPORTS:
            _, state, parity = visit(report, peer)
            if parity is not None:
                verdicts = ", ".join(sorted({output.verdict for output in parity.outputs}))
                parted = parity.first_divergence
                op = f", at {parted.op.partition(' (')[0]}" if parted else ""
                state = f"{state}: {verdicts}{op}"
            rows.append((report.link, report.words, state))
    return rows
