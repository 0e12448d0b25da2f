"""Runtimes of extension families on a native executor. An op of a family without a runtime raises an error.

Source: docs/specification/execution.md and failures.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np

from tenferro.dims import UNKNOWN, UpperBound, at_least
from tenferro.errors import (
    BackendFailureError,
    CheckFailedError,
    DTypeError,
    DuplicateFamilyError,
    InvalidConfigError,
    TenferroError,
    UnsupportedError,
)
from tenferro.exec.kernels.kernel import unpacked
from tenferro.exec.ownership import read_only, take_ownership
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension
from tenferro.program import ExtensionCaches, ExtensionRuntime, Family, family_of
from tenferro.rules.family_id import check_family_id
from tenferro.types import DType, TensorSpec, host_array

__all__ = ["ExtensionRegistry"]


class ExtensionRegistry:
    """The runtimes of extension families on one executor, and the caches of these runtimes.

    A runtime that is registered here takes precedence over the runtime that the family defines.

    Args:
        executor: the executor; runtimes access it as `caches.owner`.
        cache_size: maximum number of entries in each store of the caches.
        by_expansion: creates the runtime of a family that runs as its expansion into standard ops.
    """

    def __init__(
        self,
        executor: Any = None,
        cache_size: int = 256,
        by_expansion: Callable[[str], ExtensionRuntime] | None = None,
    ) -> None:
        self._by_expansion = by_expansion
        self._registered: dict[str, ExtensionRuntime] = {}
        self._of_families: dict[tuple[str, Family | None, bool], ExtensionRuntime] = {}
        self.caches = ExtensionCaches(cache_size, owner=executor)

    def register(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Register `runtime` for its family; later runs use it, also runs of programs that are already compiled.

        Raises:
            DuplicateFamilyError: the family already has a registered runtime, and `replace` is not set.
            MalformedFamilyIdError: the family's id is not `<package>.<name>.v<major>`.
        """
        family = check_family_id(getattr(runtime, "family_id", None))
        if family in self._registered and not replace:
            raise DuplicateFamilyError(
                f"family_id {family!r} already has a runtime on this executor; pass replace=True"
            )
        self._registered[family] = runtime
        self.caches.forget(family)  # the new runtime cannot use plans of the earlier runtime

    @property
    def registered(self) -> tuple[ExtensionRuntime, ...]:
        return tuple(self._registered.values())

    def runtime_of(self, op: Extension) -> ExtensionRuntime:
        """Return the registered runtime of the op's family, or else the family's own runtime.

        If there is neither, and the op's class has `from_expansion`, `by_expansion` creates the runtime.

        Raises:
            UnsupportedError: the family has no runtime.
        """
        return self._registered.get(op.family_id) or self._of_family(op)

    def _of_family(self, op: Extension) -> ExtensionRuntime:
        family = family_of(op.op)
        # `is_expanded` is in the key, because it may differ between the op classes of a family.
        is_expanded = bool(getattr(op.op, "from_expansion", False))
        key = op.family_id, family, is_expanded
        if key not in self._of_families:
            runtime = None if family is None else family.runtime
            if isinstance(runtime, type):
                runtime = runtime(op.family_id)
            if runtime is None and is_expanded and self._by_expansion is not None:
                runtime = self._by_expansion(op.family_id)
            if runtime is None:
                raise UnsupportedError(
                    f"extension: {op.family_id}: not registered; give its family a runtime, such as "
                    "HostReferenceRuntime for its own eager_execute, or register one on the executor"
                )
            self._of_families[key] = runtime
        return self._of_families[key]

    def kernel(self, op: Extension) -> Callable[..., Any]:
        """Return a kernel that executes an op by its family's runtime.

        Raises:
            UnsupportedError: the family has no runtime.
        """
        family_id, registered = op.family_id, self._registered
        # The runtime is looked up now, so that an op without a runtime raises an error before its program runs.
        own = registered.get(family_id) or self._of_family(op)

        @lru_cache(maxsize=1)
        def declared(*types: tuple[tuple[int, ...], Any]) -> tuple[TensorSpec, ...]:
            return op.infer(*[TensorSpec.of(shape, DType.of(dtype)) for shape, dtype in types])

        # Each call looks the runtime up again, because another runtime may have been registered since.
        def kernel(carrier: Extension, *arrays: Any) -> Any:
            return execute(registered.get(family_id, own), carrier, arrays, self.caches, declared)

        # A runtime in Python may call tenferro; a library routine never does.
        routine = own.compiled_routine(op.op)
        kernel.may_call_back = routine is None or not routine.is_exact  # pyright: ignore[reportFunctionMemberAccess]
        return kernel


