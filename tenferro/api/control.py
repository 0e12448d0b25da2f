"""Control flow: conditionals and loops as ops over sub-programs, with JAX's names and signatures.

When a function is traced, a Python `if` is decided and a Python `for` is unrolled. The functions of this module instead
branch and iterate when the program runs, so the size of the program does not depend on the number of iterations.

The functions passed to them may use tensors and arrays from outside, which become operands of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tenferro.ad import AdContext
from tenferro.api.axes import normalize_axis
from tenferro.api.compile import output_value
from tenferro.api.custom import Checkpointed, checkpoint
from tenferro.api.elementwise import divide, imag, logical_not, multiply, not_equal, real
from tenferro.api.manipulation import concatenate, expand_dims, flip, moveaxis, reshape
from tenferro.api.prefixes import parallel_scan, prefixes
from tenferro.api.promotion import convert, result_type
from tenferro.api.tensor import TracedTensor, WeakTensor, WeakUse, tracing
from tenferro.api.vmap import vmap
from tenferro.dims import SymDim, dim_max
from tenferro.dispatch import apply, apply_one, as_operand, is_traced, is_weak, spec_of
from tenferro.dispatch.replay import applied
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import (
    ArityError,
    DTypeError,
    InvalidConfigError,
    NonStaticShapeError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.graph import BodyBuilder, Graph, line_of
from tenferro.ops.control import Alternatives, Cond, ControlOp, Scan, While
from tenferro.ops.elementwise import Clamp, Complex, Convert
from tenferro.program import Executor, GraphProgram, Subprogram
from tenferro.rules.payload import as_int
from tenferro.types import (
    ArrayLike,
    DType,
    PyTree,
    Tensor,
    TensorSpec,
    TreeDef,
    agree,
    difference,
    flatten,
    leaf_paths,
    unflatten,
)

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]

_NONE: Any = object()
BOOL = TensorSpec.of((), DType.Bool)


class _Body:
    """Function that was traced on new inputs, and becomes a sub-program of a control op.

    Args:
        specs, tree: the types of the inputs, and the structure of the function's arguments.
        weak: the inputs that stand for Python numbers: a map from their positions to the `WeakUse` records of the
            enclosing bodies.

    Attributes:
        result: the tree of tensors and numbers that the function returned.
        use: a record of how this body used the inputs that stand for Python numbers.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        specs: Sequence[TensorSpec],
        tree: TreeDef,
        weak: Mapping[int, frozenset[WeakUse]] = MappingProxyType({}),
    ) -> None:
        if not callable(fn):
            raise InvalidConfigError(f"{name}: expected a function, got {fn!r:.60}")
        self.builder = BodyBuilder(current_builder())
        graph = self.builder.graph
        self.inputs = [graph.add_input(spec) for spec in specs]
        self.use = WeakUse()
        tensors = [
            WeakTensor(self.builder, value, weak[position] | {self.use})
            if position in weak
            else TracedTensor(self.builder, value)
            for position, value in enumerate(self.inputs)
        ]
        try:
            with tracing(self.builder):
                self.result: Any = fn(*unflatten(tree, tensors))
        except TenferroError as error:
            error.at(line_of(error.__traceback__))
            raise

    def outputs(self, tree: PyTree, dtypes: Sequence[DType]) -> list[int]:
        """Return the graph values of the leaves of `tree`.

        A Python number is converted to its dtype in `dtypes`, if the dtype can represent this kind of number.
        """
        values: list[int] = []
        with tracing(self.builder):
            for leaf, path, dtype in zip(flatten(tree)[0], leaf_paths(tree), dtypes, strict=True):
                is_number = is_weak(leaf) and result_type(leaf, dtype) is dtype
                value = convert(leaf, dtype) if is_number else leaf
                values.append(output_value(self.builder, value, path))
        return values

    def types(self, tree: PyTree) -> list[TensorSpec]:
        """Return the types of a tree's leaves."""
        return [spec_of(leaf if is_traced(leaf) else as_operand(leaf)) for leaf in flatten(tree)[0]]


def _closed(
    bodies: Sequence[_Body], outputs: Sequence[Sequence[int]]
) -> tuple[list[Subprogram], list[Any]]:
    """Convert the bodies to sub-programs. Return the sub-programs, and the operands that the bodies capture.

    The first inputs of each sub-program are the captured operands of all bodies.
    """
    captured: dict[Any, Any] = {}
    for body in bodies:
        captured |= {key: operand for key, (_, operand) in body.builder.captured.items()}
    parts: list[Subprogram] = []
    for body, values in zip(bodies, outputs, strict=True):
        consts = [
            body.builder.capture(key, operand, spec_of(operand))
            for key, operand in captured.items()
        ]
        graph = body.builder.graph
        parts.append(Subprogram.of(graph, [*consts, *body.inputs], graph.after_effects(values)))
    return parts, list(captured.values())


def _trace_of(op: ControlOp) -> TracedTensor | None:
    """Return a tensor of the current trace if the op uses symbolic extents of that trace, otherwise None.

    Without symbolic extents, the op can run on arrays at once.
    """
    builder = current_builder()
    if builder is None:
        return None
    if not isinstance(getattr(op, "length", 0), SymDim) and all(
        [part.program.is_static for part in op.parts]
    ):
        return None
    return TracedTensor(builder, builder.constant(0))


