"""The figures of single calls: CPU per replayed call, per replayed body, per recorded call."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import ours
import theirs
import world
from measuring import MS, Row, cpu, cpu_each, middle, say

RATIO = 1.15
ADDED_MS, ADDED_US_PER_KB = 0.12, 12
RECORDED_MS = 0.3

ROUNDS = {10: 40, 100: 12, 1000: 5, 5000: 2}
BARE_CALLS = 1000
"""The bare SDK costs the same whatever N is: of a long run, this many calls of it are measured in each round."""

SAMPLED = {10: 10, 100: 30, 1000: 9, 5000: 3}
"""vcrpy is measured on so many calls, evenly spaced; its cassette is put where it stands by then."""


def replayed(rows, counts=(10, 100, 1000, 5000)):
    """CPU per replayed call over that of the bare SDK, small calls, whole bodies compared."""
    for count in counts:
        script = world.small(count)
        with tempfile.TemporaryDirectory() as folder:
            project = ours.Project(folder)
            project.record(script)
            bare, mine, ratios = replay_rounds(project, script, ROUNDS[count])
            default = sampled(script, folder, theirs.DEFAULT, SAMPLED[count])
            by_body = sampled(script, folder, theirs.BODY, SAMPLED[count])
        ratio = middle(ratios)
        row = Row(
            "1 replayed call, small",
            f"N = {count}",
            bare=f"{bare:.3f} ms",
            vcrpy=f"x {default / bare:.1f}; by body x {by_body / bare:.1f} ({SAMPLED[count]} of {count} calls)",
            ours=f"{mine:.3f} ms, x {ratio:.3f}",
            bound=f"x {RATIO}",
            holds=ratio <= RATIO,
        )
        say(f"{row.what}: {row.bare}, {row.ours}, vcrpy {row.vcrpy}")
        rows.append(row)


def replay_rounds(project, script, rounds):
    """Bare and ours, turn by turn: median milliseconds a call of each, and the ratio of each round to its neighbours."""
    count = len(script)
    few = range(min(count, BARE_CALLS))

    def bare_round():
        script.world.rewind()
        return cpu(script.run, few)[0] / len(few)

    bare_round()
    bare, mine = [bare_round()], []
    for _ in range(rounds):
        with project.body("replay"):
            script.world.rewind()
            mine.append(cpu(script.run)[0] / count)
            assert script.world.hits == 0, "a replay that reached the world is no replay"
        bare.append(bare_round())
    ratios = [one * 2 / (before + after) for one, (before, after) in zip(mine, pairwise(bare), strict=True)]
    return middle(bare) * MS, middle(mine) * MS, ratios


def sampled(script, folder, match, calls):
    """Milliseconds a call of vcrpy: the median over `calls` calls of those of the run, none of them skipped unplayed."""
    cassette = theirs.Cassette(folder, "json")
    if not cassette.path.exists():
        cassette.record(script)
    numbers = [len(script) * (2 * n + 1) // (2 * calls) for n in range(calls)]
    readings = []
    with cassette.use(match, "none") as stored:
        script.ask(warm_up(stored))
        for n in numbers:
            theirs.played(stored, n)
            readings += cpu_each([lambda n=n: script.ask(n)])
    return sum(readings) / len(readings) * MS


def warm_up(stored):
    """The first call of a cassette, to be played once before anything is measured."""
    stored.play_counts.clear()
    return 0


def bodies(rows):
    """CPU that a replayed call adds, over large bodies."""
    scripts = {
        "conversation of 200 turns": (world.conversation(200), 4),
        "one 100 kB string": (world.documents(12), 5),
        "an image, 150 kB of base64": (world.images(12), 5),
    }
    for name, (script, rounds) in scripts.items():
        with tempfile.TemporaryDirectory() as folder:
            project = ours.Project(folder)
            project.record(script)
            bare, mine = bodies_rounds(project, script, rounds)
        added = [one - other for one, other in zip(mine, bare, strict=True)]
        for what, numbers in parts(name, script):
            rows.append(body_row(what, numbers, script, bare, added))
            say(f"{what}: bare {rows[-1].bare}, {rows[-1].ours} added, bound {rows[-1].bound}")


def parts(name, script):
    """The calls of one row each: of a conversation all of them, and its last tenth, whose bodies are the largest."""
    yield name, range(len(script))
    if len(script) > 100:
        yield f"its last {len(script) // 10} turns", range(len(script) * 9 // 10, len(script))


def bodies_rounds(project, script, rounds):
    """Nanoseconds of each call, bare and ours, as medians over rounds that take turns."""
    script.run_bare = script.asks()
    bare, mine = [], []
    for _ in range(rounds):
        script.world.rewind()
        bare.append(cpu_each(script.run_bare))
        with project.body("replay"):
            mine.append(cpu_each(script.run_bare))
    return [list(map(middle, zip(*readings, strict=True))) for readings in (bare, mine)]


def body_row(what, numbers, script, bare, added):
    """The mean over `numbers` of what was added, beside the mean of what may be."""
    size = sum(script.body(n) for n in numbers) / len(numbers) / 1000
    mean = sum(added[n] for n in numbers) / len(numbers) * MS
    allowed = ADDED_MS + ADDED_US_PER_KB * size / 1000
    return Row(
        "2 replayed call, large, added",
        f"{what} (mean body {size:.0f} kB)",
        bare=f"{sum(bare[n] for n in numbers) / len(numbers) * MS:.2f} ms",
        vcrpy="by body: figure 1",
        ours=f"+{mean:.2f} ms",
        bound=f"+{allowed:.2f} ms",
        holds=mean <= allowed,
    )


def recorded(rows, count=200, rounds=7):
    """CPU that a recorded call adds, small calls; beside it the share of each call in opening, sealing and saving."""
    script = world.small(count)
    bare, mine, saved, vcr_calls, vcr_saved = [], [], [], [], []
    script.run(range(50))
    for _ in range(rounds):
        script.world.rewind()
        bare.append(cpu(script.run)[0] / count)
        with tempfile.TemporaryDirectory() as folder:
            calls, whole = recorded_once(ours.Project(folder).body("record"), script)
            mine.append(calls)
            saved.append(whole)
            calls, whole = recorded_once(theirs.Cassette(folder).use(theirs.DEFAULT, "all"), script)
            vcr_calls.append(calls)
            vcr_saved.append(whole)
    floor = middle(bare) * MS
    added, theirs_added = middle(mine) * MS - floor, middle(vcr_calls) * MS - floor
    rows.append(
        Row(
            "3 recorded call, small, added",
            f"N = {count}; in brackets: to open, seal and save, per call",
            bare=f"{floor:.3f} ms",
            vcrpy=f"+{theirs_added:.2f} ms (+{middle(vcr_saved) * MS:.2f})",
            ours=f"+{added:.2f} ms (+{middle(saved) * MS:.2f})",
            bound=f"+{RECORDED_MS} ms",
            holds=added <= RECORDED_MS,
        )
    )
    say(f"recorded: bare {rows[-1].bare}, {rows[-1].ours}, vcrpy {rows[-1].vcrpy}")


def recorded_once(recording, script):
    """Nanoseconds a call of the calls, and of everything around them."""
    script.world.rewind()

    def whole():
        with recording:
            return cpu(script.run)[0]

    everything, calls = cpu(whole)
    return calls / len(script), (everything - calls) / len(script)
