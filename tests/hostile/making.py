"""Hostile files for the checks: a small sealed run, and the same after a stranger has had it."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import seal_digest

if TYPE_CHECKING:
    from collections.abc import Callable

TEST = "test_shop.py::test_refund"


def chat(said: str, model: str = "m") -> bytes:
    """A request to a model."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": said}]}).encode()


def run_of(text: str) -> Run:
    """A run in which `text` stands wherever a model, a tool or a test can put it."""
    asked = HttpCall("POST", "http://127.0.0.1:1/v1/chat/completions", (), Body(chat(text, text)))
    use = {"id": "call_1", "type": "function", "function": {"name": text, "arguments": json.dumps({"a": text})}}
    reply = {"model": text, "choices": [{"message": {"content": text, "tool_calls": [use]}, "finish_reason": text}]}
    answered = json.dumps(reply).encode()
    return Run(
        Header(test=f"test_shop.py::test_refund[{text}]", outcome={"status": "failed", "type": text, "message": text}),
        (
            Exchange(asked, HttpReply(200, body=Body(answered), cuts=(len(answered),)), start=0, finish=1),
            Exchange(ToolCall(text, {"order": text, text: 1}), ToolReply({text: [text]}), start=2, finish=3),
            Exchange(ToolCall("refund", {"a": 1}), Failure(f"shop.{text}", text, (text,)), start=4, finish=5),
        ),
    )


def stored(run: Run | None = None) -> dict[str, Any]:
    """The parsed text of a run."""
    return json.loads(codec.dumps(run or run_of("hello")))


def sealed(doc: dict[str, Any]) -> str:
    """The text of a document under a seal that fits: whoever writes a file can seal it, but for what is too deep."""
    doc.pop("integrity", None)
    try:
        return seal_digest.write_sealed(doc)
    except RecursionError:
        return json.dumps(doc)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    """A sealed file after `change`."""
    doc = stored()
    change(doc)
    return sealed(doc)


def unfolded(said: str) -> str:
    """The text that an expression of strings, `*`, `+` and whole numbers stands for; nothing is run."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() | int() as found):
                return found
            case ast.BinOp(left, ast.Add(), right):
                return value(left) + value(right)
            case ast.BinOp(left, ast.Mult(), right):
                return value(left) * value(right)
            case _:
                raise ValueError(said)

    return str(value(ast.parse(said, mode="eval").body))
