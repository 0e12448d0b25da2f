"""Score of the parity check: the faults that it finds and names, and the correct rewrites that it accuses."""
