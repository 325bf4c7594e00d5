"""What models and retrievers of this process were asked and gave, in the shapes that libraries use."""

from decimal import Decimal

from pytest_agentreplay.compare.diagnose.results import describe_moved_chunks, format_ordinal
from pytest_agentreplay.model.exchanges import Failure, ToolCall, ToolReply
from pytest_agentreplay.model.reading import Chunk
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.shown_messages import show_message
from pytest_agentreplay.values import freeze, freeze_arguments

DOC = {"id": "doc-17", "metadata": {"source": "faq.md"}, "page_content": "Orders ship.", "type": "Document"}
NODE = {"id_": "doc-17", "text": "Orders ship.", "metadata": {}, "class_name": "TextNode"}
WHOLE = Chunk("doc-17", 0.81, "Orders ship.")


def obj(name, fields):
    """An instance as the freezer writes it."""
    return {"$object": [name, fields]}


def array(values, dtype):
    return {"$codec": ["numpy.ndarray", {"dtype": dtype, "values": values}]}


DOCUMENT = obj("langchain_core.documents.base.Document", DOC)
TEXT = Chunk("doc-17", None, "Orders ship.")
HIT = {"_id": "doc-17", "_score": 0.81, "_source": {"content": "Orders ship."}}
LISTS = {"ids": [["doc-17", "doc-4"]], "distances": [[0.81, 0.9]], "documents": [["Orders ship.", None]]}


CHUNKS = [
    (ToolReply([DOCUMENT]), [TEXT]),
    (ToolReply([{"$tuple": [DOCUMENT, 0.81]}]), [WHOLE]),
    (
        ToolReply([obj("llama_index.core.schema.NodeWithScore", {"node": obj("TextNode", NODE), "score": 0.81})]),
        [WHOLE],
    ),
    (ToolReply(LISTS), [WHOLE, Chunk("doc-4", 0.9)]),
    (ToolReply({"ids": ["doc-17"], "documents": ["Orders ship."], "metadatas": [None]}), [TEXT]),
    (ToolReply({"matches": [{"id": "doc-17", "score": 0.81, "metadata": {"text": "Orders ship."}}]}), [WHOLE]),
    (ToolReply({"points": [{"id": 17, "score": 0.81, "payload": {"text": "Ships."}}]}), [Chunk("17", 0.81, "Ships.")]),
    (ToolReply({"hits": {"hits": [HIT], "total": 1}}), [WHOLE]),
    (ToolReply({"results": [{"id": "doc-17", "memory": "Orders ship.", "score": 0.81}]}), [WHOLE]),
    (ToolReply(["Orders ship."]), [Chunk("", None, "Orders ship.")]),
    (ToolReply([["Ships.", 0.81], [0.5, "Refunds."]]), [Chunk("", 0.81, "Ships."), Chunk("", 0.5, "Refunds.")]),
    (ToolReply({"$tuple": [array([[0.1, 0.2]], "<f4"), array([[17, -1]], "<i8")]}), [Chunk("17", 0.1)]),
    (ToolReply(freeze([{"id": "a", "score": Decimal("0.5")}])), [Chunk("a")]),
    (ToolReply({"id": "a", "text": "A."}), [Chunk("a", None, "A.")]),
    (ToolReply([["a", "b"]]), [Chunk(content="a"), Chunk(content="b")]),
    (ToolReply(items=("a", "b")), [Chunk(content="a"), Chunk(content="b")]),
    (ToolReply({"$awaited": ["a"]}), [Chunk(content="a")]),
    (Failure("ValueError"), []),
    *((ToolReply(value), []) for value in (None, 7, {}, [], {"rows": 3})),
]


def test_chunks_are_read_from_the_shapes_in_use():
    wrong = [reply for reply, chunks in CHUNKS if READER.read_chunks(reply) != tuple(chunks)]
    assert not wrong, wrong


def reading(facts=None, **arguments):
    return READER.read_call(ToolCall("qwen", freeze_arguments(arguments), "model", facts or {}))