def execute(
    runtime: ExtensionRuntime,
    carrier: Extension,
    arrays: Sequence[Any],
    caches: ExtensionCaches,
    declared: Callable[..., tuple[TensorSpec, ...]],
) -> Any:
    """Run one op by its runtime on read-only inputs, and return its outputs, which own their memory.

    Args:
        declared: a function from the shapes and dtypes of the inputs to the types of the outputs.

    Raises:
        BackendFailureError: the runtime failed.
        InvalidConfigError: outputs differ from the declared types in number, dtype or shape, or the op's `aliases` are
            invalid.
    """
    family = carrier.family_id
    inputs = borrowed(runtime, carrier.op, arrays)
    try:
        result = runtime.execute(carrier.op, inputs, caches)
    except TenferroError as error:
        if family in str(error) or isinstance(error, CheckFailedError):
            raise
        raise BackendFailureError(f"extension: family_id={family}: {error}") from error
    except Exception as error:
        if is_interruption(error):
            raise
        help_ = (
            "; inputs are read-only, because they belong to the caller: write to a copy, "
            "inputs[0].copy(), or declare aliases"
            if isinstance(error, ValueError) and "read-only" in str(error)
            else ""
        )
        raise BackendFailureError(
            f"extension: family_id={family}: {type(error).__name__}: {error}{help_}"
        ) from error
    types = declared(*[(x.shape, x.dtype) for x in arrays])
    outputs = outputs_of(family, result, len(types))
    del result, inputs  # `take_ownership` below copies outputs that are still referenced elsewhere
    for index, spec in enumerate(types):
        if DType.of(outputs[index].dtype) is not spec.dtype or not fits(
            outputs[index].shape, spec.shape
        ):
            raise InvalidConfigError(
                f"extension: family_id={family}: output {index} is "
                f"{TensorSpec.of(outputs[index].shape, DType.of(outputs[index].dtype))}, "
                f"infer_output_meta declares {spec}"
            )
    take_ownership(outputs)
    return unpacked(outputs)


def fits(shape: Sequence[int], declared: Sequence[Any]) -> bool:
    """Return whether an array has the declared shape; an `UpperBound` allows every extent up to it.

    >>> fits((2,), (3,)), fits((2,), (UpperBound(3),)), fits((4,), (UpperBound(3),)), fits((4,), (UNKNOWN,))
    (False, True, False, True)
    >>> fits((2,), (2, 3))
    False
    """
    if len(shape) != len(declared):
        return False
    return all(
        [
            at_least(limit.dim, extent) is True
            if isinstance(limit, UpperBound)
            else limit is UNKNOWN or extent == limit
            for extent, limit in zip(shape, declared, strict=True)
        ]
    )


def borrowed(runtime: ExtensionRuntime, op: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays in the memory order that the runtime declares.

    Inputs that outputs may overwrite are copied. All others are read-only.

    Raises:
        InvalidConfigError: the op's `aliases` name an input or output that the op does not have.
    """
    is_columns = runtime.order == "F"
    inputs = [read_only(np.asfortranarray(x) if is_columns and x.ndim else x) for x in arrays]
    for index in aliased_inputs(op):
        inputs[index] = np.array(arrays[index], order="F" if is_columns else "K")
    return inputs


def aliased_inputs(op: Any) -> frozenset[int]:
    """Return the indices of the inputs that outputs may overwrite according to the op's attribute `aliases`.

    Raises:
        InvalidConfigError: `aliases` names an input or output that the op does not have.
    """
    aliases = getattr(op, "aliases", None)
    if not aliases:
        return frozenset()
    for output, index in aliases.items():
        if not (0 <= output < op.output_count and 0 <= index < op.input_count):
            raise InvalidConfigError(
                f"extension: family_id={op.family_id}: aliases must pair outputs below {op.output_count} with "
                f"inputs below {op.input_count}, got {{{output}: {index}}}"
            )
    return frozenset(aliases.values())


def outputs_of(family: str, result: Any, count: int) -> list[Any]:
    """Return the outputs of a runtime as a list of arrays.

    Raises:
        InvalidConfigError: the number of results differs from `count`, or a result is not an array.
    """
    if isinstance(result, np.ndarray | np.generic):
        outputs: list[Any] = [result]
    elif isinstance(result, Iterable) and not isinstance(result, Mapping | Set | str | bytes):
        outputs = list(result)
    else:
        raise InvalidConfigError(
            f"extension: family_id={family}: execution must give a list of arrays, "
            f"got {type(result).__name__}"
        )
    if len(outputs) != count:
        raise InvalidConfigError(
            f"extension: family_id={family}: execution gives {len(outputs)} outputs, output_count "
            f"declares {count}"
        )
    for index in range(count):
        if isinstance(outputs[index], np.ma.MaskedArray):
            raise InvalidConfigError(
                f"extension: family_id={family}: output {index} is a masked array, whose mask would "
                "be lost; fill it first"
            )
        if type(outputs[index]) is not np.ndarray:
            outputs[index] = host_array(
                outputs[index], f"extension: family_id={family}: output {index}"
            )
        try:
            DType.of(outputs[index].dtype)
        except DTypeError as error:
            raise InvalidConfigError(
                f"extension: family_id={family}: output {index}: {error}"
            ) from None
    return outputs
