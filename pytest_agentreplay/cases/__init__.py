"""Assertions on runs (and, later, case files)."""
