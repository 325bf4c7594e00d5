"""Vector stores and retrievers of LangChain, arrays of numpy: recorded, replayed, verified."""

import pytest

from tests.support.small_projects import flat, furnished, recorded

pytestmark = pytest.mark.env("frameworks", "lastyear")

SHOP = '''
import pathlib
import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
STATUS = pathlib.Path(__file__).with_name("status.txt")
WORDS = ["orders", "ship", "refunds", "week", "shoes"]
TEXTS = {"doc-17": "Orders ship in two days.", "doc-4": "Refunds take a week."}

def count(text):
    with LEDGER.open("a") as ledger:
        ledger.write("embed\\n")
    return [0.1 + text.lower().count(word) for word in WORDS]

def embed(text: str) -> np.ndarray:
    return np.array(count(text), dtype=np.float32)

def best(vectors) -> np.float32:
    return np.float32(0.5)

class Counting(Embeddings):
    def embed_documents(self, texts):
        return [count(text) for text in texts]

    def embed_query(self, text):
        return count(text)

STORE = InMemoryVectorStore(Counting())
STORE.add_documents([Document(text, id=name, metadata={"page": 1}) for name, text in TEXTS.items()])
RETRIEVER = STORE.as_retriever(search_kwargs={"k": 1})

@tool
def look_up(order: str) -> str:
    """Look up an order."""
    with LEDGER.open("a") as ledger:
        ledger.write("look_up\\n")
    return STATUS.read_text()
'''

TEST = """
import asyncio
import numpy as np
import shop

def test_store(agentreplay):
    agentreplay.model(shop.embed, name="counting")
    agentreplay.tool(shop.best)
    agentreplay.retrieval(shop.STORE.similarity_search_with_score, name="scored", embedding_model="counting")
    agentreplay.retrieval(shop.STORE.asimilarity_search, name="later")
    agentreplay.retrieval(shop.RETRIEVER._get_relevant_documents, name="retriever")
    vector = shop.embed("orders")
    assert vector.dtype == np.float32 and vector[0] == np.float32(1.1)
    assert type(shop.best(np.eye(2))) is np.float32
    scored = shop.STORE.similarity_search_with_score("When do orders ship?", k=2)
    assert scored[0][0].id == "doc-17" and isinstance(scored[0][1], float)
    assert asyncio.run(shop.STORE.asimilarity_search("refunds", k=1))[0].metadata == {"page": 1}
    assert shop.RETRIEVER.invoke("refunds")[0].page_content == "Refunds take a week."
    found = {one.name: one for one in agentreplay.run.retrievals}
    assert [chunk.id for chunk in found["scored"].chunks] == ["doc-17", "doc-4"]
    assert found["scored"].chunks[0].score == scored[0][1]
    assert found["later"].chunks[0].content == "Refunds take a week." and found["later"].query == "refunds"
    assert found["retriever"].chunks[0].id == "doc-4" and found["retriever"].query == "refunds"

def test_tool(agentreplay):
    assert shop.look_up.invoke({"order": "A-17"}) == "late"
"""


def replayed(project, *words):
    """A run whose calls of tools and embeddings are counted, past those of the import."""
    (project.root / "ledger.txt").write_text("", encoding="utf-8")
    done = project.run("-W", "ignore", *words)
    ran = project.ledger
    return done, [line for line in ran if line != "embed"], max(0, ran.count("embed") - 2)


def test_langchain(project):
    furnished(project, "agentreplay_read_tools = look_up\n", shop=SHOP, test_shop=TEST)
    (project.root / "status.txt").write_text("late", encoding="utf-8")
    recorded(project, "-W", "ignore")
    done, ran, embedded = replayed(project)
    assert (done.returncode, ran, embedded) == (0, [], 0), done.stdout
    done, ran, embedded = replayed(project, "--replay-tools=checked")
    assert (done.returncode, ran) == (0, ["look_up"]), done.stdout
    assert embedded == 3, "the three retrievals ran, the model did not"
    (project.root / "status.txt").write_text("lost", encoding="utf-8")
    project.edit("shop.py", "Orders ship in two days.", "Shoes. Orders. Shoes.")
    done, ran, _ = replayed(project, "--replay-tools=checked")
    for said in (
        "tool look_up: result changed, $ late -> lost",
        "retrieval scored: chunk doc-17: score",
        "its content changed",
    ):
        assert said in flat(done)
    assert "assert " not in done.stdout.partition("short test summary")[0], done.stdout
