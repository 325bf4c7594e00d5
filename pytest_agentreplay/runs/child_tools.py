"""The tools of a run in its child processes: told by where they are found, frozen when their modules are there."""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.errors import CannotRedirect
from pytest_agentreplay.intercept.registry import when_imported
from pytest_agentreplay.intercept.tools import tool
from pytest_agentreplay.intercept.tools.tool_paths import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, ModuleType

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.core.serialize import Codec


@dataclass(frozen=True, slots=True)
class ChildTool:
    """One tool: the module in which it is found, its name there, and what was declared about it.

    `returns` holds the type of its results, where that was declared.
    """

    module: str
    path: str
    name: str
    effects: Literal["read", "write", "live"] = "write"
    boundary: Literal["tool", "model", "retrieval"] = "tool"
    facts: JsonObject = field(default_factory=dict)
    returns: tuple[type, ...] = ()


def find_child_tool(path: str, child_tool: tool.Tool) -> ChildTool | None:
    """Where a child finds `child_tool`, at the import path `path`, "" for wherever its function was defined.

    None for a function that no import leads to; a fork has it all the same.
    """
    if path:
        names = path.split(".")
        module = next(name for cut in range(len(names) - 1, 0, -1) if (name := ".".join(names[:cut])) in sys.modules)
        inner = path[len(module) + 1 :]
    else:
        function = unwrapped(child_tool.function, child_tool.name).functions[0]
        module, inner = function.__module__, function.__qualname__
        if "<locals>" in inner:
            return None
    if module == "__main__":  # a child runs another main module, and imports this one by its name
        module = main_module() or module
    returns = (child_tool.returns,) if _has_a_name(child_tool.returns) else ()
    return ChildTool(module, inner, child_tool.name, child_tool.effects, child_tool.boundary, child_tool.facts, returns)


def _has_a_name(kind: Any) -> bool:
    """Whether a child can be told of a type: it is found by its module and name."""
    module = sys.modules.get(getattr(kind, "__module__", ""))
    return isinstance(kind, type) and getattr(module, kind.__qualname__, None) is kind


_frozen: set[tuple[str, str]] = set()


def freeze(tools: Iterable[ChildTool], codecs: list[Codec], main: str = "") -> None:
    """Freeze `tools` in this process, now or when their modules are there; `main` is the file of its main module."""
    fresh = [place for place in tools if (place.module, place.path) not in _frozen]
    _frozen.update((place.module, place.path) for place in fresh)
    for place in fresh:
        when_imported(place.module, functools.partial(_freeze_in, place, codecs))
    module = main_module()
    here = [place for place in fresh if place.module == module or place.module.rpartition(".")[2] == Path(main).stem]
    if here:
        freeze_in_main(here, codecs)


def main_module() -> str:
    """The name under which others import what this process runs: of `-m name`, or of a script; "" for neither."""
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
    """Freeze tools of the main module as soon as they are defined. No import tells of it, so its lines are traced.

    That ends with the last of the tools, or with the module. Raises CannotRedirect where somebody else traces.
    """
    if sys.gettrace() is not None:
        name = f"{tools[0].module}.{tools[0].path}"
        raise CannotRedirect(f"{name}: a tool of a main module cannot be frozen under a debugger or a tracer")
    left = [*tools]

    def module(frame: FrameType, event: str, _arg: object) -> Any:
        name = frame.f_globals.get("__name__")
        is_main = event == "call" and frame.f_code.co_name == "<module>" and name in {"__main__", "__mp_main__"}
        return line if is_main else None

    def line(frame: FrameType, event: str, _arg: object) -> Any:
        for place in [*left]:
            function = resolve_path(frame.f_globals.get, place.path)
            with suppress(CannotRedirect):
                if function is not None:
                    _redirect(place, function, codecs)
                    left.remove(place)
        if not left or event == "return":
            sys.settrace(None)
        return line

    sys.settrace(module)


def resolve_path(get: Callable[[str], Any], path: str) -> Any:
    """What stands at `path`, whose first name `get` knows; None for nothing."""
    first, *names = path.split(".")
    at = get(first)
    for name in names:
        # Static: a staticmethod or classmethod is to be seen as one, and a property is not to be run.
        at = inspect.getattr_static(at, name, None) if isinstance(at, type) else getattr(at, name, None)
    return at


def _freeze_in(place: ChildTool, codecs: list[Codec], module: ModuleType) -> None:
    function = resolve_path(lambda name: getattr(module, name, None), place.path)
    if function is None:
        raise CannotRedirect(f"{place.module}.{place.path}: the test has it, and its child process has not")
    _redirect(place, function, codecs)


def _redirect(place: ChildTool, function: Any, codecs: list[Codec]) -> None:
    returns = place.returns[0] if place.returns else tool.ANNOTATED
    made = tool.Tool(place.name, function, place.effects, returns, place.boundary, place.facts)
    tool.redirect(made, codecs=codecs)
