"""The notices of a whole session of pytest: replays counted, recordings with their proof, gaps, what came too late."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.model.paths import accepting_edit, relative_path
from pytest_agentreplay.redaction.secret_names import WORDS, is_place, looks_secret, worth_knowing
from pytest_agentreplay.report.notices import (
    Notice,
    Severity,
    count_tests,
    format_count,
    format_freezing,
    make_error,
    make_info,
    make_recording_notices,
    make_warning,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.report.summary import (
        AdoptionSummary,
        FieldDrift,
        ProcessSummary,
        ReplaySummary,
        SessionSummary,
    )

    Replays = Sequence[tuple[SessionSummary, ReplaySummary]]

# Words of a value that is none: a client wants some key, and a replay any.
STAND_INS = frozenset(
    {"dummy", "example", "fake", "mock", "never", "placeholder", "replay", "replayed", "test", "unused"}
)

NOTHING_VERIFIED = make_error(
    "ERROR: --replay-tools=checked had nothing to check: no tool that reads was called in the selected tests",
    "          declare those that change nothing, by agentreplay.tool(lookup, effects='read') or in the settings:",
    "          agentreplay_tools = shop.tools.lookup_order = read",
    "          and for tools of frameworks:   agentreplay_tools = lookup_order = read",
)


def make_session_notices(summaries: Iterable[SessionSummary], here: Path) -> Iterator[Notice]:
    """Yield the notices about the tests of a session, in the order of the footer.

    Files are shown from `here`, the directory in which pytest was started.
    """
    every = list(summaries)
    replays = [(summary, summary.replay) for summary in every if summary.replay is not None]
    yield from make_replay_notices(replays)
    yield from make_unfrozen_notices(replays)
    yield from make_edited_notices(replays, here)
    yield from make_clock_notices(replays)
    for summary in every:
        yield from make_stray_notices(summary)
        yield from make_late_fixture_notices(summary)
    yield from make_guessed_notices(replays)
    yield from make_unheard_notices(replay.unheard for _, replay in replays)
    yield from make_import_notices(every)
    recordings = [(summary, summary.recording) for summary in every if summary.recording is not None]
    yield from make_recording_notices(recordings, here)
    adoptions = [(summary, summary.adoption) for summary in every if summary.adoption is not None]
    yield from make_adoption_notices(adoptions, here)


def make_replay_notices(replays: Replays) -> Iterator[Notice]:
    """Yield the count of what was served, the divergences by code, the fields that drifted, and failures that recur."""
    if not replays:
        return
    codes = count_each(summary.code for summary, _ in replays if summary.code)
    diverged = f"{sum(count for _, count in codes)} [{', '.join(f'{count} {code}' for code, count in codes)}]"
    count = count_replays(replays) + (f"   diverged {diverged}" if codes else "")
    details = (*format_drift(replays),)
    # What only differs is shown with -q, too: nobody else says it, since the test has passed.
    notable = any(replay.drift or replay.changed or replay.vanished for _, replay in replays)
    if codes or notable:
        yield make_warning(count, *details)
    else:
        yield Notice(Severity.INFO, (count,), verbose=(count, *details))
    for date, number in count_each(replay.recurs for _, replay in replays if replay.recurs):
        tests = f"{format_count(number, 'test')} {'fails' if number == 1 else 'fail'}"
        yield make_warning(f"{tests} as recorded on {date}; nothing went live")


def make_unfrozen_notices(replays: Replays) -> Iterator[Notice]:
    """Yield each tool that ran for real since it was recorded unseen, with the tests that recorded it so."""
    tests: dict[tuple[str, str], list[str]] = {}
    for test, tool in ((summary.test, tool) for summary, replay in replays for tool in replay.unfrozen):
        tests.setdefault((tool.tool, tool.path), []).append(test)
    for (name, path), (first, *others) in tests.items():
        more = f" and {format_count(len(others), 'other')}" if others else ""
        text = f"tool {name} runs for real in a replay: it ran unseen when {first}{more} recorded it"
        yield make_error(f"[AR-UNFROZEN] {text}", format_freezing(path), "          and record again")


def make_neighbour_notices(summaries: Sequence[SessionSummary]) -> Iterator[Notice]:
    """Yield on how many neighbours of their recordings tests were tried, and on how many all invariants hold."""
    if summaries:
        holding = sum(not summary.code for summary in summaries)
        tests = format_count(len({summary.test for summary in summaries}), "test")
        yield make_info(f"tried {tests} on {format_count(len(summaries), 'neighbour')}, {holding} hold")


def count_replays(replays: Replays) -> str:
    """Return one line: tests, turns and calls served."""
    turns = sum(replay.turns for _, replay in replays)
    calls = sum(replay.exchanges for _, replay in replays)
    verified = sum(replay.verified for _, replay in replays)
    live = f"{verified} verified live" if verified else "0 live"
    if tools := sorted({tool for summary, _ in replays for tool in summary.live}):
        live = f"{format_count(len(tools), 'tool')} declared live: {', '.join(tools)}"
    if unfrozen := {tool.tool for _, replay in replays for tool in replay.unfrozen}:
        live += f", {len(unfrozen)} not frozen"
    if runs := [replay.live_run for _, replay in replays if replay.live_run is not None]:
        model_calls = format_count(sum(run["calls"] for run in runs if run["cell"].startswith("L")), "model call")
        live = f"{model_calls} and {format_count(verified, 'tool call')} live"
    if all(replay.network == "L3" for _, replay in replays):
        live += ", offline by the kernel"
    tests = count_tests([summary for summary, _ in replays])
    return f"replayed {tests} ({format_count(turns, 'turn')}, {format_count(calls, 'call')} served, {live})"


def format_drift(replays: Replays) -> Iterator[str]:
    """Yield what differs in replays and does not fail them, each once with the number of its tests."""
    yield from format_field_drift(replays)
    for call, count in count_each(call for _, replay in replays for call in replay.vanished):
        yield f"vanished  {call} was begun and given up when recorded, and is not called now ({count} x)"
    for file, count in count_each(file for _, replay in replays for file in replay.changed):
        yield f"changed   {file} since it was recorded; {format_count(count, 'test')} replayed all the same"
    for verdict, count in count_each(replay.expect for _, replay in replays if replay.expect):
        yield f"{format_count(count, 'test')} {verdict}"


def format_field_drift(replays: Replays) -> Iterator[str]:
    """Yield how many calls differ in fields that are not compared, then each field with its first two values."""
    if not (drifting := sum(replay.drifting for _, replay in replays)):
        return
    served = format_count(sum(replay.exchanges for _, replay in replays), "call")
    yield f"drift     {drifting} of {served} served differ in fields that are not compared (--strict-keys: fail)"
    fields: dict[str, list[FieldDrift]] = {}
    for drift in (drift for _, replay in replays for drift in replay.drift):
        fields.setdefault(drift.path, []).append(drift)
    for path, drifts in sorted(fields.items()):
        first = drifts[0]
        values = f"{excerpt(first.recorded)} -> {excerpt(first.now)}"
        yield f"          {path} x{sum(drift.calls for drift in drifts)} ({values}); {explain_drift(path, first.rule)}"


def excerpt(text: str, most: int = 40) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def count_each(values: Iterable[str]) -> list[tuple[str, int]]:
    """Return each value with how often it occurs, in order of the values."""
    return sorted(Counter(values).items())


def explain_drift(path: str, rule: str) -> str:
    """Return the rule by which a difference does not fail; of a header without one, the line that makes it fail."""
    name = path.removeprefix("headers.")
    return rule if name == path or rule.startswith("ignored") else f"to fail: agentreplay_keep = header:{name} = match"


def make_edited_notices(replays: Replays, here: Path) -> Iterator[Notice]:
    """Yield the snapshots that were edited by hand and not sealed again: they are served as they stand."""
    for summary, replay in replays:
        if replay.edited:
            path = relative_path(Path(summary.file), here)
            yield make_error(
                f"edited    {path}: edited after it was recorded: {', '.join(replay.edited)}",
                f"          if that is meant (CI refuses it till then):   {accepting_edit(path)}",
            )


def make_clock_notices(replays: Replays) -> Iterator[Notice]:
    """Yield the virtual clocks that were none, or whose recording leaves to chance what came first."""
    for test, clock in ((summary.test, replay.clock) for summary, replay in replays if replay.clock is not None):
        if clock.why:
            yield make_error(f"clock     stepped, not virtual, in {test}: {clock.why}")
        if clock.tight:
            yield make_error(
                f"clock-tight {test}: {format_count(clock.tight, 'answer')} came within 5 ms of a timer when recorded",
                "          which came first was chance; to keep it exactly, record with   agentreplay_clock = virtual",
            )


def make_stray_notices(summary: SessionSummary) -> Iterator[Notice]:
    """Yield what the child of another test asked the gateway of this one for."""
    if strays := summary.strays:
        more = f", and {len(strays) - 1} more" if len(strays) > 1 else ""
        yield make_error(
            f"refused   at the gateway of {summary.test}: {strays[0]}{more}, by the child of another test",
            "          it has outlived the test that started it: wait for the child before the test returns",
        )


def make_late_fixture_notices(summary: SessionSummary) -> Iterator[Notice]:
    """Yield a test that asked for the fixture by `request.getfixturevalue`: nobody intercepted what it did before."""
    if summary.late:
        yield make_warning(
            f"late      {summary.test} asked for agentreplay while it ran: its calls before that were not recorded",
            "          a replay refuses them; name the fixture among its arguments, or mark it:   "
            "@pytest.mark.agentreplay",
        )


def make_guessed_notices(replays: Replays) -> Iterator[Notice]:
    """Yield the tests whose event loop does not say when it has nothing left to do."""
    if tests := {summary.test for summary, replay in replays if replay.guessed}:
        loop = f"the event loop of {format_count(len(tests), 'test')}"
        yield make_info(f"guessed   when {loop} was idle: it cannot be asked (uvloop), so it got 30 rounds and 1 ms")


def make_unheard_notices(libraries: Iterable[Mapping[str, str]]) -> Iterator[Notice]:
    """Yield libraries in C that agents loaded by hand, where no kernel keeps them from the network."""
    loaded = {library: line for lines in libraries for library, line in lines.items()}
    for library, line in sorted(loaded.items()):
        text = f"{line} loads {library} with ctypes: what it does is not refused (--agentreplay-sandbox=auto does)"
        yield make_info(f"unheard   {text}")


def make_import_notices(summaries: Sequence[SessionSummary]) -> Iterator[Notice]:
    """Yield modules and libraries that asked for something while they were imported."""
    own = {module for summary in summaries if summary.recording for module in summary.recording.own_imports}
    for module in sorted(own):
        text = f"{module} makes requests while it is imported: they belong to the first test that imports it"
        yield make_info(f"import    {text}")
    targets = {library: target for summary in summaries for library, target in summary.imports.items()}
    for library, target in sorted(targets.items()):
        text = f"{library} asks for {target} while it is imported: refused, since it is no part of a test"
        yield make_info(f"import    {text}")


def make_adoption_notices(adoptions: Sequence[tuple[SessionSummary, AdoptionSummary]], here: Path) -> Iterator[Notice]:
    """Yield what became of changed requests: by test, and counted where there are several tests."""
    several = len(adoptions) > 1
    for summary, adoption in adoptions:
        # Of many tests that are accepted at once only those with a change are listed.
        if several and adoption.verdict == "nothing changed" and not adoption.transcripts:
            continue
        severity = Severity.WARNING if adoption.verdict == "adopted" else Severity.ERROR
        yield Notice(severity, (*format_adoption(summary, adoption, relative_path(Path(summary.file), here)),))
    if several:
        words = {"adopted": "accepted", "to be adopted": "to accept", "left": "left", "nothing changed": "unchanged"}
        counts = Counter(words.get(adoption.verdict, "failed") for _, adoption in adoptions)
        text = ", ".join(f"{counts[word]} {word}" for word in (*words.values(), "failed") if counts[word])
        yield make_error(f"requests of {format_count(len(adoptions), 'snapshot')}: {text}")


def format_adoption(summary: SessionSummary, adoption: AdoptionSummary, file: str) -> list[str]:
    """Return what became of the changed requests of one test, and which recorded call answers each."""
    written = adoption.transcripts
    transcripts = [f"accepted  {format_count(written, 'transcript')} of {summary.test}"] if written else []
    match adoption.verdict:
        case "adopted" | "to be adopted":
            word = "accepted " if adoption.verdict == "adopted" else "to accept"
            requests = format_count(adoption.requests, "changed request")
            alignment = [f"          {line}" for line in adoption.alignment]
            return [f"{word} {file} ({requests}, every reply as it was)", *alignment, *transcripts]
        case "left":
            return [f"left      {file}: its changes are {', '.join(adoption.codes)}"]
        case "nothing changed":
            return transcripts or [f"accepted  nothing: no request has changed; {file} is as it was"]
    return [f"accepted  nothing: the test did not pass on the recorded replies; {file} is as it was"]


def make_secret_notices(environ: Mapping[str, str]) -> Iterator[Notice]:
    """Yield the names of the credentials that a job holds while it replays."""
    names = sorted(name for name, value in environ.items() if looks_secret(name) and is_credential(value))
    if names:
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield make_error(
            f"secrets   {listed} set in this job, and a replay needs none: run it on pull_request, without them"
        )


def is_credential(value: str) -> bool:
    """Return whether the value of a variable is a credential: no file that holds it, no stand-in."""
    words = {word.lower() for word in WORDS.findall(value)}
    return worth_knowing(value.strip()) and not is_place(value.strip()) and words.isdisjoint(STAND_INS)


def make_process_notices(facts: ProcessSummary, *, recording: bool = False) -> Iterator[Notice]:
    """Yield what showed when the tests were over: late calls, crashed workers ..."""
    if facts.open:
        yield make_error(f"network   closed, but not by the kernel: {facts.open}")
    for test in facts.crashed:
        lines = [f"incomplete: the worker process crashed in {test}, which told nothing"]
        if recording:
            lines.append("          to see what it had recorded by then:   agentreplay verify --recover")
        yield make_error(*lines)
    for call in facts.late:
        yield make_error(
            f"[AR-LATE] {call.test}: {call.call}",
            "          refused after the test had been reported; join the thread or await the task before it returns",
        )
    if facts.bystanders:
        yield make_error(
            f"not recorded: {format_count(facts.bystanders, 'test')} without the plugin called a model at "
            f"{', '.join(facts.model_hosts)}",
            "          give each the fixture agentreplay, or name their folder in agentreplay_paths",
        )
