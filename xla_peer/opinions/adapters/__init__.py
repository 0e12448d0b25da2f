"""Adapters of compilers; each file is run alone, by a Python interpreter with the compiler in its environment.

The adapters of XLA and IREE need only NumPy and the compiler. The others also need tenferro, which converts the
modules.
"""
