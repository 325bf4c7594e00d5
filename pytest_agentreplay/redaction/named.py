r"""Named values: what stands beside a name that says it is a secret, in JSON, YAML, .env files, headers, forms, URLs.

Names are found by the few words they are made of (`WORDS`), since to look at every pair of a large body would cost too
much; and parameters by their `=`. Behind a word `SEPARATOR` reads the rest of the name, and the sign:

    "api_key": "VALUE"      password=VALUE      $token = 'VALUE'      user[password]=VALUE
    {"name": "X-Api-Key", "value": "VALUE"}      ["X-Api-Key", "VALUE"]      config["password"] = "VALUE"
    <password>VALUE</password>      api_key=SecretStr("VALUE")

Quotes may be escaped, any number of times: `\"password\": \"...\"` is read where it stands. Values below their name are
in `layouts`. Of a few forms the name does not stand right before the value, or is a letter (`find_unadjacent`):

    Content-Disposition: form-data; name="password"      a field of a form, a blank line before the value
    {"value": "VALUE", "name": "X-Api-Key"}      two members, the value first; in YAML and XML too
    {"kty": "RSA", ..., "d": "VALUE"}      the private members of a JSON Web Key

How much a name says, and which values are believed beside it, is in `secret_names`. A policy may name values as well,
by their path in JSON (`find_paths`): strings and numbers, of an object or a list all in it, of a stream each line.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agentreplay.redaction.encodings import find_everywhere
from pytest_agentreplay.redaction.headers import COOKIE_SHORTEST
from pytest_agentreplay.redaction.layouts import Columns, find_block
from pytest_agentreplay.redaction.secret_names import (
    CATEGORY,
    SECRET,
    SHORTEST_VALUE,
    VAGUE,
    get_strength,
    is_believed,
    is_drawn,
    is_generated,
    is_stand_in,
    looks_random,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_agentreplay.model.json_paths import Place, Selector
    from pytest_agentreplay.redaction.secret_names import Strength

    Hits: TypeAlias = Iterator[tuple[int, int, str]]
    """Where values begin and end, and of which category they are."""

WORDS = (
    *(b"token", b"secret", b"pass", b"pwd", b"key", b"auth", b"credential", b"jwt", b"csrf", b"xsrf", b"otp", b"pin"),
    *(b"signature", b"security_answer", b"securityanswer", b"sessid", b"psk", b"_pat", b"recovery", b"backup"),
)
# Longer values are texts; a token with many claims has some 2,000 characters.
LONGEST = 4096
# So far before its word a name may begin.
NAME = 64
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$-"
_ESCAPE_ENDS = re.compile(rb"\\(?:[ntrbf]|[ux][0-9A-Fa-f]{2,4})\Z")
_QUOTE = rb"\\{0,63}[\"']"
_SPACE = rb"(?:\s|\\{1,16}[nrt]){0,64}"
_GAP = rb"(?:[\s,]|\\{1,16}[nrt]){1,64}"
"""What stands between two members; a HAR file indents them by 28 spaces."""
_TYPE = _QUOTE + rb"[tT]ype" + _QUOTE + rb":[ ]?" + _QUOTE + rb"\w{1,32}" + _QUOTE + _GAP
_WRAPPED = rb"\{" + _SPACE + _QUOTE + rb"string_?[vV]alue" + _QUOTE + rb"\s{0,4}:\s{0,4}"
SEPARATOR = re.compile(
    rb"""(?P<rest>[\w-]{0,40}(?:[^\w"'`\\\r\n\t,={}<>&-][^"'`\\\r\n\t,={}<>&]{0,40}(?=\\{0,63}["'`])"""
    rb"""|(?:[\[\]]|%%5[bBdD])[\w\[\]%%.-]{0,40}|(?:[ ]?\([\w ]{1,40})?\)(?==))??)(?P<shut>\\{0,63}["'`]?)"""
    rb"""(?:\](?=[ \t]{0,8}=))?"""
    rb"""(?:[ \t]{0,4}:[ \t]{0,4}(?:[sS]tr(?:ing)?|bytes|SecretStr|Optional\[str\]|str \| None)[ \t]{0,4}(?==))?"""
    # A member "value" behind that of the name, "type" between them or not; OpenTelemetry wraps it in an object.
    rb"""(?:%b(?:%b)?\\{0,63}["']?[vV]alue\\{0,63}["']?[ \t]{0,4}[:=][ \t]{0,4}(?:%b)?"""
    rb"""|[ \t]{0,8}(?P<sign>=>|:=|[:=]|(?<!["'])>(?=[^<>\s]{6,512}</)|,(?=%b[bru]?\\{0,63}["']))"""
    rb"""(?P<space>(?:(?<=,)%b)?[ \t]{0,8}))"""
    rb"""(?:(?:\[\s{0,8}|SecretStr\()?(?P<open>\\{0,63}["'`])|(?:[bBrRuUfF]{1,2}|[$@]{1,2})(?P<prefixed>\\{0,63}["'`]))?"""
    % (_GAP, _TYPE, _WRAPPED, _SPACE, _SPACE)
)
"""What stands between the word in a name and its value: the rest of the name, a sign, the quotes of both.

The rest goes on behind punctuation up to a closing quote (`"api:key (new)"`), and in brackets (`password[]=`).
"""
_BARE_NAME = re.compile(rb"(?<=[&?])[\w.$:/\[\]%+-]*\Z|(?:[\w.$:\[\]%+-]{1,40} )?[\w.$:\[\]%+-]*\Z")
_PUNCTUATION = re.compile(r"[^\w.$-]+")
_CLOSED = {
    quote: re.compile(rb"[^%b\\]{1,%d}(?:\\.[^%b\\]*)*" % (quote, LONGEST, quote)) for quote in (b'"', b"'", b"`")
}
_BARE = re.compile(rb"""[^\s"'<>()\[\]{}`|;,&\\]{1,4096}""")
_AFTER_COLON = re.compile(rb"""[^\s"'<>(){}`|,\\]{1,4096}""")
_SIGNED = re.compile(rb"""[^\s"'<>(){}`|\\]{1,4096}""")
_PARAMETER = re.compile(rb"=([^\s\"'<>()\[\]{}`|;,&\\]{6,4096})")
_PARAMETER_NAME = re.compile(rb"(?:\A|[?&#;,\"'](?:[ \t]{0,2}|amp;))([\w.\[\]:%-]{1,40})\Z")
_SCHEME = re.compile(rb"(?i:bearer|basic|token|apikey|negotiate|digest)[ \t]+")
_ANY_SCHEME = re.compile(rb"[A-Za-z][\w-]{1,30}[ \t]{1,4}(?=[^\s\"'<>(){}`|,\\]{12})")
_LIST_OPENS = re.compile(rb"[\[(]" + _SPACE + rb"[bru]?" + _QUOTE + rb"[^\"'\\]{0,64}\Z")
_LIST_CLOSES = re.compile(_QUOTE + _SPACE + rb",?" + _SPACE + rb"[\])]")


def find_named(text: bytes, words: Iterable[bytes], names: Mapping[str, str]) -> Hits:
    """Yield where values stand that a name gives away, as (start, end, category).

    `names` are a project's, in lower case, each with its category; `words` are `WORDS` and these.
    """
    if places := list_words(text, words):
        yield from _find_beside(text, places, names)
        columns = Columns(text)
        for at in places:
            yield from columns.find_below(at)
    yield from find_parameters(text)
    yield from find_unadjacent(text)


def find_arranged(text: bytes) -> Hits:
    """Yield what members and items of one value tell of each other, one of which is a name and the next its value."""
    yield from _find_beside(text, list_words(text, WORDS), {}, pairs_only=True)
    yield from find_unadjacent(text)


def list_words(text: bytes, words: Iterable[bytes]) -> list[int]:
    """Return where the words stand that names of secrets are made of, in any case."""
    lower = text.lower()
    return [at for word in words if word in lower for at in find_everywhere(word, lower)]


def _find_beside(text: bytes, words: list[int], names: Mapping[str, str], *, pairs_only: bool = False) -> Hits:
    """Yield the values behind the names in which `words` stand; those of two items or two members alone, if asked."""
    seen: set[int] = set()
    for at in words:
        hit = SEPARATOR.match(text, at)
        if hit is not None and hit.end() not in seen and (not pairs_only or hit["sign"] in {None, b","}):
            seen.add(hit.end())
            name = _read_name(text, at, hit, names)
            if name.strength in SECRET:
                yield from _find_values(text, name, hit)


def find_parameters(text: bytes) -> Hits:
    """Yield the values of parameters whose names say little: `sig`, and `t` before what was drawn by chance."""
    for hit in _PARAMETER.finditer(text):
        # A sign is found at once, a name not: so the name is looked for behind it.
        before = _PARAMETER_NAME.search(text, max(0, hit.start() - NAME), hit.start())
        name = "" if before is None else before[1].decode("ascii", "replace")
        strength = get_strength(name)
        is_sure = strength == "parameter" and is_believed(strength, hit[1], quoted=False)
        if is_sure or (name.lower() in VAGUE and is_generated(hit[1])):
            yield *hit.span(1), CATEGORY


class Name(NamedTuple):
    """A name with the word at `at`: the word that it is one, what a project calls its values, what it says of them."""

    at: int
    text: str
    own_category: str | None
    strength: Strength


def _find_values(text: bytes, name: Name, hit: re.Match[bytes]) -> Hits:
    """Yield the value behind a name and its sign, or the lines of a block that begins there."""
    category, opened = name.own_category or CATEGORY, hit["open"] or hit["prefixed"]
    span = find_quoted(text, hit.end(), opened) if opened else _find_bare(text, hit, name.text)
    if span is not None:
        start, end = strip_scheme(text, *span, name.text)
        if _is_secret(text, name, hit, (start, end)):
            yield start, end, category
    if opened is not None or hit["sign"] == b":":
        yield from ((*span, category) for span in find_block(text, hit.end(), name.strength, opened))


def _is_secret(text: bytes, name: Name, hit: re.Match[bytes], span: tuple[int, int]) -> bool:
    """Return whether what stands behind a name and its sign is taken for a secret."""
    value = text[slice(*span)]
    quoted = bool(hit["open"] or hit["prefixed"])
    if name.own_category and (quoted or value.isdigit()):
        return True
    if hit["sign"] == b",":
        # Two items of a list: the one before may be a word among others, unless the list has no more items.
        is_pair = _LIST_OPENS.search(text, max(0, name.at - NAME), name.at) and _LIST_CLOSES.match(text, span[1])
        if is_pair and looks_random(value) and not get_strength(value.decode("utf-8", "replace")):
            return True
        return not hit["space"].strip(b" \t") and (is_generated(value) or is_drawn(value))
    if name.text.lower().endswith("signature"):
        value = value.replace(b",", b"=")
    return is_believed(name.strength, value, quoted=quoted or hit["sign"] == b">")


def _read_name(text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]) -> Name:
    """Return the name of which the word at `at` is a part, with the category that a project gives it in `names`."""
    name, whole_name = _read_word_name(text, at, hit.end("rest")), _read_full_name(text, at, hit)
    lower = whole_name.lower()
    for key in (name.lower(), lower, _PUNCTUATION.split(lower.rstrip("[]() "))[-1]) if names else ():
        if key in names:
            return Name(at, name, names[key], "strong")
    is_closed = whole_name.count("[") == whole_name.count("]") and not whole_name.startswith("[")
    if "]" in name and not hit["shut"] and not is_closed:
        return Name(at, name, None, "")  # `[the password]: https://...` is a link in Markdown
    strength = get_strength(name)
    if strength not in SECRET and (more := get_strength(whole_name)) in SECRET:
        # Words without quotes around them may be of a sentence: then the value has to be random as well.
        sure = hit["shut"] or hit["open"] or hit["prefixed"] or (hit["sign"] == b"=" and not hit["space"])
        strength = more if sure else "weak"
    return Name(at, name, None, strength)


