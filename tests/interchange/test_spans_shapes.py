"""The same spans in all the files that they come in: order, packing, encoding of ids and values make no difference."""

from __future__ import annotations

import base64
import gzip
import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.reading import traces
from tests.interchange.neutral import REFUND, TRACES, refund_facts

GENAI = "generated/otel-genai/otlp_refund_spanonly.jsonl"
OPENINFERENCE = "generated/openinference/otlp_refund.jsonl"
LANGFUSE = "generated/langfuse/otlp_export.json"
NO_TAGS = REFUND | {"tags": ()}
IDS = ("traceId", "spanId", "parentSpanId")
KINDS = {1: "SPAN_KIND_INTERNAL", 3: "SPAN_KIND_CLIENT"}
CODES = {1: "STATUS_CODE_OK", 2: "STATUS_CODE_ERROR"}
VALUES = ("string_value", "bool_value", "int_value", "double_value", "array_value", "kvlist_value", "bytes_value")


def read(name):
    return (TRACES / name).read_bytes()


def rows(name):
    return [json.loads(line) for line in read(name).splitlines()]


def spans(name):
    """(resource attributes, span) of an OTLP file."""
    for row in rows(name):
        for batch in row["resourceSpans"]:
            for scoped in batch["scopeSpans"]:
                yield from ((batch["resource"]["attributes"], span) for span in scoped["spans"])


def plain(value):
    (kind, held), *_ = [*value.items(), (None, None)]
    if kind == "arrayValue":
        return [plain(one) for one in held.get("values", [])]
    if kind == "kvlistValue":
        return attributes(held.get("values", []))
    return int(held) if kind == "intValue" else held


def attributes(pairs):
    return {pair["key"]: plain(pair["value"]) for pair in pairs}


def dated(ns):
    return (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(ns) // 1000)).isoformat().replace("+00:00", "Z")
    )


