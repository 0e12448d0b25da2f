"""Accuracy of functions: the largest error of each function on every executor, in units in the last place."""