def test_a_call_of_a_model_has_prompt_system_tools_and_parameters():
    told = reading({"provider": "llama.cpp", "parameters": {"quant": "q4"}}, prompt="Hi", system="Be kind.", top_p=0.5)
    assert (told.kind, told.name, told.model, told.provider) == ("model", "qwen", "qwen", "llama.cpp")
    assert (told.messages, told.messages_at) == (("Hi",), "$.prompt")
    assert (told.system, told.system_at) == (("Be kind.",), "$.system")
    assert told.parameters == {"quant": "q4", "top_p": 0.5}
    chat = reading(messages=[{"role": "user", "content": "Hi"}], tools=[{"name": "lookup"}])
    assert (chat.operation, chat.messages_at, chat.tools_at) == ("chat", "$.messages", "$.tools")
    assert chat.provider == "in_process"


def test_messages_of_langchain_have_their_roles():
    call = {"name": "lookup", "args": {"id": 7}, "id": "call_abcdef"}
    human = {"type": "human", "content": "Hi", "additional_kwargs": {}}
    ai = {"type": "ai", "content": "", "tool_calls": [call]}
    tool = {"type": "tool", "content": "late", "tool_call_id": "call_abcdef"}
    told = READER.read_call(ToolCall("m", {"messages": [obj("H", human), obj("A", ai), obj("T", tool)]}, "model"))
    assert [show_message(message) for message in told.messages] == [
        "user: Hi",
        'assistant calls lookup({"id":7})',
        "tool result call_abcdef: late",
    ]
    reply = READER.read_reply(ToolCall("m", boundary="model"), ToolReply(obj("A", {**ai, "content": "Wait."})))
    assert (reply.text, reply.tool_uses[0].name, reply.ids) == ("Wait.", "lookup", ("call_abcdef",))


REPLIES = [
    *("Hi", {"$awaited": "Hi"}, [{"generated_text": "Hi"}], {"response": "Hi", "done": True}),
    *({"message": {"role": "assistant", "content": "Hi"}}, {"choices": [{"message": {"content": "Hi"}}]}),
    {"choices": [{"text": "Hi"}]},
]
PIECES = [
    ["H", "i"],
    [{"choices": [{"delta": {"content": letter}}]} for letter in "Hi"],
    [{"choices": [{"text": letter}]} for letter in "Hi"],
]


def test_the_text_of_a_reply_and_what_broke_it_off():
    def read(reply):
        found = READER.read_reply(ToolCall("m", boundary="model"), reply)
        return found.text, found.error

    assert [read(ToolReply(one)) for one in REPLIES] == [("Hi", "")] * 7
    assert [read(ToolReply(items=tuple(one))) for one in PIECES] == [("Hi", "")] * 3
    assert [read(ToolReply(7)), read(None)] == [("", "")] * 2
    broken = ToolReply(items=("H",), failure=Failure("builtins.TimeoutError", "too slow"))
    assert read(broken) == ("H", "builtins.TimeoutError: too slow")


def test_a_retrieval_has_its_query_and_embedding_model():
    call = ToolCall("search", {"query": "shoes", "k": 2}, "retrieval", {"embedding_model": "bge"})
    told = READER.read_call(call)
    assert (told.kind, told.messages, told.model) == ("retrieval", ("shoes",), "bge")
    bundle = ToolCall("r", {"query_bundle": obj("QueryBundle", {"query_str": "shoes"})}, "retrieval")
    assert READER.read_call(bundle).messages == ("shoes",)


def test_what_moved_between_two_rankings():
    recorded = [Chunk("a", 0.9, "A"), Chunk("b", 0.8, "B"), Chunk("c", 0.7, "C")]
    now = [Chunk("b", 0.8, "B"), Chunk("a", 0.9, "a"), Chunk("d", 0.1, "D")]
    assert describe_moved_chunks(recorded, now) == (
        "chunk a is 2nd now, was 1st",
        "chunk a: its content changed",
        "chunk b is 1st now, was 2nd",
        "chunk c is gone, was 3rd",
        "chunk d is 3rd now, and was not there",
    )
    assert describe_moved_chunks([Chunk("a", 0.81)], [Chunk("a", 0.79)]) == ("chunk a: score 0.81 recorded, 0.79 now",)
    assert describe_moved_chunks(recorded, recorded) == ()
    assert describe_moved_chunks(recorded[:2], recorded[1::-1]) == (
        "the chunks came in another order: chunk a is 2nd now, was 1st",
        "chunk b is 1st now, was 2nd",
    )
    told = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]
    assert [format_ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == told
