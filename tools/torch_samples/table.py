"""Table of the PyTorch operators that define each function of tenferro."""

from __future__ import annotations

from collections.abc import Mapping

from tools.torch_samples import adapted
from tools.torch_samples import adapted_indices as indices
from tools.torch_samples import adapted_linear as linear
from tools.torch_samples.row import Row, binary, by, same

__all__ = ["ROWS"]

REDUCED = "dim>axis* keepdim>keepdims dtype"
ALONG = "dim>axis keepdim>keepdims"
TRANSFORM = "n dim>axis norm"

ELEMENTWISE: dict[str, tuple[Row, ...]] = {
    **same("abs acos acosh angle asin asinh atan atanh ceil conj cos cosh deg2rad digamma erf erfc"),
    **same("erfinv exp exp2 expm1 floor isfinite isinf isnan isreal lgamma log log10 log1p log2"),
    **same("logical_not positive rad2deg reciprocal rsqrt signbit sign sin sinc sinh sqrt square"),
    **same("tan tanh trunc real imag"),
    "fabs": (Row("abs"),),
    "negative": (Row("neg"),),
    "logistic": (Row("sigmoid"),),
    "conjugate": (Row("conj_physical"),),
    "bitwise_invert": (Row("bitwise_not"),),
    "fix": (Row("trunc"),),
    "degrees": (Row("rad2deg"),),
    "radians": (Row("deg2rad"),),
    "rint": (Row("round"),),
    "round": (Row("round"), *by(adapted.rounded, "round/decimals_0", "round/decimals_3", "round/decimals_neg_3")),
    "nan_to_num": (Row("nan_to_num", "nan posinf neginf"),),
    "modf": by(adapted.fraction, "frac"),
    "polygamma": tuple(row for n in range(5) for row in by(adapted.polygamma, f"polygamma/polygamma_n_{n}")),
    **binary(
        {
            **{name: name for name in ["atan2", "copysign", "fmax", "fmin", "fmod", "heaviside", "hypot"]},
            **{name: name for name in ["logaddexp", "logaddexp2", "maximum", "minimum"]},
            **{name: name for name in ["nextafter", "float_power", "floor_divide", "remainder"]},
            **{name: name for name in ["logical_and", "logical_or", "logical_xor", "bitwise_and"]},
            **{name: name for name in ["bitwise_or", "bitwise_xor", "bitwise_left_shift"]},
            **{name: name for name in ["bitwise_right_shift", "true_divide"]},
            "multiply": "mul", "power": "pow", "pow": "pow", "mod": "remainder",
            "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
            "greater": "gt", "greater_equal": "ge",
        }
    ),
    "array_equal": (Row("equal", "@other"),),
    "add": by(adapted.add, "add"),
    "subtract": (*by(adapted.subtract, "sub"), *by(adapted.reversed_subtract, "rsub")),
    "divide": (Row("div", "@other", "no_rounding_mode"), *by(adapted.divide, "div/trunc_rounding", "div/floor_rounding")),
    "isclose": (Row("isclose", "@other rtol atol equal_nan"),),
    "allclose": (Row("allclose", "@other rtol atol equal_nan"),),
    "clip": (Row("clamp", "min max"),),
    "clamp_max": (Row("clamp_max", "@max"),),
    "clamp_min": (Row("clamp_min", "@min"),),
    "where": (
        *by(adapted.where, "where"),
        *by(adapted.masked_fill, "masked_fill"),
        *by(adapted.threshold, "nn.functional.threshold"),
        *by(adapted.hardshrink, "nn.functional.hardshrink"),
    ),
    "lax.complex": (Row("complex", "@imag"),),
}  # fmt: skip

