"""What the examples share: one call of the model, and how it is told of tools and of what they gave."""

import json
import os

from openai import OpenAI

MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:8000")
"""Any server that speaks OpenAI's chat API."""


def ask(messages, tools, model="demo-1", **parameters):
    """Ask the model for its next message."""
    with OpenAI(base_url=f"{MODEL_URL}/v1", api_key="none-is-needed", max_retries=0) as client:
        reply = client.chat.completions.create(model=model, messages=messages, tools=tools, **parameters)
    return reply.choices[0].message


def described(function, **arguments):
    """A tool as the model is told of it: the types of its arguments by name."""
    properties = {name: {"type": kind} for name, kind in arguments.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(arguments),
        "additionalProperties": False,
    }
    about = {"name": function.__name__, "description": function.__doc__, "parameters": parameters, "strict": True}
    return {"type": "function", "function": about}


def wanted(call):
    """The arguments of a tool call that the model asked for."""
    return json.loads(call.function.arguments)


def said(reply):
    """The model's message, to be sent along from now on."""
    return reply.model_dump(include={"role", "content", "tool_calls"})


def told(call, result):
    """The message that tells the model what came of its tool call."""
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result, ensure_ascii=False)}
