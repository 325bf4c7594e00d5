"""The replay kit: what was around a run, as plain JSON for the header, and the tools that ran unseen in it.

Only recordings and live runs import this. Of the environment nothing is read but names on the allow-list.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from operator import itemgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.guard import deaf
from pytest_agentreplay.intercept.tools.tool import is_redirected
from pytest_agentreplay.intercept.tools.tool_paths import functions_behind
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import BY_CONTENT, Failure, FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.reading import ToolUse, ran_for
from pytest_agentreplay.model.turns import function_of, is_model, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import find_tool_results
from pytest_agentreplay.redaction.secret_names import key_variables
from pytest_agentreplay.runs.credential_files import add_tokens, find_used
from pytest_agentreplay.runs.redact.redaction_setup import redacted_by
from pytest_agentreplay.snapshots.store.projects import hash_pin_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Call, Exchange, Json, JsonObject, Run
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.redaction import Redaction

# The fields of a live result for who served the models, with the names that a person reads.
SERVED = {"served_models": "served", "fingerprints": "fingerprint", "providers": "provider"}
# Kinds of divergence by which a model call is not made: nothing can be said of such a run.
STOPS = {Kind.LIVE, Kind.CHANGE}
# Stands between the name of a plugin and that of its function where semantic-kernel names a tool for the model.
PLUGIN_SEPARATOR = "-"
# Stands before the name of a tool that no function of the project seems to be.
UNKNOWN_MODULE = "your.module."
# The parameters by which a request makes a model call a tool.
TOOL_CHOICES = {"tool_choice", "function_call", "toolConfig", "tool_config"}
# What a function or method of a module or class is there; anything else is a registry or an object that holds one.
PLAIN_FUNCTIONS = (FunctionType, staticmethod, classmethod)
# How one writes classes that cannot be imported by their names.
IMPORTED_NAMES = {
    "function": "types.FunctionType",
    "generator": "types.GeneratorType",
    "async_generator": "types.AsyncGeneratorType",
    "coroutine": "types.CoroutineType",
    "_thread.lock": "type(threading.Lock())",
    "_thread.RLock": "type(threading.RLock())",
}
PACKAGES = (
    *("openai", "anthropic", "httpx", "httpx2", "pydantic", "litellm", "langchain-core", "langgraph"),
    *("openai-agents", "pydantic-ai-slim", "mcp", "google-genai", "boto3"),
    *("smolagents", "llama-index-core", "crewai"),
)
# The modules of packages that have another name.
MODULES = {
    "openai-agents": "agents",
    "pydantic-ai-slim": "pydantic_ai",
    "google-genai": "google.genai",
    "llama-index-core": "llama_index.core",
}


def describe_run(
    root: Path, exchanges: tuple[Exchange, ...], redaction: Redaction, policy: Policy, environ: Mapping[str, str]
) -> JsonObject:
    """Return what the kit of every run says, recorded or captured: what was around it, its models, keys, redactions."""
    notes: JsonObject = {name: note for name, note in redaction.record.items() if note}
    return describe_interpreter(root) | {
        "git": dict(read_git_state(str(root))),
        "models": describe_models(exchanges),
        "redactions": notes | redacted_by(policy),
        "keys": [[*group] for group in key_variables(add_tokens(environ), redaction.run.was_sent)],
        "credentials": find_used(environ, exchanges, redaction.run.was_sent),
        "arguments": BY_CONTENT,
    }


def describe_interpreter(root: Path) -> JsonObject:
    """Return Python, platform, versions of loaded SDKs, files at `root` that pin versions, how sets are ordered."""
    return {
        "python": platform.python_version(),
        "platform": sys.platform,
        "packages": list_versions(),
        "locks": dict(hash_pin_files(root)),
        "hash": probe_hash_order(),
    }


def probe_hash_order() -> JsonObject:
    """Return how this process orders sets of texts: by a seed that somebody set; empty for at random."""
    seed = os.environ.get("PYTHONHASHSEED", "")
    if not sys.flags.hash_randomization:
        return {"seed": 0}
    return {"seed": int(seed)} if seed.isdecimal() else {}


def list_versions() -> JsonObject:
    """Return the versions of the plugin, of pytest, and of those SDKs that are loaded."""
    loaded = (name for name in PACKAGES if MODULES.get(name, name.replace("-", "_")) in sys.modules)
    versions = {name: find_version(name) for name in ("frozen-agentreplay", "pytest", *loaded)}
    return {name: version for name, version in versions.items() if version is not None}


@functools.cache
def find_version(name: str) -> str | None:
    """Return the version of an installed package, None for none. Cached: each look-up parses a file."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def read_git_state(root: str) -> tuple[tuple[str, Json], ...]:
    """Return the commit of the checkout at `root` and whether it is dirty; empty outside of one. Cached."""

    def git(*words: str) -> str:
        command = ["git", "-C", root, *words]
        # No timeout: to keep one, `subprocess` sleeps by `time.sleep`, which the test may have replaced.
        with deaf():  # a fixture may be sealed while a test records
            done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603  fixed words
        return done.stdout.decode(errors="replace").strip()  # names of files come in any encoding

    try:
        return (("commit", git("rev-parse", "HEAD")), ("dirty", bool(git("status", "--porcelain", "-uno"))))
    except (OSError, subprocess.SubprocessError):
        return ()


