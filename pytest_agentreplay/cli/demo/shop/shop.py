"""A small order agent on the official openai SDK: it looks an order up, reads the date, and may refund."""

import json
from datetime import date
from pathlib import Path

from openai import OpenAI

PROMPT = """You help the customers of a bookshop.
Be brief and kind.
Refund an order only when it is late."""

LEDGER = Path(__file__).with_name("ledger.txt")
ORDERS = {"A-17": {"title": "The Old Road", "promised": "2026-10-02", "status": "in transit", "price": 18.5}}


def lookup_order(order_id: str) -> dict:
    """Find an order by its number."""
    return ORDERS[order_id]


def today() -> date:
    """Read the calendar."""
    return date.today()


def refund(order_id: str, amount: float) -> str:
    """Pay a customer back. This moves money: the ledger grows by a line."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"refund {order_id} {amount}\n")
    return f"refunded {amount} for {order_id}"


TOOLS = {"lookup_order": lookup_order, "today": today, "refund": refund}


def schema(name: str, **fields: str) -> dict:
    """Describe a tool to the model."""
    properties = {field: {"type": kind} for field, kind in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields)}
    return {
        "type": "function",
        "function": {"name": name, "description": TOOLS[name].__doc__, "parameters": parameters},
    }


SCHEMAS = [
    schema("lookup_order", order_id="string"),
    schema("today"),
    schema("refund", order_id="string", amount="number"),
]


def answer(question: str) -> str:
    """Run the agent's loop until the model has nothing more to ask."""
    client = OpenAI()
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(model="demo-1", messages=messages, tools=SCHEMAS).choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result, default=str)})
