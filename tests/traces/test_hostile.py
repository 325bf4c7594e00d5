"""Files from strangers, damaged or made to hurt: they give runs or one TraceError in a line, within bounds."""

from __future__ import annotations

import gzip
import json
import zipfile
from functools import cache, reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.traces import opening
from pytest_agentreplay.traces.formats import Opened
from pytest_agentreplay.traces.reading import formats, traces
from tests.traces.neutral import INSPECT_JSON, TRACES, packed
from tests.traces.test_logs_codex import RUN as CODEX
from tests.traces.test_logs_joined import REPLIES, REQUESTS, TOLD, USER, blueprint
from tests.traces.test_spans_families import span, tool

PACKED = sorted(path for top in ("generated", "public") for path in (TRACES / top).rglob("*.*") if path.is_file())
FILES = [path.relative_to(TRACES).as_posix() for path in PACKED]
MADE = {"codex": CODEX, "batch": opening.open_trace(REQUESTS + b"\n" + REPLIES, file="batch").rows}
MADE |= {"blueprints": [blueprint(1, USER, TOLD)]}
NAMES = [*(file for file in FILES if not file.endswith(".eval")), *MADE]
ODD = [
    *(None, True, 0, -1, 10**30, 1e308, float("nan"), float("inf"), "", "x", "[1,", '{"a": 1}', "\ud800", "{", '"'),
    *("\x00unknown", "https://u:p@[::1/?key=1", "weave:///x", "2026-13-45T99:99:99", "{'a': 1}", [], [None], [[]], {}),
    *([{}], [[0, 10**9]] * 3, {"": None}, {"type": "text"}, {"role": "assistant", "content": [7]}, {"role": []}),
    {"lc": 1, "id": 7},
]
QUIET = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def imported(data, name="x", wanted=""):
    """The runs in `data`, each looked at; or the error, which is one line that no terminal acts on."""
    try:
        found = traces([(name, data)], wanted)
    except TraceError as refused:
        error = refused
    else:
        assert all(trace.source.format for trace in found)
        repr(found)
        return found
    assert name in str(error)
    assert not {"\n", "\x1b"} & {*str(error)}
    return error


def by_every_format(rows):
    """A format that somebody names may be the wrong one: each says whether it fits, and reads or refuses."""
    held = Opened("any.json", b"", tuple(rows))
    for one in formats():
        assert isinstance(one.fits(held), bool)
        try:
            repr([*one.read(held)])
        except TraceError as refused:
            said = str(refused)
        else:
            said = ""
        assert "\n" not in said


@cache
def rows_of(name):
    return json.dumps(MADE.get(name) or opening.open_trace((TRACES / name).read_bytes(), file=name).rows)


def places(value):
    """Every container in a tree, with each of its keys."""
    waiting, found = [value], []
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        found += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    return found


@st.composite
def damaged(draw, name):
    """The rows of a file in which a few values are gone, others, wrapped, written as text or taken from elsewhere."""
    rows = json.loads(rows_of(name))
    for _ in range(draw(st.integers(1, 6))):
        held = places(rows)
        holder, key = draw(st.sampled_from(held)) if held else ([None], 0)
        match draw(st.integers(0, 5)):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1:
                holder[key] = [holder[key]]
            case 2:
                holder[key] = json.dumps(holder[key])
            case 3 if held:
                other, place = draw(st.sampled_from(held))
                holder[key] = json.loads(json.dumps(other[place]))
            case _:
                holder[key] = json.loads(json.dumps(draw(st.sampled_from(ODD))))
    return rows


INSIDE = [b"", b"\x00", b"}", b'"', b"\xff\xfe", b"!!python/object:os.system", b"&a [*a]"]


SPANS = ("otel-", "open", "langfuse/otlp", "promptlayer/otlp", "phoenix", "appinsights")
PLATFORMS = ("langsmith", "mlflow", "opik", "braintrust", "weave", "galileo", "openai-agents", "public/langfuse")
FAMILIES = [[name for name in NAMES if any(word in name for word in words)] for words in (SPANS, PLATFORMS, ("",))]


def each(names):
    """The files by themselves, each tried as often as a family is."""
    return [pytest.param([name], id=name, marks=pytest.mark.exhaustive) for name in names]


@pytest.mark.parametrize("files", [*FAMILIES, *each(NAMES)])
@settings(QUIET, max_examples=40)
@given(data=st.data())
def test_any_value_may_stand_anywhere_or_be_missing(files, data):
    name = data.draw(st.sampled_from(files))
    rows = data.draw(damaged(name))
    imported("\n".join(json.dumps(row) for row in rows).encode())
    if name in MADE or len(rows_of(name)) < 50_000:
        by_every_format(rows)


