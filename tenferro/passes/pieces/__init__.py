"""Rewrite rules of `join_pieces`: slices, pads, windows and sums of pads."""
