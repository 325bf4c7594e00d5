"""The network guard: sockets, child processes and libraries in C that no patch intercepts."""
