"""Products, linear algebra, transforms and layers of tenferro with the signatures of PyTorch's operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tenferro as tnf
from tools.torch_samples.adapted import Call, rank, require


def einsum(operands: Any, equation: str) -> Any:
    return tnf.einsum(equation, *operands)


def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    batch = tuple(range(rank(a) - 2))
    first = max(rank(b) - 2, 0)
    product = tnf.dot_general(a, b, ((rank(a) - 1,), (first,)), (batch, batch))
    return beta * x + alpha * product


def cross(x: Any, y: Any, dim: int | None = None) -> Any:
    axis = next(i for i, n in enumerate(x.shape) if n == 3) if dim is None else dim
    return tnf.linalg.cross(x, y, axis=axis)


# ---- matrices ------------------------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    return tnf.conj(tnf.matrix_transpose(x))


def hermitian(x: Any) -> Any:
    """Return x + x^H. PyTorch's derivative checks call functions of Hermitian matrices with such a sum."""
    return x + adjoint(x)


def cholesky(x: Any, upper: bool = False) -> Any:
    return tnf.linalg.cholesky(hermitian(x), upper=upper)


def eig(x: Any) -> Any:
    return tnf.linalg.eig(x)


def eigh(x: Any, UPLO: str = "L") -> Any:  # noqa: N803  # because NumPy names it so
    return tnf.linalg.eigh(hermitian(x), UPLO)


def eigvalsh(x: Any, UPLO: str = "L") -> Any:  # noqa: N803  # because NumPy names it so
    return tnf.linalg.eigvalsh(hermitian(x), UPLO)


