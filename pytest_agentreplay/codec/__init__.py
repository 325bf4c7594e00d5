"""Run <-> text of a snapshot, one module per format version."""
