"""Tells how the day goes. Between midnight and one it still is yesterday in UTC."""

from datetime import datetime, timezone

from examples.chat import ask, said, told
from examples.sales.tools import PROMPT, TOOLS, sales_on


def answer(messages: list[dict]) -> str:
    """Answer the last message."""
    messages = [{"role": "system", "content": PROMPT}, *messages]
    while (reply := ask(messages, TOOLS)).tool_calls:
        messages.append(said(reply))
        for call in reply.tool_calls:
            today = datetime.now(timezone.utc).date()
            messages.append(told(call, sales_on(today.isoformat())))
    return reply.content
