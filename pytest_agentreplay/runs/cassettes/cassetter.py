"""Watches what cassetter plays. Its requests are compared by the code for those of vcrpy, whose names they get."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from copy import copy
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.cassettes.watching import CassetteWatch


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
