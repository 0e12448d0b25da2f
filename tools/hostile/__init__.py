"""Campaigns that read thousands of damaged files."""