@pytest.mark.parametrize("files", [FILES, *each(FILES)])
@settings(QUIET, max_examples=40)
@given(data=st.data())
def test_any_bytes_may_be_cut_or_changed(files, data):
    whole = (TRACES / data.draw(st.sampled_from(files))).read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    instead = data.draw(st.sampled_from(INSIDE) | st.binary(max_size=4))
    imported(whole[:at] + instead + whole[at + data.draw(st.integers(0, 40)) :])
    imported(whole[:at])


def test_a_format_that_somebody_names_may_be_the_wrong_one():
    archive = packed({"a.txt": b"nothing"})
    small = [file.read_bytes() for file in PACKED if file.stat().st_size < 20_000][::4]
    for form in formats():
        for data in (b"", b"[]", b"{}", b"[[]]", b'{"a": 1}', b"\x00\xff", archive, *small):
            imported(data, wanted=form.name)


def lying_archive():
    """An archive that says that it is small."""
    data = bytearray(packed({"header.json": b" " * (1 << 20)}, compression=zipfile.ZIP_DEFLATED))
    place = data.rfind(b"PK\x01\x02") + 24
    assert int.from_bytes(data[place : place + 4], "little") == 1 << 20
    data[place : place + 4] = (10).to_bytes(4, "little")
    return bytes(data)


def deep(levels):
    """A span with a value of lists in lists."""
    value = '{"arrayValue": {"values": [' * levels + '{"stringValue": "x"}' + "]}}" * levels
    return json.dumps(tool(1, "HERE")).replace('{"stringValue": "HERE"}', value).encode()


