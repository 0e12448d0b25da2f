"""The resources of a run: threads, memory, and the state of NumPy."""
