"""Tells what an article costs, or that it cannot tell: a price is one that the service has told whole."""

import json

from examples.chat import ask, said, told, wanted
from examples.prices.tools import PROMPT, TOOLS, quote


def price(sku: str) -> float | None:
    """The price, None where the service has told none."""
    status, body = quote(sku)
    return json.loads(body)["price"] if status == 200 else None


def answer(messages: list[dict]) -> str:
    """Answer the last message."""
    messages = [{"role": "system", "content": PROMPT}, *messages]
    while (reply := ask(messages, TOOLS)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            if (found := price(**wanted(call))) is None:
                return "I cannot tell the price now, the price service does not answer. Please ask again later."
            messages.append(told(call, {"price": found, "currency": "EUR"}))
    return reply.content
