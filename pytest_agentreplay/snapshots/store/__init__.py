"""Paths and files; the only package that opens files for writing."""
