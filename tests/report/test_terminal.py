"""Each report as people read it, at 80 and at 120 columns. `AGENTREPLAY_WRITE_GOLDEN=1 pytest ...` writes the texts anew."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agentreplay.core import diagnose
from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.core.model import Body, Exchange, Failure, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import CannotFreeze, SnapshotUnreadable
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.terminal import HEIGHT, text

GOLDEN = Path(__file__).with_name("golden")
TEST = "tests/test_shop.py::test_refund_flow[eur]"
FILE = "tests/__agent_snapshots__/test_shop/test_refund_flow_eur-7f3a2c.snapshot.json"
FACTS = {"file": FILE, "recorded": "2026-11-02T09:14:55+00:00"}
ORIGIN = "shop/agent.py:88 in find_orders"
JSON = (("content-type", "application/json"),)

SYSTEM = """You are the assistant of a small shop.
Be short and friendly.
Never promise a refund before you have looked at the order, its payment and the customer's earlier refunds.
Answer in the customer's language."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} by id",
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
        },
    }
    for name in ("lookup_order", "get_rates", "refund")
]


def chat(messages, **fields):
    body = {"model": "gpt-x", "messages": messages, "tools": TOOLS} | fields
    return HttpCall("POST", "https://api.openai.com/v1/chat/completions", JSON, Body(json.dumps(body).encode()))


def reply(said="", *uses):
    calls = [{"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}} for i, n, a in uses]
    message = {"role": "assistant", "content": said or None} | ({"tool_calls": calls} if calls else {})
    body = {"id": "chatcmpl-1", "model": "gpt-x-2026-09", "choices": [{"message": message, "finish_reason": "stop"}]}
    return HttpReply(200, "OK", headers=JSON, body=Body(json.dumps(body).encode()))


class Shop:
    """A refund in three turns: look the order up and get the rates, refund, answer."""

    def __init__(self, status="shipped", answer="Your refund is on its way.", amount="19.90"):
        self.order = {"order": "A-1041", "status": status, "total": amount, "customer": "C-77"}
        one = [("call_11111111", "lookup_order", {"id": "A-1041"}), ("call_22222222", "get_rates", {"currency": "EUR"})]
        two = [("call_33333333", "refund", {"id": "A-1041", "amount": amount})]
        start = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "I want my money back for A-1041."}]
        results = [self.result("call_11111111", json.dumps(self.order)), self.result("call_22222222", '{"EUR": 1.08}')]
        more = [*start, self.said(reply("", *one)), *results]
        self.messages = [start, more, [*more, self.said(reply("", *two)), self.result("call_33333333", "done")]]
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

    @staticmethod
    def said(response):
        return json.loads(response.body.data)["choices"][0]["message"]

    @staticmethod
    def result(identity, said):
        return {"role": "tool", "tool_call_id": identity, "content": said}

    def miss(self, call, after, lane="main"):
        served = [x.start for x in self.run.exchanges[:after]]
        return replace(diagnose.miss(self.run, READER, served, call, lane), origin=ORIGIN)

    def edited(self, turn, at, **change):
        messages = self.messages[turn - 1]
        return chat([*messages[:at], messages[at] | change, *messages[at + 1 :]])


SHOP = Shop()


def of(divergence):
    return findings.of(divergence, TEST, FACTS)


def prompt():
    return of(SHOP.miss(SHOP.edited(1, 0, content=SYSTEM.replace("a refund", "a credit")), 0))


def schema():
    tools = json.loads(json.dumps(TOOLS))
    tools[2]["function"]["parameters"]["properties"]["currency"] = {"type": "string", "enum": ["EUR", "USD"]}
    tools[2]["function"]["parameters"]["required"] = ["currency"]
    return of(SHOP.miss(chat(SHOP.messages[0], tools=tools), 0))


def model():
    return of(SHOP.miss(chat(SHOP.messages[0], model="gpt-y-mini", temperature=0.7), 0))


def history():
    messages = SHOP.messages[2]
    summary = {"role": "user", "content": "So far: the order A-1041 was looked up and is shipped."}
    return of(SHOP.miss(chat([messages[0], summary, *messages[5:]]), 5))


def rendering():
    shown = "order: A-1041\nstatus: shipped\ntotal: 19.9 EUR"
    return of(SHOP.miss(SHOP.edited(2, 3, content=shown), 3))


