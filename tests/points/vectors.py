"""Functions of a vector, with their Jacobian and Hessian by definition.

The points have ties, zeros, infinities and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf

__all__ = ["LINEAR", "REDUCTIONS", "Linear", "Reduction"]

INF = math.inf
Point = tuple[float, ...]


@dataclass(frozen=True)
class Reduction:
    """A function that maps a vector to a number or to a vector.

    Args:
        jacobian, hessian: functions for points where `function` is smooth. Each derivative adds an axis. If `hessian`
            is None, the Hessian is zero.
        conventions: points where the Jacobian does not exist or is a limit, with the Jacobian there. The Hessian is
            zero at these points.
    """

    function: Callable[[Any], Any]
    jacobian: Callable[[Any], Any]
    hessian: Callable[[Any], Any] | None
    points: tuple[Point, ...]
    conventions: Mapping[Point, Point] | None = None


@dataclass(frozen=True)
class Linear:
    """A linear function of an array. A column of its Jacobian is NumPy's result for a unit array."""

    function: Callable[[Any], Any]
    definition: Callable[[Any], Any]
    shape: tuple[int, ...] = (2, 3)


def winners(best: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def jacobian(x: Any) -> Any:
        wins = x == best(x)
        return wins / np.sum(wins)

    return jacobian


def products_but(x: Any, *left_out: int) -> Any:
    """Return the product of all elements except those at some indices.

    It is computed without a division, because an element may be zero.
    """
    return float(np.prod(np.delete(x, left_out)))


def product_jacobian(x: Any) -> Any:
    return np.array([products_but(x, i) for i in range(len(x))])


def product_hessian(x: Any) -> Any:
    n = range(len(x))
    return np.array([[0.0 if i == j else products_but(x, i, j) for j in n] for i in n])


def padded(matrix: Any, n: int) -> Any:
    return np.pad(matrix, [(0, n - extent) for extent in matrix.shape])


def running(derivative: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function for the derivatives of f(x[:1]), f(x[:2]) and so on.

    They are padded with zeros for the elements that f does not read.
    """
    return lambda x: np.stack([padded(derivative(x[: k + 1]), len(x)) for k in range(len(x))])


def std_jacobian(x: Any) -> Any:
    return (x - x.mean()) / (x.size * x.std())


def std_hessian(x: Any) -> Any:
    j = std_jacobian(x)
    return (np.eye(x.size) / x.size - 1 / x.size**2) / x.std() - np.outer(j, j) / x.std()


def var_jacobian(x: Any) -> Any:
    return 2 * (x - x.mean()) / x.size


def var_hessian(x: Any) -> Any:
    return 2 * (np.eye(x.size) - 1 / x.size) / x.size


def shares(x: Any) -> Any:
    powers = np.exp(x - np.max(x))
    return powers / powers.sum()


def shares_hessian(x: Any) -> Any:
    p = shares(x)
    return np.diag(p) - np.outer(p, p)


def direction(x: Any) -> Any:
    return x / np.linalg.norm(x)


def direction_hessian(x: Any) -> Any:
    u = direction(x)
    return (np.eye(x.size) - np.outer(u, u)) / np.linalg.norm(x)


def sorting(x: Any) -> Any:
    return np.eye(x.size)[np.argsort(x, kind="stable")]


TIED: tuple[Point, ...] = (
    *((1.0, 1.0, 0.0), (2.0, 2.0, 2.0), (INF, INF, 1.0), (-INF, -INF, -INF), (0.0, -0.0, -1.0)),
    (3.0, 1.0, 2.0),
)
ZEROS: tuple[Point, ...] = ((1.0, 2.0, 3.0), (0.0, 2.0, 3.0), (0.0, -0.0, 3.0), (0.0, 0.0, 0.0))
SPREAD: tuple[Point, ...] = ((1.0, 2.0, 4.0), (0.0, 0.0, 1.0), (-1.0, 0.0, 1.0))
EQUAL: Mapping[Point, Point] = {(1.0, 1.0, 1.0): (0.0,) * 3, (0.0, 0.0, 0.0): (0.0,) * 3}
THIRD = 1 / 3

REDUCTIONS: Mapping[str, Reduction] = {
    "max": Reduction(tnf.max, winners(np.max), None, TIED),
    "min": Reduction(tnf.min, winners(np.min), None, TIED),
    "prod": Reduction(tnf.prod, product_jacobian, product_hessian, ZEROS),
    "cumulative_prod": Reduction(
        tnf.cumulative_prod, running(product_jacobian), running(product_hessian), ZEROS
    ),
    "var": Reduction(tnf.var, var_jacobian, var_hessian, (*SPREAD, (1.0, 1.0, 1.0))),
    "std": Reduction(tnf.std, std_jacobian, std_hessian, SPREAD, EQUAL),
    "logsumexp": Reduction(
        tnf.logsumexp,
        shares,
        shares_hessian,
        ((0.0, 0.0, 0.0), (20.0, 0.0, 0.0), (720.0, 719.0, 0.0), (-INF, 0.0, 1.0)),
        {
            (INF, 0.0, 1.0): (1.0, 0.0, 0.0),
            (INF, INF, 1.0): (0.5, 0.5, 0.0),
            (-INF, -INF, -INF): (THIRD,) * 3,
        },
    ),
    "sort": Reduction(tnf.sort, sorting, None, TIED),
    "top_k": Reduction(
        lambda x: tnf.top_k(x, 2)[0], lambda x: sorting(-x)[:2], None, ((3.0, 1.0, 2.0), TIED[0])
    ),
    "linalg.norm": Reduction(
        tnf.linalg.norm, direction, direction_hessian, SPREAD, dict(list(EQUAL.items())[1:])
    ),
    "linalg.vector_norm": Reduction(
        tnf.linalg.vector_norm, direction, direction_hessian, SPREAD, dict(list(EQUAL.items())[1:])
    ),
}

A23 = np.arange(6.0).reshape(2, 3) - 2
A32 = A23.T.copy()
INDICES = np.array([[1, 0, 1]])


def of_traced(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = transform(x)
        return tnf.concat([tnf.real(y), tnf.real(tnf.imag(y))])

    return function


def transform(name: str, **options: Any) -> Linear:
    def definition(x: Any) -> Any:
        y = getattr(np.fft, name)(x, **options)
        return np.concatenate([np.real(y), np.imag(y)])

    return Linear(of_traced(lambda x: getattr(tnf.fft, name)(x, **options)), definition, (4, 3))


LINEAR: Mapping[str, Linear] = {
    "sum": Linear(tnf.sum, np.sum),
    "mean": Linear(tnf.mean, np.mean),
    "cumulative_sum": Linear(
        lambda x: tnf.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, axis=1)
    ),
    "diff": Linear(tnf.diff, np.diff),
    "negative": Linear(tnf.negative, np.negative),
    "positive": Linear(tnf.positive, np.positive),
    "conj": Linear(tnf.conj, np.conj),
    "real": Linear(tnf.real, np.real),
    "imag": Linear(tnf.imag, np.imag),
    "astype": Linear(lambda x: tnf.astype(x, "float32"), np.array),
    "broadcast_to": Linear(
        lambda x: tnf.broadcast_to(x, (2, 2, 3)), lambda x: np.broadcast_to(x, (2, 2, 3))
    ),
    "broadcast_arrays": Linear(
        lambda x: tnf.broadcast_arrays(x, np.zeros((2, 2, 3)))[0],
        lambda x: np.broadcast_to(x, (2, 2, 3)),
    ),
    "concat": Linear(lambda x: tnf.concat([x, x]), lambda x: np.concatenate([x, x])),
    "concatenate": Linear(lambda x: tnf.concatenate([x, x]), lambda x: np.concatenate([x, x])),
    "stack": Linear(lambda x: tnf.stack([x, x]), lambda x: np.stack([x, x])),
    "unstack": Linear(lambda x: tnf.unstack(x)[1], lambda x: x[1]),
    "split": Linear(lambda x: tnf.split(x, 3, axis=1)[1], lambda x: np.split(x, 3, axis=1)[1]),
    "diagonal": Linear(tnf.diagonal, np.diagonal),
    "trace": Linear(tnf.trace, np.trace),
    "expand_dims": Linear(lambda x: tnf.expand_dims(x, axis=0), lambda x: x[None]),
    "squeeze": Linear(lambda x: tnf.squeeze(x[:1], axis=0), lambda x: x[0]),
    "flip": Linear(tnf.flip, np.flip),
    "roll": Linear(lambda x: tnf.roll(x, 1), lambda x: np.roll(x, 1)),
    "pad": Linear(lambda x: tnf.pad(x, 1), lambda x: np.pad(x, 1)),
    "tile": Linear(lambda x: tnf.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "repeat": Linear(lambda x: tnf.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "reshape": Linear(lambda x: tnf.reshape(x, (3, 2)), lambda x: x.reshape(3, 2)),
    "ravel": Linear(tnf.ravel, np.ravel),
    "transpose": Linear(tnf.transpose, np.transpose),
    "permute_dims": Linear(lambda x: tnf.permute_dims(x, (1, 0)), np.transpose),
    "matrix_transpose": Linear(tnf.matrix_transpose, np.transpose),
    "swapaxes": Linear(lambda x: tnf.swapaxes(x, 0, 1), np.transpose),
    "moveaxis": Linear(lambda x: tnf.moveaxis(x, 0, 1), np.transpose),
    "meshgrid": Linear(lambda x: tnf.meshgrid(x, x)[1], lambda x: np.meshgrid(x, x)[1], (3,)),
    "take": Linear(
        lambda x: tnf.take(x, np.array([1, 1]), axis=1), lambda x: np.take(x, [1, 1], axis=1)
    ),
    "take_along_axis": Linear(
        lambda x: tnf.take_along_axis(x, INDICES, axis=0),
        lambda x: np.take_along_axis(x, INDICES, axis=0),
    ),
    "tril": Linear(tnf.tril, np.tril),
    "triu": Linear(tnf.triu, np.triu),
    "matmul": Linear(lambda x: tnf.matmul(x, A32), lambda x: x @ A32),
    "outer": Linear(lambda x: tnf.outer(x, A23[0]), lambda x: np.outer(x, A23[0]), (3,)),
    "tensordot": Linear(lambda x: tnf.tensordot(x, A23), lambda x: np.tensordot(x, A23)),
    "vecdot": Linear(lambda x: tnf.vecdot(x, A23), lambda x: np.vecdot(x, A23)),
    "dot_general": Linear(lambda x: tnf.dot_general(x, A32, ((1,), (0,))), lambda x: x @ A32),
    "einsum": Linear(lambda x: tnf.einsum("ij,jk->ki", x, A32), lambda x: (x @ A32).T),
    "linalg.cross": Linear(lambda x: tnf.linalg.cross(x, A23), lambda x: np.cross(x, A23)),
    "linalg.multi_dot": Linear(lambda x: tnf.linalg.multi_dot([x, A32]), lambda x: x @ A32),
    "fft.fftshift": Linear(tnf.fft.fftshift, np.fft.fftshift),
    "fft.ifftshift": Linear(tnf.fft.ifftshift, np.fft.ifftshift),
    **{
        f"fft.{name}": transform(name)
        for name in (
            *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2"),
            *("fftn", "ifftn", "rfftn", "irfftn"),
        )
    },
}
