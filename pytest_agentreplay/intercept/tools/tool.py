"""Tools, and models and retrievers of this process: functions whose code leads through the backend of a test.

`redirect` exchanges the code of the function object itself, so calls are intercepted wherever the agent holds it: under
any name, in a registry, partial, closure, default argument, bound method or instance. The original body lies in
`patching`; where no test is recorded or replayed the tool does what it always did.
"""

from __future__ import annotations

import functools
import itertools
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import lanes, patching
from pytest_agentreplay.intercept.session.interceptions import find_for_garbage, find_for_tool
from pytest_agentreplay.intercept.session.library_values import add_library_codecs
from pytest_agentreplay.intercept.session.patching import FunctionKind, get_kind, lead, list_keyword_only
from pytest_agentreplay.intercept.session.replacing import noting, shield
from pytest_agentreplay.intercept.tools import factories
from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing
from pytest_agentreplay.intercept.tools.arguments import Arguments, format_parameters, read_iterators
from pytest_agentreplay.intercept.tools.results import ANNOTATED, ToolResults
from pytest_agentreplay.intercept.tools.tool_paths import find, functions_behind, unwrap
from pytest_agentreplay.intercept.tools.tool_recording import ToolRecording
from pytest_agentreplay.intercept.tools.tool_replaying import ToolReplaying
from pytest_agentreplay.model.exchanges import SELF, RawCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FunctionType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import MadeOf, Seam
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.tools.tool_paths import ToolPath
    from pytest_agentreplay.intercept.tools.tool_verifying import ToolVerifying
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.values import Codec

    Values = tuple[Any, ...]
    Keywords = dict[str, Any]

