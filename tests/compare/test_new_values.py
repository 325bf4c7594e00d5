"""Which values of a captured run are taken as equal though they differ, and that nothing else is."""

from __future__ import annotations

import datetime as dt
import json
import string
import uuid
from email.utils import format_datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_agentreplay.backends.backend import Moment, Refused, Replayed
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.new_values import (
    NewValue,
    NewValues,
    RunPeriod,
    fold_ids,
    list_ids,
    mask_values,
)
from pytest_agentreplay.model.exchanges import Exchange, Failure, Header, Run, Timing, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES
from tests.support.written_runs import chat, completion

BEGAN = 1_795_862_720
"""2026-11-28T10:45:20Z, in which the runs of these tests begin; each of their calls takes a second."""
HEX = st.uuids(version=4).map(lambda drawn: drawn.hex)
ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def say(text, **fields):
    return chat([{"role": "user", "content": text}], **fields)


def captured(*calls, given=None, replies=None, lanes=(), **kit):
    """A captured run of calls, each over before the next begins unless it has a lane of its own."""
    exchanges = tuple(
        Exchange(
            call,
            (replies or {}).get(at, ToolReply("done") if isinstance(call, ToolCall) else completion("ok")),
            2 * at + 1,
            2 * at + 2,
            lanes[at] if lanes else "main",
            timing=Timing(at * 10**9, None, (at + 1) * 10**9),
        )
        for at, call in enumerate(calls)
    )
    kit = {"capture": {"id": "r", "name": "answer"}, "input": given, **kit}
    return Run(Header("answer/r", clock=BEGAN * 10**9, kit=kit), exchanges)


def replay(run, *calls, lanes=(), **expected):
    """What tells which values are new, and what a backend with it has decided on `calls` of now."""
    backend = ReplayBackend(run, Matching(READER, RULES), READER)
    backend.accept_new_values(new_values := NewValues(run, Matching(READER, RULES), READER, **expected))
    verdicts = [
        backend.decide(call, Moment(lanes[at] if lanes else "main", at * 10**9)) for at, call in enumerate(calls)
    ]
    return new_values, verdicts


def is_served(run, *calls, **expected):
    return all(isinstance(verdict, Replayed) for verdict in replay(run, *calls, **expected)[1])


def moment(seconds=0.5, zone=dt.UTC):
    return dt.datetime.fromtimestamp(BEGAN + seconds, zone)


EAST = dt.timezone(dt.timedelta(hours=2))
TIMES = {
    "a stamp of ISO": (moment(0.25).isoformat(), moment(0.75).isoformat()),
    "one of a zone": (moment(0.25, EAST).isoformat(), moment(0.75, EAST).isoformat()),
    "one without a zone": (f"{moment(0.25):%Y-%m-%d %H:%M:%S.%f}", f"{moment(0.75):%Y-%m-%d %H:%M:%S.%f}"),
    "seconds": (str(BEGAN), str(BEGAN + 1)),
    "seconds with a fraction": (f"{BEGAN}.251", f"{BEGAN}.7312"),
    "milliseconds": (f"{BEGAN}251", f"{BEGAN}731"),
    "nanoseconds": (f"{BEGAN}251000001", f"{BEGAN}731000001"),
    "the date of HTTP": (format_datetime(moment(0), usegmt=True), format_datetime(moment(1), usegmt=True)),
    "the time of the day": (f"{moment(0):%H:%M:%S}", f"{moment(1):%H:%M:%S}"),
}
OTHER_TIMES = {
    "a day later": (moment().isoformat(), (moment() + dt.timedelta(days=1)).isoformat()),
    "an hour later": (f"{moment():%H:%M}", f"{moment() + dt.timedelta(hours=1):%H:%M}"),
    "another zone": (moment().isoformat(), moment(0.5, EAST).isoformat()),
    "another zone that is not said": (f"{moment():%Y-%m-%d %H:%M}", f"{moment(0.5, EAST):%Y-%m-%d %H:%M}"),
    "another day": ("2026-11-28", "2026-11-29"),
    "a date that was written": ("2026-08-06", "2026-11-28"),
    "a day that is none": ("2026-11-28", "2026-11-31"),
    "another form": (moment(0.25).isoformat(), f"{moment(0.25):%Y-%m-%d %H:%M:%S.%f}"),
    "the next minute": (f"{moment():%H:%M}", f"{moment(60):%H:%M}"),
    "a number of an order": (str(BEGAN), "1234567890"),
}


@pytest.mark.parametrize("what", TIMES)
def test_times_of_the_run_stand_for_one_another(what):
    old, new = TIMES[what]
    run = captured(say(f"It is\n{old}."), say("then"))
    new_values, verdicts = replay(run, say(f"It is\n{new}."))
    assert isinstance(verdicts[0], Replayed)
    (((path, kind), count),) = new_values.taken.items()
    assert (path, count) == ("$.messages[0].content", 1)
    assert kind in {"time", "epoch", "stamp", "clock"}


@pytest.mark.parametrize("what", OTHER_TIMES)
def test_other_times_differ(what):
    old, new = OTHER_TIMES[what]
    assert not is_served(captured(say(f"It is {old}.")), say(f"It is {new}."))


