"""The one way in for trace files: formats of other packages, files that belong together, files that nobody reads."""

from __future__ import annotations

import sys

import pytest

from pytest_agentreplay.errors import TraceError, TraceUnknown
from pytest_agentreplay.interchange import reading
from pytest_agentreplay.interchange.reading import traces
from tests.interchange.neutral import TRACES, imported, read

MODULE = """
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.trace import Source, Trace

ACME = Format(
    name="acme",
    title="logs of Acme",
    rank=60,
    fits=lambda opened: any(isinstance(row, dict) and "acme" in row for row in opened.rows),
    read=lambda opened, beside=(): [Trace(source=Source(format="acme"), id=row["acme"]) for row in opened.rows],
)
TWICE = Format("har", "no HAR", 1, lambda opened: True, lambda opened, beside=(): [])
NONE = 3
RAISES = Format("raises", "what raises", 0, lambda opened: opened.rows[7], lambda opened, beside=(): [])
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with trace formats among those that are installed."""

    def install(**entries):
        (tmp_path / "acme_traces.py").write_text(MODULE)
        told = tmp_path / "acme_traces-1.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-traces\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in entries.items()]
        (told / "entry_points.txt").write_text("\n".join(["[agentreplay.formats]", *lines]))
        reading._others.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    reading._others.cache_clear()
    sys.modules.pop("acme_traces", None)


def test_a_format_of_another_package_is_met(installed):
    installed(acme="acme_traces:ACME")
    (trace,) = traces([("x.json", b'{"acme": "run-1"}')])
    assert (trace.id, trace.source.file) == ("run-1", "x.json")
    assert traces([("x.json", b'{"acme": "run-1"}')], wanted="acme") == [trace]


def test_a_broken_one_is_told_and_keeps_nobody_from_reading(installed):
    installed(acme="acme_traces:ACME", broken="acme_traces:NOT_THERE", none="acme_traces:NONE")
    with pytest.warns(UserWarning, match="the trace format") as told:
        (trace,) = read({"acme": "run-1"})
    assert trace.id == "run-1"
    first, second = (str(one.message) for one in told)
    assert "the trace format broken cannot be loaded" in first
    assert "the trace format none is no Format but int" in second


def test_one_that_fails_at_the_question_is_left_out(installed):
    installed(acme="acme_traces:ACME", raises="acme_traces:RAISES")
    with pytest.warns(UserWarning, match=r"the trace format raises is left out: IndexError"):
        (trace,) = read({"acme": "run-1"})
    assert trace.id == "run-1"


def test_nobody_takes_the_name_of_one_of_ours(installed):
    installed(har="acme_traces:TWICE")
    assert [one.title for one in reading.formats() if one.name == "har"] == ["HAR of a proxy or a browser"]


def test_no_format_fits_and_a_format_that_is_not_there():
    with pytest.raises(TraceUnknown, match=r"x\.json: no format fits what it holds; name it with --from: .*otlp-genai"):
        traces([("x.json", b'{"some": "thing"}')])
    with pytest.raises(TraceUnknown, match=r"there is no format 'otel'"):
        traces([("x.json", b"{}")], wanted="otel")
    with pytest.raises(TraceUnknown, match=r"there is no format 'langsmth-runs': did you mean langsmith-runs\?$"):
        traces([("x.json", b"{}")], wanted="langsmth-runs")


def test_a_format_that_was_named_and_does_not_fit_says_so():
    with pytest.raises(TraceError, match=r"x\.json: holds no"):
        traces([("x.json", b'{"some": "thing"}')], wanted="otlp-genai")


def test_files_that_do_not_belong_together_are_read_apart():
    names = ["generated/openai/chat_completions_log.jsonl", "generated/openinference/otlp_refund.jsonl"]
    found = imported(*names)
    assert [trace.source.file for trace in found] == names


def test_several_span_files_give_their_runs_once():
    names = ["generated/openinference/otlp_refund.jsonl", "generated/otel-genai/otlp_refund_spanonly.jsonl"]
    found = imported(*names, "generated/otel-genai/otlp_logs_refund_eventonly.jsonl")
    assert len({trace.id for trace in found}) == len(found) == 3


@pytest.mark.parametrize("levels", [500, 900, 50_000])
def test_json_in_a_text_that_is_nested_beyond_reading_is_read_or_one_error(levels):
    whole = (TRACES / "generated/otel-genai/otlp_refund_spanonly.jsonl").read_text(encoding="utf-8")
    deep = '{\\"a\\":' * levels + "1" + "}" * levels
    text = whole.replace('{\\"order_id\\":\\"A-1001\\"}', deep)
    assert deep in text
    said = ""
    try:
        traces([("deep.json", text.encode())])
    except TraceError as error:
        said = str(error)
    assert said in {"", "deep.json: is nested too deeply to be read"}
