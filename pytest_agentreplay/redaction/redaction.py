"""Redaction: what may be stored of a call and its outcome. Nothing behind the backend has ever seen a secret.

A call is rewritten on its way in, by one set of findings, which three parts have. `headers` keeps those of an
allow-list. `text` finds known values in every guise, what names, schemes and shapes give away in every layer of a text,
and places. `run` is what both have learnt: a value that a rule finds once is known from then on, and the seal looks
once more through what came before it (`rescan`).

The laws: redacting twice is redacting once, since nothing is ever found in a placeholder. What stands beside a finding
stays to the byte; `untouched` checks that. It fails closed: a body that cannot be read within bounds is replaced, not
passed, and the last scan (`text.leaks`) names categories, never values.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.model.exchanges import FramesReply, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.redaction.detecting import Detector
from pytest_agentreplay.redaction.header_redaction import HeaderRedaction
from pytest_agentreplay.redaction.headers import redact_url
from pytest_agentreplay.redaction.policy import PLAIN, broken
from pytest_agentreplay.redaction.rewriting import Rewriter, change_fields, may_hold_marks
from pytest_agentreplay.redaction.run_values import RunValues
from pytest_agentreplay.redaction.text_search import TextSearch, TreeRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import (
        Call,
        Exchange,
        Header,
        Json,
        JsonObject,
        Outcome,
        RawCall,
        RawValue,
        Run,
    )
    from pytest_agentreplay.redaction.places import Places
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.spans import Span

MEMO = 256


class Redaction:
    """The redaction of one run; the interception's `Redactor`. Safe from any thread.

    Attributes:
        run: What the run has learnt: known values, placeholders, how many of each.
        headers: What is stored of headers.
        text: What is found in texts.
        touched: Where redaction has changed more than it has found: a recording with such a place is not written.
    """

    def __init__(
        self,
        places: Places,
        *,
        allow_headers: Iterable[str] = (),
        policy: Policy = PLAIN,
        is_declared: Callable[[str], bool] | None = None,
    ) -> None:
        """Begin a run that has learnt nothing.

        Args:
            places: The directories, host and user of today.
            allow_headers: Names that are added to both allow-lists.
            policy: The project's rules.
            is_declared: Whether a rule tells why a request header is not compared. The others, whose values are not
                stored, are told apart by a digest. None: nothing is kept of them.
        """
        self.run = RunValues(policy, lambda claims: cast("JsonObject", self._repeated_rewriter.tree(claims)))
        detector = Detector(policy, self.run.secrets, self.run.placeholders)
        self.text = TextSearch(detector, self.run, places, marks_places=True)
        text_again = TextSearch(detector, self.run, places, marks_places=False)
        self._tree_rules = TreeRules(policy, self.run, text_again)
        # Places are marked once: a mark that is met again is protected as what only looks like one.
        self._first_rewriter, self._repeated_rewriter = (
            Rewriter(
                search.find, self._count, self.run.replace_opaque, self._tree_rules.apply, search.find_joined, part
            )
            for search, part in ((self.text, places.part), (text_again, None))
        )
        self._display_rewriter = Rewriter(lambda data, _: self.text.find_leaks(data))
        self._serving_rewriter = Rewriter(lambda data, _: places.places_in(data))
        self.headers = HeaderRedaction(self.run, policy, allow_headers, self.redact_text, is_declared)
        self._places = places
        self._policy = policy
        self._unchanged: set[tuple[Any, ...]] = set()
        """The URL and headers of requests in which nothing was found, with what was known then."""
        self._stands_in = re.compile(self.run.placeholders.pattern.pattern + rb"|\{\{!*[a-z][a-z0-9_:#-]*\}\}")
        self.touched: list[str] = []

    def take_places(self, values: Mapping[str, str]) -> None:
        """Mark these places from now on, by mark name, instead of those so far."""
        self._places.take(values)
        self.text.forget()
        self._unchanged.clear()

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out from now on, and at the seal out of what came before. False: too short or too common."""
        return self.run.learn(category, value)

    def redact_call(self, raw: RawCall, is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the call as it may be stored. One that `is_recorded` byte for byte is redacted already."""
        call = raw.native
        if not isinstance(call, ToolCall):
            headers = self.headers.redact_request(call.headers, call.url)
            # `replace` takes four times as long, and nearly every call is one of HTTP.
            is_http = isinstance(call, HttpCall)
            call = HttpCall(call.method, call.url, headers, call.body) if is_http else replace(call, headers=headers)
        return call if is_recorded is not None and is_recorded(call) else self.redact_content(call)

    def redact_content(self, call: Call) -> Call:
        """Return the call as it may be stored; its headers have been through `headers` already."""
        if isinstance(call, ToolCall):
            arguments, facts = map(self._tree_rules.replace_declared, (call.arguments, call.facts))
            kept = self._first_rewriter.call(change_fields(call, arguments=arguments, facts=facts))
            if kept is not call:
                self._compare(call, kept, f"the arguments of {call.name}")
            return kept
        # An agent asks one URL with the same headers again and again.
        seen = call.url, call.headers, self.run.secrets.generation
        if seen in self._unchanged:
            kept = self._first_rewriter.call_body(call)
        else:
            kept = self._first_rewriter.call(self._redact_url(call))
            assert not isinstance(kept, ToolCall)
            if kept.url == call.url and kept.headers is call.headers and len(self._unchanged) < MEMO:
                self._unchanged.add(seen)
        if kept is not call:
            self._compare(call, kept, f"the request to {kept.url}")
        return kept

    def redact_outcome(self, call: Call, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be stored."""
        if isinstance(outcome, HttpReply | FramesReply):
            outcome = change_fields(outcome, headers=self.headers.redact_reply(outcome.headers))
        elif isinstance(outcome, ToolReply):
            value, items, sent = map(self._tree_rules.replace_declared, (outcome.value, outcome.items, outcome.sent))
            outcome = change_fields(outcome, value=value, items=items, sent=sent)
        kept = self._first_rewriter.outcome(outcome)
        if kept is not outcome:
            self._compare(outcome, kept, f"the reply of {call.name if isinstance(call, ToolCall) else call.url}")
        return kept

    def redact_text(self, text: str) -> str:
        """Return a text of our own making (an assertion's message, a warning) as it may be stored."""
        return self._first_rewriter.text(text)

    def redact_value(self, raw: RawValue) -> Json:
        """Return a value of a captured run as it may be stored."""
        return self._first_rewriter.tree(self._tree_rules.replace_declared(raw.native))

    def redact_header(self, header: Header) -> Header:
        """Return a run's header as it may be stored; once, since marks are protected anew each time."""
        return rewrite_header(header, self._first_rewriter)

    def reveal(self, outcome: Outcome) -> Outcome:
        """Return a stored outcome as it is served: today's places in the marks' stead."""
        return self._serving_rewriter.outcome(outcome) if may_hold_marks(outcome) else outcome

    def hide(self, text: str) -> str:
        """Return a text as it may be shown: without known values and keys of vendors, with today's places."""
        return redact_shortened(self._display_rewriter.text(text), self.run)

    def hide_tree(self, tree: Json) -> Json:
        """Return plain data as it may be shown."""
        return self._display_rewriter.tree(tree)

    def rescan(self, run: Run) -> Run:
        """Return the whole run once more, for values that became known late.

        Idempotent: places are not marked again.
        """
        header = rewrite_header(run.header, self._repeated_rewriter)
        if not self.text.has_learnt:
            return replace(run, header=header)
        return replace(run, header=header, exchanges=tuple(map(self._rescan_exchange, run.exchanges)))

    def _rescan_exchange(self, exchange: Exchange) -> Exchange:
        call = self._repeated_rewriter.call(self._redact_url(exchange.call))
        outcome = exchange.outcome and self._repeated_rewriter.outcome(exchange.outcome)
        agent = self._repeated_rewriter.text(exchange.agent) if exchange.agent else ""
        return replace(exchange, call=call, outcome=outcome, agent=agent)

    @property
    def broken(self) -> dict[str, str]:
        """By category, what the redactors of the project have raised: then nothing is clean."""
        return broken(self._policy.shapes)

    @property
    def record(self) -> JsonObject:
        """What was done how often, placeholders by category and marks by place, and what a replay needs of it."""
        placeholders, places = (dict(sorted(counts.items())) for counts in (self.run.hits, self._places.counts))
        return cast("JsonObject", {"placeholders": placeholders, "places": places} | self.run.notes)

    def _compare(self, before: Call | Outcome, after: Call | Outcome, place: str) -> None:
        """Note the place of a value that has changed in more than what was found in it."""
        # Only what has changed is compared: most calls hold nothing to redact.
        from pytest_agentreplay.redaction.untouched import is_untouched, tree_of

        if not is_untouched(tree_of(before), tree_of(after), self._stands_in, self.run.is_part):
            self.touched.append(place)

    def _redact_url(self, call: Call) -> Call:
        # Userinfo stands before an `@`, parameters behind the other two.
        if isinstance(call, ToolCall) or not any(sign in call.url for sign in "?#@"):
            return call
        return change_fields(call, url=redact_url(call.url, self.run.replace))

    def _count(self, spans: list[Span]) -> None:
        self._places.count(spans)
        self.run.count(spans)


def rewrite_header(header: Header, rewriter: Rewriter) -> Header:
    """Return the header with its outcome and kit rewritten; the test's id is its identity and stays."""
    outcome, kit = rewriter.tree(header.outcome), rewriter.tree(header.kit)
    return replace(header, outcome=cast("JsonObject", outcome), kit=cast("JsonObject", kit))


ELLIPSIS = "..."
# reprlib, pytest and logs shorten values in the middle or at the end.
SHORTEST_END = 8
"""So many characters of a value in a row are its own."""


def redact_shortened(text: str, run: RunValues) -> str:
    """Return `text` without the heads and tails of secrets that stand around an ellipsis, as pytest shortens values."""
    at = text.find(ELLIPSIS)
    while at >= 0:
        end = at + len(ELLIPSIS)
        for secret in run.secrets.secrets:
            value = secret.value
            begin = text.rfind(value[:SHORTEST_END], max(0, at - len(value)), at)
            stop = text.find(value[-SHORTEST_END:], end, end + len(value)) + SHORTEST_END
            begin = begin if begin >= 0 and value.startswith(text[begin:at]) else at
            stop = stop if stop >= SHORTEST_END and value.endswith(text[end:stop]) else end
            if (begin, stop) != (at, end):
                placeholder = run.replace(secret.category, value)
                text, end = text[:begin] + placeholder + text[stop:], begin + len(placeholder)
                break
        at = text.find(ELLIPSIS, end)
    return text
