"""Score of the parity check: how many seeded faults it finds and locates, and how many correct rewrites it rejects."""