def _applied(op: ControlOp, operands: Sequence[Any], executor: Executor | None) -> Any:
    """Add a loop or a conditional to the trace, or run it on arrays with the executor.

    Raises:
        UnsupportedError: an executor is passed although an operand is an eager tensor, whose runtime has an executor.
    """
    is_traced_by_operand = any([isinstance(x, TracedTensor) for x in operands])
    like = None if is_traced_by_operand else _trace_of(op)
    if executor is None or like is not None or is_traced_by_operand:
        return apply(op, *operands, like=like)
    if any(is_traced(x) for x in operands):
        raise UnsupportedError(
            f"{op.name}: eager tensors are run by their runtime; leave the executor out, or give it arrays"
        )
    graph = Graph()
    values = tuple(graph.add_input(spec_of(x)) for x in operands)
    program = GraphProgram.from_graph(graph, graph.add(op, values), name=op.name.lower())
    return executor.run(program, *operands)


# ---- conditionals ------------------------------------------------------------------------------


def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: ArrayLike,
    operand: ArrayLike = _NONE,
    executor: Executor | None = None,
) -> Any:
    """Return true_fun(*operands) if pred else false_fun(*operands). Only one of the two functions runs.

    Args:
        pred: a bool or real scalar; a real number is true unless it is zero.
        operands: the arguments of the function that runs, as trees of tensors.
        executor: the executor that runs the conditional on arrays; the default is native. In a trace, the executor of
            the outer program runs it.

    Both functions must return the same structure, shapes and dtypes. A Python number that one function returns is
    converted to the dtype of the other function's result.

    Raises:
        ShapeError: the predicate is not a scalar, or the two results have different shapes.
        ArityError: the two results have different structures.
        DTypeError: the predicate is complex, or the two results have different dtypes.

    >>> import tenferro as tnf
    >>> f = tnf.jit(lambda x: cond(x > 0, tnf.sqrt, lambda x: 0.0 * x, x))
    >>> f(4.0), f(-4.0)
    (array(2.), array(-0.))
    >>> tnf.grad(lambda x: cond(x > 0, tnf.sqrt, lambda x: 0.0, x))(-4.0)
    array(0.)

    Source: `jax.lax.cond`; StableHLO spec #if.
    """
    operands = operands if operand is _NONE else (operand,)
    functions = {"false_fun": false_fun, "true_fun": true_fun}
    return _chosen("cond", _predicate("cond", pred), functions, operands, executor)


def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Any]],
    *operands: ArrayLike,
    operand: ArrayLike = _NONE,
    executor: Executor | None = None,
) -> Any:
    """Return branches[index](*operands). Only the selected branch runs. An index out of range is clamped.

    Args:
        index: an integer scalar.
        branches: functions whose results have the same structure, shapes and dtypes.
        operands: the arguments of the branch, as trees of tensors.
        executor: as for `cond`.

    Raises:
        InvalidConfigError: there are no branches.
        ShapeError, DTypeError: the index is not an integer scalar, or the results of the branches differ in type.
        ArityError: the results of the branches have different structures.

    >>> import tenferro as tnf
    >>> branches = [lambda x: x + 1.0, lambda x: x * 10.0, tnf.sqrt]
    >>> tnf.jit(lambda i: switch(i, branches, 4.0))(np.int64(2))
    array(2.)

    Source: `jax.lax.switch`; StableHLO spec #case.
    """
    operands = operands if operand is _NONE else (operand,)
    branches = list(branches)
    if not branches:
        raise InvalidConfigError("switch: there are no branches")
    index = as_operand(index)
    spec = spec_of(index)
    if spec.rank or not spec.dtype.is_integer:
        kind = ShapeError if spec.rank else DTypeError
        raise kind(f"switch: the index must be an integer scalar, got {spec}")
    if len(branches) == 1:
        return branches[0](*operands)
    last = min(len(branches) - 1, spec.dtype.extremes[1])
    bounds = [np.asarray(bound, spec.dtype.dtype) for bound in (0, last)]
    (clamped,) = apply(Clamp(), bounds[0], index, bounds[1])
    if spec.dtype is not DType.I32:
        (clamped,) = apply(Convert(DType.I32), clamped)
    functions = {f"branch {number}": branch for number, branch in enumerate(branches)}
    return _chosen("switch", clamped, functions, operands, executor)


