"""Model Context Protocol: clients and servers in memory, over the standard streams of a process, and over HTTP."""
