"""Spoken values: what stands beside a name without a `=` or `:` between them, in commands, XML, code and sentences.

    --password VALUE      -u name:VALUE      sshpass -p VALUE      machine host login me password VALUE
    IDENTIFIED BY 'VALUE'      redis-cli -a VALUE      api_key=SecretStr("VALUE")
    <password>VALUE</password>      <add key="ApiKey" value="VALUE"/>      environ["TOKEN"] = "VALUE"
    the password is VALUE

Beside so weak a sign a value has to look random, too; in XML and code the name decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.fields import believed, is_stand_in, looks_random, strength
from pytest_agentreplay.core.redaction.secret_names import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUE = rb"(?P<value>[^\s\"'`<>\\;|&()]{8,160})"
_OPTION = re.compile(rb"--(?P<name>[a-z][\w-]{1,40})[ \t]{1,4}[\"']?" + _VALUE)
_ANY_OPTION = re.compile(rb"-[-upa]")
"""One look that clears a text of four kinds of options."""
_USER = re.compile(rb"(?:-u|--user|--proxy-user)[ =][\"']?[^\s\"':/]{1,64}:" + _VALUE)
_LOGIN = re.compile(
    rb"(?:(?:sshpass|docker login|podman login|helm registry login|az login)[^\n]{0,80}? -p"
    rb"|redis-cli[^\n]{0,80}? -a|htpasswd -[a-zA-Z]{0,4}b[a-zA-Z]{0,4}(?: [^\s]{1,80}){2}) ?[\"']?" + _VALUE
)
_ELEMENT = re.compile(rb"<(?P<name>[A-Za-z][\w:.-]{1,40})(?:\s[^<>]{0,200})?>(?P<value>[^<>\s]{6,512})</")
_QUOTE = rb"\\{0,16}[\"']"
_NAMED = rb"(?:key|name)=" + _QUOTE + rb"(?P<name>[\w:.-]{2,60})" + _QUOTE
_VALUED = rb"value=" + _QUOTE + rb"(?P<value>[^\"'<>\\]{6,512})" + _QUOTE
_TAG_ATTRIBUTES = re.compile(_NAMED + rb"\s{1,4}" + _VALUED)
_BACKWARDS = re.compile(_VALUED + rb"\s{1,4}" + _NAMED)
_SUBSCRIPT = re.compile(
    rb"\[[\"'](?P<name>[\w.-]{2,60})[\"']\][ \t]{0,4}=[ \t]{0,4}[\"'](?P<value>[^\"'\s\\]{6,512})[\"']"
)
_WRAPPED = re.compile(
    rb"(?P<name>[\w.-]{2,60})[ \t]{0,4}[=:][ \t]{0,4}SecretStr\([\"'](?P<value>[^\"'\s\\]{6,512})[\"']"
)
_SUBJECTS = {
    b"pass": (b"password", b"passphrase", b"passwd", b"passcode", b"requirepass"),
    b"api": (b"api key", b"api_key", b"api-key", b"api token", b"api_token"),
    b"access": (b"access token", b"access key", b"access_key"),
    b" key": (b"secret key",),
    b" token": (b"auth token", b"bearer token"),
}
"""What a sentence says the value of, by what stands in all of them."""
_SENTENCE = re.compile(
    rb"(?:[ \t]{1,4}(?:(?i:for|of|to) [\w.@-]{1,40} )?(?i:is|was)[ \t]{1,4}|[ \t]{0,3}[:=][ \t]{0,3}|[ \t]{1,4})[\"'`]?"
    + _VALUE
)
_SQL = re.compile(
    rb"(?i:password|identified by)(?: for [^\s]{1,80} =)?[ \t]{1,4}'(?P<value>[^'\s\\]{6,160})'", re.IGNORECASE
)
_WORDLIKE = re.compile(rb"[/.~-].*|.*://.*|[0-9TZ:.+-]*", re.DOTALL)


def find_spoken(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Where such values stand, as (start, end, category)."""
    lower = text.lower()
    has_option, has_pass = _ANY_OPTION.search(text) is not None, b"pass" in lower
    if has_option and b"--" in text:
        for hit in _OPTION.finditer(text):
            if strength(hit["name"].decode()) not in {"", "parameter"}:
                yield from random_value(hit)
    for may, sign, pattern in (
        (has_option, b"-u", _USER),
        (has_option, b" -p", _LOGIN),
        (has_option, b" -a", _LOGIN),
        (has_pass, b"htpasswd", _LOGIN),
    ):
        if may and sign in text:
            for hit in pattern.finditer(text):
                yield from random_value(hit)
    # A search for one byte costs a tenth of one for two, and most texts have none of these.
    for byte, sign, pattern in (
        (b"<", b"</", _ELEMENT),
        (b"=", b"value=", _TAG_ATTRIBUTES),
        (b"=", b"value=", _BACKWARDS),
        (b"=", b"] =", _SUBSCRIPT),
        (b"=", b"]=", _SUBSCRIPT),
        (b"(", b"SecretStr(", _WRAPPED),
    ):
        if byte in text and sign in text:
            for hit in pattern.finditer(text):
                said = strength(hit["name"].decode())
                if said not in {"", "parameter"} and believed(said, hit["value"], quoted=True):
                    yield *hit.span("value"), CATEGORY
    if b"'" in text and (has_pass or b"identified by" in lower):
        for hit in _SQL.finditer(text):
            if believed("strong", hit["value"], quoted=True):
                yield *hit.span("value"), CATEGORY
    for subject in (subject for sign, subjects in _SUBJECTS.items() if sign in lower for subject in subjects):
        at = lower.find(subject)
        while at >= 0:
            at += len(subject)
            if (sentence := _SENTENCE.match(text, at)) is not None:
                yield from random_value(sentence)
            at = lower.find(subject, at)


def random_value(hit: re.Match[bytes]) -> Iterator[tuple[int, int, str]]:
    """The value of a match, if it looks random; the full stop behind it is none of it. A date and a path do not."""
    value = hit["value"].rstrip(b".,:!?")
    if looks_random(value) and not is_stand_in(value) and _WORDLIKE.fullmatch(value) is None:
        yield hit.start("value"), hit.start("value") + len(value), CATEGORY
