"""Names of NumPy, JAX, PyTorch and TensorFlow with their counterparts in tenferro, for errors about missing names.

A counterpart is an expression or advice. Each name in it that begins with `tnf.`, `lowering.` or `xla_peer.` exists.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from tenferro.errors import MissingNameError
from tenferro.tracebacks import public, publish

__all__ = [
    "ABSENT",
    "COUNTERPARTS",
    "MissingMember",
    "is_missing",
    "missing_method",
    "missing_name",
    "open_namespace",
    "reason_of_absence",
    "tell_missing_members",
]

COUNTERPARTS: dict[str, dict[str, str]] = {
    "tnf": {
        # NumPy
        "absolute": "tnf.abs",
        "amax": "tnf.max",
        "amin": "tnf.min",
        "arccos": "tnf.acos",
        "arccosh": "tnf.acosh",
        "arcsin": "tnf.asin",
        "arcsinh": "tnf.asinh",
        "arctan": "tnf.atan",
        "arctan2": "tnf.atan2",
        "arctanh": "tnf.atanh",
        "array": "tnf.asarray",
        "asanyarray": "tnf.asarray",
        "asarray_chkfinite": "tnf.asarray",
        "complex_": "tnf.complex128",
        "conjugate": "tnf.conj",
        "float_": "tnf.float64",
        "cumprod": "tnf.cumulative_prod",
        "cumsum": "tnf.cumulative_sum",
        "dot": "tnf.matmul, or tnf.tensordot(x, y, axes=1)",
        "fix": "tnf.trunc",
        "invert": "tnf.bitwise_invert",
        "left_shift": "tnf.bitwise_left_shift",
        "mod": "tnf.remainder",
        "nan_to_num": "tnf.where(tnf.isfinite(x), x, 0.0)",
        "ndarray": "tnf.TracedTensor while tracing, numpy.ndarray outside",
        "power": "tnf.pow",
        "row_stack": "tnf.vstack",
        "right_shift": "tnf.bitwise_right_shift",
        "true_divide": "tnf.divide",
        "vdot": "tnf.vecdot, of vectors",
        # JAX
        "PRNGKey": "tnf.random.key",
        "ShapeDtypeStruct": "tnf.TensorSpec(shape, dtype)",
        "block_until_ready": "not needed: results are NumPy arrays, there when a call returns",
        "device_put": "xla_peer.XlaExecutor().put(x)",
        "export": "xla_peer.export(f, *specs)",
        "make_jaxpr": "print(tnf.compile(f, *specs))",
        "pmap": "xla_peer.partition(program, mesh, ..)",
        "remat": "tnf.checkpoint",
        "tree_map": "tnf.tree.map(f, tree)",
        # PyTorch
        "Tensor": "tnf.TracedTensor while tracing, numpy.ndarray outside",
        "as_tensor": "tnf.asarray",
        "bmm": "tnf.matmul",
        "cat": "tnf.concat",
        "clamp": "tnf.clip",
        "double": "tnf.float64",
        "eq": "tnf.equal",
        "from_numpy": "tnf.asarray; functions take NumPy arrays as they are",
        "func": "tnf.grad, tnf.vmap and their like, in tnf itself",
        "ge": "tnf.greater_equal",
        "gt": "tnf.greater",
        "half": "tnf.float16",
        "index_select": "tnf.take(x, indices, axis=axis)",
        "le": "tnf.less_equal",
        "long": "tnf.int64",
        "lt": "tnf.less",
        "manual_seed": "tnf.random.key(seed), which is given to each function that draws",
        "mm": "tnf.matmul",
        "mul": "tnf.multiply",
        "ne": "tnf.not_equal",
        "neg": "tnf.negative",
        "no_grad": "tnf.stop_gradient(x); only transforms and variables ask for derivatives",
        "permute": "tnf.permute_dims",
        "rand": "tnf.random.uniform(key, shape)",
        "randn": "tnf.random.normal(key, shape)",
        "relu": "tnf.maximum(x, 0)",
        "sigmoid": "tnf.logistic",
        "silu": "x * tnf.logistic(x)",
        "softplus": "tnf.logaddexp(x, 0.0)",
        "sub": "tnf.subtract",
        "tensor": "tnf.asarray",
        "topk": "tnf.top_k",
        "unsqueeze": "tnf.expand_dims(x, axis)",
        # TensorFlow
        "GradientTape": "tnf.EagerRuntime",
        "cast": "tnf.astype",
        "constant": "tnf.asarray, or tnf.EagerRuntime().constant(x)",
        "convert_to_tensor": "tnf.asarray",
        "function": "tnf.jit",
        "reduce_max": "tnf.max",
        "reduce_mean": "tnf.mean",
        "reduce_min": "tnf.min",
        "reduce_prod": "tnf.prod",
        "reduce_sum": "tnf.sum",
        "Variable": "tnf.EagerRuntime().variable(x)",
    },
    "tnf.linalg": {
        "inverse": "tnf.linalg.inv",
        "logdet": "tnf.linalg.slogdet(x)[1]",
        "matrix_exp": "tnf.linalg.expm",
        "pseudo_inverse": "tnf.linalg.pinv",
        "solve_ex": "tnf.linalg.solve",
        "triangular_solve": "tnf.linalg.solve_triangular",
    },
    "tnf.lax": {
        "dtype": "x.dtype, or tnf.result_type(x)",
        "index_take": "x[i, j]",
        "random_gamma_grad": "the derivative of tnf.random.gamma in its parameter",
        "scaled_dot": "tnf.nn.scaled_matmul",
        "scatter_apply": "x.at[index].apply(f)",
        "shape_as_value": "tnf.shape_of(x)",
        "stage": "tnf.asarray",
    },
    "tnf.lax.linalg": {"qdwh": "tnf.linalg.polar"},
    "tnf.random": {
        "PRNGKey": "tnf.random.key",
        "clone": "not needed: keys are arrays of two uint32",
        "key_data": "not needed: keys are arrays of two uint32",
        "wrap_key_data": "not needed: keys are arrays of two uint32",
        "default_rng": "tnf.random.key(seed), which is given to each function that draws",
        "integers": "tnf.random.randint",
        "rand": "tnf.random.uniform(key, shape)",
        "randn": "tnf.random.normal(key, shape)",
        "random": "tnf.random.uniform(key, shape)",
        "seed": "tnf.random.key(seed), which is given to each function that draws",
        "shuffle": "tnf.random.permutation",
        "standard_normal": "tnf.random.normal",
    },
    "x": {
        "H": "tnf.conj(x.mT)",
        "add": "x + y",
        "backward": "tnf.grad(f)(x) in a program; tnf.EagerRuntime().variable(x) has it",
        "block_until_ready": "not needed: results are there when a call returns",
        "clone": "not needed: tensors are values and do not change",
        "contiguous": "not needed: an executor chooses the order of the elements",
        "copy": "not needed: tensors are values and do not change",
        "cpu": "not needed: an executor decides where a program runs",
        "cuda": 'xla_peer.XlaExecutor("cuda").run(program, x): an executor decides where a program runs',
        "detach": "tnf.stop_gradient(x)",
        "dim": "x.ndim",
        "div": "x / y",
        "dot": "x @ y",
        "double": "x.astype(tnf.float64)",
        "expand": "tnf.broadcast_to(x, shape)",
        "flatten": "x.ravel()",
        "grad": "tnf.grad(f)(x)",
        "float": "x.astype(tnf.float32)",
        "half": "x.astype(tnf.float16)",
        "int": "x.astype(tnf.int32)",
        "long": "x.astype(tnf.int64)",
        "masked_fill": "tnf.where(mask, value, x)",
        "mm": "x @ y",
        "mul": "x * y",
        "norm": "tnf.linalg.norm(x)",
        "numel": "x.size",
        "numpy": "the result of running the program; while it is traced a tensor has no elements",
        "permute": "tnf.permute_dims(x, axes)",
        "requires_grad": "tnf.grad(f)(x), or tnf.EagerRuntime().variable(x)",
        "requires_grad_": "tnf.grad(f)(x), or tnf.EagerRuntime().variable(x)",
        "sub": "x - y",
        "t": "x.T",
        "to": "x.astype(dtype); an executor decides where a program runs",
        "type": "x.astype(dtype)",
        "unsqueeze": "tnf.expand_dims(x, axis)",
        "view": "x.reshape(shape)",
        **dict.fromkeys(
            ("add_", "clamp_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_"),
            "x.at[..].set(values), add, multiply ..; tensors are values, and an update gives a new one,",
        ),
        "zero_grad": "x.clear_grad() of eager variables",
    },
}  # fmt: skip
"""Counterparts in tenferro, by namespace and missing name. `x` is the namespace of a tensor's methods."""

