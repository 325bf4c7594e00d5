"""Watches what cassetter plays. Its requests are compared by the code for those of vcrpy, whose names they have here.

Private names are those of https://github.com/Kludex/cassetter/blob/0.16.1/python/cassetter/cassette.py
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import wraps
from importlib.util import find_spec
from threading import Lock
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from pytest_agentreplay.cassettes.watching import CassetteWatch


class CassetterWatch(CassetteWatch):
    """The watch of a suite on cassetter, from 0.12 on; it may use vcrpy too."""

    def install(self) -> None:
        """Wrap the methods of both classes `Cassette`, until `uninstall`."""
        if find_spec("vcr"):
            super().install()
        from cassetter import cassette as module

        load, match, lock = module.Cassette.load, module.Cassette.match, Lock()

        def filter_request(cassette: Any, request: Any) -> SimpleNamespace:
            """Return a request as cassetter compares it and has written it: without credentials, its JSON parsed."""
            probe = module.HttpInteraction(request, module.HttpResponse(0), "")
            request = module.scrub_interaction(probe, cassette._security_config).request
            uri, body = (cassette._uri_normalizer or str)(request.uri), module.body_to_bytes(request.body)
            return SimpleNamespace(method=request.method, uri=uri, headers=request.headers, body=body, _body=body)

        @wraps(load)
        def watch_load(cassette: Any) -> None:
            load(cassette)
            cassette.data = []
            for recorded in cassette.interactions:
                reply = {"status": {"code": recorded.response.status}, "headers": recorded.response.headers}
                reply["body"] = {"string": module.body_to_bytes(recorded.response.body)}
                cassette.data.append((filter_request(cassette, recorded.request), reply))
            self.find_cassette(cassette)

        @wraps(match)
        def watch_match(cassette: Any, *parts: Any) -> tuple[int, Any]:
            loaded, played, config = self.find_cassette(cassette), cassette.played_indices, cassette._match_config
            exact, playing = module.MatchConfig([*config.match_on, "json_body"], config.ignore_json_paths), None
            if self.prefers_equal:
                with lock, patch.object(cassette, "_match_config", exact), suppress(module.NoMatchError):
                    playing = match(cassette, *parts)
                    if played[playing[0]]:  # an equal request was played before: cassetter takes an unplayed one first
                        cassette._play_counter[playing[0]] -= 1
                        playing = None
            index, response = playing or match(cassette, *parts)
            if index < len(loaded.requests):  # what this session has recorded itself is not compared
                method, uri, headers, body = parts
                kinds = (module._get_header(headers, name) for name in ("content-type", "content-encoding"))
                request = module.HttpRequest(method, uri, headers, module.process_body(body or b"", *kinds))
                self._compare(cassette, loaded, request, index)
            return index, response

        replacing = {"load": watch_load, "match": watch_match, "filter_request": filter_request}
        replacing |= {"can_record": property(lambda _: False)} if self.is_offline else {}
        self._patches = ExitStack()
        for name, replacement in replacing.items():
            self._patches.enter_context(patch.object(module.Cassette, name, replacement, create=True))

    def uninstall(self) -> None:
        """Put back what `install` has replaced."""
        super().uninstall()
        self._patches.close()