REDUCTIONS: dict[str, tuple[Row, ...]] = {
    **{name: (Row(name, REDUCED),) for name in ("sum", "mean", "nansum", "nanmean", "all", "any")},
    **{
        name: (Row(name, "dim>axis* keepdim>keepdims"),)
        for name in ("amax", "amin", "count_nonzero")
    },
    **{name: (Row(name, ALONG),) for name in ("argmax", "argmin")},
    "max": (
        Row("max", "", "reduction_no_dim"),
        *by(adapted.extreme("max"), "max/reduction_with_dim"),
    ),
    "min": (
        Row("min", "", "reduction_no_dim"),
        *by(adapted.extreme("min"), "min/reduction_with_dim"),
    ),
    "ptp": by(adapted.ptp, "aminmax"),
    "prod": (Row("prod", f"{ALONG} dtype"),),
    "var": by(adapted.spread("var"), "var", "var/unbiased"),
    "std": by(adapted.spread("std"), "std", "std/unbiased"),
    "average": by(adapted.mean_of_spread, "var_mean"),
    "nanmedian": by(adapted.odd_nanmedian, "nanmedian", invariant="first"),
    "median": by(adapted.odd_median, "median", invariant="first"),
    "quantile": (Row("quantile", "@q dim>axis keepdim>keepdims interpolation>method"),),
    "cumulative_sum": by(adapted.cumulative("cumulative_sum"), "cumsum"),
    "cumulative_prod": by(adapted.cumulative("cumulative_prod"), "cumprod"),
    "cumsum": (Row("cumsum", "dim>axis dtype"),),
    "cumprod": (Row("cumprod", "dim>axis dtype"),),
    "lax.cummax": by(adapted.cumulative_extreme("cummax"), "cummax", invariant="first"),
    "lax.cummin": by(adapted.cumulative_extreme("cummin"), "cummin", invariant="first"),
    "lax.cumlogsumexp": (Row("logcumsumexp", "dim>axis"),),
    "logsumexp": (Row("logsumexp", ALONG),),
    "softmax": (Row("softmax", "dim>axis"), *by(adapted.softmin, "nn.functional.softmin")),
    "log_softmax": (Row("log_softmax", "dim>axis"),),
    "nn.softmax": by(adapted.typed("nn.softmax"), "softmax/with_dtype"),
    "nn.log_softmax": by(adapted.typed("nn.log_softmax"), "log_softmax/with_dtype"),
    "cov": (Row("cov", "correction>ddof fweights aweights"),),
    "corrcoef": (Row("corrcoef"),),
    "trapezoid": (*by(adapted.trapezoid, "trapezoid", "trapz"),),
    "histogram": by(adapted.histogram, "histogram"),
    "bincount": (Row("bincount", "weights minlength"),),
    "sort": (*by(adapted.sort, "sort"), *by(adapted.msort, "msort")),
    "argsort": by(adapted.argsort, "argsort"),
    "top_k": by(adapted.top_k, "topk"),
    "searchsorted": by(adapted.searchsorted, "searchsorted"),
    "digitize": by(adapted.digitize, "bucketize"),
    "isin": (Row("isin", "@test_elements assume_unique invert"),),
    "unique_values": by(adapted.unique, "unique"),
    "nonzero": by(adapted.nonzero, "nonzero"),
    "argwhere": (Row("argwhere"),),
    "diff": (Row("diff", "n dim>axis prepend append"),),
    "gradient": by(adapted.gradient, "gradient"),
}

