"""`apply`: an extension op on tensors or arrays."""

from __future__ import annotations

from typing import Any

from tenferro import door
from tenferro.errors import InvalidConfigError
from tenferro.extension.extension_op import ExtensionOp
from tenferro.ops.extension import Extension

__all__ = ["apply"]


def apply(op: ExtensionOp, *inputs: Any) -> Any:
    """The output of `op`; a tuple when it has several. Traced tensors trace it, arrays run it.

    On arrays the family's runtime on the default executor runs it; a missing one is an error.

    Raises:
        MalformedFamilyIdError: the family id is not `<package>.<name>.v<major>`.
        InvalidConfigError: counts that disagree with what the op declares.
        UnsupportedError: on arrays, when no runtime is registered.
    """
    if not hasattr(op, "infer_output_meta"):
        raise InvalidConfigError(f"extension: expected an ExtensionOp, got {op!r:.60}")
    outputs = door.apply(Extension(op), *map(door.as_operand, inputs))
    return outputs[0] if len(outputs) == 1 else outputs
