"""Answers from a manual, and searches in vain until its steps are used up."""

from examples.chat import ask, said, told, wanted
from examples.search.tools import PROMPT, TOOLS, SearchDown, search

STEPS = 5


class StepLimit(Exception):
    """The agent came to no end."""


def answer(messages: list[dict]) -> str:
    """Answer the last message."""
    messages = [{"role": "system", "content": PROMPT}, *messages]
    for _ in range(STEPS):
        reply = ask(messages, TOOLS)
        if not reply.tool_calls:
            return reply.content
        messages.append(said(reply))
        for call in reply.tool_calls:
            try:
                found = search(**wanted(call))
            except SearchDown as error:
                found = {"error": str(error)}
            messages.append(told(call, found))
    raise StepLimit(f"no answer after {STEPS} steps")
