"""Paths and files; the only package that opens files for writing."""

from pytest_agentreplay.snapshots.store.display_path import format_path as format_path