def arguments():
    return of(SHOP.miss(ToolCall("refund", {"id": "a-1041", "amount": "19.90", "limit": 50}), 4))


def many_arguments():
    book = {f"field_{n:02}": f"value number {n} " + "of a form " * 12 for n in range(30)}
    run = Run(Header(TEST), (Exchange(ToolCall("fill_in", book), ToolReply(None), 0, 1),))
    now = {name: value.replace("number", "no.") for name, value in book.items()}
    return of(diagnose.miss(run, READER, (), ToolCall("fill_in", now), "main"))


def another_tool():
    return of(SHOP.miss(ToolCall("cancel_order", {"id": "A-1041"}), 4))


def order():
    found = SHOP.run.exchanges[2]
    return of(replace(diagnose.order(SHOP.run, READER, [0], found.call, found), origin=ORIGIN))


def side_by_side():
    """The look-up and the rates, asked for at once in two tasks; the rates came first."""
    ask, lookup, rates, *rest = SHOP.run.exchanges
    lookup, rates = replace(lookup, finish=5, lane="main.1"), replace(rates, start=3, finish=4, lane="main.2")
    return replace(SHOP.run, exchanges=(ask, lookup, rates, *rest)), lookup, rates


def stalled():
    run, lookup, rates = side_by_side()
    told = diagnose.stalled(run, READER, [0, 2], lookup.call, found=lookup, expected=rates)
    return findings.of(replace(told, origin=ORIGIN), TEST, FACTS | {"racy": 3})


def not_taken():
    run, lookup, rates = side_by_side()
    told = diagnose.stalled(run, READER, [0, 2, 3], lookup.call, found=lookup, expected=rates)
    return findings.of(replace(told, origin=ORIGIN), TEST, FACTS | {"guessed": True})


def unanswered():
    run, lookup, _ = side_by_side()
    given_up = replace(lookup, outcome=Failure("asyncio.exceptions.CancelledError", ""))
    return of(replace(diagnose.unanswered(run, READER, [0, 2], lookup.call, given_up), origin=ORIGIN))


def extra():
    more = [*SHOP.messages[2], {"role": "assistant", "content": "Your refund is on its way."}]
    return of(SHOP.miss(chat([*more, {"role": "user", "content": "Could you clarify what you mean?"}]), 6))


def missing():
    messages = SHOP.messages[1]
    return of(SHOP.miss(chat(messages[:4]), 2))


def unused():
    return of(diagnose.unused(SHOP.run, READER, [0, 2, 4]))


def noise():
    stamp = "It is 2026-11-02T09:14:55Z, run 0b9f3c1e-0000-4000-8000-000000000001."
    now = "It is 2026-11-20T18:40:01Z, run 7c1f3c1e-1111-4000-8000-00000000000f."
    run = Run(Header(TEST), (Exchange(chat([{"role": "user", "content": stamp}]), reply("ok"), 0, 1),))
    return of(diagnose.miss(run, READER, (), chat([{"role": "user", "content": now}]), "main"))


def sdk():
    return of(SHOP.miss(chat(SHOP.messages[0], prompt_cache_retention="24h"), 0))


def request():
    def rates(day):
        return HttpCall("GET", f"https://rates.test/v1/latest?base=EUR&day={day}")

    run = Run(Header(TEST), (Exchange(rates("monday"), HttpReply(200), 0, 1),))
    return of(replace(diagnose.miss(run, READER, (), rates("tuesday"), "main"), origin="shop/rates.py:12 in latest"))


def a_reply():
    (found, *_) = divergences(SHOP.run, Shop(answer="I have sent your money back.").run, READER)
    return findings.compared(found, "before.snapshot.json", "after it.snapshot.json")


def a_result():
    (found, *_) = divergences(SHOP.run, Shop(status="lost").run, READER)
    return findings.compared(found, "before.snapshot.json", "after.snapshot.json")


def outcome():
    now = Run(
        replace(
            SHOP.run.header, outcome={"status": "failed", "type": "AssertionError", "message": "assert 'refund' in ''"}
        ),
        SHOP.run.exchanges,
    )
    (found,) = divergences(SHOP.run, now, READER)
    return findings.compared(found, "a.json", "b.json")


