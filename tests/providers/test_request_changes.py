"""One thing changed in a request: the model, the system text, a parameter, in every dialect; all else stays."""

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.request_changes import GROUPS, changed_call, parse_change
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Body, FrameCall, HttpCall, ToolCall
from pytest_agentreplay.providers import READER, list_ours

HI = {"role": "user", "content": "hi"}
OLD = "Be kind."
CHAT = {"model": "m-1", "messages": [{"role": "system", "content": OLD}, HI], "temperature": 1}
GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "systemInstruction": {"role": "user", "parts": [{"text": OLD}]},
    "generationConfig": {"temperature": 1, "topK": 3},
}
CONVERSE = {
    "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    "system": [{"text": OLD}, {"cachePoint": {"type": "default"}}],
    "inferenceConfig": {"temperature": 1},
}
CLAUDE = {"max_tokens": 9, "system": [{"type": "text", "text": OLD, "cache_control": {"type": "ephemeral"}}]}
CLAUDE |= {"messages": [HI], "temperature": 1}

# dialect, path, body, where the temperature stands
REQUESTS = {
    "openai": ("openai_chat", "/v1/chat/completions", CHAT, "temperature"),
    "azure": ("openai_chat", "/openai/deployments/m-1/chat/completions?api-version=1", CHAT, "temperature"),
    "responses": (
        "openai_responses",
        "/v1/responses",
        {"model": "m-1", "instructions": OLD, "input": [HI], "temperature": 1},
        "temperature",
    ),
    "responses items": (
        "openai_responses",
        "/v1/responses",
        {
            "model": "m-1",
            "input": [{"role": "developer", "content": [{"type": "input_text", "text": OLD}]}, HI],
            "temperature": 1,
        },
        "temperature",
    ),
    "anthropic": ("anthropic", "/v1/messages", {"model": "m-1", **CLAUDE}, "temperature"),
    "claude on vertex": ("anthropic", "/v1/projects/p/models/m-1:rawPredict", CLAUDE, "temperature"),
    "claude on bedrock": ("anthropic", "/model/m-1/invoke", CLAUDE, "temperature"),
    "gemini": ("gemini", "/v1beta/models/m-1:streamGenerateContent?alt=sse", GEMINI, "generationConfig.temperature"),
    "bedrock": ("bedrock", "/model/m-1/converse-stream", CONVERSE, "inferenceConfig.temperature"),
    "ollama": (
        "ollama_chat",
        "/api/chat",
        {key: value for key, value in CHAT.items() if key != "temperature"} | {"options": {"temperature": 1}},
        "options.temperature",
    ),
    "ollama generate": (
        "ollama_generate",
        "/api/generate",
        {"model": "m-1", "prompt": "hi", "system": OLD, "options": {"temperature": 1}},
        "options.temperature",
    ),
    "cohere": ("cohere", "/v2/chat", CHAT, "temperature"),
}


def request(path, body, *headers):
    data = json.dumps(body).encode()
    return HttpCall("POST", f"https://api.test{path}", (("Content-Length", str(len(data))), *headers), Body(data))


def flat(value, at=""):
    """Every leaf of a JSON value by its path."""
    if isinstance(value, dict):
        return {path: leaf for name, item in value.items() for path, leaf in flat(item, f"{at}.{name}").items()}
    if isinstance(value, list):
        return {path: leaf for n, item in enumerate(value) for path, leaf in flat(item, f"{at}[{n}]").items()}
    return {at: value}


def moved(before, after):
    """The leaves that two calls differ in, now; the URL is one."""
    old, new = (flat(json.loads(call.body.data)) | {"url": unquote(call.url)} for call in (before, after))
    assert old.keys() <= new.keys()
    return {path.lstrip("."): value for path, value in new.items() if path not in old or value != old[path]}


def test_every_model_dialect_has_a_row():
    asked = {dialect for dialect, *_ in REQUESTS.values()}
    no_models = {"embeddings", "rerank"}
    assert asked == GROUPS.keys() == {each.name for each in list_ours() if not no_models & {*each.name.split("_")}}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_model_changes_and_nothing_else(name):
    dialect, path, body, _ = REQUESTS[name]
    before = request(path, body)
    after = changed_call(before, {"model": "m-2/x:1"}, READER)
    expected = {"url": f"https://api.test{path.replace('m-1', 'm-2/x:1')}"} if "m-1" in path else {}
    assert moved(before, after) == expected | ({"model": "m-2/x:1"} if "model" in body else {})
    reading = READER.read_call(changed_call(before, {"model": "m-2"}, READER))
    assert (reading.dialect, reading.model) == (dialect, "m-2")
    assert dict(after.headers)["Content-Length"] == str(len(after.body))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_system_text_changes_and_nothing_else(name):
    _, path, body, _ = REQUESTS[name]
    before = request(path, body)
    after = changed_call(before, {"prompt": "Be brief.\nAlways."}, READER)
    assert list(moved(before, after).values()) == ["Be brief.\nAlways."]
    assert OLD not in after.body.data.decode()
    assert changed_call(after, {"prompt": "Be brief.\nAlways."}, READER) is after


@pytest.mark.parametrize("name", REQUESTS)
def test_a_parameter_changes_by_its_own_name_or_with_its_group(name):
    _, path, body, place = REQUESTS[name]
    before = request(path, body)
    for written in {"temperature", place}:
        assert moved(before, changed_call(before, {written: 0}, READER)) == {place: 0}
    above = place.rpartition("temperature")[0]
    assert moved(before, changed_call(before, {"x_think.effort": "low"}, READER)) == {f"{above}x_think.effort": "low"}


