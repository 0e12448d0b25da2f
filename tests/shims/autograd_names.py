"""Module that is named autograd but has tenferro's functions, to run autograd's test suite on tenferro.

If tenferro lacks a name, the name is a `Missing` object here. The tests of this name then fail with a message that
says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import optree
from scipy.stats import dirichlet as scipy_dirichlet

import tenferro as tnf

__all__ = ["install"]

TOLERANCE = 1e-6
"""Relative error up to which autograd's own check of gradients accepts a gradient."""


class Missing:
    """Object for a name that tenferro lacks. The suite can import the name, but tests that use it fail."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Missing:
        return Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise AttributeError(f"tenferro has no {self._name}")


class Names(ModuleType):
    """Module that looks up a name in several modules, one after the other."""

    def __init__(self, name: str, *sources: Any, **own: Any) -> None:
        super().__init__(name)
        self.__path__ = []
        self._sources = sources
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        for source in self._sources:
            if hasattr(source, name):
                return getattr(source, name)
        if name.startswith("_"):
            raise AttributeError(name)
        return Missing(f"{self.__name__.removeprefix('autograd.')}.{name}")


def _floats(x: Any) -> Any:
    """Convert integers and bools to floats, because autograd also differentiates with respect to integers and bools."""

    def of_leaf(leaf: Any) -> Any:
        if isinstance(leaf, tnf.TracedTensor):
            return leaf
        array = np.asarray(leaf)
        return array.astype(np.float64) if array.dtype.kind in "biu" else array

    return optree.tree_map(of_leaf, x)


def _of_one(transform: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a transform with autograd's parameter `argnum`, from a transform of functions of one argument."""

    def of_function(function: Any, argnum: Any = 0) -> Any:
        def transformed(*args: Any, **options: Any) -> Any:
            places = argnum if isinstance(argnum, tuple | list) else (argnum,)

            def of_places(chosen: Any) -> Any:
                operands = list(args)
                for place, value in zip(places, chosen, strict=True):
                    operands[place] = value
                return function(*operands, **options)

            chosen = tuple(_floats(args[place]) for place in places)
            if isinstance(argnum, tuple | list):
                return transform(of_places, chosen)
            return transform(lambda x: of_places((x,)), chosen[0])

        return transformed

    return of_function


def _pulled_ones(function: Any, x: Any) -> Any:
    y, pull = tnf.vjp(function, x)
    return pull(tnf.ones_like(y))[0]


def _of_one_element(function: Any) -> Callable[[Any], Any]:
    """Return a version of `function` that removes the axes of a result of one element.

    autograd's `grad` accepts such results.
    """

    def of_number(x: Any) -> Any:
        y = function(x)
        return tnf.reshape(y, ()) if np.shape(y) and tnf.size(y) == 1 else y

    return of_number


def _holomorphic_grad(function: Any, x: Any) -> Any:
    """Return the complex derivative of a holomorphic function. It is the conjugate of tenferro's gradient."""
    return np.conj(tnf.grad(function, holomorphic=True)(np.asarray(x, complex)))


def _where(condition: Any, *branches: Any, **named: Any) -> Any:
    """Call `where` with autograd's names of the arguments.

    If no argument is an array, return a number or a list.
    """
    operands: Any = (condition, *branches, *named.values())
    result = tnf.where(*operands)
    arrays = (np.ndarray, np.generic, tnf.TracedTensor)
    if len(operands) == 1 or any(isinstance(leaf, arrays) for leaf in optree.tree_leaves(operands)):
        return result
    return result.tolist()


def _make_diagonal(x: Any, offset: int = 0, axis1: int = -1, axis2: int = -2) -> Any:
    """Return matrices. Their diagonals are the vectors along the last axis of x."""
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(f"make_diagonal of offset {offset}, axes {axis1} and {axis2}")
    return tnf.multiply(x[..., None], np.eye(x.shape[-1]))


class _Int64(np.int64):
    """Subclass of NumPy's int64 that can also convert traced tensors."""

    def __new__(cls, x: Any = 0) -> Any:
        return x.astype(np.int64) if isinstance(x, tnf.TracedTensor) else np.int64(x)


def _real_if_close(x: Any) -> Any:
    """Return x; a traced tensor remains unchanged.

    The suite's complex arguments are far from real numbers, so that nothing would change.
    """
    return x if isinstance(x, tnf.TracedTensor) else tnf.real_if_close(x)


