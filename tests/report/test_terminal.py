"""Each report as people read it, at 80 and at 120 columns. `AGENTREPLAY_WRITE_GOLDEN=1 pytest ...` writes the texts anew."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare import diagnose
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.errors import CannotFreeze, SnapshotUnreadable
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Body, Exchange, Failure, Header, HttpCall, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import findings, other_findings
from pytest_agentreplay.report.escape import escape_line, escape_text
from pytest_agentreplay.report.finding import HEIGHT, Finding, Line, format_finding, restore_finding
from tests.support import exchanges
from tests.support.chat_runs import message_of, result_of
from tests.support.exchanges import chat_use

GOLDEN = Path(__file__).with_name("golden")
TEST = "tests/test_shop.py::test_refund_flow[eur]"
FILE = "tests/__agent_snapshots__/test_shop/test_refund_flow_eur-7f3a2c.snapshot.json"
FACTS = {"file": FILE, "recorded": "2026-11-02T09:14:55+00:00"}
ORIGIN = "shop/agent.py:88 in find_orders"

SYSTEM = """You are the assistant of a small shop.
Be short and friendly.
Never promise a refund before you have looked at the order, its payment and the customer's earlier refunds.
Answer in the customer's language."""
PROPERTIES = {"type": "object", "properties": {"id": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{name} by id", "parameters": PROPERTIES}}
    for name in ("lookup_order", "get_rates", "refund")
]


def chat(messages, **fields):
    return exchanges.call({"model": "gpt-x", "messages": messages, "tools": TOOLS} | fields)


def reply(said="", *uses):
    calls = [chat_use(call_id, name, json.dumps(arguments)) for call_id, name, arguments in uses]
    message = {"role": "assistant", "content": said or None} | ({"tool_calls": calls} if calls else {})
    body = {"id": "chatcmpl-1", "model": "gpt-x-2026-09", "choices": [{"message": message, "finish_reason": "stop"}]}
    return exchanges.reply(body, reason="OK")


class Shop:
    """A refund in three turns: look the order up and get the rates, refund, answer."""

    def __init__(self, status="shipped", answer="Your refund is on its way.", amount="19.90"):
        self.order = {"order": "A-1041", "status": status, "total": amount, "customer": "C-77"}
        one = [("call_11111111", "lookup_order", {"id": "A-1041"}), ("call_22222222", "get_rates", {"currency": "EUR"})]
        two = [("call_33333333", "refund", {"id": "A-1041", "amount": amount})]
        start = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "I want my money back for A-1041."}]
        results = [result_of("call_11111111", json.dumps(self.order)), result_of("call_22222222", '{"EUR": 1.08}')]
        more = [*start, message_of(reply("", *one)), *results]
        self.messages = [start, more, [*more, message_of(reply("", *two)), result_of("call_33333333", "done")]]
        steps = [
            (chat(self.messages[0]), reply("", *one)),
            (ToolCall("lookup_order", {"id": "A-1041"}), ToolReply(self.order)),
            (ToolCall("get_rates", {"currency": "EUR"}), ToolReply({"EUR": 1.08})),
            (chat(self.messages[1]), reply("", *two)),
            (ToolCall("refund", {"id": "A-1041", "amount": amount}), ToolReply("done")),
            (chat(self.messages[2]), reply(answer)),
        ]
        made = [Exchange(call, outcome, 2 * n, 2 * n + 1) for n, (call, outcome) in enumerate(steps)]
        self.run = Run(Header(TEST, outcome={"status": "passed"}), tuple(made))

    def miss(self, call, after, lane="main"):
        served = [x.start for x in self.run.exchanges[:after]]
        return replace(diagnose.explain_miss(ReplayProgress(self.run, READER, served), call, lane), origin=ORIGIN)

    def edited(self, turn, at, **change):
        messages = self.messages[turn - 1]
        return chat([*messages[:at], messages[at] | change, *messages[at + 1 :]])


SHOP = Shop()


def of(divergence, test=TEST):
    return findings.describe_divergence(divergence, test, FACTS)


def missed(recorded, now, test=TEST, **more):
    """What is told where one call is recorded, and another is made."""
    run = Run(Header(TEST), (Exchange(recorded, None, 0, 1),))
    return of(replace(diagnose.explain_miss(ReplayProgress(run, READER, ()), now, "main"), **more), test)


