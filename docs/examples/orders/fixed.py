"""Tells customers where their order is. Who asks is known from the session, and never left to the model."""

import re

from examples.chat import ask, said, told, wanted
from examples.orders.tools import PROMPT, TOOLS, lookup_orders


def answer(question: str, user_id: str) -> str:
    """Answer the question of a customer who is logged in."""
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    own = {}
    while (reply := ask(messages, TOOLS)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            orders = lookup_orders(**wanted(call), user_id=user_id)
            own |= {order["order_id"]: order for order in orders}
            messages.append(told(call, orders))
    if {*re.findall(r"A-\d+", reply.content)} <= {*own}:
        return reply.content
    # The model speaks of an order that nobody looked up for this customer.
    return " ".join(f"Your order {order['order_id']} is {order['status']}." for order in own.values())