def console(name, **more):
    """The spans as the console exporter prints them."""
    for resource, span in spans(name):
        code = span["status"].get("code")
        yield {
            "name": span["name"],
            "context": {"trace_id": f"0x{span['traceId']}", "span_id": f"0x{span['spanId']}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{span['parentSpanId']}" if "parentSpanId" in span else None,
            "start_time": dated(span["startTimeUnixNano"]),
            "end_time": dated(span["endTimeUnixNano"]),
            "status": {
                "status_code": {2: "ERROR", 1: "OK"}.get(code, "UNSET"),
                "description": span["status"].get("message"),
            },
            "attributes": attributes(span["attributes"]) | more,
            "events": [
                {
                    "name": event["name"],
                    "timestamp": dated(event["timeUnixNano"]),
                    "attributes": attributes(event["attributes"]),
                }
                for event in span.get("events", [])
            ],
            "links": [],
            "resource": {"attributes": attributes(resource), "schema_url": ""},
        }


def listed(name):
    """The spans as Phoenix's client lists them."""
    for span in console(name):
        kept = span["attributes"]
        kind = kept.pop("openinference.span.kind")
        status = span.pop("status")
        yield {
            **{key: span[key] for key in ("name", "parent_id", "start_time", "end_time", "attributes", "events")},
            "context": {key: span["context"][key][2:] for key in ("trace_id", "span_id")},
            "span_kind": kind,
            "parent_id": span["parent_id"] and span["parent_id"][2:],
            "status_code": status["status_code"],
            "status_message": status["description"] or "",
        }


def nested(flat):
    """Attributes as objects in objects, the way some of Phoenix's files keep them."""
    tree = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


def snake(value):
    """An OTLP value with a null for every kind that it is not."""
    ((kind, held),) = value.items()
    if kind == "arrayValue":
        held = {"values": [snake(one) for one in held["values"]]}
    return dict.fromkeys(VALUES) | {{"arrayValue": "array_value"}.get(kind, kind.replace("Value", "_value")): held}


def paged(name):
    """The spans as Phoenix's REST API gives them in OTLP's form."""
    for _, span in spans(name):
        yield {
            "trace_id": span["traceId"],
            "span_id": span["spanId"],
            "parent_span_id": span.get("parentSpanId"),
            "name": span["name"],
            "kind": "SPAN_KIND_INTERNAL",
            "start_time_unix_nano": span["startTimeUnixNano"],
            "end_time_unix_nano": span["endTimeUnixNano"],
            "status": {"code": span["status"].get("code", 0), "message": span["status"].get("message")},
            "attributes": [{"key": pair["key"], "value": snake(pair["value"])} for pair in span["attributes"]],
            "events": [
                {
                    "name": event["name"],
                    "time_unix_nano": int(event["timeUnixNano"]),
                    "attributes": [{"key": pair["key"], "value": snake(pair["value"])} for pair in event["attributes"]],
                }
                for event in span.get("events", [])
            ],
        }


def lines(found):
    return b"\n".join(json.dumps(one).encode() for one in found)


def shuffled(name):
    found = read(name).splitlines()
    random.Random(7).shuffle(found)
    return b"\n".join(found)


def naive(name):
    """What a converter of protobuf messages makes of the spans: ids in base64, enums by name."""
    found = rows(name)
    for row in found:
        for batch in row["resourceSpans"]:
            for span in (one for scoped in batch["scopeSpans"] for one in scoped["spans"]):
                for key in IDS:
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
                span["kind"] = KINDS[span["kind"]]
                if "code" in span["status"]:
                    span["status"]["code"] = CODES[span["status"]["code"]]
    return lines(found)


OTLP = {
    "shuffled": shuffled,
    "gzip": lambda name: gzip.compress(read(name)),
    "a byte order mark": lambda name: b"\xef\xbb\xbf" + read(name),
    "one document": lambda name: json.dumps(
        {"resourceSpans": [one for row in rows(name) for one in row["resourceSpans"]]}
    ).encode(),
    "a list": lambda name: json.dumps(rows(name)).encode(),
    "batches": lambda name: json.dumps(
        {"batches": [one for row in rows(name) for one in row["resourceSpans"]]}
    ).encode(),
    "objects after each other": lambda name: b"".join(json.dumps(row, indent=1).encode() for row in rows(name)),
    "ids in base64, enums by name": naive,
    "blank lines": lambda name: read(name).replace(b"\n", b"\n\n\r\n"),
}


@pytest.mark.parametrize("shape", OTLP)
@pytest.mark.parametrize(("name", "facts"), [(GENAI, NO_TAGS), (OPENINFERENCE, REFUND)])
def test_otlp_in_any_shape(name, facts, shape):
    (usual,) = traces([(name, read(name))])
    (trace,) = traces([(name, OTLP[shape](name))])
    assert refund_facts(trace) == facts
    assert trace == usual


def test_ids_in_base64_are_the_same_ids():
    known = [json.loads(read(LANGFUSE))]
    for batch in known[0]["resourceSpans"]:
        for span in batch["scopeSpans"][0]["spans"]:
            for key in IDS:
                if key in span:
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    assert traces([(LANGFUSE, json.dumps(known[0]).encode())]) == traces([(LANGFUSE, read(LANGFUSE))])


LISTED = {
    "otel-console": lambda: "\n".join(json.dumps(one, indent=4) for one in console(OPENINFERENCE)).encode(),
    "foundry-spans": lambda: lines(console(OPENINFERENCE, **{"microsoft.foundry.project": "p"})),
    "openinference-spans": lambda: json.dumps([*listed(OPENINFERENCE)]).encode(),
    "openinference-spans (nested)": lambda: json.dumps(
        [one | {"attributes": nested(one["attributes"])} for one in listed(OPENINFERENCE)]
    ).encode(),
    "openinference-spans (rows of a data frame)": lambda: lines(
        {
            **{key: value for key, value in one.items() if key not in {"context", "attributes"}},
            **{f"context.{key}": value for key, value in one["context"].items()},
            **{f"attributes.{key}": value for key, value in one["attributes"].items()},
        }
        for one in listed(OPENINFERENCE)
    ),
    "phoenix-spans": lambda: json.dumps({"data": [*paged(OPENINFERENCE)], "next_cursor": None}).encode(),
}


@pytest.mark.parametrize("shape", LISTED)
def test_spans_that_stand_by_themselves(shape):
    (trace,) = traces([("spans.json", LISTED[shape]())])
    (usual,) = traces([(OPENINFERENCE, read(OPENINFERENCE))])
    assert refund_facts(trace) == REFUND
    assert (trace.id, trace.source.fidelity) == (usual.id, "body-json")
    assert trace.source.format == shape.partition(" ")[0]
    assert trace.tool_runs[1].fault == usual.tool_runs[1].fault


def test_genai_spans_as_the_console_prints_them():
    printed = "\n".join(json.dumps(one, indent=4) for one in console(GENAI)).encode()
    (trace,) = traces([("console.txt", printed)])
    assert refund_facts(trace) == NO_TAGS


def test_two_pages_are_one_run():
    found = [*paged(OPENINFERENCE)]
    pages = [{"data": found[:2], "next_cursor": "x"}, {"data": found[2:], "next_cursor": None}]
    (trace,) = traces([(f"page-{number}.json", json.dumps(page).encode()) for number, page in enumerate(pages)])
    assert refund_facts(trace) == REFUND


def test_a_file_that_was_rotated_within_a_run_is_read_with_the_next():
    first, *rest = read(GENAI).splitlines(keepends=True)
    (trace,) = traces([("a.jsonl", first), ("b.jsonl", b"".join(rest))])
    assert refund_facts(trace) == NO_TAGS


def test_runs_in_one_file_are_told_apart():
    both = read(GENAI) + b"\n" + read("generated/otel-genai/otlp_refund_noargs_spanonly.jsonl")
    random.Random(3).shuffle(mixed := both.splitlines())
    found = traces([("both.jsonl", b"\n".join(mixed))])
    assert len({trace.id for trace in found}) == 2
    assert [refund_facts(trace) for trace in found] == [NO_TAGS] * 2


def test_a_run_without_content_beside_one_with_is_told():
    both = read(GENAI) + b"\n" + read("generated/otel-genai/otlp_refund_noargs_nocontent.jsonl")
    (trace,) = traces([("both.jsonl", both)])
    assert refund_facts(trace) == NO_TAGS
    assert "1 further runs in the file hold no messages" in trace.losses


@pytest.mark.parametrize("name", [GENAI, OPENINFERENCE])
def test_model_calls_without_anything_around_them_are_one_run(name):
    """An SDK that is instrumented alone: each call is a trace of its own, and the messages tell what follows what."""
    found = [
        row
        for row in rows(name)
        if row["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"].startswith(("chat", "Chat"))
    ]
    for number, row in enumerate(found):
        span = row["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        span |= {"traceId": f"{number + 1:032x}"}
        del span["parentSpanId"]
    (trace,) = traces([("calls.jsonl", lines(reversed(found)))])
    assert [run.name for run in trace.tool_runs] == ["lookup_order", "issue_refund"]
    assert [run.seen for run in trace.tool_runs] == REFUND["seen"]
    assert (trace.input, trace.output) == (REFUND["input"], REFUND["output"])


def test_protobuf_is_refused_with_the_way_to_json():
    body = b"\n\xb5\x93\x01\n" + b"\x8f\x01\n\x1d\n\x0cservice.name\x12\r\n\x0bacme-agents" + bytes(range(128, 256))
    with pytest.raises(TraceError, match="OTEL_EXPORTER_OTLP_PROTOCOL=http/json"):
        traces([("body.binpb", body)])


def test_spans_of_other_work_are_no_run():
    with pytest.raises(TraceError, match="none of its spans is of an agent"):
        traces(
            [
                (
                    "web.json",
                    json.dumps(
                        {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "ab" * 8, "name": "GET /"}]}]}]}
                    ).encode(),
                )
            ]
        )