_REASONS: dict[str, dict[str, str]] = {
    "tnf": {
        "tensors do not change; {set} gives a new one, and so do put, place and fill_diagonal with inplace=False": "copyto putmask",
        "tensors hold numbers and truth values: no strings, dates, records or objects": """
            busday_count busday_offset busdaycalendar bytes_ character chararray datetime64 datetime_as_string datetime_data flexible
            is_busday isnat object_ rec recarray record str_ timedelta64 void""",
        "longer floats than 64 bits are in no tensor": "clongdouble complex256 float96 complex192 float128 longdouble",
        "files and bytes are read by NumPy; give the array that numpy.{name} returns": """
            frombuffer fromfile fromiter fromregex fromstring genfromtxt loadtxt""",
        "arrays are written by NumPy: run the program, and give its result to numpy.{name}": "savetxt savez savez_compressed",
        "text of numbers is NumPy's: run the program, and give its result to numpy.{name}": """
            array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific typename""",
        "how arrays are printed and how NumPy reports is set with numpy.{name}": """
            errstate get_printoptions getbufsize geterr geterrcall info printoptions set_printoptions setbufsize seterr seterrcall
            show_config show_runtime test get_include""",
        "the memory layout is not part of a tensor": """
            ascontiguousarray asfortranarray isfortran little_endian may_share_memory memmap require shares_memory""",
        "elements are visited in a loop of the graph: tnf.scan, tnf.map or tnf.vmap": """
            broadcast flatiter ndenumerate ndindex nditer nested_iters""",
        "matrices are tensors of rank 2": "asmatrix bmat matrix",
        "dtypes are members of tnf.DType: DType.of(name)": "dtype sctypeDict ScalarType typecodes",
        "the dtype of results is tnf.result_type(x, y)": "common_type min_scalar_type mintypecode",
        "True and False are Python's": "True_ False_",
        "there are no polynomial objects: coefficients go to tnf.polyval, tnf.polyadd and others": "poly1d",
        "elementwise functions are plain functions": "ufunc",
        "integers of one bit are not supported; bool has two values": "int1 uint1",
        "NumPy's warnings are in numpy.exceptions": "ComplexWarning",
    },
    "tnf.lax": {
        "primitives of JAX's traces; ops of programs here are the classes in tnf.STD_OPS": "*_p",
        "effects are in the order of the calls; there are no tokens": "after_all create_token",
        "peers compute as accurately as they do; products on accelerators have tnf.lax.Precision": """
            AccuracyMode DotAlgorithm DotAlgorithmPreset Tolerance""",
        "a name for annotations; the arguments are plain tuples, strings and numbers": """
            ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike""",
        "tnf.eval_shape(f, *specs) has the shape of the result of a call": """
            conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple
            reduce_window_shape_tuple""",
        "named compositions are ops of a family, by tnf.extension.extension_family": "composite",
        "what no result needs is not computed; return it as a result": "dce_sink",
        "a tensor of a named axis is always its slice's own": "pcast",
        "slices of a named axis do not wait for each other; tnf.lax.ppermute sends": "psend precv",
        "a named axis has slices of one shape; mask, and call tnf.lax.all_to_all": "ragged_all_to_all",
        "one axis can be ragged, rows of the left matrix: tnf.lax.ragged_dot; others are masks": """
            RaggedDotDimensionNumbers ragged_dot_general""",
        "the same program runs on every platform": "platform_dependent",
        "bits follow from a key, and are those of threefry on every machine: tnf.random.bits": """
            RandomAlgorithm rng_bit_generator rng_uniform""",
    },
    "tnf.lax.linalg": {
        "primitives of JAX's traces; ops of programs here are the classes in tnf.STD_OPS": "*_p",
        "machines choose their algorithms": "EigImplementation EighImplementation SvdAlgorithm",
    },
    "tnf.nn": {
        "formats of eight and four bits are dtypes, and scales are operands: tnf.nn.scaled_matmul": """
            get_scaled_dot_general_config scaled_dot_general""",
    },
    "tnf.linalg": {
        "errors are in tnf.errors; a matrix that cannot be factorised gives NaN": "LinAlgError LinAlgWarning",
        "an executor calls BLAS and LAPACK": "find_best_blas_type get_blas_funcs get_lapack_funcs",
        "tests are those of SciPy: scipy.linalg.{name}": "test",
        "its extent follows from the data; mask the vectors of tnf.linalg.svd by its values": "null_space orth",
        "the number of diagonals is a matter of data; give it": "bandwidth",
        "pairs of matrices, reordered Schur forms and pivoted factors of Hermitian matrices have no op; numpy arrays go to scipy.linalg.{name}": """
            cdf2rdf cossin ldl matrix_balance ordqz qz solve_continuous_are solve_discrete_are""",
        "rows and columns are added by tnf.linalg.qr_append; others need tnf.linalg.qr again": "qr_delete qr_insert qr_update",
        "draws come from a key: multiply with signs of tnf.random.rademacher": "clarkson_woodruff_transform",
        "it is |x| / |expm(x)| times the norm of tnf.jacfwd(tnf.linalg.expm)(x) as a matrix": "expm_cond",
        "its eigenvalues are those of tnf.linalg.companion": "fiedler_companion",
    },
}  # fmt: skip

