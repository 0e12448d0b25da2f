"""Trials. Each compares tenferro's result for a PyTorch sample with PyTorch's result in float64 or complex128.

The checks are value, JVP, VJP, and two second derivatives: forward over reverse, and reverse over reverse. PyTorch's
second derivative is reverse over reverse of Re <w, f(x)>, where w is the cotangent. Our forward over reverse must
equal it, because a Hessian is symmetric.

An output y agrees with the reference r if, for all elements,

    |y - r| <= 64 eps max |r| + 16 d + 16 c eps / eps_single + tiny

    d = max |f(x (1 + 4 eps u)) - f(x)| over three draws of u = +-1
    c = max |f_single(z) - f(z)| over three z in single precision near x

Here eps is the distance from 1 to the next float of the sample's dtype, and eps_single that of single precision.
PyTorch computes f in double precision, and f_single in single precision. z is a random single-precision argument near
x. tiny is the smallest normal number if the dtype is single precision, and zero otherwise.

d measures the conditioning of f, and c the cancellation in PyTorch's algorithm. A bound above a hundredth of max |r|
would accept almost any result, so such a check counts as `undecided`. Elements that are not finite must be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import tenferro as tnf

__all__ = ["CHECKS", "SINGLE", "Arrays", "Trial", "as_array", "as_double", "as_single", "is_double"]

CHECKS = ("value", "jvp", "vjp", "forward over reverse", "reverse over reverse")
DOUBLE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
SINGLE = {wide: narrow for narrow, wide in DOUBLE.items()}
SINGLE_EPS = float(np.finfo(np.float32).eps)
Arrays = list[Any]


def as_array(x: Any) -> Any:
    """Convert a leaf of a sample's arguments for tenferro: a tensor to an array, a dtype to its name."""
    if isinstance(x, torch.Tensor):
        return x.detach().resolve_conj().resolve_neg().numpy(force=True).copy()
    if isinstance(x, torch.dtype):
        return str(x).removeprefix("torch.")
    return x


def as_double(x: Any) -> Any:
    """Copy a leaf of a sample's arguments for the reference.

    Floats and float dtypes are widened to double precision.
    """
    if isinstance(x, torch.Tensor):
        return x.detach().to(DOUBLE.get(x.dtype, x.dtype)).clone()
    return DOUBLE.get(x, x) if isinstance(x, torch.dtype) else x


