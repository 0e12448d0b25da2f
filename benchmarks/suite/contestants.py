"""Contestants: each function prepares a case, and returns a function that runs the case once.

The results are NumPy arrays.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import opt_einsum
import scipy.special
from cases import Case

import tenferro as tnf
from xla_peer import XlaExecutor

__all__ = ["CONTESTANTS", "Run", "program_of"]

Run = Callable[[], Any]


class Names:
    """A namespace with the names of `base`, some of which are replaced by the names in `own`."""

    def __init__(self, base: Any, **own: Any) -> None:
        self.__dict__.update(own)
        self._base = base

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


def native(case: Case, args: tuple[Any, ...]) -> Run:
    """Prepare a run by tenferro's native executor, with column-major results."""
    program, executor = program_of(case, args), tnf.GraphExecutor()
    return lambda: executor.run(program, *args)


def native_as_made(case: Case, args: tuple[Any, ...]) -> Run:
    """Prepare a run by tenferro's native executor that returns results in the layout in which they were computed.

    Other contestants do the same.
    """
    program, executor = program_of(case, args), tnf.GraphExecutor(order="K")
    return lambda: executor.run(program, *args)


def peer(case: Case, args: tuple[Any, ...]) -> Run:
    """Prepare a run by tenferro through PJRT."""
    program, executor = program_of(case, args), XlaExecutor("cpu")
    return lambda: executor.run(program, *args)


def program_of(case: Case, args: tuple[Any, ...]) -> Any:
    """Compile the case to a program. If the case asks for the gradient, the program computes value and gradient."""
    fn = lambda *xs: case.fn(tnf, *xs)
    every = tuple(range(len(args)))
    return tnf.compile(tnf.value_and_grad(fn, every) if case.gradient else fn, *args)


def numpy(case: Case, args: tuple[Any, ...]) -> Run | None:
    """Prepare NumPy calls, with opt_einsum for contractions.

    autograd computes gradients. The result is None if autograd is missing or does not support a function.
    """
    names = Names(np, erf=scipy.special.erf, einsum=opt_einsum.contract)
    if not case.gradient:
        return lambda: case.fn(names, *args)
    if importlib.util.find_spec("autograd") is None:
        return None
    import autograd
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    names = Names(anp, erf=erf, matrix_transpose=lambda x: anp.swapaxes(x, -1, -2))
    fn = autograd.value_and_grad(lambda xs: case.fn(names, *xs))
    try:
        fn(args)
    except NotImplementedError:
        return None
    return lambda: fn(args)


def jitted(case: Case, args: tuple[Any, ...]) -> Run:
    """Prepare a run by `jax.jit`. Arguments are NumPy arrays, and results are converted to NumPy arrays."""
    import jax
    import jax.numpy as jnp

    names = Names(jnp, erf=jax.scipy.special.erf)
    fn = lambda *xs: case.fn(names, *xs)
    every = tuple(range(len(args)))
    compiled = jax.jit(jax.value_and_grad(fn, every) if case.gradient else fn)
    return lambda: jax.tree.map(np.asarray, compiled(*args))


def torch(case: Case, args: tuple[Any, ...]) -> Run | None:
    """Prepare a run by PyTorch in eager mode; None if PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch as lib

    lib.set_num_threads(tnf.GraphExecutor().workers.count)
    names = _torch_names(lib)
    tensors = [lib.from_numpy(np.array(x)).requires_grad_(case.gradient) for x in args]

    def run() -> Any:
        value = case.fn(names, *tensors)
        if not case.gradient:
            return value.numpy()
        grads = lib.autograd.grad(value, tensors)
        return value.detach().numpy(), [g.numpy() for g in grads]

    return run


def _torch_names(lib: Any) -> Names:
    def summed(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return lib.sum(x) if axis is None else lib.sum(x, axis, keepdim=keepdims)

    return Names(
        lib,
        sum=summed,
        mean=lambda x, axis, keepdims=False: lib.mean(x, axis, keepdim=keepdims),
        max=lambda x, axis, keepdims=False: lib.amax(x, axis, keepdim=keepdims),
        maximum=lambda x, y: lib.clamp_min(x, y),
        transpose=lib.permute,
        matrix_transpose=lambda x: x.mT,
        asarray=lib.from_numpy,
        einsum=lambda spec, *xs, **_: opt_einsum.contract(spec, *xs, backend="torch"),
        linalg=lib.linalg,
    )


def pytensor(case: Case, args: tuple[Any, ...]) -> Run | None:
    """Prepare a run by PyTensor with its default linker.

    It runs only the cases of elementwise chains.
    """
    if case.group != "chains" or importlib.util.find_spec("pytensor") is None:
        return None
    import pytensor as lib
    import pytensor.tensor as pt

    symbols = [pt.tensor(dtype=x.dtype, shape=x.shape) for x in args]
    value = case.fn(SimpleNamespace(exp=pt.exp, tanh=pt.tanh, log=pt.log, sqrt=pt.sqrt), *symbols)
    fn = lib.function(symbols, value)
    return lambda: fn(*args)


CONTESTANTS: dict[str, Callable[[Case, tuple[Any, ...]], Run | None]] = {
    "native": native,
    "native, K": native_as_made,
    "PJRT": peer,
    "jax.jit": jitted,
    "NumPy": numpy,
    "torch": torch,
    "PyTensor": pytensor,
}
"""Contestants by name, in the order of the table's columns. For gradients, "NumPy" stands for autograd."""
