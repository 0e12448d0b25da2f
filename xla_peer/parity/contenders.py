"""Computations with which a program is compared: programs, modules, artifacts, functions of JAX, PyTorch or NumPy."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from lowering import StableHloModule, import_stablehlo
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.extension.saving import load as load_program
from tenferro.program import GraphProgram
from tenferro.types import DType, flatten, unflatten
from xla_peer import pjrt
from xla_peer.from_jax import from_jax
from xla_peer.isolated import IsolatedExecutor
from xla_peer.tracing import traced

__all__ = ["Contender", "checked_outputs", "original_outputs", "program_of_module"]


class Contender:
    """Another computation of the outputs of a program, which `check_parity` receives as `against`.

    Args:
        other: a program; a StableHLO module, as text, bytes, a `StableHloModule` or a path; an artifact; or a
            function of JAX's arrays, PyTorch's tensors, or NumPy's arrays.
        program: the program whose outputs `other` should compute.
        peer: the executor that runs `other` if it is a module.

    Raises:
        InvalidConfigError: `other` is none of these kinds of computation.
    """

    def __init__(self, other: Any, program: GraphProgram, peer: Any) -> None:
        self.program, self.peer = program, peer
        if isinstance(other, str | os.PathLike) and str(other).endswith(".tnf"):
            other = load_program(other)
        is_module = isinstance(other, StableHloModule | str | bytes | bytearray | os.PathLike)
        if not (
            is_module or isinstance(other, GraphProgram) or is_artifact(other) or callable(other)
        ):
            raise InvalidConfigError(
                "check_parity: against= takes a program, a StableHLO module or a path to one, an artifact or a "
                f"function, got {type(other).__name__}"
            )
        self.other: Any = program_of_module(other) if is_module else other
        self.is_module = is_module

    @property
    def name(self) -> str:
        """The kind of computation for reports: "module", "artifact", "program" or "other"."""
        if self.is_module:
            return "module"
        if is_artifact(self.other):
            return "artifact"
        return "program" if isinstance(self.other, GraphProgram) else "other"

    def outputs(self, arguments: Sequence[Any]) -> list[Any]:
        """Run the computation on the arguments of the program, and return its outputs.

        Raises:
            ArityError, ShapeError, DTypeError: the outputs do not have the types of the program's outputs.
        """
        other = self.other
        if isinstance(other, GraphProgram):
            leaves, _ = flatten(tuple(arguments))
            results = (
                self._as_written(other, leaves)
                if self.is_module
                else other.run(*unflatten(other.in_tree, leaves))
            )
        elif is_artifact(other):
            results = other.run(*arguments, executor=self.peer)
        elif isinstance(self.peer, IsolatedExecutor) and _is_of_jax(other):
            results = self._in_child(other, arguments)
        else:
            results = _called(other, arguments)
        leaves, _ = flatten(results)
        return checked_outputs("check_parity", self.program, leaves, f"the {self.name}")

    def _in_child(self, function: Any, arguments: Sequence[Any]) -> list[Any]:
        """Run a function that `jax.jit` has wrapped in the child process, compiled with JAX's options.

        A function with callbacks runs in the calling process, because Python callbacks cannot be called from the child.
        """
        module = from_jax(function, *arguments).origin
        if module is None:
            return _called(function, arguments)
        leaves, _ = flatten(tuple(arguments))
        executor = self.peer.with_options({"xla_allow_excess_precision": True})
        return executor.compile_module(module).run_leaves(
            [np.asarray(x, order="C") for x in leaves]
        )

    def _as_written(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """Run the original text of a module or, if the peer does not accept text, the program that was imported."""
        results = original_outputs(program, leaves, self.peer)
        if results is None:
            return self.peer.run(program, *unflatten(program.in_tree, leaves))
        return results

    def as_program(self, arguments: Sequence[Any]) -> GraphProgram | None:
        """Return the computation as a program, to search for the first divergent op; None if it cannot be
        converted.
        """
        if isinstance(self.other, GraphProgram):
            return self.other
        try:
            if is_artifact(self.other):
                return import_stablehlo(self.other.module, drops_windows=True)
            return traced(self.other, *arguments)
        except Exception:
            return None  # functions of other packages may raise any exception when they are traced


def checked_outputs(
    caller: str, program: GraphProgram, outputs: Sequence[Any], side: str
) -> list[Any]:
    """Convert outputs that were computed elsewhere to arrays, and check their types.

    Args:
        caller: the name of the public function, for messages.
        program: the program that declares the types.
        side: a description of the computation, for messages.

    Raises:
        ArityError, DTypeError, ShapeError: the outputs do not have the types that the program declares.
    """
    arrays = list(map(np.asarray, outputs))
    specs = program.output_specs
    if len(arrays) != len(specs):
        raise ArityError(
            f"{caller}: {program.name} has {len(specs)} outputs, got {len(arrays)} of {side}"
        )
    for name, spec, y in zip(program.output_names, specs, arrays, strict=True):
        if DType.of(y.dtype) is not spec.dtype:
            raise DTypeError(f"{caller}: {name} is {spec}, got {DType.of(y.dtype)} of {side}")
        if spec.is_static and y.shape != tuple(spec.shape):
            raise ShapeError(f"{caller}: {name} is {spec}, got shape {list(y.shape)} of {side}")
    return arrays


def original_outputs(program: GraphProgram, leaves: Sequence[Any], peer: Any) -> list[Any] | None:
    """Run the StableHLO text from which a program was imported, by the executor `peer`.

    Return None if the program was not imported, or if the executor does not run modules.

    Raises:
        MlirDiagnosticError, BackendFailureError: dynamic extents of the text cannot be resolved, or XLA refuses it.
    """
    module = program.origin
    if module is None or not hasattr(peer, "compile_module"):
        return None
    module = module.refined([leaf.shape for leaf in leaves])
    return peer.compile_module(module).run_leaves([np.asarray(x, order="C") for x in leaves])


def program_of_module(module: Any, arguments: Sequence[Any] = ()) -> GraphProgram:
    """Convert a module, an artifact or a function to a program, which keeps the module's text.

    A program is returned unchanged.

    Args:
        arguments: the arguments for which a function is traced.

    Raises:
        MlirDiagnosticError, UnsupportedError: the text is not a module, or has operations without a
            counterpart.
    """
    if isinstance(module, GraphProgram):
        return module
    if is_artifact(module):
        return import_stablehlo(module.module, drops_windows=True)
    return traced(module, *arguments) if callable(module) else import_stablehlo(module)


def is_artifact(value: Any) -> bool:
    """Return whether a value is an artifact with a method `run`, such as `xla_peer.load` returns."""
    return isinstance(getattr(value, "module", None), StableHloModule) and hasattr(value, "run")


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call a function of JAX, PyTorch or NumPy with arrays of its framework."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and _is_of_torch(function, torch):
        leaves, tree = flatten(tuple(arguments))
        results = function(*unflatten(tree, [_tensor(torch, x) for x in leaves]))
        return [_host(torch, y) for y in flatten(results)[0]]
    if _is_of_jax(function):
        with pjrt.wide_dtypes():
            return function(*arguments)
    return function(*arguments)


def _is_of_jax(function: Any) -> bool:
    """Return whether `jax.jit` wrapped a function."""
    stages: Any = sys.modules.get("jax.stages")
    return stages is not None and isinstance(function, stages.Wrapped)


def _tensor(torch: Any, x: Any) -> Any:
    """Copy an array to a PyTorch tensor.

    An array of bfloat16 is copied as integers with the same bits, because PyTorch does not accept its NumPy dtype.
    """
    array = np.array(x)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _host(torch: Any, y: Any) -> Any:
    """Convert a tensor, or a number, to an array."""
    if not isinstance(y, torch.Tensor):
        return np.asarray(y)
    y = y.detach().cpu().resolve_conj().resolve_neg()
    if y.dtype == torch.bfloat16:
        return y.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return y.numpy()


def _is_of_torch(function: Any, torch: Any) -> bool:
    """Return whether a function expects PyTorch tensors, because PyTorch defines it or its code refers to PyTorch."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, torch.nn.Module) or _belongs_to_torch(function):
        return True
    if not inspect.isfunction(inspect.unwrap(function)):
        return False
    names = inspect.getclosurevars(function)
    values = (*names.globals.values(), *names.nonlocals.values())
    return "torch" in names.unbound or any(map(_belongs_to_torch, values))


def _belongs_to_torch(value: Any) -> bool:
    """Return whether a value is a module of PyTorch, or is defined in such a module, judged by the module's name."""
    value = getattr(value, "__objclass__", value)  # the class of torch.Tensor.sin, for example
    name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return str(name).partition(".")[0] == "torch"