def _chosen(
    name: str,
    index: Any,
    functions: dict[str, Any],
    operands: tuple[Any, ...],
    executor: Executor | None,
) -> Any:
    leaves, tree = flatten(operands)
    arrays = [as_operand(leaf) for leaf in leaves]
    specs = [spec_of(x) for x in arrays]
    bodies = [_Body(name, fn, specs, tree) for fn in functions.values()]
    trees = [flatten(body.result)[1] for body in bodies]
    for function, branch_tree in zip(functions, trees, strict=True):
        if not agree(branch_tree, trees[0]):
            names = (f"{next(iter(functions))}(..)", f"{function}(..)")
            parting = difference(trees[0], branch_tree, names)
            raise ArityError(f"{name}: the functions must return one structure; {parting}")
    types = [body.types(body.result) for body in bodies]
    leaves_by_branch = [flatten(body.result)[0] for body in bodies]
    dtypes = [
        _common([kind.dtype for kind in row], column)
        for row, column in zip(
            zip(*types, strict=True), zip(*leaves_by_branch, strict=True), strict=True
        )
    ]
    outputs = [body.outputs(body.result, dtypes) for body in bodies]
    paths = leaf_paths(bodies[0].result)
    first, *later = functions
    wanted = [bodies[0].builder.type_of(value) for value in outputs[0]]
    for function, body, values in zip(later, bodies[1:], outputs[1:], strict=True):
        actual = [body.builder.type_of(value) for value in values]
        _require_same(
            f"{name}: {function} gives result{{}}", paths, actual, wanted, f"{first} gives"
        )
    parts, consts = _closed(bodies, outputs)
    op = Cond(tuple(parts))
    return unflatten(trees[0], _applied(op, [index, *consts, *arrays], executor))


def _common(dtypes: Sequence[DType], leaves: Sequence[Any]) -> DType:
    """Return the dtype of one result that all branches have in common, from its dtype and value in each branch.

    Python numbers are weakly typed: they take the dtype of tensors.
    """
    strong = [dtype for dtype, leaf in zip(dtypes, leaves, strict=True) if not is_weak(leaf)]
    weak = [leaf for leaf in leaves if is_weak(leaf)]
    return result_type(*weak, *strong[:1]) if weak else dtypes[0]


def _predicate(name: str, pred: ArrayLike) -> Any:
    """Convert a predicate to a bool of rank 0. A real number counts as true unless it is zero."""
    pred = as_operand(pred)
    spec = spec_of(pred)
    if spec.rank:
        raise ShapeError(f"{name}: the predicate must be a scalar, got {spec}")
    if spec.dtype.is_complex:
        raise DTypeError(f"{name}: the predicate must be a bool or a real number, got {spec}")
    return pred if spec.dtype.is_bool else not_equal(pred, 0)


# ---- loops ---------------------------------------------------------------------------------------


class _Carry:
    """State that a loop carries: a tree of arrays or tensors, whose types are the same in every iteration.

    A Python number in the initial carry is converted to the dtype that the body returns for this leaf.
    """

    def __init__(self, name: str, init: ArrayLike) -> None:
        self.name = name
        self.init_leaves, self.tree = flatten(init)
        self.paths = leaf_paths(init)
        self.leaves = [as_operand(leaf) for leaf in self.init_leaves]
        self.weak: Mapping[int, frozenset[WeakUse]] = {
            i: leaf.uses if isinstance(leaf, WeakTensor) else frozenset()
            for i, leaf in enumerate(self.init_leaves)
            if is_weak(leaf)
        }

    @property
    def specs(self) -> list[TensorSpec]:
        """The types of the leaves."""
        return [spec_of(x) for x in self.leaves]

    def traced(
        self,
        fn: Callable[..., Any],
        *others: Sequence[Any],
        part: Callable[[Any], Any] = lambda result: result,
    ) -> _Body:
        """Trace one iteration, `fn(carry, *others)`.

        Python numbers in the carry are passed as weak tensors. If the body returns a different dtype for a number, or
        a tensor that is no longer weak, the iteration is traced again with the returned dtype.

        Args:
            part: selects the next carry from the result of `fn`.

        Source: jax.lax.scan, which promotes weakly typed carries in this way.
        """
        tree = flatten((unflatten(self.tree, self.leaves), *others))[1]
        rest = [spec_of(x) for x in flatten(others)[0]]
        tried: list[Any] = []
        body = _Body(self.name, fn, [*self.specs, *rest], tree, self.weak)
        # Stop if the types recur, because the iteration would go on forever; `outputs` then reports that the body
        # changes a type.
        while (types := (self.specs, self.weak)) not in tried:
            tried.append(types)
            self._take_types(body, part(body.result))
            if self.specs == types[0] and (self.weak == types[1] or not body.use.took_a_dtype):
                break
            body = _Body(self.name, fn, [*self.specs, *rest], tree, self.weak)
        return body

    def _take_types(self, body: _Body, result: PyTree) -> None:
        """Convert Python numbers in the carry to the dtypes that the body returns for them.

        A number becomes a tensor if the body returns a tensor, or a number of another dtype, in its place.
        """
        leaves, tree = flatten(result)
        if not agree(tree, self.tree):
            return
        for i, (leaf, spec) in enumerate(zip(leaves, body.types(result), strict=True)):
            number = self.init_leaves[i]
            if not is_weak(number):
                continue
            if is_weak(leaf) and (
                i not in self.weak or spec.dtype is spec_of(self.leaves[i]).dtype
            ):
                continue
            dtype = result_type(number, leaf) if is_weak(leaf) else spec.dtype
            if result_type(number, dtype) is dtype:
                self.leaves[i] = convert(number, dtype)
                self.weak = {j: uses for j, uses in self.weak.items() if j != i}

    def outputs(self, body: _Body, result: ArrayLike) -> list[int]:
        """Return the graph values of the carry that the body returns, after checking their structure and types.

        Raises:
            ArityError, ShapeError, DTypeError: the structure or a type differs from that of the carry that the body
                receives.
        """
        tree = flatten(result)[1]
        if not agree(tree, self.tree):
            parting = difference(self.tree, tree, ("the carry", "the next"))
            raise ArityError(f"{self.name}: the carry must keep its structure; {parting}")
        values = body.outputs(result, [spec.dtype for spec in self.specs])
        types = [body.builder.type_of(value) for value in values]
        what = f"{self.name}: the body returns carry{{}}"
        _require_same(what, self.paths, types, self.specs, "but receives")
        return values


