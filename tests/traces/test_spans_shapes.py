"""The same spans in all the files that they come in: order, packing, encoding of ids and values make no difference."""

from __future__ import annotations

import base64
import json
import random
import re
from datetime import datetime, timedelta

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from tests.traces.neutral import REFUND, TRACES, lines, one, read, refund_facts, rows_of

GENAI = "otel-genai/otlp_refund_spanonly.jsonl"
OPENINFERENCE = "openinference/otlp_refund.jsonl"
LANGFUSE = "langfuse/otlp_export.json"
NO_TAGS = REFUND | {"tags": ()}
IDS = ("traceId", "spanId", "parentSpanId")
KINDS = {1: "SPAN_KIND_INTERNAL", 3: "SPAN_KIND_CLIENT"}
CODES = {1: "OK", 2: "ERROR"}


def data_of(name):
    return (TRACES / "generated" / name).read_bytes()


def spans(rows):
    """(resource attributes, span) of rows of OTLP."""
    for batch in (batch for row in rows for batch in row["resourceSpans"]):
        for scoped in batch["scopeSpans"]:
            yield from ((batch["resource"]["attributes"], span) for span in scoped["spans"])


def plain(value):
    (kind, held), *_ = [*value.items(), (None, None)]
    if kind == "arrayValue":
        return [plain(one) for one in held.get("values", [])]
    return attributes(held.get("values", [])) if kind == "kvlistValue" else int(held) if kind == "intValue" else held


def attributes(pairs):
    return {pair["key"]: plain(pair["value"]) for pair in pairs}


