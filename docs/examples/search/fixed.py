"""Answers from a manual. What failed twice in the same way fails a third time, so it gives up and says so."""

from collections import Counter

from examples.chat import ask, said, told, wanted
from examples.search.tools import PROMPT, TOOLS, SearchDown, search


def answer(messages: list[dict]) -> str:
    """Answer the last message."""
    messages = [{"role": "system", "content": PROMPT}, *messages]
    failed = Counter()
    while (reply := ask(messages, TOOLS)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            try:
                found = search(**wanted(call))
            except SearchDown as error:
                found = {"error": str(error)}
                failed[call.function.arguments] += 1
                if failed[call.function.arguments] == 2:
                    return f"I could not search the manual ({error}), so I do not know."
            messages.append(told(call, found))
    return reply.content
