"""Automatic differentiation: linearise and transpose, on graphs.

This floor is not built yet: programs have no derivatives.
"""
