"""Content that a run repeats is stored once: messages under ids, edits of earlier ones, large base64 values."""