def schema():
    tools = json.loads(json.dumps(TOOLS))
    tools[2]["function"]["parameters"]["properties"]["currency"] = {"type": "string", "enum": ["EUR", "USD"]}
    tools[2]["function"]["parameters"]["required"] = ["currency"]
    return of(SHOP.miss(chat(SHOP.messages[0], tools=tools), 0))


def history():
    messages = SHOP.messages[2]
    summary = {"role": "user", "content": "So far: the order A-1041 was looked up and is shipped."}
    return of(SHOP.miss(chat([messages[0], summary, *messages[5:]]), 5))


def many_arguments():
    book = {f"field_{n:02}": f"value number {n} " + "of a form " * 12 for n in range(30)}
    now = {name: value.replace("number", "no.") for name, value in book.items()}
    return missed(ToolCall("fill_in", book), ToolCall("fill_in", now))


def order():
    found = SHOP.run.exchanges[2]
    return of(replace(diagnose.explain_order(ReplayProgress(SHOP.run, READER, [0]), found.call, found), origin=ORIGIN))


def side_by_side():
    """The look-up and the rates, asked for at once in two tasks; the rates came first."""
    ask, lookup, rates, *rest = SHOP.run.exchanges
    lookup, rates = replace(lookup, finish=5, lane="main.1"), replace(rates, start=3, finish=4, lane="main.2")
    return replace(SHOP.run, exchanges=(ask, lookup, rates, *rest)), lookup, rates


def stalled():
    run, lookup, rates = side_by_side()
    told = diagnose.explain_stall(ReplayProgress(run, READER, [0, 2]), lookup.call, lookup, rates)
    return findings.describe_divergence(replace(told, origin=ORIGIN), TEST, FACTS | {"racy": 3})


def not_taken():
    run, lookup, rates = side_by_side()
    told = diagnose.explain_stall(ReplayProgress(run, READER, [0, 2, 3]), lookup.call, lookup, rates)
    return findings.describe_divergence(replace(told, origin=ORIGIN), TEST, FACTS | {"guessed": True})


def unanswered():
    run, lookup, _ = side_by_side()
    given_up = replace(lookup, outcome=Failure("asyncio.exceptions.CancelledError", ""))
    return of(
        replace(diagnose.explain_unanswered(ReplayProgress(run, READER, [0, 2]), lookup.call, given_up), origin=ORIGIN)
    )


def extra():
    more = [*SHOP.messages[2], {"role": "assistant", "content": "Your refund is on its way."}]
    return of(SHOP.miss(chat([*more, {"role": "user", "content": "Could you clarify what you mean?"}]), 6))


def noise():
    said = "It is {}Z, run {}."
    stamp = said.format("2026-11-02T09:14:55", "0b9f3c1e-0000-4000-8000-000000000001")
    now = said.format("2026-11-20T18:40:01", "7c1f3c1e-1111-4000-8000-00000000000f")
    return missed(chat([{"role": "user", "content": stamp}]), chat([{"role": "user", "content": now}]))


def request():
    def rates(day):
        return HttpCall("GET", f"https://rates.test/v1/latest?base=EUR&day={day}")

    return missed(rates("monday"), rates("tuesday"), origin="shop/rates.py:12 in latest")


def parted(after, **change):
    (found, *_) = divergences(SHOP.run, Shop(**change).run, READER)
    return findings.describe_comparison(found, "before.snapshot.json", after)


def outcome():
    end = {"status": "failed", "type": "AssertionError", "message": "assert 'refund' in ''"}
    (found,) = divergences(SHOP.run, replace(SHOP.run, header=replace(SHOP.run.header, outcome=end)), READER)
    return findings.describe_comparison(found, "a.json", "b.json")


def lanes():
    place = {"turn": 2, "turns": 3, "lane": "main.2", "who": "lane main.2", "position": 7, "positions": 14}
    one = Divergence(
        *(Kind.ARGS, "tool search: $.q changed, shoes -> boots"),
        **place,
        recorded=Exchange(ToolCall("search", {"q": "shoes"}), None, 4, 5),
        now=ToolCall("search", {"q": "boots"}),
        differences=(Difference("$.q", "shoes", "boots", "shoes -> boots"),),
        cause="the model asked for the recorded arguments",
        detail=("also, independently, in lane main.3: AR-EXTRA tool search called, which is not recorded here",),
    )
    return of(one)


