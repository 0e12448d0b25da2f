"""Tests that read thousands of damaged files."""
