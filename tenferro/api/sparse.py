"""Sparse Jacobians and Hessians, as SciPy's sparse arrays.

The program determines the sparsity pattern, and the pattern a colouring of its columns or rows. The nonzeros are read
from one product with the Jacobian per colour; one program computes all products.
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
from tenferro.door import is_traced, spec_of
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
    """Function that computes a sparse Jacobian or Hessian for arguments with the shapes of its pattern.

    Calling it returns a `scipy.sparse.csr_array`. Its rows are the elements of the result's leaves, its columns those of
    the arguments' leaves, each in row-major order, one leaf after another. Explicit zeros are kept, so that every
    call gives the same indices.

    Attributes:
        pattern: the pattern, as a boolean `csr_array`: every element outside of it is always zero.
        mode: "forward", "reverse" or "bidirectional"; for a Hessian "star", "acyclic" or "forward".
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
        """The group of each column, -1 if no product needs the column; None without forward products."""
        return self._cover.columns

    @property
    def row_colors(self) -> np.ndarray[Any, Any] | None:
        """The group of each row, -1 if no product needs the row; None without reverse products."""
        return self._cover.rows

    def __call__(self, *args: Any) -> Any:
        """Compute the derivative at these arguments.

        Raises:
            ShapeError, DTypeError: arguments whose types differ from the pattern's.
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
    """Find the sparsity of the Jacobian of `fn`, and return the function that computes it.

    Element (i, j) of a call's result is dy_i / dx_j. The pattern covers every value of the arguments. It is exact for
    ops that move, reduce and multiply elements, also in loops with known counters. If data decide, such as an index
    that is an argument, it is the union of all cases. Columns, or rows, without a common nonzero share one product,
    and one program computes all products.

    Args:
        args: arguments of `fn`, or their `TensorSpec`s; their values do not matter. Arrays that `fn` captures are
            constants: the pattern is exact for indices in them.
        argnums: the arguments to differentiate with respect to; the others are data.
        mode: "forward" groups columns, "reverse" rows, "bidirectional" both; "auto" chooses the mode with the fewest
            products.
        pattern: the pattern, dense or sparse, if it is known; it is not checked.
        context, executor: as for `grad`.

    Raises:
        DTypeError: arguments that are not real, or a result that is not a real tensor, which the error names.
        NonStaticShapeError: a symbolic extent.
        UnsupportedError: inside a trace; a pattern with too many nonzeros.

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
    _require_choice("sparse_jacobian", mode, JACOBIAN_MODES)
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
    """Find the sparsity of the Hessian of scalar `fn`, and return the function that computes it.

    The pattern is that of the gradient's Jacobian: arguments that `fn` is linear in, or only adds, do not interact.
    Nonzeros are read from Hessian-vector products, forward over reverse, computed by one program.

    Args:
        args, argnums, pattern, context, executor: as for `sparse_jacobian`.
        mode: "star" uses the symmetry and reads each nonzero directly; "acyclic" needs fewer products and solves a
            sparse triangular system; "forward" groups columns without symmetry; "auto" is "forward" if that needs no
            more products or the matrix is large, else "star".

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
    _require_choice("sparse_hessian", mode, HESSIAN_MODES)
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


def _require_choice(name: str, mode: str, modes: Sequence[str]) -> None:
    if mode not in modes:
        raise InvalidConfigError(f"{name}: mode must be one of {', '.join(modes)}, got {mode!r}")


def _csr(matrix: Any) -> Any:
    """Build a boolean CSR array in canonical form."""
    result: Any = scipy_sparse.csr_array(matrix)
    result = result.astype(bool)
    result.eliminate_zeros()
    result.sum_duplicates()
    result.sort_indices()
    return result


class _Flat:
    """A function of lists of leaves: the active ones, which are differentiated, and all others."""

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
        """Compute the leaves of the result."""
        return flatten(self.fn(*unflatten(self.tree, leaves)))[0]

    def _of_active(self, leaves: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return the function of the active leaves, with the others fixed."""

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
        """Return the pattern, and whether it was computed in reverse, for lack of a forward derivative."""
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
        """Check a pattern that the caller gives."""
        result = _csr(pattern)
        if result.shape != (self.rows, self.columns):
            raise ShapeError(
                f"{self.name}: the pattern has shape {result.shape}, the matrix {(self.rows, self.columns)}"
            )
        return result

    # ---- nonzeros ----------------------------------------------------------------------------------

    def derivative(self, pattern: Any, cover: Cover) -> SparseDerivative:
        """Build the reusable function."""
        forward = _seeds(cover.columns, cover.forward, self.active_specs)
        reverse = _seeds(cover.rows, cover.reverse, self.results)

        def products(leaves: Sequence[Any]) -> Any:
            from tenferro.api.manipulation import concat, reshape  # because few programs need them

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
    """Find the pattern of a linear program: rows for outputs, columns for inputs after the first `data` ones."""
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
    """Build functions that write, for each leaf, the sum of the unit tensors of each colour; None without colours."""
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
