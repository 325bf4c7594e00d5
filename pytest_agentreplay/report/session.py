"""What a whole session says: the footer lines, from the plain data that each test told."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.report.findings import Finding

Told = dict[str, Any]


def judge(recorded: Told, replayed: Told, finding: Finding | None, failure: str | None) -> Told:
    """The proof of a recording: whether it replays as it ended, and what moved if it does not."""
    if finding is not None:
        return {"replays": False, "why": finding.headline}
    if recorded.get("outcome") == "failed":
        if failure is None:
            return {"replays": False, "why": "the test failed when it was recorded and passes offline"}
        return {"replays": True, "why": "fails as recorded"}
    if failure is not None:
        last = failure.strip().rpartition("\n")[2]
        return {"replays": False, "why": f"its calls replay, but its own assertions do not hold offline: {last}"}
    moved = "the clock ran on: the agent waits on wall time" if replayed.get("ran_on") else ""
    return {"replays": True, "why": moved}


def footer(told: Iterable[Told], *, verbosity: int, root: str) -> list[str]:
    """The lines at the end of a session: replays counted, recordings with their proof, gaps, tools that ran unseen."""
    everything = list(told)
    replayed = [one for one in everything if one["mode"] == "replay"]
    recorded = [one for one in everything if one["mode"] == "record"]
    lines: list[str] = []
    if replayed and (verbosity > 0 or any(one.get("code") or one.get("drift") for one in replayed)):
        lines += replay_lines(replayed)
    elif replayed and verbosity >= 0:
        lines.append(replay_count(replayed))
    for one in recorded:
        lines += recording_lines(one, root)
    return lines


def replay_count(replayed: list[Told]) -> str:
    """One line: tests, turns and calls served."""
    turns = sum(one.get("turns", 0) for one in replayed)
    calls = sum(one.get("exchanges", 0) for one in replayed)
    return f"replayed {plural(len(replayed), 'test')} ({plural(turns, 'turn')}, {plural(calls, 'call')} served, 0 live)"


def replay_lines(replayed: list[Told]) -> list[str]:
    """The count, the divergences by code, and the fields that drifted."""
    line = replay_count(replayed)
    codes = Counter(one["code"] for one in replayed if one.get("code"))
    if codes:
        named = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
        line += f"   diverged {codes.total()} [{named}]"
    lines = [line]
    drift = Counter(path for one in replayed for path in one.get("drift", ()))
    lines += [
        f"drift     {path} differs in {plural(count, 'test')}; declared as watched"
        for path, count in sorted(drift.items())
    ]
    kept = Counter(one["expect"] for one in replayed if one.get("expect"))
    lines += [f"{plural(count, 'test')} {verdict}" for verdict, count in sorted(kept.items())]
    return lines


def recording_lines(one: Told, root: str) -> list[str]:
    """What became of one recording."""
    file = os.path.relpath(one["file"], root) if one.get("file") else ""
    lines: list[str] = []
    match one.get("verdict"):
        case "created" | "replaced" as verdict:
            line = f"recorded  {file} ({verdict}, {plural(one['exchanges'], 'call')}, test {one['outcome']})"
            proof = one.get("proof")
            if proof is not None:
                line += "   replays" if proof["replays"] else "   does not replay"
                if proof["why"]:
                    line += f": {proof['why']}"
            lines.append(line)
        case "pending":
            pending = os.path.relpath(one["pending"], root)
            lines += [
                f"pending   {one['test']}: {one['why']}; {file} is as it was",
                f"          to take the new run:   agentreplay accept {pending}",
            ]
        case "nothing crossed":
            lines.append(f"recorded  nothing: {one['test']} made no call that a boundary knows")
        case _:
            lines.append(f"recorded  nothing: {one['test']} was cut short or could not be frozen")
    if one.get("large"):
        lines.append(f"large     {file} holds {one['large']} bytes, more than agentreplay_max_bytes")
    lines += [f"not recorded: {gap}" for gap in one.get("gaps", ())]
    for tool in one.get("unfrozen", ()):
        lines.append(f"[AR-UNFROZEN] tool {tool['tool']} ran unseen and will run again in a replay")
        lines.append(f"          add to agentreplay_tools:   {tool['path']}")
    return lines


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 test", "2 tests"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