def qr(x: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return tnf.zeros(0, dtype=x.dtype), tnf.linalg.qr(x, "r")
    return tnf.linalg.qr(x, mode)


def lu(x: Any, pivot: bool = True) -> Any:
    require(pivot, "no pivots")
    return tnf.linalg.lu(x)


def lu_factor(x: Any, pivot: bool = True) -> Any:
    require(pivot, "no pivots")
    return tnf.linalg.lu_factor(x)[0]


def lu_solve(lu: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    require(left and not adjoint, "the matrix on the right, or its adjoint")
    return tnf.linalg.lu_solve((lu, pivots - 1), b)


def solve_triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:  # fmt: skip
    if left:
        return tnf.linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)
    turned = tnf.linalg.solve_triangular(
        a, tnf.matrix_transpose(b), lower=not upper, unit_diagonal=unitriangular, trans="T"
    )
    return tnf.matrix_transpose(turned)


def lstsq(a: Any, b: Any, driver: str | None = None) -> Any:
    return tnf.linalg.lstsq(a, b)[0]


def pinv_hermitian(x: Any, hermitian: bool) -> Any:
    return tnf.linalg.pinv(x + adjoint(x), hermitian=hermitian)


def matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    turned = tnf.moveaxis(x, dim, (-2, -1))
    norm = tnf.linalg.matrix_norm(turned, ord=ord, keepdims=keepdim)
    return tnf.moveaxis(norm, (-2, -1), dim) if keepdim else norm


def matrix_diagonal(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return tnf.linalg.diagonal(tnf.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset)


def transforms(name: str) -> Call:
    def along(x: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        one = lambda value: [value] if isinstance(value, int) else value
        if dim is None and name.endswith("2"):
            dim = (-2, -1)
        if dim is None and s is not None:
            dim = range(-len(one(s)), 0)
        return getattr(tnf.fft, name)(x, s=one(s), axes=one(dim), norm=norm)

    return along


# ---- layers --------------------------------------------------------------------------------------


def prelu(x: Any, weight: Any) -> Any:
    if rank(weight) and rank(x) > 1:
        weight = tnf.reshape(weight, (-1, *(1,) * (rank(x) - 2)))
    return tnf.nn.leaky_relu(x, weight if rank(x) else tnf.reshape(weight, ()))


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return tnf.where(x * beta > threshold, x, tnf.nn.softplus(x * beta) / beta)


def hard_tanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    require((min_val, max_val) == (-1.0, 1.0), "bounds other than -1 and 1")
    return tnf.nn.hard_tanh(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    return tnf.nn.gelu(x, approximate=approximate == "tanh")


def one_hot(x: Any, num_classes: int = -1) -> Any:
    require(
        num_classes != -1 or isinstance(x, np.ndarray),
        "a number of classes that depends on the elements",
    )
    classes = int(np.max(x)) + 1 if num_classes == -1 else num_classes
    return tnf.nn.one_hot(x, classes, dtype="int64")


def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(-len(shape), 0))
    return tnf.nn.layer_norm(x, weight, bias, axis=axes, epsilon=eps)


def batch_norm(x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
    require(rank(x) > 1, "an operand without an axis of features")
    statistics = {} if training else {"mean": mean, "variance": variance}
    return tnf.nn.batch_norm(x, weight, bias, axis=1, epsilon=eps, **statistics)


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:  # fmt: skip
    grouped = tnf.reshape(x, (x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups))
    y = tnf.reshape(tnf.nn.standardize(grouped, -1, epsilon=eps, algorithm="stable"), x.shape)
    features = (-1, *(1,) * (rank(x) - 2))
    y = y if weight is None else y * tnf.reshape(weight, features)
    return y if bias is None else y + tnf.reshape(bias, features)


def each(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def batched(x: Any, w: Any) -> tuple[Any, bool]:
    return (x, False) if rank(x) == rank(w) else (tnf.expand_dims(x, 0), True)


def with_bias(y: Any, bias: Any, is_one: bool) -> Any:
    if bias is not None:
        y = y + tnf.reshape(bias, (-1, *(1,) * (rank(y) - 2)))
    return y[0] if is_one else y


def conv(x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:  # fmt: skip
    space = rank(w) - 2
    x, is_one = batched(x, w)
    padding = padding.upper() if isinstance(padding, str) else each(padding, space)
    options = {"strides": each(stride, space), "dilation": each(dilation, space)}
    y = tnf.nn.conv(x, w, padding=padding, groups=groups, data_format="NCHW", **options)
    return with_bias(y, bias, is_one)


def conv_transpose(x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:  # fmt: skip
    space = rank(w) - 2
    x, is_one = batched(x, w)
    require(not any(each(output_padding, space)), "output_padding")
    options = {"strides": each(stride, space), "dilation": each(dilation, space)}
    options["padding"] = each(padding, space)
    y = tnf.nn.conv_transpose(x, w, groups=groups, data_format="NCHW", **options)
    return with_bias(y, bias, is_one)


def pooled(pool: Call, x: Any, size: Any, stride: Any, padding: Any, *options: Any) -> Any:
    is_list = isinstance(size, list | tuple)
    space = len(size) if is_list and len(size) > 1 else rank(x) - (1 if rank(x) == 2 else 2)
    space = max(space, 1)
    is_one = rank(x) == space + 1
    x = tnf.expand_dims(x, 0) if is_one else x
    strides = each(size if stride in (None, (), []) else stride, space)
    padding = each(padding, space)
    y = pool(x, each(size, space), strides, padding, *options, data_format="NCHW")
    return y[0] if is_one else y


def avg_pool(space: int) -> Call:
    def of(x: Any, size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None) -> Any:  # fmt: skip
        require(not ceil_mode and divisor_override is None, "ceil_mode or divisor_override")
        return pooled(tnf.nn.avg_pool, x, each(size, space), stride, padding, count_include_pad)

    return of


def max_pool(space: int) -> Call:
    def of(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
        require(set(each(dilation, space)) == {1}, "dilated windows")
        require(not ceil_mode and not return_indices, "ceil_mode or return_indices")
        return pooled(tnf.nn.max_pool, x, each(kernel_size, space), stride, padding)

    return of


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **options: Any) -> Any:  # fmt: skip
    require(not dropout_p, "dropout")
    require(rank(query) == 4, "operands with another rank than 4")
    swap = lambda x: tnf.swapaxes(x, 1, 2)
    is_mask = attn_mask is not None and tnf.DType.of(attn_mask.dtype) is tnf.DType.of("bool")
    chosen = {"mask" if is_mask else "bias": attn_mask}
    y = tnf.nn.dot_product_attention(swap(query), swap(key), swap(value), is_causal=is_causal, scale=options.get("scale"), **chosen)  # fmt: skip
    return swap(y)
