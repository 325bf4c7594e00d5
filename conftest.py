"""What holds for every test of the repository."""

from __future__ import annotations

from hypothesis import settings

# A property that fails must fail again for the next person: no clock decides, and the same examples come each time.
settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")
