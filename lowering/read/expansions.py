"""Recognition of the private functions that lowering writes for ops such as `Erf`: calls are read as the op again.

A function is recognised only if its name and its body both equal the name and body that lowering writes.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lowering.chlo import chlo_function
from lowering.module_tree import Block, Function
from lowering.syntax import text_tree
from lowering.types import element_type
from tenferro.ops import StdTensorOp, analytic
from tenferro.types import TensorSpec

__all__ = ["expanded_op", "same_body"]

OPS: dict[str, StdTensorOp] = {
    "acos": analytic.Acos(), "acosh": analytic.Acosh(), "asin": analytic.Asin(),
    "asinh": analytic.Asinh(), "atan": analytic.Atan(), "atanh": analytic.Atanh(),
    "cosh": analytic.Cosh(), "digamma": analytic.Digamma(), "erf": analytic.Erf(),
    "erf_inv": analytic.ErfInv(), "erfc": analytic.Erfc(), "lgamma": analytic.Lgamma(),
    "sinh": analytic.Sinh(),
}  # fmt: skip
_NAMED = re.compile(rf"({'|'.join(OPS)})_(?:f32|f64|c64|c128)\w*")


def expanded_op(function: Function) -> StdTensorOp | None:
    """Return the op whose expansion this function is; None if lowering writes this function for no op."""
    named = _NAMED.fullmatch(function.name)
    if named is None or len(function.body.types) != 1:
        return None
    spec = function.body.types[0]
    if not isinstance(spec, TensorSpec):
        return None
    text = chlo_function(named[1], element_type(spec.dtype), spec.shape, function.name)
    tree = text_tree(f"module {{\n{text}}}\n")
    is_ours = same_body(tree.functions[function.name].body, function.body)
    return OPS[named[1]] if is_ours else None


def same_body(first: Block, second: Block) -> bool:
    """Return whether two blocks are equal up to the numbering of their values."""
    pairs: dict[int, int] = {}
    waiting = [(first, second)]
    while waiting:
        a, b = waiting.pop()
        if a.types != b.types or len(a.operations) != len(b.operations):
            return False
        pairs.update(zip(a.arguments, b.arguments, strict=True))
        for p, q in zip(a.operations, b.operations, strict=True):
            is_same = (
                p.name == q.name
                and p.types == q.types
                and len(p.regions) == len(q.regions)
                and [pairs.get(value) for value in p.operands] == list(q.operands)
                and _same(p.attributes, q.attributes)
            )
            if not is_same:
                return False
            pairs.update(zip(p.results, q.results, strict=True))
            waiting += zip(p.regions, q.regions, strict=True)
    return True


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(_same(first[key], second[key]) for key in first)
        )
    if isinstance(first, np.ndarray):
        return (
            isinstance(second, np.ndarray)
            and (first.dtype, first.shape) == (second.dtype, second.shape)
            and first.tobytes() == second.tobytes()
        )
    return type(first) is type(second) and first == second
