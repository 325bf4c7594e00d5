"""What a replayed run did instead: a call that is not recorded, one that came too early, ones that never came.

Rules of this module:
- Pure and asked once, at the first miss, so it may read the whole run.
- The new call is held against what the recording has next in its lane; inner exchanges of a tool never count.
- What is said about the cause is likely, not certain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.missing import explain_missing, explain_stop, find_advice
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress, explain_arguments
from pytest_agentreplay.compare.diff.texts import excerpt, hunk, shorten_pair
from pytest_agentreplay.compare.matching.address import authority
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, ToolCall
from pytest_agentreplay.model.turns import seat

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_agentreplay.compare.diagnose.classify import ContentChange

__all__ = [
    "explain_miss",
    "explain_missing",
    "explain_order",
    "explain_service",
    "explain_stall",
    "explain_stop",
    "explain_token",
    "explain_unanswered",
    "is_one_lane",
]

SHORT = 50  # characters of a call in a sentence
_LOOSE = 'if the order does not matter here: @pytest.mark.agentreplay(order="loose")'
_SERVER = "if it goes to a server that the test starts, let it through, and record again"
AHEAD = 3  # recorded model calls that a new one is held against, to see that one was left out


def explain_miss(progress: ReplayProgress, call: Call, lane: str, *, agent: str = "") -> Divergence:
    """Return why `call`, made in `lane` by `agent`, has no recorded counterpart.

    Places that the `matching` of `progress` does not compare are no differences.
    """
    divergence = _explain_miss(progress, call, progress.find_lane(lane, agent))
    recorded = divergence.recorded.agent if divergence.recorded is not None else ""
    # A lane may hold calls of several agents, so the lane alone does not say that another one calls.
    if agent and recorded and agent != recorded:
        divergence = replace(
            divergence, detail=(*divergence.detail, f"{agent} makes this call; the recording has {recorded} here")
        )
    return divergence


def _explain_miss(progress: ReplayProgress, call: Call, here: str) -> Divergence:
    pending = progress.list_pending(here)
    # First of all: a repeated call is equal to one that was served, and would look like a change of the next one due.
    if (twin := progress.find_answered(call, here)) is not None:
        return _explain_repeat(progress, call, twin, here)
    if progress.find_tool(call) is not None:
        return _explain_tool(progress, call, here, pending)
    if advice := find_advice(*(getattr(made, "url", "") for made in (call, *(x.call for x in progress.run.exchanges)))):
        cause = f"{progress.name(call)} asks this machine for credentials: the recorded run had them from elsewhere"
        extra = _explain_extra(progress, call, here, pending, cause)
        return replace(extra, kind=Kind.CREDENTIALS, summary=f"no credentials here: {advice}")
    return _explain_request(progress, call, here, pending)


def explain_order(
    progress: ReplayProgress, call: Call, match: Exchange, *, came: Exchange | None = None, left_out: bool = False
) -> Divergence:
    """Why `call`, recorded as `match`, comes too early: calls that had ended before it began were not made.

    Which of them `came` after it, or that they are `left_out`, is known where the run went on; else it is a guess.
    """
    # What was given up when recorded need not come again, so nothing waits for it.
    early = [x for x in progress.find_unserved() if not x.abandoned and x.made is not None and x.made < match.start]
    here = [x for x in early if progress.name_lane(x) == progress.name_lane(match)]
    skipped = came or (here or early or [match])[0]
    # A model call that is recorded later in this lane says that one was left out; any other may have changed places.
    likely = here and progress.is_model_call(match.call) and skipped is not match
    if left_out or (likely and came is None):
        divergence = _explain_left_out(progress, skipped, [x for x in here if x is not skipped], call)
    else:
        divergence = _explain_swap(progress, call, match, skipped)
    return replace(divergence, went_on=left_out or came is not None)


def is_one_lane(progress: ReplayProgress, exchanges: Collection[Exchange]) -> bool:
    """Return whether reports show all of `exchanges` in one lane."""
    return len({progress.name_lane(x) for x in exchanges}) == 1


def explain_service(
    progress: ReplayProgress, call: Call, match: Exchange, *, meant: str | None, instead: str | None
) -> Divergence:
    """Why `call` is not `match`: it goes to another local service.

    `meant` is the recorded service that the one it goes to stands for, `instead` the one that it would have to go to,
    where that is known.
    """
    now, recorded = authority(call), authority(match.call)
    rule = "local services are told apart by the order in which they were first called"
    if instead and now == recorded:
        summary = f"{progress.name(call)} goes to {now}, and the calls before it went to {instead} instead"
        cause = f"{rule}: {instead} stands for the recorded {recorded}, which has one address in a run"
    else:
        summary = f"{progress.name(call)} goes to {now}, and is recorded at {recorded}, which is another service"
        of_now = f"the recorded {meant}" if meant != now else "itself, as when recorded"
        cause = f"{rule}: {now} stands for {of_now}" + (f"; {instead} stands for {recorded}" if instead else "")
    urls: tuple[Difference, ...] = ()
    if not isinstance(call, ToolCall) and not isinstance(match.call, ToolCall):
        urls = (Difference("url", match.call.url, call.url),)
    return progress.make_divergence(Kind.REQUEST, summary, match, call, urls, cause=cause)


def explain_token(progress: ReplayProgress, call: Call, match: Exchange, *, other: str) -> Divergence:
    """Why `call` is not `match`, which it is but for its credential: `other` says where and which."""
    # As `Tokens.find_swap` writes it: the place, what was sent there when recorded, and what is sent now.
    where, _, sides = other.partition(": ")
    changed = [each for each in progress.compare(match.call, call) if each.note and each.note in sides]
    path = changed[0].path if changed and where == "body" else where
    old, _, new = sides.removesuffix(" now (another token)").partition(" recorded, ")
    cause = "your code sends another of this run's tokens here: that of another user, or of another service"
    summary = f"{progress.name(call)}: {path}: {sides}"
    return progress.make_divergence(Kind.REQUEST, summary, match, call, (Difference(path, old, new),), cause=cause)


def explain_stall(
    progress: ReplayProgress, call: Call, match: Exchange, expected: Exchange, *, came: bool | None = None
) -> Divergence:
    """Why `call`, recorded as `match`, is not answered: `expected` was answered before, and nothing brings it now.

    It `came` later, or never, or nobody knows (None); or it is asked for too, and `call` had come after its answer.
    """
    if expected.finish is not None and expected.finish < match.start:
        return _explain_swap(progress, call, match, expected)
    mine, theirs = _name_both(progress, call, expected.call)
    at, is_of_model = match, progress.is_model_call(match.call) or progress.is_model_call(expected.call)
    hints: tuple[str, ...] = () if is_of_model else (_LOOSE,)
    if expected.start in progress.served:
        what = f"nobody takes the answer of {theirs}, which came before that of {mine}"
        now = "nothing that still runs takes the recorded answer: what asked for it is gone, or waits for this call"
    else:
        what = f"{theirs} is not called, but was answered before {mine}"
        at = expected if came is False or progress.name_lane(expected) != progress.name_lane(match) else match
        now = (
            "your code makes the recorded call only after this one was answered (a gather that became a sequence, a "
            f"smaller limit, fewer workers, a lock){'' if came else ', or not at all'}"
        )
    if came is False:
        now, server = "your code goes on without the first", authority(call) or ""
        is_local = server and not progress.is_model_call(match.call) and match.start < expected.start
        hints = (f"{_SERVER}: agentreplay_allow = host:{server.rpartition(':')[0]}",) if is_local else ()
    lanes = (f"recorded in lane {expected.lane}, what waits for it in lane {match.lane}",)
    return progress.make_divergence(
        Kind.MISSING if came is False else Kind.ORDER,
        what,
        expected,
        call,
        at=at,
        hints=hints,
        cause=f"both were under way at once when recorded; now {now}",
        detail=lanes if expected.lane != match.lane else (),
    )


def explain_unanswered(progress: ReplayProgress, call: Call, match: Exchange) -> Divergence:
    """Why nothing comes of `call`, recorded as `match`: it was given up, or the run ended before its answer came."""
    name = progress.name(call)
    if match.outcome is None:
        what, cause = "had no answer when the recorded run ended", "the recorded run ended while it was under way"
    else:
        what, cause = "was given up when recorded", "your code gave it up when recorded (a timeout, a cancelled task)"
    sides = f"{progress.format_call(match.call)}, not answered", f"{progress.format_call(call)}, awaited"
    cause = f"{cause}, so there is no answer to give; now all that is left of your code waits for it"
    summary = f"{name} is waited for; it {what}"
    return progress.make_divergence(Kind.EXTRA, summary, match, call, (Difference("call", *sides),), cause=cause)


def _explain_swap(progress: ReplayProgress, call: Call, match: Exchange, skipped: Exchange) -> Divergence:
    mine, theirs = _name_both(progress, call, skipped.call)
    turn = progress.name_turn(skipped)
    where = "the same turn" if turn == progress.name_turn(match) else turn
    cause = (
        f"the recording has {theirs} (in {where}) answered before this call began; "
        "your code now makes them the other way round, or at once"
    )
    summary = f"{mine} came before {theirs}, which is recorded first"
    divergence = progress.make_divergence(Kind.ORDER, summary, skipped, call, cause=cause, at=match)
    # Within one lane the turns before the skipped call agree, and none after it.
    if progress.name_lane(skipped) != progress.name_lane(match):
        return divergence
    return replace(divergence, agreed=max(0, seat(progress.turns, skipped).turn.number - 1))


def _name_both(progress: ReplayProgress, call: Call, other: Call) -> tuple[str, str]:
    """Two calls as reports show them; with what they ask for where their names alone are the same."""
    names = progress.name(call), progress.name(other)
    if names[0] != names[1]:
        return names
    theirs, mine = progress.format_calls(other, call)
    if max(len(mine), len(theirs)) <= SHORT:
        return shorten_pair(mine, theirs, SHORT)
    _, old, new = hunk(mine, theirs)
    if all(0 < len(side.strip()) <= SHORT for side in (old, new)):
        old, new = (f"...{side}..." for side in shorten_pair(old, new))
    else:
        old, new = excerpt(mine.removeprefix(f"{names[0]}, "), theirs.removeprefix(f"{names[1]}, "), SHORT)
    return f"{names[0]} ({old})", f"{names[1]} ({new})"


def _explain_repeat(progress: ReplayProgress, call: Call, twin: Exchange, lane: str) -> Divergence:
    """Return the divergence of a call whose twin was answered already, and is recorded no second time."""
    cause = (
        f"the very same call was answered in {progress.name_turn(twin)} already: your code repeats it "
        "(a retry, a loop, a second reader of one result)"
    )
    extra = (Difference("call", ABSENT, progress.format_call(call)),)
    summary = f"{progress.name(call)} called once more than recorded"
    return progress.make_divergence(Kind.EXTRA, summary, twin, call, extra, cause=cause, at=progress.find_last(lane))


def _explain_extra(progress: ReplayProgress, call: Call, lane: str, pending: list[Exchange], cause: str) -> Divergence:
    name, last, following = progress.name(call), progress.find_last(lane), pending[0] if pending else None
    summary = f"{name} called, which is not recorded here" if following else f"one call more than recorded, {name}"
    divergence = progress.make_divergence(Kind.EXTRA, summary, following, call, cause=cause, at=last, lane=lane)
    return divergence if last is not None else replace(divergence, turn=0)


def _explain_left_out(
    progress: ReplayProgress,
    skipped: Exchange,
    others: Collection[Exchange],
    call: Call,
    differences: tuple[Difference, ...] | None = None,
) -> Divergence:
    """Return the divergence of a call that was `skipped`, as were the `others`, before `call` was made."""
    name, mine = _name_both(progress, skipped.call, call)
    cause = f"the recording calls {name} here; your code went on without it"
    detail = tuple(f"not called either: {progress.name_turn(x)}, {progress.name(x.call)}" for x in others)
    summary = f"{name} was not called before {mine}"
    return progress.make_divergence(Kind.MISSING, summary, skipped, call, differences, cause=cause, detail=detail)


def _explain_tool(progress: ReplayProgress, call: Call, lane: str, pending: list[Exchange]) -> Divergence:
    """Return the divergence of a tool call with no counterpart: other arguments, another tool, or one too many."""
    # The tools of one turn end at the next model call: what comes later is another turn's.
    turn: list[Exchange] = []
    for x in pending:
        if progress.is_model_call(x.call) and not x.abandoned:
            break
        if progress.find_tool(x.call) is not None:
            turn.append(x)
    same = [x for x in turn if progress.name(x.call) == progress.name(call)]
    if same:
        # Of several calls of one tool the most similar one: parallel tool calls may come in any order.
        target = min(same, key=lambda x: len(progress.compare(x.call, call)))
        change = progress.explain_change(target, call)
        cause = change.cause or explain_arguments(progress, target, call)
        # What the model asked for came from its reply, whatever else has said the same.
        is_asked_for = cause.startswith("the model asked")
        return describe_change(progress, change, target, call, cause, cite=not is_asked_for)
    if not turn:
        cause = "the model's reply is the recorded one, so your code makes this call by itself"
        return _explain_extra(progress, call, lane, pending, cause)
    due, names = progress.name(turn[0].call), [use.name for use in progress.list_tool_uses(turn[0])]
    cause = "your code chose another tool than it did when recorded"
    if due.removeprefix("tool ") in names:
        request = f"the model asked for {', '.join(names)}"
        cause = f"{request}, and its reply is the recorded one: your code maps it to another tool"
    summary = f"{progress.name(call)} called instead of {due}"
    return progress.make_divergence(Kind.TOOL, summary, turn[0], call, cause=cause)


def _explain_request(progress: ReplayProgress, call: Call, lane: str, pending: list[Exchange]) -> Divergence:
    """Return the divergence of a request with no counterpart."""
    alike = [x for x in pending if progress.is_alike(x.call, call) and progress.find_tool(x.call) is None]
    # A call that was given up when recorded stands for this one only where no other does.
    targets = [x for x in alike if not x.abandoned] or alike
    ahead = [x for x in targets[:AHEAD] if not progress.is_foreign(call, x, lane)]
    target = progress.find_nearest(ahead, call) if ahead else None
    until = target.start if target is not None else 0
    skipped = [x for x in pending if x is not target and not x.abandoned and x.made is not None and x.made < until]
    asks_model = progress.is_model_call(call)
    # A plain request has no conversation by which one behind a model call could be the better match.
    if target is None or (skipped and not asks_model and progress.is_model_call(skipped[0].call)):
        cause = "the recorded conversation does not hold it: a new helper call, a retry, or one more round of the loop"
        return _explain_extra(progress, call, lane, pending, cause)
    change = progress.explain_change(target, call)
    if skipped and asks_model:
        return _explain_left_out(progress, skipped[0], skipped[1:], call, change.differences)
    return describe_change(progress, change, target, call)


def describe_change(
    progress: ReplayProgress, change: ContentChange, target: Exchange, call: Call, cause: str = "", *, cite: bool = True
) -> Divergence:
    """Return the divergence of a `call` that `change` has made of the one of `target`.

    `cause` goes before that of the change. `cite` adds the reply that the recorded value came from, where one has it.
    """
    source = progress.find_source(change, target) if cite else ""
    return progress.make_divergence(
        *(change.kind, change.what, target, call, change.differences),
        cause=cause or change.cause,
        hints=change.hints,
        detail=(source,) if source else (),
    )
