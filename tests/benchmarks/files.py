"""The figures of a snapshot file: its size, its load, the git diff of one more turn. One conversation of 200 turns."""

from __future__ import annotations

import subprocess
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import ours
import theirs
import world
from measuring import MS, Row, cpu, middle, say

from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.snapshots import codec

TURNS = 200
SIZE_MB = 0.7
LOAD_MS = 15
MEMORY = 3
DIFF_LINES, LONGEST = 130, 3000


def snapshots(rows, rounds=15):
    """Size and load of the same conversation in our file and in theirs."""
    script = world.conversation(TURNS)
    unique = sum(len(m["content"]) for m in script.messages[-1]) / 1000
    with tempfile.TemporaryDirectory() as folder:
        project, other = ours.Project(folder), theirs.Theirs(folder)
        size, theirs_size = project.record(script) / 1e6, other.record(script) / 1e6
        lines = len(project.snapshot.read_text().splitlines())
        rows.append(
            Row(
                "4 file",
                f"{TURNS} turns, {unique:.0f} kB of unique text",
                vcrpy=f"{theirs_size:.1f} MB",
                ours=f"{size:.2f} MB, {lines} lines",
                bound=f"{SIZE_MB} MB",
                holds=size < SIZE_MB,
            )
        )
        loads, first = [], []
        for _ in range(rounds):
            began, run_session = cpu(opened, project)
            loads.append(began)
            first.append(cpu(answered, run_session, script)[0])
        their_loads = [cpu(loaded, other, script)[0] for _ in range(2)]
    took = middle(loads) * MS
    rows.append(
        Row(
            "5 load of that file",
            "until the first call can be served; in brackets: with that call",
            vcrpy=f"{middle(their_loads) * MS:.0f} ms with that call",
            ours=f"{took:.1f} ms ({took + middle(first) * MS:.1f})",
            bound=f"{LOAD_MS} ms",
            holds=took < LOAD_MS,
        )
    )
    for row in rows[-2:]:
        say(f"{row.figure}: {row.ours}, vcrpy {row.vcrpy}")


def opened(project):
    """A scene that could serve a call: snapshot read, proven, indexed; boundaries met."""
    run_session = project.run_session("replay")
    run_session.open()
    return run_session


def answered(run_session, script):
    """Serve one call, and leave."""
    run_session.enter_body()
    script.ask(0)
    run_session.leave_body()
    run_session.close()


def loaded(other, script):
    """Their file loaded, and one call served from it."""
    with other.use(theirs.BODY, "none"):
        script.ask(0)


def diff(rows):
    """What git shows when the conversation is one turn longer: the same run with one turn more, and one recorded anew.

    Recorded anew, every earlier exchange has other times, a line each; with a real model its replies differ too.
    """
    longer = world.conversation(TURNS)
    with tempfile.TemporaryDirectory() as folder:
        project = ours.Project(folder)
        project.record(longer)
        before, after, anew = (Path(folder, name) for name in ("before.json", "after.json", "anew.json"))
        after.write_bytes(project.snapshot.read_bytes())
        run = codec.loads(after.read_bytes(), file=after.name).run
        before.write_text(codec.dumps(replace(run, exchanges=run.exchanges[:-1])))
        project.record(world.conversation(TURNS - 1))
        anew.write_bytes(project.snapshot.read_bytes())
        (lines, longest), (again, _) = numstat(before, after), numstat(anew, after)
        their_lines, their_longest = their_diff(longer, folder)
    rows.append(
        Row(
            "6 git diff of one more turn",
            f"turn {TURNS}; lines added and removed",
            vcrpy=f"{their_lines} lines, the longest {their_longest}",
            ours=f"{lines} lines, the longest {longest}; {again} with the times of {TURNS - 1} turns recorded anew",
            bound=f"about 100 lines ({DIFF_LINES}, {LONGEST})",
            holds=lines <= DIFF_LINES and longest <= LONGEST,
        )
    )
    say(f"{rows[-1].figure}: {rows[-1].ours}, vcrpy {rows[-1].vcrpy}")


def their_diff(longer, folder):
    """The same for vcrpy: its file of one call less, against the whole one."""
    whole = theirs.Theirs(folder)
    whole.record(longer)
    shorter = Path(folder, "shorter.yaml")
    text = whole.path.read_text()
    begins = [at for at, line in enumerate(text.splitlines()) if line.startswith("- request:")]
    lines = text.splitlines(keepends=True)
    tail = next(at for at, line in enumerate(lines) if line.startswith("version:"))
    shorter.write_text("".join([*lines[: begins[-1]], *lines[tail:]]))
    return numstat(shorter, whole.path)


def numstat(before, after):
    """Lines that git shows as added or removed, and the length of the longest of them."""
    words = ["git", "diff", "--no-index", "--no-color", "--unified=0", str(before), str(after)]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    changed = [line[1:] for line in shown if line[:1] in "+-" and line[:4] not in {"+++ ", "--- "}]
    return len(changed), max(map(len, changed), default=0)


def memory(rows):
    """What reading a file takes beside the file, in its sizes: one large body, and as many tiny calls as may be."""
    large, tiny = world.text("memory", 30_000_000).encode(), b'{"n": 1}'
    for what, bodies in (("one body of 30 MB", [large]), ("100,000 tiny calls", [tiny] * 100_000)):
        exchanges = tuple(
            Exchange(
                HttpCall("GET", "https://a.example/"), HttpReply(200, body=Body(body), cuts=(len(body),)), n, n + 1
            )
            for n, body in enumerate(bodies)
        )
        data = codec.dumps(Run(Header(ours.TEST), exchanges)).encode()
        tracemalloc.start()
        kept = codec.loads(data, file="snapshot")
        stays, peak = (held / len(data) for held in tracemalloc.get_traced_memory())
        tracemalloc.stop()
        del kept
        rows.append(
            Row(
                "11 memory, reading a file",
                f"{what}, {len(data) / 1e6:.0f} MB; beside the file",
                ours=f"{peak:.1f} times the file; {stays:.1f} stay",
                bound=f"{MEMORY} times",
                holds=peak < MEMORY,
            )
        )
        say(f"{what}: {rows[-1].ours}")
