"""Resources of a run: threads, memory, and the state of NumPy."""