def _require_same(
    what: str,
    paths: Sequence[str],
    actual_types: Sequence[TensorSpec],
    expected_types: Sequence[TensorSpec],
    whom: str,
) -> None:
    """Raise an error if corresponding types differ, unless symbolic extents may make them equal at run time.

    Args:
        what: the beginning of the message, with a placeholder for the path of the leaf.
        whom: the words in the message between the actual and the expected type.
    """
    for path, actual, expected in zip(paths, actual_types, expected_types, strict=True):
        extents = zip(actual.shape, expected.shape, strict=False)
        differ = any([isinstance(a, int) and isinstance(b, int) and a != b for a, b in extents])
        if actual.dtype is not expected.dtype or actual.rank != expected.rank or differ:
            kind = ShapeError if actual.dtype is expected.dtype else DTypeError
            raise kind(f"{what.format(path)} as {actual}, {whom} {expected}; they must be the same")


def scan(
    f: Callable[[Any, Any], Any],
    init: ArrayLike,
    xs: ArrayLike | None = None,
    length: int | SymDim | None = None,
    reverse: bool = False,
    unroll: Any = 1,
    *,
    parallel: bool = False,
    executor: Executor | None = None,
) -> tuple[Any, Any]:
    """Repeat carry, ys[t] = f(carry, xs[t]) for t = 0, 1, .., n - 1; return the last carry and the stacked ys.

    Args:
        f: a function from (carry, x) to (carry, y), where each is a tree of tensors. The carry keeps its types.
        init: the first carry.
        xs: a tree of tensors with equal leading extents n, or None. Iteration t passes slice t of each tensor to f.
        length: the number n of iterations; required if xs has no leaves.
        reverse: whether to iterate from t = n - 1 down to 0.
        unroll: no effect. JAX has this argument, which does not change results.
        parallel: replace the n iterations by 2 log2(n) steps, each over many iterations at once. This applies through
            XLA, and natively if the loop is not compiled. Each tensor of the carry must be a linear recurrence,
            `a * carry + b` element by element. Here a and b may depend on x, on values that f closes over, and on other
            tensors of the carry that do not depend on this tensor.
        executor: as for `cond`.

    The scan is differentiable in both modes. Reverse mode stores the residuals of every iteration. With
    `checkpoint(f)` it stores only the carries, and with `checkpoint(f, levels=k)` only a few of the carries at a time.

    Raises:
        ShapeError: the leading extents of xs differ, or the carry changes its shape.
        ArityError: f does not return a pair, or the carry that it returns has a different structure.
        DTypeError: the carry changes its dtype.
        InvalidConfigError: the number of iterations is missing or negative.
        UnsupportedError: `parallel` is set, and the carry is not a linear recurrence; the error names the op.
        NonStaticShapeError: `parallel` is set, and the number of iterations is symbolic.

    >>> import tenferro as tnf
    >>> last, sums = scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> last, sums
    (array(6.), array([1., 3., 6.]))
    >>> tnf.grad(lambda a: scan(lambda c, x: (a * c + x, None), 0.0, np.ones(3))[0])(2.0)
    array(5.)

    Source: `jax.lax.scan`.
    """
    levels, f = Checkpointed.levels_of(f)
    leaves, xs_tree = flatten(xs)
    slices = [as_operand(leaf) for leaf in leaves]
    for leaf, path in zip(slices, leaf_paths(xs), strict=True):
        if not spec_of(leaf).rank:
            raise ShapeError(
                f"scan: xs{path} has no leading axis to scan over: got {spec_of(leaf)}"
            )
    extent = _length(slices, length)
    if not (isinstance(unroll, bool | int) and unroll >= 0):
        raise InvalidConfigError(f"scan: unroll must be a number of iterations, got {unroll!r}")
    carry = _Carry("scan", init)
    rows = [TensorSpec.of(x.shape[1:], x.dtype) for x in [spec_of(x) for x in slices]]
    body = carry.traced(f, unflatten(xs_tree, rows), part=_first_of_pair)
    y_tree = flatten(body.result[1])[1]
    y_values = body.outputs(body.result[1], [spec.dtype for spec in body.types(body.result[1])])
    (part,), consts = _closed([body], [[*carry.outputs(body, body.result[0]), *y_values]])
    op = Scan(part, extent, len(consts), len(carry.leaves), bool(reverse))
    operands = [*consts, *carry.leaves, *slices]
    if parallel:
        op, operands = _parallel(op, carry, operands)
        results = _applied(op, operands, executor)
    else:
        results = _in_levels(op, operands, levels, executor)
    n = len(carry.leaves)
    return unflatten(carry.tree, results[:n]), unflatten(y_tree, results[n:])


