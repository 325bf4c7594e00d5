"""Watch what vcrpy and cassetter play, by wrapping methods of their classes `Cassette`.

In that of vcrpy the stubs of all its clients end. Requests of cassetter are compared by the code for those of vcrpy,
whose names they get.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from itertools import tee
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock
from weakref import WeakKeyDictionary

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.session.callers import find_agents_line
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.paths import relative_path
from pytest_agentreplay.runs.cassettes.verdicts import ComparedRequest, LoadedCassette, Play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.redaction.redaction import Redaction


class CassetteWatch:
    """Which requests of the running test were played, and how they compare; one in a session.

    Attributes:
        plays: Those of the running test.
        divergences: Of the plays that are stale or of the wrong interaction, what differs.
        opened: The cassettes that were loaded for the running test.
        is_strict: Whether cassettes only play, and of the interactions that `match_on` accepts the nearest one.
    """

    def __init__(
        self, root: Path, matching: Matching, make_redaction: Callable[[], Redaction], *, is_strict: bool = False
    ) -> None:
        self.is_strict, self._root, self._matching, self._make_redaction = is_strict, root, matching, make_redaction
        self._cassettes: WeakKeyDictionary[Any, LoadedCassette] = WeakKeyDictionary()
        self.begin_test()

    def begin_test(self) -> None:
        """Forget what an earlier test has played."""
        self.plays: list[Play] = []
        self.divergences: list[tuple[Play, Divergence]] = []
        self.opened: list[LoadedCassette] = []
        # One that served all tests would search each text for the tokens of all of them: 3 times the time of asyncpraw.
        self._redaction = self._make_redaction()

    def install(self) -> Callable[[], None]:
        """Wrap the methods; return what restores them."""
        from vcr.cassette import Cassette
        from vcr.record_mode import RecordMode
        from vcr.request import Request

        # What a comparison imports and caches is loaded now, and in no event loop.
        url = "https://api.openai.com/v1/responses"
        recorded, now = (Request("POST", url, body, {}) for body in (b'{"input":"a"}', b"{}"))
        rows = [(recorded, {"status_code": 200, "headers": {}})]
        cassette = LoadedCassette(find_agents_line(""), rows, self._matching, self._redaction)
        cassette.compare(ComparedRequest(now, cassette), 0)
        # `_load` and `_responses` are private: https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
        load, play, responses = Cassette._load, Cassette.play_response, Cassette._responses

        def watch_load(cassette: Any) -> None:
            __tracebackhide__ = True
            if self.is_strict:
                cassette.record_mode = RecordMode.NONE
            load(cassette)
            self.find_cassette(cassette)

        def watch_play(cassette: Any, request: Any) -> Any:
            loaded, before = self.find_cassette(cassette), dict(cassette.play_counts)
            response = play(cassette, request)
            grown = [index for index, count in [*cassette.play_counts.items()] if count > before.get(index, 0)]
            # Another thread may have played meanwhile, whose response is another object.
            index = max(grown, key=lambda number: cassette.data[number][1] is response, default=len(loaded.requests))
            if index < len(loaded.requests):  # what this session has recorded itself is not compared
                self._compare(cassette, loaded, request, index)
            return response

        def list_nearest_first(cassette: Any, request: Any) -> Iterator[tuple[int, Any]]:
            loaded, (rows, ahead) = self.find_cassette(cassette), tee(responses(cassette, request))
            due = (at for at, _ in ahead if cassette.allow_playback_repeats or not cassette.play_counts[at])
            first = next(due, None)
            if first is None or ComparedRequest(request, loaded).is_plainly_equal(loaded.requests[first]):
                return rows
            numbers = [first, *due]
            if len(numbers) > 1:
                first = loaded.find_nearest(ComparedRequest(cassette.filter_request(request), loaded), numbers)
            return iter(sorted(rows, key=lambda row: row[0] != first))

        replacing: dict[str, Any] = {"_load": watch_load, "play_response": watch_play}
        if self.is_strict:
            replacing["_responses"] = list_nearest_first
        patcher = mock.patch.multiple(Cassette, **replacing)
        patcher.start()
        stop: Callable[[], None] = patcher.stop
        return stop

    def find_cassette(self, cassette: Any) -> LoadedCassette:
        """Return what was loaded of an open cassette."""
        if cassette not in self._cassettes:
            # `path` is public since vcrpy 9: https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
            path = self._redaction.hide(relative_path(Path(os.path.abspath(cassette._path)), self._root))  # noqa: PTH100
            self._cassettes[cassette] = LoadedCassette(path, cassette.data, self._matching, self._redaction)
            self.opened.append(self._cassettes[cassette])
        return self._cassettes[cassette]

    def _compare(self, cassette: Any, loaded: LoadedCassette, request: Any, index: int) -> None:
        try:
            # The hook of the suite is asked once more only for a request that it may make equal.
            if not (now := ComparedRequest(request, loaded)).is_plainly_equal(loaded.requests[index]):
                now = ComparedRequest(cassette.filter_request(request), loaded)
            play, divergence = loaded.compare(now, index)
        except Exception as error:  # a body that nobody can read, or a fault of ours, must not change the test
            summary = f"{request.method} request: cannot be compared ({type(error).__name__})"
            play, divergence = Play(loaded.path, index, "stale", "other", summary), Divergence(Kind.REQUEST, summary)
        self.plays.append(play)
        if divergence is not None and play.verdict != "noise":
            origin = find_agents_line(str(self._root)) if self.is_strict else ""
            self.divergences.append((play, replace(divergence, origin=origin)))


class CassetterWatch(CassetteWatch):
    """The watch of a suite on cassetter, which may use vcrpy too."""

    def install(self) -> Any:
        """Wrap the methods of both classes `Cassette`; return what restores them. Raises SettingsError."""
        from cassetter import cassette as module

        load, match = module.Cassette.load, getattr(module.Cassette, "match", None)
        if match is None and find_spec("vcr") is None:
            raise SettingsError("--vcr needs cassetter 0.16 or later: pip install --upgrade cassetter")
        if match is None:
            return super().install()

        def filter_request(cassette: Any, request: Any) -> SimpleNamespace:
            """Return a request as cassetter compares it and has written it: without credentials, its JSON parsed."""
            probe = module.HttpInteraction(request, module.HttpResponse(0), "")
            # https://github.com/Kludex/cassetter/blob/0.16.1/python/cassetter/cassette.py#L463-L491
            request = module.scrub_interaction(probe, cassette._security_config).request
            uri, body = (cassette._uri_normalizer or str)(request.uri), module.body_to_bytes(request.body)
            return SimpleNamespace(method=request.method, uri=uri, headers=request.headers, body=body, _body=body)

        def watch_load(cassette: Any) -> None:
            if self.is_strict:  # no other mode plays alone: `rewrite` would delete the cassette
                # https://github.com/Kludex/cassetter/blob/0.16.1/python/cassetter/cassette.py#L286-L312
                cassette._record_mode = module.RecordMode.NONE
            load(cassette)
            cassette.data = []
            for request, response in ((recorded.request, recorded.response) for recorded in cassette.interactions):
                content = module.body_to_bytes(response.body)
                reply = {"status_code": response.status, "headers": response.headers, "content": content}
                cassette.data.append((filter_request(cassette, request), reply))
            self.find_cassette(cassette)

        def match_equal(cassette: Any, *parts: Any) -> Any:
            """Play an unplayed interaction with the same JSON; where there is none, what cassetter takes."""
            exact, config, played = copy(cassette), cassette.match_config, cassette.played_indices
            # https://github.com/Kludex/cassetter/blob/0.16.1/python/cassetter/cassette.py#L449-L480
            exact._match_config = module.MatchConfig([*config.match_on, "json_body"], config.ignore_json_paths)
            with suppress(module.NoMatchError):
                index, response = match(exact, *parts)
                if not played[index]:
                    return index, response
                cassette._play_counter[index] -= 1  # of both: a copy shares what it counts
            return match(cassette, *parts)

        def watch_match(cassette: Any, method: str, uri: str, headers: Any, body: bytes | None) -> tuple[int, Any]:
            loaded = self.find_cassette(cassette)
            index, response = (match_equal if self.is_strict else match)(cassette, method, uri, headers, body)
            if index < len(loaded.requests):  # what this session has recorded itself is not compared
                # https://github.com/Kludex/cassetter/blob/0.16.1/python/cassetter/cassette.py#L765-L771
                kinds = (module._get_header(headers, name) for name in ("content-type", "content-encoding"))
                request = module.HttpRequest(method, uri, headers, module.process_body(body or b"", *kinds))
                self._compare(cassette, loaded, request, index)
            return index, response

        patches = ExitStack()
        replacing: dict[str, Any] = {"load": watch_load, "match": watch_match, "filter_request": filter_request}
        patches.enter_context(mock.patch.multiple(module.Cassette, create=True, **replacing))
        if find_spec("vcr"):
            patches.callback(super().install())
        return patches.close
