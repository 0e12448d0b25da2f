"""Adapters of compilers. A Python interpreter in whose environment the compiler is installed runs each file alone.

The adapters of XLA and IREE need only NumPy and the compiler. The others also need tenferro, which converts the
modules.
"""
