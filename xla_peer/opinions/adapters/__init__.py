"""Adapters of compilers. Each file is run alone, by a Python interpreter in whose environment the compiler is installed.

The adapters of XLA and IREE need only NumPy and the compiler. The others also need tenferro, which converts the
modules.
"""
