"""How long tools stay patched: also when they are made anew, and as long as something of their test may call them.

Made anew: after `importlib.reload`, or when their module was dropped and is imported again. A tool is a function
object, and the module makes another one. So the import paths of the tools of a test are kept, and what they lead to
after each import is frozen as well, for as long as the test.

After the test: given back at once, a tool would run for real in the thread, executor job or task that outlives its
test. For a callback that the test has registered (`exits`) they are patched again while it runs, and for good when the
process exits. For garbage of the test they stay patched until the next test begins (`interceptions.refuse_garbage`).
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agentreplay.errors import CannotRedirect
from pytest_agentreplay.intercept.registry import when_imported
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.callers import is_agents_file

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import FrameType, FunctionType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.tools.tool import Redirection, Tool
    from pytest_agentreplay.values import Codec


_watched: list[Redirections] = []


class Redirections(list["Redirection"]):
    """The tools of one test, and of each the import paths by which it would be found again."""

    def __init__(self, codecs: Sequence[Codec]) -> None:
        """Nothing is watched before `start`."""
        super().__init__()
        self._codecs = codecs
        self._paths: dict[str, dict[tuple[str, ...], Redirection]] = {}
        self._modules: dict[CodeType, str] = {}
        self._qualnames: set[str] = set()

    def start(self) -> None:
        """Freeze again what is imported again, from now until `stop`."""
        _watched.append(self)

    def stop(self) -> None:
        """Watch no longer; a second call does nothing."""
        if self in _watched:
            _watched.remove(self)

    def add(self, redirection: Redirection, path: str = "") -> None:
        """Keep `redirection`, which was named by `path` or is found where its function was defined."""
        self.append(redirection)
        function = redirection.get_function()
        for module, names in ((function.__module__, function.__qualname__), split(path)):
            local = ".<locals>" in names
            if module and names and (local or "<" not in names):
                self._paths.setdefault(module, {})[(names,) if local else tuple(names.split("."))] = redirection
                when_imported(module, handle_import)
            for namespace in copies_of(module, len(sys.modules)) if module else ():
                self._freeze_in(namespace, module)
        self._modules |= dict.fromkeys(redirection.codes(), function.__module__)
        self._qualnames |= {code.co_qualname for code in redirection.codes()}

    def freeze_imported(self, module: ModuleType) -> None:
        """Freeze what the paths of this test lead to in `module`, as far as that is new."""
        self._freeze_in(vars(module), module.__name__)

    def freeze_executed(self, code: CodeType) -> None:
        """Freeze what `code`, which runs next, makes of the tools once more: it is a second copy of their module.

        Nothing tells when it has run but a profiler; that of somebody else is left alone.
        """
        copies = [
            inner for inner in list_nested(code) if inner.co_qualname in self._qualnames
        ]  # cheap, and seldom true
        modules = {self._modules[inner] for inner in copies if inner in self._modules}
        if not modules or sys.getprofile() is not None:
            return

        def watch(frame: FrameType, event: str, _argument: object) -> None:
            ended = event == "return" and frame.f_code is code
            body = frame if ended else frame.f_back
            if body is not None and body.f_code is code and event in {"call", "return"}:
                for module in modules:
                    self._freeze_in(body.f_locals, module)
            if ended:
                sys.setprofile(None)

        sys.setprofile(watch)

    def _freeze_in(self, namespace: dict[str, Any], module: str) -> None:
        """Freeze what the paths of this test into `module` lead to in `namespace`, as far as that is new."""
        from pytest_agentreplay.intercept.tools.tool import is_redirected, redirect

        for names, redirection in [*self._paths.get(module, {}).items()]:
            if ".<locals>" in names[0]:
                redirection.follow(namespace)
                continue
            value: Any = namespace.get(names[0])
            for name in names[1:]:
                value = inspect.getattr_static(value, name, None) if isinstance(value, type) else vars_of(value, name)
            try:
                if value is not None and not is_redirected(value):
                    self.append(redirect(replace(redirection.tool, function=value), self._codecs))
            except CannotRedirect:
                continue  # the module has another thing under that name now, which is no tool


@functools.lru_cache(maxsize=256)
def copies_of(name: str, _loaded: int) -> tuple[dict[str, Any], ...]:
    """Return the namespaces of other copies of module `name` that the agent's modules hold, as of so many modules."""
    loaded = [getattr(module, "__dict__", {}) for module in [*sys.modules.values()]]
    holders = [names for names in loaded if is_agents_file(str(names.get("__file__") or "<"))]
    values = [vars(value) if type(value) is ModuleType else value for names in holders for value in names.values()]
    copies = [names for names in values if type(names) is dict and isinstance(names.get("__file__"), str)]
    own = getattr(sys.modules.get(name), "__dict__", {})
    place = own.get("__file__")
    return tuple(names for names in copies if names is not own and os.path.abspath(names["__file__"]) == place)  # noqa: PTH100  no link is followed


def list_nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions and classes that `code` makes."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from list_nested(constant)


def handle_import(module: ModuleType) -> None:
    """Freeze what is new in a module that was imported, for each test that runs."""
    for redirections in _watched:
        redirections.freeze_imported(module)


def vars_of(owner: Any, name: str) -> Any:
    """What a module or an object has under `name`, without running a `__getattr__`."""
    return getattr(owner, "__dict__", {}).get(name)


def split(path: str) -> tuple[str, str]:
    """An import path as its module and the names within it; the module is loaded by then."""
    module, _, names = path.rpartition(".")
    while module and module not in sys.modules:
        module, _, name = module.rpartition(".")
        names = f"{name}.{names}"
    return module, names


_waiting: dict[Interception, list[Redirection]] = {}
_tools: WeakKeyDictionary[Interception, list[Tool]] = WeakKeyDictionary()
_frozen: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()
"""Every function that a test of this process has frozen, with its name as a tool."""


def release(interception: Interception, tools: list[Redirection]) -> None:
    """Take the tools of a test off, now or when nothing of it is left; that is asked again whenever a test ends."""
    _waiting[interception] = tools
    # Asked for once: `refusing` comes back here with these tools and its own, and would double them each time.
    _tools.setdefault(interception, [redirection.tool for redirection in tools])
    _frozen.update((redirection.get_function(), redirection.tool.name) for redirection in tools)
    _restore()


def next_begins() -> None:
    """Take the tools of the test that has ended last off: the set-up of the next one may call them."""
    interceptions.allow_tools()
    _restore()


def _restore() -> None:
    for ended in [*_waiting]:
        if not interceptions.has_ended_last(ended) and not ended.is_straggling():
            for tool in reversed(_waiting.pop(ended)):
                tool.restore()


@contextmanager
def refusing(interception: Interception) -> Generator[None]:
    """A block, run for a test that has ended, in which the tools of that test are refused."""
    tools = [redirect_again(tool) for tool in _tools.get(interception, ())]
    try:
        yield
    finally:
        release(interception, [*tools, *_waiting.pop(interception, ())])


def refuse_for_good() -> list[Redirection]:
    """Patch every tool of this process again, whoever calls it from now on."""
    if not _frozen:
        return []
    from pytest_agentreplay.intercept.tools.tool import Tool

    return [redirect_again(Tool(name, function)) for function, name in [*_frozen.items()]]


def redirect_again(tool: Tool) -> Redirection:
    """Redirect `tool`; the module that does it is loaded when there is one."""
    from pytest_agentreplay.intercept.tools.tool import redirect

    return redirect(tool)
