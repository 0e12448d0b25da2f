"""`apply`: applies an extension op to tensors or arrays."""

from __future__ import annotations

from typing import Any

from tenferro import dispatch
from tenferro.dispatch.tracing import apply_in_trace
from tenferro.errors import InvalidConfigError
from tenferro.extension.extension_op import ExtensionOp
from tenferro.ops.extension import Extension

__all__ = ["apply"]


def apply(op: ExtensionOp, *inputs: Any, like: Any = None) -> Any:
    """Apply `op`. Return its output, or a tuple if it has several outputs.

    If an input is a traced tensor, the op is added to the trace. If all inputs are arrays, the runtime of the op's
    family runs the op on the default executor. Inside a traced function, an op that has no inputs or has effects is
    always added to the trace, so that it runs whenever the program runs.

    Args:
        like: for an op without inputs, a tensor of the trace or runtime to which the op is added.

    Raises:
        MalformedFamilyIdError: the family id is not `<package>.<name>.v<major>`.
        InvalidConfigError: the number of inputs or outputs differs from the number that the op declares.
        UnsupportedError: all inputs are arrays, and no runtime is registered.
    """
    if not hasattr(op, "infer_output_meta"):
        raise InvalidConfigError(f"extension: expected an ExtensionOp, got {op!r:.60}")
    carrier, operands = Extension(op), list(map(dispatch.as_operand, inputs))
    outputs = None
    if like is None and not any(map(dispatch.is_traced, operands)) and _is_a_call(carrier):
        outputs = apply_in_trace(carrier, operands)
    if outputs is None:
        outputs = dispatch.apply(carrier, *operands, like=like)
    return outputs[0] if len(outputs) == 1 else outputs


def _is_a_call(op: Extension) -> bool:
    """Return whether the op must be added to a trace even without traced inputs: it has effects or no inputs."""
    return op.has_effects or not op.input_count
