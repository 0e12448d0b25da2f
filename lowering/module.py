"""`StableHloModule`: the StableHLO text of a program, with the program's signature and other serialised forms."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowering.guarded import perform
from lowering.literal import quoted
from lowering.types import tensor_type
from tenferro.dims import Guard, is_static
from tenferro.errors import NonStaticShapeError
from tenferro.program import bind_symbols
from tenferro.table import first_of
from tenferro.tracebacks import public_methods
from tenferro.types import TensorSpec

__all__ = ["StableHloModule"]


NOTEBOOK = 100_000
"""Maximum length of a module's text in a notebook, in characters."""


@public_methods
@dataclass(frozen=True)
class StableHloModule:
    """A StableHLO module with one public function, `main`.

    Verification, bytecode and artifacts need jaxlib; the text does not.

    Attributes:
        text: the module with locations, which are lines of the user's code.
        plain_text: the module without locations, which `str(module)` returns.
        trusted: whether this process wrote the text, or the user declares it safe. MLIR handles trusted text in this
            process, and any other text in a separate process; see `lowering.guarded`.
        drops_windows: whether a scatter ignores windows that are partly out of bounds; see `import_stablehlo`.
    """

    text: str = field(repr=False)
    plain_text: str = field(repr=False)
    platform: str
    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    guards: tuple[Guard, ...] = ()
    trusted: bool = False
    drops_windows: bool = False

    @property
    def is_static(self) -> bool:
        """Whether all extents of the inputs are numbers."""
        return all(spec.is_static for spec in self.input_specs)

    def refined(self, shapes: Sequence[Sequence[int]]) -> StableHloModule:
        """Specialise a module with symbolic extents to inputs of these shapes; return a static module unchanged.

        Raises:
            ShapeError, GuardError: the shapes contradict the types of the inputs, or a guard.
            MlirDiagnosticError: the operations of the text contradict the shapes.
        """
        bindings = bind_symbols(self.input_specs, self.input_names, shapes)
        for guard in self.guards:
            guard.check(bindings)
        if self.is_static:
            return self
        specs = [
            TensorSpec.of(tuple(shape), spec.dtype)
            for shape, spec in zip(shapes, self.input_specs, strict=True)
        ]
        # The assertions of the guards are removed. The guards were checked above, and XLA does not implement the custom
        # call `shape_assertion`.
        lines = self.text.splitlines()
        plain = "\n".join([line for line in lines if "custom_call @shape_assertion" not in line])
        text = self._perform("refined", [tensor_type(spec) for spec in specs], text=plain)
        outputs = [_evaluated(spec, bindings) for spec in self.output_specs]
        return replace(
            self,
            text=text,
            plain_text=text,
            input_specs=tuple(specs),
            output_specs=tuple(outputs),
            guards=(),
        )

    def until(self, number: int) -> str:
        """Return the text of a module whose `main` ends with an operation, and returns its results.

        Args:
            number: the number of the operation, counted from 0 among the operations of `main` that have results.

        Raises:
            MlirDiagnosticError: the text is malformed.
        """
        return self._perform("until", number, text=self.plain_text)

    def signature(self) -> str:
        """Return the type of `main`, as MLIR writes it."""
        inputs, outputs = (
            ", ".join(map(tensor_type, specs)) for specs in (self.input_specs, self.output_specs)
        )
        return f"({inputs}) -> {outputs if len(self.output_specs) == 1 else f'({outputs})'}"

    def with_attributes(self, attributes: Mapping[str, str]) -> StableHloModule:
        """Add string attributes to the module."""
        shown = ", ".join(f"{name} = {quoted(value)}" for name, value in attributes.items())
        texts = [
            text.replace(" {\n", f" attributes {{{shown}}} {{\n", 1)
            for text in (self.text, self.plain_text)
        ]
        return replace(self, text=texts[0], plain_text=texts[1])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text without locations, so that it does not change if user code moves to another line."""
        import hashlib  # because it is slow to import

        return hashlib.sha256(self.plain_text.encode()).hexdigest()

    def verify(self) -> None:
        """Parse and verify the text with jaxlib's StableHLO.

        Raises:
            MlirDiagnosticError: the text is malformed; the error contains the line and the column.
            ImportError: jaxlib is not installed.
        """
        self._perform("verification")

    def bytecode(self) -> bytes:
        """Convert the module to MLIR bytecode."""
        return self._perform("bytecode")

    def portable_artifact(self, target_version: str | None = None) -> bytes:
        """Convert the module to a StableHLO portable artifact.

        Args:
            target_version: the oldest version of StableHLO that can read the artifact; see
                `lowering.mlir_bindings.portable_artifact`.
        """
        return self._perform("portable artifact", target_version)

    def _perform(self, operation: str, *arguments: Any, text: str | None = None) -> Any:
        return perform(operation, text or self.text, *arguments, trusted=self.trusted)

    def __str__(self) -> str:
        return self.plain_text

    def __repr__(self) -> str:
        """Return a line with the module's type, platform and number of lines; `print(module)` shows the text."""
        inputs, outputs = (
            first_of(list(map(tensor_type, specs)))
            for specs in (self.input_specs, self.output_specs)
        )
        lines = self.plain_text.count("\n")
        return f"<StableHloModule for {self.platform}: ({inputs}) -> ({outputs}), {lines} lines>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a summary, and a collapsed section with the start of the text."""
        shown, total = self.plain_text[:NOTEBOOK], len(self.plain_text)
        rest = (
            f"\n.. {total - NOTEBOOK:,} more characters; print shows all"
            if total > NOTEBOOK
            else ""
        )
        return (
            f"<details><summary><code>{html.escape(repr(self))}</code></summary>"
            f"<pre>{html.escape(shown + rest)}</pre></details>"
        )


def _evaluated(spec: TensorSpec, bindings: Mapping[Any, int]) -> TensorSpec:
    extents = [n if is_static(n) else n.evaluate(bindings) for n in spec.shape]
    if not all(map(is_static, extents)):
        raise NonStaticShapeError(f"an output is {spec}, and no input determines its extents")
    return TensorSpec.of(tuple(extents), spec.dtype)