def describe_models(exchanges: tuple[Exchange, ...]) -> list[Json]:
    """Return each model that was called: requested name, the served one where it is another, version, provider, region.

    All else of a model stands in its requests.
    """
    models: dict[str, Json] = {}
    for x in exchanges:
        reading = READER.read_call(x.call)
        if reading.kind != "model":
            continue
        reply = READER.read_reply(x.call, x.outcome)
        entry: JsonObject = {
            "model": reading.model,
            "served": reply.model if reply.model != reading.model else "",
            "version": x.call.facts.get("version") if isinstance(x.call, ToolCall) else "",  # of a model in the process
            "provider": reading.provider,
            "region": reading.region,
        }
        named: JsonObject = {key: value for key, value in entry.items() if value not in ("", None)}
        models.setdefault(canonical(named), named)
    return list(models.values())


def sum_usage(run: Run, *, live: bool) -> dict[str, Any]:
    """Return what the model calls of a run took, and by whom they were served, as `LiveResult` has it.

    Without `live` they were answered from a recording: that took nothing.
    """
    model_calls = [x for x in run.exchanges if is_model(x.call, READER)]
    usages = [READER.read_reply(x.call, x.outcome).usage for x in model_calls if live]
    return {
        "calls": len(usages),
        "tokens": {side: sum(usage.get(f"{side}_tokens", 0) for usage in usages) for side in ("input", "output")},
        "seconds": sum((x.timing.end or x.timing.start) - x.timing.start for x in model_calls if live) / 1e9,
        "model": READER.read_call(model_calls[0].call).model if model_calls else "",
        **list_models(run),
    }


def list_models(run: Run) -> dict[str, Any]:
    """Return by whom the models of a run were served, as `LiveResult` has it."""
    model_calls = [x for x in run.exchanges if is_model(x.call, READER)]
    replies = [READER.read_reply(x.call, x.outcome) for x in model_calls]
    names = {
        "served_models": [reply.model for reply in replies],
        "fingerprints": [reply.fingerprint for reply in replies],
        "providers": [READER.read_call(x.call).provider for x in model_calls],
    }
    return {field: tuple(dict.fromkeys(filter(None, values))) for field, values in names.items()}


def find_stop(divergence: Divergence | None, run: Run, recorded: Run) -> str:
    """Return why a model call was not made, or the last one of a lane brought nothing; "" for what is recorded."""
    if divergence is not None and divergence.kind in STOPS:
        return divergence.summary
    last = {turn.lane: turn.model for turn in turns(run, READER) if turn.model is not None}
    before = {explain_unfrozen(x) for x in recorded.exchanges}
    return next((f"the model {why}" for x in last.values() if (why := explain_unfrozen(x)) and why not in before), "")


def explain_unfrozen(x: Exchange) -> str:
    """Return how a model refused or failed, "answered 401 Unauthorized: no key"; "" where it answered."""
    outcome = x.outcome
    if isinstance(outcome, HttpReply) and outcome.status >= 400:
        error = READER.read_reply(x.call, outcome).error.removeprefix(str(outcome.status)).strip()
        return f"answered {outcome.status} {outcome.reason}: {error}".rstrip(": ")
    failure = outcome if isinstance(outcome, Failure) else getattr(outcome, "failure", None)
    if failure is None or failure.cancelled:
        return ""
    return f"did not answer, {failure.type.rpartition('.')[2]}: {failure.message}".rstrip(": ")