LAUGHS = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
LAUGHS += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
REFUSED = {
    "a list without end": (b"[" * 100_000 + b"]" * 100_000, "neither JSON"),
    "a list in a HAR": (b'{"log": ' + b"[" * 500 + b"]" * 500 + b"}", "nested deeper than 200"),
    "a number": (b'{"interactions": [' + b"{}," * 20 + b"{}]" + b',"x":' + b"9" * 5000 + b"}", "neither JSON"),
    "many brackets": (lambda: b"[" + b"[]," * (opening.FULLEST // 3 + 1) + b"[]]", "16,000,000 brackets and commas"),
    "a bomb": (lambda: gzip.compress(b"0" * (opening.LARGEST + 1), 1), "bytes are not read"),
    "a cut gzip": (gzip.compress(b'{"a": 1}')[:-9], "ends too early"),
    "many in one": (lambda: gzip.compress(b"{}") * (opening.MEMBERS + 1), "more than 10,000 files in one"),
    "packed four times": (reduce(lambda data, _: gzip.compress(data), range(4), b"{}"), "packed more than 3 times"),
    "no zstandard": (b"\x28\xb5\x2f\xfd no frame", "not packed by zstandard so that"),
    "no archive": (b"PK\x03\x04 no archive", "no archive that can be unpacked"),
    "a small archive": (lying_archive(), "Bad CRC-32"),
    "an archive of many": (
        lambda: packed(dict.fromkeys(map(str, range(opening.MEMBERS + 1)), b"")),
        "more than 10,000 files",
    ),
    "an alias in itself": (b"interactions: &a [*a]", r"\*a names nothing before it"),
    "an alias of nothing": (b"interactions: [*nobody]", r"\*nobody names nothing"),
    "a billion aliases": ("\n".join(LAUGHS).encode(), "more than 500,000 values, aliases spelled out"),
    "binary": (b"a: !!binary '%%%%%'", "no base64"),
    "a time": (b"a: !!timestamp 2026-11-20", "only !!binary and !!str"),
    "a bare text": (b"hello", "is a bare text"),
    "two documents": (b"a: 1\n--- \nb: 2\n", "more than one document"),
    "an object of Python": (b"interactions:\n- request: !!python/object/apply:os.system ['true']\n", "tag"),
    **{f"{levels} values in each other": (deep(levels), "^x: ") for levels in (100, 300, 5000)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_made_to_hurt_are_refused(name):
    data, said = REFUSED[name]
    with pytest.raises(TraceError, match=said):
        traces([("x", data() if callable(data) else data)])


def test_yaml_may_be_larger_than_a_policy_and_not_larger_than_its_bound():
    big = "interactions: [{request: {uri: x, body: '" + "x" * (2 << 20) + "'}}]"
    assert (
        len(strict_yaml.load_foreign(big, file="x", error=TraceError)["interactions"][0]["request"]["body"]) == 2 << 20
    )
    with pytest.raises(TraceError, match="larger than 67,108,864 characters"):
        strict_yaml.load_foreign(" " * (strict_yaml.FOREIGN_LARGEST + 1), file="x", error=TraceError)


def test_names_in_an_archive_open_nothing():
    sample = {"samples/../../../etc/passwd.json": '{"id": 1, "events": []}'}
    (trace,) = traces([("x", packed({"header.json": '{"eval": {}, "plan": {}, "status": "success"}'} | sample))])
    assert (trace.steps, trace.metadata["sample"]) == ((), 1)


def test_references_may_not_copy_a_table_without_end():
    log = json.loads((TRACES / "generated" / INSPECT_JSON).read_text("utf-8"))
    for event in log["samples"][0]["events"]:
        if event["event"] == "model":
            event |= {"input_refs": [[0, 6]] * 1000, "call": {**event["call"], "call_refs": [[0, 6]] * 1000}}
    (trace,) = imported(json.dumps(log).encode())
    assert max(len(call.messages) for call in trace.model_calls) < 50


def ring(*names):
    """Runs that are each other's parents."""
    common = {"inputs": {"messages": [{"role": "user", "content": "Hi"}]}, "outputs": {"role": "assistant"}}
    parents = zip(names, (*names[1:], names[0]), strict=True)
    return [{"id": one, "parent_run_id": other, "run_type": "llm", **common} for one, other in parents]


def nest(key, inner):
    for _ in range(150):
        inner = {"type": "trace", "spans": [], "run_type": "chain", "id": "x", "trace_id": "t", key: [inner]}
    return inner


def nested_arguments(levels):
    """Spans whose arguments are JSON in a text, of objects in objects."""
    spans = (TRACES / "generated/otel-genai/otlp_refund_spanonly.jsonl").read_text(encoding="utf-8")
    asked, value = '{\\"order_id\\":\\"A-1001\\"}', '{\\"a\\":' * levels + "1" + "}" * levels
    assert asked in spans
    return [json.loads(line) for line in spans.replace(asked, value).splitlines()]


FAR = f"gen_ai.prompt.{10**9 - 1}"
MODEL = {"gen_ai.request.model": "m", "gen_ai.system": "openai"}
RUN = {"id": "1", "run_type": "tool", "trace_id": "t", "name": "t", "outputs": {"output": 1}}
ROW = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "x"}}
DEEP_ERROR = '{"error":' * 100 + "1" + "}" * 100
HOSTILE = {
    "a list with one far place": [span(1, "x", {f"{FAR}.role": "user", f"{FAR}.content": "x"} | MODEL)],
    "numbers that are no places": [span(1, "x", {"gen_ai.prompt.²³.role": "user"} | MODEL)],
    "a span that is its own parent": [tool(1, parent=1)],
    "two spans that are each other's parent": [tool(1, parent=2), tool(2, parent=1)],
    "times beyond all bounds": [tool(1, startTimeUnixNano="9" * 400, endTimeUnixNano=-1)],
    "an escape in a name": [tool(1, "\x1b[2J")],
    "a number of thousands of digits": [tool(1, result='{"a": ' + "9" * 5000 + "}")],
    "half a character": [tool(1, "\ud83d", result="\ude00")],
    "a ring of parents": ring("a", "b", "c"),
    "its own parent": ring("a"),
    "many children": [nest("child_runs", {"id": "z", "run_type": "tool", "inputs": {"a": 1}, "trace_id": "t"})],
    "many spans": [nest("spans", {"type": "llm", "input": "Hi", "output": "Hi"})],
    "many outputs": [{**ring("a")[0], "outputs": nest("output", {})}],
    "many exceptions": [{"op_name": "weave:///a/b/op/c:1", "id": "1", "trace_id": "t", "exception": DEEP_ERROR}],
    "a long repr": [{**RUN, "inputs": {"input": "[" * 90_000}}],
    **{f"JSON in a text, {levels} deep": nested_arguments(levels) for levels in (500, 900, 50_000)},
    "rows whose parents go in a ring": [ROW | {"uuid": str(n), "parentUuid": str((n + 1) % 3)} for n in range(3)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_are_read_or_refused(name):
    imported("\n".join(map(json.dumps, HOSTILE[name])).encode())
    by_every_format(HOSTILE[name])


def test_a_repr_is_read_and_never_run(tmp_path):
    ran = tmp_path / "ran"
    text = f"__import__('pathlib').Path({str(ran)!r}).write_text('x')"
    for written in (text, f"{{'a': {text}}}", f"[{text}]"):
        by_every_format([{**RUN, "inputs": {"input": written}}])
    assert not ran.exists()
