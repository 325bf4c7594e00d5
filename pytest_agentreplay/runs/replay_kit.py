"""The replay kit: what was around a run, gathered while it is recorded, as plain JSON for the header.

Only recording comes here. Nothing is read from the environment but names on the allow-list.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.turns import function_of
from pytest_agentreplay.dialects.messages import tool_results
from pytest_agentreplay.store.dependency_hashes import locks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.core.model import Call, Exchange, Json, JsonObject
    from pytest_agentreplay.core.reading import CallReading, Reader

PACKAGES = (
    *("openai", "anthropic", "httpx", "httpx2", "pydantic", "litellm", "langchain-core", "langgraph"),
    *("openai-agents", "pydantic-ai-slim", "mcp", "google-genai", "boto3"),
    *("smolagents", "llama-index-core", "crewai"),
)
MODULES = {
    "langchain-core": "langchain_core",
    "openai-agents": "agents",
    "pydantic-ai-slim": "pydantic_ai",
    "google-genai": "google.genai",
    "llama-index-core": "llama_index.core",
}


def surroundings(root: Path) -> JsonObject:
    """What is around a recording: interpreter, versions of the loaded SDKs, commit of the agent's code."""
    kit = interpreter(root)
    if commit := git_state(str(root)):
        kit["git"] = dict(commit)
    return kit


def interpreter(root: Path) -> JsonObject:
    """Python, platform, versions of the loaded SDKs, files at `root` that pin versions, and how sets are ordered."""
    return {
        "python": platform.python_version(),
        "platform": sys.platform,
        "packages": versions(),
        "locks": dict(locks(root)),
        "hash": hash_order(),
    }


def hash_order() -> JsonObject:
    """How this process orders sets of texts: by a seed that somebody set, or at random."""
    seed = os.environ.get("PYTHONHASHSEED", "")
    if not sys.flags.hash_randomization:
        return {"seed": 0}
    return {"seed": int(seed)} if seed.isdecimal() else {"random": True}


def versions() -> JsonObject:
    """Versions of the plugin and of those SDKs that are loaded."""
    found: JsonObject = {}
    for name in ("frozen-agentreplay", "pytest", *PACKAGES):
        if name in {"frozen-agentreplay", "pytest"} or MODULES.get(name, name) in sys.modules:
            version = installed_version(name)
            if version is not None:
                found[name] = version
    return found


