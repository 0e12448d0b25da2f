"""Contestants: each function prepares a kernel with its arguments, and returns a function that runs the kernel once.

A contestant returns None if it cannot run the kernel. Each call compiles the kernel again, so that the measured time
to the first result includes the compilation.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from kernel import Kernel

import tenferro as tnf

__all__ = ["CONTESTANTS", "Run", "interpreted", "warm_up"]

Run = Callable[[], Any]


def native(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run:
    """Prepare a run by tenferro's native executor."""
    return _tenferro(kernel, arguments, gradient, tnf.GraphExecutor())


def interpreted(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run:
    """Prepare a run by tenferro's native executor without compiled code, as if llvmlite were not installed."""
    return _tenferro(kernel, arguments, gradient, tnf.GraphExecutor(compiled=False))


def peer(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run | None:
    """Prepare a run by tenferro through PJRT; None without jaxlib."""
    if importlib.util.find_spec("jaxlib") is None:
        return None
    from xla_peer import XlaExecutor

    return _tenferro(kernel, arguments, gradient, XlaExecutor("cpu", notices=False))


def _tenferro(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool, executor: Any) -> Run:
    if gradient:
        function, arrays = kernel.loss(tnf, arguments)
        function = tnf.grad(function, kernel.gradient)
    else:
        function, arrays = kernel.of_arrays(tnf, arguments)
    compiled = tnf.jit(function, executor=executor)
    return lambda: compiled(*arrays)


def jitted(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run | None:
    """Prepare a run by `jax.jit`. Arguments are NumPy arrays, and results are converted to NumPy arrays."""
    if importlib.util.find_spec("jax") is None:
        return None
    import jax

    if gradient:
        function, arrays = kernel.loss(_jax_names(), arguments)
        function = jax.grad(function, kernel.gradient)
    else:
        function, arrays = kernel.of_arrays(_jax_names(), arguments)
    compiled = jax.jit(function)
    return lambda: jax.tree.map(np.asarray, compiled(*arrays))


def _jax_names() -> SimpleNamespace:
    import jax
    from jax import lax

    own = {
        "scan": lax.scan,
        "fori_loop": lax.fori_loop,
        "while_loop": lax.while_loop,
        "cond": lax.cond,
        "vmap": jax.vmap,
        "jvp": jax.jvp,
        "grad": jax.grad,
        "value_and_grad": jax.value_and_grad,
        "lax": lax,
        "nn": jax.nn,
        "logsumexp": jax.nn.logsumexp,
        "lgamma": jax.scipy.special.gammaln,
    }
    return SimpleNamespace(**{**vars(jax.numpy), **own})


def numpy(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run | None:
    """Prepare a run of the handwritten NumPy version; None for gradients, which it does not compute."""
    return None if gradient else lambda: kernel.numpy(*arguments)


def calls(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run | None:
    """Prepare a run of the NumPy version with one call per operation; None if the kernel has no such version."""
    if gradient or kernel.calls is None:
        return None
    by_hand = kernel.calls
    return lambda: by_hand(*arguments)


def numba(kernel: Kernel, arguments: tuple[Any, ...], gradient: bool) -> Run | None:
    """Prepare a run of the handwritten loop, compiled by numba; None for gradients, or if there is no loop."""
    if gradient or kernel.numba is None or importlib.util.find_spec("numba") is None:
        return None
    from numba import njit

    compiled = njit(kernel.numba)
    return lambda: compiled(*arguments)


CONTESTANTS: dict[str, Callable[[Kernel, tuple[Any, ...], bool], Run | None]] = {
    "native": native,
    "PJRT": peer,
    "jax": jitted,
    "numpy": numpy,
    "calls": calls,
    "numba": numba,
}
"""Contestants by name, in the order of the table's columns."""


def warm_up(names: list[str]) -> None:
    """Import every library and compile a tiny kernel. Otherwise a time limit might interrupt an import."""
    tiny = Kernel(
        "warm up",
        "",
        lambda rng: (np.ones(10_000),),
        lambda n, x: n.scan(lambda total, each: (total + each, None), 0.0, x)[0],
        lambda x: x.sum(),
        size=(),
        small=(),
        numba=lambda x: x.sum(),
    )
    for name in names:
        run = CONTESTANTS[name](tiny, tiny.arguments(()), False)
        if run is not None:
            run()
