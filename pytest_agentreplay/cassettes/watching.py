"""Watches what vcrpy plays: wraps methods of its class `Cassette`, in which the stubs of all its clients end."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agentreplay.cassettes.verdicts import ComparedRequest, LoadedCassette, Play
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.paths import near
from pytest_agentreplay.intercept.session.callers import find_agents_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.redaction import Redaction


class CassetteWatch:
    """Which requests of the running test were played, and how they compare; one in a session.

    Attributes:
        plays: Those of the running test.
        divergences: Of the plays that are stale or of the wrong interaction, what differs.
        opened: The cassettes that were loaded for the running test.
        prefers_equal: Whether an equal request is answered before one that vcrpy would take by its `match_on` alone.
        is_offline: Whether vcrpy is kept from asking the network.
    """

    def __init__(
        self,
        root: Path,
        matching: Matching,
        redaction: Redaction,
        *,
        prefers_equal: bool = False,
        is_offline: bool = False,
    ) -> None:
        self.prefers_equal, self.is_offline = prefers_equal, is_offline
        self._root, self._matching, self._redaction = root, matching, redaction
        self._cassettes: WeakKeyDictionary[Any, LoadedCassette] = WeakKeyDictionary()
        self._replaced: dict[str, Any] = {}
        self.begin_test()

    def begin_test(self) -> None:
        """Forget what an earlier test has played."""
        self.plays: list[Play] = []
        self.divergences: list[tuple[Play, Divergence]] = []
        self.opened: list[LoadedCassette] = []

    def install(self) -> None:
        """Wrap the methods, until `uninstall`. What a comparison imports and caches is loaded here, in no event loop."""
        from vcr.cassette import Cassette
        from vcr.request import Request

        asked = [
            Request("POST", "https://api.openai.com/v1/chat/completions", body, {"content-type": "application/json"})
            for body in (b'{"model":"m","messages":[]}', b'{"model":"m","messages":[{"role":"user","content":"a"}]}')
        ]
        reply = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": b"{}"}}
        LoadedCassette("", [(asked[0], reply)], self._matching, self._redaction).compare(asked[1], 0)
        find_agents_line("")
        # `_load` and `_responses` are private: https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
        load, play, responses = Cassette._load, Cassette.play_response, Cassette._responses

        @wraps(load)
        def watch_load(cassette: Any) -> None:
            load(cassette)
            self.find_cassette(cassette)

        @wraps(play)
        def watch_play(cassette: Any, request: Any) -> Any:
            loaded, before = self.find_cassette(cassette), dict(cassette.play_counts)
            response = play(cassette, request)
            grown = [index for index, count in [*cassette.play_counts.items()] if count > before.get(index, 0)]
            # Another thread may have played meanwhile, whose response is another object.
            index = max(grown, key=lambda number: cassette.data[number][1] is response, default=len(loaded.requests))
            if index < len(loaded.requests):  # what this session has recorded itself is not compared
                self._compare(cassette, loaded, request, index)
            return response

        @wraps(responses)
        def list_equal_first(cassette: Any, request: Any) -> Iterator[tuple[int, Any]]:
            matching = list(responses(cassette, request))
            if len(matching) > 1:
                loaded = self.find_cassette(cassette)
                now = ComparedRequest(cassette.filter_request(request), loaded)
                count = len(loaded.requests)
                matching.sort(key=lambda pair: not (pair[0] < count and now.is_equal(loaded.requests[pair[0]])))
            return iter(matching)

        replacing = {"_load": watch_load, "play_response": watch_play}
        replacing |= {"_responses": list_equal_first} if self.prefers_equal else {}
        replacing |= {"write_protected": property(lambda _: True)} if self.is_offline else {}  # type: ignore[dict-item]
        self._replaced = {name: vars(Cassette)[name] for name in replacing}
        for name, replacement in replacing.items():
            setattr(Cassette, name, replacement)

    def uninstall(self) -> None:
        """Put back what `install` has replaced."""
        if self._replaced:
            from vcr.cassette import Cassette

            for name, replaced in self._replaced.items():
                setattr(Cassette, name, replaced)
            self._replaced = {}

    def find_cassette(self, cassette: Any) -> LoadedCassette:
        """Return what was loaded of an open cassette."""
        loaded = self._cassettes.get(cassette)
        if loaded is None:
            # `path` is public since vcrpy 9: https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
            path = self._redaction.hide(near(Path(os.path.abspath(cassette._path)), self._root))  # noqa: PTH100
            loaded = LoadedCassette(path, cassette.data, self._matching, self._redaction)
            self._cassettes[cassette] = loaded
            self.opened.append(loaded)
        return loaded

    def _compare(self, cassette: Any, loaded: LoadedCassette, request: Any, index: int) -> None:
        try:
            play, divergence = loaded.compare(cassette.filter_request(request), index)
        except Exception as error:  # a fault of ours, or a body that nobody can read, must not change the test
            summary = f"{request.method} {loaded.path}: cannot be compared ({type(error).__name__})"
            play, divergence = Play(loaded.path, index, "stale", "other", summary), Divergence(Kind.REQUEST, summary)
        self.plays.append(play)
        if divergence is not None and play.verdict != "noise":
            origin = find_agents_line(str(self._root)) if self.prefers_equal else ""
            self.divergences.append((play, replace(divergence, origin=origin)))
