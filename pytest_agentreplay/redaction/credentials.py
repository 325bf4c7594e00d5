"""Credentials that a word beside them gives away: schemes of headers, parts of URLs, cookies, private keys.

Spoken values stand beside a name without a `=` or `:` between them, in commands, XML, code and sentences:

    --password VALUE      -u name:VALUE      sshpass -p VALUE      machine host login me password VALUE
    IDENTIFIED BY 'VALUE'      redis-cli -a VALUE      api_key=SecretStr("VALUE")
    <password>VALUE</password>      <add key="ApiKey" value="VALUE"/>      environ["TOKEN"] = "VALUE"
    the password is VALUE

Beside so weak a sign a value has to look random, too; in XML and code the name decides.

Keys without a form of their own are found by the name of their vendor beside them: `cohere.Client("...")`. Of letters
of both cases and digits the length alone is asked for, since ids and hashes are not written so. What is written in
hexadecimal digits could be any hash, so the word key or token has to stand between.

The values that a policy names by their JSON path are found in the bytes of a body. A value is a string or a number; a
path that names an object or a list means all the values in it. A body that is no JSON has no paths; of a stream, each
line that is JSON does.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction.headers import COOKIE_SHORTEST
from pytest_agentreplay.redaction.known import find_everywhere
from pytest_agentreplay.redaction.named import SEPARATOR, find_quoted
from pytest_agentreplay.redaction.secret_names import (
    CATEGORY,
    get_strength,
    is_believed,
    is_generated,
    is_stand_in,
    looks_random,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.json_paths import Place, Selector

BLOCK = 8192
LEAST = 16
_BEGIN = b"-----BEGIN "
_BEGINS = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_ENDS = re.compile(rb"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_REST = re.compile(rb"[A-Za-z0-9+/=\s]*")
_SCHEMES = (b"bearer", b"basic", b"token", b"apikey", b"negotiate")
_AFTER_SCHEME = re.compile(rb"[ \t]{1,4}(?:token=)?[\"']?(?P<value>[A-Za-z0-9._~+/%-]{12,4096}={0,2})")
_USERINFO = re.compile(rb"""://(?P<user>[^\s/:@"'<>\\?#]{0,256})(?::(?P<password>[^\s/"'<>\\?#]{1,256}))?@""")
_HEX_KEY = re.compile(rb"[0-9a-f]{32,}\Z")
_LINE = re.compile(rb"""(?:[^\r\n"'=]|=(?:\\{0,63}"[^\r\n"]*")?){1,8192}""")
_PAIR = re.compile(rb"""(?P<name>[^=;\s"'\\]+)=\\{0,63}"?(?P<value>[^;"'\s\\]+)""")
_LONE = re.compile(rb"[^=;,\s\"'\\<>&]{16,}")
_ATTRIBUTES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"version"))
_PATHS = (
    # https://core.telegram.org/bots/api#authorizing-your-bot; the digits are the id of the bot.
    (b"/bot", re.compile(rb"(?P<value>[0-9]{4,12}:[\w-]{30,64})(?![\w-])"), "telegram-key"),
    # https://api.slack.com/messaging/webhooks
    (
        b"/services/T",
        re.compile(rb"[A-Z0-9]{5,12}/B[A-Z0-9]{5,12}/(?P<value>[A-Za-z0-9]{16,32})(?![\w-])"),
        "slack-webhook",
    ),
    # https://discord.com/developers/docs/resources/webhook
    (b"/webhooks/", re.compile(rb"[0-9]{15,22}/(?P<value>[\w-]{40,100})(?![\w-])"), "discord-webhook"),
    # Mattermost's ids are 26 characters of z-base-32, which has no "0", "2", "l" and "v".
    (b"/hooks/", re.compile(rb"(?P<value>[13-9a-km-uw-z]{26})(?![\w-])"), CATEGORY),
    # https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
    (b"/bot/v2/hook/", re.compile(rb"(?P<value>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?![\w-])"), CATEGORY),
    # https://ifttt.com/maker_webhooks
    (b"/with/key/", re.compile(rb"(?P<value>[\w-]{16,64})(?![\w-])"), CATEGORY),
)
"""What stands before a credential in the path of a URL, the form of what follows, and its category."""