def as_single(x: Any) -> Any:
    """Copy a leaf of a sample's arguments. Floats and float dtypes are narrowed to single precision."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(SINGLE.get(x.dtype, x.dtype)).clone()
    return SINGLE.get(x, x) if isinstance(x, torch.dtype) else x


def is_double(xs: Any) -> bool:
    """Tell whether one of the tensors has double precision."""
    return any([x.dtype in SINGLE for x in xs])


def is_inexact(x: Any) -> bool:
    return np.dtype(as_array(x).dtype).kind in "fc"


@dataclass
class Trial:
    """One sample of a function. `ours` (tenferro) and `theirs` (PyTorch) map the differentiated tensors to outputs."""

    ours: Callable[..., Arrays]
    theirs: Callable[..., Arrays]
    tensors: list[Any]
    seed: int
    has_gradient: bool
    has_second: bool

    @cached_property
    def arrays(self) -> Arrays:
        return [as_array(x) for x in self.tensors]

    @cached_property
    def doubles(self) -> list[Any]:
        return [as_double(x) for x in self.tensors]

    @cached_property
    def typed_value(self) -> Arrays:
        """PyTorch's results at the sample's own dtype; tenferro's results must have their shapes and dtypes."""
        return self.theirs(*[x.detach() for x in self.tensors], is_typed=True)

    @cached_property
    def value(self) -> Arrays:
        return self.theirs(*self.doubles)

    @cached_property
    def inexact(self) -> list[int]:
        """Indices of the floating-point outputs, which are the outputs with derivatives."""
        return [i for i, output in enumerate(self.value) if is_inexact(output)]

    def drawn(self, like: Arrays, offset: int) -> Arrays:
        """Return random numbers of the same dtypes and shapes as the arrays `like`.

        They are used as tangents or cotangents.
        """
        generator = np.random.default_rng((self.seed, offset))
        directions = []
        for x in like:
            direction = generator.uniform(0.5, 1.5, np.shape(x)) * generator.choice(
                [-1, 1], np.shape(x)
            )
            if np.dtype(x.dtype).kind == "c":
                direction = direction + 1j * generator.uniform(-1.5, 1.5, np.shape(x))
            directions.append(np.asarray(direction).astype(x.dtype))
        return directions

    @cached_property
    def tangents(self) -> Arrays:
        return self.drawn(self.arrays, 0)

    @cached_property
    def cotangents(self) -> Arrays:
        return self.drawn([np.asarray(y) for y in self.inexact_of(*self.arrays)], 1)

    # ---- tenferro ----------------------------------------------------------------------------

    def inexact_of(self, *xs: Any) -> Arrays:
        outputs = self.ours(*xs)
        return [outputs[i] for i in self.inexact]

    def pulled(self, *xs: Any) -> Arrays:
        return list(tnf.vjp(self.inexact_of, *xs)[1](self.cotangents))

    def computed(self, check: str, xs: Any, tangents: Any) -> Arrays:
        """Compute the outputs of a check by tenferro, from arrays or from traced tensors."""
        if check == "value":
            return self.ours(*xs)
        if check == "jvp":
            return list(tnf.jvp(self.inexact_of, tuple(xs), tuple(tangents))[1])
        if check == "vjp":
            return self.pulled(*xs)
        if check == "forward over reverse":
            return list(tnf.jvp(self.pulled, tuple(xs), tuple(tangents))[1])
        return list(tnf.vjp(self.pulled, *xs)[1](list(tangents)))

    def on_peer(self, executor: Any, checks: tuple[str, ...]) -> list[Arrays]:
        """Compute the outputs of all checks through PJRT, by one program."""
        self.cotangents  # noqa: B018  # because the cotangents must be computed before tracing
        every = lambda xs, ts: [self.computed(check, xs, ts) for check in checks]
        program = tnf.compile(every, self.arrays, self.tangents)
        return executor.run(program, self.arrays, self.tangents)

    # ---- PyTorch -----------------------------------------------------------------------------

    def reference(self, check: str, doubles: list[Any]) -> Arrays:
        """Compute the outputs of a check by PyTorch in double precision."""
        if check == "value":
            return [as_array(y) for y in self.theirs(*doubles)]
        tangents = [as_tensor(t, doubles) for t in self.tangents]
        cotangents = [as_tensor(w, doubles) for w in self.cotangents]
        function = lambda *xs: [self.theirs(*xs)[i] for i in self.inexact]
        if check == "jvp":
            return [as_array(y) for y in pushed(function, doubles, tangents)]
        leaves = [x.clone().requires_grad_() for x in doubles]
        first = gradient(function(*leaves), leaves, cotangents, check != "vjp")
        if check == "vjp":
            return [as_array(y) for y in first]
        return [as_array(y) for y in gradient(first, leaves, tangents, False)]

    def bounds(self, check: str, reference: Arrays, eps: float) -> list[float]:
        """Return the largest allowed difference of each output, by the formula in the module's docstring."""
        generator = np.random.default_rng((self.seed, 2))
        spread, own = [0.0] * len(reference), [0.0] * len(reference)
        for _ in range(3):
            near = [moved(x, 4 * eps, generator) for x in self.doubles]
            far = [moved(x, 4 * SINGLE_EPS, generator) for x in self.doubles]
            singles = [x.to(SINGLE.get(x.dtype, x.dtype)) for x in far]
            rounded = [x.to(DOUBLE.get(x.dtype, x.dtype)) for x in singles]
            rows = zip(reference, self.reference(check, near), strict=True)
            spread = [max(s, difference(y, r)) for s, (r, y) in zip(spread, rows, strict=True)]
            rows = zip(self.reference(check, rounded), self.reference(check, singles), strict=True)
            own = [max(c, difference(y, r)) for c, (r, y) in zip(own, rows, strict=True)]
        tiny = float(np.finfo(np.float32).tiny) if eps > 1e-10 else 0.0
        return [
            64 * eps * largest(r) + 16 * s + 16 * c * eps / SINGLE_EPS + tiny
            for r, s, c in zip(reference, spread, own, strict=True)
        ]

    # ---- the judgement -----------------------------------------------------------------------

    def judged(self, check: str, outputs: Arrays) -> str:
        """Compare the outputs of a check with the reference.

        Return `agree`, `undecided`, or how an output differs.
        """
        reference = self.reference(check, self.doubles)
        if len(outputs) != len(reference):
            return f"{len(outputs)} outputs for {len(reference)}"
        outputs = [np.asarray(y) for y in outputs]
        if check == "value":
            for y, typed in zip(outputs, map(as_array, self.typed_value), strict=True):
                if (y.shape, y.dtype) != (typed.shape, typed.dtype):
                    return f"{y.dtype}{list(y.shape)} for {typed.dtype}{list(typed.shape)}"
        eps = max(
            [float(np.finfo(x.dtype).eps) for x in (*self.arrays, *outputs) if is_inexact(x)],
            default=0.0,
        )
        pairs = list(zip(outputs, reference, strict=True))
        if all([is_within(y, r, 64 * eps * largest(r)) for y, r in pairs]):
            return "agree"
        bounds = self.bounds(check, reference, eps)
        for (y, r), bound in zip(pairs, bounds, strict=True):
            if not is_within(y, r, bound):
                return f"off by {distance(y, r):.3g} where {bound:.3g} is allowed and {largest(r):.3g} the size"
        wide = [bound > 0.01 * largest(r) > 0 for (_, r), bound in zip(pairs, bounds, strict=True)]
        return "undecided" if any(wide) else "agree"