ABSENT: dict[str, dict[str, str]] = {
    shown: {
        name: reason.replace("{name}", name).replace("{set}", "x.at[index].set(values)")
        for reason, names in reasons.items()
        for name in names.split()
    }
    for shown, reasons in _REASONS.items()
}
"""Names of NumPy, SciPy and JAX that have no meaning for tensors, and the reasons, by the namespace without them.

A name that begins with `*` stands for all names with this ending.
"""


def reason_of_absence(shown: str, name: str) -> str | None:
    """Return the reason why a namespace lacks a name. Return None if the table does not list the name.

    >>> reason_of_absence("tnf.lax", "add_p")[:10]
    'primitives'
    """
    table = ABSENT.get(shown, {})
    endings = [ending for ending in table if ending[0] == "*" and name.endswith(ending[1:])]
    return table.get(endings[0] if endings else name)


def open_namespace(
    namespace: dict[str, Any],
    names: Iterable[str],
    shown: str,
    load: Callable[[str], Any] | None = None,
) -> None:
    """Make a module a public namespace.

    The functions of the module are wrapped in `public`, `dir` shows only `names`, and the error for a missing name
    contains the counterpart of the name.

    Args:
        namespace: the module's `globals()`.
        shown: the name of the module in messages.
        load: a function that returns the object of a name that is loaded on first use, or raises KeyError.
    """
    names = tuple(names)
    publish(namespace, names)

    def __dir__() -> list[str]:  # noqa: N807  # because Python calls it so
        return sorted(names)

    @public
    def __getattr__(name: str) -> Any:  # noqa: N807  # because Python calls it so
        try:
            value = load(name) if load is not None else None
        except KeyError:
            value = None
        if value is None:
            raise MissingNameError(shown, name, missing_name)
        namespace[name] = value
        publish(namespace, [name])
        return namespace[name]

    namespace.update(__dir__=__dir__, __getattr__=__getattr__)


