"""The index of a manual, which does not answer."""

from examples.chat import described


class SearchDown(Exception):
    """The index is not there."""


def search(query: str) -> list[str]:
    """Search the manual."""
    raise SearchDown("index 'manual-v2' does not exist")


PROMPT = "Answer from the manual. Search it first; search again if nothing was found."
TOOLS = [described(search, query="string")]
