"""`ExtensionOp`: what an operation of another package says of itself.

Source: seed 000, sections 4 to 8; seed 001.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from tenferro.errors import InvalidConfigError, MalformedFamilyIdError

__all__ = ["ExtensionOp", "check_family_id", "extension_family", "major_version"]

FAMILY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.[A-Za-z_][A-Za-z0-9_]*\.v(0|[1-9][0-9]*)")

Class = TypeVar("Class", bound=type)


def check_family_id(family_id: Any) -> str:
    """The id, if it is `<package>.<name>.v<major>`.

    Raises:
        MalformedFamilyIdError: it is not.

    >>> check_family_id("tenferro-ext-tropical.fused_dot_general.v1")
    'tenferro-ext-tropical.fused_dot_general.v1'
    """
    if not isinstance(family_id, str) or not FAMILY_ID.fullmatch(family_id):
        raise MalformedFamilyIdError(
            f"family_id {family_id!r} does not match the namespaced format "
            "<package>.<name>.v<major>, such as my-package.fft.v1"
        )
    return family_id


def major_version(family_id: str) -> int:
    """The family's version.

    >>> major_version("my-package.fft.v2")
    2
    """
    return int(family_id.rpartition(".v")[2])


def extension_family(namespace: str, name: str, version: int) -> Callable[[Class], Class]:
    """A class decorator that makes the family id from its parts, as `family_id` and `FAMILY_ID`.

    Raises:
        MalformedFamilyIdError: parts that do not make one.

    >>> @extension_family("my-package", "fft", version=1)
    ... class Fft(ExtensionOp): ...
    >>> Fft.FAMILY_ID
    'my-package.fft.v1'

    Source: seed 000, section 5 (`ExtensionFamilyId`).
    """
    family_id = check_family_id(f"{namespace}.{name}.v{version}")

    def decorate(cls: Class) -> Class:
        cls.family_id = cls.FAMILY_ID = family_id  # type: ignore[attr-defined]  # because it is set here
        return cls

    return decorate


class ExtensionOp:
    """An operation that other packages define: identity, arity, shape rule, and what else it can do.

    Derive a frozen dataclass whose fields are the parameters that change the meaning; it then has
    `payload_hash` and `payload_eq`. Tensors are inputs, not fields.

    Attributes:
        family_id: `<package>.<name>.v<major>`; see `extension_family`.
        input_count, output_count: constant for any given op.

    >>> from dataclasses import dataclass
    >>> import numpy as np, tenferro as tnf
    >>> @extension_family("example", "scale", version=1)
    ... @dataclass(frozen=True)
    ... class Scale(ExtensionOp):
    ...     factor: float
    ...     def infer_output_meta(self, dtypes, shapes):
    ...         return [(dtypes[0], shapes[0])]
    ...     def eager_execute(self, inputs):
    ...         return [inputs[0] * self.factor]
    >>> Scale(2.0).payload_eq(Scale(2.0)), Scale(2.0).payload_eq(Scale(3.0))
    (True, False)
    """

    family_id: str
    input_count: int = 1
    output_count: int = 1

    def payload_hash(self) -> int:
        """A hash of everything that `payload_eq` compares; no transient state."""
        try:
            return hash(self._payload())
        except TypeError as error:
            raise InvalidConfigError(
                f"extension: family_id={self.family_id}: the payload is not hashable ({error}); use "
                "tuples instead of lists, or define payload_hash and payload_eq"
            ) from None

    def payload_eq(self, other: Any) -> bool:
        """Whether the payloads mean the same; called for ops of one family."""
        return type(self) is type(other) and self._payload() == other._payload()

    def _payload(self) -> tuple[Any, ...]:
        if not is_dataclass(self):
            return ()
        # The type beside each value, because True == 1 and 0.0 == -0.0.
        return tuple(
            (type(value), repr(value) if isinstance(value, float) else value)
            for field in fields(self)
            if field.compare
            for value in (getattr(self, field.name),)
        )

    def infer_output_meta(self, input_dtypes: Sequence[Any], input_shapes: Sequence[Any]) -> Any:
        """One (dtype, shape) per output.

        Extents are ints and `SymDim`s, which have arithmetic; the rule must be total over both.
        """
        raise NotImplementedError(f"{type(self).__name__}.infer_output_meta")

    def eager_execute(self, inputs: Sequence[Any]) -> Any:
        """The outputs for NumPy arrays; used where `HostReferenceRuntime` is registered."""
        raise NotImplementedError(f"{type(self).__name__}.eager_execute")

    def lower_to_standard_ops(
        self,
        builder: Any,
        inputs: Sequence[Any],
        input_dtypes: Sequence[Any],
        input_shapes: Sequence[Any],
    ) -> Any:
        """The same as standard ops, written through `builder.emit(op, *inputs)`; None if it cannot be.

        Raises:
            ExtensionLoweringError: the payload or the metadata make no sense.
        """
        return None