def find_credentials(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where credentials of all these kinds stand, as (start, end, category), in no order."""
    lower = text.lower()
    if _BEGIN in text:
        yield from find_private_keys(text)
    if b"://" in text:
        yield from find_userinfo(text)
    yield from find_in_paths(text)
    if b"cookie" in lower:
        yield from find_cookies(text, lower)
    for scheme in _SCHEMES:
        at = lower.find(scheme)
        while at >= 0:
            match = _AFTER_SCHEME.match(text, at + len(scheme))
            if match is not None and is_token(scheme, match["value"]):
                category = "basic" if scheme == b"basic" else CATEGORY
                yield match.start("value"), match.start("value") + len(match["value"].rstrip(b".")), category
            at = lower.find(scheme, at + len(scheme))


def is_token(scheme: bytes, value: bytes) -> bool:
    """Return whether what follows a scheme is no word of a sentence."""
    if is_stand_in(value):
        return False
    return looks_random(value) or (scheme == b"basic" and value.endswith(b"="))


def find_private_keys(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield private keys in their armour. One without its end, cut off, ends where no more of it can stand."""
    at = 0
    while (begin := _BEGINS.search(text, at)) is not None:
        limit = begin.end() + BLOCK
        if (end := _ENDS.search(text, begin.end(), limit)) is not None:
            stop = end.end()
        else:
            rest = _REST.match(text, begin.end(), limit)
            assert rest is not None
            stop = begin.end() + len(rest[0].rstrip())
        if stop - begin.end() >= LEAST:
            yield begin.start(), stop, "private-key"
        at = stop


def find_userinfo(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield passwords in URLs, and what stands there alone and is no user's name: a token, the key of a DSN."""
    for hit in _USERINFO.finditer(text):
        user, password = hit["user"], hit["password"]
        if password is not None and not is_stand_in(password):
            yield *hit.span("password"), CATEGORY
        if is_generated(user) or _HEX_KEY.match(user) is not None:
            yield *hit.span("user"), CATEGORY


def find_in_paths(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Return where services that take their credential in the path have it, on whatever host."""
    for before, form, category in _PATHS:
        at = text.find(before)
        while at >= 0:
            at += len(before)
            hit = form.match(text, at)
            if hit is not None and looks_random(hit["value"].rpartition(b":")[2]) and not is_stand_in(hit["value"]):
                yield *hit.span("value"), category
            at = text.find(before, at)


def find_cookies(text: bytes, lower: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the values of cookies that are long enough to be a session, in lines and members named Cookie."""
    at = lower.find(b"cookie")
    while at >= 0:
        at += len(b"cookie")
        match = SEPARATOR.match(text, at)
        if (
            match is not None
            and match["rest"] in {b"", b"2", b"s"}
            and (span := _find_cookie_span(text, match)) is not None
        ):
            yield from _find_sessions(text, *span)
            at = max(at, span[1])
        at = lower.find(b"cookie", at)


def _find_cookie_span(text: bytes, match: re.Match[bytes]) -> tuple[int, int] | None:
    """Return where the cookies stand: between quotes, or up to the end of the line."""
    if opened := match["open"] or match["prefixed"]:
        return find_quoted(text, match.end(), opened)
    line = None if match["shut"] else _LINE.match(text, match.end())
    return None if line is None else line.span()


def _find_sessions(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield what looks like a session among the cookies of a line; one may stand there without a name."""
    for pair in _PAIR.finditer(text, start, end):
        value = pair["value"]
        if len(value) >= COOKIE_SHORTEST and pair["name"].lower() not in _ATTRIBUTES and not is_stand_in(value):
            yield *pair.span("value"), "cookie"
    lone = _LONE.match(text, start, end)
    if lone is not None and text[lone.end() : lone.end() + 1] != b"=" and looks_random(lone[0]):
        yield *lone.span(), "cookie"


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
_NAMED = rb"(?:key|name)=" + _QUOTE + rb"(?P<name>[\w :./()\[\]%-]{2,60})" + _QUOTE
_VALUED = rb"value=" + _QUOTE + rb"(?P<value>[^\"'<>\\]{6,512})" + _QUOTE
_TAG_ATTRIBUTES = re.compile(_NAMED + rb"\s{1,4}" + _VALUED)
_BACKWARDS = re.compile(_VALUED + rb"\s{1,4}" + _NAMED)
_SUBSCRIPT = re.compile(
    rb"\[[\"'](?P<name>[\w :./()\[\]%-]{2,60})[\"']\][ \t]{0,4}=[ \t]{0,4}[\"'](?P<value>[^\"'\s\\]{6,512})[\"']"
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
    """Yield where such values stand, as (start, end, category)."""
    lower = text.lower()
    has_option, has_pass = _ANY_OPTION.search(text) is not None, b"pass" in lower
    if has_option and b"--" in text:
        for hit in _OPTION.finditer(text):
            if get_strength(hit["name"].decode()) not in {"", "parameter"}:
                yield from find_random_value(hit)
    for may, sign, pattern in (
        (has_option, b"-u", _USER),
        (has_option, b" -p", _LOGIN),
        (has_option, b" -a", _LOGIN),
        (has_pass, b"htpasswd", _LOGIN),
    ):
        if may and sign in text:
            for hit in pattern.finditer(text):
                yield from find_random_value(hit)
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
                name_strength = get_strength(hit["name"].decode())
                if name_strength not in {"", "parameter"} and is_believed(name_strength, hit["value"], quoted=True):
                    yield *hit.span("value"), CATEGORY
    if b"'" in text and (has_pass or b"identified by" in lower):
        for hit in _SQL.finditer(text):
            if is_believed("strong", hit["value"], quoted=True):
                yield *hit.span("value"), CATEGORY
    for subject in (subject for sign, subjects in _SUBJECTS.items() if sign in lower for subject in subjects):
        for _, end in find_everywhere(subject, lower):
            if (sentence := _SENTENCE.match(text, end)) is not None:
                yield from find_random_value(sentence)


def find_random_value(hit: re.Match[bytes]) -> Iterator[tuple[int, int, str]]:
    """Yield the value of a match, if it looks random; the full stop behind it is none of it.

    A date and a path do not.
    """
    value = hit["value"].rstrip(b".,:!?")
    if looks_random(value) and not is_stand_in(value) and _WORDLIKE.fullmatch(value) is None:
        yield hit.start("value"), hit.start("value") + len(value), CATEGORY


_MIXED = {b"mistral": 32, b"cohere": 40}
_HEX = {b"datadog": (32, 40), b"deepgram": (40,), b"assemblyai": (32,)}
_APART = 48
"""So many bytes may stand between a name and its key, on one line."""
_LONGEST = 40
_WORD = re.compile(rb"(?<![A-Za-z0-9_/+.-])[A-Za-z0-9]{32,%d}(?![A-Za-z0-9_/+=-])" % _LONGEST)
_SAID = re.compile(rb"(?i:key|token|secret|credential)")
_LINE_END = re.compile(rb"\n|\\[nr]")


def find_nearby(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where such keys stand, as (start, end, category)."""
    lower = text.lower()
    for name in (*_MIXED, *_HEX):
        at = lower.find(name)
        while at >= 0:
            end = at + len(name)
            for word in _WORD.finditer(text, end, end + _APART + _LONGEST + 1):
                between = text[end : word.start()]
                if len(between) <= _APART and _LINE_END.search(between) is None and is_key_of(name, word[0], between):
                    yield *word.span(), CATEGORY
            at = lower.find(name, end)


def is_key_of(name: bytes, word: bytes, between: bytes) -> bool:
    """Return whether a key of that vendor looks like `word`, given what stands `between` the name and it."""
    if name in _MIXED:
        digits = any(48 <= byte < 58 for byte in word)
        return len(word) == _MIXED[name] and digits and word not in (word.lower(), word.upper())
    return (
        len(word) in _HEX[name] and _SAID.search(between) is not None and re.fullmatch(rb"[0-9a-f]+", word) is not None
    )


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_LINE = re.compile(rb"^(?:data:[ \t]?)?(\{.*\}|\[.*\])[ \t]*\r?$", re.MULTILINE)


def find_paths(data: bytes, paths: Iterable[tuple[str, Selector]]) -> Iterator[tuple[int, int, str]]:
    """Yield where the values of `paths`, (category, path), stand, as (start, end, category).

    Strings without their quotes.
    """
    tree_of_all = parse_json(data)
    if tree_of_all is not None:
        yield from find_in_document(data, 0, tree_of_all, paths)
        return
    for line in _JSON_LINE.finditer(data):
        if (tree := parse_json(line[1])) is not None:
            yield from find_in_document(line[1], line.start(1), tree, paths)


def parse_json(data: bytes) -> Any:
    """Return the JSON that `data` is, or None."""
    if data.lstrip()[:1] not in {b"{", b"["}:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def find_in_document(
    data: bytes, offset: int, tree: Any, paths: Iterable[tuple[str, Selector]]
) -> Iterator[tuple[int, int, str]]:
    """Yield the same in one document, which begins at `offset`."""
    places = [(place, category) for category, path in paths for place, _ in path.find(tree)]
    if not places:
        return
    for place, start, end in values(data):
        category = next((category for top, category in places if place[: len(top)] == top), None)
        if category is not None and end > start:
            yield offset + start, offset + end, category


def values(data: bytes) -> Iterator[tuple[Place, int, int]]:
    """Yield every string and number of a JSON document with its place and its bytes."""
    place: list[str | int] = []
    keyed: list[bool] = []
    is_key = False
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[" as mark:
                keyed.append(mark == b"{")
                place.append(0)
                is_key = mark == b"{"
            case b"}" | b"]":
                keyed.pop()
                place.pop()
                is_key = False
            case b",":
                is_key = keyed[-1]
                if not is_key:
                    place[-1] = int(place[-1]) + 1
            case b":":
                is_key = False
            case text if is_key:
                place[-1] = json.loads(text)
            case text if text[:1] == b'"':
                yield tuple(place), token.start() + 1, token.end() - 1
            case text if text[:1] in b"-0123456789":
                yield tuple(place), token.start(), token.end()
            case _:
                pass
