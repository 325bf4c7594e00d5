"""Turns a row of the corpus into the bytes that would cross a boundary; nothing secret-shaped is ever stored."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from itertools import pairwise
from typing import Any
from urllib.parse import quote


def json_escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def base64_wrapped(text: str) -> str:
    return base64.encodebytes((text + "x" * 60).encode()).decode().replace("\n", "\r\n")


ENCODINGS = {
    "raw": str,
    "json-string": json_escaped,
    "json-in-json": json_escaped,
    "json-in-json-in-json": lambda text: json_escaped(json_escaped(text)),
    "percent": lambda text: quote(text, safe=""),
    "percent2": lambda text: quote(quote(text, safe="-").replace("-", "%2D"), safe=""),
    "percent-all": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "b64": lambda text: base64.b64encode(text.encode()).decode(),
    "b64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "b64-wrapped76": base64_wrapped,
    "lower": str.lower,
    "ansi-split": lambda text: f"{text[:9]}\x1b[31m{text[9:17]}\x1b[0m{text[17:]}",
}


def value(row: dict[str, Any]) -> str:
    """The synthetic secret."""
    return "".join(row["parts"])


def event(row: dict[str, Any], number: int, fragment: str) -> bytes:
    """One server-sent event of the row's provider that carries a fragment."""
    channel = row.get("channel", "")
    if row["provider"] == "openai-chat":
        tool = {"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]}
        delta = tool if "tool" in channel else {"content": fragment}
        data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
        return b"data: " + json.dumps(data).encode() + b"\n\n"
    if row["provider"] == "openai-responses":
        data = {"type": "response.output_text.delta", "sequence_number": number, "delta": fragment}
        return b"event: response.output_text.delta\ndata: " + json.dumps(data).encode() + b"\n\n"
    kind, name = ("input_json_delta", "partial_json") if channel == "input_json_delta" else ("text_delta", "text")
    data = {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: fragment}}
    return b"event: content_block_delta\ndata: " + json.dumps(data).encode() + b"\n\n"


def cut(data: Any, at: list[int]) -> list[Any]:
    return [data[low:high] for low, high in pairwise([0, *at, len(data)])]


def render(row: dict[str, Any]) -> list[bytes]:
    """The row's bytes: one item, or one per event or transport chunk."""
    context = row["context"]
    if context == "sse-chunk-split":
        return [event(row, number, part) for number, part in enumerate(cut(value(row), row["splits"]))]
    encoded = ENCODINGS[row.get("encoding", "raw")](value(row))
    if context == "json-member-name" or (context == "json" and row.get("encoding", "raw") == "raw"):
        encoded = json_escaped(encoded)
    text = "".join(row.get("carrier") or ["{S}"])
    for name, parts in row.get("extra", {}).items():
        text = text.replace(f"{{{name}}}", "".join(parts))
    text = text.replace("{S}", encoded)
    if context == "tool-args":
        call = {"id": "call_1", "type": "function", "function": {"name": "t", "arguments": text}}
        text = json.dumps({"tool_calls": [call]}, ensure_ascii=False)
    data = text.encode()
    match context:
        case "gzip-body":
            return [gzip.compress(data, mtime=0)]
        case "deflate-body":
            return [zlib.compress(data)]
        case "tcp-chunk-split" | "http1-chunked":
            return cut(data, row["splits"])
        case _:
            return [data]
