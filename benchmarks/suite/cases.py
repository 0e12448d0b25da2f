"""Cases of the suite: functions of a namespace `n`, which has NumPy's functions, and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["CASES", "Case"]

RNG = np.random.default_rng(0)
LINE = 64
"""Size of a cache line, in bytes."""


@dataclass(frozen=True)
class Case:
    """A measured function: one row of the table.

    Attributes:
        fn: the function, called as `fn(n, *args)`. If it is differentiated, its result is a scalar.
        args: a function that creates the arguments. It is called once in each run of the suite.
        gradient: whether the gradient with respect to every argument is computed together with the value.
        without: names of contestants that do not support the case.
    """

    group: str
    name: str
    fn: Callable[..., Any]
    args: Callable[[], tuple[Any, ...]]
    gradient: bool = False
    without: tuple[str, ...] = ()


def normal(*shape: int, dtype: Any = np.float64, scale: float = 1.0) -> Any:
    """Return normally distributed random numbers, multiplied by `scale`."""
    return np.asarray(RNG.standard_normal(shape) * scale, dtype)


def aligned(x: Any) -> Any:
    """Copy an array to memory that is aligned to a cache line, so that JAX can use it without another copy."""
    room = np.empty(x.nbytes + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    result = room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def uniform(*shape: int, low: float = 0.5, high: float = 1.5, dtype: Any = np.float64) -> Any:
    """Return uniformly distributed random numbers, by default between 0.5 and 1.5."""
    return RNG.uniform(low, high, shape).astype(dtype)


def arithmetic(n: Any, x: Any, y: Any, z: Any) -> Any:
    """Apply twelve operations to three arrays. Each is a sum, a difference or a product."""
    a = x * y + z
    b = a - x * z
    c = b * a + y
    d = c * x - b
    e = d + a * y
    return e * c - z


def transcendental(n: Any, x: Any, y: Any, z: Any) -> Any:
    """Apply twelve operations. Five of them are functions of the C mathematical library."""
    a = n.exp(x * 0.1) + n.tanh(y)
    b = n.log(a + z) * x
    c = n.sqrt(a * a + b * b)
    return c / (a + y)


def black_scholes(n: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    """Return the total Black-Scholes price of call options. Its gradient contains the Greeks."""
    root = v * n.sqrt(t)
    d1 = (n.log(s / k) + (r + 0.5 * v * v) * t) / root
    d2 = d1 - root
    half = 0.7071067811865476
    return n.sum(
        s * 0.5 * (1.0 + n.erf(d1 * half)) - k * n.exp(-r * t) * 0.5 * (1.0 + n.erf(d2 * half))
    )


def softmax(n: Any, x: Any) -> Any:
    """Compute the softmax of each row."""
    e = n.exp(x - n.max(x, axis=1, keepdims=True))
    return e / n.sum(e, axis=1, keepdims=True)


def logsumexp(n: Any, x: Any) -> Any:
    """Compute log(sum(e^x)) of each row."""
    m = n.max(x, axis=1, keepdims=True)
    return n.log(n.sum(n.exp(x - m), axis=1)) + m[:, 0]


def layer_norm(n: Any, x: Any, g: Any, b: Any) -> Any:
    """Normalise each row to mean 0 and variance 1, then scale and shift it."""
    d = x - n.mean(x, axis=1, keepdims=True)
    return d / n.sqrt(n.mean(d * d, axis=1, keepdims=True) + 1e-5) * g + b


def summed(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the sum of squares of the result of `fn`."""

    def loss(n: Any, *args: Any) -> Any:
        y = fn(n, *args)
        return n.sum(y * y)

    return loss


def perceptron(n: Any, w1: Any, w2: Any, w3: Any, b1: Any, b2: Any, b3: Any, x: Any, y: Any) -> Any:
    """Return the cross entropy of a network with layers of 784, 512, 512 and 10 units, on 256 images."""
    h = n.maximum(x @ w1 + b1, 0)
    h = n.maximum(h @ w2 + b2, 0)
    z = h @ w3 + b3
    z = z - n.max(z, axis=1, keepdims=True)
    return n.sum(y * (n.log(n.sum(n.exp(z), axis=1, keepdims=True)) - z)) / 256