def test_a_history_that_is_sent_again_has_the_same_times():
    old, new = TIMES["seconds"]
    run = captured(say(old), chat([{"role": "user", "content": old}, {"role": "user", "content": f"then {old}"}]))
    history = [{"role": "user", "content": new}, {"role": "user", "content": f"then {new}"}]
    assert is_served(run, say(new), chat(history))


def test_a_replay_with_the_real_clock_has_times_of_its_own_run():
    later = moment() + dt.timedelta(days=1)
    run = captured(say(f"On {moment():%Y-%m-%d}: {moment().isoformat()}"))
    now = say(f"On {later:%Y-%m-%d}: {later.isoformat()}")
    assert not is_served(run, now)
    assert is_served(run, now, began=later.timestamp())
    assert not is_served(run, now, began=later.timestamp() - 60)


def test_times_of_a_zone_are_those_of_its_day():
    night = Header("answer/r", clock=int(dt.datetime(2026, 11, 28, 23, 30, tzinfo=dt.UTC).timestamp()) * 10**9)
    for zone, old in ((3600, "2026-11-29"), (0, "2026-11-28")):
        period = RunPeriod(night.clock / 1e9, night.clock / 1e9 + 5, zone)
        assert period.list_offsets(NewValue("date", old)) == {zone}
        assert not period.list_offsets(NewValue("date", "2026-11-27"))
        assert 0 in period.list_offsets(NewValue("clock", "23:30")) or zone


@given(HEX, HEX, st.sampled_from(["{}", "req_{}", '{{"a": "{}"}}', "a\n{}", "https://a.example/{}/x"]), st.booleans())
def test_ids_that_are_new_on_both_sides_stand_for_one_another(old, new, form, dashed):
    assume(old != new)
    if dashed:
        old, new = str(uuid.UUID(old)), str(uuid.UUID(new))
    run = captured(say(form.format(old)), say("again", user=old))
    assert is_served(run, say(form.format(new)), say("again", user=new))
    assert not is_served(run, say(form.format(new)), say("again", user=uuid.uuid4().hex))
    assert not is_served(run, say(form.format(new) + " please"))
    assert not is_served(run, say(form.format(new[:-1])))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_ids_stand_for_one_another_one_to_one_over_the_run(recorded, now):
    """Whatever ids a run sends in whichever calls: another naming is served, another pattern is not."""
    now = now[: len(recorded)]
    old, new = ([uuid.uuid5(uuid.NAMESPACE_DNS, f"{side}{number}").hex for number in range(4)] for side in "ab")
    run = captured(*(say(f"call {at}", user=old[number]) for at, number in enumerate(recorded)))
    pattern = [recorded.index(number) for number in recorded] == [now.index(number) for number in now]
    assert is_served(run, *(say(f"call {at}", user=new[number]) for at, number in enumerate(now))) is pattern


def test_an_id_that_was_sent_before_as_recorded_stands_for_no_other():
    run = captured(say("one", user=ID), say("two", user=ID))
    assert not is_served(run, say("one", user=ID), say("two", user=str(uuid.uuid4())))
    run = captured(say("one", user=ID), say("two", user=str(uuid.uuid4())))
    assert not is_served(run, say("one", user=ID), say("two", user=ID))


def test_what_the_run_was_given_is_not_new():
    other = str(uuid.uuid4())
    for kit in ({"given": {"arguments": {"order": ID}}}, {"given": {"arguments": {"order": other}}}):
        assert not is_served(captured(say(f"refund {ID}"), **kit), say(f"refund {other}"))
    for text in (f"order {ID} is late", f"order {ID.replace('-', '').upper()}", other):
        run = captured(say("hello"), say(f"refund {ID}"), replies={0: completion(text)})
        assert not is_served(run, say("hello"), say(f"refund {other}"))
    run = captured(say("hello"), ToolCall("find"), say(ID), replies={1: ToolReply({"order": ID})})
    assert not is_served(run, say("hello"), ToolCall("find"), say(other))
    run = captured(say("hello"), say(f"on {BEGAN}"), replies={0: completion(f"at {BEGAN}")})
    assert not is_served(run, say("hello"), say(f"on {BEGAN + 1}"))


def test_what_comes_back_later_was_new_when_it_was_sent():
    other = str(uuid.uuid4())
    run = captured(say(f"as {ID}"), say(f"still {ID}"), replies={0: completion(f"hello {ID}")})
    assert is_served(run, say(f"as {other}"), say(f"still {other}"))
    assert is_served(run, say(f"as {other}"), say(f"still {ID}"))


def test_a_streamed_reply_is_read_as_a_whole():
    from tests.support.exchanges import SSE_TYPE, reply, sse

    pieces = [{"choices": [{"index": 0, "delta": {"content": ID[at : at + 9]}}]} for at in range(0, len(ID), 9)]
    streamed = reply(sse(*pieces), SSE_TYPE)
    run = captured(say("hello", stream=True), say(ID), replies={0: streamed})
    assert not is_served(run, say("hello", stream=True), say(str(uuid.uuid4())))


