"""tenferro in small: trace, differentiate, run on NumPy, lower to StableHLO, in under 300 lines that are not blank.

The names and the design are the library's. The definition of an op is a card, and the implementations of all ops in
one layer are a column. The graph is an append-only arena, and every pass is a loop. Left out are dtypes, symbols,
guards, passes, caches, errors and a hundred ops. Everything is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]

# ---- cards: definitions of ops ------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """An op: a name and a payload. A graph has one node for equal ops with equal operands."""

    name: str
    payload: Any = None


ADD, MULTIPLY, NEGATE, SIN, COS, DOT, TRANSPOSE, SUM = map(
    Op, ["add", "multiply", "negate", "sin", "cos", "dot", "transpose", "sum"]
)


def broadcast(shape: Shape) -> Op:
    """Return the op that repeats a scalar in every element of a tensor."""
    return Op("broadcast", shape)


def constant(number: float) -> Op:
    """Return the op whose result is a scalar constant."""
    return Op("constant", float(number))


# ---- columns: what layers do with ops ----------------------------------------------------------------

SHAPES: dict[str, Callable[..., Shape]] = {
    "add": lambda op, x, y: _same(op, x, y),
    "multiply": lambda op, x, y: _same(op, x, y),
    "negate": lambda op, x: x,
    "sin": lambda op, x: x,
    "cos": lambda op, x: x,
    "dot": lambda op, x, y: _contracted(x, y),
    "transpose": lambda op, x: x[::-1],
    "sum": lambda op, x: (),
    "broadcast": lambda op, x: op.payload,
    "constant": lambda op: (),
}


def _same(op: Op, x: Shape, y: Shape) -> Shape:
    if x != y:
        raise ValueError(f"{op.name}: operands must have one shape, got {x} and {y}")
    return x


def _contracted(x: Shape, y: Shape) -> Shape:
    if x[1] != y[0]:
        raise ValueError(f"dot: {x} and {y} do not fit")
    return (x[0], y[1])


KERNELS: dict[str, Callable[..., Any]] = {
    "add": lambda op, x, y: x + y,
    "multiply": lambda op, x, y: x * y,
    "negate": lambda op, x: -x,
    "sin": lambda op, x: np.sin(x),
    "cos": lambda op, x: np.cos(x),
    "dot": lambda op, x, y: x @ y,
    "transpose": lambda op, x: x.T,
    "sum": lambda op, x: np.sum(x),
    "broadcast": lambda op, x: np.broadcast_to(x, op.payload),
    "constant": lambda op: np.float64(op.payload),
}

# A tangent rule receives the operands and their tangents (None for zero), and returns the result's tangent.
TANGENTS: dict[str, Callable[..., Any]] = {
    "add": lambda op, x, y, x_dot, y_dot: plus(x_dot, y_dot),
    "multiply": lambda op, x, y, x_dot, y_dot: plus(times(x_dot, y), times(x, y_dot)),
    "negate": lambda op, x, x_dot: -x_dot,
    "sin": lambda op, x, x_dot: x_dot * x.apply(COS),
    "cos": lambda op, x, x_dot: -(x_dot * x.apply(SIN)),
    "dot": lambda op, x, y, x_dot, y_dot: plus(matmul(x_dot, y), matmul(x, y_dot)),
    "transpose": lambda op, x, x_dot: x_dot.T,
    "sum": lambda op, x, x_dot: x_dot.sum(),
    "broadcast": lambda op, x, x_dot: x_dot.apply(op),
}

# A transpose rule receives the operands, a mask that tells which of them are linear, and the result's cotangent. It
# returns the operands' cotangents. Only ops of tangents need a rule: sin and cos, which are not linear, have none.
TRANSPOSES: dict[str, Callable[..., Any]] = {
    "add": lambda op, x, y, linear, bar: (bar, bar),
    "multiply": lambda op, x, y, linear, bar: (bar * y, None) if linear[0] else (None, bar * x),
    "negate": lambda op, x, linear, bar: (-bar,),
    "dot": lambda op, x, y, linear, bar: (bar @ y.T, None) if linear[0] else (None, x.T @ bar),
    "transpose": lambda op, x, linear, bar: (bar.T,),
    "sum": lambda op, x, linear, bar: (bar.apply(broadcast(x.shape)),),
    "broadcast": lambda op, x, linear, bar: (bar.sum(),),
}

DIMS = "contracting_dims = [1] x [0]"
TEXTS: dict[str, Callable[..., str]] = {
    "add": lambda op, x, y, t: f"stablehlo.add {x}, {y} : {t[-1]}",
    "multiply": lambda op, x, y, t: f"stablehlo.multiply {x}, {y} : {t[-1]}",
    "negate": lambda op, x, t: f"stablehlo.negate {x} : {t[-1]}",
    "sin": lambda op, x, t: f"stablehlo.sine {x} : {t[-1]}",
    "cos": lambda op, x, t: f"stablehlo.cosine {x} : {t[-1]}",
    "dot": lambda op, x, y, t: (
        f"stablehlo.dot_general {x}, {y}, {DIMS} : ({t[0]}, {t[1]}) -> {t[2]}"
    ),
    "transpose": lambda op, x, t: f"stablehlo.transpose {x}, dims = [1, 0] : ({t[0]}) -> {t[1]}",
    "sum": lambda op, x, t: (
        f"stablehlo.reduce({x} init: %zero) applies stablehlo.add across dimensions = "
        f"{list(range(t[0].count('x')))} : ({t[0]}, tensor<f64>) -> tensor<f64>"
    ),
    "broadcast": lambda op, x, t: f"stablehlo.broadcast_in_dim {x}, dims = [] : ({t[0]}) -> {t[1]}",
    "constant": lambda op, t: f"stablehlo.constant dense<{op.payload!r}> : {t[-1]}",
}


# ---- the graph: an append-only arena in topological order ----------------------------------------------


class Graph:
    """A list of nodes: an op with the numbers of its operands.

    Node i computes value i; inputs are nodes without an op.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Op | None, tuple[int, ...]]] = []
        self.shapes: list[Shape] = []
        self._known: dict[tuple[Op, tuple[int, ...]], int] = {}

    def input(self, shape: Shape) -> Tensor:
        """Append an input node, and return its value."""
        self.nodes.append((None, ()))
        self.shapes.append(shape)
        return Tensor(self, len(self.nodes) - 1)

    def add(self, op: Op, inputs: tuple[int, ...]) -> Tensor:
        """Return the value of an op with these operands, from an existing node if there is one, else from a new node."""
        key = (op, inputs)
        if key not in self._known:
            shape = SHAPES[op.name](op, *[self.shapes[i] for i in inputs])
            self.nodes.append((op, inputs))
            self.shapes.append(shape)
            self._known[key] = len(self.nodes) - 1
        return Tensor(self, self._known[key])


