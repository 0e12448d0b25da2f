"""Public functions without a counterpart among PyTorch's samples, and why."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ABSENT"]

TRANSFORMATION = "a transformation or control flow, not a function of tensors"
TOOL = "about programs, dtypes or shapes, not a function of elements"
NO_FUNCTION = "PyTorch has no such function"
NO_SAMPLES = "PyTorch's samples have none: its function is another one's composition, or random"
OTHER_ARGUMENTS = "PyTorch's function takes other arguments, such as float exponents"
CREATION = "creates elements from numbers alone"

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("associative_scan", "checkpoint", "cond", "custom_linear_solve", "custom_root"),
            *("fixed_point", "fori_loop", "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev"),
            *("jit", "jvp", "linearize", "map", "scan", "switch", "value_and_grad", "vjp", "vmap"),
            *("while_loop", "stop_gradient"),
        ),
        TRANSFORMATION,
    ),
    **dict.fromkeys(
        (
            *("astype", "broadcast_shapes", "can_cast", "capabilities", "check_grads"),
            *(
                "compile",
                "debug_print",
                "default_executor",
                "disable_jit",
                "einsum_path",
                "einsum_plan",
                "finfo",
            ),
            *("eval_shape", "from_dlpack", "iinfo", "iscomplexobj", "isdtype", "isrealobj", "load"),
            *("isscalar", "ndim", "no_grad", "result_type", "save", "shape", "shape_of", "size"),
        ),
        TOOL,
    ),
    **dict.fromkeys(
        (
            *("append", "argpartition", "bitwise_count", "cbrt", "convolve", "correlate", "divmod"),
            *("dynamic_truncate", "flatnonzero", "geomspace", "histogram_bin_edges", "interp"),
            *("iscomplex", "nanmax", "nanmin", "nanprod", "nanstd", "nanvar", "pad_to_match"),
            *("partition", "polyval", "real_if_close", "rollaxis", "select", "unwrap"),
            *(
                "linalg.qr_append",
                "linalg.rank_revealing_qr",
                "linalg.truncated_svd",
                "nn.identity",
                "nn.logmeanexp",
            ),
            *("nn.min_pool", "nn.sparse_plus", "nn.sparse_sigmoid", "nn.squareplus"),
            *("special.beta", "special.betaln", "special.comb", "special.factorial"),
            *("special.gamma", "special.gammasgn", "special.kl_div", "special.loggamma"),
        ),
        NO_FUNCTION,
    ),
    **dict.fromkeys(("extract_diag", "percentile", "nn.dropout"), NO_SAMPLES),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse"), "run as `unique_values`"),
    "ldexp": OTHER_ARGUMENTS,
    **dict.fromkeys(
        (
            *("arange", "array", "asarray", "empty", "empty_like", "identity", "logspace", "tri"),
            *("fft.fftfreq", "fft.rfftfreq"),
        ),
        CREATION,
    ),
}