SHAPES: dict[str, tuple[Row, ...]] = {
    "broadcast_to": (Row("broadcast_to", "@shape"), *by(adapted.expand, "expand"), *by(adapted.expand_as, "expand_as")),
    "broadcast_arrays": by(adapted.broadcast_arrays, "broadcast_tensors"),
    "reshape": (Row("reshape", "@shape"), Row("view", "@shape"), *by(adapted.unflatten, "unflatten")),
    "ravel": (Row("ravel"),),
    "squeeze": by(adapted.squeeze, "squeeze/multiple"),
    "expand_dims": (Row("unsqueeze", "@dim"),),
    "permute_dims": (Row("permute", "@dims"),),
    "transpose": (Row("t"),),
    "swapaxes": (Row("transpose", "@dim0 @dim1"),),
    "matrix_transpose": (Row("mT"),),
    "moveaxis": (Row("movedim", "@source @destination"),),
    "flip": (Row("flip", "dims>axis"),),
    "fliplr": (Row("fliplr"),),
    "flipud": (Row("flipud"),),
    "roll": (Row("roll", "@shifts dims>axis"),),
    "rot90": (Row("rot90", "k dims>axes"),),
    "repeat": (Row("repeat_interleave", "@repeats dim>axis output_size>"),),
    "tile": (Row("tile", "@dims"), *by(adapted.tile, "repeat")),
    "concat": (Row("cat", "dim>axis"),),
    "concatenate": (Row("cat", "dim>axis"),),
    "stack": (Row("stack", "dim>axis"),),
    **{name: (Row(name),) for name in ("hstack", "vstack", "dstack", "column_stack")},
    **{f"atleast_{n}d": by(adapted.atleast(f"atleast_{n}d"), f"atleast_{n}d") for n in (1, 2, 3)},
    **{name: (Row(name, "@indices"),) for name in ("hsplit", "vsplit", "dsplit")},
    "split": by(adapted.split, "split", "split/list_args", "split_with_sizes"),
    "array_split": by(adapted.array_split, "tensor_split"),
    "unstack": (Row("unbind", "dim>axis"),),
    "meshgrid": by(adapted.meshgrid, "meshgrid/variadic_tensors", "meshgrid/list_of_tensors"),
    "diag": (Row("diag", "@diagonal"),),
    "diagflat": (Row("diagflat", "offset>k"),),
    "diagonal": (Row("diagonal", "offset dim1>axis1 dim2>axis2"),),
    "embed_diag": by(adapted.embed_diag, "diag_embed"),
    "tril": (Row("tril", "@diagonal"),),
    "triu": (Row("triu", "@diagonal"),),
    "trace": (Row("trace"),),
    "pad": (
        *by(adapted.padded("constant"), "nn.functional.pad/constant", "constant_pad_nd"),
        *by(adapted.padded("reflect"), "nn.functional.pad/reflect"),
        *by(adapted.padded("edge"), "nn.functional.pad/replicate"),
        *by(adapted.padded("wrap"), "nn.functional.pad/circular"),
    ),
    "take": (*by(indices.take, "take"), *by(indices.index_select, "index_select")),
    "take_along_axis": (
        *by(indices.take_along, "take_along_dim"),
        *by(indices.gather, "gather"),
    ),
    "at": (
        *by(indices.index_put, "index_put"),
        *by(indices.index_add, "index_add"),
        *by(indices.index_copy, "index_copy"),
        *by(indices.index_fill, "index_fill"),
        *by(indices.select_scatter, "select_scatter"),
        *by(indices.slice_scatter, "slice_scatter"),
        *by(indices.diagonal_scatter, "diagonal_scatter"),
        *by(indices.scatter("set"), "scatter"),
        *by(indices.scatter("add"), "scatter_add"),
        *by(indices.scatter_reduce, *[f"scatter_reduce/{kind}" for kind in ("sum", "prod", "amin", "amax")]),
        *by(indices.put, "put"),
    ),
    "full": (Row("full", "@fill_value dtype device>"),),
    "ones": (Row("ones", "dtype device>"),),
    "zeros": (Row("zeros", "dtype device>"),),
    "linspace": (Row("linspace", "@end @steps dtype device>"),),
    "eye": (Row("eye", "@m dtype device> requires_grad>"),),
    "zeros_like": (Row("zeros_like", "dtype device>"),),
    "ones_like": (Row("ones_like", "dtype device>"),),
    "full_like": (Row("full_like", "@fill_value dtype device>"),),
}  # fmt: skip