@dataclass(frozen=True)
class Tensor:
    """A value of a graph. Its operators append nodes to the graph."""

    graph: Graph
    value: int

    @property
    def shape(self) -> Shape:
        """Extents of the tensor."""
        return self.graph.shapes[self.value]

    def apply(self, op: Op, *others: Tensor) -> Tensor:
        """Apply an op to this tensor and the others, and return the result."""
        return self.graph.add(op, (self.value, *[other.value for other in others]))

    def like(self, other: Tensor | float) -> Tensor:
        """Return a number as a tensor of this tensor's shape; return a tensor unchanged."""
        if isinstance(other, Tensor):
            return other
        scalar = self.graph.add(constant(other), ())
        return scalar.apply(broadcast(self.shape)) if self.shape else scalar

    def __add__(self, other: Tensor | float) -> Tensor:
        return self.apply(ADD, self.like(other))

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self.apply(MULTIPLY, self.like(other))

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.apply(DOT, other)

    def __neg__(self) -> Tensor:
        return self.apply(NEGATE)

    def sum(self) -> Tensor:
        """Return the sum over all axes."""
        return self.apply(SUM)

    @property
    def T(self) -> Tensor:  # noqa: N802  # because NumPy calls it so
        """Transposed."""
        return self.apply(TRANSPOSE)


def sin(x: Tensor) -> Tensor:
    """Return the sine, element by element."""
    return x.apply(SIN)


def plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return the sum of two tangents; None stands for zero."""
    return b if a is None else a if b is None else a + b


def times(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return a * b, where a or b is a tangent; None stands for a zero tangent."""
    return None if a is None or b is None else a * b


