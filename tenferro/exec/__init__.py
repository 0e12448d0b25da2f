"""The native path: NumPy kernels, the schedule, and the executor."""

from tenferro.exec.executor import GraphExecutor
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["ExecInstruction", "ExecProgram", "GraphExecutor"]
