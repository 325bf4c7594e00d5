"""The functions of `os` as they are before a test replaces them.

A guard against blocking calls (blockbuster) replaces `os.write` and others, and takes what we write on the event loop
for a call of the agent. What we write is a line of a journal, which the next call must not overtake.
"""

from __future__ import annotations

import os as _os
from types import SimpleNamespace

# `__wrapped__` is the real function where such a guard stands in its place already.
os = SimpleNamespace(**{name: getattr(value, "__wrapped__", value) for name, value in vars(_os).items()})