def _in_levels(
    op: Scan, operands: Sequence[Any], levels: int, executor: Executor | None
) -> Sequence[Any]:
    """Return the outputs of a scan whose iterations are divided into groups, which are checkpoints for reverse mode.

    Args:
        levels: the depth to which groups are divided into smaller groups. With 0, the scan is not divided.

    Raises:
        NonStaticShapeError: `levels` is positive, and the number of iterations is symbolic.
    """
    if not levels or not any([is_traced(x) for x in operands]):
        return _applied(op, operands, executor)
    if not isinstance(op.length, int):
        raise NonStaticShapeError(
            f"checkpoint: levels={levels} needs a number of iterations, got the length {op.length}"
        )
    n, first = op.num_consts, op.first_xs
    consts, carry, xs = operands[:n], operands[n:first], operands[first:]
    count = _groups(op.length, levels)
    size, rest = divmod(op.length, count)

    def group(size: int, levels: int) -> Callable[..., Any]:
        part = Scan(op.body, size, op.num_consts, op.num_carry, op.reverse)

        def iterations(carry: Any, xs: Any) -> Any:
            results = _in_levels(part, [*consts, *carry, *xs], levels, None)
            return list(results[: len(carry)]), list(results[len(carry) :])

        return checkpoint(iterations)

    # If the iterations cannot be divided evenly, the remaining iterations run last, in a smaller group.
    split = op.length - rest
    whole, left = (
        (slice(rest, None), slice(rest)) if op.reverse else (slice(split), slice(split, None))
    )
    rows = [reshape(x[whole], (count, size, *x.shape[1:])) for x in xs]
    carry, ys = scan(group(size, levels - 1), list(carry), rows, length=count, reverse=op.reverse)
    ys = [reshape(y, (split, *y.shape[2:])) for y in ys]
    if rest:
        carry, last = group(rest, levels - 1)(carry, [x[left] for x in xs])
        pairs = [(z, y) if op.reverse else (y, z) for y, z in zip(ys, last, strict=True)]
        ys = [concatenate(pair) for pair in pairs]
    return [*carry, *ys]