def _convolve(
    a: Any, b: Any, axes: Any = None, dot_axes: Any = ((), ()), mode: str = "full"
) -> Any:
    """Convolve along pairs of axes of a and b, as autograd's `convolve` does.

    Along other pairs of axes, products are summed. The result has the remaining axes of `a`, then those of `b`, and
    then the convolved axes.
    """
    if axes is None:
        return tnf.signal.convolve(a, b, mode)
    operands, left = [], ()
    for x, conv, dot in zip((a, b), axes, dot_axes, strict=True):
        ignored = [i for i in range(x.ndim) if i not in (*conv, *dot)]
        left += tuple(x.shape[i] for i in ignored)
        parts = [[x.shape[i] for i in group] for group in (ignored, dot)]
        rows = [int(np.prod(part)) for part in parts]
        ordered = tnf.permute_dims(x, (*ignored, *dot, *conv))
        operands.append(tnf.reshape(ordered, (*rows, *(x.shape[i] for i in conv))))
    of_terms = tnf.vmap(lambda x, y: tnf.signal.convolve(x, y, mode))
    of_pair = lambda x, y: tnf.sum(of_terms(x, y), axis=0)
    result = tnf.vmap(tnf.vmap(of_pair, in_axes=(None, 0)), in_axes=(0, None))(*operands)
    return tnf.reshape(result, (*left, *result.shape[2:]))


def _odeint(function: Any, y0: Any, t: Any, func_args: Any = (), **options: Any) -> Any:
    """Integrate by `tnf.odeint` with SciPy's signature. The additional arguments of `function` are a tuple there."""
    return tnf.odeint(function, y0, t, *func_args, derivative="discrete", **options)


def _grad_and_aux(function: Any, x: Any) -> Any:
    return tnf.grad(function, has_aux=True)(x)


def _make_vjp(function: Any, x: Any) -> Any:
    y, pull = tnf.vjp(function, x)
    return (lambda y_bar: pull(y_bar)[0]), y


def _make_jvp(function: Any, x: Any) -> Any:
    return lambda v: tnf.jvp(function, (x,), (v,))


def _product_with_hessian(function: Any, x: Any) -> Any:
    return (lambda v: tnf.hvp(function, (x,), (v,))), tnf.grad(function)(x)


def _product_with_jacobian(function: Any, x: Any) -> Any:
    """Return a function that multiplies the Jacobian by a tensor v on the left.

    v may have fewer axes than the result of `function`.
    """

    def of_tensor(v: Any) -> Any:
        jacobian = tnf.jacrev(function)(x)
        return tnf.tensordot(v, jacobian, axes=np.ndim(v))

    return of_tensor


def _half_square(y: Any) -> Any:
    return tnf.vecdot(y, y) / 2


def _make_ggnvp(function: Any, g: Any = _half_square) -> Callable[[Any], Any]:
    """Return a function that computes products with the Gauss-Newton matrix J^T H J.

    J is the Jacobian of `function`, and H the Hessian of `g`.
    """

    def at(x: Any) -> Callable[[Any], Any]:
        y, push = tnf.linearize(function, x)
        _, pull = tnf.vjp(function, x)
        return lambda v: pull(tnf.hvp(g, (y,), (push(v),)))[0]

    return at


def _with_operand(product: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Convert `product(function, x)(v)` to autograd's form, in which `product(function)` is a function of x and v."""
    return lambda function: lambda x, v: product(function, x)(v)


def _check_grads(
    function: Any, argnum: Any = 0, modes: Any = ("fwd", "rev"), order: int = 2
) -> Callable[..., None]:
    """Check derivatives by tenferro's `check_grads`, in both modes.

    It compares with complex steps and adjoints. Its tolerances are for well-conditioned points. At other points,
    autograd's tolerance is used.
    """

    def check(*args: Any, **options: Any) -> None:
        places = argnum if isinstance(argnum, tuple | list) else (argnum,)

        def of_places(*chosen: Any) -> Any:
            operands = list(args)
            for place, value in zip(places, chosen, strict=True):
                operands[place] = value
            return function(*operands, **options)

        chosen = tuple(_floats(args[place]) for place in places)
        try:
            tnf.check_grads(of_places, chosen, order)
        except tnf.errors.GradientMismatchError:
            tnf.check_grads(of_places, chosen, order, rtol=TOLERANCE)

    return check


def _combo_check(function: Any, *checked: Any, **how: Any) -> Callable[..., None]:
    """Check the derivatives of `function` for every combination of the listed arguments and options."""
    from itertools import product

    def check(*args: Any, **options: Any) -> None:
        pairs = [[(name, value) for value in values] for name, values in options.items()]
        for chosen in product(*args):
            for option in product(*pairs):
                _check_grads(function, *checked, **how)(*chosen, **dict(option))

    return check


def _close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) < 1e-6 or abs(a - b) / abs(a + b) < 1e-6)


