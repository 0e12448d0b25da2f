"""tenferro: a compiler for tensor graphs with automatic differentiation.

Write a function, trace it into a graph of ops, compile it to a program, and run that one program
natively on NumPy, or lowered to StableHLO and run through PJRT.
"""

from tenferro import errors, extension
from tenferro.ad import AdContext
from tenferro.ad.context import install_default_rule_sets
from tenferro.ad.extension_rule import ExtensionAdRule, ExtensionRuleSet
from tenferro.api import *  # noqa: F403  # because the surface is this package's namespace
from tenferro.api import __all__ as _surface
from tenferro.api import fft, linalg
from tenferro.api.autodiff import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from tenferro.api.check_grads import check_grads
from tenferro.api.compile import GraphCompiler, compile, jit
from tenferro.api.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
from tenferro.api.tensor import TracedTensor
from tenferro.dims import DimExpr, SymDim
from tenferro.exec import GraphExecutor
from tenferro.exec.extensions import install_default_runtimes
from tenferro.ext import fft as _fft
from tenferro.ext import linalg as _linalg
from tenferro.extension.saving import load, save
from tenferro.graph import GraphBuilder
from tenferro.ops import STD_OPS, StdTensorOp
from tenferro.program import GraphProgram, install_native_executor
from tenferro.types import DType, TensorSpec


def _runtimes() -> list[extension.ExtensionRuntime]:
    return [*_linalg.runtimes(), *_fft.runtimes()]


def _rule_sets() -> list[ExtensionRuleSet]:
    return [_linalg.rule_set(), _fft.rule_set()]


for _family in (*_linalg.families.FAMILIES, *_fft.families.FAMILIES):
    extension.register_extension(_family)
install_default_runtimes(_runtimes)
install_default_rule_sets(_rule_sets)
install_native_executor(GraphExecutor())

__version__ = "0.1.0"

__all__ = [
    "STD_OPS",
    "AdContext",
    "DType",
    "DimExpr",
    "ExtensionAdRule",
    "ExtensionRuleSet",
    "GraphBuilder",
    "GraphCompiler",
    "GraphExecutor",
    "GraphProgram",
    "StdTensorOp",
    "SymDim",
    "TensorSpec",
    "TracedTensor",
    "check_grads",
    "checkpoint",
    "compile",
    "custom_jvp",
    "custom_vjp",
    "errors",
    "extension",
    "fft",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linalg",
    "load",
    "linearize",
    "save",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    *_surface,  # pyright: ignore[reportUnsupportedDunderAll]  # because it is a literal list there
]
