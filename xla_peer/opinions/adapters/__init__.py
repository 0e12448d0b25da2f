"""Adapters of compilers: each file is run alone, by an interpreter that has the compiler.

Those of XLA and IREE need NumPy and the compiler; the other adapters convert modules by tenferro, which is
installed beside the compiler.
"""