__all__ = ["ANNOTATED", "Redirection", "Tool", "find", "redirect"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function to freeze, under the `name` that people are shown. `returns` is a type; else its annotation counts.

    One whose effects are "live" runs for real. `boundary` says what the function is,
    `facts` what is known of a model or a retrieval (see `core.model.ToolCall`).
    """

    name: str
    function: Callable[..., Any]
    effects: Literal["read", "write", "live"] = "write"
    returns: Any = ANNOTATED
    boundary: Literal["tool", "model", "retrieval"] = "tool"
    facts: JsonObject = field(default_factory=dict)


class Redirection:
    """One tool, intercepted from now until `restore`."""

    def __init__(
        self, tool: Tool, seam: ToolFunctions, layer: PatchedFunction, results: ToolResults, codecs: Sequence[Codec]
    ) -> None:
        """Made by `redirect` alone."""
        self.tool = tool
        self.results = results
        self.codecs = codecs
        self._seam = seam
        self._layer = layer

    def get_function(self) -> FunctionType:
        """Return the function whose code is exchanged."""
        return self._layer.function

    def describe_parameters(self) -> str:
        """Return what the function takes: "order, amount=, *rest, key"."""
        return format_parameters(self.codes()[0], self._layer.function)

    def codes(self) -> list[CodeType]:
        """Return the codes that the functions of the tool were written with."""
        return [layer.code for layer in self._seam.layers]

    def follow(self, namespace: dict[str, Any]) -> None:
        """Freeze what the factory of the tool makes that stands in `namespace` now."""
        self._layer.follow(namespace)

    def show_as(self, name: str) -> None:
        """Call the tool `name` from now on."""
        self.tool = replace(self.tool, name=name)

    def mark_running(self, interception: Interception, intercepted: PendingCall) -> None:
        """Mark the framework's call that was entered as `intercepted` as this tool's: its function then just runs."""
        interception.tools.running[self._seam, intercepted.ticket] = None, intercepted

    def restore(self) -> None:
        """Take this tool off; the last one of a function gives it back its very own code. Twice is once."""
        with _LOCK:
            if self in self._layer.redirections:
                self._layer.redirections.remove(self)
                self._seam.forget()
                if not any(layer.redirections for layer in self._seam.layers):
                    self._seam.close()


def redirect(tool: Tool, codecs: Sequence[Codec] = ()) -> Redirection:
    """Intercept `tool` wherever it is held. A function redirected again stays one tool; the last declaration counts.

    `codecs` is read at each call. Caches of `functools` around the function are cleared, so that a test finds the same
    whether it runs alone or after others. Raises CannotRedirect for what has no Python code to exchange.
    """
    path = unwrap(tool.function, tool.name)
    with _LOCK:
        layer = _LAYERS.get(path.functions[0])
        if layer is None:
            layer = ToolFunctions(path).layers[0]
        label = f"{tool.boundary} {tool.name}"
        results = ToolResults(label, [each.function for each in layer.seam.layers], tool.returns, codecs)
        redirection = Redirection(tool, layer.seam, layer, results, codecs)
        layer.redirections.append(redirection)
        layer.seam.forget()
    return redirection


def is_redirected(function: Callable[..., Any]) -> bool:
    """Whether calls of the function go through the backend already. Raises CannotRedirect for what is no tool."""
    return unwrap(function, "").functions[0] in _LAYERS


def find_declaration(function: Callable[..., Any]) -> Redirection | None:
    """Return the last declaration of the function behind a framework's tool; None for one that nobody has declared."""
    if not _LAYERS:
        return None
    layer = next((_LAYERS[behind] for behind in functions_behind(function) if behind in _LAYERS), None)
    redirection = None if layer is None else layer.find_redirection()
    return redirection if redirection is not None and redirection.tool.boundary == "tool" else None


_LOCK = threading.RLock()
_LAYERS: dict[FunctionType, PatchedFunction] = {}
_KEYS = itertools.count(1)


class ToolFunctions:
    """The functions that make up one tool: the one that is held, and those that its wrappers wrap.

    An inner one called by its wrapper just runs; called past it (by `__wrapped__`) it is the tool itself.
    """

    def __init__(self, path: ToolPath) -> None:
        """Lead all functions of `held` that no other tool has taken; the outermost is free."""
        self.caches = path.caches
        self.layers: list[PatchedFunction] = []
        try:
            for function in path.functions:
                if function not in _LAYERS:
                    self.layers.append(PatchedFunction(function, self, bound=path.bound))
        except BaseException:
            self.close()
            raise
        self.awaitable = any(layer.kind is FunctionKind.COROUTINE for layer in self.layers)

    def forget(self) -> None:
        """Empty the caches: what they hold came from another test, or from a recording."""
        for cache in self.caches:
            cache.cache_clear()

    def close(self) -> None:
        """Return every function its own code again."""
        for layer in self.layers:
            layer.close()

    def enclosing(self, interception: Interception, layer: PatchedFunction) -> PendingCall | None:
        """The call of this very tool right around us, entered by a framework or a layer around `layer`; if any."""
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is None or call_context.inside is None:
            return None
        outer, intercepted = interception.tools.running.get((self, call_context.inside[0]), (layer, None))
        inner = outer is None or self.layers.index(outer) < self.layers.index(layer)
        return intercepted if inner and intercepted is not None and intercepted.open else None


class PatchedFunction:
    """One function with exchanged code. Holds no way to the original: `patching` keeps that, under `_key`."""

    def __init__(self, function: FunctionType, seam: ToolFunctions, *, bound: bool) -> None:
        """Exchange the code. Raises CannotRedirect when the function's shape forbids it."""
        self.function = function
        self.seam = seam
        self.redirections: list[Redirection] = []
        # What a factory made while the tool was frozen has a code of ours.
        code = function.__code__ = factories.own_code(function)
        self.kind = get_kind(code)
        self._only = list_keyword_only(code)
        self._arguments = Arguments(function, bound=bound)
        self._key = next(_KEYS)
        patching.keep(self._key, function, code)
        kinds: dict[FunctionKind, Callable[..., Any]] = {
            FunctionKind.PLAIN: self.call_plain,
            FunctionKind.COROUTINE: self.call_coroutine,
            FunctionKind.GENERATOR: functools.partial(self.call_generator, "flow"),
            FunctionKind.ASYNC_GENERATOR: functools.partial(self.call_generator, "async_flow"),
        }
        intercept = shield(functools.partial(functools.partial, kinds[self.kind]), self._pass_on)
        lead(function, intercept)
        _LAYERS[function] = self
        self.code, self._intercept = code, intercept
        self._made = factories.follow(function, code, intercept, function.__globals__)

    def follow(self, namespace: dict[str, Any]) -> None:
        """Freeze what the factory of the tool makes that stands in `namespace` now."""
        self._made += factories.follow(self.function, self.code, self._intercept, namespace)

    def close(self) -> None:
        """Return the function its own code again."""
        if _LAYERS.pop(self.function, None) is self:
            self.function.__code__ = patching.empty(self._key)
            for made in self._made:
                made.leave(self.function)

    def call_plain(self, real: Callable[..., Any], *values: Any) -> Any:
        """Intercept a call of a plain function."""
        __tracebackhide__ = True
        run, entered = self._enter(real, *values)
        if isinstance(entered, ToolReplaying):
            return entered.call(awaitable=self.seam.awaitable)
        return run() if entered is None else entered.call(run)

    async def call_coroutine(self, real: Callable[..., Any], *values: Any) -> Any:
        """Intercept a call of a coroutine function, when it is awaited."""
        __tracebackhide__ = True
        run, entered = self._enter(real, *values)
        if isinstance(entered, ToolReplaying):
            return await entered.wait()
        return await (run() if entered is None else entered.wait(run()))

    def call_generator(self, flow: str, real: Callable[..., Any], *values: Any) -> Any:
        """Intercept a call of a generator function, when its first item is asked for, by the method `flow`."""
        __tracebackhide__ = True
        run, entered = self._enter(real, *values)
        if isinstance(entered, ToolReplaying):
            return getattr(entered, flow)()
        return run() if entered is None else getattr(entered, flow)(run())

    def _pass_on(self, values: Values, only: Values, star: Values, stars: Keywords, made: MadeOf | None = None) -> Any:
        """Run the original, where no test is recorded or replayed."""
        keywords = dict(zip(self._only, only, strict=True)) | stars
        return patching.make_unintercepted(self._key, made)(*values, *star, **keywords)

    def _enter(  # noqa: PLR0917  as a trampoline hands them over
        self, real: Seam, values: Values, only: Values, star: Values, stars: Keywords, made: MadeOf | None = None
    ) -> tuple[Callable[[], Any], ToolRecording | ToolReplaying | ToolVerifying | None]:
        """How to run the original, and what to do with it; in a replay there is no way to run it.

        `made` is given for a function that the tool's factory has made anew: its body and its closure.
        """
        __tracebackhide__ = True
        interception = find_for_tool() or find_for_garbage()
        if interception is None:
            return functools.partial(real, values, only, star, stars, made), None
        keywords = dict(zip(self._only, only, strict=True)) | stars
        enclosing = self.seam.enclosing(interception, self)
        if enclosing is not None:
            body = noting(real, patching.lend(self._key, enclosing, made))
            return functools.partial(body, *values, *star, **keywords), None
        redirection = self.find_redirection()
        read, (values, star, keywords) = read_iterators(values, star, keywords)
        arguments = self._arguments.name_values((*read[0], *read[1]), read[2])
        tool = redirection.tool
        # A model of this process is its weights and a retriever its index: what a frozen answer stands in for.
        receiver = self._arguments.receiver(values) if tool.boundary == "tool" else None
        cells = factories.list_cells([layer.function for layer in self.seam.layers])
        cells |= zip(self.code.co_freevars, (made and made[1]) or (), strict=False)
        codecs, cells = add_library_codecs(redirection.codecs), cells if tool.boundary == "tool" else {}
        frozen = ArgumentFreezing(arguments, receiver, self.function, codecs, cells)
        facts = tool.facts if frozen.receiver is None else {**tool.facts, SELF: frozen.receiver}
        call = ToolCall(tool.name, frozen.arguments, tool.boundary, facts, self._arguments.defaults(arguments))
        intercepted = interception.enter(RawCall(call), reads=tool.effects == "read")
        if intercepted.forward:
            interception.tools.functions.add(tool.name)
            frozen.watch(interception, intercepted, tool.name)
        entered = handle_call(interception, intercepted, redirection.results, awaitable=self.seam.awaitable)
        if not intercepted.open:
            return _refuse_to_run, entered
        interception.tools.running[self.seam, intercepted.ticket] = self, intercepted
        body = noting(real, patching.lend(self._key, intercepted, made))
        return functools.partial(body, *values, *star, **keywords), entered

    def find_redirection(self) -> Redirection:
        """Return the last declaration of this function, else of the tool that it is part of."""
        with _LOCK:
            if self.redirections:
                return self.redirections[-1]
            return next(layer.redirections[-1] for layer in self.seam.layers if layer.redirections)


def handle_call(
    interception: Interception, intercepted: PendingCall, results: ToolResults, *, awaitable: bool = False
) -> ToolRecording | ToolReplaying | ToolVerifying:
    """Return how a tool's call is made, as the backend decided. Only a `ToolReplaying` does not run the original."""
    if intercepted.forward:
        return ToolRecording(interception, intercepted, results)
    if intercepted.compare is None:
        return ToolReplaying(interception, intercepted, results)
    from pytest_agentreplay.intercept.tools.tool_verifying import ToolVerifying  # most replays verify nothing

    return ToolVerifying(interception, intercepted, results, awaitable=awaitable)


def _refuse_to_run() -> NoReturn:
    raise ReplayDiverged("refused: a recorded tool is never run while its answers are replayed")
