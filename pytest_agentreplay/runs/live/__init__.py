"""Application: tests and cases run again with a live model or live tools, and what that proves."""
