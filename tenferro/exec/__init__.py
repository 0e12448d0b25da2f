"""The native path: NumPy kernels, the execution IR, and the executor."""

from tenferro.exec.exec_program import ExecInstruction, ExecProgram, compile_std_to_exec
from tenferro.exec.executor import GraphExecutor

__all__ = ["ExecInstruction", "ExecProgram", "GraphExecutor", "compile_std_to_exec"]
