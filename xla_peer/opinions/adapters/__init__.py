"""Adapters of compilers: each file is run alone, by an interpreter that has the compiler.

The adapters of XLA and IREE need only NumPy and the compiler. The others also need tenferro, which converts the
modules.
"""
