"""Refunds orders. When the till refuses, only the model learns of it, and the model may say anything."""

from examples.chat import ask, described, said, told, wanted
from examples.refund.tools import RefundError, issue_refund, lookup_order

PROMPT = (
    "You are a support agent for Acme. Always look up an order before refunding it. "
    "Never refund more than the order total."
)
FUNCTIONS = {"lookup_order": lookup_order, "issue_refund": issue_refund}
TOOLS = [
    described(lookup_order, order_id="string"),
    described(issue_refund, order_id="string", amount_cents="integer"),
]
MODEL = {"model": "gpt-4o-mini", "temperature": 0.2, "max_tokens": 256, "seed": 7}


def answer(messages: list[dict]) -> str:
    """Answer the last message."""
    messages = [{"role": "system", "content": PROMPT}, *messages]
    while (reply := ask(messages, TOOLS, **MODEL)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            try:
                result = FUNCTIONS[call.function.name](**wanted(call))
            except RefundError as error:
                result = {"error": f"RefundError: {error}"}
            messages.append(told(call, result))
    return reply.content
