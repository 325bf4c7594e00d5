"""What a capture puts in the place of functions of libraries, threads and tools, and takes back.

The ids that a captured run draws from `uuid` are noted by lane and call site; the service gets them unchanged. A
replay serves them again (`RandomSource.serve_ids`). What is drawn inside an exchange, an SDK's own, is not noted: a
replay does not make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment import randomness
from pytest_agentreplay.intercept.session import lanes, replacing, thread_starts
from pytest_agentreplay.intercept.session.session_parts import ToolRegistry
from pytest_agentreplay.providers import others
from pytest_agentreplay.runs.capture import fail_open
from pytest_agentreplay.runs.capture.real_calls import choose
from pytest_agentreplay.runs.session_tools import SessionTools, resolve_tools
from pytest_agentreplay.settings import Settings

if TYPE_CHECKING:
    import uuid

    from pytest_agentreplay.model.exchanges import JsonObject

CALLS = ("http.", "websocket.", "mcp.", "tools.", "session.courses", "process.anyio")
"""Patch modules of the calls of an agent; clock, seeds, guard, exits and child processes stay as they are."""


class Patches:
    """The patches of one capture, in force from now until `remove`.

    Attributes:
        registry: The declared tools, as patches see them.
        facts: Entries of the kit that are the same in every run: tools that run for real, signatures.
        paths: The import path of each declared tool by its name.
    """

    def __init__(self, tools: tuple[tuple[str, str], ...]) -> None:
        """Patch. Raises CannotRedirect for a tool, and then nothing has changed."""
        self._before = registry.remove_patches()
        replacing.guard, replacing.note_fault = choose, fail_open.note_fault
        others.note_fault = fail_open.note_fault
        self.registry = ToolRegistry()
        self._tools = SessionTools(self.registry, ())
        settings = Settings(tools=tools)
        self.registry.read_tools = settings.read_tools
        try:
            registry.add_patches(
                {
                    library: f"pytest_agentreplay.intercept.{module}"
                    for library, module in registry.PATCHES.items()
                    if module.startswith(CALLS)
                }
            )
            thread_starts.stamp_threads()
            note_ids()
            resolved = resolve_tools(settings)
            self._tools.redirections.start()
            self._tools.freeze_declared(resolved)
        except BaseException:
            self.remove()
            raise
        self.paths = {name: path for path, tool in resolved for name in (tool.name, path)}
        self.facts: JsonObject = {
            "live": [*sorted(self.registry.live)],
            "signatures": self._tools.describe_signatures(),
        }

    def remove(self) -> None:
        """Give every function its own code again; a pytest of this process gets its patches back."""
        stop_noting_ids()
        redirections = self._tools.redirections
        redirections.stop()
        for redirection in [*redirections]:
            redirection.restore()
        registry.remove_patches()
        replacing.guard = replacing.note_fault = others.note_fault = None
        if not self._before:
            registry.stop_watching()
        else:
            registry.add_patches(self._before)
            thread_starts.stamp_threads()


MOST_IDS = 1_000
"""Ids that are noted of one run, 40 kB in memory; of those that follow, how many there were."""
DROPPED = "dropped"


def note_ids() -> None:
    """Note draws from here on."""
    randomness.redirect_ids()
    randomness.WATCHERS.append((note_id, fail_open.note_fault))


def stop_noting_ids() -> None:
    """Leave the functions of `uuid` as `note_ids` found them. A second call does nothing."""
    while randomness.WATCHERS:
        randomness.WATCHERS.pop()
        randomness.restore_ids()


def note_id(name: str, drawn: uuid.UUID) -> None:
    """Note an id that the function `name` of `uuid` has given to the run that runs here, if any."""
    call_context = lanes.CALL_CONTEXT.get()
    draws = None if call_context is None else getattr(call_context.interception, "draws", None)
    if call_context is None or draws is None or (lane := randomness.find_drawing_lane(call_context)) is None:
        return
    if DROPPED in draws or sum(len(ids) for sites in [*draws.values()] for ids in [*sites.values()]) >= MOST_IDS:
        draws[DROPPED] = draws.get(DROPPED, 0) + 1
        return
    draws.setdefault(lane, {}).setdefault(randomness.find_call_site(name), []).append(drawn.hex)
