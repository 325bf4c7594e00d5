"""Models, retrievers and memories that are no HTTP call: recorded, replayed, told apart from tools."""

import pytest

from tests.support.small_projects import edited, flat, furnished, passed, recorded, runs, summary

LLM = '''
import asyncio, os, pathlib

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
CORPUS = {"doc-17": "Orders ship in two days.", "doc-4": "Refunds take a week.", "doc-9": "We sell shoes."}

def note(line):
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

def generate(prompt: str, *, system: str = "Be brief.", temperature: float = 0.2) -> str:
    note("generate")
    return f"{len(prompt)} letters"

def stream(messages: list, tools: list = ()):
    note("stream")
    yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "It "}}]}
    yield {"choices": [{"index": 0, "delta": {"content": "ships."}, "finish_reason": "stop"}]}

async def chat(messages: list):
    note("chat")
    await asyncio.sleep(0)
    return {
        "model": "qwen-served",
        "choices": [{"message": {"role": "assistant", "tool_calls": [
            {"id": "call_abcdef", "type": "function", "function": {"name": "lookup", "arguments": "{\\"id\\": 7}"}}
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3},
    }

class Store:
    """A vector store whose vectors are sets of words."""

    def search(self, query: str, k: int = 2) -> list:
        note("search")
        def score(text):
            words = [set(each.lower().strip("?.").split()) for each in (query, text)]
            return len(words[0] & words[1]) / len(words[0])
        found = sorted(CORPUS, key=lambda key: -score(CORPUS[key]))[:k]
        return [{"id": key, "score": score(CORPUS[key]), "content": CORPUS[key]} for key in found]

def recall(text):
    note("recall")
    return [("She likes shoes.", 0.9)]

def lookup(id: int):
    note("lookup")
    return {"status": "late"}

def answer(question, change=""):
    now = change if os.environ.get("CHANGED") else ""
    chunks = Store().search(question + ("!" if now == "query" else ""))
    memory = [("She likes shoes.", 0.9)] if now == "left_out" else recall(question)
    prompt = ("Hey. " if now == "prompt" else "") + question + chunks[0]["content"] + memory[0][0]
    said = generate(prompt, **{"parameter": {"temperature": 0.9}, "system": {"system": "Be long."}}.get(now, {}))
    message = asyncio.run(chat([{"role": "user", "content": said}]))["choices"][0]["message"]
    result = str(lookup(7)) + ("." if now == "tool_result" else "")
    told = {"role": "tool", "tool_call_id": "call_abcdef", "content": result}
    parts = stream([{"role": "user", "content": said}, message, told])
    return "".join(part["choices"][0]["delta"]["content"] for part in parts)
'''

TEST = """
import llm

def test_answer(agentreplay):
    assert llm.answer("When do orders ship?") == "It ships."
    run = agentreplay.run
    assert [turn.model for turn in run.model_calls] == ["qwen", "chat", "stream"]
    assert [turn.text for turn in run.model_calls] == ["60 letters", "", "It ships."]
    assert run.model_calls[1].usage == {"input_tokens": 11, "output_tokens": 3}
    assert run.model_calls[1].tool_uses[0].name == "lookup"
    run.assert_tool_calls(["lookup"])
    search, recalled = run.retrievals
    assert (search.name, search.query, search.embedding_model) == ("search", "When do orders ship?", "letters-1")
    assert [chunk.id for chunk in search.chunks] == ["doc-17", "doc-4"]
    assert search.chunks[0].content == "Orders ship in two days." and search.chunks[0].score == 0.5
    assert recalled.chunks[0].content == "She likes shoes." and recalled.chunks[0].score == 0.9
    assert run.final_text == "It ships."
"""

CHANGES = """
import llm, pytest

@pytest.mark.parametrize("change", ["query", "prompt", "parameter", "system", "tool_result", "left_out"])
def test_changed(agentreplay, change):
    llm.answer("When do orders ship?", change)
"""

INI = """agentreplay_tools =
    llm.lookup
    llm.generate = model qwen@2024-09
    llm.chat = model
    llm.stream = model
    llm.Store.search = retrieval letters-1
    llm.recall = retrieval
"""

