"""Families that enter by the public extension door: linalg, FFT, einsum. Not built yet."""