def lanes():
    one = Divergence(
        Kind.ARGS,
        "tool search: $.q changed, shoes -> boots",
        turn=2,
        turns=3,
        lane="main.2",
        who="lane main.2",
        position=7,
        positions=14,
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
    run = Run(Header(TEST), (Exchange(call, ToolReply(None), 0, 1),))
    return findings.of(diagnose.miss(run, READER, (), now, "main"), f"{TEST}\x1b[31m`$(rm)`", FACTS)


def new():
    return of(Divergence(Kind.NEW, "no snapshot is recorded for this test", now=chat(SHOP.messages[0]), origin=ORIGIN))


def unreadable():
    error = SnapshotUnreadable("is cut off in the middle of an exchange", file=FILE, place="byte 10233, exchange 4")
    return of(Divergence(Kind.UNREADABLE, str(error)))


class Entry:
    kind = "connect"

    def __init__(self, line, allow):
        self.line, self.allow = lambda: line, lambda: allow
        self.origin = line.partition(" from ")[2]

    def advice(self):
        return ""


def network():
    heard = [
        Entry("1 connect to db:5432 from shop/db.py:12 in rows", "agentreplay_allow_hosts = db:5432"),
        Entry("2 child processes git from shop/repo.py:40 in head", "agentreplay_allow_subprocess = git"),
    ]
    return findings.network(TEST, heard)


def late():
    return findings.late(
        TEST, ["tool audit   called from shop/log.py:7 in flush", "tool audit   called from shop/log.py:9 in flush"]
    )


def unfrozen():
    return findings.unfrozen(TEST, [{"tool": "send_mail", "path": "shop.mail.send_mail"}])


def cannot_freeze():
    said = "tool lookup_order returned a shop.orders.Cursor at $.rows, which would not come back as it was\n    agentreplay.tool(shop.tools.lookup_order, returns=Order)"
    return findings.cannot_freeze(TEST, [CannotFreeze(said, path="$.rows", kind="shop.orders.Cursor")])


def otherwise():
    recorded = {"status": "failed", "type": "KeyError", "message": "'total'"}
    return findings.otherwise(TEST, recorded, {"status": "failed", "type": "ValueError", "message": "no amount"}, FACTS)


def mended():
    recorded = {"status": "failed", "type": "KeyError", "message": "'total'"}
    return findings.otherwise(TEST, recorded, {"status": "passed"}, {})


CASES = {
    case.__name__: case
    for case in (
        *(prompt, schema, model, history, rendering, arguments, many_arguments, another_tool, order, extra, missing),
        *(unused, noise, sdk, request, a_reply, a_result, outcome, lanes, hostile, new, unreadable, network, late),
        *(unfrozen, cannot_freeze, otherwise, mended, stalled, not_taken, unanswered),
    )
}


def compare(name, said):
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        file.write_text(said + "\n", encoding="utf-8")
    assert said + "\n" == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", CASES)
def test_the_text(name, width):
    said = text(CASES[name](), width=width)
    compare(f"{name}.{width}", said)
    rows = said.split("\n")
    assert len(rows) <= HEIGHT
    assert rows[0].startswith("[AR-")
    assert not any(row != row.rstrip() for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_only_commands_are_wider_than_the_terminal(name):
    finding = CASES[name]()
    commands = [line.text.replace("\x1b", "\\x1b") for line in finding.lines if line.what == "next"]
    for row in text(finding, width=80).split("\n"):
        assert len(row) <= 80 or FILE in row or any(command in row for command in commands)


@pytest.mark.parametrize("name", ["arguments", "many_arguments", "prompt", "hostile"])
def test_all_of_it(name):
    compare(f"{name}.vv", text(CASES[name](), width=80, verbosity=2))


@pytest.mark.parametrize("name", CASES)
def test_a_finding_survives_json(name):
    finding = CASES[name]()
    assert findings.finding_of(json.loads(json.dumps(finding.plain()))) == finding
    assert all(isinstance(value, str) for value in finding.properties.values())
    assert finding.properties["code"] == finding.code
    assert finding.headline.startswith(f"[{finding.code}] ")


@pytest.mark.parametrize("name", CASES)
def test_every_finding_says_what_to_type_next(name):
    steps = [line.text for line in CASES[name]().lines if line.what == "next"]
    if name != "late":
        assert steps
        assert text(CASES[name](), width=200).rstrip().endswith(steps[-1].replace("\x1b", "\\x1b"))


def test_nothing_that_is_shown_can_act():
    said = text(CASES["hostile"](), verbosity=2)
    assert not set(said) & set("\x1b\x07\x9b\r\u202e\u200b\ud800")
    said.encode()


def test_a_name_without_end_is_cut():
    said = text(of(Divergence(Kind.TOOL, f"tool {'x' * 9000} called", cause="y" * 9000)))
    assert max(map(len, said.split("\n"))) < 250


def test_a_narrow_terminal_is_not_taken_at_its_word():
    assert text(CASES["prompt"](), width=0) == text(CASES["prompt"](), width=40)


def test_a_long_finding_without_differences_is_cut_before_its_commands():
    entries = [Entry(f"1 connect to host{n}:80 from a.py:{n}", f"agentreplay_allow_hosts = host{n}") for n in range(60)]
    rows = text(findings.network(TEST, entries)).split("\n")
    assert len(rows) == HEIGHT
    assert "  ... -vv shows all" in rows
    assert rows[-1].endswith("agentreplay_allow_hosts = host2")


@pytest.mark.parametrize(
    ("divergence", "where"),
    [
        (Divergence(Kind.ARGS, "x", turn=0, turns=3), "before turn 1/3"),
        (Divergence(Kind.ARGS, "x", turn=0, turns=0, position=2, positions=5), "call 2/5"),
        (Divergence(Kind.EXTRA, "x", turn=0, turns=0, position=5, positions=5), "after call 5/5"),
        (Divergence(Kind.EXTRA, "x", turn=7, turns=7), "after turn 7/7"),
        (Divergence(Kind.EXTRA, "x"), ""),
        (
            Divergence(Kind.ARGS, "x", turn=4, turns=9, position=17, positions=63, agent="r", who="researcher"),
            "researcher turn 4 (call 17 of 63)",
        ),
        (
            Divergence(Kind.EXTRA, "x", turn=4, turns=4, position=17, positions=63, who="lane main.2"),
            "after turn 4/4 of lane main.2 (call 17 of 63)",
        ),
        (
            Divergence(Kind.ARGS, "x", turn=0, turns=4, position=2, positions=63, agent="r", who="researcher"),
            "researcher before turn 1 (call 2 of 63)",
        ),
        (
            Divergence(Kind.ARGS, "x", turn=0, turns=0, position=2, positions=63, agent="r", who="researcher main.1"),
            "call 2/63 of researcher main.1",
        ),
    ],
)
def test_where(divergence, where):
    assert findings.place(divergence) == where
    assert of(divergence).headline == f"[{divergence.kind.code}] {where and where + ': '}x"


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("t.py::test[a b]", '"t.py::test[a b]"'),
        ("t.py::test[$x]", "'t.py::test[$x]'"),
        ("t.py::test['`]", "'t.py::test['\"'\"'`]'"),
    ],
)
def test_a_node_id_can_be_pasted(name, quoted):
    finding = findings.of(Divergence(Kind.NEW, "x"), name, {})
    assert finding.lines[-1].text == f"pytest --snapshot-record {quoted}"


def test_the_file_is_named_as_one_would_type_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near, far = tmp_path / "a" / "b.json", tmp_path.parent / "c.json"
    for file, shown in ((near, os.path.join("a", "b.json")), (far, str(far)), ("x/y.json", "x/y.json")):
        finding = findings.of(Divergence(Kind.NEW, "x"), TEST, {"file": str(file)})
        assert [line.text for line in finding.lines if line.label == "looked for"] == [shown]


def test_long_sides_are_cut_around_the_change():
    recorded = "a" * 3000 + "X" + "b" * 3000
    one = Difference("$.t", recorded, recorded.replace("X", "YY"), "")
    finding = of(Divergence(Kind.ARGS, "x", differences=(one, Difference("$.u", ABSENT, b"".hex()))))
    assert all(len(side) <= 2000 for line in finding.lines for side in (line.recorded, line.now))
    said = text(finding, width=80)
    assert "aaaXbbb" in said
    assert "aaaYYbbb" in said
    assert "recorded  (absent)" in said


def test_what_is_spread_out_is_bounded():
    call = chat(
        [{"role": "user", "content": "x" * 5000}] * 60
        + [{"role": "user", "content": "data:image/png;base64," + "A" * 9000}]
    )
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
