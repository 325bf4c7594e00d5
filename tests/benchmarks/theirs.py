"""vcrpy's side: its files by its own way of recording, and its two ways to match that people use."""

from __future__ import annotations

from pathlib import Path

import vcr
from measuring import cpu_each

DEFAULT = ("method", "scheme", "host", "port", "path", "query")
"""vcrpy's and pytest-recording's default: bodies are not compared."""

BODY = (*DEFAULT, "body")


class Theirs:
    """One file of theirs; `serializer` is "yaml", their default, or "json", which loads faster."""

    def __init__(self, root, serializer="yaml"):
        self.path = Path(root) / f"theirs.{serializer}"
        self.serializer = serializer

    def use(self, match, mode):
        """The context in which calls are recorded ("all") or replayed ("none")."""
        options = {"record_mode": mode, "serializer": self.serializer, "match_on": list(match)}
        return vcr.VCR(filter_headers=["authorization"], **options).use_cassette(str(self.path))

    def recording(self):
        """The context in which calls are recorded, by the faster way to match."""
        return self.use(DEFAULT, "all")

    def record(self, script):
        """Record `script`; gives the size of the file."""
        script.world.rewind()
        with self.recording():
            script.run()
        return self.path.stat().st_size

    def sampled(self, script, match, numbers):
        """Nanoseconds of each call in `numbers` of a replay, each as if those before it had been replayed."""
        readings = []
        with self.use(match, "none") as stored:
            script.ask(0)  # warms up
            for number in numbers:
                stored.play_counts.clear()
                stored.play_counts.update(dict.fromkeys(range(number), 1))
                readings += cpu_each([lambda number=number: script.ask(number)])
        return readings
