"""What a page holds: the whole run, linear in what is new, and nothing that a browser would load or run."""

import base64
import hashlib
import json
import re
import zlib

import pytest

from pytest_agentreplay.errors import SnapshotMissing
from pytest_agentreplay.model.exchanges import Body, Exchange, Frame, FrameCall, FramesReply, Header, HttpCall, Run
from pytest_agentreplay.report.page_data import describe_run
from pytest_agentreplay.runs import pages
from pytest_agentreplay.snapshots import codec
from tests.support.shown_runs import RunBuilder, bookshop_run, long_run, trip_run, write_run


def unpack(described):
    """The bytes that a page holds, by call: what was sent, what came."""
    packed = json.loads(zlib.decompress(base64.b64decode(described["raw"]), -15))
    return [tuple(restore(side["body"], packed["texts"]) for side in call) for call in packed["calls"]]


def restore(body, texts):
    if isinstance(body, dict):
        return base64.b64decode(body["base64"])
    return "".join(p if isinstance(p, str) else p[2].join(texts[p[0] : p[1] + 1]) for p in body).encode()


def stored(run):
    return codec.loads(codec.dumps(run), file="f").run


def test_a_page_gives_back_every_byte_of_a_run_as_it_is_recorded_and_as_a_file_restores_it():
    run = bookshop_run()
    run.exchanges[-1].outcome.body.data.decode()
    for read in (run, stored(run)):
        for x, (sent, came) in zip(run.exchanges, unpack(describe_run(read)), strict=True):
            if isinstance(x.call, HttpCall):
                assert (sent, came) == (x.call.body.data, x.outcome.body.data)


def test_bytes_that_are_no_text_come_back_too():
    builder = RunBuilder()
    builder.model(0, 1, [{"role": "user", "content": "?"}])
    run = builder.run()
    object.__setattr__(run.exchanges[0].outcome, "body", Body(b"\xff\x00"))
    assert unpack(describe_run(run))[0][1] == b"\xff\x00"


def test_messages_of_a_connection_come_back_to_the_byte():
    frames = FramesReply.from_frames([Frame(b'{"z": 1,  "a": 2}'), Frame(b"\xff\x00", binary=True)])
    calls = (
        Exchange(FrameCall("ws://a/b"), frames, 1, 2),
        Exchange(FrameCall("ws://a/b", 1, body=Body(b"x y")), None, 3, None),
    )
    described = describe_run(stored(Run(Header("t"), calls)))
    assert unpack(described)[0][1] == frames.body.data
    assert unpack(described)[1][0] == b"x y"


def test_a_turn_says_what_it_added_and_what_came_of_it():
    first, _, last, *others = (described := describe_run(stored(bookshop_run())))["turns"]
    assert [label for label, _ in first["added"]] == ["system", "tools", "user"]
    assert (first["answer"], [name for name, _ in first["uses"]]) == ("Let me look at both.", ["lookup_order"] * 2)
    assert last["added"] == [["stream", "true"], ["tool result refund", '{"refunded": 18.5}']]
    assert (described["lanes"], [turn["lane"] for turn in others]) == (["main", "main.1", "main.2"], [1, 1, 2, 2])
    calls = [described["calls"][at] for at in first["calls"]]
    assert [(call["kind"], call["label"]) for call in calls] == [("model", "gpt-5"), *[("tool", "lookup_order")] * 2]
    assert calls[2]["start"] < calls[1]["end"]  # they overlap


def test_a_call_says_what_went_wrong_and_a_streamed_turn_when_its_first_chunk_came():
    described = describe_run(stored(trip_run()))
    errors = [call["error"] for call in described["calls"] if "error" in call]
    assert errors == ["LookupError", "429 Too Many Requests", "ReadTimeout"]
    problems = [turn["problem"] for turn in described["turns"] if turn.get("problem", "").startswith("status")]
    assert problems == ["status 429 Too Many Requests: requests: Rate limit reached"]
    assert [turn["first"] for turn in described["turns"] if "first" in turn] == [225]