def _read_full_name(text: bytes, at: int, hit: re.Match[bytes]) -> str:
    """Return the name with what punctuation parts from it: up to the opening quote, or of two words without quotes."""
    before = text[max(0, at - NAME) : at]
    if hit["shut"]:
        start = before.rfind(hit["shut"][-1:]) + 1
        before = before[start:] if start else b""
    else:
        match = _BARE_NAME.search(before)
        before = match[0] if match else b""
    return (before + text[at : hit.end("rest")]).decode("utf-8", "replace")


def _read_word_name(text: bytes, at: int, end: int) -> str:
    r"""Return the whole name of which the word at `at` is a part; the n of a `\n` before it is none of it."""
    before = text[max(0, at - NAME) : at]
    first = start = at - len(before) + len(before.rstrip(_LETTERS))
    if text[start - 1 : start] == b"\\":
        while start < at and _ESCAPE_ENDS.search(text, max(0, first - 1), start) is None:
            start += 1
        start = start if start < at else first
    return text[start:end].decode("utf-8", "replace")


def strip_scheme(text: bytes, start: int, end: int, name: str) -> tuple[int, int]:
    """Return the value without a scheme before it: any word, where the name says that there is one."""
    if name.lower().endswith("authorization") and (scheme := _ANY_SCHEME.match(text, start)) is not None:
        rest = _AFTER_COLON.match(text, scheme.end())
        if rest is not None and rest.end() >= end and looks_random(rest[0]) and b"=" not in rest[0].rstrip(b"="):
            return rest.span()
    if (scheme := _SCHEME.match(text, start, end)) is not None and end - scheme.end() >= SHORTEST_VALUE:
        start = scheme.end()
    return start, end


