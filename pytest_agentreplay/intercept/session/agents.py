"""Who calls here: the name of the agent, where the test or its framework says one.

A test says it with `agent("researcher")`, which holds in the tasks and threads that begin inside it. Frameworks are
asked at the interception, those alone that are loaded: each keeps what runs in a context variable of its own. What they
keep there is mostly no promise, so a framework that has changed names nobody, and nothing fails: a name is told and
preferred, nothing hangs on it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from types import ModuleType

F = TypeVar("F", bound="Callable[..., Any]")

AGENT: ContextVar[str] = ContextVar("agentreplay_agent", default="")

# Characters of a name that are kept.
LONGEST = 60

# Nodes of LangChain's ready-made agents: steps of one, which name nobody.
STEPS = frozenset({"agent", "model", "tools"})

# Spans that may stand between a call and the agent it is of.
DEPTH = 16


def agent(name: str) -> AgentName:
    """Name the agent that makes the calls of a `with` block, or of a function that this decorates.

    The name holds for the tasks and threads that are started in the block; an inner block names another agent for as
    long as it lasts. Reports count the turns of each agent.

    Args:
        name: The name, on one line.

    Returns:
        A context manager that is a decorator too, of async functions as well.
    """
    return AgentName(name)


class AgentName(ContextDecorator):
    """What `agent` gives: a context manager that decorates functions, async ones too."""

    def __init__(self, name: str) -> None:
        """`name` is told to people as it is, on one line."""
        self.name = tidy_name(name)
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> str:
        """The name holds from here on."""
        self._tokens.append(AGENT.set(self.name))
        return self.name

    def __exit__(self, *_: object) -> None:
        """Who was named before is the caller again."""
        AGENT.reset(self._tokens.pop())

    def _recreate_cm(self) -> AgentName:
        """One of its own for each call of a function: two calls may run at once."""
        return AgentName(self.name)

    def __call__(self, function: F) -> F:
        """`function`, as this agent's own."""
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def run_as_agent(*args: Any, **kwargs: Any) -> Any:
            with AgentName(self.name):
                return await function(*args, **kwargs)

        return run_as_agent  # type: ignore[return-value]


def find_agent() -> str:
    """The name of the agent that runs here, "" when nobody says one."""
    if declared := AGENT.get():
        return declared
    modules = sys.modules
    for where, ask in _FRAMEWORKS:
        if (module := modules.get(where)) is not None:
            try:
                name = ask(module)
            except Exception:  # noqa: S112  not the one that is known here: it names nobody
                continue
            if name:
                return tidy_name(name)
    return ""


def tidy_name(name: str) -> str:
    """A name on one line, and not too long."""
    return " ".join(str(name).split())[:LONGEST]


def _find_langgraph_agent(config: ModuleType) -> str:
    """The agent's own name, else the nodes of the graphs that run here, outermost first.

    A graph inside a node is an agent, and its nodes are its steps; the node of a graph that stands alone is an agent.
    """
    metadata = (config.var_child_runnable_config.get() or {}).get("metadata")
    if not metadata:
        return ""
    if name := metadata.get("lc_agent_name"):
        return str(name)
    places = [part.partition(":")[0] for part in str(metadata.get("langgraph_checkpoint_ns") or "").split("|")]
    nodes = [node for node in places if node and not node.isdigit()] or [str(metadata.get("langgraph_node") or "")]
    return "/".join(nodes[:-1]) or ("" if nodes[0] in STEPS else nodes[0])


def _find_openai_agent(scope: ModuleType) -> str:
    """The innermost agent among the spans that are open here. They are there without a trace, too."""
    span = scope.Scope.get_current_span()
    for _ in range(DEPTH):
        if span is None:
            break
        if span.span_data.type == "agent":
            return str(span.span_data.name)
        # openai-agents 0.5: the span around this one is kept in the token of the context variable alone, see
        # https://github.com/openai/openai-agents-python/blob/main/src/agents/tracing/spans.py
        token = span._prev_span_token
        span = token.old_value if token is not None and token.old_value is not token.MISSING else None
    return ""


def _find_pydantic_agent(runs: ModuleType) -> str:
    context = runs.get_current_run_context()
    return getattr(getattr(context, "agent", None), "name", None) or ""


def _find_opentelemetry_agent(trace: ModuleType) -> str:
    attributes = getattr(trace.get_current_span(), "attributes", None)
    return str(attributes.get("gen_ai.agent.name") or "") if attributes else ""


# The module that knows, and how it is asked: frameworks before what merely watches them.
_FRAMEWORKS: tuple[tuple[str, Callable[[ModuleType], str]], ...] = (
    ("langchain_core.runnables.config", _find_langgraph_agent),
    ("agents.tracing.scope", _find_openai_agent),
    ("pydantic_ai._run_context", _find_pydantic_agent),
    ("opentelemetry.trace", _find_opentelemetry_agent),
)
