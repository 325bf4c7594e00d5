"""The gateway: a loopback server for the model calls of programs that are not Python."""
