"""What one tool returns, between its native form and the frozen one, and what the consumer of a generator sends.

What is sent is kept in `ToolReply.sent`, in order: {"after": 2, "value": ...} for what was sent when the second item
had come, and {"after": 2, "raised": {...}} for what was thrown. `next(generator)` sends nothing and is not kept.
"""

from __future__ import annotations

import collections.abc
import re
import typing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze, ReplayDiverged
from pytest_agentreplay.intercept.session.library_values import add_library_codecs
from pytest_agentreplay.intercept.session.patching import find_exception, is_exception
from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import ToolReply
from pytest_agentreplay.values import freeze, load
from pytest_agentreplay.values.failure import failure_of, raise_able
from pytest_agentreplay.values.hints import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.session.session_parts import Redactor
    from pytest_agentreplay.model.exchanges import Failure, Json, JsonObject
    from pytest_agentreplay.values import Codec


_PLACEHOLDER = re.compile(r"\[\[redacted:[^\]]*\]\]")


class GeneratorInput:
    """What was sent into one replayed generator when it was recorded, to compare with what is sent now."""

    def __init__(self, intercepted: PendingCall, redactor: Redactor) -> None:
        """Nothing is compared for a reply that no generator gave: that of a trace, or one written by hand."""
        recorded = intercepted.exchange.outcome if intercepted.exchange is not None else None
        kept = recorded.sent if isinstance(recorded, ToolReply) else None
        self._recorded = None if kept is None else {x["after"]: x for x in kept if isinstance(x, dict)}
        self._intercepted = intercepted
        self._redactor = redactor

    def difference(self, after: int, now: JsonObject | None) -> str:
        """Return in a few words what differs between what is sent now and what was; "" for nothing."""
        if self._recorded is None:
            return ""
        was = self._recorded.get(after)
        if now is not None:
            outcome = self._redactor.redact_outcome(self._intercepted.call, ToolReply(sent=(now,)))
            assert isinstance(outcome, ToolReply)
            assert outcome.sent is not None
            [now] = outcome.sent  # type: ignore[assignment]
        if _is_same(was, now):
            return ""
        return f"{_describe(now)} after item {after}; in the recording {_describe(was)}"


def _is_same(was: Json, now: Json) -> bool:
    """Return whether both are equal; a secret of the recording stands for any other."""
    texts = _PLACEHOLDER.split(canonical(was))
    return re.fullmatch(".*".join(map(re.escape, texts)), canonical(now), re.DOTALL) is not None


def _describe(entry: Json) -> str:
    if not isinstance(entry, dict):
        return "nothing was sent"
    if isinstance(raised := entry.get("raised"), dict):
        return f"{raised['type']}({raised['message']!r}) was thrown"
    return f"{canonical(entry.get('value'))} was sent"


ANNOTATED: Any = object()
"""`returns` of a tool whose own annotation says what it gives."""

_AWAITED = {collections.abc.Awaitable, collections.abc.Coroutine}
_FLOWING = {
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
}


