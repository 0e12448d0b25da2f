"""Convert PyTorch's samples to trials.

Arguments are renamed, the differentiated tensors are chosen, and outputs are made comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import optree
import torch

import tenferro as tnf
from tools.torch_samples.adapted import NotMappedError
from tools.torch_samples.row import Row
from tools.torch_samples.trial import Arrays, Trial, as_array, as_double, as_single, is_double

__all__ = ["renamed", "trials_of"]


def attribute(path: str) -> Any:
    """Return the function of tenferro with this dotted name, such as `linalg.qr`."""
    return reduce(getattr, path.split("."), tnf)


def renamed(function: Callable[..., Any], parameters: str) -> Callable[..., Any]:
    """Return a function that accepts arguments by PyTorch's names, and calls `function` with tenferro's names."""
    words = parameters.split()

    def call(x: Any, *args: Any, **options: Any) -> Any:
        if len(args) > len(words):
            raise NotMappedError(f"{len(args)} arguments after the first")
        names = [word.lstrip("@").partition(">")[0] for word in words]
        options = {**dict(zip(names, args, strict=False)), **options}
        positional, named = [], {}
        for name, word in zip(names, words, strict=True):
            if name not in options:
                continue
            value = options.pop(name)
            target = word.partition(">")[2] if ">" in word else name
            if word.startswith("@"):
                positional.append(value)
            elif target:
                value = None if target.endswith("*") and value in ((), []) else value
                named[target.rstrip("*")] = value
        if options:
            raise NotMappedError(f"option {', '.join(sorted(options))}")
        return function(x, *positional, **named)

    return call


def same_outputs(outputs: Arrays) -> Arrays:
    return outputs


def absolute(outputs: Arrays) -> Arrays:
    """Return the absolute values of the outputs, which do not depend on the phase of eigenvectors."""
    return [abs(output) for output in outputs]


def singular(outputs: Arrays) -> Arrays:
    """Return the singular values and the absolute values of the singular vectors.

    Vectors that belong to no singular value are omitted, because they are not unique.
    """
    u, s, vh = outputs
    return [abs(u[..., : s.shape[-1]]), s, abs(vh[..., : s.shape[-1], :])]


INVARIANTS: Mapping[str, Callable[[Arrays], Arrays]] = {
    "": same_outputs,
    "abs": absolute,
    "first": lambda outputs: outputs[:1],
    "svd": singular,
}


def flat(outputs: Any) -> Arrays:
    """Return the arrays of a result as a list. The result may be an array or a tuple of arrays."""
    return optree.tree_leaves(outputs)


def split_leaves(sample: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a sample's arguments, and the tree structure with which the arguments can be rebuilt."""
    tree = (sample.input, tuple(sample.args), dict(sample.kwargs))
    leaves, treedef = optree.tree_flatten(tree, none_is_leaf=True)
    return leaves, treedef


def trial_of(row: Row, name: str, op: Any, sample: Any, seed: int) -> Trial:
    """Return the trial of a sample.

    Its two functions, tenferro's and PyTorch's, take the active tensors of the sample: the tensors to differentiate.
    """
    leaves, treedef = split_leaves(sample)
    is_active = [isinstance(x, torch.Tensor) and x.requires_grad for x in leaves]
    if not any(is_active):  # integers and booleans are never differentiated: take all tensors
        is_active = [isinstance(x, torch.Tensor) for x in leaves]
    function = row.ours or renamed(attribute(name), row.parameters)
    invariant = INVARIANTS[row.invariant]

    def filled(xs: Any, passive: list[Any]) -> Any:
        values = iter(xs)
        return treedef.unflatten(
            [next(values) if active else x for active, x in zip(is_active, passive, strict=True)]
        )

    arrays = [as_array(x) for x in leaves]

    def ours(*xs: Any) -> Arrays:
        x, args, options = filled(xs, arrays)
        return invariant(flat(function(x, *args, **options)))

    def theirs(*xs: Any, is_typed: bool = False) -> Arrays:
        convert = as_double if is_double(xs) or not xs else as_single
        passive = leaves if is_typed else [convert(x) for x in leaves]
        x, args, options = filled(xs, passive)
        outputs = op.gradcheck_wrapper(op.op, x, *args, **options)
        return invariant(flat(outputs if not isinstance(outputs, bool) else torch.tensor(outputs)))

    tensors = [x for x, active in zip(leaves, is_active, strict=True) if active]
    has_gradient = op.supports_autograd and any(x.requires_grad for x in tensors)
    return Trial(ours, theirs, tensors, seed, has_gradient, has_gradient and op.supports_gradgrad)


def trials_of(row: Row, name: str, op: Any, dtype: Any, count: int) -> Iterator[Trial]:
    """Yield at most `count` trials of an operator at a dtype.

    The samples are taken at equal distances from PyTorch's list.
    """
    torch.manual_seed(0)
    np.random.seed(0)  # because PyTorch also draws samples from NumPy's global generator
    has_gradient = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=has_gradient))
    step = max(1, -(-len(samples) // count))
    for number in range(0, len(samples), step):
        yield trial_of(row, name, op, samples[number], number)
