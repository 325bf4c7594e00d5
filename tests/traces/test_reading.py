"""The one way in for trace files: formats of other packages, files that belong together, files that nobody reads."""

from __future__ import annotations

import sys

import pytest

from pytest_agentreplay.errors import TraceError, TraceUnknown
from pytest_agentreplay.traces import reading
from pytest_agentreplay.traces.reading import traces
from tests.support.installed_packages import install_package
from tests.traces.neutral import imported, read

MODULE = """
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.trace import Source, Trace

ACME = Format(
    name="acme",
    title="logs of Acme",
    rank=60,
    fits=lambda opened: any(isinstance(row, dict) and "acme" in row for row in opened.rows),
    read=lambda opened, beside=(): [Trace(source=Source(format="acme"), id=row["acme"]) for row in opened.rows],
)
TWICE = Format("har", "no HAR", 1, lambda opened: True, lambda opened, beside=(): [])
NONE = 3
FAILS = Format("fails", "what fails", 60, lambda opened: "fails" in opened.rows[0], lambda opened: [opened.rows[0]["ev"]])
RAISES = Format("raises", "what raises", 0, lambda opened: opened.rows[7], lambda opened, beside=(): [])
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with trace formats among those that are installed."""

    def install(**entries):
        install_package(tmp_path, "acme_traces", MODULE, "agentreplay.formats", entries)
        reading._others.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    reading._others.cache_clear()
    sys.modules.pop("acme_traces", None)


def test_a_format_of_another_package_is_met_and_takes_no_name_of_ours(installed):
    installed(acme="ACME", har="TWICE")
    (trace,) = traces([("x.json", b'{"acme": "run-1"}')])
    assert (trace.id, trace.source.file) == ("run-1", "x.json")
    assert traces([("x.json", b'{"acme": "run-1"}')], format_name="acme") == [trace]
    assert [one.title for one in reading.formats() if one.name == "har"] == ["HAR of a proxy or a browser"]


def test_broken_ones_are_told_and_keep_nobody_from_reading(installed):
    broken = {"broken": "NOT_THERE", "none": "NONE", "raises": "RAISES"}
    installed(acme="ACME", **broken)
    with pytest.warns(UserWarning, match="the trace format") as told:
        (trace,) = read({"acme": "run-1"})
    assert trace.id == "run-1"
    said = [str(one.message) for one in told]
    ends = ("broken cannot be loaded", "none is no Format but int", "raises is left out: IndexError")
    assert len(said) == len(ends)
    assert all(f"the trace format {end}" in one for end, one in zip(ends, said, strict=True))


def test_one_that_fails_to_read_a_file_is_one_line(installed):
    installed(fails="FAILS")
    start = r"^trace\.jsonl: the format fails of the package acme-traces "
    reasons = "failed to read it: KeyError: 'ev'", "yields int, no Trace"
    for row, reason in zip(({"fails": 1}, {"fails": 1, "ev": 2}), reasons, strict=True):
        with pytest.raises(TraceError, match=f"{start}{reason}$"):
            read(row)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("", r"x\.json: no format fits what it holds; name it with --from: .*otlp-genai"),
        ("otel", r"there is no format 'otel'"),
        ("langsmth-runs", r"there is no format 'langsmth-runs': did you mean langsmith-runs\?$"),
        ("otlp-genai", r"x\.json: holds no"),
    ],
)
def test_no_format_fits_or_it_is_not_there_or_not_the_one_that_was_named(wanted, said):
    with pytest.raises(TraceError if wanted == "otlp-genai" else TraceUnknown, match=said):
        traces([("x.json", b'{"some": "thing"}')], format_name=wanted)


def test_files_that_do_not_belong_together_are_read_apart_and_several_of_spans_once():
    names = [f"generated/{name}" for name in ("openai/chat_completions_log.jsonl", "openinference/otlp_refund.jsonl")]
    assert [trace.source.file for trace in imported(*names)] == names
    more = [f"generated/otel-genai/otlp_{name}.jsonl" for name in ("refund_spanonly", "logs_refund_eventonly")]
    found = imported(names[1], *more)
    assert len({trace.id for trace in found}) == len(found) == 3