def find_quoted(text: bytes, start: int, opened: bytes) -> tuple[int, int] | None:
    """Return the value behind an opening quote, up to the quote that is escaped as often, or the end of the text."""
    slashes = len(opened) - 1
    if not slashes:
        match = _CLOSED[opened].match(text, start)
        return None if match is None else match.span()
    at = text.find(opened, start)
    while at >= 0 and text[at - 1 : at] == b"\\":
        at = text.find(opened, at + len(opened))
    end = at if at >= 0 else len(text)
    return (start, end) if start < end <= start + LONGEST else None


def _find_bare(text: bytes, hit: re.Match[bytes], name: str) -> tuple[int, int] | None:
    """Return the value behind a sign without quotes. `host:port` and a type behind a name are none."""
    quoted_name = hit["shut"].endswith((b'"', b"'"))
    if hit["sign"] == b":" and not hit["space"] and not quoted_name:
        return None
    after = _SIGNED if name.lower().endswith("signature") else _AFTER_COLON
    match = (_BARE if hit["sign"] == b"=" or quoted_name else after).match(text, hit.end())
    return None if match is None else (match.start(), match.start() + len(match[0].rstrip(b".:")))


_LINE = re.compile(rb"""(?:[^\r\n"'=]|=(?:\\{0,63}"[^\r\n"]*")?){1,8192}""")
_PAIR = re.compile(rb"""(?P<name>[^=;\s"'\\]+)=\\{0,63}"?(?P<value>[^;"'\s\\]+)""")
_LONE = re.compile(rb"[^=;,\s\"'\\<>&]{16,}")
# RFC 6265, section 4.1: what a server says of its cookie, in the same form.
_ATTRIBUTES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"version"))


