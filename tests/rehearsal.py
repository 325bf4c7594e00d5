"""The former name of `tests/support/repeated_replays.py`; goes when nothing imports it."""

from tests.support.repeated_replays import *  # noqa: F403
