"""Conversion of programs to ONNX models and back, and two engines that run models.

The package `onnx` is imported on first use.
"""

from xla_peer.onnx.exporting import export_onnx, run, to_onnx
from xla_peer.onnx.files import external_files
from xla_peer.onnx.importing import import_onnx

__all__ = ["export_onnx", "external_files", "import_onnx", "run", "to_onnx"]
