"""What is stored of the headers of one run, and what they give away.

A request header is stored, learnt as a credential, or told by sixteen bits of a digest: enough to see that another
value was sent. Of a credential its placeholder is stored, which says which one of the run it is. A reply keeps all its
headers, those that are on no list without their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.redaction import headers as rules
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.placeholders import DIGEST, tag_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Headers
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.run_values import RunValues


class HeaderRedaction:
    """What is stored of the headers of one run."""

    def __init__(
        self,
        run: RunValues,
        policy: Policy,
        allow_headers: Iterable[str],
        redact_text: Callable[[str], str],
        is_declared: Callable[[str], bool] | None,
    ) -> None:
        """Begin with no header.

        Args:
            run: The values that the run has learnt.
            policy: Which headers are stored, or left out, besides those on the lists here.
            allow_headers: Names of others that are stored.
            redact_text: Returns a text as it may be stored.
            is_declared: Whether a rule says why a request header is not compared: it needs no digest. None: none has.
        """
        self._run = run
        self._keep = frozenset(name.lower() for name in (*allow_headers, *policy.keep_headers))
        self._leave_out = policy.headers
        self._redact_text = redact_text
        self._is_declared = is_declared
        self._stored: dict[tuple[str, str], tuple[Headers, int | None]] = {}
        self._plain: set[tuple[str, str]] = set()
        """Headers of replies that are stored as they are: most come again with each reply of a server."""

    def redact_request(self, headers: Headers, url: str = "") -> Headers:
        """Return what is stored of the headers of a request to `url`, in order, case kept; learn their credentials.

        Flags of the agent's own are stored, and a Host that is not that of `url`.
        """
        kept: Headers = ()
        for pair in headers:
            stored, learnt = self._stored.get(pair, (None, None))
            # Which credential of the run a header has may change with each value that becomes known.
            if stored is None or (learnt and learnt != self._run.count_values()):
                stored = self._store(pair, url)
            kept += stored
        return kept

    def _store(self, pair: tuple[str, str], url: str) -> Headers:
        """Return what is stored of one request header, a pair or none, and remember it."""
        name, value = pair
        use = rules.choose_use(name.lower(), self._keep, self._leave_out)
        # Not remembered: a session is counted each time, a host compared with its URL.
        if use == "session":
            return ((name, self._run.replace("session", value)),)
        if use == "host":
            return (pair,) if rules.names_another_host(value, url) else ()
        if use == "keep" or (use == "flag" and rules.is_flag(value)):
            stored: Headers = (pair,)
        else:
            text = self._learn_credentials(pair) if use == "learn" else self._digest(pair)
            stored = ((name, text),) if text else ()
        if len(self._stored) >= rules.MEMO:
            self._stored.clear()
        self._stored[pair] = stored, self._run.count_values() if use == "learn" else None
        return stored

    def _learn_credentials(self, pair: tuple[str, str]) -> str:
        """Learn the credentials in a header; return which ones of the run they are."""
        for category, value in rules.credentials(*pair):
            self._run.learn_sent(category, value)
        return " ".join(filter(None, map(self._run.find_credential, rules.list_compared(*pair))))

    def _digest(self, pair: tuple[str, str]) -> str:
        """Return sixteen bits of a header's value, with its places as marks; "" where a rule tells why it is left out.

        So it is for a value that holds a credential: what a machine's key is does not matter.
        """
        name = pair[0].lower()
        if self._is_declared is None or self._is_declared(name):
            return ""
        # The port of a server on this machine is another one in each run.
        value = rules.LOOPBACK_PORT.sub("", self._redact_text(pair[1].strip()))
        has_credential = self._run.placeholders.pattern.search(as_bytes(value)) is not None
        return "" if has_credential else f"{DIGEST}{tag_of(f'header {name}', value)}]]"

    def redact_reply(self, headers: Headers) -> Headers:
        """Return the headers of a reply as they may be stored, none left out; learn the cookies that it sets."""
        if self._plain.issuperset(headers):
            return headers
        for value in rules.set_cookies(headers):
            self._run.learn("cookie", value)
        return tuple(pair if pair in self._plain else (pair[0], self._redact_in_reply(pair)) for pair in headers)

    def _redact_in_reply(self, pair: tuple[str, str]) -> str:
        """Return the value of a reply header as it may be stored; remember one that is stored as it is."""
        name, value = pair[0].lower(), pair[1]
        if name == "set-cookie":
            return rules.without_cookie(value, lambda cookie: self._run.replace("cookie", cookie, learn=False))
        if value and name in rules.SESSIONS:
            return self._run.replace("session", value)
        if value and (name in self._leave_out or not rules.kept_in_reply(name, value, self._keep)):
            return self._run.replace("header", value, learn=False)
        if name == "link":
            return rules.redact_url(value, self._run.replace)
        if name in {"location", "content-location"} or value.startswith(("http://", "https://")):
            return rules.redact_url(value, self._run.replace, rules.is_ticket)
        if len(self._plain) >= rules.MEMO:
            self._plain.clear()
        self._plain.add(pair)
        return value