@given(
    name=st.sampled_from(sorted(REQUESTS)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    extra=st.dictionaries(st.sampled_from(["x_a", "x_b", "metadata"]), st.text() | st.floats(allow_nan=False)),
)
def test_what_is_not_named_stays_and_changing_twice_is_changing_once(name, value, extra):
    _, path, body, place = REQUESTS[name]
    before = request(path, {**body, **extra})
    once = changed_call(before, {"temperature": value}, READER)
    assert changed_call(once, {"temperature": value}, READER) is once
    *above, last = place.split(".")
    inside = json.loads(once.body.data)
    found = inside
    for part in above:
        found = found[part]
    assert found.pop(last) == value
    left = json.loads(before.body.data)
    (left[above[0]] if above else left).pop(last)
    assert inside == left
    assert once.url == before.url


def test_a_name_can_say_its_place():
    for name, change in (
        ("gemini", {"$.safetySettings": []}),
        ("bedrock", {"$.performanceConfig.latency": "optimized"}),
        ("ollama", {"$.keep_alive": "1m"}),
    ):
        before = request(*REQUESTS[name][1:3])
        after = json.loads(changed_call(before, change, READER).body.data)
        ((place, _),) = change.items()
        assert place.split(".")[1] in after


def test_calls_that_have_the_change_or_ask_no_model_are_the_same_objects():
    chat = request("/v1/chat/completions", CHAT)
    other = request("/v1/embeddings", {"model": "e-1", "input": "hi"})
    tool = ToolCall("look", {"model": "m-1"})
    plain = HttpCall("POST", "https://shop.test/orders", (), Body(b'{"model": "m-1"}'))
    assert changed_call(chat, {"model": "m-1", "temperature": 1, "prompt": OLD}, READER) is chat
    for call in (other, tool, plain):
        assert changed_call(call, {"model": "m-2", "temperature": 0, "prompt": "x"}, READER) is call
    assert changed_call(chat, {}, READER) is chat


SIGNED = ("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=00")


@pytest.mark.parametrize(
    ("call", "change", "why"),
    [
        (
            request("/model/m-1/converse", CONVERSE, SIGNED),
            {"model": "m-2"},
            "--replay-set model: the request is signed",
        ),
        (
            request("/v1/chat/completions", {"messages": [HI]}),
            {"model": "m-2"},
            "--replay-set model: the request names none",
        ),
        (request("/v1/chat/completions", {"model": "m", "messages": [HI]}), {"prompt": "x"}, "has no system text"),
        (request("/v1/chat/completions", CHAT), {"temperature.x": 1}, "temperature is no object in the request"),
        (ToolCall("ask", {}, boundary="model"), {"model": "m-2"}, "calls of this kind (model, in_process) stay"),
        (
            FrameCall("wss://api.openai.com/v1/realtime", 1, (), Body(b'{"type": "response.create"}')),
            {"temperature": 0},
            "stay as they are",
        ),
    ],
)
def test_what_cannot_be_changed_is_an_error_that_names_it(call, change, why):
    with pytest.raises(SettingsError) as caught:
        changed_call(call, change, READER)
    assert str(caught.value).startswith(f"--replay-set {next(iter(change))}: ")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("model=gpt-5", ("model", "gpt-5")),
        ("model=5", ("model", "5")),
        ("temperature=0", ("temperature", 0)),
        ("reasoning.effort = low", ("reasoning.effort", "low")),
        ('stop=["a", "b"]', ("stop", ["a", "b"])),
        ("$.keep_alive=1m", ("$.keep_alive", "1m")),
        ("seed=null", ("seed", None)),
        ("prompt=@prompts/new.txt", ("prompt", "@prompts/new.txt")),
    ],
)
def test_a_change_as_people_write_it(text, change):
    assert parse_change(text) == change


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("model", "write NAME=VALUE"),
        ("=x", "write NAME=VALUE"),
        ("model=", "write NAME=VALUE"),
        ("a b=1", "write NAME=VALUE"),
        ("stream=true", "--replay-set stream: the agent writes it"),
        ("messages=[]", "--replay-set messages: the agent writes it"),
        ("$.tools=[]", "--replay-set $.tools: the agent writes it"),
        ("system=x", "prompt=@FILE"),
        ("prompt=Be brief", "prompt=@FILE"),
    ],
)
def test_a_change_that_is_none_is_an_error(text, why):
    with pytest.raises(SettingsError) as caught:
        parse_change(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_list_of_system_texts_pins_the_nearest_one(name):
    """A line-up sends the recorded text; a request that has it, or has none, stays the very same."""
    _, path, body, _ = REQUESTS[name]
    call = request(path, body)
    assert changed_call(call, {"prompt": ["You write titles.", OLD]}, READER) is call
    pinned = changed_call(call, {"prompt": ["You write titles.", "Be kind!"]}, READER)
    assert list(moved(call, pinned).values()) == ["Be kind!"]
    assert changed_call(pinned, {"prompt": ["You write titles.", "Be kind!"]}, READER) is pinned
    bare = request("/v1/chat/completions", {"model": "m-1", "messages": [HI]})
    assert changed_call(bare, {"prompt": [OLD]}, READER) is bare
    assert list(moved(call, changed_call(call, {"prompt": []}, READER)).values()) == [""], "none is recorded"
