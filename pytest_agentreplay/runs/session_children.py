"""The child processes of a session: what Python ones learn when they join, the gateway of the others.

This is loaded in the process of the test, so the session of a child is imported when it begins.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment.clock import ClockAndSeeds
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.intercept.network.child_events import short_name
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.process.child_server import Children, is_of_process
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.release_order import requests_served
from pytest_agentreplay.runs.session_tools import SessionTools, find_child_tool
from pytest_agentreplay.snapshots.kit import table, texts

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.gateway.gateway import Gateway
    from pytest_agentreplay.model.exchanges import Header
    from pytest_agentreplay.settings import Settings


NO_LOOPBACK = (
    "the gateway listens on loopback, which --agentreplay-sandbox has closed for good: say that the test needs it, "
    'by @pytest.mark.agentreplay(allow=["host:127.0.0.1"]), or leave the sandbox off'
)


def can_pickle(value: object) -> bool:
    """Return whether `value` can be passed to another process."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(value)
    except Exception:  # whatever the object raises; a codec of lambdas stays here, and the child reports CannotFreeze
        return False
    return True


def join_run(invitation: child_start.Invitation, main: str = "") -> None:
    """Join a run, in the child."""
    from pytest_agentreplay.runs import child_session

    child_session.join_run(invitation, main)


def run_job(invitation: child_start.Invitation | None) -> Any:
    """Return a block that works for the job of a pool, in the child."""
    from pytest_agentreplay.runs import child_session

    return child_session.run_job(invitation)


HANDOVER = child_start.ChildHandover(join_run, run_job, str(Path(__file__).parent / "child_site"))


class SessionChildren(Children):
    """The child processes of one session: Python ones join the run, others ask the gateway."""

    def __init__(self, session: Any, header: Header) -> None:
        """As `Children`; `session` is their `RunSession`, `header` that of its snapshot, or of its recording."""
        super().__init__(
            session.interception,
            mode=session.mode,
            greeting=self.describe_run,
            recorded=session.list_recorded(),
            unexpected=requests_served(header.kit),
            learn=session.learn_environment,
        )
        self._settings: Settings = session.settings
        self._header = header
        self._tools: SessionTools = session.tools
        self._gateway: Gateway | None = None

    def describe_run(self) -> dict[str, Any]:
        """Return what a child receives when it joins: what holds in the test, its tools by import path, its codecs."""
        settings, interception, header = self._settings, self.interception, self._header
        steps = interception.clock.steps
        assert isinstance(steps, ClockAndSeeds)
        places = (find_child_tool(path, tool) for path, tool in self._tools.frozen)
        return {
            "site": HANDOVER.site,
            "root": interception.root,
            "clock": "stepped" if settings.clock == "virtual" else settings.clock,
            "wall": header.clock,
            "seed": header.seed,
            "ids": steps.chance.ids,
            "zone": header.kit.get("zone") if settings.clock != "real" else None,
            "locale": header.kit.get("locale"),
            "order": settings.order,
            "waits": settings.waits,
            "tools": [place for place in places if place is not None],
            "codecs": [codec for codec in interception.tools.codecs if can_pickle(codec)],
            "read_tools": settings.read_tools,
            "live": interception.tools.live,
            "changes": interception.scope.changes,
            "patches": dict(registry.ACTIVE_PATCHES),
            "allow_hosts": settings.allow_hosts,
            "allow_subprocess": settings.allow_subprocess,
        }

    @property
    def gateway(self) -> Gateway:
        """The gateway, which is made when it is first used. Raises SettingsError in a sandbox."""
        if self._gateway is None:
            if sandbox.is_closed():
                raise SettingsError(NO_LOOPBACK)
            from pytest_agentreplay.intercept.gateway.gateway import Gateway

            apart = texts(table(self._header.kit, "order").get("apart"))
            self._gateway = Gateway(
                self.interception,
                recording=self.mode == "record",
                recorded=(x.call for x in self._recorded),
                allow_hosts=self._settings.allow_hosts,
                was_asked=not all(map(is_of_process, apart)),
            )
            assert self.guard is not None
            self.guard.served = self._gateway.starts
        return self._gateway

    @property
    def gateway_lanes(self) -> tuple[str, ...]:
        """The lanes of the children that have asked the gateway."""
        return () if self._gateway is None else self._gateway.lanes

    @property
    def strays(self) -> tuple[str, ...]:
        """What children of other tests asked this gateway for."""
        return () if self._gateway is None else (*self._gateway.strays,)

    def close_gateway(self) -> None:
        """Close the gateway, if there is one."""
        if self._gateway is not None:
            self._gateway.close()

    def find_unjoined(self) -> Divergence | None:
        """Return the divergence of children whose calls may have been neither recorded nor refused; None for none.

        These are Python processes that have not joined, and others that never asked the gateway. They are listed with
        what no boundary took; a replay is to fail with the divergence.
        """
        allowed = {short_name(program) for program in self._settings.allow_subprocess}
        apart = [name for name in self.strangers() if name not in allowed]
        silent = [name for name in (self._gateway.silent if self._gateway is not None else ()) if name not in allowed]
        assert self.guard is not None
        for name in (names := [*apart, *silent]):
            self.guard.count(("child", name, ""))
        if not names:
            return None
        what = "has not joined the run" if apart else "has asked its gateway for nothing"
        why = f"child process {names[0]} {what}: what it called elsewhere was neither seen nor refused"
        return Divergence(Kind.NETWORK, why, hints=(f"where it calls nothing: agentreplay_allow = program:{names[0]}",))
