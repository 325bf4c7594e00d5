"""The tools of a session: found by the settings, named, and frozen in the child processes of the test too.

A name is short while it is unique, the import path where two tools share one. The fixture gets tools one by one, so the
first of two is named before the second is known: then both take their paths, also in what is recorded already. A replay
takes the names from the recording. So they do not depend on the order in which tools are passed or called.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import CannotRedirect
from pytest_agentreplay.intercept.registry import when_imported
from pytest_agentreplay.intercept.tools.redirections import Redirections
from pytest_agentreplay.model.exchanges import Call, Exchange, Json, JsonObject, ToolCall
from pytest_agentreplay.model.turns import has_effects
from pytest_agentreplay.providers import READER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import FrameType, FunctionType, ModuleType

    from pytest_agentreplay.intercept.session.session_parts import ToolRegistry
    from pytest_agentreplay.intercept.tools.tool import Redirection, Tool
    from pytest_agentreplay.settings import Settings
    from pytest_agentreplay.values import Codec

# In place of the function of a tool that goes to a child.
NOWHERE: Any = None


class SessionTools:
    """The tools of one session: redirected, named, or left to run for real.

    Attributes:
        frozen: Those that are answered from the snapshot or recorded, each with its import path ("" from the fixture).
        redirections: Their redirected functions.
        names: Their names in the snapshot.
    """

    def __init__(self, registry: ToolRegistry, recorded: Iterable[Call]) -> None:
        """`registry` is what the patches see of the tools, `recorded` are the calls of the snapshot."""
        self._registry = registry
        self.frozen: list[tuple[str, Tool]] = []
        self.redirections = Redirections(registry.codecs)
        self.names = ToolNames({call.name for call in recorded if isinstance(call, ToolCall)})

    def freeze_declared(self, tools: Iterable[tuple[str, Tool]]) -> None:
        """Freeze the tools of the settings. Raises CannotRedirect."""
        tools = list(tools)
        self._let_live(tool for _, tool in tools if tool.effects == "live")
        self.frozen += [(path, tool) for path, tool in tools if tool.effects != "live"]
        for path, tool in self.frozen:
            redirection = self._redirect(tool, path)
            if tool.name in {path, short := path.rpartition(".")[2]}:
                self.names.add(redirection, short, path)

    def freeze(self, function: Callable[..., Any], name: str | None, **options: Any) -> None:
        """Freeze a function of the fixture, with the options of `tools.tool.Tool`. Raises CannotRedirect."""
        from pytest_agentreplay.intercept.tools.tool import Tool

        short = getattr(function, "__name__", type(function).__name__)
        tool = Tool(name or short, function, **options)
        if tool.effects == "live":
            self._let_live([tool])
            return
        redirection = self._redirect(tool)
        self.frozen.append(("", tool))
        if name:
            self._registry.seen.add(short)  # the model may know the tool so
        else:
            self.names.add(redirection, short)

    def _let_live(self, tools: Iterable[Tool]) -> None:
        """Have these tools run for real, as somebody has declared."""
        self._registry.live.update(tool.name for tool in tools)
        self._registry.seen |= self._registry.live

    def _redirect(self, tool: Tool, path: str = "") -> Redirection:
        from pytest_agentreplay.intercept.tools.tool import redirect

        redirection = redirect(tool, codecs=self._registry.codecs)
        self.redirections.add(redirection, path)
        return redirection

    def list_names(self) -> set[str]:
        """Return the names of all frozen tools."""
        redirected = (redirection.tool.name for redirection in self.redirections)
        return {*(tool.name for _, tool in self.frozen), *redirected}

    def describe_signatures(self) -> JsonObject:
        """Return the parameters of each frozen tool that is a function: "order, amount=, *rest, key"."""
        return {
            redirection.tool.name: redirection.describe_parameters()
            for redirection in self.redirections
            if redirection.tool.boundary == "tool"
        }

    def has_effects(self, call: Call) -> bool:
        """Return whether a call may change something outside, by what was declared of the tools."""
        reading = {redirection.tool.name for redirection in self.redirections if redirection.tool.effects == "read"}
        return has_effects(call, READER, lambda name: name in reading or self._registry.reads(name))


def resolve_tools(settings: Settings) -> list[tuple[str, Tool]]:
    """Return the tools, models and retrievals of the settings with their import paths. Raises CannotRedirect.

    A tool has the short name that models know it by, its path where two share one; "read as lookup_order" names it.
    """
    if not settings.tools:
        return []
    from pytest_agentreplay.intercept.tools.tool import Tool

    resolved: list[tuple[str, Tool]] = []
    tools = find_functions(settings, "read", "write", "live")
    names = shorten_paths(path for path, (_, how) in tools.items() if " as " not in how)
    for path, (function, how) in tools.items():
        effects, _, name = how.partition(" as ")
        resolved.append((path, Tool(name or names[path], function, effects=effects)))  # type: ignore[arg-type]
    models = find_functions(settings, "model")
    names = shorten_paths(models)
    for path, (function, how) in models.items():
        name, _, version = map(str.strip, how.removeprefix("model").partition("@"))
        facts: JsonObject = {"version": version} if version else {}
        resolved.append((path, Tool(name or names[path], function, boundary="model", facts=facts)))
    retrievals = find_functions(settings, "retrieval")
    names = shorten_paths(retrievals)
    for path, (function, how) in retrievals.items():
        facts = {"embedding_model": model} if (model := how.removeprefix("retrieval").strip()) else {}
        resolved.append((path, Tool(names[path], function, "read", boundary="retrieval", facts=facts)))
    return resolved


def find_functions(settings: Settings, *words: str) -> dict[str, tuple[Any, str]]:
    """Return the functions that the settings declare by these words, by import path, and what they say of each."""
    from pytest_agentreplay.intercept.tools.tool import find

    rows = settings.list_declared(*words)
    return {path: (function, how) for line, how in rows for path, function in find(line, live=how.startswith("live"))}


def shorten_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return the short name of each path, and the path itself where two share one."""
    short = {path: path.rpartition(".")[2] for path in paths}
    counts = Counter(short.values())
    return {path: name if counts[name] == 1 else path for path, name in short.items()}


