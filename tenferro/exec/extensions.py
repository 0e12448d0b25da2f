"""What a native executor knows of extensions: their runtimes, and the caches these may fill.

A family without a registered runtime is an error; nothing is executed by another way silently.

Source: seed 001; seed 003, "Cache Ownership"; seed 000, sections 8 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tenferro.errors import (
    BackendFailureError,
    DuplicateFamilyError,
    InvalidConfigError,
    TenferroError,
    UnsupportedError,
)
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension
from tenferro.program.cache import ExtensionCaches
from tenferro.types import DType, TensorSpec

Declared = dict[tuple[Any, ...], tuple[Extension, tuple[TensorSpec, ...]]]
"""For the shapes and dtypes of inputs, an op and the types of its outputs."""

__all__ = [
    "ExtensionRegistry",
    "ExtensionRuntime",
    "HostReferenceRuntime",
    "install_default_runtimes",
]


class ExtensionRuntime:
    """Executes one family on an executor; derive from it, or give `HostReferenceRuntime`.

    Attributes:
        family_id: whose ops it executes.
        order: memory order of the arrays it is given: "F", dense column-major, or "K" for whatever
            they are.
    """

    family_id: str
    order: str = "F"

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """The outputs, in order, of the dtypes and shapes that the op declares."""
        raise NotImplementedError


class HostReferenceRuntime(ExtensionRuntime):
    """Executes a family by its ops' own `eager_execute`, on the host: an explicit choice.

    >>> HostReferenceRuntime("example.identity.v1").family_id
    'example.identity.v1'
    """

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """What `eager_execute` gives."""
        return op.eager_execute(list(inputs))


class ExtensionRegistry:
    """The runtimes of one executor, by family, and their caches.

    Those that come with the package are loaded when first asked for.
    """

    def __init__(self) -> None:
        self._runtimes: dict[str, ExtensionRuntime] = {}
        self._complete = False
        self.caches = ExtensionCaches()

    def _known(self) -> dict[str, ExtensionRuntime]:
        if not self._complete:
            self._complete = True
            for runtime in default_runtimes():
                self._runtimes.setdefault(runtime.family_id, runtime)
        return self._runtimes

    def register(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Execute the family of `runtime` by it.

        Raises:
            DuplicateFamilyError: the family has a runtime already, and `replace` is not set.
        """
        family = runtime.family_id
        if family in self._known() and not replace:
            raise DuplicateFamilyError(
                f"family_id {family!r} already has a runtime on this executor; pass replace=True"
            )
        self._runtimes[family] = runtime

    def __contains__(self, family_id: str) -> bool:
        return family_id in self._known()

    def kernel(self, op: Extension) -> Callable[..., Any]:
        """A kernel that executes `op` by its family's runtime.

        Raises:
            UnsupportedError: no runtime is registered.
        """
        family = op.family_id
        runtime = self._known().get(family)
        if runtime is None:
            raise UnsupportedError(
                f"extension: {family}: not registered; register its runtime on the executor, or "
                f"HostReferenceRuntime({family!r}) to run it by its own eager_execute"
            )
        declared: Declared = {}
        return lambda carrier, *arrays: execute(runtime, carrier, arrays, self.caches, declared)


def execute(
    runtime: ExtensionRuntime,
    carrier: Extension,
    arrays: Sequence[Any],
    caches: ExtensionCaches,
    known: Declared | None = None,
) -> Any:
    """Run one op, and hold it to what it declared.

    Args:
        known: what this op declared for inputs before; it is kept for the latest ones.

    Raises:
        BackendFailureError: the runtime failed.
        InvalidConfigError: another number, dtype or shape of outputs than declared.
    """
    family = carrier.family_id
    inputs = [np.asfortranarray(x) if runtime.order == "F" and x.ndim else x for x in arrays]
    try:
        result = runtime.execute(carrier.op, inputs, caches)
    except TenferroError as error:
        if family in str(error):
            raise
        raise BackendFailureError(f"extension: family_id={family}: {error}") from error
    except Exception as error:
        if is_interruption(error):
            raise
        raise BackendFailureError(
            f"extension: family_id={family}: {type(error).__name__}: {error}"
        ) from error
    outputs = (result,) if isinstance(result, np.ndarray | np.generic) else tuple(result)
    if len(outputs) != carrier.output_count:
        raise InvalidConfigError(
            f"extension: family_id={family}: execution gives {len(outputs)} outputs, output_count "
            f"declares {carrier.output_count}"
        )
    outputs = tuple(np.asarray(y) for y in outputs)
    known = {} if known is None else known
    given = tuple([(x.shape, x.dtype) for x in inputs])
    op, declared = known.get(given, (None, ()))
    if op is not carrier:
        known.clear()
        declared = carrier.infer(*[TensorSpec.of(x.shape, DType.of(x.dtype)) for x in inputs])
        known[given] = carrier, declared
    for index, (y, spec) in enumerate(zip(outputs, declared, strict=True)):
        if DType.of(y.dtype) is not spec.dtype or y.shape != spec.shape:
            raise InvalidConfigError(
                f"extension: family_id={family}: output {index} is "
                f"{TensorSpec.of(y.shape, DType.of(y.dtype))}, infer_output_meta declares {spec}"
            )
    return outputs[0] if len(outputs) == 1 else outputs


_default_runtimes: list[Callable[[], Iterable[ExtensionRuntime]]] = []


def install_default_runtimes(make: Callable[[], Iterable[ExtensionRuntime]]) -> None:
    """What every new executor has registered; the package's top floor says so on import."""
    _default_runtimes[:] = [make]


def default_runtimes() -> list[ExtensionRuntime]:
    """Fresh runtimes of the families that come with the package."""
    return [runtime for make in _default_runtimes for runtime in make()]
