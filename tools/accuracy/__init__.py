"""The accuracy of functions: the largest error of each in units in the last place, for every executor."""