def _check_equivalent(x: Any, y: Any) -> None:
    optree.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), x, y)


class _DTypesAndConstants:
    """NumPy's classes, constants, version and errors, under autograd's names for them."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if isinstance(value, type | float | str) or value is None or name == "random":
            return value
        raise AttributeError(name)


def _modules() -> Mapping[str, ModuleType]:
    numpy = Names("autograd.numpy", _DTypesAndConstants(), tnf)
    numpy.__dict__.update(
        where=_where,
        make_diagonal=_make_diagonal,
        int64=_Int64,
        real_if_close=_real_if_close,
        row_stack=tnf.vstack,
        linalg=Names(
            "autograd.numpy.linalg",
            tnf.linalg,
            LinAlgError=np.linalg.LinAlgError,
            _dot=tnf.matmul,
            T=tnf.matrix_transpose,
        ),
        fft=Names("autograd.numpy.fft", tnf.fft),
        random=np.random,
    )
    grad = _of_one(lambda f, x: tnf.grad(_of_one_element(f))(x))
    top = Names(
        "autograd",
        numpy=numpy,
        grad=grad,
        value_and_grad=_of_one(lambda f, x: tnf.value_and_grad(_of_one_element(f))(x)),
        grad_and_aux=_of_one(_grad_and_aux),
        holomorphic_grad=_of_one(_holomorphic_grad),
        elementwise_grad=_of_one(_pulled_ones),
        deriv=_of_one(_pulled_ones),
        jacobian=_of_one(lambda f, x: tnf.jacrev(f)(x)),
        hessian=_of_one(lambda f, x: tnf.hessian(f)(x)),
        make_vjp=_of_one(_make_vjp),
        make_jvp=_of_one(_make_jvp),
        make_hvp=_of_one(_product_with_hessian),
        hessian_tensor_product=_with_operand(lambda f, x: lambda v: tnf.hvp(f, (x,), (v,))),
        tensor_jacobian_product=_with_operand(_product_with_jacobian),
        make_ggnvp=_make_ggnvp,
        checkpoint=tnf.checkpoint,
        tuple=tuple,
        list=list,
        dict=dict,
        isinstance=isinstance,
    )  # fmt: skip
    test_util = Names(
        "autograd.test_util", check_grads=_check_grads, combo_check=_combo_check,
        check_equivalent=_check_equivalent, scalar_close=_close,
    )  # fmt: skip
    tracer = Names("autograd.tracer", isbox=lambda x: isinstance(x, tnf.TracedTensor))
    scipy = {
        name: Names(f"autograd.scipy.{name}", *_own(tnf, name))
        for name in ("integrate", "linalg", "signal", "special", "stats")
    }
    # SciPy's aliases for the functions of integer order, which autograd has, too.
    scipy["special"].__dict__.update(jn=tnf.special.jv, yn=tnf.special.yv)
    scipy["signal"].__dict__.update(convolve=_convolve)
    scipy["integrate"].__dict__.update(odeint=_odeint)
    stats = _own(tnf, "stats")
    # When autograd's test of the Dirichlet distribution is imported, it draws a sample, for which SciPy's function is
    # used.
    dirichlet = Names(
        "autograd.scipy.stats.dirichlet", *_own(*stats, "dirichlet"), rvs=scipy_dirichlet.rvs
    )
    scipy["stats"].__dict__["dirichlet"] = dirichlet
    normal = Names("autograd.scipy.stats.multivariate_normal", *_own(*stats, "multivariate_normal"))
    packages = Names("autograd.scipy", **scipy)
    top.__dict__.update(scipy=packages, test_util=test_util, tracer=tracer)
    return {
        "autograd": top,
        "autograd.numpy": numpy,
        "autograd.numpy.random": np.random,
        "autograd.numpy.linalg": numpy.linalg,
        "autograd.numpy.fft": numpy.fft,
        "autograd.test_util": test_util,
        "autograd.tracer": tracer,
        "autograd.scipy": packages,
        **{f"autograd.scipy.{name}": module for name, module in scipy.items()},
        "autograd.scipy.stats.multivariate_normal": normal,
    }


def _own(*parent_and_name: Any) -> tuple[Any, ...]:
    """Return a tuple with the namespace called `name` of a parent; an empty tuple if tenferro lacks it."""
    if len(parent_and_name) < 2:
        return ()
    parent, name = parent_and_name
    return (getattr(parent, name),) if hasattr(parent, name) else ()


def install() -> None:
    """Install this module's names in this process, so that `import autograd` imports them."""
    sys.modules.update(_modules())
