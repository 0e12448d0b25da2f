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
NOT_YET = "not compared yet"
_SPECIAL = [
    "bernoulli",
    "bessel_jn",
    "betainc",
    "betaincc",
    "betaincinv",
    "dawsn",
    "erfcx",
    "erfi",
    "exp1",
    "expi",
    "expn",
    "fresnel",
    "gammainccinv",
    "gammaincinv",
    "hyp1f1",
    "hyp2f1",
    "iv",
    "ive",
    "jv",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kv",
    "kve",
    "lambertw",
    "owens_t",
    "poch",
    "sici",
    "spence",
    "sph_harm_y",
    "stdtr",
    "stdtrit",
    "yv",
]

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("associative_scan", "checkpoint", "cond", "custom_linear_solve", "custom_root"),
            *("fixed_point", "fori_loop", "grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev"),
            *("jit", "jvp", "linearize", "map", "scan", "switch", "value_and_grad", "vjp", "vmap"),
            *("jet", "odeint", "while_loop", "stop_gradient", "sparse_hessian", "sparse_jacobian"),
        ),
        TRANSFORMATION,
    ),
    **dict.fromkeys(
        (
            *("astype", "broadcast_shapes", "can_cast", "capabilities", "check", "check_grads"),
            "pure_callback",
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
    **dict.fromkeys(
        (
            *(
                "apply_along_axis",
                "apply_over_axes",
                "fromfunction",
                "frompyfunc",
                "piecewise",
                "vectorize",
            ),
        ),
        TRANSFORMATION,
    ),
    **dict.fromkeys(("issubdtype", "iterable", "promote_types"), TOOL),
    **dict.fromkeys(
        (
            *(
                "bartlett",
                "blackman",
                "diag_indices",
                "diag_indices_from",
                "hamming",
                "hanning",
                "indices",
                "kaiser",
            ),
            *(
                "mask_indices",
                "tril_indices",
                "tril_indices_from",
                "triu_indices",
                "triu_indices_from",
            ),
            *("linalg.dft", "linalg.hadamard", "linalg.helmert", "linalg.hilbert", "linalg.pascal"),
        ),
        CREATION,
    ),
    **dict.fromkeys(
        (
            *(
                "array_equiv",
                "block",
                "choose",
                "compress",
                "copy",
                "delete",
                "ediff1d",
                "extract",
                "insert",
                "intersect1d",
            ),
            *(
                "ix_",
                "lexsort",
                "matvec",
                "nanargmax",
                "nanargmin",
                "nancumprod",
                "nancumsum",
                "nanpercentile",
                "packbits",
            ),
            *(
                "place",
                "poly",
                "polyadd",
                "polyder",
                "polydiv",
                "polyfit",
                "polyint",
                "polymul",
                "polysub",
            ),
            *(
                "ravel_multi_index",
                "resize",
                "roots",
                "segment_max",
                "segment_min",
                "segment_prod",
                "segment_sum",
            ),
            *(
                "setdiff1d",
                "setxor1d",
                "sort_complex",
                "spacing",
                "trim_zeros",
                "union1d",
                "unpackbits",
                "unravel_index",
            ),
            *(
                "vecmat",
                "linalg.circulant",
                "linalg.companion",
                "linalg.eigh_tridiagonal",
                "linalg.expm_frechet",
            ),
            *(
                "linalg.funm",
                "linalg.hankel",
                "linalg.polar",
                "linalg.schur",
                "linalg.solve_banded",
            ),
            *("linalg.solve_sylvester", "linalg.sqrtm", "linalg.toeplitz"),
            *[f"special.{name}" for name in _SPECIAL],
        ),
        NO_FUNCTION,
    ),
    **dict.fromkeys(
        (
            *(
                "fill_diagonal",
                "frexp",
                "gcd",
                "histogram2d",
                "histogramdd",
                "i0",
                "isneginf",
                "isposinf",
                "lcm",
            ),
            *(
                "nanquantile",
                "put",
                "put_along_axis",
                "unique",
                "vander",
                "linalg.block_diag",
                "linalg.cho_factor",
            ),
            "linalg.cho_solve",
            *[f"special.{name}" for name in (["gammainc", "gammaincc", "j0", "j1", "y0", "y1"])],
        ),
        NOT_YET,
    ),
}
