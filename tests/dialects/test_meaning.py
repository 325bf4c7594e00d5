"""Two calls mean the same where nothing that is said differs: over all dialects, calm about spelling, strict about words."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import Exchange, Header, HttpCall, Run, ToolCall
from pytest_agentreplay.dialects import READER, RULES, encode
from pytest_agentreplay.dialects.meaning import ByBody, ByMeaning, said
from pytest_agentreplay.dialects.rules import Rule
from tests.interchange.neutral import asks, gives, text
from tests.support.exchanges import call

SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
ARGUMENTS = {"order_id": "A-17", "deep": True}
RESULT = {"status": "late", "by": [1, 2]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": json.dumps(ARGUMENTS)}}
FUNCTION = {"name": "lookup", "description": "Where it is.", "parameters": SCHEMA}


def openai_chat():
    return "/v1/chat/completions", {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Where is it?"},
            {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(RESULT)},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }


def openai_responses():
    return "/v1/responses", {
        "model": "m-1",
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "Where is it?"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": json.dumps(ARGUMENTS)},
            {"type": "function_call_output", "call_id": "call_1", "output": json.dumps(RESULT)},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [{"type": "function", **FUNCTION}],
    }


def anthropic():
    use = {"type": "tool_use", "id": "call_1", "name": "lookup", "input": ARGUMENTS}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": json.dumps(RESULT)}
    return "/v1/messages", {
        "model": "m-1",
        "max_tokens": 99,
        "system": "Be kind.",
        "messages": [
            {"role": "user", "content": "Where is it?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ],
        "tools": [{"name": "lookup", "description": "Where it is.", "input_schema": SCHEMA}],
    }


def gemini():
    return "/v1beta/models/m-1:generateContent", {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Where is it?"}]},
            {"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "lookup", "args": ARGUMENTS}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": RESULT}}]},
            {"role": "user", "parts": [{"text": "And now?"}]},
        ],
        "tools": [{"functionDeclarations": [{**FUNCTION, "parameters": upper(SCHEMA)}]}],
    }


def bedrock():
    use = {"toolUse": {"toolUseId": "call_1", "name": "lookup", "input": ARGUMENTS}}
    result = {"toolResult": {"toolUseId": "call_1", "content": [{"json": RESULT}], "status": "success"}}
    spec = {"name": "lookup", "description": "Where it is.", "inputSchema": {"json": SCHEMA}}
    return "/model/m-1/converse", {
        "system": [{"text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"text": "Where is it?"}]},
            {"role": "assistant", "content": [{"text": "I look."}, use]},
            {"role": "user", "content": [result, {"text": "And now?"}]},
        ],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
    }


def ollama():
    use = {"function": {"name": "lookup", "arguments": ARGUMENTS}}
    return "/api/chat", {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Where is it?"},
            {"role": "assistant", "content": "I look.", "tool_calls": [use]},
            {"role": "tool", "tool_name": "lookup", "content": json.dumps(RESULT)},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
    }


def cohere():
    return "/v2/chat", openai_chat()[1]


def upper(schema):
    told = {name: upper(value) if isinstance(value, dict) else value for name, value in schema.items()}
    return told | ({"type": schema["type"].upper()} if isinstance(schema.get("type"), str) else {})


DIALECTS = {one.__name__: one for one in (openai_chat, openai_responses, anthropic, gemini, bedrock, ollama, cohere)}
EVERY = pytest.mark.parametrize("dialect", DIALECTS)


def meaning(path, body):
    return said(READER.read_call(call(body, f"https://api.example{path}")))


def replaced(tree, old, new):
    """The tree with every text that holds `old` holding `new`; there must be something to change."""
    text, inner = json.dumps(tree), json.dumps(old)[1:-1]
    assert inner in text, f"{old} is not in {text}"
    return json.loads(text.replace(inner, json.dumps(new)[1:-1]))


def reordered(tree):
    if isinstance(tree, dict):
        return {name: reordered(tree[name]) for name in reversed(tree)}
    return [reordered(item) for item in tree] if isinstance(tree, list) else tree


OTHER_WORDS = {
    "Be kind.": "Be kind!",
    "Where is it?": "Where is it",
    "I look.": "I looked.",
    "And now?": "and now?",
    "A-17": "A-18",
    "late": "lost",
    "Where it is.": "Where it was.",
    "m-1": "m-2",
    "lookup": "look_up",
}


@EVERY
def test_every_dialect_says_the_same_and_another_word_is_another_call(dialect):
    path, body = DIALECTS[dialect]()
    means = meaning(path, body)
    assert means == meaning(*openai_chat())
    for old, new in OTHER_WORDS.items():
        other = (path.replace(old, new), body) if old in path else (path, replaced(body, old, new))
        assert meaning(*other) != means, old
    assert meaning(path, reordered(body)) == means, "the order of keys says nothing"
    if dialect not in {"gemini", "ollama"}:  # which join calls and results by the names of tools
        assert meaning(path, replaced(body, "call_1", "toolu_9")) == means


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "cohere"])
def test_spaces_in_the_json_of_arguments_and_results_say_nothing(dialect):
    path, body = DIALECTS[dialect]()
    wide = replaced(body, json.dumps(ARGUMENTS), json.dumps(ARGUMENTS, indent=2))
    wide = replaced(wide, json.dumps(RESULT), json.dumps(RESULT, separators=(",", ":")))
    assert wide != body
    assert meaning(path, wide) == meaning(path, body)


def block(words, **more):
    return {"type": "text", "text": words, **more}


CACHED = block("Be kind.", cache_control={"type": "ephemeral"})
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/1.png"}}
REFUNDS = {"type": "function", "function": {"name": "refund"}}


def split(body):
    body["messages"].append({"role": "user", "content": [body["messages"][2]["content"].pop()]})


def instructed(body):
    body["input"].insert(0, {"role": "system", "content": body.pop("instructions")})


def required(body):
    body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"].update(required=["order_id"])


SPELLINGS = {
    "a developer speaks": ("openai_chat", lambda b: b["messages"][0].update(role="developer")),
    "one text block": ("openai_chat", lambda b: b["messages"][1].update(content=[block("Where is it?")])),
    "a result in a block": ("openai_chat", lambda b: b["messages"][3].update(content=[block(json.dumps(RESULT))])),
    "instructions as the first message": ("openai_responses", instructed),
    "a text as a block": ("anthropic", lambda b: b["messages"][0].update(content=[block("Where is it?")])),
    "system in blocks": ("anthropic", lambda b: b.update(system=[block("Be kind.")])),
    "a mark of the cache": ("anthropic", lambda b: b.update(system=[CACHED])),
    "a result in blocks": (
        "anthropic",
        lambda b: b["messages"][2]["content"][0].update(content=[block(json.dumps(RESULT))]),
    ),
    "two messages of one speaker": ("anthropic", split),
    "a thought": ("anthropic", lambda b: b["messages"][1]["content"].insert(0, THOUGHT)),
    "a bare content": ("gemini", lambda b: b.update(system_instruction=b.pop("systemInstruction"))),
    "the mark of a failed result": ("anthropic", lambda b: b["messages"][2]["content"][0].update(is_error=True)),
    "parameters": ("openai_chat", lambda b: b.update(temperature=0.5)),
    "a stream": ("openai_chat", lambda b: b.update(stream=True)),
}
CHANGES = {
    "a message less": ("openai_chat", lambda b: b["messages"].pop()),
    "a message twice": ("openai_chat", lambda b: b["messages"].append(b["messages"][-1])),
    "another speaker": ("openai_chat", lambda b: b["messages"][1].update(role="assistant")),
    "two in another order": ("openai_chat", lambda b: b["messages"].insert(0, b["messages"].pop(1))),
    "no instructions": ("anthropic", lambda b: b.pop("system")),
    "a text to the result": ("anthropic", lambda b: b["messages"][2]["content"].insert(1, block("x"))),
    "a number for a text": ("anthropic", lambda b: b["messages"][1]["content"][1]["input"].update(deep="true")),
    "an argument more": ("gemini", lambda b: b["contents"][1]["parts"][1]["functionCall"]["args"].update(user="u-7")),
    "a parameter more": ("bedrock", required),
    "a tool more": ("openai_chat", lambda b: b["tools"].append(REFUNDS)),
    "no tools": ("openai_chat", lambda b: b.pop("tools")),
    "another picture": ("openai_chat", lambda b: b["messages"][1].update(content=[PICTURE])),
}


@pytest.mark.parametrize("change", [*SPELLINGS, *CHANGES])
def test_another_spelling_is_the_same_call_and_another_content_is_another(change):
    dialect, do = (SPELLINGS | CHANGES)[change]
    path, body = DIALECTS[dialect]()
    other = copy.deepcopy(body)
    do(other)
    assert other != body
    assert (meaning(path, other) == meaning(path, body)) is (change in SPELLINGS)


def run_of(*calls):
    return Run(Header("t"), tuple(Exchange(call, None, at + 1, None) for at, call in enumerate(calls)))


def keyed(*calls, rules=RULES):
    return ByMeaning(Matching(READER, rules), run_of(*calls)).text


def test_what_the_trace_has_lost_is_not_compared_and_what_it_tells_is():
    path, body = openai_chat()

    def post(**changed):
        return call({name: value for name, value in (body | changed).items() if value}, f"https://api.example{path}")

    now, toolless = post(), post(tools=[])
    assert keyed(toolless)(toolless) == keyed(toolless)(now)
    assert keyed(now)(toolless) != keyed(now)(now)
    plain, tooled = post(messages=body["messages"][:2], tools=[]), post(messages=body["messages"][:2])
    assert keyed(plain)(plain) != keyed(plain)(tooled), "a run in which no tool was used may well have had none"
    nameless = post(tools=[{"type": "function", "function": {"name": "lookup"}}])
    assert keyed(nameless)(nameless) == keyed(nameless)(now)


def test_ignored_places_are_left_out_of_calls_and_arguments():
    ignored = [Rule(scope, "body", "$.now", "drop", "a test", "a test") for scope in ("http", "tool")]
    key = keyed(rules=(*RULES, *ignored))
    assert key(ToolCall("look", {"n": 1, "now": 5})) == key(ToolCall("look", {"n": 1, "now": 6}))
    assert key(ToolCall("look", {"n": 1})) != key(ToolCall("look", {"n": 2}))
    assert key(ToolCall("look", {"n": 1})) != key(ToolCall("find", {"n": 1}))


def test_by_its_body_a_call_is_the_json_of_it_wherever_it_goes():
    path, body = openai_chat()
    key = ByBody(Matching(READER, RULES)).text
    plain = key(call(body, f"https://api.example{path}"))
    assert key(call(json.dumps(reordered(body), indent=1).encode(), f"http://127.0.0.1:9/proxy{path}")) == plain
    for other in (body | {"temperature": 0.5}, replaced(body, "call_1", "call_2")):
        assert key(call(other, f"https://api.example{path}")) != plain
    assert key(HttpCall("GET", "https://a.example/1")) != key(HttpCall("GET", "https://a.example/2"))
    assert key(ToolCall("look", {"n": 1})) != key(ToolCall("look", {"n": 2}))


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)
VALUES = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)
STEPS = st.lists(st.tuples(WORDS, st.lists(st.tuples(WORDS, VALUES, WORDS), max_size=2)), min_size=1, max_size=3)


def conversation(system, steps, prefix):
    """A conversation of `steps`, whose tool calls have ids that begin with `prefix`."""
    messages = [text("system", system)]
    for at, (words, calls) in enumerate(steps):
        ids = [f"{prefix}{at}-{number}" for number in range(len(calls))]
        uses = asks(*((known, name, given) for known, (name, given, _) in zip(ids, calls, strict=True)))["parts"]
        assistant = text("assistant", "ok")
        messages += [text("user", words), assistant | {"parts": [*assistant["parts"], *uses]}]
        results = gives(*((known, f"r {result}") for known, (_, _, result) in zip(ids, calls, strict=True)))
        messages += [results] if calls else []
    return messages


@settings(max_examples=40)
@given(system=WORDS, steps=STEPS, data=st.data())
def test_any_conversation_means_the_same_in_any_two_dialects_under_any_ids(system, steps, data):
    written = ["openai_chat", "openai_responses", "anthropic", "bedrock"]
    before, now = data.draw(st.sampled_from(written)), data.draw(st.sampled_from(written))
    calls = [
        encode.request(dialect, model="m-1", messages=conversation(system, steps, prefix))
        for dialect, prefix in ((before, "a"), (now, "call_"))
    ]
    assert said(READER.read_call(calls[0])) == said(READER.read_call(calls[1]))


@settings(max_examples=40)
@given(system=WORDS, steps=STEPS, word=WORDS, data=st.data())
def test_any_other_word_in_it_is_another_meaning(system, steps, word, data):
    dialect = data.draw(st.sampled_from(sorted(encode.SPOKEN)))
    other = copy.deepcopy(conversation(system, steps, "a"))
    parts = [part for message in other for part in message["parts"] if part["type"] == "text"]
    part = data.draw(st.sampled_from(parts))
    part["content"] += word
    before = encode.request(dialect, model="m-1", messages=conversation(system, steps, "a"))
    now = encode.request(dialect, model="m-1", messages=other)
    assert said(READER.read_call(before)) != said(READER.read_call(now))
