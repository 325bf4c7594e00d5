"""Redaction: what may be stored of a call and its outcome. Nothing behind the backend has ever seen a secret.

Headers by allow-list; known values (environment, auth headers seen, `agentreplay.secret`) in every guise; what names,
schemes and shapes give away, in every layer of a text (`detecting`); credentials in URLs by name; places as marks. What
a rule finds once is known from then on. Fails closed: a body that cannot be read within bounds is replaced, not passed,
and the last scan (`leaks`) names categories, never values.
It is long because `Redaction` is one class: calls, outcomes, texts and the header share what is known.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.model.exchanges import (
    FrameCall,
    FramesReply,
    HttpCall,
    HttpReply,
    ToolCall,
    ToolReply,
    WireCall,
)
from pytest_agentreplay.redaction import headers as header_rules
from pytest_agentreplay.redaction.channels import group_texts, shape_of
from pytest_agentreplay.redaction.detecting import (
    REACH,
    Detector,
    find_by_rule,
    find_certain_shapes,
    unite_findings,
)
from pytest_agentreplay.redaction.encodings import as_bytes, as_text
from pytest_agentreplay.redaction.headers import ENCODED, is_ticket, redact_url
from pytest_agentreplay.redaction.known import Known, SpanMemory, is_bare_number
from pytest_agentreplay.redaction.named import find_arranged
from pytest_agentreplay.redaction.placeholders import (
    CREDENTIAL,
    DIGEST,
    OPAQUE,
    Placeholders,
    merge_disjoint,
    splice,
    tag_of,
    tags_in,
    whole_digest,
)
from pytest_agentreplay.redaction.policy import PERSONAL, PLAIN, broken
from pytest_agentreplay.redaction.rewriting import Rewriting, StreamFinders, find_joined, may_hold_marks, redact_torn
from pytest_agentreplay.redaction.secret_names import CATEGORY, get_strength, is_stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import (
        Call,
        Exchange,
        Header,
        Headers,
        Json,
        JsonObject,
        Outcome,
        RawCall,
        RawValue,
        Run,
    )
    from pytest_agentreplay.redaction.channels import Pieces, Records
    from pytest_agentreplay.redaction.detecting import Finding
    from pytest_agentreplay.redaction.placeholders import Span
    from pytest_agentreplay.redaction.places import Places
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.rewriting import SpanFinder

MEMO = 256
LEARNT = 256
"""So many values that rules have found are known from then on; one more is only replaced where a rule finds it."""


class Redaction:
    """The redaction of one run; the interception's `Redactor`. Safe from any thread."""

    def __init__(
        self,
        places: Places,
        *,
        allow_headers: Iterable[str] = (),
        policy: Policy = PLAIN,
        is_declared: Callable[[str], bool] | None = None,
    ) -> None:
        """`allow_headers` adds to both allow-lists.

        `is_declared` says of a request header that a rule tells why it is not compared; the others, whose values are
        not stored, are told by a digest. Without it nothing is kept of them.
        """
        self._is_declared = is_declared
        self._digests: dict[tuple[str, str], str] = {}
        self._places = places
        self._policy = policy
        self._personal = PERSONAL | policy.personal
        self._known = Known()
        self._placeholders = Placeholders(self._personal | {OPAQUE}, policy.placeholders, self._kept_claims)
        self._detector = Detector(policy, self._known, self._placeholders)
        self._by_rule = 0
        self._extra = frozenset(name.lower() for name in (*allow_headers, *policy.keep_headers))
        self._uses: dict[str, str] = {}
        self._stored: dict[tuple[str, str], tuple[Headers, int]] = {}
        self._credentials: set[str] = set()
        self._remembering = SpanMemory(self._both)
        self._clean: set[tuple[str, Headers, int]] = set()
        self._began: int | None = None
        self._stands_in = re.compile(self._placeholders.pattern.pattern + rb"|\{\{!*[a-z][a-z0-9_:#-]*\}\}")
        self.touched: list[str] = []
        """Where redaction has changed more than it has found: a recording with such a place is not written."""
        self._hits: dict[str, int] = {}
        self._kept_claim_counts: Counter[str] = Counter()
        placed = self._redact_places if policy.paths else None
        self._inward_rewriting = Rewriting(
            self._find_everything,
            self._count_applied,
            self.replace_opaque,
            replace_member=self._redact_member,
            placed=placed,
            part=places.part,
            joined=functools.partial(self._find_joined, find=self._both),
            undo=True,
        )
        self._repeated_rewriting = Rewriting(
            self._find_secrets,
            self._count_applied,
            self.replace_opaque,
            replace_member=self._redact_member,
            placed=placed,
            joined=functools.partial(self._find_joined, find=self._find_learning),
        )
        self._display_rewriting = Rewriting(
            lambda data, _: [self._make_span(data, hit) for hit in self._detector.find_leaks(data)], lambda _: None
        )
        self._reveal_rewriting = Rewriting(lambda data, _: places.places_in(data), lambda _: None, None, "{{")

    def take_places(self, values: Mapping[str, str]) -> None:
        """Mark these places from now on, by mark name, instead of those so far."""
        self._places.take(values)
        self._remembering = SpanMemory(self._both)  # what was found before, was found without them
        self._clean.clear()

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out from now on, and at the seal out of what came before. False: too short or too common."""
        return self._known.learn(category, value)

    def name(self, variables: Mapping[str, str]) -> None:
        """Know which variable of the environment holds a secret, by value. Before anything is redacted."""
        self._placeholders.name(variables)

    def headers(self, headers: Headers, url: str = "") -> Headers:
        """Learn the credentials in request headers, and keep those on the allow-list, in order, case kept.

        Kept besides are flags of the agent's own, and a Host that is not that of `url`.
        """
        if len(self._stored) >= MEMO:
            self._stored.clear()
        kept: Headers = ()
        for pair in headers:
            stored, learnt = self._stored.get(pair, (None, 0))
            # Which credential of the run a header has may change with each value that becomes known.
            if stored is None or (learnt and learnt != self._known.generation + self._placeholders.count):
                use = self._uses.get(pair[0]) or self._uses.setdefault(pair[0], self._choose_use(pair[0].lower()))
                stored = self._store_header(pair, use, url)
                learnt = self._known.generation + self._placeholders.count if use == "learn" else 0
                if use not in {"session", "host"}:  # a session is counted each time, a host compared with its URL
                    self._stored[pair] = stored, learnt
            kept += stored
        return kept

    def _store_header(self, pair: tuple[str, str], use: str, url: str) -> Headers:
        """Return what is stored of one request header: a pair, or none."""
        name, value = pair
        if use == "session":
            return ((name, self._replace_value("session", value)),)
        if use == "host":
            return (pair,) if header_rules.names_another_host(value, url) else ()
        if use == "keep" or (use == "flag" and header_rules.is_flag(value)):
            return (pair,)
        text = self._learn_credentials(pair) if use == "learn" else self._digest_header(pair)
        return ((name, text),) if text else ()

    def _learn_credentials(self, pair: tuple[str, str]) -> str:
        """Learn the credentials in a header; return which ones of the run they are."""
        for category, value in header_rules.credentials(*pair):
            self._known.learn(category, value)
            self._credentials.add(value)
        return " ".join(filter(None, map(self._find_credential, header_rules.list_compared(*pair))))

    def _find_credential(self, value: str) -> str | None:
        """Return the placeholder that says which credential of the run a value is; None where that is not compared."""
        if self._placeholders.pattern.fullmatch(as_bytes(value)):
            return value
        if placeholder := self._placeholders.find_placeholder(self._known.category(value, CATEGORY), value):
            return placeholder
        # A stand-in says nothing; a JSON web token may be of the client's own make.
        if value not in self._credentials or is_stand_in(as_bytes(value)) or value.startswith("eyJ"):
            return None
        return self._placeholders.get_placeholder(CREDENTIAL, value).decode()

    def _choose_use(self, name: str) -> str:
        """Return what is done with a request header of this name, in lower case: a `Use`, or what its value decides."""
        use = header_rules.choose_use(name, self._extra)
        if name in self._policy.headers and use == "keep":
            return "digest"
        if use == "keep" and name in header_rules.SESSIONS:
            return "session"
        if use == "drop" and (name == "host" or header_rules.may_be_flag(name)):
            return "host" if name == "host" else "flag"
        return "digest" if use == "drop" else use

    def _digest_header(self, pair: tuple[str, str]) -> str:
        """Sixteen bits of a header's value, with its places as marks; "" where a rule says why it is not compared.

        So it is for a value that holds a credential: what a machine's key is does not matter.
        """
        if (cached := self._digests.get(pair)) is not None:
            return cached
        if len(self._digests) >= MEMO:
            self._digests.clear()
        name, digest = pair[0].lower(), ""
        if self._is_declared is not None and not self._is_declared(name):
            value = header_rules.LOOPBACK_PORT.sub("", self._inward_rewriting.text(pair[1].strip()))
            has_credential = self._placeholders.pattern.search(as_bytes(value)) is not None
            digest = "" if has_credential else f"{DIGEST}{tag_of(f'header {name}', value)}]]"
        self._digests[pair] = digest
        return digest

    def redact_call(self, raw: RawCall, is_recorded: Callable[[Call], bool] | None = None) -> Call:
        """Return the call as it may be stored. One that `is_recorded` byte for byte is redacted already."""
        call = raw.native
        if not isinstance(call, ToolCall):
            call = replace(call, headers=self.headers(call.headers, call.url))
        return call if is_recorded is not None and is_recorded(call) else self.redact_content(call)

    def redact_content(self, call: Call) -> Call:
        """Return the call as it may be stored; its headers have been through `headers` already."""
        if isinstance(call, ToolCall):
            arguments, facts = self._redact_declared(call.arguments), self._redact_declared(call.facts)
            is_veiled = arguments is not call.arguments or facts is not call.facts
            kept = self._inward_rewriting.call(replace(call, arguments=arguments, facts=facts) if is_veiled else call)
            self._compare(call, kept, f"the arguments of {call.name}")
            return kept
        if (call.url, call.headers, self._known.generation) in self._clean:
            same = self._inward_rewriting.call_body(call)
            self._compare(call, same, f"the request to {call.url}")
            return same
        stored = self._inward_rewriting.call(self._url(call))
        assert isinstance(stored, WireCall)
        self._compare(call, stored, f"the request to {stored.url}")
        if stored.url == call.url and stored.headers is call.headers and len(self._clean) < MEMO:
            self._clean.add((call.url, call.headers, self._known.generation))
        return stored

    def _compare(self, before: Call | Outcome, after: Any, place: str) -> None:
        """Note the place of a value that has changed in more than what was found in it."""
        if after is before:
            return
        from pytest_agentreplay.redaction.untouched import is_untouched, trees_of

        pair: tuple[Json, Json] = None, None
        match before:
            case ToolCall():
                pair = before.arguments, after.arguments
            case ToolReply():
                pair = before.value, after.value
            case HttpCall() | FrameCall() | HttpReply() if after.body is not before.body:
                pair = trees_of(before.body.data, after.body.data)
        if not is_untouched(*pair, self._stands_in, self._is_known):
            self.touched.append(place)

    def _is_known(self, part: bytes) -> bool:
        """Return whether a text is a part of a known value, as a list may hold it."""
        return any(part in secret.raw for secret in self._known.secrets)

    def redact_outcome(self, call: Call, outcome: Outcome) -> Outcome:
        """Return the outcome as it may be stored."""
        if isinstance(outcome, HttpReply | FramesReply):
            for value in header_rules.set_cookies(outcome.headers):
                self._known.learn("cookie", value)
            outcome = replace(outcome, headers=self._reply_headers(outcome.headers))
        elif isinstance(outcome, ToolReply):
            before = outcome.value, outcome.items, outcome.sent
            value, items, sent = map(self._redact_declared, before)
            if (value, items, sent) != before:
                outcome = replace(outcome, value=value, items=items, sent=sent)
        kept = self._inward_rewriting.outcome(outcome)
        self._compare(outcome, kept, f"the reply of {call.name if isinstance(call, ToolCall) else call.url}")
        return kept

    def reveal(self, outcome: Outcome) -> Outcome:
        """Return a stored outcome as it is served: today's places in the marks' stead."""
        return self._reveal_rewriting.outcome(outcome) if may_hold_marks(outcome) else outcome

    def redact_text(self, text: str) -> str:
        """Return a text of our own making (an assertion's message, a warning) as it may be stored."""
        return self._inward_rewriting.text(text)

    def redact_value(self, raw: RawValue) -> Json:
        """Return a value of a captured run as it may be stored."""
        return self._inward_rewriting.tree(self._redact_declared(raw.native))

    def hide(self, text: str) -> str:
        """Return a text as it may be shown: without known values and keys of vendors, with today's places."""
        return redact_torn(self._display_rewriting.text(text), self._known.secrets, self._replace_value)

    def hide_tree(self, tree: Json) -> Json:
        """Return plain data as it may be shown."""
        return self._display_rewriting.tree(tree)

    def replace_opaque(self, data: bytes) -> bytes:
        """Return what stands for something that cannot be kept at all."""
        self._count_hit(OPAQUE)
        return self._placeholders.get_placeholder(OPAQUE, whole_digest(data))

    @property
    def broken(self) -> dict[str, str]:
        """By category, what the redactors of the project have raised: then nothing is clean."""
        return broken(self._policy.shapes)

    def header(self, header: Header) -> Header:
        """Return a run's header as it may be stored; once, since marks are protected anew each time."""
        return rewrite_header(header, self._inward_rewriting)

    @property
    def has_learnt(self) -> bool:
        """Whether a value has become known since the first text was looked through."""
        return self._began is None or self._began != self._known.generation

    def rescan(self, run: Run) -> Run:
        """Return the whole run once more, for values that became known late.

        Idempotent: places are not marked again.
        """
        header = rewrite_header(run.header, self._repeated_rewriting)
        if not self.has_learnt:
            return replace(run, header=header)
        return replace(run, header=header, exchanges=tuple(map(self._exchange, run.exchanges)))

    def recall(self, kit: Mapping[str, Json]) -> None:
        """Know the personal values and opaque bodies of a recording again, by its tags. Before anything is redacted."""
        self._placeholders.recall(tags_in(kit))

    def reserve(self, variables: Mapping[str, str]) -> frozenset[str]:
        """Number the values of these `variables` as their recording did; return the placeholders that are its own."""
        return self._placeholders.reserve(variables)

    def was_sent(self, value: str) -> bool:
        """Return whether a header has carried `value` as a credential, or it was replaced anywhere else."""
        return value in self._credentials or self._placeholders.has(value)

    def may_be_shared(self, placeholder: str) -> bool:
        """Return whether a placeholder may stand for several of a recording: for a dummy, or a variable's value."""
        return self._placeholders.may_be_shared(placeholder)

    def is_stand_in(self, placeholder: str) -> bool:
        """Return whether a placeholder stands for a dummy."""
        return self._placeholders.is_stand_in(placeholder)

    def is_given(self, placeholder: str) -> bool:
        """Return whether a placeholder stands for a value that this run itself has redacted."""
        return self._placeholders.category(as_bytes(placeholder)) is not None

    def leaks(self, data: bytes) -> tuple[str, ...]:
        """Return the categories of what serialised text still holds; empty when it may be written. Never the values."""
        return tuple(sorted({hit.category for hit in self._detector.find_leaks(data)}))

    def findings(self, data: bytes) -> list[tuple[int, int, str]]:
        """Return (start, end, category) of the secrets in a text, and of personal values if the policy names them."""
        return [(hit.start, hit.end, hit.category) for hit in self._detector.find_all(data)]

    @property
    def record(self) -> JsonObject:
        """What was done how often: placeholders by category, marks by place; tags of personal values, variables."""
        record: JsonObject = {
            "placeholders": dict(sorted(self._hits.items())),
            "places": dict(sorted(self._places.counts.items())),
        }
        tables: dict[str, Mapping[str, Any]] = {
            "tags": self._placeholders.tags,
            "variables": self._placeholders.variables,
            "claims": self._placeholders.claims,
            "kept_claims": self._kept_claim_counts,
        }
        return record | {key: dict(sorted(values.items())) for key, values in tables.items() if values}

    def _exchange(self, exchange: Exchange) -> Exchange:
        call = self._repeated_rewriting.call(self._url(exchange.call))
        outcome = exchange.outcome and self._repeated_rewriting.outcome(exchange.outcome)
        agent = self._repeated_rewriting.text(exchange.agent) if exchange.agent else ""
        return replace(exchange, call=call, outcome=outcome, agent=agent)

    def _url(self, call: Call) -> Call:
        if isinstance(call, ToolCall) or not any(sign in call.url for sign in "?#@"):
            return call
        url = redact_url(call.url, self._replace_value)
        return call if url == call.url else replace(call, url=url)

    def _replace_value(self, category: str, value: str, *, learn: bool = True) -> str:
        if self._placeholders.pattern.fullmatch(as_bytes(value)):
            return value
        if learn:
            self._known.learn(category, value)
        self._count_hit(category)
        return self._placeholder(category, value).decode()

    def _placeholder(self, category: str, value: str) -> bytes:
        return self._placeholders.get_placeholder(self._known.category(value, category), value)

    def _kept_claims(self, claims: JsonObject) -> JsonObject:
        """Return the claims of a token that the policy keeps, redacted as any other values."""
        kept = {name: value for name, value in claims.items() if name in self._policy.keep_claims and name != "exp"}
        self._kept_claim_counts.update(kept.keys())
        return cast("JsonObject", self._repeated_rewriting.tree(kept))

    def _redact_places(self, tree: Any) -> Any:
        """Return a tree without what the policy's paths mean: of an object or a list, every value in it."""
        for category, path in self._policy.paths:
            tree = path.replace(tree, functools.partial(self._redact_scalars, category))
        return tree

    def _redact_scalars(self, category: str, tree: Any) -> Any:
        match tree:
            case dict():
                return {name: self._redact_scalars(category, value) for name, value in tree.items()}
            case list():
                return [self._redact_scalars(category, value) for value in tree]
            case bool() | None | "":
                return tree
            case _:
                return self._replace_value(category, str(tree), learn=category not in self._personal)

    def _redact_member(self, name: str, value: Any) -> Any:
        """Return a member of a tree, by its name: as it would be in JSON text."""
        if not isinstance(value, str | int) or isinstance(value, bool) or not value:
            return value
        personal = False
        if self._policy.pii:
            from pytest_agentreplay.redaction.pii import names_a_person

            personal = names_a_person(name)
        if get_strength(name) in {"", "parameter"} and name.lower() not in self._policy.names and not personal:
            return value
        data = as_bytes(json.dumps({name: value}, ensure_ascii=False))
        first = len(as_bytes(json.dumps(name, ensure_ascii=False))) + 1
        spans = [span for span in self._find_learning(data) if span[0] > first]
        if not spans:
            return value
        self._count_applied(spans)
        [changed] = json.loads(as_text(splice(data, spans))).values()
        return changed

    def _redact_declared(self, tree: Any) -> Any:
        """Return a frozen value without what the agent itself calls secret (a SecretStr), however short.

        The same if none.
        """
        if isinstance(tree, list | tuple):
            items = [self._redact_declared(item) for item in tree]
            return type(tree)(items) if any(map(operator.is_not, items, tree)) else tree
        if not isinstance(tree, dict):
            return tree
        match tree:
            case {"$secret": str(value)}:
                return {"$secret": self._replace_value("secret", value)}
            case {"$secret": [str(kind), value]}:  # of a class that no annotation names
                return {"$secret": [kind, self._redact_declared({"$secret": value})["$secret"]]}
            case {"$secret": {"$bytes": str(value) | [str(value)]}}:  # as text, or as base64
                return {"$secret": {"$bytes": self._replace_value("secret", value)}}
        fields = {name: self._redact_declared(value) for name, value in tree.items()}
        return fields if any(fields[name] is not value for name, value in tree.items()) else tree

    def _reply_headers(self, headers: Headers) -> Headers:
        kept = []
        for name, value in headers:
            lower = name.lower()
            if lower == "set-cookie":
                replace_cookie = functools.partial(self._replace_value, "cookie", learn=False)
                value = header_rules.without_cookie(value, replace_cookie)  # noqa: PLW2901  each step rewrites it
            elif value and lower in header_rules.SESSIONS:
                value = self._replace_value("session", value)  # noqa: PLW2901  as above
            elif value and (lower in self._policy.headers or not header_rules.kept_in_reply(lower, value, self._extra)):
                value = self._replace_value("header", value, learn=False)  # noqa: PLW2901  as above
            elif lower == "link":
                value = redact_url(value, self._replace_value)  # noqa: PLW2901  as above
            elif lower in {"location", "content-location"} or value.startswith(("http://", "https://")):
                value = redact_url(value, self._replace_value, is_ticket)  # noqa: PLW2901  as above
            kept.append((name, value))
        return tuple(kept)

    def _find_secrets(self, data: bytes, pieces: Pieces) -> list[Span]:
        return (
            self._find_learning(data)
            if pieces == "none"
            else self._in_pieces(data, pieces, self._find_learning, self._find_learning)
        )

    def _find_everything(self, data: bytes, pieces: Pieces) -> list[Span]:
        if self._began is None:
            self._began = self._known.generation
        if pieces == "none":
            return self._find_in_grown(data)
        return self._in_pieces(data, pieces, self._both, self._find_in_grown)

    def _find_in_grown(self, data: bytes) -> list[Span]:
        if self._known.numeric:
            return self._both(data)
        # What a guise may be drawn out by, colour codes, counts twice; escapes and marks are short.
        reach = 2 * max(self._known.may_reach, self._places.may_reach, REACH) + 64
        return self._remembering(data, reach, self._known.generation)

    def _in_pieces(
        self, data: bytes, pieces: Pieces, find: Callable[..., list[Span]], grown: Callable[[bytes], list[Span]]
    ) -> list[Span]:
        """Return what is found in joined text, and then what stands in one piece and is no part of it."""
        records, tree = shape_of(data) if isinstance(pieces, str) else (pieces, None)
        if records is not None and (tree is None or pieces == "any"):
            joined = find_joined(data, records, self._finders(find))
            taken = [(start, end) for start, end, _ in joined.interception]
            return merge_disjoint(joined.interception, find(data, taken) if taken else find(data), joined.inside)
        spans = grown(data)
        interception = [] if tree is None else self._find_scattered(data, tree)
        if not interception:
            return spans
        return merge_disjoint(interception, find(data, [(start, end) for start, end, _ in interception]))

    def _find_joined(self, data: bytes, records: Records | None, *, find: Callable[..., list[Span]]) -> list[Span]:
        """Return what only the joined text of the items of a stream shows, or in one value one member of another."""
        if records is not None:
            joined = find_joined(data, records, self._finders(find))
            return merge_disjoint(joined.interception, joined.inside)
        findings = list(find_by_rule(data, find_arranged))
        self._learn_findings(findings)
        return merge_disjoint(
            self._find_scattered(data, json.loads(data)),
            [self._make_span(data, hit) for hit in unite_findings([findings])],
        )

    def _find_scattered(self, data: bytes, tree: Json) -> list[Span]:
        """Known values that stand in several strings of one JSON value at the same path, as an agent keeps a stream.

        Nothing else that its strings show together: they are whole. A list of bytes is a text that no other rule reads.
        """
        scattered = False
        for texts in group_texts(tree):
            together = as_bytes("".join(texts))
            if not texts[0]:
                self._learn_findings([*find_by_rule(as_bytes("\n".join(texts)), find_certain_shapes)])
            scattered = scattered or any(secret.raw in together for secret in self._known.secrets)
        if not scattered:
            return []
        return find_joined(data, [(0, len(data))], self._finders(None)).interception

    def _finders(self, find: SpanFinder | None) -> StreamFinders:
        exact, sure = (
            lambda text, look=look: [self._make_span(text, hit) for hit in look(text)]
            for look in (self._detector.find_known, self._detector.find_certain)
        )
        return StreamFinders(find, exact, sure, self._places.part)

    def _both(self, data: bytes, taken: Iterable[tuple[int, int]] = ()) -> list[Span]:
        spans, marks = self._find_learning(data, taken), self._places.marks_in(data)
        return merge_disjoint(spans, marks) if marks else spans

    def _find_learning(self, data: bytes, taken: Iterable[tuple[int, int]] = ()) -> list[Span]:
        """Return the secrets in `data`, none of which overlaps what is `taken`.

        What a rule finds is known from now on.
        """
        findings = self._detector.find_all(data)
        if taken:
            findings = [part for hit in findings for part in cut_taken(data, hit, taken)]
        if findings and self._learn_findings(findings):
            findings = unite_findings([self._detector.find_known(data), findings])
        return self._find_encoded_placeholders(data, [self._make_span(data, hit) for hit in findings])

    def _learn_findings(self, findings: Iterable[Finding]) -> bool:
        """Return whether something among `findings` was not known before."""
        before = self._known.generation
        for hit in findings:
            if hit.by_rule and hit.category not in self._personal and self._by_rule < LEARNT:
                self._known.learn(hit.category, hit.value, hit.also)
        self._by_rule += self._known.generation - before
        return self._known.generation > before

    def _make_span(self, data: bytes, hit: Finding) -> Span:
        text = self._placeholder(hit.category, hit.value)
        quoted = hit.value.isdigit() and is_bare_number(data, hit.start, hit.end)
        return hit.start, hit.end, b'"' + text + b'"' if quoted else text

    @staticmethod
    def _find_encoded_placeholders(data: bytes, spans: list[Span]) -> list[Span]:
        if b"%5" in data and b"redacted" in data:
            encoded = [(hit.start(), hit.end(), b"[[redacted:%b:%b]]" % hit.groups()) for hit in ENCODED.finditer(data)]
            spans = merge_disjoint(spans, encoded)
        return spans

    def _count_applied(self, spans: list[Span]) -> None:
        self._places.count(spans)
        for _, _, text in spans:
            if (category := self._placeholders.category(text.strip(b'"'))) is not None:
                self._count_hit(category)

    def _count_hit(self, category: str) -> None:
        self._hits[category] = self._hits.get(category, 0) + 1


def cut_taken(data: bytes, hit: Finding, taken: Iterable[tuple[int, int]]) -> list[Finding]:
    """Return a finding, or what is left of it beside the spans that are taken already.

    Nothing that runs over a quote.
    """
    parts = [(hit.start, hit.end)]
    for start, end in taken:
        if start < hit.end and hit.start < end:
            parts = [
                (low, high)
                for first, last in parts
                for low, high in ((first, min(last, start)), (max(first, end), last))
                if low < high
            ]
    if parts == [(hit.start, hit.end)]:
        return [hit]
    return [
        hit._replace(start=low, end=high, by_rule=False)
        for low, high in parts
        if b'"' not in data[low:high] and b"\n" not in data[low:high]
    ]


def rewrite_header(header: Header, rewriting: Rewriting) -> Header:
    """Return the header with its outcome and kit rewritten; the test's id is its identity and stays."""
    return replace(
        header,
        outcome=cast("JsonObject", rewriting.tree(header.outcome)),
        kit=cast("JsonObject", rewriting.tree(header.kit)),
    )