def hostile():
    name = "refund\x1b[2J\u202e\u200b\r\n::error::x"
    call, now = ToolCall(name, {"a": "\x1b]0;x\x07"}), ToolCall(name, {"a": "\ud800\x9b"})
    return missed(call, now, f"{TEST}\x1b[31m`$(rm)`")


class Entry:
    kind = "connect"

    def __init__(self, line, allow):
        self.line, self.allow = lambda: line, lambda: allow
        self.origin = line.partition(" from ")[2]

    def advice(self):
        return ""


def network():
    heard = [
        Entry("1 connect to db:5432 from shop/db.py:12 in rows", "agentreplay_allow = host:db:5432"),
        Entry("2 child processes git from shop/repo.py:40 in head", "agentreplay_allow = program:git"),
    ]
    return other_findings.describe_network(TEST, heard)


KEY_ERROR = {"status": "failed", "type": "KeyError", "message": "'total'"}
NO_AMOUNT = {"status": "failed", "type": "ValueError", "message": "no amount"}
CUT_OFF = SnapshotUnreadable("is cut off in the middle of an exchange", file=FILE, place="byte 10233, exchange 4")
AUDITS = [f"tool audit   called from shop/log.py:{escape_line} in flush" for escape_line in (7, 9)]
CURSOR = CannotFreeze(
    "tool lookup_order returned a shop.orders.Cursor at $.rows, which would not come back as it was\n"
    "    agentreplay.tool(shop.tools.lookup_order, returns=Order)",
    path="$.rows",
    kind="shop.orders.Cursor",
)
FIRST, SECOND, _ = SHOP.messages
REFUND = {"id": "a-1041", "amount": "19.90", "limit": 50}
UNRECORDED = "no snapshot is recorded for this test"
CASES = {
    "prompt": lambda: of(SHOP.miss(SHOP.edited(1, 0, content=SYSTEM.replace("a refund", "a credit")), 0)),
    "model": lambda: of(SHOP.miss(chat(FIRST, model="gpt-y-mini", temperature=0.7), 0)),
    "sdk": lambda: of(SHOP.miss(chat(FIRST, prompt_cache_retention="24h"), 0)),
    "arguments": lambda: of(SHOP.miss(ToolCall("refund", REFUND), 4)),
    "another_tool": lambda: of(SHOP.miss(ToolCall("cancel_order", {"id": "A-1041"}), 4)),
    "missing": lambda: of(SHOP.miss(chat(SECOND[:4]), 2)),
    "unused": lambda: of(diagnose.explain_missing(ReplayProgress(SHOP.run, READER, [0, 2, 4]))),
    "a_reply": lambda: parted("after it.snapshot.json", answer="I have sent your money back."),
    "a_result": lambda: parted("after.snapshot.json", status="lost"),
    "new": lambda: of(Divergence(Kind.NEW, UNRECORDED, now=chat(FIRST), origin=ORIGIN)),
    "unreadable": lambda: of(Divergence(Kind.UNREADABLE, str(CUT_OFF))),
    "late": lambda: other_findings.describe_late_calls(TEST, AUDITS),
    "cannot_freeze": lambda: other_findings.describe_unfreezable(TEST, [CURSOR]),
    "otherwise": lambda: other_findings.describe_other_end(TEST, KEY_ERROR, NO_AMOUNT, FACTS),
    "mended": lambda: other_findings.describe_other_end(TEST, KEY_ERROR, {"status": "passed"}, {}),
} | {
    case.__name__: case
    for case in (
        *(schema, history, many_arguments, order, extra, noise, request, outcome, lanes, hostile, network),
        *(stalled, not_taken, unanswered),
    )
}


def compare(name, said):
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        file.write_text(said + "\n", encoding="utf-8")
    assert said + "\n" == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_a_finding_reads_as_agreed_fits_the_terminal_and_says_what_to_type_next(name):
    finding = CASES[name]()
    said = format_finding(finding, width=80)
    compare(f"{name}.80", said)
    for rows in (said.split("\n"), format_finding(finding, width=120).split("\n")):
        assert len(rows) <= HEIGHT
        assert rows[0].startswith("[AR-")
        assert not any(row != row.rstrip() for row in rows)
    steps = [line.text.replace("\x1b", "\\x1b") for line in finding.lines if line.what == "next"]
    wide = [row for row in said.split("\n") if len(row) > 80 and FILE not in row]
    assert not [row for row in wide if not any(step in row for step in steps)], "only commands are wider"
    if name != "late":
        assert format_finding(finding, width=200).rstrip().endswith(steps[-1])