def test_messages_that_an_exporter_cut_are_missing_and_told():
    found = json.loads(read("generated/_synthesised/appinsights_dependencies.json"))
    held = found[4]["customDimensions"]
    held["gen_ai.input.messages"] = held["gen_ai.input.messages"][:500]
    (trace,) = traces([("rows.json", json.dumps(found).encode())])
    assert trace.missing == ("messages of model call 3",)
    assert any("cut short" in loss for loss in trace.losses)
    assert not trace.model_calls[2].messages
    assert trace.tool_runs[0].seen == REFUND["seen"][0]


INSIGHTS = {
    "lines": lambda found: lines(found),
    "dimensions in a text": lambda found: json.dumps(
        [row | {"customDimensions": json.dumps(row["customDimensions"])} for row in found]
    ).encode(),
    "tables of a query": lambda found: json.dumps(
        {
            "tables": [
                {
                    "name": "PrimaryResult",
                    "columns": [{"name": key} for key in found[0]],
                    "rows": [[*row.values()] for row in found],
                }
            ]
        }
    ).encode(),
    "Log Analytics": lambda found: json.dumps(
        [{LOG_ANALYTICS[key]: value for key, value in row.items() if key in LOG_ANALYTICS} for row in found]
    ).encode(),
}
LOG_ANALYTICS = {
    "timestamp": "TimeGenerated",
    "id": "Id",
    "name": "Name",
    "success": "Success",
    "duration": "DurationMs",
    "operation_Id": "OperationId",
    "operation_ParentId": "ParentId",
    "customDimensions": "Properties",
}


@pytest.mark.parametrize("shape", INSIGHTS)
def test_rows_of_application_insights_in_any_shape(shape):
    found = json.loads(read("generated/_synthesised/appinsights_dependencies.json"))
    (trace,) = traces([("rows.json", INSIGHTS[shape](found))])
    assert trace.source.format == "appinsights"
    assert refund_facts(trace) == NO_TAGS | {"faults": [None, ""]}


def test_an_exception_row_tells_what_a_dependency_row_does_not():
    found = json.loads(read("generated/_synthesised/appinsights_dependencies.json"))
    failed = found[3]
    found.append(
        {
            "timestamp": failed["timestamp"],
            "itemType": "exception",
            "operation_Id": failed["operation_Id"],
            "operation_ParentId": failed["id"],
            "type": "agent_common.RefundError",
            "customDimensions": {},
            "outerMessage": "amount 45990 exceeds order total 4599 for A-1001",
        }
    )
    (trace,) = traces([("rows.json", json.dumps(found).encode())])
    assert refund_facts(trace) == NO_TAGS


def test_rows_without_content_name_the_setting():
    found = json.loads(read("generated/_synthesised/appinsights_dependencies.json"))
    for row in found:
        row["customDimensions"] = {
            key: value for key, value in row["customDimensions"].items() if ".messages" not in key
        }
    with pytest.raises(TraceIncomplete, match="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"):
        traces([("rows.json", json.dumps(found).encode())])
