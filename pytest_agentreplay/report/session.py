"""What a whole session says: the footer lines, from the plain data that each test told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.paths import near, quoted
from pytest_agentreplay.core.redaction.secret_names import WORDS, is_place, looks_secret, worth_knowing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.report.findings import Finding

Told = dict[str, Any]


STAND_INS = frozenset(
    {"dummy", "example", "fake", "mock", "never", "placeholder", "replay", "replayed", "test", "unused"}
)
"""Words of a value that is none: a client wants some key, and a replay any."""

RAN_ON = "the clock ran on: the agent waits on wall time"

TIMED = "its timers race with the answers: a rate limiter, a batch, a deadline"

GAPS = 5
"""Arguments that are compared by class alone and are listed; the kit has all of them."""

NOTHING_VERIFIED = (
    "ERROR: --replay-tools=verify had nothing to verify: no tool that reads was called in the selected tests",
    "          declare those that change nothing, by agentreplay.tool(lookup, effects='read') or in the settings:",
    "          agentreplay_tools = shop.tools.lookup_order = read",
    "          and for tools of frameworks:   agentreplay_read_tools = lookup_order",
)


def judge(outcome: str, replayed: Told, finding: Finding | None, failure: str | None) -> Told:
    """The proof of a recording of this outcome: whether it replays as it ended, and what moved if it does not."""
    if finding is not None:
        return {"replays": False, "why": finding.headline}
    if outcome == "failed":
        if failure is None and not replayed.get("failed") and replayed.get("expect") != "fails as recorded":
            return {"replays": False, "why": "the test failed when it was recorded and passes offline"}
        return {"replays": True, "why": "fails as recorded"}
    if failure is not None:
        said = failure.strip().partition("\n")[0]
        if replayed.get("redacted"):
            return {"replays": False, "why": f"redacted: its calls replay, but the test looks at a secret: {said}"}
        ran = f" (the code of {', '.join(names)} does not run)" if (names := replayed.get("written")) else ""
        return {"replays": False, "why": f"its calls replay, but its own assertions do not hold offline{ran}: {said}"}
    return {"replays": True, "why": RAN_ON if replayed.get("ran_on") else TIMED if replayed.get("timed") else ""}


def footer(told: Iterable[Told], *, verbosity: int, here: str) -> list[str]:
    """The lines at the end of a session: replays counted, recordings with their proof, gaps, tools that ran unseen.

    With -q recordings that went well are counted, with -qq nothing is said but what needs a person. Files are told
    from `here`, the directory in which pytest was started.
    """
    everything, place = list(told), Path(here)
    replayed = [one for one in everything if one["mode"] == "replay"]
    recorded = [one for one in everything if one["mode"] == "record"]
    lines: list[str] = []
    notable = ("code", "drift", "changed", "vanished", "without_content")
    parted = any(one.get(key) for one in replayed for key in notable)
    if replayed and (verbosity > 0 or (parted and verbosity > -2)):
        lines += replay_lines(replayed)
    elif replayed and verbosity >= 0:
        lines.append(replay_count(replayed))
    lines += recurring_lines(replayed) if verbosity > -2 else []
    for one in replayed:
        lines += edited_lines(one, place)
    for one in replayed:
        lines += clock_lines(one)
    for one in everything:
        lines += stray_lines(one)
        lines += late_lines(one) if verbosity >= -1 else []
    lines += guessed_lines(everything) if verbosity >= 0 else []
    lines += unheard_lines(replayed) if verbosity >= 0 else []
    lines += import_lines(everything) if verbosity >= 0 else []
    calm = [one for one in recorded if verbosity < 0 and went_well(one) and one.get("verdict") != "kept"]
    if calm and verbosity == -1:
        lines.append(recording_count(calm, others=len(recorded) > len(calm)))
    for one in recorded:
        if one not in calm:
            lines += recording_lines(one, place)
    lines += differing_lines(recorded)
    adopting = [one for one in everything if one["mode"] == "adopt"]
    for one in adopting:
        if len(adopting) > 1 and one.get("verdict") == "nothing changed" and not one.get("transcripts"):
            continue
        if verbosity > -2 or one.get("verdict") != "adopted":
            lines += adopting_lines(one, place)
    return lines + (adopting_count(adopting) if len(adopting) > 1 else [])


def clock_lines(one: Told) -> list[str]:
    """A virtual clock that was none, or whose recording leaves to chance what came first."""
    clock = one.get("clock") or {}
    lines = []
    if clock.get("why"):
        lines.append(f"clock     stepped, not virtual, in {one['test']}: {clock['why']}")
    if clock.get("tight"):
        lines += [
            f"clock-tight {one['test']}: {plural(clock['tight'], 'answer')} came within 5 ms of a timer when recorded",
            "          which came first was chance; to keep it exactly, record with   agentreplay_clock = virtual",
        ]
    return lines


def stray_lines(one: Told) -> list[str]:
    """What the child of another test has asked the gateway of this one for."""
    if not (strays := one.get("strays")):
        return []
    more = f", and {len(strays) - 1} more" if len(strays) > 1 else ""
    return [
        f"refused   at the gateway of {one['test']}: {strays[0]}{more}, by the child of another test",
        "          it has outlived the test that started it: wait for the child before the test returns",
    ]


def late_lines(told: Told) -> list[str]:
    """A test that asked for the fixture by `request.getfixturevalue`: what it did before nobody has intercepted."""
    if not told.get("late"):
        return []
    return [
        f"late      {told['test']} asked for agentreplay while it ran: its calls before that run for real",
        "          name the fixture among its arguments, or mark it: @pytest.mark.agentreplay",
    ]


def guessed_lines(everything: list[Told]) -> list[str]:
    """Tests whose event loop does not say when it has nothing left to do."""
    tests = plural(len({one["test"] for one in everything if one.get("guessed")}), "test")
    if tests.startswith("0"):
        return []
    return [
        f"guessed   when the event loop of {tests} was idle: it cannot be asked (uvloop), so it got 30 rounds and 1 ms",
    ]


def unheard_lines(replayed: Iterable[Told]) -> list[str]:
    """Libraries in C that agents have loaded by hand, where no kernel keeps them from the network."""
    loaded = {library: line for one in replayed for library, line in (one.get("unheard") or {}).items()}
    return [
        f"unheard   {line} loads {library} with ctypes: what it does is not refused (--agentreplay-sandbox=auto does)"
        for library, line in sorted(loaded.items())
    ]


def import_lines(everything: Iterable[Told]) -> list[str]:
    """Return the lines about libraries that asked for something while they were imported."""
    everything = list(everything)
    asked = {library: target for one in everything for library, target in (one.get("imports") or {}).items()}
    own = sorted({module for one in everything for module in one.get("own_imports", ())})
    return [
        *(
            f"import    {module} makes requests while it is imported: they belong to the first test that imports it"
            for module in own
        ),
        *(
            f"import    {library} asks for {target} while it is imported: refused, since it is no part of a test"
            for library, target in sorted(asked.items())
        ),
    ]


def secrets_lines(environ: Mapping[str, str]) -> list[str]:
    """Credentials that a job holds while it replays; their names alone."""
    held = sorted(name for name, value in environ.items() if looks_secret(name) and is_credential(value))
    if not held:
        return []
    named = ", ".join(held[:3]) + (f" and {len(held) - 3} more" if len(held) > 3 else "")
    return [f"secrets   {named} set in this job, and a replay needs none: run it on pull_request, without them"]


def is_credential(value: str) -> bool:
    """Whether the value of a variable is a credential, as far as one can see: no file that holds it, no stand-in."""
    words = {word.lower() for word in WORDS.findall(value)}
    return worth_knowing(value.strip()) and not is_place(value.strip()) and words.isdisjoint(STAND_INS)


def went_well(one: Told) -> bool:
    """Whether a recording leaves nothing for a person to do."""
    if one.get("verdict") in {"pending", "not written"}:
        return False
    if any(one.get(what) for what in ("gaps", "unfrozen", "inside", "uncompared", "large", "racy")):
        return False
    proof = one.get("proof") or {}
    return bool(proof.get("replays", True)) and not proof.get("skipped")


def differing_lines(recorded: list[Told]) -> list[str]:
    """Tests that were recorded with one run of a shared fixture, while the run of another process was kept."""
    dropped = {(one["test"], one["instance"]) for one in recorded if one.get("differs")}
    lines = []
    for fixture in sorted({test for test, _ in dropped}):
        tests = [
            one["test"]
            for one in recorded
            if one.get("exchanges") and (fixture, one.get("uses", {}).get(fixture)) in dropped
        ]
        if tests:
            lines += [
                f"differs   {fixture} was recorded by several processes, with other answers; the first run is kept",
                f"          {plural(len(tests), 'test')} used another one, {tests[0]} for example: record without -n",
            ]
    return lines


def tests_and_fixtures(told: list[Told]) -> str:
    """How many of each: "3 tests and 1 fixture"."""
    fixtures = len({one["test"] for one in told if "fixture" in one})
    tests = plural(sum("fixture" not in one for one in told), "test")
    return tests + (f" and {plural(fixtures, 'fixture')}" if fixtures else "")


def recording_count(recorded: list[Told], *, others: bool) -> str:
    """One line for all recordings that went well; `others` that did not have lines of their own below it."""
    verdicts = Counter("unchanged" if one.get("unchanged") else str(one["verdict"]) for one in recorded)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    failed = sum(one.get("outcome") == "failed" for one in recorded)
    counted += f", {failed} failed" if failed else ""
    proven = all(one.get("proof") for one in recorded if one["verdict"] != "nothing crossed")
    shown = f", {'these' if others else 'all'} {'end as recorded' if failed else 'replay'}" if proven else ""
    return f"recorded {tests_and_fixtures(recorded)} ({counted}{shown})" + (", and others:" if others else "")


def afterwards(facts: Told, *, recording: bool = False) -> list[str]:
    """What showed when the tests were over: calls later than their test's report, models asked without the plugin.

    And the tests whose worker process has crashed: nothing is known of them but what is on the disk.
    """
    lines = []
    if why := facts.get("open"):
        lines.append(f"network   closed at L1, not L3: {why}")
    for test in facts.get("lost", ()):
        lines.append(f"incomplete: the worker process crashed in {test}, which told nothing")
        if recording:
            lines.append("          to see what it had recorded by then:   agentreplay recover")
    for one in facts.get("late", ()):
        lines += [
            f"[AR-LATE] {one['test']}: {one['call']}",
            "          refused after the test had been reported; join the thread or await the task before it returns",
        ]
    if standing := facts.get("bystanders"):
        asked = ", ".join(standing["hosts"])
        lines += [
            f"not recorded: {plural(standing['tests'], 'test')} without the plugin called a model at {asked}",
            "          give each the fixture agentreplay, or name their folder in agentreplay_paths",
        ]
    return lines


def adopting_lines(one: Told, here: Path) -> list[str]:
    """What became of the changed requests of one test, and which recorded call answers each."""
    file = near(Path(one["file"]), here)
    written = one.get("transcripts", 0)
    transcripts = [f"accepted  {plural(written, 'transcript')} of {one['test']}"] * bool(written)
    if one.get("verdict") in {"adopted", "to be adopted"}:
        word = "accepted " if one["verdict"] == "adopted" else "to accept"
        requests = plural(one["requests"], "changed request")
        aligned = [f"          {line}" for line in one["alignment"]]
        return [f"{word} {file} ({requests}, every reply as it was)", *aligned, *transcripts]
    if one.get("verdict") == "left":
        return [f"left      {file}: its changes are {', '.join(one['codes'])}"]
    if one.get("verdict") == "nothing changed":
        return transcripts or [f"accepted  nothing: no request has changed; {file} is as it was"]
    return [f"accepted  nothing: the test did not pass on the recorded replies; {file} is as it was"]


def adopting_count(adopting: list[Told]) -> list[str]:
    """One line for several tests: how many snapshots were taken, left, and had nothing to take."""
    words = {"adopted": "accepted", "to be adopted": "to accept", "left": "left", "nothing changed": "unchanged"}
    counts = Counter(words.get(str(one.get("verdict")), "failed") for one in adopting)
    named = ", ".join(f"{counts[word]} {word}" for word in (*words.values(), "failed") if counts[word])
    return [f"requests of {plural(len(adopting), 'snapshot')}: {named}"]


def replay_count(replayed: list[Told]) -> str:
    """One line: tests, turns and calls served."""
    turns = sum(one.get("turns", 0) for one in replayed)
    calls = sum(one.get("exchanges", 0) for one in replayed)
    ran = sum(one.get("verified", 0) for one in replayed)
    live = f"{ran} verified live" if ran else "0 live"
    if tools := sorted({tool for one in replayed for tool in one.get("live", ())}):
        live = f"{plural(len(tools), 'tool')} declared live: {', '.join(tools)}"
    if runs := [one["live_run"] for one in replayed if one.get("live_run")]:
        asked = plural(sum(run["calls"] for run in runs if run["cell"].startswith("L")), "model call")
        live = f"{asked} and {plural(ran, 'tool call')} live"
    if replayed and all(one.get("network") == "L3" for one in replayed):
        live += ", network closed (L3)"
    return f"replayed {tests_and_fixtures(replayed)} ({plural(turns, 'turn')}, {plural(calls, 'call')} served, {live})"


def _watched(path: str) -> str:
    """Why a difference does not fail; of a header, which line makes it fail."""
    name = path.removeprefix("headers.")
    return "declared as watched" if name == path else f"to fail: agentreplay_headers = {name} = match"


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
        f"drift     {path} differs in {plural(count, 'test')}; {_watched(path)}"
        for path, count in sorted(drift.items())
    ]
    if unmatched := [{*one["unmatched"]} for one in replayed if "unmatched" in one]:
        lines += [f"tolerance {line}" for line in sorted(set.intersection(*unmatched))]
    vanished = Counter(call for one in replayed for call in one.get("vanished", ()))
    lines += [
        f"vanished  {call} was begun and given up when recorded, and is not called now ({count} x)"
        for call, count in sorted(vanished.items())
    ]
    changed = Counter(text for one in replayed for text in one.get("changed", ()))
    lines += [
        f"changed   {text} since it was recorded; {plural(count, 'test')} replayed all the same"
        for text, count in sorted(changed.items())
    ]
    older = [one for one in replayed if one.get("without_content")]
    if older:
        calls = plural(sum(one["without_content"] for one in older), "call")
        lines += [
            f"older     {calls} in {plural(len(older), 'test')} recorded without content, by an older release",
            "          record again to have it compared:   pytest --snapshot-record",
        ]
    kept = Counter(one["expect"] for one in replayed if one.get("expect"))
    lines += [f"{plural(count, 'test')} {verdict}" for verdict, count in sorted(kept.items())]
    return lines


def recurring_lines(replayed: list[Told]) -> list[str]:
    """How many tests failed as they did when they were recorded, by date."""
    dates = Counter(one["recurs"] for one in replayed if one.get("recurs"))
    return [
        f"{plural(count, 'test')} {'fails' if count == 1 else 'fail'} as recorded on {date}; nothing went live"
        for date, count in sorted(dates.items())
    ]


def edited_lines(one: Told, here: Path) -> list[str]:
    """A snapshot that was edited by hand and not sealed again: served as it stands, and told each time."""
    if not one.get("edited"):
        return []
    file = near(Path(one["file"]), here)
    return [
        f"edited    {file}: {', '.join(one['edited'])} was edited after it was sealed",
        f"          if that is meant (CI refuses it till then):   agentreplay reseal {quoted(file)} --reason WHY",
    ]


def recording_lines(one: Told, here: Path) -> list[str]:
    """What became of one recording."""
    file = near(Path(one["file"]), here)
    lines: list[str] = []
    match one.get("verdict"):
        case "created" | "replaced" as verdict:
            at = f" at try {one['tries']}" if "tries" in one else ""
            what = "fixture" if "fixture" in one else "test"
            word = "unchanged" if one.get("unchanged") else verdict
            line = f"recorded  {file} ({word}, {plural(one['exchanges'], 'call')}, {what} {one['outcome']}{at})"
            proof = one.get("proof")
            if proof is not None:
                line += proof_words(proof)
            lines.append(line)
        case "pending":
            pending = near(Path(one["pending"]), here)
            left = "is as it was" if one.get("kept", True) else "was not written"
            take = "if the outage is the point" if one.get("outage") else "to take the new run"
            lines += [
                f"pending   {one['test']}: {one['why']}; {file} {left}",
                f"          {take}:   agentreplay accept {quoted(pending)}",
            ]
            if one.get("forked"):
                lines.append(f"          to see what differs:   agentreplay diff {quoted(file)} {quoted(pending)}")
        case "kept":
            pass  # another process was first: `differing_lines`
        case "nothing crossed" if (one.get("uses") or one.get("missing")) and not one.get("gaps"):
            pass  # it looks at what a fixture has done, or a test was run only because it has no snapshot
        case "nothing crossed":
            proof = one.get("proof")
            line = f"recorded  nothing: {one['test']} made no call that a boundary knows"
            lines.append(line + (proof_words(proof) if proof is not None else ""))
        case _:
            first, *more = str(one.get("why", "")).splitlines() or [""]
            lines += [f"recorded  nothing of {one['test']}: {first}", *(f"          {text}" for text in more)]
            if one.get("rest"):
                kept = quoted(near(Path(one["rest"]), here))
                lines.append(f"          the rest is kept:   agentreplay recover --policy FILE {kept}")
            if one.get("journal"):
                lines.append(
                    f"          to keep what it saw:   agentreplay recover {quoted(near(Path(one['journal']), here))}"
                )
    if one.get("large"):
        lines.append(f"large     {file} holds {one['large']:,} bytes, more than agentreplay_max_bytes")
        lines.append("          give the test smaller inputs, or keep such files in git-lfs")
    if racy := one.get("racy"):
        times = "once" if racy == 1 else f"{racy} times"
        lines.append(f"racy      {file}: two threads had their answers within a millisecond, {times}")
        lines.append("          which came first was chance, so a replay may part where your code depends on it")
    lines += [f"not recorded: {gap}" for gap in one.get("gaps", ())]
    lines += uncompared_lines(one.get("uncompared", ()))
    for tool in one.get("inside", ()):
        lines.append(
            f"inside    tool {tool} asks a model itself: a replay answers it whole, and sees no change of its prompts"
        )
        lines.append("          to see them, name what it calls in agentreplay_tools and leave it out")
    for tool in one.get("unfrozen", ()):
        where = "unseen" if tool["path"] else "in a child process"
        lines.append(f"[AR-UNFROZEN] tool {tool['tool']} ran {where} and will run again in a replay")
        if tool["path"]:
            lines.append(f"          add to agentreplay_tools:   {tool['path']}")
        else:
            lines.append("          a child's own tools are not frozen: give it a test account")
    return lines


def uncompared_lines(gaps: Sequence[Told]) -> list[str]:
    """The arguments of tools that are compared by their class alone."""
    if not gaps:
        return []
    lines = [f"uncompared {plural(len(gaps), 'argument')}: a replay compares them by class alone"]
    lines += [f"          {gap['path']} of {gap['tool']} ({gap['kind']}) {gap['why']}" for gap in gaps[:GAPS]]
    if len(gaps) > GAPS:
        lines.append(f"          and {len(gaps) - GAPS} more")
    kinds = dict.fromkeys(str(gap["line"]) for gap in gaps[:GAPS])
    return lines + [f"          say what they are compared by:   {line}" for line in kinds]


def proof_words(proof: Told) -> str:
    """What the replay of a new recording has shown, at the end of its line."""
    if proof.get("skipped"):
        return f"   not replayed: {proof['skipped']}"
    return ("   replays" if proof["replays"] else "   does not replay") + (f": {proof['why']}" if proof["why"] else "")


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 test", "2 tests"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
