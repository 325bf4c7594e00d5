"""Which local service of now stands for which recorded one.

A server of a test listens on a new port in every run, so ports are not compared; which of them are the same service is
learned from the calls instead, one to one over the run. All work is bounded by the number of local services.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.core.matching.address import DEFAULT_PORTS, is_loopback, is_this_host, split
from pytest_agentreplay.core.model import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Call

Authority: TypeAlias = str | None
"""Host and port of a local service, "localhost:8123"; None for a call that goes to none."""


class Authorities:
    """The local services of a recorded run, and those of now that stand for them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        """Take the recorded calls."""
        self.recorded = tuple(dict.fromkeys(authority(call) for call in calls))
        self._recorded_by_now: dict[str, str] = {}
        self._moved = False

    def options(self, now: Authority) -> tuple[Authority, ...]:
        """The recorded services that `now` may be: the one it stands for, else itself, else those nobody stands for."""
        if now is None:
            return (None,)
        if (known := self._recorded_by_now.get(now)) is not None:
            return (known,)
        taken = self._recorded_by_now.values()
        # A port that was recorded is that same service, unless this run has new ports: then it is a coincidence.
        if now in self.recorded and now not in taken and not self._moved:
            return (now,)
        return tuple(service for service in self.recorded if service is not None and service not in taken)

    def bind(self, now: Authority, recorded: Authority) -> None:
        """`now` stands for `recorded` from here on."""
        if now is not None and recorded is not None and now not in self._recorded_by_now:
            self._recorded_by_now[now] = recorded
            self._moved = self._moved or now != recorded

    def standing_for(self, now: Authority) -> str | None:
        """The recorded service that `now` stands for, if it is known."""
        return None if now is None else self._recorded_by_now.get(now)

    def now(self, recorded: Authority) -> str | None:
        """The service of now that stands for `recorded`, if it is known."""
        return next((name for name, service in self._recorded_by_now.items() if service == recorded), None)


def authority(call: Call) -> Authority:
    """The local service that a call goes to; `localhost`, 127.0.0.1 and ::1 are one host."""
    return None if isinstance(call, ToolCall) else _authority(call.url)


@lru_cache(maxsize=512)
def _authority(url: str) -> Authority:
    parts = split(url)
    if not is_loopback(parts.host):
        return None
    host = "localhost" if is_this_host(parts.host) else parts.host
    return f"{host}:{parts.port or DEFAULT_PORTS.get(parts.scheme, 0)}"