def find_unfrozen(
    exchanges: tuple[Exchange, ...], root: str, seen: Collection[str] = (), children: Collection[str] = ()
) -> list[Json]:
    """Return the tools that a model asked for and that ran unseen, with the import path that would freeze each.

    A tool ran when a later request carries a result under its call's id, or under its name where the API gives no ids,
    and it is no answer (`_is_answer`). It was seen when a recorded tool call bears its name, when a frozen function
    stands under it in a registry, when a boundary has `seen` it and let it be (another agent, an answer that has a
    tool's form), or, where no function of the project bears its name, when a call of its arguments was recorded in
    between. One that ran in a child process, whose lane is one of `children`, has no such path ("").
    """
    below = tuple(f"{lane}." for lane in children)
    tools = [tool.name for x in exchanges if (tool := function_of(x.call, READER)) is not None]
    seen_names = {*seen, *tools, *(name.rpartition(".")[2] for name in tools)}
    uses: dict[str, ToolUse] = {}
    calls: dict[str, Call] = {}  # by the id of each use, the call that brought it
    others: list[ToolCall] = []
    missed: dict[str, Json] = {}
    for x in exchanges:
        if x.parent is not None or x.call.boundary in {"tool", "retrieval"}:
            if x.parent is None and isinstance(x.call, ToolCall):
                others.append(x.call)
            continue
        # A result is looked for in the bytes first, by its id: a request is parsed only where names alone can tell.
        body = json.dumps(x.call.arguments).encode() if isinstance(x.call, ToolCall) else x.call.body.data
        waiting = {
            identity: use
            for identity, use in uses.items()
            if not seen_names & {use.name, use.name.rpartition(PLUGIN_SEPARATOR)[2]} and use.name not in missed
        }
        names = {use.name for use in uses.values()}
        others = [call for call in others if call.name not in names]
        messages = READER.read_call(x.call).messages if waiting.keys() & names else ()
        results_by_name = {name for message in messages for name in find_tool_results(message)}
        for identity, use in waiting.items():
            if not ((use.name in results_by_name) if identity == use.name else (identity.encode() in body)):
                continue
            path = guess_tool_line(use.name, root)
            is_answer = path.startswith(UNKNOWN_MODULE) and _is_answer(use.name, root, calls[identity], x.call)
            if is_answer or use.name in seen_names or _is_frozen_line(use, path, root, others):
                seen_names.add(use.name)
            else:
                missed[use.name] = {"tool": use.name, "path": "" if f"{x.lane}.".startswith(below) else path}
        if isinstance(x.outcome, HttpReply | FramesReply | ToolReply):
            brought = {use.id or use.name: use for use in READER.read_reply(x.call, x.outcome).tool_uses}
            uses |= brought
            calls |= dict.fromkeys(brought, x.call)
    return list(missed.values())


def _is_answer(name: str, root: str, asking: Call, answering: Call) -> bool:
    """Return whether `asking` forced a tool that is the model's answer: no function is called so, nor as its class is.

    Who validates answers forces the same tool again in `answering`, which says what is wrong.
    """
    if not is_forced(name, asking) or find_candidates(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(), root):
        return False
    return is_forced(name, answering) or any(isinstance(module.get(name), type) for module in list_modules(root))


def is_forced(name: str, call: Call) -> bool:
    """Return whether a request of a model makes it call the tool `name`: by its name, or as the only one there is."""
    reading = READER.read_call(call)
    choice = canonical({key: value for key, value in reading.parameters.items() if key in TOOL_CHOICES})
    return f'"{name}"' in choice or (len(reading.tools) == 1 and choice != "{}" and '"auto"' not in choice.lower())


def _is_frozen_line(use: ToolUse, path: str, root: str, calls: list[ToolCall]) -> bool:
    """Return whether a frozen function ran for the tool that `path` likely leads to; takes its call out of `calls`."""
    same = [call for call in calls if path.startswith(UNKNOWN_MODULE) and ran_for(use, call)]
    if same:
        calls.remove(same[0])
    return bool(same) or any(is_redirected(function) for rank, function in find_candidates(use.name, root) if not rank)