def find_cookies(text: bytes) -> Hits:
    """Yield the values of cookies that are long enough to be a session, in lines and members named Cookie."""
    done = 0
    lower = text.lower()
    for at in find_everywhere(b"cookie", lower) if b"cookie" in lower else ():
        hit = SEPARATOR.match(text, at + len(b"cookie"))
        if hit is not None and at >= done and hit["rest"] in {b"", b"2", b"s"}:
            # They stand between quotes, or up to the end of the line.
            opened = hit["open"] or hit["prefixed"]
            line = None if opened or hit["shut"] else _LINE.match(text, hit.end())
            span = find_quoted(text, hit.end(), opened) if opened else line and line.span()
            if span is not None:
                yield from _find_sessions(text, *span)
                done = span[1]


def _find_sessions(text: bytes, start: int, end: int) -> Hits:
    """Yield what looks like a session among the cookies of a line; one may stand there without a name."""
    for pair in _PAIR.finditer(text, start, end):
        value = pair["value"]
        if len(value) >= COOKIE_SHORTEST and pair["name"].lower() not in _ATTRIBUTES and not is_stand_in(value):
            yield *pair.span("value"), "cookie"
    lone = _LONE.match(text, start, end)
    if lone is not None and text[lone.end() : lone.end() + 1] != b"=" and looks_random(lone[0]):
        yield *lone.span(), "cookie"


