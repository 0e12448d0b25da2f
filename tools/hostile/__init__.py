"""Tests of file readers with thousands of damaged files (mutants)."""