class ToolNames:
    """Names the tools of one test, each kind (tools, models, retrievals) by itself."""

    def __init__(self, recorded: Collection[str] = ()) -> None:
        """`recorded` are the names in the snapshot that is replayed."""
        self._recorded = frozenset(recorded)
        self._tools: dict[tuple[str, str], list[tuple[str, FunctionType, Redirection]]] = {}
        self._renamed: dict[tuple[str, str], str] = {}
        self._closures: dict[tuple[str, str, str], Json] = {}

    def add(self, redirection: Redirection, short: str, path: str = "") -> None:
        """Name a tool that nobody has given a name: `short`, or its import path where another one is called so."""
        from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing
        from pytest_agentreplay.intercept.tools.factories import list_cells

        function = redirection.get_function()
        key = redirection.tool.boundary, short
        tools = self._tools.setdefault(key, [])
        path = path or f"{function.__module__}.{function.__qualname__}"
        path = next((tool_path for tool_path, tool_function, _ in tools if tool_function is function), path)
        cells = list_cells([function])
        closure = ArgumentFreezing({}, codecs=redirection.codecs, cells=cells).receiver
        # The functions of a factory share module and qualified name: only what they close over tells them apart.
        if closure != self._closures.setdefault((*key, path), closure):
            raise CannotRedirect(
                f"{path}: another function of the same factory is a tool of this test already, and nothing but a name "
                'tells the calls of the two apart: give each its own, agentreplay.tool(function, name="refund")'
            )
        tools.append((path, function, redirection))
        shared = len({path for path, _, _ in tools}) > 1
        if shared:
            self._renamed.setdefault(key, tools[0][0])
        if shared or (path in self._recorded and short not in self._recorded):
            for full, _, each in tools:
                each.show_as(full)

    def rename_calls(self, exchanges: Iterable[Exchange]) -> tuple[Exchange, ...]:
        """Return recorded exchanges under the names that their tools have by now."""
        return tuple(map(self._rename_call, exchanges))

    def _rename_call(self, exchange: Exchange) -> Exchange:
        call = exchange.call
        if not isinstance(call, ToolCall) or (call.boundary, call.name) not in self._renamed:
            return exchange
        return replace(exchange, call=replace(call, name=self._renamed[call.boundary, call.name]))


class ChildTool(NamedTuple):
    """One tool, without its function: the module in which a child finds that, and its name there."""

    module: str
    path: str
    tool: Tool


