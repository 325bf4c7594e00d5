"""The backends of a run: each decides about the calls of a test (`backend` has the protocol)."""