@pytest.mark.parametrize("name", ["prompt", "stalled"])
def test_a_wider_terminal_has_wider_lines(name):
    compare(f"{name}.120", format_finding(CASES[name](), width=120))


@pytest.mark.parametrize("name", ["arguments", "many_arguments", "hostile"])
def test_all_of_it_is_shown_when_asked_for(name):
    compare(f"{name}.vv", format_finding(CASES[name](), width=80, verbosity=2))


def test_a_finding_survives_json():
    for finding in (make() for make in CASES.values()):
        assert restore_finding(json.loads(json.dumps(finding.plain()))) == finding
        assert all(isinstance(value, str) for value in finding.properties.values())
        assert finding.properties["code"] == finding.code
        assert finding.headline.startswith(f"[{finding.code}] ")


def test_nothing_that_is_shown_can_act_and_a_name_without_end_is_cut():
    said = format_finding(CASES["hostile"](), verbosity=2)
    assert not set(said) & set("\x1b\x07\x9b\r\u202e\u200b\ud800")
    said.encode()
    said = format_finding(of(Divergence(Kind.TOOL, f"tool {'x' * 9000} called", cause="y" * 9000)))
    assert max(map(len, said.split("\n"))) < 250
    assert format_finding(CASES["prompt"](), width=0) == format_finding(CASES["prompt"](), width=40), (
        "no terminal is so narrow"
    )


def test_a_long_finding_without_differences_is_cut_before_its_commands():
    entries = [Entry(f"1 connect to host{n}:80 from a.py:{n}", f"agentreplay_allow = host:host{n}") for n in range(60)]
    rows = format_finding(other_findings.describe_network(TEST, entries)).split("\n")
    assert len(rows) == HEIGHT
    assert "  ... -vv shows all" in rows
    assert rows[-1].endswith("agentreplay_allow = host:host2")


FIVE, SIXTY = {"position": 5, "positions": 5}, {"position": 2, "positions": 63}
LONG = {"position": 17, "positions": 63}


PLACES = [
    (Kind.ARGS, {"turn": 0, "turns": 3}, "before turn 1/3"),
    (Kind.ARGS, {"turn": 0, "turns": 0, "position": 2, "positions": 5}, "call 2/5"),
    (Kind.EXTRA, {"turn": 0, "turns": 0, **FIVE}, "after call 5/5"),
    (Kind.EXTRA, {"turn": 7, "turns": 7}, "after turn 7/7"),
    (Kind.EXTRA, {}, ""),
    (Kind.ARGS, {"turn": 4, "turns": 9, "agent": "r", "who": "researcher", **LONG}, "researcher turn 4 (call 17 of 63)"),
    (Kind.EXTRA, {"turn": 4, "turns": 4, "who": "lane main.2", **LONG}, "after turn 4/4 of lane main.2, a parallel task (call 17 of 63)"),
    (Kind.ARGS, {"turn": 0, "turns": 4, "agent": "r", "who": "r.", **SIXTY}, "r. before turn 1 (call 2 of 63)"),
    (Kind.ARGS, {"turn": 0, "turns": 0, "agent": "r", "who": "r. main.1", **SIXTY}, "call 2/63 of r. main.1"),
]  # fmt: skip


def test_a_headline_says_where_it_happened():
    for kind, facts, where in PLACES:
        divergence = Divergence(kind, "x", **facts)
        assert findings.format_place(divergence) == where
        assert of(divergence).headline == f"[{kind.code}] {where and where + ': '}x"


def test_a_node_id_can_be_pasted():
    quoted = {TEST.partition("[")[0]: TEST.partition("[")[0], "t.py::test[a b]": '"t.py::test[a b]"'}
    quoted |= {"t.py::test[$x]": "'t.py::test[$x]'", "t.py::test['`]": "'t.py::test['\"'\"'`]'"}
    for name, shown in quoted.items():
        finding = findings.describe_divergence(Divergence(Kind.NEW, "x"), name, {})
        assert finding.lines[-1].text == f"pytest --snapshot-record {shown}"


def test_the_file_is_named_as_one_would_type_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near, far = tmp_path / "a" / "b.json", tmp_path.parent / "c.json"
    for file, shown in ((near, os.path.join("a", "b.json")), (far, str(far)), ("x/y.json", "x/y.json")):
        finding = findings.describe_divergence(Divergence(Kind.NEW, "x"), TEST, {"file": str(file)})
        assert [line.text for line in finding.lines if line.label == "looked for"] == [shown]


