"""Files that were made to hurt: whatever a file holds, an import gives runs or a TraceError, within bounds."""

import gzip
import json
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.codec import foreign_yaml
from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange import opening
from pytest_agentreplay.interchange.logs import FORMATS
from pytest_agentreplay.interchange.reading import traces
from tests.interchange.test_logs_codex import RUN as CODEX
from tests.interchange.test_logs_joined import REPLIES, REQUESTS, TOLD, USER, blueprint

HERE = Path(__file__).parent / "traces"
INSPECT_JSON = "generated/inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json"
OURS = (
    *("generated/vcrpy/*", "generated/har/*", "generated/openai/*", "generated/anthropic/*", "generated/inspect-ai/*"),
    *("generated/openai-agents/*_list.json", "generated/openai-agents/raw_*", "generated/promptlayer/track_*"),
    *("generated/_synthesised/[bhv]*", "public/cagent/*", "public/claude-code/*", "public/waza/*"),
)
SAMPLES = sorted(file for pattern in OURS for file in HERE.glob(pattern))
ROWS = {file.name: opening.opened(file.read_bytes(), file=file.name).rows for file in SAMPLES if file.suffix != ".eval"}
ROWS |= {"codex": tuple(CODEX), "batch": opening.opened(REQUESTS + b"\n" + REPLIES, file="batch").rows}
ROWS |= {"blueprints": (blueprint(1, USER, TOLD),)}
ODD = [
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    "",
    "x",
    "[1,",
    '{"a": 1}',
    "\ud800",
    "\x00unknown",
    "https://u:p@[::1/?key=1",
    [],
    [None],
    [[0, 10**9]] * 3,
    {},
    {"": None},
    {"type": "text"},
    {"role": "assistant", "content": [7]},
]


def imported(data, name="x", wanted=""):
    """The runs in `data`, each looked at; or the error."""
    try:
        found = traces([(name, data)], wanted)
    except TraceError as refused:
        error = refused
    else:
        error = None
    if error is not None:
        assert "\n" not in str(error)
        return error
    for trace in found:
        assert trace.source.format
        repr(trace)
    return found


