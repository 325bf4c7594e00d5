"""The same shop for a small model, which calls no tools: it reads the order's number, and the code calls the tools."""

from openai import OpenAI
from pydantic import BaseModel, Field
from shop import PROMPT, lookup_order, refund, today

EXAMPLES = """
Where is order K-88? It is late!
{"order_id": "K-88", "reply": "Sorry that your order is late."}
I want my money back for C-3.
{"order_id": "C-3", "reply": "Here is your money."}"""


class Answer(BaseModel):
    """What the model has to write; the server sees to it."""

    order_id: str = Field(pattern="^[A-Z]-[0-9]{1,3}$")
    reply: str = Field(max_length=60)


def answer(question: str) -> str:
    """Have the model read the question and reply, and pay the customer back."""
    messages = [{"role": "system", "content": PROMPT + EXAMPLES}, {"role": "user", "content": question}]
    model = {"model": "gemma-3-270m", "temperature": 0.8}
    completion = OpenAI().chat.completions.parse(messages=messages, response_format=Answer, **model)
    written = completion.choices[0].message.parsed
    order = lookup_order(written.order_id)
    return f"{written.reply} On {today()}: {refund(written.order_id, order['price'])}."
