"""The gateway of one test: a loopback server that stands where the models of a child process would be.

A child, in whatever language, is told of it by the variables that SDKs take their base URL from. What it asks crosses
the test's interception as the call to the real upstream, so a snapshot does not show which process has asked.

    gateway.env    variables for one child              gateway.through(url)    for SDKs that read no variable
    routes         which variables, which upstreams     server                  requests, refusals, replays
    children       children that get them unasked       forwarding              to the upstream, and back
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.gateway.routes import UNREACHABLE, Routes, keys_for, routes_for
from pytest_agentreplay.intercept.session.lanes import CallContext
from pytest_agentreplay.model.divergence import Divergence, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.intercept.gateway.server import GatewayServer
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.model.exchanges import Call, Headers

_PATH = re.compile(r"/t/([0-9a-f]+)\.([0-9]+)(?:/p/([a-z0-9-]+))?(.*)", re.DOTALL)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
UNASKED = "(no child asked the gateway when this test was recorded)"
OUTLIVED = "this gateway is another test's: the child has outlived the test that started it"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(slots=True)
class GatewayChild:
    """A child that was made ready: where its calls go, and in which lane."""

    environ: Mapping[str, str] = field(repr=False)
    routes: Routes = field(repr=False)
    call_context: CallContext


class NoGateway:
    """What the fixture gives where nothing is recorded or replayed: children reach the world as ever."""

    url = ""
    unreachable: Mapping[str, str] = UNREACHABLE

    @property
    def env(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def through(self, base: str) -> str:
        """`base` itself."""
        return base

    def __repr__(self) -> str:
        return "<gateway off>"


class Gateway:
    """What the fixture gives as `agentreplay.gateway`. The server starts when it is first asked for.

    Each reading of `env` is one child: its calls are held to their order, those of several children are not.
    """

    unreachable: Mapping[str, str] = UNREACHABLE
    """What no variable diverts: the SDK, and what to do instead."""

    def __init__(
        self,
        interception: Interception,
        *,
        recording: bool,
        recorded: Iterable[Call] = (),
        allow_hosts: Iterable[str] = (),
        port: int = 0,
        was_asked: bool = True,
    ) -> None:
        """`recorded` are the calls of the snapshot, `allow_hosts` those that a child may reach past us.

        `was_asked` says that a child asked the gateway when the snapshot was recorded.
        """
        self._was_asked = was_asked
        self.interception = interception
        self.recording = recording
        self._recorded = tuple(recorded)
        self._allow_hosts = tuple(allow_hosts)
        self._port = port
        self._token = secrets.token_hex(8)
        self.strays: list[str] = []  # what the children of other tests have asked this gateway for
        self.refused: list[str] = []  # what children wanted of the world beyond the recording
        self._children: list[GatewayChild] = []
        self._started: dict[int, str] = {}  # by number, the program of a child that runs
        self._asking_children: set[int] = set()
        self._lock = threading.Lock()
        self._server: GatewayServer | None = None
        self._closed = False

    @property
    def url(self) -> str:
        """The gateway's own address for this test, "http://127.0.0.1:PORT/t/TOKEN.N"."""
        if not self._children:
            self.ready(os.environ)
        return self._address(0)

    @property
    def env(self) -> dict[str, str]:
        """What to merge into the environment of one child: `{**os.environ, **agentreplay.gateway.env}`."""
        return self.env_for(os.environ)

    def env_for(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What to merge into the environment `environ` of one child."""
        number = self.ready(environ)
        child, here = self._children[number], self._address(number)
        variables = {
            variable: (here.replace("http", "ws", 1) if "WEBSOCKET" in variable else here) + path
            for variable, path in child.routes.variables.items()
        }
        variables |= keys_for(environ, child.routes, self._recorded, replaying=not self.recording)
        if environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
            variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false"
        return variables | self._proxies(environ, number)

    def through(self, base: str) -> str:
        """The URL that stands for the base URL `base`, for a client that reads no variable."""
        if not self._children:
            self.ready(os.environ)
        name = re.sub(r"[^a-z0-9]+", "-", (urlsplit(base).hostname or "host").lower()).strip("-")
        return self._address(0) + self._children[0].routes.add(name, base)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of those children that have asked something."""
        return tuple(child.call_context.path for child in self._children if child.call_context.path)

    def serves(self, environ: Mapping[str, str]) -> bool:
        """Whether a child with this environment has been told of the gateway."""
        mark = f"/t/{self._token}."
        return any(mark in value for value in environ.values())

    def starts(self, environ: Mapping[str, str], program: str) -> str | None:
        """Why `program`, which was told of the gateway by this environment, may not run; "" if it may.

        None for one that was not told. Where no child asked the gateway when the test was recorded, whatever this one
        asks goes past it.
        """
        mark = re.compile(rf"/t/{self._token}\.([0-9]+)")
        number = next((match[1] for value in environ.values() if (match := mark.search(value))), None)
        if number is None:
            return None
        if not self.recording and not self._was_asked:
            return UNASKED
        self._started.setdefault(int(number), program)
        return ""

    @property
    def silent(self) -> tuple[str, ...]:
        """The programs of children that ran and have asked nothing here: what they asked elsewhere nobody has seen."""
        return tuple(program for number, program in self._started.items() if number not in self._asking_children)

    def ready(self, environ: Mapping[str, str]) -> int:
        """Make one child ready that would have run in `environ`; returns its number."""
        environ = dict(environ)
        above = self.interception.call_context()
        call_context = CallContext(
            self.interception, "", inside=above.inside, begun=self.interception.clock.count(), parent=above
        )
        child = GatewayChild(environ, routes_for(environ, self._recorded), call_context)
        with self._lock:
            self._start()
            self._children.append(child)
            return len(self._children) - 1

    def find(self, method: str, target: str, headers: Headers) -> tuple[CallContext, str] | str:
        """Whose request this is and which URL is meant, or why it is refused; then the test is told."""
        if method == "CONNECT" or "://" in target.partition("?")[0]:
            return self._elsewhere(target, headers)
        match = _PATH.fullmatch(target)
        if match is None:
            return self._refuse(f"the gateway was asked without a test's token: {method} {target}")
        token, number, route, rest = match.groups()
        if token != self._token or int(number) >= len(self._children):
            self.strays.append(f"{method} {rest}")
            return OUTLIVED
        child = self._children[int(number)]
        self._asking_children.add(int(number))
        if any(name.lower() == "upgrade" for name, _ in headers):
            return self._refuse(f"a child asked for a WebSocket, which the gateway does not serve: {rest}")
        try:
            return child.call_context, child.routes.upstream(route, rest, headers, child.environ)
        except KeyError:
            return self._refuse(f"the gateway knows no provider {route!r}: {method} {rest}")

    def latch(self, divergence: Divergence) -> str:
        """Fail the test with `divergence`, whatever the child makes of its refusal; returns what to tell the child."""
        if self.recording:
            self.interception.observed.note_problem(CannotFreeze(divergence.summary, path="$", kind="request"))
        else:
            if divergence.kind is Kind.NETWORK:
                self.refused.append(divergence.summary)
            divergence = self.interception.latch(divergence, "")
        return divergence.summary

    def _refuse(self, why: str, *hints: str) -> str:
        return self.latch(Divergence(Kind.NETWORK, why, hints=hints))

    def broken(self, why: str) -> None:
        """Something that should not happen has happened while a child was answered: the test must not pass."""
        self._refuse(f"the gateway could not answer a child: {why}")

    def close(self) -> None:
        """Cut off whoever is still connected. A second call does nothing."""
        server, self._server, self._closed = self._server, None, True
        if server is not None:
            server.stop()

    def _start(self) -> None:
        if self._closed:
            raise RuntimeError("agentreplay.gateway is the gateway of one test, and that test has ended")
        if self._server is None:
            from pytest_agentreplay.intercept.gateway.server import GatewayServer

            self._server = GatewayServer(self, self._port)
            self._server.start()

    def _address(self, number: int) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}/t/{self._token}.{number}"

    def _proxies(self, environ: Mapping[str, str], number: int) -> dict[str, str]:
        """Keep the child's proxies off the gateway; in a replay make the gateway its proxy, which then refuses."""
        variables: dict[str, str] = {}
        if self.recording and not any(name in environ or name.lower() in environ for name in PROXIES):
            return variables
        if not self.recording:
            here = self._address(number).replace("http://", f"http://agentreplay:{self._token}@", 1).partition("/t/")[0]
            for name in PROXIES:
                variables |= {name: here, name.lower(): here}
            variables["NODE_USE_ENV_PROXY"] = "1"
        past = [host.partition(":")[0] for host in self._allow_hosts if "/" not in host]
        for name in ("NO_PROXY", "no_proxy"):
            before = environ.get(name, "") if self.recording else ""
            variables[name] = ",".join(filter(None, [before, *LOOPBACK, *past]))
        return variables

    def _elsewhere(self, target: str, headers: Headers) -> str:
        """A child that wants to reach a host by its proxy, which we are in a replay."""
        host = urlsplit(target).netloc or target
        import base64

        credentials = base64.b64encode(f"agentreplay:{self._token}".encode()).decode()
        authorization = next((value for name, value in headers if name.lower() == "proxy-authorization"), "")
        if authorization and credentials not in authorization:
            self.strays.append(f"CONNECT {host}")
            return OUTLIVED
        name = host.rpartition(":")[0] or host
        why = f"a child asked for {host}, which the gateway does not serve"
        return self._refuse(why, f"agentreplay_allow = host:{name}")

    def __repr__(self) -> str:
        where = self._address(0) if self._children and self._server is not None else "not started"
        doing = "recording" if self.recording else "replaying"
        return f"<gateway {where} {doing}; not by a variable: {', '.join(self.unreachable)}>"
