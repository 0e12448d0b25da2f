"""`StableHloModule`: the text, and what can be made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering import mlir_bindings
from tenferro.types import TensorSpec

__all__ = ["StableHloModule"]


@dataclass(frozen=True)
class StableHloModule:
    """A StableHLO module with one public function, `main`.

    `text` carries the user's lines as locations; `str(module)` leaves them out. Verifying, bytecode
    and artifacts need jaxlib; the text does not.
    """

    text: str = field(repr=False)
    plain_text: str = field(repr=False)
    platform: str
    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text without locations: moving a line of user code changes nothing."""
        import hashlib  # because importing it takes long

        return hashlib.sha256(self.plain_text.encode()).hexdigest()

    def verify(self) -> None:
        """Parse and verify the text with jaxlib's StableHLO.

        Raises:
            MlirDiagnosticError: with line and column.
            ImportError: jaxlib is not installed.
        """
        mlir_bindings.parse_and_verify(self.text)

    def bytecode(self) -> bytes:
        """The module as MLIR bytecode."""
        return mlir_bindings.bytecode(self.text)

    def portable_artifact(self, target_version: str | None = None) -> bytes:
        """The module as a StableHLO portable artifact, readable by that version and later ones."""
        return mlir_bindings.portable_artifact(self.text, target_version)

    def __str__(self) -> str:
        return self.plain_text
