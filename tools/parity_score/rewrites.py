"""Rewrites of a module that keep its meaning but round differently, and compiler options with the same effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.parity_score.faults import Edit

__all__ = ["FEWER_BITS", "FLAGS", "rewrites"]

FLAGS = {
    "no optimisation": "--xla_backend_optimization_level=0",
    "AVX2": "--xla_cpu_max_isa=AVX2",
    "SSE4.2": "--xla_cpu_max_isa=SSE4_2",
    "no fusion": "--xla_disable_hlo_passes=fusion",
    "no algebra": "--xla_disable_hlo_passes=algsimp",
    "one thread": "--xla_cpu_multi_thread_eigen=false",
}
"""XLA's options, by name. Each needs separate child processes, because XLA reads its options only when it starts."""
CHAIN = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.(add|multiply) (%[\w#]+), (%[\w#]+) : (tensor<[\dx]*f\d+>)$"
)
REDUCE = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.reduce\((%[\w#]+) (init: .*applies stablehlo\.add across dimensions = \[)([\d, ]+)"
    r"(\] : \((tensor<[\dx]+f\d+>).*)$"
)
FUNCTION = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.(exponential|log|sine|cosine|tanh|logistic|log_plus_one|exponential_minus_one|sqrt"
    r"|rsqrt) (%[\w#]+) : tensor<([\dx]*)f32>$"
)
EXPONENTIAL = re.compile(r"^(\s*)(%\w+) = stablehlo\.exponential (%[\w#]+) : (tensor<[\dx]*f\d+>)$")
DOT = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.dot_general (%[\w#]+), (%[\w#]+), (.*contracting_dims = \[)(\d)(\] x \[)(\d)(\].*: \("
    r")(tensor<[\dx]+f\d+>), (tensor<[\dx]+f\d+>)(\).*)$"
)


SHORT = re.compile(
    r"^(\s*)(%\w+) = stablehlo\.dot_general (%[\w#]+), (%[\w#]+), "
    r"(.* : \((tensor<[\dx]+f32>), (tensor<[\dx]+f32>)\).*)$"
)
FEWER_BITS = "fewer bits of a product"
"""Kind of a rewrite that lowers the precision of a matrix product, as far as the product's `precision_config` allows.

`xla_peer.judge` decides whether such a rewrite is accepted.
"""


def rewrites(text: str) -> Iterator[Edit]:
    """Yield every rewrite of every line of a module."""
    lines = text.splitlines()
    makers = {}
    for number, line in enumerate(lines):
        if line.lstrip().startswith("func.func"):
            makers = {}
        for kind, changed in _changed(line, makers):
            yield Edit(
                kind, number + 1, "\n".join([*lines[:number], changed, *lines[number + 1 :]])
            )
        match = CHAIN.match(line)
        if match:
            makers[match[2]] = match


def _changed(line: str, makers: dict[str, re.Match[str]]) -> Iterator[tuple[str, str]]:
    match = CHAIN.match(line)
    if match:
        space, y, word, a, b, kind = match.groups()
        inner = makers.get(a)
        if inner is not None and inner[3] == word and inner[6] == kind:
            _, _, _, c, d, _ = inner.groups()
            # write (c + d) + b as c + (d + b)
            yield (
                "reassociated",
                f"{space}%r_{y[1:]} = stablehlo.{word} {d}, {b} : {kind} {y} = stablehlo.{word} {c}, %r_{y[1:]} : {kind}",
            )
        yield "commuted", f"{space}{y} = stablehlo.{word} {b}, {a} : {kind}"
    match = REDUCE.match(line)
    if match:
        space, y, x, head, axes, tail, kind = match.groups()
        yield (
            "another order of a sum",
            f"{space}%r_{y[1:]} = stablehlo.reverse {x}, dims = [{axes}] : {kind} "
            f"{y} = stablehlo.reduce(%r_{y[1:]} {head}{axes}{tail}",
        )
    match = FUNCTION.match(line)
    if match:
        space, y, word, x, shape = match.groups()
        narrow, wide = f"tensor<{shape}f32>", f"tensor<{shape}f64>"
        yield (
            "another polynomial",
            f"{space}%w_{y[1:]} = stablehlo.convert {x} : ({narrow}) -> {wide} "
            f"%f_{y[1:]} = stablehlo.{word} %w_{y[1:]} : {wide} {y} = stablehlo.convert %f_{y[1:]} : ({wide}) -> {narrow}",
        )
    match = EXPONENTIAL.match(line)
    if match:
        space, y, x, kind = match.groups()
        half = f"%half_{y[1:]} = stablehlo.constant dense<0.5> : {kind}"
        yield (
            "another algorithm",
            f"{space}{half} %x_{y[1:]} = stablehlo.multiply {x}, %half_{y[1:]} : {kind} "
            f"%e_{y[1:]} = stablehlo.exponential %x_{y[1:]} : {kind} {y} = stablehlo.multiply %e_{y[1:]}, %e_{y[1:]} : {kind}",
        )
    match = SHORT.match(line)
    if match and "HIGHEST" not in line:
        space, y, a, b, rest, left, right = match.groups()
        mantissa = 10 if "HIGH" in line else 7
        short = "stablehlo.reduce_precision"
        yield (
            FEWER_BITS,
            f"{space}%p_{y[1:]} = {short} {a}, format = e8m{mantissa} : {left} "
            f"%q_{y[1:]} = {short} {b}, format = e8m{mantissa} : {right} "
            f"{y} = stablehlo.dot_general %p_{y[1:]}, %q_{y[1:]}, {rest}",
        )
    match = DOT.match(line)
    if match:
        space, y, a, b, head, i, middle, j, tail, left, right, end = match.groups()
        yield (
            "another order of a product",
            f"{space}%a_{y[1:]} = stablehlo.reverse {a}, dims = [{i}] : {left} "
            f"%b_{y[1:]} = stablehlo.reverse {b}, dims = [{j}] : {right} "
            f"{y} = stablehlo.dot_general %a_{y[1:]}, %b_{y[1:]}, {head}{i}{middle}{j}{tail}{left}, {right}{end}",
        )
