"""An agent on the openai SDK, as somebody writes one. CHANGE in the environment is the edit that somebody makes to it."""

import asyncio
import json
import os
import pathlib

from openai import AsyncOpenAI, OpenAI

CHANGE = os.environ.get("CHANGE", "")
PROMPT = "You help the customers of a bookshop. Be brief and " + ("strict." if CHANGE == "prompt" else "kind.")
PROMPT += " The key of the shop is " + os.environ.get("KEY_IN_PROMPT", "none") + "."
PARAMETERS = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("lookup", "refund")]
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")


def lookup(order_id: str) -> str:
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(f"lookup {order_id}\n")
    return f"{order_id} is late"


def refund(order_id: str) -> str:
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(f"refund {order_id}\n")
    return f"{order_id} is paid back"


def talk(base_url, tools):
    """Three turns: the model asks for `lookup`, then for `refund`, then it answers."""
    client = OpenAI(base_url=base_url, max_retries=0)
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "Where is order A-17?"}]
    for turn in (1, 2, 3):
        if turn == 3 and CHANGE == "fewer":
            return "gave up"
        if turn == 3 and CHANGE == "last turn":
            messages[-1]["content"] += ", and quickly"
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=TOOLS).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls or ():
            result = tools[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    if CHANGE == "extra":
        messages.append({"role": "user", "content": "Anything else?"})
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=TOOLS).choices[0].message
    return reply.content


async def ask_both(base_url):
    """Ask two questions at once. The edit starts them in the other order."""
    client = AsyncOpenAI(base_url=base_url, max_retries=0)

    async def ask(question):
        messages = [{"role": "user", "content": question}]
        reply = await client.chat.completions.create(model="gpt-5", messages=messages)
        return question, reply.choices[0].message.content

    questions = ["What is the capital of Peru?", "What is the capital of Chad?"]
    if CHANGE == "order":
        questions.reverse()
    return await asyncio.gather(*map(ask, questions))


def stream(base_url):
    """Return the pieces of a streamed reply."""
    client = OpenAI(base_url=base_url, max_retries=0)
    messages = [{"role": "user", "content": "Tell me a story."}]
    chunks = client.chat.completions.create(model="gpt-5", messages=messages, stream=True)
    return [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]


def chat(base_url, turns):
    """A conversation whose history is sent again with each turn."""
    client = OpenAI(base_url=base_url, max_retries=0)
    messages = []
    for turn in range(turns):
        messages.append(
            {"role": "user", "content": f"Question {turn}: " + " ".join(f"word{turn * 7 + n}" for n in range(30))}
        )
        reply = client.chat.completions.create(model="gpt-5", messages=messages).choices[0].message
        messages.append({"role": "assistant", "content": reply.content})
    return messages[-1]["content"]