PRODUCTS: dict[str, tuple[Row, ...]] = {
    **binary({"matmul": "matmul", "dot": "dot", "vdot": "vdot", "outer": "outer", "kron": "kron"}),
    "inner": (Row("inner", "@other"),),
    "tensordot": (Row("tensordot", "@other dims>axes"),),
    "einsum": by(linear.einsum, "einsum"),
    "cross": (Row("linalg.cross", "@other dim>axis"),),
    "vecdot": (Row("linalg.vecdot", "@other dim>axis"),),
    "linalg.multi_dot": (Row("linalg.multi_dot"),),
    "linalg.matmul": tuple(Row(name, "@other") for name in ("mm", "mv", "bmm")),
    "linalg.matrix_power": (Row("linalg.matrix_power", "@n"),),
    "dot_general": by(linear.addmm, "addmm", "addmv", "baddbmm"),
}

LINALG: dict[str, tuple[Row, ...]] = {
    **same("det inv slogdet svdvals", "linalg.", "linalg."),
    "linalg.cond": (Row("linalg.cond", "p"),),
    "linalg.cholesky": by(linear.cholesky, "linalg.cholesky"),
    "linalg.eig": by(linear.eig, "linalg.eig", invariant="abs"),
    "linalg.eigvals": (Row("linalg.eigvals"),),
    "linalg.eigh": by(linear.eigh, "linalg.eigh", invariant="abs"),
    "linalg.eigvalsh": by(linear.eigvalsh, "linalg.eigvalsh"),
    "linalg.svd": (Row("linalg.svd", "full_matrices", "", None, "svd"),),
    "linalg.qr": by(linear.qr, "linalg.qr", invariant="abs"),
    "linalg.lu": by(linear.lu, "linalg.lu"),
    "linalg.lu_solve": by(linear.lu_solve, "linalg.lu_solve"),
    "linalg.lu_factor": by(linear.lu_factor, "linalg.lu_factor", invariant="first"),
    "linalg.solve": (Row("linalg.solve", "@B"),),
    "linalg.solve_triangular": by(linear.solve_triangular, "linalg.solve_triangular"),
    "linalg.lstsq": by(linear.lstsq, "linalg.lstsq/grad_oriented", invariant="first"),
    "linalg.expm": (Row("matrix_exp"),),
    "linalg.pinv": (
        Row("linalg.pinv", "rtol"),
        *by(linear.pinv_hermitian, "linalg.pinv/hermitian"),
    ),
    "linalg.matrix_rank": (Row("linalg.matrix_rank", "atol>tol rtol hermitian"),),
    "linalg.norm": (Row("linalg.norm", "ord dim>axis keepdim>keepdims"),),
    "linalg.vector_norm": (Row("linalg.vector_norm", "ord dim>axis keepdim>keepdims"),),
    "linalg.matrix_norm": by(linear.matrix_norm, "linalg.matrix_norm"),
    "linalg.diagonal": by(linear.matrix_diagonal, "linalg.diagonal"),
    "linalg.tensorinv": (Row("linalg.tensorinv", "ind"),),
    "linalg.tensorsolve": (Row("linalg.tensorsolve", "@other dims>axes"),),
    "linalg.cross": by(linear.cross, "cross"),
    "linalg.trace": (Row("trace"),),
}

FFT: dict[str, tuple[Row, ...]] = {
    **{f"fft.{n}": (Row(f"fft.{n}", TRANSFORM),) for n in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]},
    **{f"fft.{n}": (Row(f"fft.{n}", ours=linear.transforms(n)),) for n in
       ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]},
    **{f"fft.{n}": (Row(f"fft.{n}", "dim>axes"),) for n in ("fftshift", "ifftshift")},
}  # fmt: skip