def dated(ns):
    return (datetime(1970, 1, 1) + timedelta(microseconds=int(ns) // 1000)).isoformat() + "Z"


def happened(event):
    told = {"name": event["name"], "timestamp": dated(event["timeUnixNano"])}
    return told | {"attributes": attributes(event["attributes"])}


def console(name, **more):
    """The spans as the console exporter prints them."""
    for resource, span in spans(rows_of(name)):
        status = {
            "status_code": CODES.get(span["status"].get("code"), "UNSET"),
            "description": span["status"].get("message"),
        }
        yield {
            "name": span["name"],
            "context": {"trace_id": f"0x{span['traceId']}", "span_id": f"0x{span['spanId']}", "trace_state": "[]"},
            "kind": "SpanKind.INTERNAL",
            "parent_id": f"0x{span['parentSpanId']}" if "parentSpanId" in span else None,
            "start_time": dated(span["startTimeUnixNano"]),
            "end_time": dated(span["endTimeUnixNano"]),
            "status": status,
            "attributes": attributes(span["attributes"]) | more,
            "events": [happened(event) for event in span.get("events", [])],
            "links": [],
            "resource": {"attributes": attributes(resource), "schema_url": ""},
        }


def listed(name):
    """The spans as Phoenix's client lists them."""
    for span in console(name):
        kept = {key: span[key] for key in ("name", "start_time", "end_time", "attributes", "events")}
        kept["context"] = {key: span["context"][key][2:] for key in ("trace_id", "span_id")}
        kept |= {"parent_id": span["parent_id"] and span["parent_id"][2:]}
        kept |= {"span_kind": span["attributes"].pop("openinference.span.kind")}
        yield kept | {
            "status_code": span["status"]["status_code"],
            "status_message": span["status"]["description"] or "",
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


def split_anywhere(flat, chance):
    """Attributes as objects in objects, each name split at some of its dots."""
    tree = {}
    for name, value in flat.items():
        *path, last = re.sub(r"\.", lambda dot: chance.choice(".|"), name).split("|")
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


def as_kvlists(value):
    match value:
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": as_kvlists(one)} for key, one in value.items()]}}
        case list():
            return {"arrayValue": {"values": [as_kvlists(one) for one in value]}}
        case bool() | int():
            return {"boolValue" if isinstance(value, bool) else "intValue": value}
        case _:
            return {"doubleValue" if isinstance(value, float) else "stringValue": value}


def framed(span):
    """A span as a row of a data frame."""
    row = {key: value for key, value in span.items() if key not in {"context", "attributes"}}
    return row | {f"{key}.{name}": value for key in ("context", "attributes") for name, value in span[key].items()}


def ids_in_base64(rows):
    """What a converter of protobuf messages makes of ids."""
    for _, span in spans(rows):
        span |= {key: base64.b64encode(bytes.fromhex(span[key])).decode() for key in IDS if key in span}
    return rows


def naive(rows):
    """What it makes of whole spans: enums by name too."""
    for _, span in spans(ids_in_base64(rows)):
        span["kind"] = KINDS[span["kind"]]
        if "code" in span["status"]:
            span["status"]["code"] = f"STATUS_CODE_{CODES[span['status']['code']]}"
    return lines(*rows)


def batched(rows):
    return [batch for row in rows for batch in row["resourceSpans"]]


OTLP = {
    "one document": lambda rows: lines({"resourceSpans": batched(rows)}),
    "a list": lambda rows: lines(rows),
    "batches": lambda rows: lines({"batches": batched(rows)}),
    "objects after each other": lambda rows: b"".join(json.dumps(row, indent=1).encode() for row in rows),
    "ids in base64": lambda rows: lines(*ids_in_base64(rows)),
    "ids in base64, enums by name": naive,
    "blank lines": lambda rows: lines(*rows).replace(b"\n", b"\n\n\r\n"),
}


@pytest.mark.parametrize("shape", OTLP)
def test_otlp_in_any_shape(shape):
    for name in (GENAI, OPENINFERENCE, *([LANGFUSE] if shape == "ids in base64" else [])):
        assert traces([(name, OTLP[shape](rows_of(name)))]) == traces([(name, data_of(name))]), name


@pytest.mark.parametrize(
    "name", [GENAI, OPENINFERENCE, LANGFUSE, "openllmetry/otlp_refund.jsonl", "openllmetry/otlp_compare_flattened.json"]
)
def test_names_may_be_split_into_objects_at_any_of_their_dots(name):
    usual = traces([(name, data_of(name))])
    for seed in range(8):
        rows, chance = rows_of(name), random.Random(seed)
        for _, span in spans(rows):
            for holder in (span, *span.get("events", [])):
                tree = split_anywhere(attributes(holder["attributes"]), chance)
                holder["attributes"] = as_kvlists(tree)["kvlistValue"]["values"]
        assert traces([(name, lines(*rows))]) == usual, seed


def test_messages_may_be_a_list_of_objects_with_dotted_names_and_arguments_keep_theirs():
    call = {"tool_call.function.name": "pay", "tool_call.function.arguments": "{}", "tool_call.id": "c"}
    told = {"message.role": "assistant", "message.tool_calls": [call]}
    model = {"llm": {"model_name": "m", "input_messages": [{"message.role": "user", "message": {"content": "Hi"}}]}}
    model |= {"llm.output_messages": {"0": told}, "openinference": {"span.kind": "LLM"}}
    tool = {"openinference.span": {"kind": "TOOL"}, "tool": {"name": "pay", "parameters": {"order.id": "A-1"}}}
    frame = {"name": "s", "parent_id": None, "start_time": "2026-11-20T13:51:51Z", "span_kind": None}
    rows = [
        frame | {"context": {"trace_id": "1" * 32, "span_id": str(nth) * 16}, "attributes": held}
        for nth, held in enumerate((model, tool), 2)
    ]
    (trace,) = traces([("spans.json", lines(rows))])
    (asked,) = trace.model_calls
    assert asked.messages == ({"role": "user", "parts": [{"type": "text", "content": "Hi"}]},)
    assert [part["name"] for part in asked.reply["parts"]] == ["pay"]
    assert trace.tool_runs[0].arguments == {"order.id": "A-1"}


LISTED = {
    "otel-console": lambda: b"\n".join(json.dumps(one, indent=4).encode() for one in console(OPENINFERENCE)),
    "foundry-spans": lambda: lines(*console(OPENINFERENCE, **{"microsoft.foundry.project": "p"})),
    "openinference-spans": lambda: lines([*listed(OPENINFERENCE)]),
    "openinference-spans (nested)": lambda: lines([one | {"attributes": nested(one["attributes"])} for one in listed(OPENINFERENCE)]),
    "openinference-spans (rows of a data frame)": lambda: lines(*(framed(one) for one in listed(OPENINFERENCE))),
}  # fmt: skip


@pytest.mark.parametrize("shape", LISTED)
def test_spans_that_stand_by_themselves(shape):
    (trace,) = traces([("spans.json", LISTED[shape]())])
    (usual,) = traces([(OPENINFERENCE, data_of(OPENINFERENCE))])
    assert refund_facts(trace) == REFUND
    assert (trace.id, trace.source.fidelity) == (usual.id, "body-json")
    assert trace.source.format == shape.partition(" ")[0]
    assert trace.tool_runs[1].fault == usual.tool_runs[1].fault


def test_files_of_one_run_are_read_together_runs_in_one_file_apart_and_what_is_no_json_is_counted():
    (page,) = rows_of("phoenix/rest_spans.json")
    pages = [page | {"data": page["data"][:2], "next_cursor": "x"}, page | {"data": page["data"][2:]}]
    (trace,) = traces([(f"page-{number}.json", lines(page)) for number, page in enumerate(pages)])
    assert refund_facts(trace) == REFUND
    first, *rest = rows_of(GENAI)
    (trace,) = traces([("a.jsonl", lines(first)), ("b.jsonl", lines(*rest))])
    assert refund_facts(trace) == NO_TAGS
    mixed = [*rows_of(GENAI), *rows_of("otel-genai/otlp_refund_noargs_spanonly.jsonl")]
    random.Random(3).shuffle(mixed)
    found = read(*mixed)
    assert len({trace.id for trace in found}) == 2
    assert [refund_facts(trace) for trace in found] == [NO_TAGS] * 2
    trace = one(*rows_of(GENAI), *rows_of("otel-genai/otlp_refund_noargs_nocontent.jsonl"))
    assert refund_facts(trace) == NO_TAGS
    assert "1 further runs in the file hold no messages" in trace.losses
    (trace,) = traces([(GENAI, b"starting up\n" + data_of(GENAI) + b'{"resourceSpans": [{"scope')])
    assert refund_facts(trace) == NO_TAGS
    assert trace.losses[-1] == "2 lines of the file are no JSON"
    assert refund_facts(one(*console(GENAI))) == NO_TAGS


@pytest.mark.parametrize("name", [GENAI, OPENINFERENCE])
def test_model_calls_without_anything_around_them_are_one_run(name):
    """An SDK that is instrumented alone: each call is a trace of its own, and the messages tell what follows what."""
    found = [row for row in rows_of(name) if next(spans([row]))[1]["name"].startswith(("chat", "Chat"))]
    for number, (_, span) in enumerate(spans(found)):
        span |= {"traceId": f"{number + 1:032x}"}
        del span["parentSpanId"]
    trace = one(*reversed(found))
    assert [run.name for run in trace.tool_runs] == ["lookup_order", "issue_refund"]
    assert [run.seen for run in trace.tool_runs] == REFUND["seen"]
    assert (trace.input, trace.output) == (REFUND["input"], REFUND["output"])


def test_what_holds_no_run_is_refused_with_a_way_out():
    body = b"\n\xb5\x93\x01\n" + b"\x8f\x01\n\x1d\n\x0cservice.name\x12\r\n\x0bacme-agents" + bytes(range(128, 256))
    with pytest.raises(TraceError, match="OTEL_EXPORTER_OTLP_PROTOCOL=http/json"):
        traces([("body.binpb", body)])
    with pytest.raises(TraceError, match="none of its spans is of an agent"):
        read({"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "ab" * 8, "name": "GET /"}]}]}]})


# Rows of Application Insights


def insights():
    (rows,) = rows_of("_synthesised/appinsights_dependencies.json")
    return rows


LOG_ANALYTICS = {
    "timestamp": "TimeGenerated", "id": "Id", "name": "Name", "success": "Success", "duration": "DurationMs",
    "operation_Id": "OperationId", "operation_ParentId": "ParentId", "customDimensions": "Properties",
}  # fmt: skip


def queried(rows):
    columns = [{"name": key} for key in rows[0]]
    return [{"tables": [{"name": "PrimaryResult", "columns": columns, "rows": [[*row.values()] for row in rows]}]}]


def renamed(rows):
    return [{LOG_ANALYTICS[key]: value for key, value in row.items() if key in LOG_ANALYTICS} for row in rows]


INSIGHTS = {
    "lines": lambda rows: rows,
    "dimensions in a text": lambda rows: [r | {"customDimensions": json.dumps(r["customDimensions"])} for r in rows],
    "tables of a query": queried,
    "Log Analytics": renamed,
}


@pytest.mark.parametrize("shape", INSIGHTS)
def test_rows_of_application_insights_in_any_shape(shape):
    trace = one(*INSIGHTS[shape](insights()))
    assert trace.source.format == "appinsights"
    assert refund_facts(trace) == NO_TAGS | {"faults": [None, ""]}


def test_of_application_insights_an_exception_row_what_was_cut_and_what_is_not_there_are_told():
    rows = insights()
    ids = {"operation_Id": rows[3]["operation_Id"], "operation_ParentId": rows[3]["id"], "itemType": "exception"}
    error = {"type": "agent_common.RefundError", "outerMessage": "amount 45990 exceeds order total 4599 for A-1001"}
    assert (
        refund_facts(one(*rows, {"timestamp": rows[3]["timestamp"], "customDimensions": {}} | ids | error)) == NO_TAGS
    )
    held = rows[4]["customDimensions"]
    held["gen_ai.input.messages"] = held["gen_ai.input.messages"][:500]
    trace = one(*rows)
    assert (trace.missing, trace.model_calls[2].messages) == (("messages of model call 3",), ())
    assert any("cut short" in loss for loss in trace.losses)
    assert trace.tool_runs[0].seen == REFUND["seen"][0]
    for row in rows:
        held = row["customDimensions"]
        row["customDimensions"] = {key: held[key] for key in held if ".messages" not in key}
    with pytest.raises(TraceIncomplete, match="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"):
        read(*rows)
