"""Models, retrievers and memories that are no HTTP call: recorded, replayed, told apart from tools."""

import pytest

LLM = '''
import asyncio, pathlib

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


def answer(question, store=None):
    store = store or Store()
    chunks = store.search(question)
    memory = recall(question)
    prompt = question + chunks[0]["content"] + memory[0][0]
    said = generate(prompt)
    message = asyncio.run(chat([{"role": "user", "content": said}]))["choices"][0]["message"]
    result = lookup(7)
    history = [{"role": "user", "content": said}, message,
               {"role": "tool", "tool_call_id": "call_abcdef", "content": str(result)}]
    return "".join(c["choices"][0]["delta"]["content"] for c in stream(history))
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

INI = """
[pytest]
pythonpath = .
agentreplay_tools = llm.lookup
agentreplay_models =
    llm.generate = qwen@2024-09
    llm.chat
    llm.stream
agentreplay_retrievals =
    llm.Store.search = letters-1
    llm.recall
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
    tools=["llm.lookup"],
    models={"llm.generate": "qwen@2024-09", "llm.chat": "", "llm.stream": ""},
    retrievals=["llm.Store.search = letters-1", "llm.recall"],
)
"""
BARE = "[pytest]\npythonpath = .\n"


@pytest.fixture
def shop(project):
    project.write(llm=LLM, test_shop=TEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The agent on its models and retrievers, recorded once; each test puts back what it edits."""
    project = shared_project()
    project.write(llm=LLM, test_shop=TEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record()
    assert done.returncode == 0, done.stdout
    return project


def replayed_with(project, file, old, new):
    """What a replay says with one edit, which is taken back."""
    before = project.ledger
    project.edit(file, old, new)
    try:
        done = project.replay()
    finally:
        project.edit(file, new, old)
    assert project.ledger == before, "nothing ran"
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_models_and_retrievals_are_frozen_and_told_as_such(recorded):
    assert sorted(recorded.ledger) == ["chat", "generate", "lookup", "recall", "search", "stream"]
    replayed = recorded.offline()
    assert replayed.returncode == 0, replayed.stdout
    assert "3 turns, 6 calls served, 0 live" in replayed.stdout


@pytest.mark.parametrize("how", [FIXTURE, MARKER], ids=["fixture", "marker"])
def test_they_are_named_by_fixture_and_by_marker_too(shop, how):
    shop.write(test_shop=how + TEST.lstrip().removeprefix("import llm\n\n"))
    (shop.root / "pytest.ini").write_text(BARE, encoding="utf-8")
    done = shop.record()
    assert done.returncode == 0, done.stdout
    assert shop.offline().returncode == 0


def test_the_kit_names_the_models_and_show_tells_turns_and_chunks(recorded):
    first = recorded.snapshots[0].run.header.kit["models"][0]
    assert first == {
        "model": "qwen",
        "version": "2024-09",
        "provider": "in_process",
        "operation": "text_completion",
        "parameters": {"temperature": 0.2},
    }
    told = recorded.command("show", recorded.files[0]).stdout
    for said in ("turn 1  qwen", "system: Be brief.", "retrieved search(", "1. doc-17 (0.5): Orders ship in two days."):
        assert said in told
    assert "asks for lookup(" in told


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("store.search(question)", 'store.search(question + "!")', "AR-ARGS", "retrieval search: $.query changed"),
        ("prompt = question +", 'prompt = "Hey. " + question +', "AR-PROMPT", "model qwen: prompt text $.prompt"),
        ("generate(prompt)", "generate(prompt, temperature=0.9)", "AR-MODEL", "$.temperature changed"),
        ("generate(prompt)", 'generate(prompt, system="Be long.")', "AR-PROMPT", "system text $.system"),
        ("str(result)}", 'str(result) + "."}', "AR-HISTORY", "tells a tool result otherwise"),
        ("memory = recall(question)", 'memory = [("She likes shoes.", 0.9)]', "AR-MISSING", "retrieval recall"),
    ],
    ids=["query", "prompt", "parameter", "system", "tool result", "left out"],
)
def test_what_differs_is_named_as_for_any_model(recorded, old, new, code, said):
    told = replayed_with(recorded, "llm.py", old, new)
    assert f"[{code}]" in told, told
    assert said in told, told


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("qwen@2024-09", "qwen@2025-01", "model qwen: call.version changed"),
        ("qwen@2024-09", "llama@2024-09", "model qwen: call.name changed"),
        ("letters-1", "letters-2", "retrieval search: call.embedding_model changed"),
    ],
)
def test_another_model_is_another_call(recorded, old, new, said):
    told = replayed_with(recorded, "pytest.ini", old, new)
    assert "[AR-MODEL]" in told
    assert said in told


def test_a_diff_of_two_recordings_says_which_chunk_moved(shop, tmp_path):
    shop.write(test_shop="import llm\n\ndef test_answer(agentreplay):\n    llm.answer('When do orders ship?')\n")
    assert shop.record().returncode == 0
    before = tmp_path / "before.snapshot.json"
    before.write_bytes(shop.files[0].read_bytes())
    shop.edit("llm.py", "Refunds take a week.", "Ask when orders do ship.")
    assert shop.record().returncode == 0
    told = shop.command("diff", before, shop.files[0]).stdout
    assert "retrieval search: chunk doc-17 is 2nd now, was 1st" in told, told
    assert "chunk doc-4 is 1st now, was 2nd" in told
    assert "chunk doc-4: score 0 recorded, 1 now" in told


def test_what_cannot_be_a_path_is_refused(shop):
    shop.edit("pytest.ini", "llm.stream", "not a path")
    assert "agentreplay_models: 'not a path' is no import path" in shop.replay().stderr
