"""Redaction of what exists: runs, snapshots, traces; and the last scan before a write."""
