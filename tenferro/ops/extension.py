"""The op `Extension`, which holds an operation from another package."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from tenferro.dims import GuardLog
from tenferro.errors import ArityError, InvalidConfigError, TenferroError
from tenferro.interruption import is_interruption
from tenferro.ops.op import StdTensorOp, card
from tenferro.rules.dtypes import ANY
from tenferro.rules.family_id import check_family_id
from tenferro.rules.requirements import inferring
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "Extension"]


@card
class Extension(StdTensorOp):
    """Operation of another package: the payload `op` describes it, and the tables of its family implement it.

    Two `Extension` ops are equal if their family ids are equal and `payload_eq` returns True.

    Shapes:  as `op.infer_output_meta` says
    Dtypes:  as `op.infer_output_meta` says
    AD:      by the `ExtensionAdRule` of the family, on the `AdContext`
    Lowers:  by a registered lowering of the family, else by its expansion
    Errors:  MalformedFamilyIdError where the id is malformed; InvalidConfigError where counts disagree with the op's
        declaration
    Source:  docs/specification/identity.md, types.md
    """

    op: Any

    accepts: ClassVar[frozenset[DType]] = ANY

    @property
    def family_id(self) -> str:
        """The id of the operation's family."""
        return self.op.family_id

    @property
    def name(self) -> str:
        """The family id, which printed programs show in place of the op's name."""
        return self.op.family_id

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the op declares it
        """The number of inputs that the op declares."""
        return self.op.input_count

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the op declares it
        """The number of outputs that the op declares."""
        return self.op.output_count

    @property
    def has_effects(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the op declares it
        """Whether the op declares effects. Instructions with effects are not merged even if they are equal."""
        return bool(getattr(self.op, "effects", False))

    def infer(self, *inputs: TensorSpec, guards: GuardLog | None = None) -> tuple[TensorSpec, ...]:
        """Infer the types of the outputs by calling `infer_output_meta` of the op.

        Raises:
            MalformedFamilyIdError: the family id is not `<package>.<name>.v<major>`.
            ArityError: the number of inputs differs from the declared number.
            InvalidConfigError: `infer_output_meta` returns a malformed list, or the number of its entries differs from
                the declared number of outputs.
        """
        family = check_family_id(getattr(self.op, "family_id", None))
        if len(inputs) != self.op.input_count:
            raise ArityError(
                f"extension: family_id={family}: expected {self.op.input_count} inputs, "
                f"got {len(inputs)}"
            )
        dtypes = [spec.dtype for spec in inputs]
        shapes = [spec.shape for spec in inputs]
        try:
            with inferring(
                f"extension: family_id={family}", GuardLog() if guards is None else guards
            ):
                meta = self.op.infer_output_meta(dtypes, shapes)
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise InvalidConfigError(
                f"extension: family_id={family}: infer_output_meta failed for "
                f"{', '.join(map(str, inputs))}: {type(error).__name__}: {error}"
            ) from error
        return declared_types(self.op, meta)

    def specialize(self, bindings: Any) -> Extension:
        """Return `self`, because an extension's op stores no symbolic extents.

        The op needs none: `infer_output_meta` receives the shapes of the inputs.
        """
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Extension):
            return NotImplemented
        return self.op is other.op or (
            self.op.family_id == other.op.family_id and bool(self.op.payload_eq(other.op))
        )

    def __hash__(self) -> int:
        return hash((Extension, self.op.family_id, self.op.payload_hash()))

    def written(self) -> str:
        """Write the op as text. Equal texts mean equal ops, also in different processes; see `payload_text`."""
        text = getattr(self.op, "payload_text", None)
        return f"Extension({self.family_id}, {os.urandom(16).hex() if text is None else text()})"

    def __str__(self) -> str:
        return f"Extension({self.op})"

    def __repr__(self) -> str:
        return f"Extension({self.op.family_id}, {self.op!r})"


def declared_types(op: Any, meta: Any) -> tuple[TensorSpec, ...]:
    """Convert `meta`, the result of `infer_output_meta`, to types.

    Each entry of `meta` is a `TensorSpec` or a pair (dtype, shape).
    """
    try:
        entries = tuple(meta)
    except TypeError:
        raise InvalidConfigError(
            f"extension: family_id={op.family_id}: infer_output_meta must give a list with one "
            f"(dtype, shape) per output, got {meta!r:.60}"
        ) from None
    if len(entries) != op.output_count:
        raise InvalidConfigError(
            f"extension: family_id={op.family_id}: infer_output_meta gives {len(entries)} outputs, "
            f"output_count declares {op.output_count}"
        )
    types: list[TensorSpec] = []
    for entry in entries:
        if isinstance(entry, TensorSpec):
            types.append(entry)
            continue
        try:
            dtype, extents = entry
            shape = tuple(extents)
        except (TypeError, ValueError):
            raise InvalidConfigError(
                f"extension: family_id={op.family_id}: infer_output_meta must give (dtype, shape) per "
                f"output, got {entry!r:.60}"
            ) from None
        types.append(TensorSpec(shape, dtype))
    return tuple(types)


CARDS = (Extension,)