def _groups(length: int, levels: int) -> int:
    """Return the number of groups near length^(1 / (levels + 1)) that leaves the fewest remaining iterations."""
    root = max(round(length ** (1 / (levels + 1))), 1)
    near = range(max(3 * root // 4, 1), 4 * root // 3 + 1)
    return min(near, key=lambda count: (length % count, abs(count - root)))


def _parallel(op: Scan, carry: _Carry, operands: Sequence[Any]) -> tuple[Alternatives, list[Any]]:
    """Return an op that runs either a scan of linear recurrences or its parallel form, and the operands of the op."""

    def sequential(*operands: Any) -> Any:
        return list(apply(op, *operands, like=operands[0]))

    def parallel(*operands: Any) -> Any:
        return parallel_scan(op, operands, carry.paths)

    specs, tree = [spec_of(x) for x in operands], flatten(tuple(operands))[1]
    bodies = [_Body("scan", form, specs, tree) for form in (sequential, parallel)]
    outputs = [
        body.outputs(body.result, [x.dtype for x in body.types(body.result)]) for body in bodies
    ]
    parts, consts = _closed(bodies, outputs)
    return Alternatives(*parts), [*consts, *operands]


def _first_of_pair(result: Tensor) -> Any:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise ArityError(f"scan: f must return (carry, y), got {type(result).__name__}")
    return result[0]


def _length(slices: Sequence[Any], length: int | SymDim | None) -> Any:
    """Return the number of iterations: `length`, or else the common leading extent of `slices`."""
    extents = [spec_of(x).shape[0] for x in slices]
    if length is not None and not isinstance(length, SymDim):
        if isinstance(length, bool) or not hasattr(length, "__index__") or is_traced(length):
            raise InvalidConfigError(f"scan: length must be an integer, got {length!r:.60}")
        length = length.__index__()
        if length < 0:
            raise InvalidConfigError(f"scan: length must be at least 0, got {length}")
    if not extents and length is None:
        raise InvalidConfigError(
            "scan: there are no xs to tell the number of iterations; give length"
        )
    first = extents[0] if length is None else length
    if any(isinstance(e, int) and isinstance(first, int) and e != first for e in extents):
        length_note = "" if length is None else f", and length is {length}"
        raise ShapeError(f"scan: the leading extents of xs must agree, got {extents}{length_note}")
    return first


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: ArrayLike,
    *,
    max_steps: int | None = None,
    executor: Executor | None = None,
) -> Any:
    """Repeat `val = body_fun(val)` while `cond_fun(val)` holds, beginning with init_val; return the last val.

    Args:
        cond_fun: a function from val to a bool scalar.
        body_fun: a function from val, a tree of tensors, to a tree of the same types.
        max_steps: an upper bound on the number of iterations, which lets reverse mode store the residuals of each.
        executor: as for `cond`.

    The loop is differentiable in forward and reverse mode, to any order. Without `max_steps`, reverse mode stores val
    for a bounded number of iterations and recomputes val for the others. Its memory thus does not grow with the trip
    count.

    With `max_steps=n` the loop is a `scan` of n iterations. Once cond_fun(val) is false, the remaining iterations
    keep val. If the loop ends within n iterations, `max_steps` changes neither values nor derivatives. If cond_fun(val)
    still holds after n iterations, all float and complex tensors of val and their derivatives are NaN; integers and
    bools have their values after iteration n. The NaN results from a division 0 / 0, which `check_finite` reports.

    With `max_steps=n`, reverse mode stores the residuals of n iterations. With `checkpoint(body_fun)` it stores only
    val of each iteration, and with `checkpoint(body_fun, levels=k)` val of only a few iterations at a time.

    Raises:
        ArityError, ShapeError, DTypeError: body_fun changes the structure or types of val, or cond_fun
            does not return a bool scalar. Unlike the predicate of `cond`, a number is not accepted.
        InvalidConfigError: `max_steps` is negative or not an integer, or it is set and val has no float or complex
            tensor, which could become NaN if the loop does not end.

    >>> import tenferro as tnf
    >>> while_loop(lambda x: x < 100.0, lambda x: x * x, 3.0)
    array(6561.)
    >>> tnf.grad(lambda x: while_loop(lambda y: y < 100.0, lambda y: y * y, x, max_steps=10))(3.0)
    array(17496.)
    >>> while_loop(lambda x: x < 100.0, lambda x: x * x, 3.0, max_steps=2)
    array(nan)

    Source: `jax.lax.while_loop`; StableHLO spec #while.
    """
    levels, body_fun = Checkpointed.levels_of(body_fun)
    if levels and max_steps is None:
        raise InvalidConfigError(
            f"while_loop: checkpoint(levels={levels}) needs max_steps; without it a reverse pass keeps a bounded "
            "number of states already: leave levels out"
        )
    carry = _Carry("while_loop", init_val)
    tree = flatten((init_val,))[1]
    body = carry.traced(body_fun)
    test = _Body("while_loop", cond_fun, carry.specs, tree)
    if flatten(test.result)[1] != flatten(0)[1]:
        raise ArityError(f"while_loop: cond_fun must return one scalar, got {test.result!r:.60}")
    with tracing(test.builder):
        condition = output_value(test.builder, _condition(test.result), "")
    parts, consts = _closed([test, body], [[condition], carry.outputs(body, body.result)])
    op = While(parts[0], parts[1], len(consts))
    operands = [*consts, *carry.leaves]
    if max_steps is None:
        return unflatten(carry.tree, _applied(op, operands, executor))
    steps = as_int("while_loop", "max_steps", max_steps, 0)
    _require_room_for_nan(carry.specs)
    last = _in_levels(_bounded(op, steps), operands, levels, executor)
    values = dict(enumerate([*consts, *last]))
    like = next((x for x in last if is_traced(x)), None)
    for _ in applied(op.cond.program.instructions, values, like):
        pass
    ended = logical_not(values[op.cond.program.output_slots[0]])
    return unflatten(carry.tree, [_or_nan(leaf, ended) for leaf in last])


def _require_room_for_nan(carry: Sequence[TensorSpec]) -> None:
    """Raise an error if the carry has no float or complex tensor that could report by NaN that the loop did not end."""
    if not any(spec.dtype.is_inexact for spec in carry):
        shown = ", ".join(str(spec) for spec in carry) or "nothing"
        raise InvalidConfigError(
            f"while_loop: with max_steps, a loop that does not end gives NaN, and its carry, {shown}, has no "
            "float or complex tensor to hold one; leave max_steps out: nothing here has a derivative"
        )


def _bounded(op: While, steps: int) -> Scan:
    """Return a scan of `steps` iterations that, after the end of the loop `op`, return the carry unchanged."""
    n, specs = op.num_consts, op.body.input_specs
    idle = Graph()
    passed = [idle.add_input(spec) for spec in specs]
    keep = Subprogram.of(idle, passed, passed[n:])
    graph = Graph()
    inputs = [graph.add_input(spec) for spec in specs]
    (continues,) = op.cond.emit(graph, inputs)
    after = graph.add(Cond((keep, op.body)), (continues, *inputs))
    return Scan(Subprogram.of(graph, inputs, graph.after_effects(after)), steps, n, len(after))


def _or_nan(x: Tensor, ended: Tensor) -> Any:
    """Return x if the loop has ended. Otherwise return NaN of x's shape, whose derivatives are also NaN.

    Integers and bools cannot be NaN, and are returned unchanged.
    """
    dtype = spec_of(x).dtype
    if not dtype.is_inexact:
        return x
    if dtype.is_complex:
        return apply_one(Complex(), _or_nan(real(x), ended), _or_nan(imag(x), ended))
    one_or_zero = convert(ended, dtype)
    return multiply(x, divide(one_or_zero, one_or_zero))


def _condition(condition: Any) -> Any:
    """Return the result of cond_fun as a tensor, and check that it is a bool of rank 0.

    Numbers are refused, as in JAX.
    """
    condition = as_operand(condition)
    spec = spec_of(condition)
    if spec.rank:
        raise ShapeError(f"while_loop: cond_fun must return a scalar, got {spec}")
    if not spec.dtype.is_bool:
        raise DTypeError(
            f"while_loop: cond_fun must return a bool, got {spec}; compare it, as by `x != 0`"
        )
    return condition


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
    executor: Executor | None = None,
) -> Any:
    """Repeat `val = body_fun(i, val)` for i from `lower` to `upper - 1`, beginning with init_val; return the last val.

    If the bounds are numbers or symbolic extents, the loop is a `scan`. If a bound is a tensor, the loop is a
    `while_loop`.

    Args:
        unroll: no effect. JAX has this argument, which does not change results.
        max_steps: as for `while_loop`; only for bounds that are tensors.
        executor: as for `cond`.

    Raises:
        DTypeError, ShapeError: a bound is not an integer scalar.
        ArityError, ShapeError, DTypeError: body_fun changes the structure or types of val.
        InvalidConfigError: `max_steps` is set although the bounds are numbers.

    >>> import tenferro as tnf
    >>> fori_loop(1, 6, lambda i, x: x * i, 1)
    array(120)
    >>> tnf.grad(lambda x: fori_loop(0, 3, lambda i, y: y * x, 1.0))(2.0)
    array(12.)

    Source: `jax.lax.fori_loop`.
    """
    levels, plain = Checkpointed.levels_of(body_fun)
    dtype = _counter(lower, upper)
    if all(isinstance(bound, SymDim) or not is_traced(bound) for bound in (lower, upper)):
        if max_steps is not None:
            raise InvalidConfigError(
                f"fori_loop: max_steps={max_steps!r:.60} is for bounds that are tensors; from {lower} to "
                f"{upper} the number of iterations is fixed: leave it out"
            )
        first, last = (b if isinstance(b, SymDim) else int(b) for b in (lower, upper))
        count: Any = last - first
        start = TensorSpec.of((), dtype)
        counter = convert(first, dtype) if isinstance(first, int) else _extent(first)

        def iteration(carry: Any, _: PyTree) -> Any:
            i, val = carry
            return (i + 1, plain(i, val)), None

        count = dim_max(count, 0)
        assert spec_of(counter) == start
        body = checkpoint(iteration, levels=levels) if levels else iteration
        return scan(body, (counter, init_val), None, length=count, executor=executor)[0][1]
    bounds = [as_operand(b) if not is_traced(b) else b for b in (lower, upper)]
    first, last = [b if spec_of(b).dtype is dtype else apply(Convert(dtype), b)[0]
                   for b in bounds]  # fmt: skip

    def step(state: Any) -> Any:
        return state[0] + 1, state[1], plain(state[0], state[2])

    return while_loop(
        lambda state: state[0] < state[1],
        checkpoint(step, levels=levels) if levels else step,
        (first, last, init_val),
        max_steps=max_steps,
        executor=executor,
    )[2]