FIXTURE = """
import llm, pytest

@pytest.fixture
def met(agentreplay):
    agentreplay.tool(llm.lookup)
    agentreplay.model(llm.generate, name="qwen", version="2024-09", provider="llama.cpp", parameters={"quant": "q4"})
    agentreplay.model(llm.chat), agentreplay.model(llm.stream)
    agentreplay.retrieval(llm.Store.search, embedding_model="letters-1")
    agentreplay.retrieval(llm.recall)

@pytest.mark.usefixtures("met")
"""

MARKER = """
import llm, pytest

@pytest.mark.agentreplay(
    tools={
        "llm.lookup": "write",
        "llm.generate": "model qwen@2024-09",
        "llm.chat": "model",
        "llm.stream": "model",
        "llm.Store.search": "retrieval letters-1",
        "llm.recall": "retrieval",
    },
)
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    return recorded(furnished(shared_project(), INI, llm=LLM, test_shop=TEST, test_changes=CHANGES))


def test_models_and_retrievals_are_frozen_and_told_as_such(shop):
    assert sorted(shop.ledger) == sorted(["chat", "generate", "lookup", "recall", "search", "stream"] * 7)
    assert "21 turns, 42 calls served, 0 live" in passed(shop.offline()).stdout
    first = runs(shop)["answer"].header.kit["models"][0]
    assert first == {"model": "qwen", "version": "2024-09", "provider": "in_process"}
    told = shop.command("show", shop.files[-1]).stdout
    for said in ("turn 1  qwen", "system: Be brief.", "retrieved search(", "1. doc-17 (0.5): Orders ship in two days."):
        assert said in told
    assert "asks for lookup(" in told


def test_they_are_named_by_fixture_and_by_marker_too(shared_project):
    body = TEST.lstrip().removeprefix("import llm\n\n")
    project = recorded(furnished(shared_project(), llm=LLM, test_fixture=FIXTURE + body, test_marker=MARKER + body))
    assert "6 turns, 12 calls served, 0 live" in passed(project.offline()).stdout


TOLD = {
    "query": ("[AR-ARGS]", "retrieval search: $.query changed"),
    "prompt": ("[AR-PROMPT]", "model qwen: prompt text $.prompt"),
    "parameter": ("[AR-MODEL]", "$.temperature changed"),
    "system": ("[AR-PROMPT]", "system text $.system"),
    "tool_result": ("[AR-HISTORY]", "reports a tool result in other words"),
    "left_out": ("[AR-MISSING]", "retrieval recall"),
}


def test_what_differs_is_named_as_for_any_model(shop):
    told = summary(shop.offline("test_changes.py", CHANGED="1", COLUMNS="300"))
    assert told.keys() == {f"changed[{change}]" for change in TOLD}
    for change, words in TOLD.items():
        assert all(said in told[f"changed[{change}]"] for said in words), told


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("qwen@2024-09", "qwen@2025-01", "model qwen: call.version changed"),
        ("letters-1", "letters-2", "retrieval search: call.embedding_model changed"),
    ],
)
def test_another_model_is_another_call(shop, old, new, said):
    with edited(shop, "pytest.ini", old, new):
        told = flat(shop.offline("test_shop.py"))
    assert "[AR-MODEL]" in told
    assert said in told


def test_a_diff_of_two_recordings_says_which_chunk_moved(shop, tmp_path):
    before = tmp_path / "before.snapshot.json"
    before.write_bytes(shop.files[0].read_bytes())
    with edited(shop, "llm.py", "Refunds take a week.", "Ask when orders do ship."):
        recorded(shop, "test_changes.py", "-k", "left")
    told = shop.command("diff", before, shop.files[0]).stdout
    assert "retrieval search: chunk doc-17 is 2nd now, was 1st" in told, told
    assert "chunk doc-4 is 1st now, was 2nd" in told
    assert "chunk doc-4: score 0 recorded, 1 now" in told


def test_what_cannot_be_a_path_is_refused(shop):
    with edited(shop, "pytest.ini", "llm.stream", "not a path"):
        assert "agentreplay_tools: not a path does not take 'model'" in shop.replay().stderr