SPECIAL: dict[str, tuple[Row, ...]] = {
    **same("i0e i1 i1e ndtr ndtri log_ndtr entr", "special.", "special."),
    **same("digamma erf erfc erfinv i0", "special."),
    "special.expit": (Row("sigmoid"),),
    "special.gammaln": (Row("lgamma"),),
    "special.logit": by(adapted.logit, "logit"),
    "special.multigammaln": by(
        adapted.multigammaln, *[f"mvlgamma/mvlgamma_p_{p}" for p in (1, 3, 5)]
    ),
    "special.xlog1py": (Row("special.xlog1py", "@other"),),
    "special.xlogy": (Row("xlogy", "@other"),),
    "special.zeta": (Row("special.zeta", "@other"),),
    "special.rel_entr": by(adapted.pointwise_kl_div, "nn.functional.kl_div"),
    "special.logsumexp": (Row("logsumexp", ALONG),),
    "special.softmax": (Row("softmax", "dim>axis"),),
    "special.log_softmax": (Row("log_softmax", "dim>axis"),),
    "special.polygamma": by(adapted.polygamma, "special.polygamma/special_polygamma_n_0"),
}

F = "nn.functional."
NN: dict[str, tuple[Row, ...]] = {
    **same("mish relu relu6 selu silu", "nn.", F),
    "nn.celu": (Row(F + "celu", "alpha"),),
    "nn.elu": (Row(F + "elu", "alpha"),),
    "nn.leaky_relu": (Row(F + "leaky_relu", "negative_slope"), *by(linear.prelu, F + "prelu")),
    "nn.softplus": by(linear.softplus, F + "softplus"),
    "nn.soft_sign": (Row(F + "softsign"),),
    "nn.log_sigmoid": (Row(F + "logsigmoid"),),
    "nn.hard_sigmoid": (Row(F + "hardsigmoid"),),
    "nn.hard_silu": (Row(F + "hardswish"),),
    "nn.hard_tanh": by(linear.hard_tanh, F + "hardtanh"),
    "nn.gelu": by(linear.gelu, F + "gelu"),
    "nn.glu": (Row(F + "glu", "dim>axis"),),
    "nn.sigmoid": (Row("sigmoid"),),
    "nn.one_hot": by(linear.one_hot, F + "one_hot"),
    "nn.layer_norm": by(linear.layer_norm, F + "layer_norm"),
    "nn.batch_norm": by(linear.batch_norm, F + "batch_norm"),
    "nn.standardize": by(linear.group_norm, F + "group_norm"),
    "nn.conv": by(linear.conv, F + "conv1d", F + "conv2d", F + "conv3d"),
    "nn.conv_transpose": by(linear.conv_transpose, *[f"{F}conv_transpose{n}d" for n in (1, 2, 3)]),
    "nn.avg_pool": tuple(Row(f"{F}avg_pool{n}d", ours=linear.avg_pool(n)) for n in (1, 2, 3)),
    "nn.max_pool": tuple(Row(f"{F}max_pool{n}d", ours=linear.max_pool(n)) for n in (1, 2, 3)),
    "nn.dot_product_attention": by(linear.attention, F + "scaled_dot_product_attention"),
    "nn.logsumexp": (Row("logsumexp", ALONG),),
}

ALIASES: dict[str, tuple[Row, ...]] = {
    **{
        ours: (Row(torch),)
        for ours, torch in {
            "absolute": "abs",
            "arccos": "acos",
            "arccosh": "acosh",
            "arcsin": "asin",
            "arcsinh": "asinh",
            "arctan": "atan",
            "arctanh": "atanh",
            "around": "round",
            "linalg.matrix_transpose": "mT",
            "nn.tanh": "tanh",
            "special.psi": "digamma",
            "nn.swish": F + "silu",
            "nn.hard_swish": F + "hardswish",
            "bitwise_not": "bitwise_not",
            "invert": "bitwise_not",
        }.items()
    },
    **binary({"arctan2": "atan2", "linalg.outer": "outer"}),
    **binary({"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"}),
    "linalg.tensordot": (Row("tensordot", "@other dims>axes"),),
    "linalg.vecdot": (Row("linalg.vecdot", "@other dim>axis"),),
}

ROWS: Mapping[str, tuple[Row, ...]] = {
    **ALIASES,
    **ELEMENTWISE,
    **REDUCTIONS,
    **SHAPES,
    **PRODUCTS,
    **LINALG,
    **FFT,
    **SPECIAL,
    **NN,
}