def _counter(lower: ArrayLike, upper: ArrayLike) -> DType:
    """Return the dtype of the loop counter.

    Raises:
        DTypeError, ShapeError: a bound is not an integer scalar, or the bounds have no common integer dtype.
    """
    kinds: list[DType] = []
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, SymDim):
            continue
        spec = spec_of(as_operand(bound))
        if spec.rank:
            raise ShapeError(f"fori_loop: {name} must be a scalar, got {spec}")
        if not spec.dtype.is_integer:
            raise DTypeError(f"fori_loop: {name} must be an integer, got {spec}")
        if type(bound) is not int:
            kinds.append(spec.dtype)
    dtype = result_type(*kinds) if kinds else DType.I64
    if not dtype.is_integer:
        raise DTypeError(f"fori_loop: lower and upper must be of one dtype, got {kinds}")
    least, most = dtype.extremes
    for name, bound in (("lower", lower), ("upper", upper)):
        if type(bound) is int and not least <= bound <= most:
            raise DTypeError(f"fori_loop: {name} is {bound}, and the loop counts in {dtype}")
    return dtype


def _extent(extent: SymDim) -> Any:
    raise NonStaticShapeError(
        f"fori_loop: lower is the extent {extent}; count from 0, and add it inside"
    )


def map(
    f: Callable[[Any], Any],
    xs: ArrayLike,
    *,
    batch_size: Any = None,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:  # because it is JAX's name
    """Apply f to each slice of xs along the leading axis, one after the other, and stack the results.

    Whereas `vmap(f)` computes all slices at once, `map` needs the memory of one slice only.

    Args:
        f: a function of a tree of tensors.
        xs: a tree of tensors with equal leading extents.
        batch_size: the number of slices that are computed at once by `vmap(f)`; by default one.
        context: the batching rules of `vmap`.
        executor: as for `cond`.

    Raises:
        ArityError, ShapeError, DTypeError: as for `scan`. InvalidConfigError: `batch_size` is below 1.

    >>> map(lambda x: x @ x, np.arange(6.0).reshape(3, 2))
    array([ 1., 13., 41.])

    Source: `jax.lax.map`.
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs, executor=executor)[1]
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidConfigError(f"map: batch_size must be at least 1, got {batch_size!r}")
    leaves, tree = flatten(xs)
    slices = [as_operand(leaf) for leaf in leaves]
    batched = vmap(f, context=context, executor=executor)
    n = _length(slices, None)
    if not isinstance(n, int):
        raise NonStaticShapeError(f"map: batch_size needs a number for the leading extent, got {n}")
    whole = n - n % batch_size
    results: list[Any] = []
    if whole or not n:
        count = whole // batch_size
        head = [reshape(x[:whole], (count, batch_size, *x.shape[1:])) for x in slices]
        chunks = unflatten(tree, head)
        ys = scan(lambda _, x: ((), batched(x)), (), chunks, length=count, executor=executor)[1]
        flat, y_tree = flatten(ys)
        results.append([reshape(y, (whole, *y.shape[2:])) for y in flat])
    if n > whole:
        flat, y_tree = flatten(batched(unflatten(tree, [x[whole:] for x in slices])))
        results.append(flat)
    joined = results[0] if len(results) == 1 else [
        concatenate(pair) for pair in zip(*results, strict=True)
    ]  # fmt: skip
    return unflatten(y_tree, joined)  # pyright: ignore[reportPossiblyUnboundVariable]  # because one of the two branches ran


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: PyTree, reverse: bool = False, axis: int = 0
) -> Any:
    """Combine all elements up to each position: ys[t] = fn(.. fn(fn(xs[0], xs[1]), xs[2]) .., xs[t]).

    fn must be associative. In native execution, if the loop is compiled to machine code, it is one sequential pass with
    n - 1 combinations. Otherwise, and through XLA, there are 2 log2(n) steps with about 2 n combinations in total. A
    step computes at most n / 2 combinations at once.

    Args:
        fn: combines two trees like `elems`, of equal extents, element by element along the axis. It is
            traced once for each extent that occurs in a step.
        elems: a tree of the tensors xs, which have equal extents n along the axis.
        reverse: whether to combine from the end: fn(.. fn(fn(xs[-1], xs[-2]), xs[-3]) .., xs[t]).

    Raises:
        ShapeError: the extents along the axis differ, or fn changes a shape.
        NonStaticShapeError: the extents along the axis are symbolic.
        ArityError, DTypeError: fn returns a different structure or dtype.

    >>> associative_scan(lambda a, b: a * b, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])

    Source: `jax.lax.associative_scan`; Blelloch, "Prefix sums and their applications", 1990.
    """
    leaves, tree = flatten(elems)
    if not leaves:
        raise ArityError("associative_scan: there are no tensors in elems")
    arrays = [as_operand(leaf) for leaf in leaves]
    axes = [normalize_axis("associative_scan", axis, spec_of(x).rank) for x in arrays]
    extents = [spec_of(x).shape[i] for x, i in zip(arrays, axes, strict=True)]
    if not all(isinstance(extent, int) for extent in extents):
        raise NonStaticShapeError(
            f"associative_scan: the extent along axis {axis} must be a number, got {extents}"
        )
    if any(extent != extents[0] for extent in extents):
        raise ShapeError(f"associative_scan: extents along axis {axis} must agree, got {extents}")
    paths = leaf_paths(elems)

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        results, structure = flatten(fn(unflatten(tree, first), unflatten(tree, second)))
        if not agree(structure, tree):
            parting = difference(tree, structure, ("elems", "fn(..)"))
            raise ArityError(f"associative_scan: fn must return the structure of elems; {parting}")
        operands = [as_operand(leaf) for leaf in results]
        _require_same(
            "associative_scan: fn gives elems{}",
            paths,
            [spec_of(x) for x in operands],
            [spec_of(x) for x in first],
            "it takes",
        )
        return operands

    def sequential(elems: list[Any]) -> list[Any]:
        return _one_by_one(combine, elems, axes, reverse)

    def parallel(elems: list[Any]) -> list[Any]:
        if not reverse:
            return prefixes(combine, elems, axes)
        flipped = [flip(x, axis=i) for x, i in zip(elems, axes, strict=True)]
        results = prefixes(combine, flipped, axes)
        return [flip(x, axis=i) for x, i in zip(results, axes, strict=True)]

    if extents[0] < 2:
        return unflatten(tree, arrays)
    specs, inputs = [spec_of(x) for x in arrays], flatten((arrays,))[1]
    bodies = [_Body("associative_scan", form, specs, inputs) for form in (sequential, parallel)]
    outputs = [body.outputs(body.result, [spec.dtype for spec in specs]) for body in bodies]
    parts, consts = _closed(bodies, outputs)
    return unflatten(tree, _applied(Alternatives(*parts), [*consts, *arrays], None))


def _one_by_one(
    combine: Callable[[list[Any], list[Any]], list[Any]],
    xs: list[Any],
    axes: Sequence[int],
    reverse: bool,
) -> list[Any]:
    """Compute the prefixes of xs by a scan that combines each element with the previous prefix."""
    rows = [moveaxis(x, axis, 0) for x, axis in zip(xs, axes, strict=True)]
    start, rest = (slice(-1, None), slice(0, -1)) if reverse else (slice(0, 1), slice(1, None))

    def body(prefix: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        pair = [
            [expand_dims(x, i) for x, i in zip(each, axes, strict=True)] for each in (prefix, row)
        ]
        after = [reshape(y, x.shape) for y, x in zip(combine(*pair), prefix, strict=True)]
        return after, after

    first = [x[start] for x in rows]
    _, ys = scan(body, [x[0] for x in first], [x[rest] for x in rows], reverse=reverse)
    ordered = [[y, x] if reverse else [x, y] for x, y in zip(first, ys, strict=True)]
    return [moveaxis(concatenate(pair), 0, i) for pair, i in zip(ordered, axes, strict=True)]
