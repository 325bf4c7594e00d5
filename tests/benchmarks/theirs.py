"""vcrpy's side: cassettes by its own way of recording, and its two ways to match that people use."""

from __future__ import annotations

from pathlib import Path

import vcr

DEFAULT = ("method", "scheme", "host", "port", "path", "query")
"""vcrpy's and pytest-recording's default: bodies are not compared."""

BODY = (*DEFAULT, "body")


class Cassette:
    """One cassette file; `serializer` is "yaml", their default, or "json", which loads faster."""

    def __init__(self, root, serializer="yaml"):
        self.path = Path(root) / f"cassette.{serializer}"
        self.serializer = serializer

    def use(self, match, mode):
        """The context in which calls are recorded ("all") or replayed ("none")."""
        options = {"record_mode": mode, "serializer": self.serializer, "match_on": list(match)}
        return vcr.VCR(filter_headers=["authorization"], **options).use_cassette(str(self.path))

    def record(self, script):
        """Record `script`, by the faster way to match; gives the size of the cassette."""
        script.world.rewind()
        with self.use(DEFAULT, "all"):
            script.run()
        return self.path.stat().st_size


def played(cassette, number):
    """Put `cassette` where it stands when the calls before `number` have been replayed."""
    cassette.play_counts.clear()
    cassette.play_counts.update(dict.fromkeys(range(number), 1))