def missing_name(shown: str, name: str) -> str:
    """Return the hint for a missing `name` in the namespace `shown`, or "" if there is none.

    >>> missing_name("tnf", "sigmoid"), missing_name("tnf", "cholesky")
    ('it is tnf.nn.sigmoid here', 'it is tnf.linalg.cholesky here')
    """
    homes = [home for home, names in _namespaces().items() if name in names and home != shown]
    if homes:
        return f"it is {' or '.join(f'{home}.{name}' for home in homes)} here"
    tables = [
        COUNTERPARTS.get(shown, {}),
        *[COUNTERPARTS[home] for home in COUNTERPARTS if home != "x"],
    ]
    for table in tables:
        if name in table:
            return _said(table[name])
    reason = reason_of_absence(shown, name)
    if reason is not None:
        return reason
    import difflib  # because names are rarely missing

    close = difflib.get_close_matches(name, _namespaces().get(shown, ()), cutoff=0.75)
    return f"did you mean {' or '.join(f'{shown}.{match}' for match in close)}?" if close else ""


class MissingMember:
    """Placeholder in a class for a member that its objects lack.

    `hasattr` returns False for the member, and the error names the counterpart in tenferro.

    A `__getattr__` would have the same effect, but would slow down every attribute of every tensor.
    """

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str = "") -> None:
        self.name = name
        self.reason = reason

    @public
    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise MissingNameError(owner.__name__, self.name, self._help)

    def _help(self, shown: str, name: str) -> str:
        return self.reason or missing_method(shown, name)


