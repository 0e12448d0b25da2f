"""tenferro: a compiler for tensor graphs with automatic differentiation.

Write a function, trace it into a graph of ops, and compile the graph to a program. The same program runs natively on
NumPy, or is lowered to StableHLO and runs through PJRT.
"""

import importlib
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tenferro import errors, extension
from tenferro.ad import AdContext
from tenferro.ad.extension_rule import ExtensionAdRule, ExtensionRuleSet
from tenferro.api import *  # noqa: F403  # because the surface is this package's namespace
from tenferro.api import __all__ as _surface
from tenferro.api.autodiff import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jet,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from tenferro.api.compile import GraphCompiler, compile, eval_shape
from tenferro.api.control import associative_scan, cond, fori_loop, map, scan, switch, while_loop
from tenferro.api.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
from tenferro.api.host_calls import check, pure_callback
from tenferro.api.implicit import custom_linear_solve, custom_root, fixed_point
from tenferro.api.jit import disable_jit, jit
from tenferro.api.namespace import Namespace, install_namespace
from tenferro.api.operators import REFUSED, Operators
from tenferro.api.printing import debug_print
from tenferro.api.tensor import TracedTensor
from tenferro.api.vmap import vmap
from tenferro.counterparts import COUNTERPARTS, open_namespace, tell_missing_members
from tenferro.dims import DimExpr, SymDim
from tenferro.errors import TenferroError
from tenferro.graph import GraphBuilder
from tenferro.ops import STD_OPS, StdTensorOp
from tenferro.program import (
    GraphProgram,
    capabilities,
    install_default_families,
    install_native_executor,
    install_platforms,
)
from tenferro.program import native_executor as default_executor
from tenferro.types import ArrayLike, Axis, DType, DTypeLike, PyTree, Shape, Tensor, TensorSpec

if TYPE_CHECKING:
    from tenferro import fft, lax, linalg, nn, optim, optimize, random, signal, special, stats, tree
    from tenferro.api.check_grads import check_grads
    from tenferro.api.eager import EagerRuntime, EagerTensor
    from tenferro.api.eager.recording import no_grad
    from tenferro.api.ode import odeint
    from tenferro.api.sparse import sparse_hessian, sparse_jacobian
    from tenferro.exec import GraphExecutor
    from tenferro.extension.saving import load, save
    from tenferro.special import i0

# Modules that take long to import are imported when they are first used.
_LATER = {
    "EagerRuntime": ("tenferro.api.eager", "EagerRuntime"),
    "EagerTensor": ("tenferro.api.eager", "EagerTensor"),
    "GraphExecutor": ("tenferro.exec", "GraphExecutor"),
    "check_grads": ("tenferro.api.check_grads", "check_grads"),
    "fft": ("tenferro.fft", None),
    "i0": ("tenferro.special", "i0"),
    "lax": ("tenferro.lax", None),
    "linalg": ("tenferro.linalg", None),
    "nn": ("tenferro.nn", None),
    "no_grad": ("tenferro.api.eager.recording", "no_grad"),
    "odeint": ("tenferro.api.ode", "odeint"),
    "optim": ("tenferro.optim", None),
    "optimize": ("tenferro.optimize", None),
    "random": ("tenferro.random", None),
    "special": ("tenferro.special", None),
    "stats": ("tenferro.stats", None),
    "tree": ("tenferro.tree", None),
    "load": ("tenferro.extension.saving", "load"),
    "signal": ("tenferro.signal", None),
    "save": ("tenferro.extension.saving", "save"),
    "sparse_hessian": ("tenferro.api.sparse", "sparse_hessian"),
    "sparse_jacobian": ("tenferro.api.sparse", "sparse_jacobian"),
}


def _load(name: str) -> Any:
    """Load a name of `_LATER`. Raise KeyError for any other name."""
    path, attribute = _LATER[name]
    module = importlib.import_module(path)
    return module if attribute is None else getattr(module, attribute)


def _families() -> list[extension.Family]:
    from tenferro.ext import accuracy, einsum, fft, host, lapack, linalg, printing, random, sharding
    from tenferro.special import functions

    packages = (linalg, lapack, fft, einsum, random, printing, host, functions, accuracy, sharding)
    return [family for package in packages for family in package.FAMILIES]


def _new_executor(compiled: Any) -> "GraphExecutor":
    from tenferro.exec import GraphExecutor  # because tracing does not need it

    return GraphExecutor("K", compiled=compiled)


def _native_refusal(op: type[StdTensorOp] | str, dtype: DType, platform: str) -> str | None:
    return default_executor().refusal(op, dtype, platform)


def _numpy_functions() -> Any:
    from tenferro.api import numpy_functions  # because few programs need the module

    return numpy_functions


install_namespace(Namespace(sys.modules[__name__], _numpy_functions))
install_default_families(_families)
install_native_executor(_new_executor)
install_platforms(["native"], _native_refusal)

__version__ = "0.3.0"

__all__ = [
    "STD_OPS",
    "AdContext",
    "ArrayLike",
    "Axis",
    "DType",
    "DTypeLike",
    "DimExpr",
    "EagerRuntime",
    "EagerTensor",
    "ExtensionAdRule",
    "ExtensionRuleSet",
    "GraphBuilder",
    "GraphCompiler",
    "GraphExecutor",
    "GraphProgram",
    "PyTree",
    "Shape",
    "StdTensorOp",
    "SymDim",
    "TenferroError",
    "Tensor",
    "TensorSpec",
    "TracedTensor",
    "capabilities",
    "check",
    "check_grads",
    "checkpoint",
    "compile",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "debug_print",
    "default_executor",
    "disable_jit",
    "errors",
    "eval_shape",
    "extension",
    "fft",
    "fixed_point",
    "grad",
    "hessian",
    "i0",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jet",
    "jit",
    "jvp",
    "lax",
    "linalg",
    "load",
    "linearize",
    "nn",
    "no_grad",
    "odeint",
    "optim",
    "optimize",
    "pure_callback",
    "random",
    "save",
    "signal",
    "sparse_hessian",
    "sparse_jacobian",
    "special",
    "stats",
    "stop_gradient",
    "associative_scan",
    "cond",
    "fori_loop",
    "map",
    "scan",
    "switch",
    "while_loop",
    "tree",
    "vmap",
    "value_and_grad",
    "vjp",
    *_surface,  # pyright: ignore[reportUnsupportedDunderAll]  # because it is a literal list there
]

open_namespace(errors.__dict__, errors.__all__, "tnf.errors")
open_namespace(globals(), __all__, "tnf", _load)
tell_missing_members(
    Operators,
    [*COUNTERPARTS["x"], *[name for name in _surface if isinstance(globals()[name], FunctionType)]],
    REFUSED,
)
