"""`Executable`, a compiled program that is called on device arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering import StableHloModule
from tenferro.errors import (
    ArityError,
    BackendFailureError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.table import first_of
from tenferro.tracebacks import public, public_methods
from tenferro.types import TensorSpec, TreeDef, agree, flatten, unflatten
from xla_peer import forking, pjrt

__all__ = ["Executable"]


@public_methods
class Executable:
    """A compiled program on device arrays, as `XlaExecutor.compile` returns it; calls are asynchronous.

    Results are `jax.Array`s, with `block_until_ready`, `__array__` and `__dlpack__`. If the program fails while it
    runs, `block_until_ready` raises jax's JaxRuntimeError, and `XlaExecutor.get` BackendFailureError. Other ways to
    read the results, such as `numpy.asarray`, do not check whether the program failed. If it did, they abort the
    process.

    Attributes:
        module: the StableHLO module from which the program was compiled.
        input_specs, output_specs, input_names, output_names: types and names of the leaves, in order.
        donate: names of the inputs whose memory a call may reuse; a call deletes these arrays.
        constant_bytes: total size of the constants that each call passes as arguments.
        wide: whether an input has a 64-bit dtype, such as float64, which jax converts to 32 bits by default.
        gives_a_leaf: whether the result is a single array, not a tree.
        from_host: a function from the leaves of the arguments to a tuple of the result's leaves, or to its only leaf.
            The function does not check its arguments, which may also be row-major NumPy arrays.

    >>> import numpy as np, tenferro as tnf
    >>> from xla_peer import XlaExecutor
    >>> xla = XlaExecutor("cpu")
    >>> double = xla.compile(tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "float64")))
    >>> y = double(xla.put(np.array([1.0, 2.0])))
    >>> xla.get(double(y))
    array([4., 8.])
    """

    def __init__(
        self,
        module: StableHloModule,
        loaded: Any,
        in_tree: TreeDef,
        out_tree: TreeDef,
        in_shardings: Sequence[Any],
        out_shardings: Sequence[Any],
        donate: Sequence[str],
        passed_outputs: Sequence[TensorSpec],
        constants: Sequence[Any] = (),
    ) -> None:
        self.module = module
        n_inputs = len(module.input_specs) - len(constants)
        self.input_specs = module.input_specs[:n_inputs]
        self.output_specs = module.output_specs
        self.input_names = module.input_names[:n_inputs]
        self.output_names = module.output_names
        self.donate = tuple(donate)
        self.constant_bytes = sum([array.nbytes for array in constants])
        self._shardings = list(in_shardings)
        self._is_cut = any(len(sharding.device_set) > 1 for sharding in in_shardings)
        self._where = [*in_shardings, *out_shardings][:1]
        self._loaded = loaded
        self._in_tree: TreeDef = in_tree
        self._out_tree: TreeDef = out_tree
        self.wide = any(spec.dtype.itemsize >= 8 for spec in self.input_specs)
        self.gives_a_leaf = self._out_tree == flatten(0)[1]
        self._constants = tuple(
            [
                pjrt.placed(array, sharding, copy=array.flags.writeable)
                for array, sharding in zip(constants, self._shardings[n_inputs:], strict=True)
            ]
        )
        where = self._shardings, out_shardings
        pack = _only if self.gives_a_leaf else tuple
        self.from_host = pjrt.fast_call(loaded, *where, passed_outputs, pack=pack)
        self._call = pjrt.fast_call(loaded, *where, passed_outputs, self._checked)
        plain = not (self._is_cut or self._constants or self.donate)
        if plain and pjrt.knows_trees(in_tree, out_tree):
            # Python looks up `__call__` on the class. So this instance gets its own class, whose `__call__` is the fast
            # function. A method that forwards to the function would make each call a tenth slower.
            call = pjrt.fast_call(loaded, *where, passed_outputs, self._leaves, self._packed)
            own: Any = type("Executable", (Executable,), {"__call__": staticmethod(call)})
            self.__class__ = own
        forking.watch(self)

    def abandon(self) -> None:
        """Reject calls in a process that was forked from the process that compiled the executable."""
        self._call = self.from_host = forking.refuse
        if type(self) is not Executable:
            self.__class__ = Executable

    def __call__(self, *arguments: Any) -> Any:
        """Start a run, and return its results as device arrays, in the structure that the program's function returns.

        Raises:
            ArityError, ShapeError, DTypeError: an argument does not match its parameter; the message names it.
            InvalidConfigError: an argument is not a device array, is on another device, or was donated before.
            BackendFailureError: PJRT failed to start the run.
        """
        return self._packed(self.on_leaves(self._flattened(arguments)))

    def _packed(self, results: Sequence[Any]) -> Any:
        return results[0] if self.gives_a_leaf else unflatten(self._out_tree, results)

    @public
    def _leaves(self, arguments: tuple[Any, ...]) -> Sequence[Any]:
        """Check and return the leaves of the arguments; `fast_call` calls this function for new argument types."""
        return self._checked(self._flattened(arguments))

    def on_leaves(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Compute the leaves of the result from the leaves of the arguments."""
        if self._is_cut and any(map(pjrt.is_gone, leaves)):
            # On several devices, PJRT aborts the process if an argument was deleted. `_checked` raises an error before.
            self._checked(leaves)
        try:
            results = self._call(*leaves, *self._constants)
        except TenferroError:
            raise
        except Exception as error:
            self._checked(leaves)
            raise pjrt.failed(error) from error
        for leaf, name in zip(leaves, self.input_names, strict=True):
            if name in self.donate:
                leaf.delete()  # a second use then raises an error that names the argument
        return results

    def run_leaves(self, leaves: Sequence[Any], out: Sequence[Any] | None = None) -> list[Any]:
        """Run on row-major NumPy arrays of the parameters' types, without checking them, and return NumPy arrays.

        Args:
            leaves: the leaves of the arguments.
            out: arrays into which the results are written; None allocates new arrays.
        """
        try:
            if self.wide:
                with pjrt.wide_dtypes():
                    results = self.from_host(*leaves, *self._constants)
            else:
                results = self.from_host(*leaves, *self._constants)
        except pjrt.failures() as error:
            raise pjrt.failed(error) from error
        results = [results] if self.gives_a_leaf else results
        places = [None] * len(results) if out is None else out
        return [pjrt.fetched(y, place) for y, place in zip(results, places, strict=True)]

    def _flattened(self, arguments: tuple[Any, ...]) -> list[Any]:
        leaves, tree = flatten(arguments)
        if not agree(tree, self._in_tree):
            raise ArityError(
                f"takes {len(self.input_specs)} arrays ({', '.join(self.input_names)}) in the structure "
                f"{self._in_tree}, got {tree}"
            )
        return leaves

    def _checked(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Check the type, layout and device of each leaf; errors name the leaf."""
        inputs = leaves[: len(self.input_specs)]
        named = zip(inputs, self.input_names, self.input_specs, self._shardings, strict=False)
        for leaf, name, spec, sharding in named:
            self._check_leaf(leaf, name, spec, sharding)
        return leaves

    def _check_leaf(self, leaf: Any, name: str, spec: TensorSpec, sharding: Any) -> None:
        if not pjrt.is_device_array(leaf):
            raise InvalidConfigError(
                f"{name}: expected a device array of {spec}, got {type(leaf).__name__}; use put"
            )
        if leaf.is_deleted():
            raise InvalidConfigError(
                f"{name}: this device array is gone; it was donated to a call, or deleted"
            )
        actual = TensorSpec(leaf.shape, leaf.dtype)
        if actual.dtype is not spec.dtype:
            raise DTypeError(f"{name}: expected {spec}, got {actual}")
        if actual.shape != spec.shape:
            raise ShapeError(f"{name}: expected {spec}, got {actual}")
        if not pjrt.is_row_major(leaf):
            raise InvalidConfigError(
                f"{name}: this device array has the layout {leaf.format.layout}, but programs accept only "
                "row-major arrays; put(array) makes a row-major copy"
            )
        if not leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
            raise InvalidConfigError(
                f"{name}: expected an array on {_place(sharding)}, got one on {_place(leaf.sharding)}"
            )

    @property
    def text(self) -> str:
        """The StableHLO text of the program."""
        return self.module.text

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimates of the cost of a run, such as "flops", "transcendentals" and "bytes accessed"."""
        costs = self._loaded.cost_analysis()
        costs = costs[0] if isinstance(costs, list | tuple) else costs
        return {name: float(value) for name, value in costs.items()}

    def memory_analysis(self) -> dict[str, int]:
        """Return the memory use in bytes: "argument", "output", "temporary", "alias" and "generated_code"."""
        stats = self._loaded.get_compiled_memory_stats()
        names = {
            "argument": "argument_size_in_bytes",
            "output": "output_size_in_bytes",
            "temporary": "temp_size_in_bytes",
            "alias": "alias_size_in_bytes",
            "generated_code": "generated_code_size_in_bytes",
        }
        return {name: int(getattr(stats, attribute)) for name, attribute in names.items()}

    def optimized_hlo(self) -> str:
        """Return the optimised HLO of the program, as text.

        Raises:
            BackendFailureError: the platform does not reveal optimised HLO.
        """
        modules = self._loaded.hlo_modules()
        if not modules:
            raise BackendFailureError("optimized_hlo: this platform does not show its modules")
        return modules[0].to_string()

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "an Executable is not pickled, because it belongs to one process and device; "
            "pickle its program and compile it again; with cache_dir, the other process reuses XLA's code"
        )

    def __repr__(self) -> str:
        takes, gives = first_of(self.input_specs), first_of(self.output_specs)
        return f"<Executable on {', '.join(map(_place, self._where)) or 'no device'}: ({takes}) -> ({gives})>"


def _only(results: Sequence[Any]) -> Any:
    (result,) = results
    return result


def _place(sharding: Any) -> str:
    """Return a description of a sharding: the device if there is only one, else the partition over the devices."""
    devices = sorted(map(str, sharding.device_set))
    return devices[0] if len(devices) == 1 else str(sharding)