def test_a_call_without_an_answer_tells_nothing():
    run = captured(say("hello"), say(ID), replies={0: Failure("builtins.OSError", ID)})
    assert not is_served(run, say("hello"), say(str(uuid.uuid4())))
    run = captured(say("hello"), say(ID), replies={0: None})
    assert is_served(run, say("hello"), say(str(uuid.uuid4())))


def test_values_of_other_runs_of_the_entry_are_constants():
    run, changed = captured(say(f"tenant {ID}")), say(f"tenant {uuid.uuid4()}")
    assert is_served(run, changed)
    assert not is_served(run, changed, others=list_ids(Matching(READER, RULES).text(run.exchanges[0].call)))


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("model", "gpt-x-2026-11-28", "gpt-x-2026-11-29"),
        ("model", f"ft-{ID}", "ft-77ab04e0-4f89-41d3-9a0c-0305e82c33f0"),
        ("user", "commit 9f3a2c1b7d", "commit 1b7d9f3a2c"),
        ("user", "release=2026-11-28", "release=2026-11-29"),
    ],
)
def test_settings_are_never_new(field, old, new):
    assert not is_served(captured(say("hello", **{field: old})), say("hello", **{field: new}), began=BEGAN + 86_400)


def test_an_id_drawn_at_another_call_site_is_another_one():
    mine, others = str(uuid.uuid4()), str(uuid.uuid4())
    plain = [uuid.UUID(drawn).hex for drawn in (ID, mine, others)]
    run = captured(say(f"as {ID}"), uuids={"main": {"a.request": plain[:2], "a.session": plain[2:]}, "dropped": 7})
    assert is_served(run, say(f"as {mine}")), "the call site draws once more than when recorded"
    assert not is_served(run, say(f"as {others}"))


def test_the_arguments_of_tools_are_compared_the_same_way():
    run = captured(ToolCall("refund", {"key": ID, "amount": 40}), ToolCall("mail", {"key": ID}))
    other = str(uuid.uuid4())
    assert is_served(run, ToolCall("refund", {"key": other, "amount": 40}), ToolCall("mail", {"key": other}))
    assert not is_served(run, ToolCall("refund", {"key": other, "amount": 45}))
    assert not is_served(run, ToolCall("refunds", {"key": other, "amount": 40}))
    assert not is_served(run, say(other))


def test_an_earlier_call_that_is_left_out_is_found():
    _, verdicts = replay(captured(ToolCall("refund", {"amount": 4}), say(f"as {ID}")), say(f"as {uuid.uuid4()}"))
    assert isinstance(verdicts[0], Refused)
    assert verdicts[0].divergence.kind.code == "AR-MISSING"


def test_lanes_keep_their_own_calls():
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    run = captured(say(f"as {first}"), say(f"as {second}"), lanes=("main.1", "main.2"))
    new_values, verdicts = replay(run, say(f"as {uuid.uuid4()}"), say(f"as {uuid.uuid4()}"), lanes=("main.2", "main.1"))
    assert [verdict.exchange.lane for verdict in verdicts] == ["main.2", "main.1"]
    assert new_values.taken == {("$.messages[0].content", "uuid"): 2}


def test_what_another_call_was_served_with_by_place_teaches_nothing():
    """A caller may serve a call that differs: what stands in it then stands for nothing recorded."""
    run = captured(say(f"one {ID}"), say("two", user=ID))
    new_values = NewValues(run, Matching(READER, RULES), READER)
    served = {1: say("one and the other")}
    assert new_values.find(say("two", user=str(uuid.uuid4())), {"main"}, served, 0) is run.exchanges[1]


@given(st.lists(st.sampled_from(["seconds", "a stamp of ISO", "the time of the day"]), min_size=1, max_size=20))
def test_a_call_of_values_alone_is_served(kinds):
    """However a report would show what differs: message by message, or the whole list."""
    sides = [[{"role": "user", "content": TIMES[kind][side]} for kind in kinds] for side in (0, 1)]
    assert is_served(captured(chat(sides[0], stop=[TIMES["seconds"][0]])), chat(sides[1], stop=[TIMES["seconds"][1]]))


WORDS = st.text(string.ascii_letters + " .,-_/:", max_size=30)


@given(st.lists(st.one_of(WORDS, HEX, st.sampled_from([old for old, _ in TIMES.values()])), max_size=8))
def test_a_text_is_its_form_and_its_values(parts):
    text = json.dumps("\n".join(parts))
    form, values = mask_values(text)
    assert form == mask_values(text)[0]
    assert all(value.text in text for value in values)
    ids = {part for part in parts if len(part) == 32 and part.isalnum() and not part.isdigit()}
    assert {fold_ids(part) for part in ids} <= list_ids(text)


@given(WORDS, WORDS)
def test_words_have_one_form_each(one, other):
    """No two texts without a value have one form: what no value covers is compared as it stands."""
    forms = [mask_values(json.dumps(text)) for text in (one, other)]
    if not forms[0][1] and not forms[1][1]:
        assert (forms[0] == forms[1]) is (one == other)
