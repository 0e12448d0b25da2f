"""Loops as machine code: a column of ops on scalars in LLVM's text, and the linker."""