def is_missing(cls: type, name: str) -> bool:
    """Return whether the class has only a `MissingMember` for `name`, which raises an error when it is read."""
    return isinstance(inspect.getattr_static(cls, name, None), MissingMember)


def tell_missing_members(
    cls: type, names: Iterable[str], refused: Mapping[str, str], objects: str = "tensors"
) -> None:
    """Set a `MissingMember` on a class for each of `names` that the class lacks.

    Args:
        refused: names that the class lacks on purpose, each with the reason.
        objects: what error messages call the objects of the class.
    """
    for name in (*refused, *names):
        if inspect.getattr_static(cls, name, None) is None:
            reason = f"{objects} have no {name}: {refused[name]}" if name in refused else ""
            setattr(cls, name, MissingMember(name, reason))


def missing_method(shown: str, name: str) -> str:
    """Return the hint for a missing `name` on a tensor of the class `shown`.

    >>> missing_method("TracedTensor", "unsqueeze"), missing_method("TracedTensor", "exp")
    ('it is tnf.expand_dims(x, axis) here', 'it is tnf.exp(x) here')
    """
    if name in COUNTERPARTS["x"]:
        return _said(COUNTERPARTS["x"][name])
    return f"it is tnf.{name}(x) here"


def _said(counterpart: str) -> str:
    return counterpart if counterpart.startswith("not needed") else f"it is {counterpart} here"


def _package() -> Any:
    """Return the package `tenferro`. It imports this module, so it is imported here only at the first look-up."""
    return importlib.import_module("tenferro")


def _namespaces() -> dict[str, list[str]]:
    """Return the names in each public namespace, `tnf` first.

    `lowering` and `xla_peer` are included only if imported.
    """
    package = _package()
    members = {name: getattr(package, name) for name in package.__all__}
    modules = {name: value for name, value in members.items() if isinstance(value, ModuleType)}
    namespaces = {"tnf": [name for name in members if name not in modules]}
    namespaces |= {f"tnf.{name}": list(module.__all__) for name, module in modules.items()}
    peers = {name: sys.modules[name] for name in ("lowering", "xla_peer") if name in sys.modules}
    return namespaces | {name: list(module.__all__) for name, module in peers.items()}
