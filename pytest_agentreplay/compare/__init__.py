"""When two calls are the same, where two runs part, and why."""
