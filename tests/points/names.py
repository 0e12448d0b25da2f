"""Public names that are no rows of the table, and why."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["OTHERS"]

NO_DERIVATIVE = "its results are constants, indices, truth values or integers"
TRANSFORMATION = "a transformation or control flow: its derivative is that of its function"
NOT_YET = "a function of matrices, whose exceptional points are matrices: not in the table yet"
TOOL = "no function of tensors"

OTHERS: Mapping[str, str] = {
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
            *("stop_gradient", "linalg.matrix_rank", "fft.fftfreq", "fft.rfftfreq"),
        ),
        NO_DERIVATIVE,
    ),
    **dict.fromkeys(
        (
            *("associative_scan", "checkpoint", "cond", "fori_loop"),
            *("grad", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "linearize"),
            *("map", "scan", "switch", "value_and_grad", "vjp", "vmap", "while_loop", "eval_shape"),
        ),
        TRANSFORMATION,
    ),
    **{
        f"linalg.{name}": NOT_YET
        for name in (
            *("cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv"),
            *("lstsq", "lu", "lu_factor", "lu_solve", "matrix_norm", "matrix_power", "pinv", "qr"),
            *("slogdet", "solve", "solve_triangular", "svd", "svdvals"),
        )
    },
    **dict.fromkeys(
        (
            *("can_cast", "broadcast_shapes", "check_grads", "compile", "default_executor"),
            *("disable_jit", "einsum_path", "finfo", "iinfo", "isdtype", "load", "result_type"),
            "save",
        ),
        TOOL,
    ),
}