def moved(x: Any, size: float, generator: Any) -> Any:
    """Return a copy of a tensor; each element is increased or decreased by the relative amount `size`, at random."""
    if x.dtype not in SINGLE:
        return x
    return x * (1 + size * torch.from_numpy(generator.choice([-1.0, 1.0], tuple(x.shape))))


def difference(y: Any, r: Any) -> float:
    """Return the largest finite difference between two arrays.

    The result is 0 if they are integers or their shapes differ.
    """
    return largest(y - r) if is_inexact(r) and y.shape == r.shape else 0.0


def as_tensor(x: Any, like: list[Any]) -> Any:
    """Convert an array to a tensor.

    A float gets double precision if one of the tensors in `like` has double precision, else single precision.
    """
    tensor = torch.from_numpy(np.array(x))
    table = DOUBLE if is_double(like) else SINGLE
    return tensor.to(table.get(tensor.dtype, tensor.dtype))


def gradient(outputs: Any, leaves: Any, cotangents: Any, create_graph: bool) -> list[Any]:
    """Return the gradient of the sum of output * cotangent; zeros for inputs on which no output depends."""
    pairs = [(y, w) for y, w in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(x, requires_grad=create_graph) for x in leaves]
    ys, ws = zip(*pairs, strict=True)
    ws = [w.to(y.dtype) for y, w in pairs]
    results = torch.autograd.grad(ys, leaves, ws, create_graph=create_graph, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, results, strict=True)]


def pushed(function: Any, doubles: Any, tangents: Any) -> list[Any]:
    """Compute a JVP as the gradient of the VJP with respect to its cotangents.

    Unlike PyTorch's forward mode, this supports every operator.
    """
    leaves = [x.clone().requires_grad_() for x in doubles]
    outputs = function(*leaves)
    dummies = [torch.zeros_like(y, requires_grad=True) for y in outputs]
    pulled = gradient(outputs, leaves, dummies, True)
    return gradient(pulled, dummies, tangents, False)


def largest(x: Any) -> float:
    """Return the largest absolute value of the finite elements."""
    x = np.abs(np.asarray(x, np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64))
    return float(np.max(x[np.isfinite(x)], initial=0.0))


def distance(y: Any, r: Any) -> float:
    """Return the largest difference between finite elements.

    The result is infinite if NaN or infinities are at different positions.
    """
    y, r = (np.asarray(a).astype(np.complex128) for a in (y, r))
    if y.shape != r.shape:
        return np.inf
    ends = ~np.isfinite(r)
    if not np.array_equal(ends, ~np.isfinite(y)):
        return np.inf
    if not np.array_equal(np.isnan(y[ends]), np.isnan(r[ends])):
        return np.inf
    return largest((y - r)[~ends])


def is_within(y: Any, r: Any, bound: float) -> bool:
    return distance(y, r) <= bound
