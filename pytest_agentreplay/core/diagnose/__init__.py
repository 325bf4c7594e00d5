"""What a replayed run did instead: a call that is not recorded, one that came too early, ones that never came.

Rules of this module:
- Pure and asked once, at the first miss, so it may read the whole run.
- The new call is held against what the recording has next in its lane; inner exchanges of a tool never count.
- What is said about the cause is likely, not certain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.diagnose.missing_calls import stopped, unused
from pytest_agentreplay.core.diagnose.replay_progress import ReplayProgress, arguments_cause, line, lines
from pytest_agentreplay.core.diff.texts import apart, excerpt, hunk
from pytest_agentreplay.core.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.core.matching.address import authority
from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.core.turns import seat

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_agentreplay.core.diagnose.classify import ContentChange
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call, Exchange, Run
    from pytest_agentreplay.core.reading import Reader

__all__ = ["elsewhere", "miss", "one_strand", "order", "stalled", "stopped", "unanswered", "unused"]

SHORT = 50  # characters of a call in a sentence
AHEAD = 3  # recorded model calls that a new one is held against, to see that one was left out


def miss(
    run: Run,
    reader: Reader,
    served: Collection[int],
    call: Call,
    lane: str,
    *,
    agent: str = "",
    matching: Matching | None = None,
) -> Divergence:
    """Why `call`, made in `lane` by `agent`, has no recorded counterpart.

    `served` holds the `start` of each exchange that was answered. With `matching`, places that are not compared do
    not count as differences.
    """
    standing = ReplayProgress(run, reader, served, matching)
    divergence = _explain_miss(standing, call, standing.lane_of(lane, agent))
    recorded = divergence.recorded.agent if divergence.recorded is not None else ""
    if agent and recorded and agent != recorded:
        divergence = replace(
            divergence, detail=(*divergence.detail, f"{agent} makes this call; the recording has {recorded} here")
        )
    return divergence


def _explain_miss(standing: ReplayProgress, call: Call, here: str) -> Divergence:
    pending = standing.pending(here)
    if (twin := standing.answered_before(call, here)) is not None:
        return _explain_repeat(standing, call, twin, here)
    if standing.tool(call) is not None:
        return _tool(standing, call, here, pending)
    return _request(standing, call, here, pending)


def order(
    run: Run,
    reader: Reader,
    served: Collection[int],
    call: Call,
    match: Exchange,
    *,
    came: Exchange | None = None,
    left_out: bool = False,
) -> Divergence:
    """Why `call`, recorded as `match`, comes too early: calls that had ended before it began were not made.

    Which of them `came` after it, or that they are `left_out`, is known where the run went on; else it is a guess.
    """
    standing = ReplayProgress(run, reader, served)
    early = [x for x in standing.unserved() if not x.abandoned and x.made is not None and x.made < match.start]
    here = [x for x in early if standing.lane(x) == standing.lane(match)]
    skipped = came or (here or early or [match])[0]
    likely = here and standing.is_model(match) and skipped is not match
    if left_out or (likely and came is None):
        sides = (Difference("call", *lines(standing, skipped.call, call)),)
        others = tuple(x for x in here if x is not skipped)
        divergence = _missing(standing, skipped, others, sides, call)
    else:
        divergence = _order(standing, call, match, skipped)
    return replace(divergence, went_on=left_out or came is not None)


def one_strand(run: Run, reader: Reader, exchanges: Collection[Exchange]) -> bool:
    """Whether people are told all of `exchanges` in one lane."""
    standing = ReplayProgress(run, reader, ())
    return len({standing.lane(x) for x in exchanges}) == 1


def elsewhere(
    run: Run,
    reader: Reader,
    served: Collection[int],
    call: Call,
    match: Exchange,
    *,
    meant: str | None,
    instead: str | None,
) -> Divergence:
    """Why `call` is not `match`: it goes to another local service.

    `meant` is the recorded service that the one it goes to stands for, `instead` the one that it would have to go to,
    where that is known.
    """
    standing = ReplayProgress(run, reader, served)
    now, recorded = authority(call), authority(match.call)
    rule = "local services are told apart by the order in which they were first called"
    if instead and now == recorded:
        summary = f"{standing.name(call)} goes to {now}, and the calls before it went to {instead} instead"
        cause = f"{rule}: {instead} stands for the recorded {recorded}, which has one address in a run"
    else:
        summary = f"{standing.name(call)} goes to {now}, and is recorded at {recorded}, which is another service"
        of_now = f"the recorded {meant}" if meant != now else "itself, as when recorded"
        cause = f"{rule}: {now} stands for {of_now}" + (f"; {instead} stands for {recorded}" if instead else "")
    return standing.divergence(
        Kind.REQUEST,
        summary,
        match,
        recorded=match,
        now=call,
        differences=(Difference("url", match.call.url, call.url),)
        if not isinstance(call, ToolCall) and not isinstance(match.call, ToolCall)
        else (),
        cause=cause,
    )


def another_token(
    run: Run, reader: Reader, served: Collection[int], call: Call, match: Exchange, *, other: str
) -> Divergence:
    """Why `call` is not `match`, which it is but for its credential: `other` says where and which."""
    standing = ReplayProgress(run, reader, served)
    where, _, sides = other.partition(": ")
    changed = [
        difference
        for difference in standing.differences(match.call, call)
        if difference.note and difference.note in sides
    ]
    path = changed[0].path if changed and where == "body" else where
    old, _, new = sides.removesuffix(" now (another token)").partition(" recorded, ")
    return standing.divergence(
        Kind.REQUEST,
        f"{standing.name(call)}: {path}: {sides}",
        match,
        recorded=match,
        now=call,
        differences=(Difference(path, old, new),),
        cause="your code sends another of this run's tokens here: that of another user, or of another service",
    )


def stalled(
    run: Run, reader: Reader, served: Collection[int], call: Call, *, found: Exchange, expected: Exchange
) -> Divergence:
    """Why `call`, recorded as `found`, is not answered: `expected` was answered before, and nothing brings it now.

    Or it is asked for too, and `call` had come only after its answer.
    """
    standing = ReplayProgress(run, reader, served)
    if expected.finish is not None and expected.finish < found.start:
        return _order(standing, call, found, expected)
    mine, theirs = _name_both(standing, call, expected.call)
    at = found
    if expected.start in served:
        what = f"nobody takes the answer of {theirs}, which came before that of {mine}"
        now = "nothing that still runs takes the recorded answer: what asked for it is gone, or waits for this call"
    else:
        what = f"{theirs} is not called, but was answered before {mine}"
        at = expected if standing.lane(expected) != standing.lane(found) else found
        now = (
            "your code makes the recorded call only after this one was answered (a gather that became a sequence, a "
            "smaller limit, fewer workers, a lock), or not at all"
        )
    lanes = (f"recorded in lane {expected.lane}, what waits for it in lane {found.lane}",)
    return standing.divergence(
        Kind.ORDER,
        what,
        at,
        recorded=expected,
        now=call,
        differences=(Difference("call", *lines(standing, expected.call, call)),),
        cause=f"both were under way at once when recorded; now {now}",
        hints=('if the order does not matter here: @pytest.mark.agentreplay(order="loose")',),
        detail=lanes if expected.lane != found.lane else (),
    )


def unanswered(run: Run, reader: Reader, served: Collection[int], call: Call, match: Exchange) -> Divergence:
    """Why nothing comes of `call`, recorded as `match`: it was given up, or the run ended before its answer came."""
    standing = ReplayProgress(run, reader, served)
    name = standing.name(call)
    if match.outcome is None:
        what, cause = "had no answer when the recorded run ended", "the recorded run ended while it was under way"
    else:
        what, cause = "was given up when recorded", "your code gave it up when recorded (a timeout, a cancelled task)"
    return standing.divergence(
        Kind.EXTRA,
        f"{name} is waited for; it {what}",
        match,
        recorded=match,
        now=call,
        differences=(
            Difference("call", f"{line(match.call, reader)}, not answered", f"{line(call, reader)}, awaited"),
        ),
        cause=f"{cause}, so there is no answer to give; now all that is left of your code waits for it",
    )


def _order(standing: ReplayProgress, call: Call, match: Exchange, skipped: Exchange) -> Divergence:
    mine, theirs = _name_both(standing, call, skipped.call)
    sides = (Difference("call", *lines(standing, skipped.call, call)),)
    turn, was = standing.turn(match), standing.turn(skipped)
    same = "the same turn" if turn == was else was
    divergence = standing.divergence(
        Kind.ORDER,
        f"{mine} came before {theirs}, which is recorded first",
        match,
        recorded=skipped,
        now=call,
        differences=sides,
        cause=f"the recording has {theirs} (in {same}) answered before this call began; "
        "your code now makes them the other way round, or at once",
    )
    if standing.lane(skipped) != standing.lane(match):
        return divergence
    return replace(divergence, agreed=max(0, seat(standing.turns, skipped).turn.number - 1))


def _name_both(standing: ReplayProgress, call: Call, other: Call) -> tuple[str, str]:
    """Two calls as reports show them; with what they ask for where their names alone are the same."""
    names = standing.name(call), standing.name(other)
    if names[0] != names[1]:
        return names
    theirs, mine = lines(standing, other, call)
    if max(len(mine), len(theirs)) <= SHORT:
        return apart(mine, theirs, SHORT)
    _, old, new = hunk(mine, theirs)
    if all(0 < len(side.strip()) <= SHORT for side in (old, new)):
        old, new = (f"...{side}..." for side in apart(old, new))
    else:
        old, new = excerpt(mine.removeprefix(f"{names[0]}, "), theirs.removeprefix(f"{names[1]}, "), SHORT)
    return f"{names[0]} ({old})", f"{names[1]} ({new})"


def _explain_repeat(standing: ReplayProgress, call: Call, twin: Exchange, lane: str) -> Divergence:
    """A call whose twin was answered already, and is recorded no second time."""
    return standing.divergence(
        Kind.EXTRA,
        f"{standing.name(call)} called once more than recorded",
        standing.last(lane) or twin,
        recorded=twin,
        now=call,
        differences=(Difference("call", ABSENT, line(call, standing.reader)),),
        cause=f"the very same call was answered in {standing.turn(twin)} already: your code repeats it "
        "(a retry, a loop, a second reader of one result)",
    )


def _extra(standing: ReplayProgress, call: Call, lane: str, pending: list[Exchange], cause: str) -> Divergence:
    following = pending[0] if pending else None
    where = standing.last(lane) or following
    sides = lines(standing, following.call, call) if following else (ABSENT, line(call, standing.reader))
    return standing.divergence(
        Kind.EXTRA,
        f"{standing.name(call)} called, which is not recorded here"
        if following
        else f"one call more than recorded, {standing.name(call)}",
        where,
        lane=lane,
        recorded=following,
        now=call,
        differences=(Difference("call", *sides),),
        cause=cause,
    )


def _missing(
    standing: ReplayProgress,
    skipped: Exchange,
    others: tuple[Exchange, ...],
    differences: tuple[Difference, ...],
    call: Call,
) -> Divergence:
    name, mine = _name_both(standing, skipped.call, call)
    return standing.divergence(
        Kind.MISSING,
        f"{name} was not called before {mine}",
        skipped,
        recorded=skipped,
        now=call,
        differences=differences,
        cause=f"the recording calls {name} here; your code went on without it",
        detail=tuple(f"not called either: {standing.turn(x)}, {standing.name(x.call)}" for x in others),
    )


def _tool(standing: ReplayProgress, call: Call, lane: str, pending: list[Exchange]) -> Divergence:
    """A tool call with no counterpart: other arguments, another tool, or one too many."""
    turn: list[Exchange] = []
    for x in pending:
        if standing.is_model(x) and not x.abandoned:
            break
        if standing.tool(x.call) is not None:
            turn.append(x)
    same = [x for x in turn if standing.name(x.call) == standing.name(call)]
    if same:
        target = min(same, key=lambda x: len(standing.differences(x.call, call)))
        change = standing.change(target, call)
        cause = change.cause or arguments_cause(standing, target, call)
        return _explain_change(standing, change, target, call, cause)
    if turn:
        names = [use.name for use in standing.tool_uses_of(turn[0])]
        cause = "your code chose another tool than it did when recorded"
        if standing.name(turn[0].call).removeprefix("tool ") in names:
            cause = (
                f"the model asked for {', '.join(names)}, and its reply is the recorded one: "
                "your code maps it to another tool"
            )
        return standing.divergence(
            Kind.TOOL,
            f"{standing.name(call)} called instead of {standing.name(turn[0].call)}",
            turn[0],
            recorded=turn[0],
            now=call,
            differences=(Difference("call", *lines(standing, turn[0].call, call)),),
            cause=cause,
        )
    cause = "the model's reply is the recorded one, so your code makes this call by itself"
    return _extra(standing, call, lane, pending, cause)


def _request(standing: ReplayProgress, call: Call, lane: str, pending: list[Exchange]) -> Divergence:
    """A request with no counterpart."""
    alike = [x for x in pending if standing.alike(x.call, call) and standing.tool(x.call) is None]
    targets = [x for x in alike if not x.abandoned] or alike
    ahead = [x for x in targets[:AHEAD] if not standing.foreign(call, x, lane)]
    if not ahead:
        cause = "the recorded conversation does not hold it: a new helper call, a retry, or one more round of the loop"
        return _extra(standing, call, lane, pending, cause)
    if not standing.speaks(call):
        return _explain_change(standing, standing.change(ahead[0], call), ahead[0], call)
    target = standing.nearest(ahead, call)
    change = standing.change(target, call)
    skipped = [
        x for x in pending if x is not target and not x.abandoned and x.made is not None and x.made < target.start
    ]
    if skipped:
        return _missing(standing, skipped[0], (*skipped[1:],), change.differences, call)
    return _explain_change(standing, change, target, call)


def _explain_change(
    standing: ReplayProgress, change: ContentChange, target: Exchange, call: Call, cause: str = ""
) -> Divergence:
    follows_model = cause.startswith("the model asked")
    source = "" if follows_model else standing.source(change, target)
    return standing.divergence(
        change.kind,
        change.what,
        target,
        recorded=target,
        now=call,
        differences=change.differences,
        cause=cause or change.cause,
        hints=change.hints,
        detail=(source,) if source else (),
    )