def perceptron_args(dtype: Any) -> tuple[Any, ...]:
    """Return the weights, biases, images and one-hot labels of the network."""
    labels = np.eye(10, dtype=dtype)[RNG.integers(0, 10, 256)]
    return (
        normal(784, 512, dtype=dtype, scale=0.04),
        normal(512, 512, dtype=dtype, scale=0.04),
        normal(512, 10, dtype=dtype, scale=0.04),
        normal(512, dtype=dtype),
        normal(512, dtype=dtype),
        normal(10, dtype=dtype),
        normal(256, 784, dtype=dtype),
        labels,
    )


def chain(n: Any, *matrices: Any) -> Any:
    """Return the sum of the elements of a product of matrices. The products are computed from left to right."""
    y = matrices[0]
    for w in matrices[1:]:
        y = y @ w
    return n.sum(y)


def overlap(n: Any, *tensors: Any) -> Any:
    """Contract the overlap <a|b> of two matrix product states, site by site."""
    bras, kets = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
    e = n.einsum("apb,apc->bc", bras[0], kets[0])
    for a, b in zip(bras[1:], kets[1:], strict=True):
        e = n.einsum("bc,cpd->bpd", e, b)
        e = n.einsum("bpa,bpd->ad", a, e)
    return n.sum(e)


def states(sites: int, bond: int) -> tuple[Any, ...]:
    """Return the tensors of two random matrix product states. Each site has two values."""
    ends = [1, *[bond] * (sites - 1), 1]
    one = [normal(a, 2, b, scale=bond**-0.5) for a, b in pairwise(ends)]
    return (*one, *[normal(*t.shape, scale=bond**-0.5) for t in one])


MERA = "bcik,aijo,jkpq,opqghf,ghnm,cmel,adnf,bdel->"
"""Contraction for one layer of a ternary MERA (a tensor network). It computes the energy of a three-site term."""


def mera(n: Any, *tensors: Any) -> Any:
    """Contract the eight tensors of the network `MERA`. All contestants contract them in the same order."""
    return n.einsum(MERA, *tensors, optimize=True)


def mera_args(extent: int) -> tuple[Any, ...]:
    """Return random tensors for the network `MERA`; all axes have the same extent."""
    inputs = MERA.split("->", maxsplit=1)[0].split(",")
    return tuple([normal(*[extent] * len(labels), scale=0.2) for labels in inputs])


def batched(n: Any, x: Any, y: Any) -> Any:
    """Return the sum of squares of a batch of matrix products."""
    z = x @ y
    return n.sum(z * z)


def svd(n: Any, x: Any) -> Any:
    """Return a scalar function of the singular values and vectors. It does not depend on the signs of the vectors."""
    u, s, vh = n.linalg.svd(x, full_matrices=False)
    return n.sum((u * n.sqrt(s)) @ vh)


def qr(n: Any, x: Any) -> Any:
    """Return a scalar that depends on both QR factors."""
    q, r = n.linalg.qr(x)
    return n.sum(q * x) + n.sum(r * r)


def eigh(n: Any, x: Any) -> Any:
    """Return a scalar function of eigenvalues and eigenvectors. It does not depend on the signs of the vectors."""
    w, v = n.linalg.eigh(x + n.matrix_transpose(x))
    return n.sum((v * n.tanh(w)) @ n.matrix_transpose(v))


def solve(n: Any, a: Any, b: Any) -> Any:
    """Return the sum of the elements of the solution x of a x = b."""
    return n.sum(n.linalg.solve(a, b))


def cholesky(n: Any, x: Any) -> Any:
    """Return the sum of the elements of the Cholesky factor of x x^T + 256 I."""
    eye = np.eye(256)
    return n.sum(n.linalg.cholesky(x @ n.matrix_transpose(x) + n.asarray(256 * eye)))


def recurrent(n: Any, w: Any, u: Any, b: Any, h: Any, *xs: Any) -> Any:
    """Return the sum of squares of the final state of a recurrent network, after fifty unrolled steps."""
    for x in xs:
        h = n.tanh(h @ w + x @ u + b)
    return n.sum(h * h)


