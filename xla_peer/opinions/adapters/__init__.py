"""Adapters of compilers: each file is run alone, by an interpreter that has the compiler, and needs NumPy and it."""
