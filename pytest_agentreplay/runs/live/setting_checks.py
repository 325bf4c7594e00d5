"""The settings of live runs, before the first call of a model: what names nothing, or compares nothing, is an error.

Settings are the project's, and no test has each place and tool. So a place counts that any recording of the project
has, and a tool that is declared, called in a recording, or shown to a model there.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.budget import UNPRICED
from pytest_agentreplay.backends.observation import observe
from pytest_agentreplay.compare.tolerance import find_reach, is_named
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.turns import function_of
from pytest_agentreplay.providers import READER, genai
from pytest_agentreplay.runs.live.tolerance_file import judges_of
from pytest_agentreplay.runs.replay_kit import sum_usage
from pytest_agentreplay.runs.session_tools import resolve_tools
from pytest_agentreplay.settings.parsers import nearest
from pytest_agentreplay.snapshots.store import locks, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.budget import Prices
    from pytest_agentreplay.compare.tolerance import Tolerance
    from pytest_agentreplay.compare.tolerance.tolerance_policy import Reach
    from pytest_agentreplay.intercept.tools.tool import Tool
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.settings import Settings

FREE = {"arguments", "result"}
"""Below these, a run may have what no recording has: that may be ignored, and limited."""
NAME = re.compile(r"[\w.*-]+")
LABELS = ("GET ", "HEAD ", "embeddings ", "retrieval ")
"""How calls that are no tools begin in `agentreplay_off_script`."""


def check_settings(every: Sequence[Settings], root: Path, prices: Prices) -> Iterator[str]:
    """Yield a line for each tolerance that has no place in a recording; `every` has the settings of the tests.

    Raises SettingsError for what names no tool or compares nothing, for a judge that is not declared, and for a tool
    that writes and may run off script; RunnerError for a judge that is not there; SnapshotError, CannotRedirect.
    """
    names, tools = dict[str, str](), set[str]()
    for settings in every:
        if settings.model == "live":
            judges_of(settings, settings.near)
        declared = [tool for _, tool in resolve_tools(settings)]
        refuse_live_writes(settings, declared)
        tools |= {*(tool.name for tool in declared), *(name for name, _ in settings.tools if "." not in name)}
        off_script = {name: f"agentreplay_off_script: {name} = {how}" for name, how in settings.off_script}
        names |= {name: line for name, line in off_script.items() if NAME.fullmatch(name)}
        names |= {name: rule.written for rule in settings.tolerances for name in rule.tools}
    reached: dict[Tolerance, list[Reach]] = {rule: [] for settings in every for rule in settings.tolerances}
    model, snapshots = "", locks.snapshots(root)
    while True:
        names = {name: line for name, line in names.items() if not is_tool(name, tools)}
        idle = [rule for rule, each in reached.items() if not any(map(partial(is_effective, rule), each))]
        if not (names or idle) or (file := next(snapshots, None)) is None:
            break
        run = reading.load(file).run
        shown = observe(run, READER, run.header.outcome, prices)
        model, tools = model or sum_usage(run, live=False)["model"], tools | {*list_tools(run)}
        for rule in idle:
            reached[rule].append(find_reach(rule, shown))
    for name, line in names.items():
        raise SettingsError(
            f"{line} names nothing: no tool of the project has this name{nearest(name, sorted(tools) or ['(none)'])}"
        )
    for rule in idle:
        if why := explain_idle(rule, reached[rule], model):
            raise SettingsError(f"{rule.written} compares nothing: {why}")
        if not all(each.open for each in reached[rule]):
            yield f"{rule.written}: no recording has this place; it holds for what is new in a live run"


def refuse_live_writes(settings: Settings, tools: Iterable[Tool]) -> None:
    """Raise SettingsError where a tool that writes may run off script."""
    live = [name for name, how in settings.off_script if how == "live"]
    for tool in tools:
        if tool.effects == "write" and tool.boundary == "tool" and any(is_named(tool.name, name) for name in live):
            why = "it writes, and a tool that writes never runs: take stop or stub"
            raise SettingsError(f"agentreplay_off_script: {tool.name} = live: {why}")


def list_tools(run: Run) -> Iterator[str]:
    """Yield the names of tools in a run: those that were called, asked for, or shown to a model."""
    for x in run.exchanges:
        if (function := function_of(x.call, READER)) is not None:
            yield function.name
        yield from (str(tool["name"]) for tool in genai.tools(READER.read_call(x.call).tools))
        yield from (use.name for use in READER.read_reply(x.call, x.outcome).tool_uses)


def is_tool(name: str, tools: Collection[str]) -> bool:
    """Return whether a tool has this name; either side may be a pattern."""
    return any(is_named(tool, name) or is_named(name, tool) for tool in (*tools, *LABELS) if tool)


def is_effective(rule: Tolerance, reach: Reach) -> bool:
    """Return whether a recording has something that the rule is about: a number for a budget, what is counted."""
    kind: Any = {"at most": int | float | dict, "forbidden": list}.get(rule.how, object)
    counts = rule.how != "ignore" and not rule.tool and rule.path.steps[0].want == "usage"
    return any(isinstance(value, kind) and not (counts and value is None) for value in reach.values)


def explain_idle(rule: Tolerance, reaches: Sequence[Reach], model: str) -> str:
    """Return why a rule compares nothing in any recording; "" where another run may have its place."""
    if any(each.values for each in reaches):
        kind = "list" if rule.how == "forbidden" else "number"
        return UNPRICED.format(model) if rule.path.steps[-1].want == "cost" else f"no recording has a {kind} there"
    closed = next((each for each in reaches if not each.open), None)
    free = rule.tool or any(step.deep or step.want in FREE for step in rule.path.steps)
    if closed is None or (free and (rule.how == "ignore" or (rule.how == "at most" and not rule.values[1]))):
        return ""
    near = nearest(closed.missing, sorted(closed.members)) if closed.members else ""
    return f"no recording has {closed.missing} there{near}"
