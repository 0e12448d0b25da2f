"""Score of the parity check: how many faults it finds and names, and how many correct rewrites it reports as wrong."""
