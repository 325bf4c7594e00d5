"""What the fixture `agentreplay` gives to a test: a small handle on the session, or on nothing in mode off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from pytest_agentreplay.cases.view import RunView
    from pytest_agentreplay.intercept.gateway.gateway import Gateway, NoGateway
    from pytest_agentreplay.intercept.session.agents import AgentName
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.runs.run_session import RunSession

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")
N = TypeVar("N", bound="Callable[[str, bytes, bytes], bool]")

# A plain object, as `intercept.tools.results` takes it; the one there would load the tools for each test.
FROM_ANNOTATION: Any = object()


def drop_empty(**facts: Json) -> JsonObject:
    """Return the facts that are not empty."""
    return {name: value for name, value in facts.items() if value not in ("", {})}


class AgentReplay:
    """One test's recording or replay, as the test sees it."""

    def __init__(
        self, run_session: RunSession | None, root: Path | None = None, skip: Callable[[], NoReturn] | None = None
    ) -> None:
        """`run_session` is None in mode off: tools run, nothing is kept, and there is no run. `root` is the project's.

        `skip` ends a test in mode off that reads its run; without it such a run is empty.
        """
        self._run_session = run_session
        self._root = root or Path()
        self._skip = skip

    @property
    def mode(self) -> Literal["record", "replay", "off"]:
        """What happens in this test: "record", "replay" or "off"."""
        if self._run_session is None:
            return "off"
        return "record" if self._run_session.mode == "record" else "replay"

    @property
    def run(self) -> RunView:
        """The run as far as it has come: a live, read-only view of its turns and tool calls.

        In mode off there is none, and a test that reads one is skipped from there on.
        """
        from pytest_agentreplay.cases.view import RunView, UnrecordedRun
        from pytest_agentreplay.model.exchanges import Header, Run
        from pytest_agentreplay.providers import READER

        if self._run_session is not None:
            return RunView(self._run_session.run, READER)
        if self._skip is not None:
            return UnrecordedRun(self._skip)
        return RunView.of(Run(Header("")))

    @property
    def gateway(self) -> Gateway | NoGateway:
        """Where the model calls of child processes are intercepted: merge `gateway.env` into a child's environment."""
        if self._run_session is None:
            from pytest_agentreplay.intercept.gateway.gateway import NoGateway

            return NoGateway()
        return self._run_session.children.gateway

    def tool(
        self,
        function: F,
        *,
        effects: Literal["read", "write", "live"] = "write",
        returns: object = FROM_ANNOTATION,
        name: str | None = None,
    ) -> F:
        """Freeze `function` wherever the agent holds it, until the test ends; gives it back, so it also decorates.

        `returns` is the type that its result is restored to where the annotation does not say it, `name` the name
        shown. With `effects="live"` it runs for real in a replay too, and is counted. Raises CannotRedirect for what
        cannot be intercepted (a builtin, a class).
        """
        return self._freeze(function, name, effects=effects, returns=returns)

    def model(
        self,
        function: F,
        *,
        name: str | None = None,
        version: str = "",
        provider: str = "",
        parameters: JsonObject | None = None,
        returns: object = FROM_ANNOTATION,
    ) -> F:
        """Freeze `function` as a model of this process, until the test ends; gives it back, so it also decorates.

        Each call of it begins a turn. `name` is the model's id (else the function's name), `version`, `provider` and
        `parameters` are what no argument shows: they are kept and compared with each call. A generator is a streamed
        reply. `returns` is as for `tool`. Raises CannotRedirect for what cannot be intercepted (a builtin, a class).
        """
        facts = drop_empty(version=version, provider=provider, parameters=parameters or {})
        return self._freeze(function, name, returns=returns, boundary="model", facts=facts)

    def retrieval(
        self,
        function: F,
        *,
        name: str | None = None,
        embedding_model: str = "",
        effects: Literal["read", "write"] = "read",
        returns: object = FROM_ANNOTATION,
    ) -> F:
        """Freeze `function` as a retrieval: the search of a vector store, a retriever, a memory; gives it back.

        Reports tell its query, chunk ids, contents and scores. `embedding_model` is kept and compared with each call,
        `name` and `returns` are as for `tool`. Looking something up reads; say `effects="write"` for a memory that
        writes when it is asked. Raises CannotRedirect for what cannot be intercepted (a builtin, a class).
        """
        facts = drop_empty(embedding_model=embedding_model)
        return self._freeze(function, name, effects=effects, returns=returns, boundary="retrieval", facts=facts)

    def _freeze(self, function: F, name: str | None, **options: Any) -> F:
        return function if self._run_session is None else self._run_session.freeze(function, name, **options)

    def agent(self, name: str) -> AgentName:
        """Name the agent that makes the calls of a `with` block, or of a function that this decorates (async ones too).

        It holds in every mode, and for the tasks and threads that are begun in the block. Reports count the turns of
        each agent and tell them by its name. In code without the fixture: `pytest_agentreplay.agent(name)`.
        """
        from pytest_agentreplay.intercept.session.agents import agent

        return agent(name)

    def codec(self, kind: type[T], freeze: Callable[[T], Json], thaw: Callable[[Json], T]) -> None:
        """Say how values of `kind` become JSON and come back; for classes whose annotation is not enough."""
        if self._run_session is not None:
            from pytest_agentreplay.values import Codec

            self._run_session.interception.tools.codecs.append(Codec(kind, freeze, thaw))

    def media(self, near: N) -> N:
        """Say when two pictures, sounds or files of requests are near enough; gives `near` back, so it also decorates.

        `near(kind, recorded, now)` gets the type ("image/png") and the bytes of both sides, and gives whether one may
        stand for the other. A replay asks it where they alone tell two calls apart; the difference is told as drift.
        """
        if self._run_session is not None:
            self._run_session.media(near)
        return near

    def annotate(self, **facts: Json) -> None:
        """Keep facts about this run in the snapshot's header: user, tenant, session, feature flags ..."""
        if self._run_session is not None:
            self._run_session.annotations.update(facts)

    def keep_file(self, path: str | PathLike[str]) -> Path:
        """Keep the hash of a file that the run depends on; a replay reports its change. Return its path.

        Args:
            path: The path from the project's root.
        """
        return self._root / path if self._run_session is None else self._run_session.keep_file(path)

    def secret(self, value: str) -> str:
        """Never write `value`, in any encoding; gives it back."""
        return value if self._run_session is None else self._run_session.secret(value)

    def __repr__(self) -> str:
        return f"<agentreplay {self.mode}>"
