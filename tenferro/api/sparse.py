"""Sparse Jacobians and Hessians, as SciPy's sparse arrays.

The traced program determines the sparsity pattern, and the pattern determines a colouring of columns or rows. Columns
of one colour have no common nonzero row. For each colour, the nonzeros are read from one product with the Jacobian. One
program computes all products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as scipy_sparse

from tenferro.ad import AdContext
from tenferro.api.autodiff import grad, jvp, vjp
from tenferro.api.compile import compile, eval_shape, name_of
from tenferro.api.jit import jit
from tenferro.api.stage import normalize_argnums
from tenferro.api.vmap import vmap
from tenferro.dispatch import is_traced, spec_of
from tenferro.errors import (
    ADRuleUnsupportedError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    UnsupportedError,
)
from tenferro.program import Executor, GraphProgram
from tenferro.sparsity import Cover, cover_of, dependencies, symmetric_cover_of
from tenferro.sparsity.relations import identity, stacked
from tenferro.tracebacks import public_methods
from tenferro.types import PyTree, TensorSpec, flatten, leaf_paths, unflatten

__all__ = ["SparseDerivative", "sparse_hessian", "sparse_jacobian"]

JACOBIAN_MODES = ("auto", "forward", "reverse", "bidirectional")
HESSIAN_MODES = ("auto", "star", "acyclic", "forward")


@public_methods
class SparseDerivative:
    """Callable that computes a sparse Jacobian or Hessian, for arguments of the shapes of its pattern.

    A call returns a `scipy.sparse.csr_array`. A row of the array is an element of the function's result, and a column
    is an element of the function's arguments. Elements are in row-major order, one leaf after another. Explicit zeros
    are kept, so the arrays of all calls have the same indices.

    Attributes:
        pattern: the pattern, as a boolean `csr_array`. Every element outside of the pattern is always zero.
        mode: "forward", "reverse" or "bidirectional". For a Hessian, it is "star", "acyclic" or "forward".
        count: the number of products with the Jacobian or its transpose that a call computes.
    """

    def __init__(
        self,
        name: str,
        shown: str,
        pattern: Any,
        cover: Cover,
        specs: Sequence[TensorSpec],
        tree: Any,
        products: Callable[..., Any],
        dtype: Any,
    ) -> None:
        self.name = name
        self._shown = shown
        self.pattern = pattern
        self.mode = cover.kind
        self.count = cover.count
        self._cover = cover
        self._specs, self._tree = specs, tree
        self._products = products
        self._dtype = dtype

    def __repr__(self) -> str:
        rows, columns = self.pattern.shape
        return (
            f"<{self.name} of {self._shown}: {rows} x {columns}, {self.pattern.nnz} nonzeros, "
            f"{self.count} products, {self.mode}>"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.pattern.shape

    @property
    def column_colors(self) -> np.ndarray[Any, Any] | None:
        """The number of each column's colour, or -1 if no product needs the column.

        It is None without forward products.
        """
        return self._cover.columns

    @property
    def row_colors(self) -> np.ndarray[Any, Any] | None:
        """The number of each row's colour, or -1 if no product needs the row. It is None without reverse products."""
        return self._cover.rows

    def __call__(self, *args: Any) -> Any:
        """Compute the derivative at the arguments.

        Raises:
            ShapeError, DTypeError: the structure or a type of the arguments differs from those of the pattern.
            UnsupportedError: an argument is traced.
        """
        leaves, tree = flatten(args)
        if tree != self._tree:
            raise ShapeError(
                f"{self.name}: the arguments have another structure than its pattern's"
            )
        for leaf, spec, path in zip(leaves, self._specs, leaf_paths(args), strict=True):
            if is_traced(leaf):
                raise UnsupportedError(
                    f"{self.name}: is computed outside of traces, because programs have no sparse arrays; "
                    "use jvp, vjp or hvp inside"
                )
            shape = np.shape(leaf)
            if shape != spec.shape:
                raise ShapeError(
                    f"{self.name}: argument{path} has shape {shape}, and the pattern is that of {spec}"
                )
        values = [
            np.asarray(x, spec.dtype.dtype) for x, spec in zip(leaves, self._specs, strict=True)
        ]
        products: Any = self._products(values)
        data = self._cover.nonzeros(np.asarray(products).reshape(-1))
        pattern = self.pattern
        return scipy_sparse.csr_array(
            (data.astype(self._dtype, copy=False), pattern.indices.copy(), pattern.indptr.copy()),
            pattern.shape,
        )


