"""How good the parity check is: faults that it catches and names, and rewrites that it accuses."""
