"""Programs as ONNX models, and models run by two engines. It needs the package `onnx`, which is imported on first use."""

from xla_peer.onnx.exporting import export_onnx, run, to_onnx

__all__ = ["export_onnx", "run", "to_onnx"]