_END = rb"(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)"
_FORM_FIELD = re.compile(
    rb"form-data;[^\r\n\\\"]{0,80}name=" + _QUOTE + rb"(?P<name>[^\"'\\\r\n]{1,80})" + _QUOTE + rb"[^\r\n\\]{0,200}"
    rb"(?:" + _END + rb"[A-Za-z-]{1,40}:[^\r\n\\]{0,200}){0,4}" + _END + _END + rb"(?P<value>[^\r\n\\]{4,4096})"
)
"""RFC 7578, section 4.2."""
_VALUE_FIRST = re.compile(
    # The literal comes first, so that `re` looks for it alone.
    rb"alue(?:(?<=[^A-Za-z][vV]alue)|(?<=stringValue))(?:%b)?[ \t]{0,4}[:=][ \t]{0,4}(?:%b)?"
    rb"(?P<value>[^\s\"'\\{}<>]{4,4096})(?:%b)?(?:[\s,}\]]|\\{1,16}[nrt]){1,64}"
    rb"(?:%b)?(?i:key|name|header|field|variable|parameter|param|attribute|setting)(?:%b)?[ \t]{0,4}[:=][ \t]{0,4}"
    rb"(?:%b)?(?P<name>[\w.:/\[\]()%%+-]{2,80})" % ((_QUOTE,) * 6)
)
_WEB_KEY = re.compile(rb"[{(][^{}()]{0,8192}?[\"']kty\\{0,63}[\"'][^{}()]{0,8192}")
_PRIVATE_MEMBER = re.compile(
    _QUOTE + rb"(?:d|p|q|dp|dq|qi|k|priv)" + _QUOTE + _SPACE + rb":" + _SPACE + _QUOTE + rb"([A-Za-z0-9_=+/-]{16,4096})"
)
"""RFC 7518, section 6; `priv` is of post-quantum keys."""


def find_unadjacent(text: bytes) -> Hits:
    """Yield the values of forms, of members whose value comes first, and of private keys in JSON."""
    for sign, pattern in ((b"form-data", _FORM_FIELD), (b"alue", _VALUE_FIRST)):
        for hit in pattern.finditer(text) if sign in text else ():
            name = hit["name"].decode("utf-8", "replace")
            start, end = strip_scheme(text, *hit.span("value"), name)
            strength = get_strength(name)
            if strength in SECRET and is_believed(strength, text[start:end].strip(), quoted=True):
                yield start, end, CATEGORY
    for key in _WEB_KEY.finditer(text) if b"kty" in text else ():
        for member in _PRIVATE_MEMBER.finditer(text, *key.span()):
            yield *member.span(1), CATEGORY


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_LINE = re.compile(rb"^(?:data:[ \t]?)?(\{.*\}|\[.*\])[ \t]*\r?$", re.MULTILINE)


def find_paths(data: bytes, paths: Iterable[tuple[str, Selector]]) -> Hits:
    """Yield where the values of `paths`, (category, path), stand, as (start, end, category).

    Strings without their quotes.
    """
    is_document = parse_json(data) is not None
    lines = [(0, data)] if is_document else [(hit.start(1), hit[1]) for hit in _JSON_LINE.finditer(data)]
    for begin, document in lines:
        tree = parse_json(document)
        places = [(place, category) for category, path in paths for place, _ in path.find(tree)]
        for place, start, end in list_values(document) if places else ():
            category = next((category for top, category in places if place[: len(top)] == top), None)
            if category is not None and end > start:
                yield begin + start, begin + end, category


def parse_json(data: bytes) -> Any:
    """Return the object or list that `data` is, or None."""
    if data.lstrip()[:1] not in {b"{", b"["}:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def list_values(data: bytes) -> Iterator[tuple[Place, int, int]]:
    """Yield every string and number of a JSON document with its place and its bytes."""
    place: list[Any] = []
    expects_key = False
    for token in _TOKEN.finditer(data):
        text = token[0]
        match text[:1]:
            case b"{" | b"[":
                expects_key = text == b"{"
                place.append("" if expects_key else 0)
            case b"}" | b"]":
                expects_key = False
                place.pop()
            case b",":
                # The last step is a name in an object, a number in a list.
                expects_key = isinstance(place[-1], str)
                place[-1] = place[-1] if expects_key else place[-1] + 1
            case b'"' if expects_key:
                place[-1], expects_key = json.loads(text), False
            case b'"':
                yield tuple(place), token.start() + 1, token.end() - 1
            case sign if sign in b"-0123456789":
                yield tuple(place), token.start(), token.end()