def test_long_sides_are_cut_around_the_change():
    recorded = "a" * 3000 + "X" + "b" * 3000
    one = Difference("$.t", recorded, recorded.replace("X", "YY"), "")
    finding = of(Divergence(Kind.ARGS, "x", differences=(one, Difference("$.u", ABSENT, b"".hex()))))
    assert all(len(side) <= 2000 for line in finding.lines for side in (line.recorded, line.now))
    said = format_finding(finding, width=80)
    assert "aaaXbbb" in said
    assert "aaaYYbbb" in said
    assert "recorded  (absent)" in said


def test_what_is_spread_out_is_bounded():
    said = ["x" * 5000] * 60 + ["data:image/png;base64," + "A" * 9000]
    call = chat([{"role": "user", "content": content} for content in said])
    raw = HttpCall("PUT", "https://a.test/b", (), Body(b"\xff\x00"))
    plain = HttpCall("PUT", "https://a.test/b", (), Body(b"one\ntwo"))
    finding = of(Divergence(Kind.REQUEST, "x", recorded=Exchange(call, None, 0, 1), now=raw))
    details = [line.text for line in finding.lines if line.what == "detail"]
    assert len(details) < 100
    assert max(map(len, details)) < 420
    assert any("<image/png 6.8 kB sha256:" in line for line in details)
    assert details[-1] == "  <data 2 B sha256:ea5dbf95>"
    told = [line.text for line in of(Divergence(Kind.REQUEST, "x", now=plain)).lines if line.what == "detail"]
    assert told == ["now: PUT a.test/b", "  PUT https://a.test/b", "  one", "  two"]


# Nothing that is shown can act.

SHOWN = {
    "plain ü 漢字 🎉 ❤️": "plain ü 漢字 🎉 ❤️",
    "a\tb\nc": "a\tb\nc",
    "\x1b[31mred\x9b31m\x00\x7f": "\\x1b[31mred\\x9b31m\\x00\\x7f",
    "a\rb": "a\\rb",
    "abc\u202ecod\u2066x\u2069": "abc\\u202ecod\\u2066x\\u2069",
    "\u200b\u200d\ufeff\xad": "\\u200b\\u200d\\ufeff\\xad",
    "\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525": "\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
    "pay\u200cpal a\u200db \u0645\u200c": "pay\\u200cpal a\\u200db \u0645\\u200c",
    "\u0645\u200c\u200c\u0645 \u0645\u202e\u0645 \u061c\u200c\u0645": "\u0645\\u200c\\u200c\u0645 \u0645\\u202e\u0645 \\u061c\\u200c\u0645",
    "\ud83d\u2028\u2029\x85\U000e0041": "\\ud83d\\u2028\\u2029\\x85\\U000e0041",
}


JOINED = re.compile(r"(?<=[^\x00-\u05ff])[\u200c\u200d](?=[^\x00-\u05ff])")


def test_what_would_act_is_seen_instead():
    assert {raw: escape_text(raw) for raw in SHOWN} == SHOWN
    assert escape_line("a\nb\tc\x1b") == "a\\nb\\tc\\x1b"


@given(st.text(st.characters(), max_size=40) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_whatever_comes_in_what_goes_out_can_be_written_and_stays(said):
    shown = escape_text(said)
    shown.encode()
    assert escape_text(shown) == shown
    assert not {unicodedata.category(char) for char in JOINED.sub("", shown)} & {"Cf", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.category(char) == "Cc" for char in shown if char not in "\n\t")


@pytest.mark.parametrize(("refused", "what"), [(True, ", for what the refused call was to bring"), (False, "")])
def test_what_a_test_still_waited_for_is_said_only_where_a_call_was_refused(refused, what):
    found = findings.add_waiting(
        of(diagnose.explain_missing(ReplayProgress(SHOP.run, READER, [0, 2, 4]))), "agent.py:7 in f", refused=refused
    )
    (line,) = [line.text for line in found.lines if line.label == "still waiting"]
    assert line == f"agent.py:7 in f{what}: the test was ended there"


def test_a_difference_whose_sides_look_the_same_is_named_without_rows():
    line = Line("difference", "call", "", "model m-1", "model m-1")
    assert format_finding(Finding("t", "AR-REQUEST", "x", (line,))) == "x\n\n  call"
