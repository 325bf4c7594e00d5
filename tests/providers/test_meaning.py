"""Two calls mean the same where nothing that is said differs: over all dialects, calm about spelling, strict about words."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Exchange, Header, HttpCall, Run, ToolCall
from pytest_agentreplay.providers import READER, RULES, encode, list_ours
from pytest_agentreplay.providers.meaning import ByBody, ByMeaning, normalize_call
from pytest_agentreplay.providers.rules import Rule
from tests.support.exchanges import call
from tests.traces.neutral import asks, gives, text

WRITTEN = sorted(dialect.name for dialect in list_ours() if dialect.writer)

SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
ARGUMENTS = {"order_id": "A-17", "deep": True}
RESULT = {"status": "late", "by": [1, 2]}
FUNCTION = {"name": "lookup", "description": "Where it is.", "parameters": SCHEMA}
ASKED, ANSWERED = text("user", "Where is it?"), gives(("call_1", RESULT))["parts"]
CONVERSATION = [text("system", "Be kind."), ASKED, asks(("call_1", "lookup", ARGUMENTS), words="I look.")]
CONVERSATION += [{"role": "user", "parts": [*ANSWERED, *text("user", "And now?")["parts"]]}]


def written(dialect):
    made = encode.request(dialect, model="m-1", messages=CONVERSATION, tools=[{"type": "function", **FUNCTION}])
    return made.url, json.loads(made.body.data)


def gemini():
    types = {"type": "OBJECT", "properties": {"order_id": {"type": "STRING"}}}
    return "https://a.example/v1beta/models/m-1:generateContent", {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Where is it?"}]},
            {"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "lookup", "args": ARGUMENTS}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": RESULT}}]},
            {"role": "user", "parts": [{"text": "And now?"}]},
        ],
        "tools": [{"functionDeclarations": [{**FUNCTION, "parameters": types}]}],
    }


def ollama():
    body = written("openai_chat")[1]
    body["messages"][2]["tool_calls"] = [{"function": {"name": "lookup", "arguments": ARGUMENTS}}]
    body["messages"][3] = {"role": "tool", "tool_name": "lookup", "content": json.dumps(RESULT)}
    return "http://127.0.0.1:11434/api/chat", body


def bodies(dialect):
    """The address and the body of the conversation in a dialect."""
    own = {"gemini": gemini, "ollama": ollama}
    if dialect == "cohere":
        return "https://api.cohere.com/v2/chat", written("openai_chat")[1]
    return own[dialect]() if dialect in own else written(dialect)


def meaning(url, body):
    return normalize_call(READER.read_call(call(body, url)))


def replaced(tree, old, new):
    """The tree with every text that holds `old` holding `new`; there must be something to change."""
    held, inner = json.dumps(tree), json.dumps(old)[1:-1]
    assert inner in held, f"{old} is not in {held}"
    return json.loads(held.replace(inner, json.dumps(new)[1:-1]))


def reordered(tree):
    if isinstance(tree, dict):
        return {name: reordered(tree[name]) for name in reversed(tree)}
    return [reordered(item) for item in tree] if isinstance(tree, list) else tree


OTHER_WORDS = {"Be kind.": "Be kind!", "Where is it?": "Where is it", "I look.": "I looked.", "And now?": "and now?"}
OTHER_WORDS |= {"A-17": "A-18", "late": "lost", "Where it is.": "Where it was.", "m-1": "m-2", "lookup": "look_up"}


@pytest.mark.parametrize(
    "dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "ollama", "cohere"]
)
def test_every_dialect_says_the_same_and_another_word_is_another_call(dialect):
    url, body = bodies(dialect)
    means = meaning(url, body)
    assert means == meaning(*bodies("openai_chat"))
    for old, new in OTHER_WORDS.items():
        other = (url.replace(old, new), body) if old in url else (url, replaced(body, old, new))
        assert meaning(*other) != means, old
    assert meaning(url, reordered(body)) == means, "the order of keys says nothing"
    if dialect not in {"gemini", "ollama"}:  # which join calls and results by the names of tools
        assert meaning(url, replaced(body, "call_1", "toolu_9")) == means


def block(words, **more):
    return {"type": "text", "text": words, **more}


WIDE = {"arguments": json.dumps(ARGUMENTS, indent=2)}
CACHED = block("Be kind.", cache_control={"type": "ephemeral"})
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/1.png"}}
REFUNDS = {"type": "function", "function": {"name": "refund"}}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "I look."}]}


def split(body):
    body["messages"].append({"role": "user", "content": [body["messages"][2]["content"].pop()]})


def instructed(body):
    body["input"].insert(0, {"role": "system", "content": body.pop("instructions")})


def required(body):
    body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"].update(required=["order_id"])


SPELLINGS = {
    "spaces in arguments": ("openai_chat", lambda b: b["messages"][2]["tool_calls"][0]["function"].update(WIDE)),
    "spaces in arguments of an item": ("openai_responses", lambda b: b["input"][2].update(WIDE)),
    "spaces in a result": ("openai_chat", lambda b: b["messages"][3].update(content=json.dumps(RESULT, indent=2))),
    "a developer speaks": ("openai_chat", lambda b: b["messages"][0].update(role="developer")),
    "one text block": ("openai_chat", lambda b: b["messages"][1].update(content=[block("Where is it?")])),
    "a result in a block": ("openai_chat", lambda b: b["messages"][3].update(content=[block(json.dumps(RESULT))])),
    "parameters": ("openai_chat", lambda b: b.update(temperature=0.5)),
    "a stream": ("openai_chat", lambda b: b.update(stream=True)),
    "a message as an item": ("openai_responses", lambda b: b["input"][1].update(SAID)),
    "instructions as the first message": ("openai_responses", instructed),
    "a block as a text": ("anthropic", lambda b: b["messages"][0].update(content="Where is it?")),
    "system in blocks": ("anthropic", lambda b: b.update(system=[block("Be kind.")])),
    "a mark of the cache": ("anthropic", lambda b: b.update(system=[CACHED])),
    "results in blocks": ("anthropic", lambda b: b["messages"][2]["content"][0].update(content=[block(json.dumps(RESULT))])),
    "two messages of one speaker": ("anthropic", split),
    "a thought": ("anthropic", lambda b: b["messages"][1]["content"].insert(0, THOUGHT)),
    "the mark of a failed result": ("anthropic", lambda b: b["messages"][2]["content"][0].update(is_error=True)),
    "a bare content": ("gemini", lambda b: b.update(system_instruction=b.pop("systemInstruction"))),
    "a result's status": ("bedrock", lambda b: b["messages"][2]["content"][0]["toolResult"].update(status="success")),
}  # fmt: skip
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


def test_another_spelling_is_the_same_call_and_another_content_is_another():
    wrong = []
    for name, (dialect, change) in (SPELLINGS | CHANGES).items():
        url, body = bodies(dialect)
        other = copy.deepcopy(body)
        change(other)
        assert other != body, name
        wrong += [name] if (meaning(url, other) == meaning(url, body)) is not (name in SPELLINGS) else []
    assert not wrong, wrong


def keyed(*calls, rules=RULES):
    run = Run(Header("t"), tuple(Exchange(one, None, at, None) for at, one in enumerate(calls, 1)))
    return ByMeaning(Matching(READER, rules), run).text


def test_what_the_trace_has_lost_is_not_compared_and_what_it_tells_is():
    url, body = bodies("openai_chat")

    def post(**changed):
        return call({name: value for name, value in (body | changed).items() if value}, url)

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
    assert len({key(ToolCall(*told)) for told in (("look", {"n": 1}), ("look", {"n": 2}), ("find", {"n": 1}))}) == 3


def test_by_its_body_a_call_is_the_json_of_it_wherever_it_goes():
    url, body = bodies("openai_chat")
    key = ByBody(Matching(READER, RULES)).text
    moved = call(json.dumps(reordered(body), indent=1).encode(), "http://127.0.0.1:9/proxy/v1/chat/completions")
    assert key(moved) == key(call(body, url))
    for other in (body | {"temperature": 0.5}, replaced(body, "call_1", "call_2")):
        assert key(call(other, url)) != key(call(body, url))
    assert key(HttpCall("GET", "https://a.example/1")) != key(HttpCall("GET", "https://a.example/2"))
    assert key(ToolCall("look", {"n": 1})) != key(ToolCall("look", {"n": 2}))


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9)
VALUES = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)
STEPS = st.lists(st.tuples(WORDS, st.lists(st.tuples(WORDS, VALUES, WORDS), max_size=2)), min_size=1, max_size=3)


def conversation(system, steps, prefix):
    """A conversation of `steps`, whose tool calls have ids that begin with `prefix`."""
    messages = [text("system", system)]
    for at, (words, calls) in enumerate(steps):
        made = [(f"{prefix}{at}-{number}", *one) for number, one in enumerate(calls)]
        messages += [text("user", words), asks(*(one[:3] for one in made), words="ok")]
        messages += [gives(*((known, f"r {result}") for known, *_, result in made))] if made else []
    return messages


def means(dialect, messages):
    return normalize_call(READER.read_call(encode.request(dialect, model="m-1", messages=messages)))


@given(system=WORDS, steps=STEPS, word=WORDS, data=st.data())
def test_any_conversation_means_the_same_in_two_dialects_under_any_ids_and_with_another_word_something_else(
    system, steps, word, data
):
    joined_by_ids = ["openai_chat", "openai_responses", "anthropic", "bedrock"]
    before, now = data.draw(st.sampled_from(joined_by_ids)), data.draw(st.sampled_from(joined_by_ids))
    assert means(before, conversation(system, steps, "a")) == means(now, conversation(system, steps, "call_"))
    dialect, other = data.draw(st.sampled_from(WRITTEN)), conversation(system, steps, "a")
    parts = [part for message in other for part in message["parts"] if part["type"] == "text"]
    data.draw(st.sampled_from(parts))["content"] += word
    assert means(dialect, conversation(system, steps, "a")) != means(dialect, other)
