"""Interception: the patches of libraries, by which the calls of a test reach its backend.

One package per kind of I/O. `registry` says which library is patched by which module; `session` holds what all patches
share. The packages import each other in one direction (tests/architecture/test_layers.py).
"""
