"""The figures of single calls: CPU per replayed call, per replayed body, per recorded call."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import ours
import theirs
import world
from measuring import MS, Row, cpu, cpu_each, mean, middle, say

RATIO = 1.15
ADDED_MS, ADDED_US_PER_KB = 0.12, 12
RECORDED_MS = 0.3

ROUNDS = {10: 60, 100: 20, 1000: 6, 5000: 2}
BARE_CALLS = 1000
"""The bare SDK costs the same whatever N is: of a long run, this many calls of it are measured in each round."""

SAMPLED = {10: 10, 100: 30, 1000: 9, 5000: 3}
"""vcrpy is measured on so many calls, evenly spaced; its file is put where it stands by then."""


def replayed(rows, counts=(10, 100, 1000, 5000)):
    """CPU per replayed call over that of the bare SDK, small calls, whole bodies compared."""
    for count in counts:
        script = world.small(count)
        with tempfile.TemporaryDirectory() as folder:
            project, other = ours.Project(folder), theirs.Theirs(folder, "json")
            project.record(script)
            other.record(script)
            bare, mine, around, ratio = replay_rounds(project, script, ROUNDS[count])
            default, by_body = (
                mean(other.sampled(script, match, spread(count, SAMPLED[count]))) * MS / bare
                for match in (theirs.DEFAULT, theirs.BODY)
            )
        row = Row(
            "1 replayed call, small",
            f"N = {count}; in brackets: load and end of the test, per call",
            bare=f"{bare:.3f} ms",
            vcrpy=f"x {default:.1f}, by body x {by_body:.1f} ({SAMPLED[count]} of {count} calls)",
            ours=f"x {ratio:.3f}: {mine:.3f} ms (+{around:.3f})",
            bound=f"x {RATIO}",
            holds=ratio <= RATIO,
        )
        say(f"{row.what}: bare {row.bare}, {row.ours}, vcrpy {row.vcrpy}")
        rows.append(row)


def spread(count, samples):
    """`samples` numbers of calls, evenly spaced over `count`."""
    return [count * (2 * n + 1) // (2 * samples) for n in range(samples)]


def replay_rounds(project, script, rounds):
    """Bare and ours in turn: median milliseconds a call of bare, ours and what is around ours, and their ratio.

    The ratio is the median over the rounds, each of ours against the bare ones before and after it.
    """
    count = len(script)
    few = range(min(count, BARE_CALLS))

    def bare_round():
        script.world.rewind()
        return cpu(script.run, few)[0] / len(few)

    def replay_round():
        script.world.rewind()
        whole, inside = cpu(within, project.body("replay"), script)
        assert script.world.hits == 0, "a replay that reached the world is no replay"
        return inside / count, (whole - inside) / count

    bare_round()
    bare, mine = [bare_round()], []
    for _ in range(rounds):
        mine.append(replay_round())
        bare.append(bare_round())
    ratios = [2 * one / (before + after) for (one, _), (before, after) in zip(mine, pairwise(bare), strict=True)]
    inside, around = zip(*mine, strict=True)
    return middle(bare) * MS, middle(inside) * MS, middle(around) * MS, middle(ratios)


def within(context, script):
    """CPU nanoseconds of all calls of `script`, made in `context`."""
    with context:
        return cpu(script.run, collect=False)[0]


def bodies(rows):
    """CPU that a replayed call adds, over large bodies, the end of the test included."""
    scripts = {
        "conversation of 200 turns": (world.conversation(200), 4, 2),
        "one 100 kB string": (world.documents(12), 7, 4),
        "an image, 150 kB of base64": (world.images(12), 7, 4),
    }
    for name, (script, rounds, samples) in scripts.items():
        with tempfile.TemporaryDirectory() as folder:
            project, other = ours.Project(folder), theirs.Theirs(folder, "json")
            project.record(script)
            other.record(script)
            bare, added = added_rounds(project, script, rounds)
            numbers = spread(len(script), samples)
            slow = [one - bare[n] for one, n in zip(other.sampled(script, theirs.BODY, numbers), numbers, strict=True)]
            rows.append(body_row(name, range(len(script)), script, bare, added))
            put(rows, vcrpy=f"by body +{mean(slow) * MS:.1f} ms ({samples} calls)")
            if len(script) > 100:
                last = range(len(script) * 9 // 10, len(script))
                rows.append(body_row(f"its last {len(last)} turns", last, script, bare, added))
                slow = other.sampled(script, theirs.BODY, [last[len(last) // 2]])[0] - bare[last[len(last) // 2]]
                put(rows, vcrpy=f"by body +{slow * MS:.1f} ms (1 call)")
            script.salt = "recorded"
            project.record(script)
            bare, added = added_rounds(project, script, max(2, rounds // 3))
            rows.append(
                body_row(f"{name}, a field that is not compared differs", range(len(script)), script, bare, added)
            )
            put(rows, bound="", holds=None)
        for row in rows[-2:]:
            say(f"{row.what}: bare {row.bare}, ours {row.ours}, bound {row.bound}, vcrpy {row.vcrpy}")


def put(rows, **changes):
    """Change the last row."""
    rows[-1] = rows[-1].but(**changes)


def added_rounds(project, script, rounds):
    """Nanoseconds of each bare call, and what ours adds to it: medians over rounds that take turns.

    What the end of a test costs is shared out among its calls. A salted script says something new in each round.
    """
    asks = script.asks()
    bare, mine, ends = [], [], []
    for number in range(rounds):
        script.salt = script.salt and f"round {number}"
        script.world.rewind()
        bare.append(cpu_each(asks))
        with project.body("replay") as run_session:
            mine.append(cpu_each(asks))
            ends.append(cpu(ours.end, run_session)[0])
    share = middle(ends) / len(asks)
    bare, mine = (list(map(middle, zip(*readings, strict=True))) for readings in (bare, mine))
    return bare, [one - other + share for one, other in zip(mine, bare, strict=True)]


def body_row(what, numbers, script, bare, added):
    """The mean over `numbers` of what was added, beside the mean of what may be."""
    size = mean([script.body(n) for n in numbers]) / 1000
    took = mean([added[n] for n in numbers]) * MS
    allowed = ADDED_MS + ADDED_US_PER_KB * size / 1000
    return Row(
        "2 replayed call, large, added",
        f"{what} (mean body {size:.0f} kB)",
        bare=f"{mean([bare[n] for n in numbers]) * MS:.2f} ms",
        ours=f"{took:+.2f} ms",
        bound=f"+{allowed:.2f} ms",
        holds=took <= allowed,
    )


def recorded(rows, count=200, rounds=9):
    """CPU that a recorded call adds, small calls; beside it the share of each call in opening, sealing and saving."""
    script = world.small(count)
    bare, mine, other = [], [], []
    script.run(range(50))
    for _ in range(rounds):
        script.world.rewind()
        bare.append(cpu(script.run)[0] / count)
        for recording, readings in ((ours.Project, mine), (theirs.Theirs, other)):
            with tempfile.TemporaryDirectory() as folder:
                script.world.rewind()
                whole, inside = cpu(within, recording(folder).recording(), script)
                readings.append((inside / count, (whole - inside) / count))
    floor = middle(bare) * MS
    (added, around), (their_added, their_around) = (
        (middle(inside) * MS - floor, middle(whole) * MS)
        for inside, whole in (zip(*readings, strict=True) for readings in (mine, other))
    )
    rows.append(
        Row(
            "3 recorded call, small, added",
            f"N = {count}; in brackets: to open, seal and save, per call",
            bare=f"{floor:.3f} ms",
            vcrpy=f"+{their_added:.2f} ms (+{their_around:.2f})",
            ours=f"+{added:.2f} ms (+{around:.2f})",
            bound=f"+{RECORDED_MS} ms",
            holds=added <= RECORDED_MS,
        )
    )
    say(f"recorded: bare {rows[-1].bare}, {rows[-1].ours}, vcrpy {rows[-1].vcrpy}")
