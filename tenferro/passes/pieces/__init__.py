"""Rewrite rules of the pass `join_pieces`, for slices, pads, windows and sums of pads."""
