"""Programs as ONNX models and back, and models run by two engines. It needs the package `onnx`, imported on first use."""

from xla_peer.onnx.exporting import export_onnx, run, to_onnx
from xla_peer.onnx.files import files_beside
from xla_peer.onnx.importing import import_onnx

__all__ = ["export_onnx", "files_beside", "import_onnx", "run", "to_onnx"]