def scalars(n: Any, x: Any) -> Any:
    """Apply a hundred scalar ops to one number."""
    for _ in range(50):
        x = n.sin(x) * 1.01
    return x


def max_plus(n: Any, x: Any, y: Any) -> Any:
    """Return the max-plus product of two matrices: max over k of x[i, k] + y[k, j]."""
    return n.max(x[:, :, None] + y[None, :, :], axis=1)


REVERSED = tuple(range(11, -1, -1))
ROTATED = (6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5)
SHUFFLED = (3, 7, 0, 11, 5, 1, 9, 2, 10, 6, 4, 8)


def transposed(perm: tuple[int, ...]) -> Callable[..., Any]:
    """Return a function that transposes an array and adds 1. Without the addition, the result would be a view."""
    return lambda n, x: n.transpose(x, perm) + 1.0


def rank_twelve() -> tuple[Any, ...]:
    """Return an array of rank twelve with extents 2, 3 and 4, and about 1.5 million elements."""
    return (normal(2, 4, 3, 4, 4, 3, 3, 4, 4, 4, 3, 4),)


def steps() -> tuple[Any, ...]:
    """Return the arguments of `recurrent`.

    They are weights for 64 units, a state with 32 rows, and fifty inputs of shape 32 x 16.
    """
    xs = [normal(32, 16) for _ in range(50)]
    return (normal(64, 64, scale=0.1), normal(16, 64, scale=0.1), normal(64), normal(32, 64), *xs)


LAYERS = {
    "ResNet-50, 7 x 7 by 2": ((1, 224, 224, 3), (7, 7, 3, 64), 2, 1),
    "ResNet-50, 1 x 1": ((1, 56, 56, 64), (1, 1, 64, 256), 1, 1),
    "ResNet-50, 3 x 3": ((1, 56, 56, 64), (3, 3, 64, 64), 1, 1),
    "ResNet-50, 3 x 3 by 2": ((1, 56, 56, 128), (3, 3, 128, 128), 2, 1),
    "MobileNetV2, depthwise by 2": ((1, 56, 56, 144), (3, 3, 1, 144), 2, 144),
    "MobileNetV2, depthwise": ((1, 7, 7, 960), (3, 3, 1, 960), 1, 960),
    "EfficientNetB0, depthwise": ((1, 14, 14, 672), (5, 5, 1, 672), 1, 672),
    "ConvNeXt-T, depthwise": ((1, 56, 56, 96), (7, 7, 1, 96), 1, 96),
    "Xception, depthwise": ((1, 19, 19, 728), (3, 3, 1, 728), 1, 728),
}
"""Convolution layers of published networks.

Each has the shape of the input (channels last), the shape of the kernel, the stride, and the number of groups. The
networks are from He et al. 2015, Sandler et al. 2018, Tan and Le 2019, Liu et al. 2022, and Chollet 2017.
"""


def convolved(stride: int, groups: int) -> Callable[..., Any]:
    """Return a convolution layer with padding such that only the stride makes the result smaller than the input."""

    def layer(n: Any, x: Any, w: Any) -> Any:
        lax = n.lax if hasattr(n, "lax") else import_module("jax.lax")
        return lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )  # fmt: skip

    return layer


def _layers() -> Iterator[Case]:
    for name, (x, w, stride, groups) in LAYERS.items():
        make = lambda x=x, w=w: (normal(*x, dtype=np.float32), normal(*w, dtype=np.float32))
        layer = convolved(stride, groups)
        none = ("NumPy", "PyTensor")  # because neither library has convolutions
        yield Case("convolutions", name, layer, make, without=none)
        yield Case("convolutions", f"{name}, gradients", summed(layer), make, True, none)