def find_child_tool(path: str, tool: Tool) -> ChildTool | None:
    """Return where a child finds `tool`, at the import path `path` ("": where its function was defined).

    None for a function that no import leads to; a fork has it all the same.
    """
    from pytest_agentreplay.intercept.tools.tool import ANNOTATED

    if path:
        names = path.split(".")
        module = next(name for cut in range(len(names) - 1, 0, -1) if (name := ".".join(names[:cut])) in sys.modules)
        inner = path[len(module) + 1 :]
    else:
        from pytest_agentreplay.intercept.tools.tool_paths import unwrap

        function = unwrap(tool.function, tool.name).functions[0]
        module, inner = function.__module__, function.__qualname__
        if "<locals>" in inner:
            return None
    if module == "__main__":  # a child runs another main module, and imports this one by its name
        module = find_main_module() or module
    returns = tool.returns if is_importable(tool.returns) else ANNOTATED
    return ChildTool(module, inner, replace(tool, function=NOWHERE, returns=returns))


def is_importable(kind: Any) -> bool:
    """Return whether a child finds a type by its module and name."""
    module = sys.modules.get(getattr(kind, "__module__", ""))
    return isinstance(kind, type) and getattr(module, kind.__qualname__, None) is kind


# A job of a pool joins again with each run: what an earlier run has frozen in this process stays so.
_frozen: set[tuple[str, str]] = set()


def freeze_tools(tools: Iterable[ChildTool], codecs: list[Codec], main: str = "") -> None:
    """Freeze `tools` in this process, now or once their modules are imported; `main` is the file of its main module."""
    fresh = [place for place in tools if (place.module, place.path) not in _frozen]
    _frozen.update((place.module, place.path) for place in fresh)
    for place in fresh:
        when_imported(place.module, functools.partial(freeze_in_module, place, codecs))
    module = find_main_module()
    here = [place for place in fresh if place.module == module or place.module.rpartition(".")[2] == Path(main).stem]
    if here:
        freeze_in_main(here, codecs)


def find_main_module() -> str:
    """Return the name by which others import what this process runs: of `-m name`, or of a script; else ""."""
    # A child that `sitecustomize` joins has no main module yet, only its command line.
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word == "-m":
            return next(words, "")
        if word in {"-W", "-X", "--check-hash-based-pycs"}:
            next(words, "")
        elif word.startswith("-"):
            if word in {"-c", "-"}:
                return ""
        else:
            return Path(word).stem
    return ""


def freeze_in_main(tools: list[ChildTool], codecs: list[Codec]) -> None:
    """Freeze tools of the main module as soon as they are defined.

    No import announces them, so the lines of the module are traced up to the last of the tools. Raises CannotRedirect
    where somebody else traces.
    """
    if sys.gettrace() is not None:
        name = f"{tools[0].module}.{tools[0].path}"
        raise CannotRedirect(f"{name}: a tool of a main module cannot be frozen under a debugger or a tracer")
    left = [*tools]

    def trace_module(frame: FrameType, event: str, _arg: object) -> Any:
        name = frame.f_globals.get("__name__")
        is_main = event == "call" and frame.f_code.co_name == "<module>" and name in {"__main__", "__mp_main__"}
        return trace_lines if is_main else None

    def trace_lines(frame: FrameType, event: str, _arg: object) -> Any:
        for place in [*left]:
            function = resolve_path(frame.f_globals.get, place.path)
            with suppress(CannotRedirect):
                if function is not None:
                    redirect_tool(place, function, codecs)
                    left.remove(place)
        if not left or event == "return":
            sys.settrace(None)
        return trace_lines

    sys.settrace(trace_module)


def resolve_path(get: Callable[[str], Any], path: str) -> Any:
    """Return what stands at `path`, whose first name `get` looks up; None for nothing."""
    first, *names = path.split(".")
    value = get(first)
    for name in names:
        # Static: a staticmethod or classmethod is to be seen as one, and a property is not to be run.
        value = inspect.getattr_static(value, name, None) if isinstance(value, type) else getattr(value, name, None)
    return value


def freeze_in_module(place: ChildTool, codecs: list[Codec], module: ModuleType) -> None:
    """Freeze a tool of a module that has been imported. Raises CannotRedirect where the module lacks it."""
    function = resolve_path(lambda name: getattr(module, name, None), place.path)
    if function is None:
        raise CannotRedirect(f"{place.module}.{place.path}: {place.module} was imported, and has no such function")
    redirect_tool(place, function, codecs)


def redirect_tool(place: ChildTool, function: Any, codecs: list[Codec]) -> None:
    """Redirect `function`, which was found at `place`."""
    from pytest_agentreplay.intercept.tools.tool import redirect

    redirect(replace(place.tool, function=function), codecs=codecs)