@functools.cache
def installed_version(name: str) -> str | None:
    """The version of an installed package, None for none. Asked once a session: each answer parses a file."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def git_state(root: str) -> tuple[tuple[str, Json], ...]:
    """Commit of the checkout at `root` and whether it was dirty; empty outside a checkout. Asked once a session."""

    def git(*words: str) -> str:
        command = ["git", "-C", root, *words]
        # No timeout: to keep one, `subprocess` sleeps by `time.sleep`, which the test may have replaced.
        done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603  fixed words
        return done.stdout.decode(errors="replace").strip()  # names of files come in any encoding

    try:
        return (("commit", git("rev-parse", "HEAD")), ("dirty", bool(git("status", "--porcelain", "-uno"))))
    except (OSError, subprocess.SubprocessError):
        return ()


def models(exchanges: tuple[Exchange, ...], reader: Reader) -> list[Json]:
    """Each model that was asked: requested and served name, provider and region, operation, host, parameters ..."""
    seen: dict[str, Json] = {}
    for x in exchanges:
        reading = reader.read_call(x.call)
        if reading.kind != "model":
            continue
        reply = reader.read_reply(x.call, x.outcome)
        entry: JsonObject = {
            "model": reading.model,
            "served": reply.model,
            "provider": reading.provider,
            "region": reading.region,
            "operation": reading.operation,
            **place_of(x.call),
            "parameters": reading.knobs,
            "fingerprint": reply.fingerprint,
        }
        kept: JsonObject = {k: v for k, v in entry.items() if v not in ("", {}, None)}
        seen.setdefault(repr(sorted(kept.items(), key=str)), kept)
    return list(seen.values())


def place_of(call: Call) -> JsonObject:
    """Where a model is: its host and the region in its name, or what was said of one in this process."""
    if isinstance(call, ToolCall):
        return {"version": call.facts.get("version", "")}
    return {"host": call.url.partition("://")[2].partition("/")[0]}


def unfrozen(
    exchanges: tuple[Exchange, ...],
    reader: Reader,
    root: str,
    met: Collection[str] = (),
    children: Collection[str] = (),
) -> list[Json]:
    """Tools that a model asked for and that ran unseen, with the import path that would freeze each.

    A tool ran when a later request carries a result under its call's id, or under its name where the API gives no ids;
    it was seen when a recorded tool call bears its name, or a boundary has `met` it and let it be (another agent, an
    answer that has a tool's form). One that ran in a child process, whose lane is one of `children`, has no such path
    ("").
    """
    below = tuple(f"{lane}." for lane in children)
    tools = [tool.name for x in exchanges if (tool := function_of(x.call, reader)) is not None]
    known = {*met, *tools, *(name.rpartition(".")[2] for name in tools)}
    asked: dict[str, str] = {}
    missed: dict[str, Json] = {}
    for x in exchanges:
        if x.parent is not None or x.call.boundary in {"tool", "retrieval"}:
            continue
        body = json.dumps(x.call.arguments).encode() if isinstance(x.call, ToolCall) else x.call.body.data
        waiting = {
            identity: name
            for identity, name in asked.items()
            if not known & {name, name.rpartition(PLUGIN)[2]} and name not in missed
        }
        told = by_name(reader.read_call(x.call)) if waiting.keys() & waiting.values() else frozenset()
        for identity, name in waiting.items():
            if (name in told) if identity == name else (identity.encode() in body):
                path = "" if f"{x.lane}.".startswith(below) else guess(name, root)
                missed[name] = {"tool": name, "path": path}
        if isinstance(x.outcome, HttpReply | FramesReply | ToolReply):
            asked |= {use.id or use.name: use.name for use in reader.read_reply(x.call, x.outcome).tool_uses}
    return list(missed.values())


def uncompared(gaps: Mapping[tuple[str, str, str], str], hide: Callable[[str], str]) -> list[Json]:
    """What of the arguments of tools is compared by class alone: tool, path and class with why, and what to add.

    `hide` redacts paths: keys of dicts stand in them.
    """
    return [
        {"tool": tool, "path": hide(path), "kind": kind, "why": why, "line": codec_line(kind)}
        for (tool, path, kind), why in gaps.items()
    ]


_SPELLED = {
    "function": "types.FunctionType",
    "generator": "types.GeneratorType",
    "async_generator": "types.AsyncGeneratorType",
    "coroutine": "types.CoroutineType",
    "_thread.lock": "type(threading.Lock())",
    "_thread.RLock": "type(threading.RLock())",
}
"""Classes whose names are not those of what one imports."""


def codec_line(kind: str) -> str:
    """The line that has instances of a class compared by what the user chooses."""
    name = _SPELLED.get(kind, kind.rpartition("<locals>.")[2])
    return f"agentreplay.codec({name}, freeze=lambda value: ..., thaw=lambda data: ...)"


def by_name(reading: CallReading) -> frozenset[str]:
    """The tools whose results a request tells; ids stand among the names."""
    return frozenset(known for message in reading.messages for known in tool_results(message))


PLUGIN = "-"
"""Stands between the name of a plugin and that of its function where semantic-kernel names a tool for the model."""


def guess(name: str, root: str) -> str:
    """The import path of the function that likely is tool `name`: one of that name defined below `root`, if any.

    Of a function of a plugin ("Shop-find_parcel") that is a function or method of its second name, and rather one of
    the class that has the first name.
    """
    owner, _, short = name.rpartition(PLUGIN)
    paths = [*_functions(name, root), *_methods(name, root)]
    if not paths and owner:
        paths = [*_methods(short, root), *_functions(short, root)]
        paths.sort(key=lambda path: path.split(".")[-2].casefold() != owner.casefold())
    return paths[0] if paths else f"your.module.{short if owner and short.isidentifier() else name}"


def _functions(name: str, root: str) -> Iterator[str]:
    """The import paths of the functions of that name in modules below `root`."""
    for module_name, module in sorted(sys.modules.items()):
        function = getattr(module, "__dict__", {}).get(name)
        if getattr(function, "__module__", "") == module_name and _is_below(function, root):
            yield f"{module_name}.{name}"


def _methods(name: str, root: str) -> Iterator[str]:
    """The import paths of the methods of that name in classes that are defined in modules below `root`."""
    for module_name, module in sorted(sys.modules.items()):
        for kind in [*getattr(module, "__dict__", {}).values()]:
            # type() and not isinstance(): Django's lazy settings are set up by a look at their __class__.
            is_here = issubclass(type(kind), type) and kind.__module__ == module_name
            if is_here and _is_below(vars(kind).get(name), root):
                yield f"{module_name}.{kind.__qualname__}.{name}"


def _is_below(function: object, root: str) -> bool:
    """Whether `function` is one of Python, in a file below `root`."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and code.co_filename.startswith(root)