def spots(value, path=()):
    """Every place in a value."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from spots(item, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    key, *rest = path
    copy = value.copy()
    copy[key] = changed(value[key], rest, new)
    return copy


ZIP = BytesIO()
with zipfile.ZipFile(ZIP, "w") as held:
    held.writestr("a.txt", "nothing")


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_format_that_somebody_names_may_be_the_wrong_one(form):
    others = [b"", b"[]", b"{}", b"[[]]", b'{"a": 1}', b"\x00\xff", ZIP.getvalue()]
    for data in (*others, *(file.read_bytes() for file in SAMPLES[::3])):
        imported(data, wanted=form.name)


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_value_may_stand_anywhere(name, data):
    rows = list(ROWS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(spots(rows))))
        rows = changed(rows, path, data.draw(st.sampled_from(ODD))) if path else rows
    imported("\n".join(json.dumps(row) for row in rows).encode())


@pytest.mark.parametrize("name", [Path(INSPECT_JSON).name, "openai_refund.json", "mitmproxy_openai_anthropic.har"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_key_may_be_missing(name, data):
    rows = list(ROWS[name])
    keys = [path for path in spots(rows) if path and isinstance(path[-1], str)]
    for path in data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4)):
        holder = rows
        for key in path[:-1]:
            holder = holder[key] if not isinstance(holder, dict) or key in holder else {}
        rows = (
            changed(rows, path[:-1], {k: v for k, v in holder.items() if k != path[-1]}) if path[-1] in holder else rows
        )
    imported("\n".join(json.dumps(row) for row in rows).encode())


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_bytes_may_be_cut_or_changed(file, data):
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    instead = data.draw(
        st.sampled_from([b"", b"\x00", b"}", b'"', b"\xff\xfe", b"!!python/object:os.system", b"&a [*a]"])
    )
    imported(whole[:at] + instead + whole[at + data.draw(st.integers(0, 3)) :])
    imported(whole[:at])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "neither JSON"),
        (b'{"log": ' + b"[" * 500 + b"]" * 500 + b"}", "nested deeper than 200"),
        (b'{"interactions": [' + b"{}," * 20 + b"{}]" + b',"x":' + b"9" * 5000 + b"}", "neither JSON"),
        (gzip.compress(b"0" * (opening.LARGEST + 1)), "bytes are not read"),
        (gzip.compress(b'{"a": 1}')[:-9], "ends too early"),
        (gzip.compress(b"{}") * (opening.MEMBERS + 1), "more than 10,000 files in one"),
        (gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"{}")))), "packed more than 3 times"),
        (b"\x28\xb5\x2f\xfd no frame", "not packed by zstandard so that"),
        (b"PK\x03\x04 no archive", "no archive that can be unpacked"),
        (b"interactions: &a [*a]", r"\*a names nothing before it"),
        (b"interactions: [*nobody]", r"\*nobody names nothing"),
        (b"a: !!binary '%%%%%'", "no base64"),
        (b"a: !!timestamp 2026-11-20", "only !!binary and !!str"),
        (b"a: 1\n--- \nb: 2\n", "more than one document"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_are_made_to_hurt_are_refused(data, said):
    with pytest.raises(TraceError, match=said):
        traces([("x", data)])


def test_more_values_than_a_file_may_hold():
    data = b"[" + b"[]," * (opening.FULLEST // 3 + 1) + b"[]]"

    with pytest.raises(TraceError, match="16,000,000 brackets and commas"):
        traces([("x", data)])


def test_a_few_lines_cannot_name_a_billion_values():
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]

    with pytest.raises(TraceError, match="more than 500,000 values, its aliases spelled out"):
        traces([("x", "\n".join(lines).encode())])


def test_yaml_may_be_larger_than_a_policy_and_not_larger_than_its_bound():
    big = "interactions: [{request: {uri: x, body: '" + "x" * (2 << 20) + "'}}]"

    assert len(foreign_yaml.load(big, file="x", error=TraceError)["interactions"][0]["request"]["body"]) == 2 << 20
    with pytest.raises(TraceError, match="larger than 67,108,864 characters"):
        foreign_yaml.load(" " * (foreign_yaml.LARGEST + 1), file="x", error=TraceError)


def test_an_archive_that_says_it_is_small_is_read_as_far_as_it_says():
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", b" " * (1 << 20))
    data = bytearray(held.getvalue())
    place = data.rfind(b"PK\x01\x02") + 24
    assert int.from_bytes(data[place : place + 4], "little") == 1 << 20
    data[place : place + 4] = (10).to_bytes(4, "little")

    error = imported(bytes(data))

    assert isinstance(error, TraceError)


def test_an_archive_of_too_many_files():
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for number in range(opening.MEMBERS + 1):
            file.writestr(f"{number}", b"")

    with pytest.raises(TraceError, match="more than 10,000 files"):
        traces([("x", held.getvalue())])


def test_names_in_an_archive_open_nothing():
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("header.json", json.dumps({"eval": {}, "plan": {}, "status": "success"}))
        file.writestr("samples/../../../etc/passwd.json", json.dumps({"id": 1, "events": []}))

    (trace,) = traces([("x", held.getvalue())])

    assert (trace.steps, trace.metadata["sample"]) == ((), 1)


def test_the_parents_of_rows_may_go_in_a_ring():
    rows = [
        {
            "type": "user",
            "uuid": str(n),
            "parentUuid": str((n + 1) % 3),
            "sessionId": "s",
            "message": {"role": "user", "content": "x"},
        }
        for n in range(3)
    ]

    assert not isinstance(imported("\n".join(map(json.dumps, rows)).encode()), TraceError)


def test_references_may_not_copy_a_table_without_end():
    log = json.loads((HERE / INSPECT_JSON).read_text("utf-8"))
    for event in log["samples"][0]["events"]:
        if event["event"] == "model":
            event |= {"input_refs": [[0, 6]] * 1000, "call": {**event["call"], "call_refs": [[0, 6]] * 1000}}

    (trace,) = imported(json.dumps(log).encode())

    assert max(len(call.messages) for call in trace.model_calls) < 50
