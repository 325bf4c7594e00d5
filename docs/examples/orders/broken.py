"""Tells customers where their order is, and picks a stranger's: three customers have that name."""

from examples.chat import ask, said, told, wanted
from examples.orders.tools import PROMPT, TOOLS, lookup_orders


def answer(question: str, user_id: str) -> str:
    """Answer the question of a customer who is logged in."""
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while (reply := ask(messages, TOOLS)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            messages.append(told(call, lookup_orders(**wanted(call))))
    return reply.content