def matmul(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return a @ b, where a or b is a tangent; None stands for a zero tangent."""
    return None if a is None or b is None else a @ b


# ---- derivatives: linearize and transpose append nodes to the same graph -------------------------------


def linearize(graph: Graph, dots: dict[int, Tensor], output: Tensor) -> Tensor | None:
    """Append the nodes of the tangents, by one forward loop over the graph, and return the output's tangent."""
    for value in range(len(graph.nodes)):
        op, inputs = graph.nodes[value]
        x_dots = [dots.get(i) for i in inputs]
        if op is not None and any(dot is not None for dot in x_dots):
            primals = [Tensor(graph, i) for i in inputs]
            dots[value] = TANGENTS[op.name](op, *primals, *x_dots)
    return dots.get(output.value)


def transpose(graph: Graph, start: int, y_dot: Tensor, y_bar: Tensor) -> dict[int, Tensor]:
    """Return the cotangents of all values that depend linearly on the inputs from `start` on, by one backward loop."""
    stop, linear = len(graph.nodes), set(range(start, start + 1))
    for value in range(start, stop):
        op, inputs = graph.nodes[value]
        if op is None or any(i in linear for i in inputs):
            linear.add(value)
    bars: dict[int, Tensor] = {y_dot.value: y_bar}
    for value in range(stop - 1, start - 1, -1):
        op, inputs = graph.nodes[value]
        if op is None or value not in linear or value not in bars:
            continue
        mask = [i in linear for i in inputs]
        operands = [Tensor(graph, i) for i in inputs]
        for i, bar in zip(
            inputs, TRANSPOSES[op.name](op, *operands, mask, bars[value]), strict=True
        ):
            if i in linear and bar is not None:
                bars[i] = bars[i] + bar if i in bars else bar
    return bars


def value_and_grad(fn: Callable[..., Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Return a function that appends the nodes of `fn` and its gradients to the graph of its arguments."""

    def derived(*xs: Tensor) -> Sequence[Tensor]:
        graph, y = xs[0].graph, fn(*xs)
        start = len(graph.nodes)
        x_dots = [graph.input(x.shape) for x in xs]
        y_dot = linearize(graph, {x.value: d for x, d in zip(xs, x_dots, strict=True)}, y)
        assert y_dot is not None
        bars = transpose(graph, start, y_dot, graph.add(constant(1.0), ()))
        return [y, *[bars[d.value] for d in x_dots]]

    return derived


# ---- the program, and its two peers --------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """The nodes that the outputs depend on, in topological order."""

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    needed: tuple[int, ...]

    def run(self, *arrays: Any) -> list[Any]:
        """Run the program natively: call the kernel of each node's op."""
        slots: dict[int, Any] = dict(zip(self.inputs, arrays, strict=True))
        for value in self.needed:
            op, inputs = self.graph.nodes[value]
            if op is not None:
                slots[value] = KERNELS[op.name](op, *[slots[i] for i in inputs])
        return [slots[value] for value in self.outputs]

    def lower(self) -> str:
        """Lower the program to StableHLO: write each node's op by its text in the table."""

        def kind(value: int) -> str:
            return f"tensor<{''.join(f'{n}x' for n in self.graph.shapes[value])}f64>"

        takes = ", ".join(f"%{i}: {kind(i)}" for i in self.inputs)
        gives = ", ".join(map(kind, self.outputs))
        lines = [f"func.func public @main({takes}) -> ({gives}) {{"]
        lines.append("  %zero = stablehlo.constant dense<0.0> : tensor<f64>")
        for value in self.needed:
            op, inputs = self.graph.nodes[value]
            if op is not None:
                types = [*map(kind, inputs), kind(value)]
                text = TEXTS[op.name](op, *[f"%{i}" for i in inputs], types)
                lines.append(f"  %{value} = {text}")
        names = ", ".join(f"%{value}" for value in self.outputs)
        return "\n".join([*lines, f"  return {names} : {gives}", "}"])


def compile(fn: Callable[..., Any], *shapes: Shape) -> Program:
    """Trace `fn` once; one backward loop collects the nodes on which the results depend."""
    graph = Graph()
    inputs = [graph.input(shape) for shape in shapes]
    results = fn(*inputs)
    outputs = [y.value for y in (results if isinstance(results, list) else [results])]
    wanted = set(outputs)
    for value in range(len(graph.nodes) - 1, -1, -1):
        if value in wanted:
            wanted.update(graph.nodes[value][1])
    return Program(graph, tuple(x.value for x in inputs), tuple(outputs), tuple(sorted(wanted)))


def main() -> None:
    from lowering.mlir_bindings import evaluate  # StableHLO's reference interpreter

    def loss(w: Tensor, x: Tensor) -> Tensor:
        h = sin(x @ w)
        return (h * h + h * 0.5).sum()

    program = compile(value_and_grad(loss), (3, 2), (4, 3))
    w, x = np.linspace(-1, 1, 6).reshape(3, 2), np.linspace(0, 2, 12).reshape(4, 3)
    native = program.run(w, x)
    print(program.lower(), "\n")
    interpreted = evaluate(program.lower(), [w, x])
    step = 1e-6 * np.eye(6)[0].reshape(3, 2)
    difference = (program.run(w + step, x)[0] - program.run(w - step, x)[0]) / 2e-6
    print(f"value {native[0]:.12f}, by the interpreter {float(interpreted[0]):.12f}")
    print(f"gradient {native[1][0, 0]:.9f}, by differences {difference:.9f}")
    for a, b in zip(native, interpreted, strict=True):
        assert np.allclose(a, b, rtol=1e-13)
    assert abs(native[1][0, 0] - difference) < 1e-8


if __name__ == "__main__":
    main()
