"""What a run borrows: threads, memory, and the state of NumPy."""
