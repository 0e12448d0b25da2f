"""Adapters of compilers. Each file runs on its own, in an environment in which its compiler is installed.

The adapters of XLA and IREE need only NumPy and the compiler. The others also need tenferro, which converts the
modules.
"""
