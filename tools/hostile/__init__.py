"""Tests that read thousands of damaged files (mutants): a reader must load a file or raise an error of tenferro."""
