"""Public names that are no rows of the table, and why."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["OTHERS"]

NO_DERIVATIVE = "its results are constants, indices, truth values or integers"
TRANSFORMATION = "a transformation or control flow: its derivative is that of its function"
NOT_YET = "a function of matrices, whose exceptional points are matrices: not in the table yet"
SAME = "another name, or NumPy's signature, of a function in the table"
EXTENTS = "cuts or pads to an extent that is data, and is linear"
COMPOSED = "made of functions in the table: not in it by itself yet"
TOOL = "no function of tensors"

OTHERS: Mapping[str, str] = {
    "capabilities": "no function of tensors",
    **dict.fromkeys(("dynamic_truncate", "pad_to_match"), EXTENTS),
    **dict.fromkeys(
        (
            *("all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "count_nonzero"),
            *("bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_or"),
            *("bitwise_right_shift", "bitwise_xor", "empty", "empty_like", "equal", "eye", "full"),
            *("full_like", "greater", "greater_equal", "isfinite", "isin", "isinf", "isnan"),
            *("less", "less_equal", "linspace", "logical_and", "logical_not", "logical_or"),
            *("logical_xor", "nextafter", "nonzero", "not_equal", "ones", "ones_like"),
            *("searchsorted", "shape_of", "signbit", "unique_all", "unique_counts"),
            *("unique_inverse", "unique_values", "zeros", "zeros_like", "from_dlpack"),
            *("allclose", "array_equal", "bincount", "bitwise_not", "digitize", "fix", "heaviside"),
            *("identity", "invert", "iscomplex", "iscomplexobj", "isclose", "isreal", "isrealobj"),
            *("isscalar", "left_shift", "ndim", "right_shift", "rint", "shape", "size", "tri"),
            *("nn.one_hot", "no_grad", "special.gammasgn"),
            *("argpartition", "argwhere", "flatnonzero", "histogram_bin_edges"),
            *("stop_gradient", "linalg.matrix_rank", "fft.fftfreq", "fft.rfftfreq"),
        ),
        NO_DERIVATIVE,
    ),
    **dict.fromkeys(
        (
            *("associative_scan", "checkpoint", "cond", "fori_loop"),
            *("grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "linearize"),
            *("custom_linear_solve", "custom_root", "fixed_point"),
            *("map", "scan", "switch", "value_and_grad", "vjp", "vmap", "while_loop", "eval_shape"),
        ),
        TRANSFORMATION,
    ),
    **dict.fromkeys(
        (
            *("absolute", "amax", "amin", "append", "arccos", "arccosh", "arcsin", "arcsinh"),
            *("arctan", "arctan2", "arctanh", "around", "array", "array_split", "atleast_1d"),
            *("atleast_2d", "atleast_3d", "column_stack", "conjugate", "cumprod", "cumsum", "diag"),
            *("clamp_max", "clamp_min", "embed_diag", "extract_diag"),
            *("diagflat", "dot", "dsplit", "dstack", "fabs", "fliplr", "flipud", "hsplit"),
            *(
                "partition",
                "real_if_close",
                "rollaxis",
                "hstack",
                "inner",
                "mod",
                "power",
                "rot90",
                "true_divide",
                "vdot",
                "vsplit",
            ),
            *("vstack", "special.digamma", "special.erf", "special.erfc", "special.erfinv"),
            *("special.expit", "special.gammaln", "special.log_softmax", "special.loggamma"),
            *("special.logsumexp", "special.polygamma", "special.psi", "special.softmax"),
            *("nn.log_softmax", "nn.logsumexp", "nn.sigmoid", "nn.softmax", "nn.tanh"),
        ),
        SAME,
    ),
    **dict.fromkeys(
        (
            *(
                "average",
                "convolve",
                "corrcoef",
                "correlate",
                "cov",
                "deg2rad",
                "degrees",
                "divmod",
            ),
            *("float_power", "fmax", "fmin", "gradient", "interp", "kron", "ldexp", "logaddexp2"),
            *("median", "modf", "nan_to_num", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd"),
            *("nansum", "nanvar", "percentile", "polyval", "ptp", "quantile", "rad2deg"),
            *(
                "radians",
                "select",
                "sinc",
                "trapezoid",
                "cross",
                "histogram",
                "nanmedian",
                "unwrap",
                "geomspace",
                "logspace",
                "at",
            ),
            *("nn.celu", "nn.elu", "nn.gelu", "nn.glu", "nn.hard_sigmoid", "nn.hard_silu"),
            *("nn.hard_swish", "nn.hard_tanh", "nn.identity", "nn.leaky_relu", "nn.log_sigmoid"),
            *("nn.mish", "nn.relu", "nn.relu6", "nn.selu", "nn.soft_sign"),
            *("nn.softplus", "nn.sparse_plus", "nn.sparse_sigmoid", "nn.squareplus", "nn.swish"),
            *("nn.dot_product_attention", "nn.avg_pool", "nn.conv", "nn.conv_transpose"),
            *("nn.max_pool", "nn.min_pool", "nn.batch_norm", "nn.dropout", "nn.layer_norm"),
            *("nn.standardize", "nn.logmeanexp"),
            *("special.beta", "special.betaln", "special.comb", "special.entr"),
            *("special.factorial", "special.gamma", "special.i0", "special.i0e", "special.i1"),
            *("special.i1e", "special.kl_div", "special.logit"),
            *("special.multigammaln", "special.ndtri", "special.rel_entr"),
            *("special.xlog1py", "special.xlogy", "special.zeta"),
        ),
        COMPOSED,
    ),
    **{
        f"linalg.{name}": NOT_YET
        for name in (
            *("cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv"),
            *("lstsq", "lu", "lu_factor", "lu_solve", "matrix_norm", "matrix_power", "pinv", "qr"),
            "qr_append",
            *("rank_revealing_qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals"),
            *("tensorinv", "tensorsolve", "truncated_svd"),
        )
    },
    **dict.fromkeys(
        (
            *("can_cast", "broadcast_shapes", "check_grads", "compile", "debug_print"),
            *(
                "default_executor",
                "disable_jit",
                "einsum_path",
                "einsum_plan",
                "finfo",
                "iinfo",
                "isdtype",
                "load",
                "result_type",
            ),
            "save",
        ),
        TOOL,
    ),
}
