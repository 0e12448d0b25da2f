"""Score of the parity check: faults that it catches and names, and right rewrites that it calls wrong."""
