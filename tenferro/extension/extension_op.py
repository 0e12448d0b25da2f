"""`ExtensionOp`: the base class for operations that other packages define.

Source: docs/specification/identity.md, types.md and expansion.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.program import Family
from tenferro.rules.family_id import check_family_id, major_version
from tenferro.rules.payload import NotWritableError, normal_form, written_form

__all__ = ["ExtensionOp", "check_family_id", "extension_family", "major_version"]

Class = TypeVar("Class", bound=type)


def extension_family(
    namespace: str, name: str, version: int, **parts: Any
) -> Callable[[Class], Class]:
    """Return a class decorator that sets `family_id` and `FAMILY_ID` to `<namespace>.<name>.v<version>`.

    Args:
        parts: the attributes of the `Family` besides `op`, such as `runtime` and `rules`. The class then gets the
            family as its attribute `family`.

    Raises:
        MalformedFamilyIdError: `namespace`, `name` and `version` do not form a family id.
        RegistrationError: an attribute of the family is invalid.

    >>> @extension_family("my-package", "fft", version=1)
    ... class Fft(ExtensionOp): ...
    >>> Fft.FAMILY_ID
    'my-package.fft.v1'

    Source: docs/specification/identity.md.
    """
    family_id = check_family_id(f"{namespace}.{name}.v{version}")

    def decorate(cls: Class) -> Class:
        cls.family_id = cls.FAMILY_ID = family_id
        if parts:
            cls.family = Family(cls, **parts)
        return cls

    return decorate


class ExtensionOp:
    """Base class of operations that other packages define: it declares the family id, arity and types.

    Derive a frozen dataclass from it. The fields of the dataclass are the parameters of the operation, and determine
    `payload_fields`, `payload_hash` and `payload_eq`. Tensors are inputs, not fields.

    Attributes:
        family_id: `<package>.<name>.v<major>`; see `extension_family`.
        family: the `Family` of the op. An op class with this attribute need not be registered.
        from_expansion: whether native execution, derivatives and batching use `lower_to_standard_ops` if the family has
            no runtime or rule.
        annotates: whether the op returns its operand unchanged, and has a meaning for other peers only. Native plans
            omit it.
        input_count, output_count: the numbers of inputs and outputs, which are constant for an op.
        aliases: a dict {output: input} of the outputs that a runtime may compute in the memory of an input. The runtime
            receives a writable copy of that input, because the caller's array must not change. If the runtime returns
            this copy, or a view of it, as the output, the executor does not copy it again.
        effects: whether a call has side effects, for example draws, counts, or writes to a file. Calls of such an op
            are not merged, run in the order of the trace, and run even if their results are unused. Such an op has no
            expansion.

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
    family: ClassVar[Family | None] = None
    from_expansion: ClassVar[bool] = False
    annotates: ClassVar[bool] = False
    effects: ClassVar[bool] = False
    aliases: ClassVar[Mapping[int, int]] = MappingProxyType({})
    # `_normal` caches the normal form of a frozen dataclass's payload. `_slots` contains the names of all slots.
    _normal: Any = None
    _slots: tuple[str, ...] = ()
    _has_default_payload: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        slots = vars(cls).get("__slots__", ())
        cls._slots += (slots,) if isinstance(slots, str) else tuple(slots)
        cls._has_default_payload = cls.payload_fields is ExtensionOp.payload_fields

    def payload_fields(self) -> dict[str, Any]:
        """Return the parameters that distinguish ops of the family, by name.

        These parameters determine equality, hash and fingerprint. They are stored in files and in the attributes of a
        composite, and a factory creates the op from them. For a dataclass, they are the fields that the constructor
        accepts and that are compared. Override the method for other classes.

        Raises:
            UnsupportedError: the op has attributes that are not fields of a dataclass.

        >>> class Shift(ExtensionOp):
        ...     family_id = "example.shift.v1"
        ...     def __init__(self, places):
        ...         self.places = places
        ...     def payload_fields(self):
        ...         return {"places": self.places}
        >>> Shift(1).payload_eq(Shift(1)), Shift(1).payload_eq(Shift(True))
        (True, False)
        """
        if attributes := _undeclared(self):
            raise UnsupportedError(
                f"extension: family_id={self.family_id}: {', '.join(attributes)} of "
                f"{type(self).__name__} may distinguish ops, but are not fields of a dataclass; "
                "declare a frozen dataclass, or define payload_fields()"
            )
        names = [f.name for f in fields(self) if f.compare and f.init] if is_dataclass(self) else []
        return {name: getattr(self, name) for name in names}

    def payload_hash(self) -> int:
        """Hash everything that `payload_eq` compares, and nothing else."""
        return hash(self._normal_payload())

    def payload_eq(self, other: Any) -> bool:
        """Return whether two ops of the family have equal payloads."""
        return type(self) is type(other) and self._normal_payload() == other._normal_payload()

    def payload_text(self) -> str:
        """Write the payload as text, for fingerprints. Equal texts mean equal payloads, also in different processes.

        Some payloads cannot be written as such a text: `payload_eq` may be overridden without `payload_fields`, or the
        payload may contain objects that other processes cannot name. Then the text is random, and differs from that of
        every other op.
        """
        cls = type(self)
        if cls.payload_eq is ExtensionOp.payload_eq or not cls._has_default_payload:
            try:
                entries = [
                    f"{key}={written_form(value)}" for key, value in self.payload_fields().items()
                ]
                return f"{cls.__module__}.{cls.__qualname__}({', '.join(entries)})"
            except NotWritableError:
                pass  # then the text below is random
        return f"{cls.__qualname__}, {os.urandom(16).hex()}"

    def _normal_payload(self) -> Any:
        """Return the normal form of the payload, by which ops are compared and hashed.

        Raises:
            InvalidConfigError: a value in the payload has no hash.
        """
        if self._normal is not None:
            return self._normal
        if not vars(self) and not self._slots and self._has_default_payload:
            return ()
        try:
            form = tuple(
                [(key, normal_form(value)) for key, value in self.payload_fields().items()]
            )
        except TypeError as error:
            raise InvalidConfigError(
                f"extension: family_id={self.family_id}: the payload is not hashable ({error}); use "
                "tuples instead of lists, frozensets instead of sets and tuples of pairs instead of "
                "dicts, or define payload_hash and payload_eq"
            ) from None
        if is_dataclass(self) and type(self).__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]  # because every dataclass has them
            vars(self)["_normal"] = form
        return form

    def infer_output_meta(self, input_dtypes: Sequence[Any], input_shapes: Sequence[Any]) -> Any:
        """Infer one (dtype, shape) per output.

        Extents are ints, `SymDim`s, or bounds on data-dependent extents. The method must accept all of these, and can
        compute with them. Python cannot compare symbols: state conditions on extents by `require` instead.
        """
        raise NotImplementedError(f"{type(self).__name__}.infer_output_meta")

    def eager_execute(self, inputs: Sequence[Any]) -> Any:
        """Compute the outputs for NumPy arrays; `HostReferenceRuntime` calls it."""
        raise NotImplementedError(f"{type(self).__name__}.eager_execute")

    def prune_outputs(self, used: Sequence[bool]) -> ExtensionOp | None:
        """Return an op of the family that computes only the outputs that `used` flags, from the same inputs.

        By default None.

        If the other outputs are unused, the returned op replaces this op when a program runs or is lowered. Derivatives
        and files contain the original op.
        """
        return None

    def independent_axes(self, input_shapes: Sequence[Any]) -> int:
        """Return the number of leading axes, common to all operands, along which slices are independent.

        Slices are independent if slice i of each output depends only on slice i of each operand. Sparse derivatives use
        the number only if the op has no expansion, because an expansion is more precise.

        >>> ExtensionOp().independent_axes([(2, 3)])
        0
        """
        return 0

    def lower_to_standard_ops(
        self,
        builder: Any,
        inputs: Sequence[Any],
        input_dtypes: Sequence[Any],
        input_shapes: Sequence[Any],
    ) -> Any:
        """Write the op as standard ops by `builder.apply_one(op, *inputs)`, and return the outputs.

        By default the result is None: the op has no expansion.

        Raises:
            ExtensionLoweringError: the payload or the metadata are invalid.
        """
        return None


def _undeclared(op: ExtensionOp) -> list[str]:
    """Return the names of attributes of an op that are neither class attributes nor dataclass fields."""
    cls = type(op)
    if "__dataclass_params__" in vars(cls):
        return []
    declared = {field.name for field in fields(op)} if is_dataclass(op) else set[str]()
    # An attribute that the class also has, such as a cached property, is computed from the fields, so it is not listed.
    slots = cls._slots  # pyright: ignore[reportPrivateUsage]  # because this module's
    held = [name for name in vars(op) if name not in declared and not hasattr(cls, name)]
    return [*held, *[name for name in slots if hasattr(op, name) and name not in declared]]