def find_asking_tools(exchanges: Iterable[Exchange]) -> list[Json]:
    """Return the frozen tools that asked a model themselves: a replay makes no request of theirs."""
    by_start = {x.start: x for x in exchanges}
    names: dict[str, None] = {}
    for x in [*by_start.values()]:
        parent = by_start.get(x.parent) if x.parent is not None and is_model(x.call, READER) else None
        while parent is not None:
            if isinstance(parent.call, ToolCall) and parent.call.boundary == "tool":
                names[parent.call.name] = None
            parent = None if parent.parent is None else by_start.get(parent.parent)
    return [*names]


def describe_uncompared(gaps: Mapping[tuple[str, str, str], str], hide: Callable[[str], str]) -> list[Json]:
    """Return what of the arguments of tools is compared by class alone: tool, path, class, why, and what to add.

    `hide` redacts paths: keys of dicts stand in them.
    """
    return [
        {"tool": tool, "path": hide(path), "kind": kind, "why": why, "line": format_codec(kind)}
        for (tool, path, kind), why in gaps.items()
    ]


def format_codec(kind: str) -> str:
    """Return the line that has instances of a class compared by what the user chooses."""
    name = IMPORTED_NAMES.get(kind, kind.rpartition("<locals>.")[2])
    return f"agentreplay.codec({name}, freeze=lambda value: ..., thaw=lambda data: ...)"


def guess_tool_line(name: str, root: str) -> str:
    """Return the line of the function that likely is tool `name`: what a registry has under it, else one so called.

    Of a function of a plugin ("Shop-find_parcel") that is a function or method of its second name, and rather one of
    the class that has the first name.
    """
    owner, _, short = name.rpartition(PLUGIN_SEPARATOR)
    paths = [format_tool_line(name, function) for _, function in find_candidates(name, root)]
    if not paths and owner:
        paths = [format_tool_line(short, function) for _, function in find_candidates(short, root)]
        paths.sort(key=lambda path: path.split(".")[-2].casefold() != owner.casefold())
    return paths[0] if paths else f"{UNKNOWN_MODULE}{short if owner and short.isidentifier() else name}"


def format_tool_line(name: str, function: FunctionType) -> str:
    """Return the line of the settings that freezes a function as tool `name`."""
    path = f"{function.__module__}.{function.__qualname__}"
    return path if function.__name__ == name else f"{path} = write as {name}"


def find_candidates(name: str, root: str) -> list[tuple[int, FunctionType]]:
    """Return the functions below `root` that may be tool `name`, each with its rank, the likeliest first.

    0: a dict of a module or class has it under the name, alone or in a row, or an object of a framework or decorator
    bears the name. 1: a function that is called so. 2: a method that is called so.
    """
    ranked: list[tuple[int, FunctionType]] = []
    for names in list_modules(root):
        # type() and not isinstance(): Django's lazy settings are set up by a look at their __class__.
        kinds = [kind for kind in names.values() if issubclass(type(kind), type)]
        for value in [*names.values(), *(value for kind in kinds for value in vars(kind).values())]:
            row: Any = value.get(name) if type(value) is dict else value if name in _list_names(value) else None
            entries = row.values() if type(row) is dict else row if type(row) in {list, tuple} else (row,)
            functions = [function for entry in entries for function in functions_behind(entry)]
            ranked += [
                (1 + ("." in function.__qualname__) if type(value) in PLAIN_FUNCTIONS else 0, function)
                for function in functions
                if "<" not in function.__qualname__ and function.__code__.co_filename.startswith(root)
            ]
    return sorted(ranked, key=itemgetter(0))


def list_modules(root: str) -> Iterator[dict[str, Any]]:
    """Yield what stands in each module of the project at `root`."""
    for _, module in sorted(sys.modules.items()):  # sorted: the same line is proposed whatever was imported first
        names = getattr(module, "__dict__", {})
        file = str(names.get("__file__"))
        # A virtual environment in the project is not its code.
        if file.startswith(root) and "site-packages" not in file:
            yield names


def _list_names(value: object) -> set[object]:
    """Return the names that a function or an object bears."""
    # Past a `__getattr__` of the value's class: pydantic's placeholders raise their own errors there.
    # https://github.com/pydantic/pydantic/blob/v2.12.0/pydantic/_internal/_mock_val_ser.py
    try:
        bears: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        bears = {}
    names = [bears.get(key) for key in ("name", "_name", "_tool_name", "__name__")]
    names += [getattr(value, "__name__", "")] if type(value) in PLAIN_FUNCTIONS else []
    return {name for name in names if isinstance(name, str)}
