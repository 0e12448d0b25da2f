"""`tenferro.optimize`: SciPy's minimisers on trees, with automatic derivatives, and minimisers inside programs.

Parameters are a tree of floating-point or complex arrays, of any shapes and dtypes. SciPy gets them as one float64
vector, in the order of `tree.ravel`, in which the real parts of a complex leaf precede its imaginary parts. The user's
functions are traced once, and run with the dtypes of the tree.

Source: scipy.optimize.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.ad import AdContext
from tenferro.api import tree
from tenferro.api.autodiff import hessian, hvp, jacfwd, jacrev, value_and_grad
from tenferro.api.creation import asarray
from tenferro.api.descent import Minimum, lbfgs, levenberg_marquardt
from tenferro.api.jit import jit
from tenferro.api.manipulation import astype
from tenferro.dispatch import spec_of
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.program import Executor
from tenferro.types import ArrayLike, DType, PyTree, Tensor, difference, leaf_paths, prefix_leaves

__all__ = ["Minimum", "lbfgs", "least_squares", "levenberg_marquardt", "minimize"]

WITHOUT_DERIVATIVES = ("nelder-mead", "powell", "cobyla", "cobyqa")
BY_GRADIENT = ("bfgs", "cg", "l-bfgs-b", "slsqp", "tnc")
BY_PRODUCT = ("newton-cg", "trust-constr", "trust-krylov", "trust-ncg")
BY_HESSIAN = ("dogleg", "trust-exact")
METHODS = (*WITHOUT_DERIVATIVES, *BY_GRADIENT, *BY_PRODUCT, *BY_HESSIAN)
IMAGINARY_UNIT = np.asarray(1j, np.complex64)


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: Sequence[Any] = (),
    method: str | None = None,
    *,
    bounds: tuple[Any, Any] | None = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    context: AdContext | None = None,
) -> Any:
    """Minimise a function of a tree by one of SciPy's methods.

    SciPy's method gets the derivatives that it uses. One program computes the value and the gradient. Newton-CG,
    trust-ncg, trust-krylov and trust-constr also get products with the Hessian; dogleg and trust-exact get the Hessian.

    Args:
        fun: a function of a tree like x0, and of `args`, whose result is a real scalar.
        x0: the initial parameters.
        args: further arguments of `fun`, which are trees of arrays and are held constant.
        method: the name of the method in SciPy. The default is BFGS, and L-BFGS-B if there are bounds.
        bounds: two trees (lower, upper) that are prefixes of the tree of parameters. A leaf is an array that broadcasts
            to its parameter, a number, or None for no bound. Complex parameters cannot have bounds.
        callback: a function that is called with the parameters after each step. If its only parameter is named
            `intermediate_result`, it is called with an intermediate result, as in SciPy.
        executor: the executor of the programs, such as an `XlaExecutor`; the default is native.
        context: the derivative rules.

    Returns:
        SciPy's `OptimizeResult`, whose field `x` is a tree like x0. Other vectors and matrices, such as `jac` and
            `hess_inv`, are in the order of SciPy's vector.

    Raises:
        DTypeError: a parameter is an integer or a boolean.
        InvalidConfigError: SciPy does not have the method, or a complex parameter has bounds.
        ArityError, ShapeError: the bounds have a different structure, or do not broadcast.

    >>> def rosenbrock(p):
    ...     return (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    >>> result = minimize(rosenbrock, {"x": -1.2, "y": 1.0})
    >>> {name: round(float(value), 4) for name, value in result.x.items()}
    {'x': 1.0, 'y': 1.0}

    Source: scipy.optimize.minimize.
    """
    from scipy import optimize  # because its import is slow

    name = _method("minimize", method, bounds)
    start = _Parameters("minimize", x0)

    def of_vector(vector: ArrayLike, *extra: np.ndarray[Any, Any]) -> Any:
        return fun(start.tree(vector), *extra)

    value = jit(of_vector, executor=executor)
    slope = jit(value_and_grad(of_vector, context=context), executor=executor)
    product = jit(
        lambda vector, direction, *extra: hvp(
            lambda x: of_vector(x, *extra), (vector,), (direction,), context=context
        ),
        executor=executor,
    )
    curvature = jit(hessian(of_vector, context=context), executor=executor)
    derivatives: dict[str, Any] = {}
    if name not in WITHOUT_DERIVATIVES:
        derivatives["jac"] = True
    if name in BY_PRODUCT:
        # SciPy calls the product with a vector of int8 to find out its dtype, so the vector is converted.
        derivatives["hessp"] = lambda x, p, *extra: np.asarray(
            product(x, np.asarray(p, np.float64), *extra)
        )
    if name in BY_HESSIAN:
        derivatives["hess"] = lambda x, *extra: np.asarray(curvature(x, *extra))

    def value_and_slope(x: ArrayLike, *extra: np.ndarray[Any, Any]) -> Any:
        result, gradient = slope(x, *extra)
        return float(result), np.asarray(gradient, np.float64)

    result = optimize.minimize(
        value_and_slope if derivatives else lambda x, *extra: float(value(x, *extra)),
        start.vector,
        args=tuple(args),
        method=name,
        bounds=None if bounds is None else optimize.Bounds(*start.bounds(bounds)),
        tol=tol,
        callback=None if callback is None else _callback(callback, start),
        options=None if options is None else dict(options),
        **derivatives,
    )
    return start.restored(result)


def least_squares(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: Sequence[Any] = (),
    *,
    bounds: Any = None,
    executor: Executor | None = None,
    context: AdContext | None = None,
    **options: Any,
) -> Any:
    """Minimise the sum of the squares of residuals over a tree of parameters, by SciPy.

    The Jacobian is computed by a separate program, in forward mode if there are at least as many residuals as
    parameters, otherwise in reverse mode.

    Args:
        fun: a function of a tree like x0, and of `args`; its result, the residuals, is a tree of real arrays.
        x0: the initial parameters.
        args: further arguments of `fun`, which are trees of arrays and are held constant.
        bounds: as in `minimize`.
        executor: the executor of the programs; the default is native.
        context: the derivative rules.
        options: options of SciPy: `method`, `loss`, `ftol`, `xtol`, `gtol`, `x_scale`, `f_scale`, `max_nfev` ...

    Returns:
        SciPy's `OptimizeResult`, whose field `x` is a tree like x0. The field `fun` is the vector of residuals, and
            `jac` is their Jacobian, in the order of SciPy's vector.

    Raises:
        DTypeError: a parameter is an integer or a boolean, or a residual is complex.
        InvalidConfigError: `options` has an option for the Jacobian, or a complex parameter has bounds.
        ArityError, ShapeError: the bounds have a different structure, or do not broadcast.

    >>> t = np.array([0.0, 1.0, 2.0, 3.0])
    >>> line = lambda p, t, y: p["slope"] * t + p["offset"] - y
    >>> fit = least_squares(line, {"slope": 0.0, "offset": 0.0}, args=(t, 2 * t + 1))
    >>> {name: round(float(value), 6) for name, value in fit.x.items()}
    {'slope': 2.0, 'offset': 1.0}

    Source: scipy.optimize.least_squares.
    """
    from scipy import optimize  # because its import is slow

    own = {"jac", "diff_step", "jac_sparsity", "kwargs"} & options.keys()
    if own:
        raise InvalidConfigError(
            f"least_squares: the Jacobian is computed, so that {sorted(own)} cannot be given"
        )
    start = _Parameters("least_squares", x0)

    def residuals(vector: ArrayLike, *extra: np.ndarray[Any, Any]) -> Any:
        flat, _ = tree.ravel(fun(start.tree(vector), *extra))
        if not spec_of(flat).dtype.is_float:
            raise DTypeError(
                f"least_squares: the residuals must be real and floating-point, got {spec_of(flat)}; "
                "give real and imaginary parts as a pair"
            )
        return astype(flat, np.float64, copy=False)

    program = jit(residuals, executor=executor)
    count = len(program(start.vector, *args))
    by_columns = count >= len(start.vector)
    matrix = jacfwd if by_columns else jacrev
    jacobian = jit(matrix(residuals, context=context), executor=executor)
    if bounds is not None:
        options["bounds"] = start.bounds(bounds)
    solve: Any = optimize.least_squares  # because its stub takes jac for a name only
    result = solve(
        lambda x, *extra: np.asarray(program(x, *extra)),
        start.vector,
        jac=lambda x, *extra: np.asarray(jacobian(x, *extra)),
        args=tuple(args),
        **options,
    )
    return start.restored(result)


class _Parameters:
    """Conversion between a tree of parameters and one real vector.

    Raises:
        DTypeError: a leaf is not a floating-point or complex array; the error names its path.
        ArityError: the tree has no leaves.
    """

    def __init__(self, name: str, x0: ArrayLike) -> None:
        self.name = name
        leaves, self.treedef = tree.flatten(x0)
        arrays = [np.asarray(asarray(leaf)) for leaf in leaves]
        self.specs = [spec_of(array) for array in arrays]
        for path, spec in zip(leaf_paths(x0), self.specs, strict=True):
            if not spec.dtype.is_inexact:
                raise DTypeError(
                    f"{name}: x0{path} is {spec}, which has no derivative; give a floating-point array"
                )
        if not arrays:
            raise ArityError(f"{name}: x0 has no parameters")
        parts = [_parts(array) for array in arrays]
        vector, self.unravel = tree.ravel(parts)
        self.dtype = vector.dtype
        self.vector = np.array(vector, np.float64)

    def tree(self, vector: ArrayLike) -> Any:
        """Convert a float64 vector to the tree of parameters."""
        parts = self.unravel(astype(vector, self.dtype, copy=False))
        whole = [
            _from_parts(part, spec.dtype) for part, spec in zip(parts, self.specs, strict=True)
        ]
        return tree.unflatten(self.treedef, whole)

    def restored(self, result: Any) -> Any:
        """Replace the vector `x` in SciPy's result by the tree of parameters, and return the result."""
        result.x = tree.map(np.asarray, self.tree(result.x))
        return result

    def bounds(self, bounds: Any) -> tuple[Any, Any]:
        """Return the lower and the upper bounds of all elements, as two vectors."""
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InvalidConfigError(
                f"{self.name}: bounds must be two trees (lower, upper), got {bounds!r:.60}"
            )
        if any(spec.dtype.is_complex for spec in self.specs):
            raise InvalidConfigError(
                f"{self.name}: complex parameters have no bounds; give real and imaginary parts as two"
            )
        return self._bound(bounds[0], -np.inf, "lower"), self._bound(bounds[1], np.inf, "upper")

    def _bound(self, bound: Any, nothing: float, which: str) -> Any:
        full = tree.unflatten(self.treedef, range(len(self.specs)))
        try:
            entries = prefix_leaves(bound, full)
        except ValueError:
            parting = difference(tree.structure(bound), self.treedef, (which, "x0"), is_prefix=True)
            raise ArityError(f"{self.name}: bounds: {parting}") from None
        result: list[Any] = []
        for entry, spec in zip(entries, self.specs, strict=True):
            array = np.asarray(nothing if entry is None else entry, np.float64)
            try:
                result.append(np.broadcast_to(array, spec.shape).ravel())
            except ValueError:
                raise ShapeError(
                    f"{self.name}: the {which} bound of shape {array.shape} does not broadcast to {spec}"
                ) from None
        return np.concatenate(result)


def _parts(array: Any) -> Any:
    return (array.real, array.imag) if array.dtype.kind == "c" else array


def _from_parts(part: Tensor, dtype: DType) -> Any:
    """Return a parameter.

    `part` is the parameter itself or, for a complex dtype, the pair of its real and imaginary parts.
    """
    if not dtype.is_complex:
        return part
    real, imaginary = part
    return astype(real + IMAGINARY_UNIT * imaginary, dtype, copy=False)


def _method(caller: str, method: Any, bounds: PyTree) -> str:
    """Return the name of SciPy's method in lower case.

    Raises:
        InvalidConfigError: SciPy has no such method.
    """
    if method is None:
        return "bfgs" if bounds is None else "l-bfgs-b"
    name = method.lower() if isinstance(method, str) else repr(method)
    if name not in METHODS:
        raise InvalidConfigError(
            f"{caller}: method must be one of {', '.join(METHODS)}, got {method!r}"
        )
    return name


def _callback(callback: Callable[..., Any], start: _Parameters) -> Callable[..., Any]:
    """Return a callback on vectors that calls the user's callback on trees."""
    if {*inspect.signature(callback).parameters} == {"intermediate_result"}:

        def with_result(*, intermediate_result: Any) -> Any:
            return callback(intermediate_result=start.restored(intermediate_result))

        # SciPy passes an intermediate result only if the parameter has that name and is not keyword-only.
        return lambda intermediate_result: with_result(intermediate_result=intermediate_result)
    return lambda x, *state: callback(start.tree(np.asarray(x)))