def test_a_call_has_its_cost_where_the_project_has_a_price(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nagentreplay_prices = gpt-5-mini = 1 in, 10 out\n")
    file = write_run(tmp_path / "a.snapshot.json", bookshop_run())
    run = json.loads(re.search(r'id="data">(.*?)</script>', pages.render_run(file))[1])["runs"][0]
    costs = {turn["model"]: run["calls"][turn["call"]].get("cost") for turn in run["turns"]}
    tokens = next(turn["tokens"] for turn in reversed(run["turns"]) if turn["model"] == "gpt-5-mini")
    assert costs["gpt-5"] is None
    assert costs["gpt-5-mini"] == pytest.approx((tokens["input_tokens"] + 10 * tokens["output_tokens"]) / 1e6)


def test_chunks_have_the_times_that_are_recorded():
    described = describe_run(stored(bookshop_run()))
    came = json.loads(zlib.decompress(base64.b64decode(described["raw"]), -15))["calls"][-1][1]
    assert len(came["cuts"]) == len(came["times"]) > 10
    assert (came["times"][0], came["times"][-1]) == (3512.5, 4450.0)
    assert set(came["times"][1:-1]) == {None}


def test_a_page_grows_with_what_is_new_so_that_1000_turns_have_less_than_3_MB(tmp_path):
    sizes = [len(pages.render_run(write_run(tmp_path / f"{n}.snapshot.json", long_run(n)))) for n in (100, 200, 300)]
    assert abs((sizes[2] - sizes[1]) / (sizes[1] - sizes[0]) - 1) < 0.05
    assert sizes[0] + 9 * (sizes[2] - sizes[1]) < 3_000_000


def test_a_page_runs_nothing_but_its_own_script(tmp_path):
    page = pages.render_run(write_run(tmp_path / "a.snapshot.json", bookshop_run("</script><script>alert(1)</script>")))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    for kind in ("style", "script"):
        text = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert len(re.findall("<script", page)) == 2  # the data and the script
    assert not re.findall(r"\s(?:src|on\w+)=", page.partition("<script")[0])
    data = re.search(r'id="data">(.*?)</script>', page)[1]
    assert not set("<>&") & set(data)
    assert data.isascii()


def test_a_comparison_aligns_turns_and_finds_each_divergence(tmp_path):
    a = write_run(tmp_path / "a.snapshot.json", bookshop_run())
    b = write_run(tmp_path / "b.snapshot.json", bookshop_run("cheerful", "P-9"))
    data = json.loads(re.search(r'id="data">(.*?)</script>', pages.render_pair(a, b))[1])
    assert data["pairs"] == [[at, at] for at in range(7)]
    assert [(each["code"], each["pair"]) for each in data["findings"]] == [
        ("AR-PROMPT", 0), ("AR-RESULT", 0), ("AR-PROMPT", 5), ("AR-REPLY", 5), ("AR-REPLY", 6),
    ]  # fmt: skip


def test_a_comparison_has_the_rows_of_each_part_that_differs(tmp_path):
    a = write_run(tmp_path / "a.snapshot.json", bookshop_run())
    b = write_run(tmp_path / "b.snapshot.json", bookshop_run("cheerful", "P-9"))
    data = json.loads(re.search(r'id="data">(.*?)</script>', pages.render_pair(a, b))[1])
    first, second, *_ = data["changes"]
    assert list(first) == ["added system 0", "output 1"]
    assert [row for row in first["added system 0"] if row[0] == "+"] == [
        ["+", [["Be brief and ", False], ["cheerful", True], [".", False]]]
    ]
    assert list(second) == ["added tool result lookup_order 1"]
    same = json.loads(re.search(r'id="data">(.*?)</script>', pages.render_pair(a, a))[1])
    assert same["changes"] == [{}] * 7


def test_a_turn_that_only_one_side_has_stands_alone(tmp_path):
    a = write_run(tmp_path / "a.snapshot.json", long_run(3))
    b = write_run(tmp_path / "b.snapshot.json", long_run(4))
    data = json.loads(re.search(r'id="data">(.*?)</script>', pages.render_pair(a, b))[1])
    assert data["pairs"] == [[0, 0], [1, 1], [2, 2], [None, 3]]
    assert data["findings"][-1]["pair"] == 3


def test_a_file_that_is_not_there_is_no_page(tmp_path):
    with pytest.raises(SnapshotMissing):
        pages.render_run(tmp_path / "none.snapshot.json")
