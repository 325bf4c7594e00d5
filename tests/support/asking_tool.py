"""An agent that is a tool: it notes in a ledger what it is asked, and the tests read what was recorded of it."""

AGENT = """
import pathlib, uuid

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def ask(question: str) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(question + "\\n")
    return f"{question}: {uuid.uuid4() if 'chance' in question else len(question)}"
"""
INI = """
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
agentreplay_tools = agent.ask
"""


def asked(snapshot):
    """Return the questions of a snapshot in their order."""
    return [x.call.arguments["question"] for x in sorted(snapshot.run.exchanges, key=lambda x: x.start)]