def sparse_jacobian(
    fn: Callable[..., Any],
    *args: PyTree,
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    pattern: Any = None,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> SparseDerivative:
    """Find the sparsity pattern of the Jacobian of `fn`, and return a function that computes the Jacobian.

    Element (i, j) of the Jacobian is dy_i / dx_j. The pattern is valid for all values of the arguments. It is exact for
    ops that move, reduce and multiply elements, also in loops with known counters. If data determine which elements
    depend on each other, as when an argument is used as an index, the pattern is the union of all possibilities.

    Columns, or rows, without a common nonzero share one product with the Jacobian. One program computes all products.

    Args:
        args: arguments of `fn`, or their `TensorSpec`s. Their values have no effect. Arrays that `fn` captures are
            constants, and the pattern is exact for indices in them.
        argnums: the positions of the arguments to differentiate with respect to. The other arguments are data.
        mode: "forward" groups columns, "reverse" groups rows, and "bidirectional" groups both. "auto" selects the mode
            with the fewest products.
        pattern: the pattern, dense or sparse, if the caller knows it. It is not checked.
        context, executor: as for `grad`.

    Raises:
        DTypeError: an argument or a result is not a real tensor; the error names it.
        NonStaticShapeError: an extent is symbolic.
        UnsupportedError: the call is inside a trace, or the pattern has too many nonzeros.

    >>> import numpy as np
    >>> jacobian = sparse_jacobian(lambda x: x[1:] * x[:-1], np.ones(4))
    >>> jacobian.count, jacobian.mode
    (2, 'forward')
    >>> jacobian(np.arange(4.0)).toarray()
    array([[1., 0., 0., 0.],
           [0., 2., 1., 0.],
           [0., 0., 3., 2.]])

    Source: Gebremedhin, Manne and Pothen, "What color is your Jacobian?", SIAM Review 47, 2005.
    """
    _require_option("sparse_jacobian", mode, JACOBIAN_MODES)
    flat = _Flat("sparse_jacobian", fn, args, argnums, context, executor)
    if pattern is None:
        pattern, is_reverse_only = flat.pattern()
    else:
        pattern, is_reverse_only = flat.checked_pattern(pattern), False
    if is_reverse_only and mode in ("forward", "bidirectional"):
        raise UnsupportedError(
            f"sparse_jacobian: mode {mode!r} needs forward derivatives, and a custom_vjp has none; use 'reverse'"
        )
    chosen = "reverse" if is_reverse_only else mode
    cover = cover_of(pattern, chosen, [spec.shape for spec in flat.active_specs])
    return flat.derivative(pattern, cover)


def sparse_hessian(
    fn: Callable[..., Any],
    *args: PyTree,
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    pattern: Any = None,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> SparseDerivative:
    """Find the sparsity pattern of the Hessian of a scalar `fn`, and return a function that computes the Hessian.

    The pattern is that of the Jacobian of the gradient. A second derivative is not in the pattern if `fn` is linear in
    one of the two elements, or only adds functions of them. Nonzeros are read from Hessian-vector products. One program
    computes the products, in forward mode over reverse mode.

    Args:
        args, argnums, pattern, context, executor: as for `sparse_jacobian`.
        mode: "star" uses the symmetry and reads each nonzero directly. "acyclic" needs fewer products and solves a
            sparse triangular system. "forward" groups columns and does not use the symmetry. "auto" selects "forward"
            if it does not need more products than "star" or the matrix is large, otherwise "star".

    Raises:
        ShapeError: the result is not a scalar.
        DTypeError, NonStaticShapeError, UnsupportedError: as for `sparse_jacobian`.

    >>> import numpy as np
    >>> hessian = sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum() + x.sum(), np.ones(3))
    >>> hessian(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])

    Source: Gebremedhin, Tarafdar, Manne and Pothen, "New acyclic and star coloring algorithms", SISC 29, 2007.
    """
    _require_option("sparse_hessian", mode, HESSIAN_MODES)
    if not callable(fn):
        raise InvalidConfigError(f"sparse_hessian: expected a function, got {fn!r:.60}")
    gradient = grad(fn, argnums, context=context)
    flat = _Flat("sparse_hessian", gradient, args, argnums, context, executor)
    if pattern is None:
        one_side, is_reverse_only = flat.pattern()
        if is_reverse_only:
            raise UnsupportedError(
                "sparse_hessian: needs forward derivatives of the gradient, and a custom_vjp has none"
            )
        # The pattern and its transpose both contain the exact pattern, and so does their intersection.
        pattern = _csr(one_side.multiply(one_side.T))
    else:
        pattern = flat.checked_pattern(pattern)
        if (pattern != pattern.T).nnz:
            raise InvalidConfigError("sparse_hessian: the pattern is not symmetric")
    cover = symmetric_cover_of(pattern, mode, [spec.shape for spec in flat.active_specs])
    return flat.derivative(pattern, cover)


def _require_option(name: str, mode: str, modes: Sequence[str]) -> None:
    if mode not in modes:
        raise InvalidConfigError(f"{name}: mode must be one of {', '.join(modes)}, got {mode!r}")


def _csr(matrix: Any) -> Any:
    """Convert a matrix to a boolean CSR array in canonical form: no zeros or duplicates, and sorted indices."""
    result: Any = scipy_sparse.csr_array(matrix)
    result = result.astype(bool)
    result.eliminate_zeros()
    result.sum_duplicates()
    result.sort_indices()
    return result


class _Flat:
    """Function of a flat list of leaves. It is differentiated with respect to the active leaves in the list."""

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        argnums: int | Sequence[int],
        context: AdContext | None,
        executor: Executor | None,
    ) -> None:
        if not callable(fn):
            raise InvalidConfigError(f"{name}: expected a function, got {fn!r:.60}")
        if any([is_traced(leaf) for leaf in flatten(args)[0]]):
            raise UnsupportedError(
                f"{name}: is computed outside of traces, because programs have no sparse arrays; "
                "use jvp, vjp or hvp inside"
            )
        self.name, self.fn, self.context, self.executor = name, fn, context, executor
        leaves, self.tree = flatten(args)
        self.specs: list[Any] = [
            leaf if isinstance(leaf, TensorSpec) else spec_of(np.asarray(leaf)) for leaf in leaves
        ]
        positions = normalize_argnums(name, argnums, args)
        counts = np.cumsum([0, *[len(flatten(arg)[0]) for arg in args]])
        self.active = [i for p in positions for i in range(int(counts[p]), int(counts[p + 1]))]
        names = leaf_paths(args)
        for i in self.active:
            _require_real(name, f"argument{names[i]}", self.specs[i])
        self.active_specs: list[Any] = [self.specs[i] for i in self.active]
        results, _ = flatten(eval_shape(self._of_all, self.specs))
        self.results: list[Any] = results
        for spec in self.results:
            _require_real(name, "the result", spec)
        self.columns = sum([spec.size for spec in self.active_specs])
        self.rows = sum([spec.size for spec in self.results])

    def _of_all(self, leaves: Sequence[Any]) -> list[Any]:
        """Call the function on all its leaves, and return the leaves of the result."""
        return flatten(self.fn(*unflatten(self.tree, leaves)))[0]

    def _of_active(self, leaves: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return the function of the active leaves alone. The other leaves are fixed."""

        def function(*active: Any) -> list[Any]:
            everything = list(leaves)
            for position, x in zip(self.active, active, strict=True):
                everything[position] = x
            return self._of_all(everything)

        return function

    def _push(self, leaves: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
        primals = [leaves[i] for i in self.active]
        return jvp(self._of_active(leaves), primals, list(dots), context=self.context)[1]

    def _pull(self, leaves: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
        primals = [leaves[i] for i in self.active]
        _, pull = vjp(self._of_active(leaves), *primals, context=self.context)
        return list(pull(list(bars)))

    # ---- pattern -----------------------------------------------------------------------------------

    def pattern(self) -> tuple[Any, bool]:
        """Return the pattern, and whether it was computed in reverse mode because there is no forward derivative."""
        try:
            tangent = compile(self._push, self.specs, self.active_specs)
        except ADRuleUnsupportedError as error:
            try:
                pullback = compile(self._pull, self.specs, self.results)
            except ADRuleUnsupportedError:
                raise error from None
            return _csr(_pattern_of(pullback, len(self.specs), self.rows, self.columns).T), True
        return _csr(_pattern_of(tangent, len(self.specs), self.columns, self.rows)), False

    def checked_pattern(self, pattern: Any) -> Any:
        """Convert the caller's pattern to a CSR array, and check its shape."""
        result = _csr(pattern)
        if result.shape != (self.rows, self.columns):
            raise ShapeError(
                f"{self.name}: the pattern has shape {result.shape}, the matrix {(self.rows, self.columns)}"
            )
        return result

    # ---- nonzeros ----------------------------------------------------------------------------------

    def derivative(self, pattern: Any, cover: Cover) -> SparseDerivative:
        """Build the callable that computes the derivative, from the pattern and its colouring."""
        forward = _seeds(cover.columns, cover.forward, self.active_specs)
        reverse = _seeds(cover.rows, cover.reverse, self.results)

        def products(leaves: Sequence[Any]) -> Any:
            # The functions are imported here, because few programs need them.
            from tenferro.api.manipulation import concat, reshape

            parts: list[Any] = []
            for seeds, along, sizes in (
                (forward, self._push, self.results),
                (reverse, self._pull, self.active_specs),
            ):
                if seeds is None:
                    continue
                count = cover.forward if along == self._push else cover.reverse
                directions = [seed() for seed in seeds]
                results = vmap(lambda *each, along=along: along(leaves, each))(*directions)
                lines = [
                    reshape(y, (count, spec.size)) for y, spec in zip(results, sizes, strict=True)
                ]
                together = lines[0] if len(lines) == 1 else concat(lines, axis=1)
                parts.append(reshape(together, (-1,)))
            return parts[0] if len(parts) == 1 else concat(parts)

        dtype = np.result_type(*[spec.dtype.dtype for spec in [*self.results, *self.active_specs]])
        run = jit(products, executor=self.executor) if cover.count else (lambda leaves: np.zeros(0))
        return SparseDerivative(
            self.name, name_of(self.fn), pattern, cover, self.specs, self.tree, run, dtype
        )


def _require_real(name: str, what: str, spec: TensorSpec) -> None:
    if not spec.dtype.is_float:
        hint = "; take its real and imaginary part" if spec.dtype.is_complex else ""
        raise DTypeError(
            f"{name}: {what} is {spec}, and sparse derivatives are of real tensors{hint}"
        )


def _pattern_of(program: GraphProgram, data: int, columns: int, rows: int) -> Any:
    """Find the sparsity pattern of a program that is linear in its inputs after the first `data` inputs.

    The rows of the pattern are the elements of the outputs, and the columns are those of the linear inputs.
    """
    specs = program.input_specs[data:]
    starts = np.cumsum([0, *[spec.size for spec in specs]])
    patterns = [
        identity(spec.size, int(start), columns) if spec.size else None
        for spec, start in zip(specs, starts, strict=False)
    ]
    outputs, _ = dependencies(
        program, [*[None] * data, *patterns], [None] * len(program.input_specs)
    )
    blocks = [
        stacked([pattern], spec.size, columns)
        for pattern, spec in zip(outputs, program.output_specs, strict=True)
    ]
    empty = [
        scipy_sparse.csr_array((spec.size, columns), dtype=bool) if block is None else block
        for block, spec in zip(blocks, program.output_specs, strict=True)
    ]
    if not empty:
        return scipy_sparse.csr_array((rows, columns), dtype=bool)
    return scipy_sparse.vstack(empty, format="csr")


def _seeds(
    colors: np.ndarray[Any, Any] | None, count: int, specs: Sequence[TensorSpec]
) -> list[Callable[[], Any]] | None:
    """Return, for each leaf, a function that computes the seeds of all colours. Return None if there are no colours.

    The seed of a colour is 1 at the elements of this colour, and 0 elsewhere.
    """
    if colors is None or not count:
        return None
    seeds: list[Callable[[], Any]] = []
    start = 0
    for spec in specs:
        own = colors[start : start + spec.size].reshape(spec.shape)
        start += spec.size
        seeds.append(_seed(own, count, spec))
    return seeds


def _seed(colors: np.ndarray[Any, Any], count: int, spec: TensorSpec) -> Callable[[], Any]:
    def seed() -> Any:
        from tenferro.api.creation import arange
        from tenferro.api.elementwise import equal
        from tenferro.api.manipulation import astype, reshape

        numbers = reshape(arange(count, dtype="int32"), (count, *[1] * spec.rank))
        return astype(equal(numbers, colors[None]), spec.dtype)

    return seed