def _cases() -> list[Case]:
    cases: list[Case] = []
    for size in (1_000, 100_000, 4_000_000):
        for fn in (arithmetic, transcendental):
            make = lambda size=size: tuple([uniform(size) for _ in range(3)])
            cases.append(
                Case("chains", f"{fn.__name__} chain, {size:.0e}".replace("e+0", "e"), fn, make)
            )
    prices = lambda: (
        *[uniform(1_000_000, low=80, high=120) for _ in range(2)],
        *[uniform(1_000_000, low=a, high=b) for a, b in ((0.5, 2), (0.01, 0.05), (0.1, 0.4))],
    )
    cases.append(
        Case("chains", "Black-Scholes with greeks, 1e6", black_scholes, prices, True, ("PyTensor",))
    )
    for fn, many in ((softmax, 1), (logsumexp, 1), (layer_norm, 3)):
        make = lambda many=many: (
            normal(4096, 1024, dtype=np.float32),
            *[normal(1024, dtype=np.float32) for _ in range(many - 1)],
        )
        name = fn.__name__.replace("_", " ")
        cases.append(Case("rows", f"{name}, 4096 x 1024", fn, make))
        cases.append(Case("rows", f"{name}, gradient", summed(fn), make, True))
    large = lambda: (aligned(normal(4096, 1024)),)
    cases += [
        Case("reductions", "sum, 4096 x 1024", lambda n, x: n.sum(x), large),
        Case("reductions", "sums of columns", lambda n, x: n.sum(x, axis=0), large),
        Case("reductions", "maxima of rows", lambda n, x: n.max(x, axis=1), large),
        Case("reductions", "matrix by a vector", lambda n, x: x @ x[0], large),
    ]
    for dtype in (np.float32, np.float64):
        make = lambda dtype=dtype: perceptron_args(dtype)
        cases.append(Case("networks", f"training step, {dtype.__name__}", perceptron, make, True))
    cases += [
        Case("networks", "RNN of 50 steps, gradient", recurrent, steps, True),
        Case("small", "100 scalar ops", scalars, lambda: (np.float64(0.5),)),
        Case("contractions", "chain of 100 matrices of 64", chain,
             lambda: tuple([normal(64, 64, scale=0.125) for _ in range(100)])),
        Case("contractions", "chain of 100, gradient", chain,
             lambda: tuple([normal(64, 64, scale=0.125) for _ in range(100)]), True),
        Case("contractions", "MPS overlap, 200 tensors", overlap, lambda: states(100, 32)),
        Case("contractions", "MPS overlap, gradient", overlap, lambda: states(100, 32), True),
        Case("contractions", "MERA energy, extent 8", mera, lambda: mera_args(8)),
        Case("contractions", "MERA energy, gradient", mera, lambda: mera_args(8), True,
             ("NumPy",)),  # because autograd contracts all tensors at once
        Case("contractions", "1024 products of 8 x 8", lambda n, x, y: x @ y,
             lambda: (normal(1024, 8, 8), normal(1024, 8, 8))),
        Case("contractions", "1024 products of 8 x 8, gradient", batched,
             lambda: (normal(1024, 8, 8), normal(1024, 8, 8)), True),
        Case("contractions", "32 products of 64 x 64", lambda n, x, y: x @ y,
             lambda: (normal(32, 64, 64), normal(32, 64, 64))),
        Case("contractions", "32 products of 64 x 64, gradient", batched,
             lambda: (normal(32, 64, 64), normal(32, 64, 64)), True),
        Case("contractions", "one product of 1024", lambda n, x, y: x @ y,
             lambda: (normal(1024, 1024), normal(1024, 1024))),
        Case("contractions", "max-plus product, 256", max_plus,
             lambda: (normal(256, 256), normal(256, 256))),
    ]  # fmt: skip
    cases += _layers()
    for fn in (svd, qr, eigh):
        make = lambda: (normal(256, 256),)
        cases.append(Case("linear algebra", f"{fn.__name__} of 256", fn, make))
        cases.append(Case("linear algebra", f"{fn.__name__}, gradient", fn, make, True))
    for gradient in (False, True):
        end = ", gradient" if gradient else " of 256"
        cases.append(Case("linear algebra", f"solve{end}", solve,
                          lambda: (normal(256, 256) + 16 * np.eye(256), normal(256, 8)), gradient))  # fmt: skip
        cases.append(Case("linear algebra", f"cholesky{end}", cholesky,
                          lambda: (normal(256, 256),), gradient))  # fmt: skip
    for name, perm in (("reversed", REVERSED), ("rotated", ROTATED), ("shuffled", SHUFFLED)):
        cases.append(Case("transposes", f"twelve axes {name}", transposed(perm), rank_twelve))
    return cases


CASES = _cases()
