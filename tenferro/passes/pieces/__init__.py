"""The laws by which `join_pieces` puts slices, pads, windows and sums of pieces together."""