class ToolResults:
    """Freezes and thaws for one tool. `codecs` is read at each use, so that codecs registered later count."""

    def __init__(
        self, name: str, functions: Sequence[Callable[..., Any]], returns: Any, codecs: Sequence[Codec]
    ) -> None:
        """`name` is how people are told it, "tool refund"; `functions` are its layers, the outermost first.

        The first annotated one says what it returns.
        """
        self.name = name
        self._functions = functions
        # A bare object() is how callers say "not given"; it says nothing about a type either.
        self._returns = ANNOTATED if type(returns) is object else returns
        self._codecs = codecs

    @cached_property
    def _hint(self) -> Any:
        """What one call gives, awaited. Looked up when first needed: names that it uses may be defined late."""
        hint = self._returns if self._returns is not ANNOTATED else self._annotation()
        while typing.get_origin(hint) in _AWAITED and typing.get_args(hint):
            hint = typing.get_args(hint)[-1]
        return type(None) if hint is None and self._returns is None else hint

    def _annotation(self) -> Any:
        for function in self._functions:
            if "return" in getattr(function, "__annotations__", {}):
                try:
                    return typing.get_type_hints(function)["return"]
                except Exception:
                    # A name imported for type checkers only; `freeze` asks for returns= where that matters.
                    bare = function.__annotations__["return"]
                    return None if isinstance(bare, str) else bare
        return None

    @cached_property
    def _flow_hints(self) -> tuple[Any, Any]:
        """What a generator yields, and what it returns at its end."""
        args = typing.get_args(self._hint)
        if typing.get_origin(self._hint) not in _FLOWING or not args:
            return self._hint, None
        return args[0], args[2] if len(args) == 3 else None

    def freeze_result(self, interception: Interception, value: Any) -> Json:
        """Return the frozen result of a call."""
        return self._freeze(interception, value, self._hint, "returned")

    def freeze_item(self, interception: Interception, value: Any) -> Json:
        """Return the frozen item of a generator."""
        return self._freeze(interception, value, self._flow_hints[0], "yielded")

    def freeze_end(self, interception: Interception, value: Any) -> Json:
        """Return the frozen return value of a generator."""
        return self._freeze(interception, value, self._flow_hints[1], "returned at its end")

    def freeze_sent(self, after: int, value: Any) -> list[JsonObject]:
        """Return what was sent into a generator, for comparison; nothing for None."""
        if value is None:
            return []
        serialized = ArgumentFreezing({"value": value}, codecs=add_library_codecs(self._codecs))
        return [{"after": after} | serialized.arguments]

    def freeze_thrown(self, after: int, error: BaseException) -> JsonObject:
        """Return what was thrown into a generator, for comparison."""
        failure = self.freeze_error(error)
        return {"after": after, "raised": {"type": failure.type, "message": failure.message}}

    def load_result(self, interception: Interception, data: Json) -> Any:
        """Return a recorded result, made anew."""
        return self._load(interception, data, self._hint)

    def load_item(self, interception: Interception, data: Json) -> Any:
        """Return a recorded item of a generator, made anew."""
        return self._load(interception, data, self._flow_hints[0])

    def load_end(self, interception: Interception, data: Json) -> Any:
        """Return a recorded return value of a generator, made anew."""
        return self._load(interception, data, self._flow_hints[1])

    def freeze_error(self, error: BaseException) -> Failure:
        """Return the frozen exception of a call."""
        return failure_of(error, self._codecs)

    def make_error(self, failure: Failure) -> BaseException:
        """Return a recorded exception, made anew. Raises CannotFreeze for one that does not come back."""
        return raise_able(failure, self._exception, self._codecs)

    def _exception(self, path: str) -> type | None:
        """The loaded class of that path, else the one of its last name in the tool's module.

        Traces of other tools tell the name alone, or the module as it was called where the agent ran.
        """
        if (loaded := find_exception(path)) is not None:
            return loaded
        named_alike = (
            getattr(function, "__globals__", {}).get(path.rpartition(".")[2]) for function in self._functions
        )
        return next((candidate for candidate in named_alike if is_exception(candidate)), None)

    def _freeze(self, interception: Interception, value: Any, hint: Any, verb: str) -> Json:
        """Return the frozen value; what cannot be frozen fails the test at its end, and the agent has the real one."""
        try:
            return freeze(value, hint=hint, codecs=add_library_codecs(self._codecs))
        except CannotFreeze as error:
            boundary = self.name.partition(" ")[0]
            text = str(error).replace("agentreplay.tool(fn,", f"agentreplay.{boundary}({self._place()},")
            problem = CannotFreeze(f"{self.name} {verb} {text}", path=error.path, kind=error.kind)
        except Exception as error:
            kind = dotted_name(type(value))
            text = f"{self.name} {verb} a {kind} that raised {type(error).__name__} while it was looked at: {error}"
            problem = CannotFreeze(f"{text}\n    agentreplay.codec({kind}, freeze, thaw)", path="$", kind=kind)
        interception.observed.note_problem(problem)
        return {"$opaque": problem.kind}

    def _load(self, interception: Interception, data: Json, hint: Any) -> Any:
        try:
            return load(data, hint=hint, codecs=add_library_codecs(self._codecs))
        except CannotFreeze as error:
            text = f"the recorded result of {self.name} cannot be made again: {error}; record the test again"
            interception.observed.problems.append(CannotFreeze(text, path=error.path, kind=error.kind))
            raise ReplayDiverged(text) from error

    def _place(self) -> str:
        function = self._functions[0]
        path = f"{function.__module__}.{function.__qualname__}"
        return function.__name__ if "<locals>" in path else path
