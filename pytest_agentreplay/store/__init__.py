"""Paths and files; the only room that opens files for writing."""
