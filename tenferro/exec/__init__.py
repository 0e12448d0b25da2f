"""Native execution of programs: kernels, schedules, and the executor."""

from tenferro.exec.executor import GraphExecutor
from tenferro.exec.schedule import ExecInstruction, ExecProgram

__all__ = ["ExecInstruction", "ExecProgram", "GraphExecutor"]
