"""When two calls are the same, where two runs differ, and why."""
