"""Traces from strangers, all the way to a case: one typed line within bounds, or a case that can be read again."""

import gzip
import io
import json
import time
import zipfile

import pytest
from markdown_it import MarkdownIt
from shown import forbidden

from pytest_agentreplay.cases.case import FILE, NOTES, RUN
from pytest_agentreplay.cases.render import code, escape_sentence
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.runs.case_files.scaffold import ScaffoldOptions, from_refusal, from_trace
from pytest_agentreplay.runs.case_files.trace_import import import_traces
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.traces.opening import open_trace

PATIENCE = 5.0
"""Seconds of processor time; all of these take a part of one, and took minutes where they were not bounded."""


def kit(*events, **facts):
    """A trace as ReplayKit has it."""
    return json.dumps({"run_id": "r-1", "status": "error", "events": [*events], **facts})


def tool(name="find", arguments=None, output="x"):
    return [
        {"type": "tool_call", "tool_name": name, "tool_args": arguments or {"a": 1}},
        {"type": "tool_result", "output": output},
    ]


def zipped(data):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", data)
    return held.getvalue()


def cases_of(data, folder):
    """The cases of a trace, each read again; the refusal, which is one line, as a text."""
    file = folder / "trace.json"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    told = ScaffoldOptions(folder=folder / "cases" / "c", test="cases/c/case.yaml::c", today="2026-11-22")
    began, said = time.process_time(), ""
    try:
        found = import_traces([file], Policy(), {})
        made = [from_trace(trace, found, told) for trace in found.traces]
        made += [from_refusal(found.refusal, found, told)] if found.refusal is not None else []
    except AgentReplayError as error:
        said, made = str(error), []
    assert time.process_time() - began < PATIENCE
    assert "\n" not in said
    for one in made:
        parse.read_case(one.contents[FILE], file=FILE, folder=told.folder, words=None)
        codec.loads(one.contents[RUN], file=RUN)
        assert not forbidden(one.contents[NOTES].decode())
    return made or said


SLOW = {
    "backslashes": "\\" * 200_000,
    "a key and backslashes": '{"a": "' + "\\" * 200_000,
    "a key and space": '{"a":' + " " * 200_000 + "1}",
    "JSON in JSON in JSON": kit(*tool(arguments={"a": '{"b": "' + "\\" * 100_000 + '"}'})),
    "numbers in a row": "1" * 500_000,
    "numbers apart": "1 " * 300_000,
    "values that are no rows": "[" + ",".join(["null"] * 30_000) + "]",
    "lines that are no rows": "null\n" * 100_000,
    "beginnings of a token": "eyJ" * 100_000 + " .redacted-jwt-1",
}


@pytest.mark.parametrize("name", SLOW)
def test_what_costs_time_is_refused_soon(name, tmp_path):
    assert cases_of(SLOW[name], tmp_path)


BOMBS = [gzip.compress(b" " * 50_000_000), gzip.compress(gzip.compress(b"0" * 50_000_000)), zipped(b" " * 50_000_000)]


def test_a_bomb_is_told_by_how_far_it_unpacks_and_a_file_of_today_is_read(tmp_path):
    for data in BOMBS:
        assert "unpacked, more than" in cases_of(data, tmp_path)
    said = " ".join(f"{number} of the orders were late" for number in range(20_000))
    assert len(open_trace(gzip.compress(kit(*tool(output=said)).encode()), file="x").rows) == 1


ODD = [
    *("", "\0", "\ud800", "\x1b[2J", "a\nb", "x" * 3000, "\u2028", "\u202e", "{", "```", "`` <b>", "yes", "1e5", "- a"),
    *("&a", "*a", "!!x", "#", "? x", "%F3", "${HOME}", "::error::x", "##vso[x]y", "9" * 400, "\N{GRINNING FACE}"),
]


def test_an_odd_text_wherever_a_trace_has_one_makes_a_case_that_can_be_read(tmp_path):
    for odd in ODD:
        error, asked = {"type": "error", "error": odd}, {"type": "input_message", "content": odd}
        trace = kit(asked, *tool(odd, {odd: odd}, odd), *tool(odd, {odd: odd}, odd), error, run_id=odd)
        assert cases_of(trace, tmp_path), odd


def test_a_case_says_as_much_as_a_case_file_takes(tmp_path):
    calls = [{"type": "tool_call", "tool_name": f"tool-{n}" + "x" * 300, "tool_args": {"a": n}} for n in range(700)]
    (one,) = cases_of(kit(*calls, {"type": "error", "error": "boom"}), tmp_path)
    assert len(one.case.missing) == 500
    assert one.case.missing[-1] == "201 more"


MARKDOWN = [
    *("[click](javascript:alert(1))", "![x](http://evil.test/p.png)", "<img src=x onerror=alert(1)>", "@everyone hi"),
    *("[a]: http://evil.test", "[x][a]", "# heading", "~~~", "`` <b> `` ` <i>", "\\[x](y)", "\\` <b> `", "`<b>"),
]


def test_notes_are_text_and_code_and_nothing_that_a_page_acts_on_and_what_is_harmless_stays():
    for text in MARKDOWN:
        note = f"- {escape_sentence(f'{text} with {code(text)} gave {code(text * 3)}.')}"
        page = MarkdownIt("gfm-like", {"linkify": False}).parse(note)
        (inline,) = (token for token in page if token.type == "inline")
        assert {token.type for token in inline.children} <= {"text", "code_inline", "text_special"}
        assert [token.type for token in page if token.type.startswith(("heading", "html", "fence", "table"))] == []
    said = "issue_refund with `{}` gave [[redacted:email:1]] to a.b@c.test: a_b * 5 > 6"
    assert escape_sentence(said) == said
