"""Which names look as if their value were a secret: of environment variables, headers and query parameters.

A name is read as words, so that `token` is not found in `tokenizer` and `max_tokens`. For names of fields in bodies,
which are full of things called token and key, the rules are stricter, and values are recognised that only stand in for
a secret.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def names(text: str) -> frozenset[str]:
    """Return a set of names, written as words."""
    return frozenset(text.split())


CATEGORY = "key"
"""The category of every credential, so that a key known from the environment and one seen in a header are one."""

SHORTEST = 8
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
USERINFO = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)

SECRET_WORDS = names(
    "token secret password passwd passphrase passcode apikey authorization bearer credential credentials creds"
    " cookie authtoken accesstoken secretkey privatekey accesskey sessiontoken pat jwt"
)
SECRET_LAST = names("pass pwd pw auth pin sig signature dsn session sid salt")
HARMLESS_BEFORE_KEY = names(
    "public idempotency cache prompt surrogate primary foreign sort partition hot gpg row group dict map routing"
)
HARMLESS_BEFORE_TOKEN = names(
    "page next max min continuation sync stop start prev previous last first per num count pad eos bos unk mask"
)
HARMLESS_LAST = names(
    "file path dir directory sock socket url uri endpoint name type count limit ttl expiry expires expiration length"
    " timeout enabled version format algorithm method mode provider prefix suffix budget usage policy required"
)
KEY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
SIGNING_KEYS = {"AWS_ACCESS_KEY_ID": "AWS_SECRET_ACCESS_KEY"}
"""Variables of a key that is sent, with that of the secret which signs: botocore refuses the one without the other."""
STOP_LIST = names(
    "password passwords undefined localhost 127.0.0.1 anonymous disabled required optional redacted changeme default"
    " application/json text/plain production development testing staging username documents database container"
    " assistant response function messages developer placeholder not-needed no-key-required"
)


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case, whatever is between them: `user[apiKey]`, `api:key`, `API%20KEY`."""
    return [word.lower() for word in WORDS.findall(unquote(unquote(name)) if "%" in name else name)]


def looks_secret(name: str) -> bool:
    """Return whether a variable, header or parameter of this name is likely to hold a credential."""
    words = words_of(name)
    if not words or words[-1] in HARMLESS_LAST or words == ["pwd"] or "max" in words:
        return False
    for before, word in pairwise(["", *words]):
        if word in SECRET_WORDS and not (word == "token" and before in HARMLESS_BEFORE_TOKEN):
            return True
    if words[-1] == "key" or words[-2:] == ["key", "id"]:
        return not HARMLESS_BEFORE_KEY & set(words)
    # Vendors put the key's number or environment after it: API_KEY_2.
    return ("api", "key") in pairwise(words) or words[-1] in SECRET_LAST


def worth_knowing(value: str) -> bool:
    """Return whether a value is long and rare enough to be replaced wherever it occurs."""
    return len(value) >= SHORTEST and value.lower() not in STOP_LIST and len(set(value)) > 2 and not value.isspace()


def secret_environment(environ: Mapping[str, str], also: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return (category, value) of every variable that looks secret or is in `also`, and of passwords in URLs of any."""
    names = {*also}
    values: list[str] = []
    for name, value in environ.items():
        text = value.strip()
        is_secret = (name in names or looks_secret(name)) and not is_place(text)
        values += [text] if is_secret else []
        values += USERINFO.findall(text) if "://" in text else []
    return [(CATEGORY, value) for value in dict.fromkeys(values) if worth_knowing(value)]


def key_variables(environ: Mapping[str, str], was_sent: Callable[[str], bool]) -> list[list[str]]:
    """Return the names of the variables whose values were sent as credentials; those of one value are one group.

    A client that signs its requests sends no secret: the other half of its key comes along.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(environ):
        value = environ[name].strip()
        if is_key_name(name) and value and was_sent(value):
            groups.setdefault(value, []).append(name)
    for name, other in SIGNING_KEYS.items():
        if environ.get(other) and any(name in group for group in groups.values()):
            groups.setdefault(environ[other].strip(), []).append(other)
    return [*groups.values()]


def is_key_name(name: str) -> bool:
    """Return whether a variable of this name may hold a key, and has a name that every system takes."""
    return KEY_NAME.fullmatch(name) is not None and looks_secret(name)


def is_place(value: str) -> bool:
    """Return whether a value is the path of a file that holds the secret rather than the secret."""
    return value.startswith(("/", "~", "./", "../")) or re.match(r"[A-Za-z]:[\\/]", value) is not None


def allowed_environment(environ: Mapping[str, str], allow: Iterable[str]) -> dict[str, str]:
    """Return the variables named in `allow` (a `*` at the end matches the rest of a name), sorted; nothing else.

    A variable that looks secret is left out even when it is named.
    """
    names = [*allow]
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    allowed = (name for name in sorted(environ) if name in names or (prefixes and name.startswith(prefixes)))
    return {name: environ[name] for name in allowed if not looks_secret(name)}


Strength: TypeAlias = Literal["strong", "weak", "digits", "parameter", ""]
"""What a name says of its value: a secret for sure; one if it looks random; one even in digits; one in a URL."""
SECRET = frozenset(("strong", "weak", "digits"))
"""What names say of values that are secrets wherever they stand."""

LAST_WORDS: dict[Strength, frozenset[str]] = {
    "digits": names("password passwd pwd passcode pin otp"),
    "strong": names(
        "secret apikey privatekey secretkey accesskey authtoken accesstoken sessiontoken refreshtoken authorization psk"
        " credential credentials cookie jwt csrftoken xsrftoken phpsessid jsessionid authkey passphrase"
    ),
    "weak": names("auth pass csrf xsrf pat"),
    "parameter": names("code sig signature hmac sid session sessionid tok sas crumb verifier"),
}
"""What a name says by the word that it ends in."""
KEYS = names(
    "api secret private access account encryption signing signature master auth service subscription license shared app"
    " application client admin root deploy ssh hmac aes rsa webhook storage server write read functions function host"
    " decryption cipher session security consumer openai anthropic azure google gemini mistral cohere groq"
)
TOKENS = names(
    "access auth refresh id session bearer private api security csrf xsrf oauth user bot deploy personal device push"
    " verification reset login authentication authorization secret client service account app registration invite"
    " csrfmiddleware webhook"
)
LAST_TWO = {"key": KEYS, "token": TOKENS, "secrets": names("client app"), "answer": names("security")}
"""Words that say a secret for sure behind one of these."""
CODES = names("recovery backup factor")
VAGUE = names("t k key ticket")
"""Parameters that may hold anything: what was drawn by chance beside one of them is a credential, a hash is none."""
GLUED = (
    *("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "accesskey"),
    *("authtoken", "apitoken", "accesstoken", "deploytoken", "refreshtoken", "sessiontoken", "bottoken", "usertoken"),
)
"""What names end in that are written without a border between their words: PGPASSWORD."""
AGAIN = names("confirmation confirm again repeat repeated")
HARMLESS = names("policy hint strength reset expired required length field input label prompt min max id ids hash")

SHORTEST_VALUE = 6
GENERATED = 20
FEWEST = 4
"""A value of fewer different characters is drawn, or left blank."""
_STAND_IN = re.compile(
    rb"""\A(?: \$\{?\w[\w.:-]*\}? | %\w+% | \{+[^{}]*\}+ | <[^<>]*> | \[+[^\[\]]*\]+ | [*xX.\-_#\x80-\xff]+
    | [\w-]*\*{3,}\w* | [A-Za-z_-]{1,16}(?:\.{3}|\xe2\x80\xa6) | \([^()]*\)
    | (?i:none|null|nil|true|false|undefined|unset|empty|n/?a|string|todo|tbd|default|required|optional|missing|unknown
        |redacted|masked|hidden|removed|filtered|changeme|change-(?:me|this)(?:-[a-z-]*)?|replace-?me|invalid|valid|expired
        |not[ _-]?(?:set|needed|used|required)|no-?key(?:-required)?|ollama|lm-?studio|x-oauth-basic
        |example|dummy|fake|sample|placeholder|test|testing|anonymous
        |secret|password|passwd|bearer|basic|token|api[_-]?key|aws4-hmac-sha256)
    | (?i:(?:your|my|the|some|insert|enter|put|paste|add|replace|example|dummy|fake|test|sample)[ _-][\w .-]*)
    | (?i:(?:sk|pk|key|token)[_-](?:test|dummy|fake|x{3,}|ci|local)(?:[_-][a-z_-]*)?)
    | (?i:[\w-]*[_-](?:here|goes-here|placeholder|redacted|example|is-needed))
    | (?i:op|vault|env|ssm|keychain|keyring|arn:aws):[\w./:\#\ -]+
    | (?i:os\.environ|os\.getenv|process\.env|env\.|getenv|getpass|secrets?\.|settings\.|config\.|self\.|args\.).*
    | [A-Za-z_][\w.]*[(\[].*
    | [A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+
    )\Z""",
    re.VERBOSE | re.DOTALL,
)
LONGEST_STAND_IN = 200
_RANDOM = re.compile(rb"[A-Za-z0-9_\-+/=.~%:]{12,}\Z")


@lru_cache(maxsize=4096)
def get_strength(name: str) -> Strength:
    """Return what a field's name says of its value; "" for nothing."""
    words = words_of(name)
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in AGAIN):
        words.pop()
    if not words or words[-1] in HARMLESS_LAST or words[-1] in HARMLESS or "max" in words:
        return ""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if before in LAST_TWO.get(last, ()) or words[-3:] == ["secret", "key", "base"]:
        return "strong"
    if last == "token":
        return "" if before in HARMLESS_BEFORE_TOKEN else "weak"
    if last == "key":
        return "strong" if {"secret", "api"} & set(words) else ""
    # A signature of a header, not that of a thinking block, and a code that stands for a password.
    of_header = last == "signature" and (words[0] in {"x", "oauth"} or name.lower().endswith("-signature"))
    if of_header or (last == "code" and before in CODES):
        return "weak"
    by_word: Strength = next((strength for strength, endings in LAST_WORDS.items() if last in endings), "")
    if by_word or not last.endswith(GLUED):
        return by_word
    return "digits" if last.endswith("password") else "strong"


def is_stand_in(value: bytes) -> bool:
    """Return whether a value stands where a secret would: `$KEY`, `your-key-here`, `None`, code that fetches one."""
    return len(value) <= LONGEST_STAND_IN and _STAND_IN.match(value.strip()) is not None


def has_digit(value: bytes) -> bool:
    """Return whether a digit of ASCII is in a value."""
    return any(48 <= byte < 58 for byte in value)


def looks_random(value: bytes) -> bool:
    """Return whether a value is long, of one word, and of letters and digits both, as generated ones are."""
    return _RANDOM.match(value) is not None and has_digit(value) and not value.isdigit()


_PIECE = re.compile(rb"[A-Za-z0-9]{16,}")


def is_generated(value: bytes) -> bool:
    """Return whether chance alone writes so: long, of one word, both cases and digits among each other in one piece."""
    if len(value) < GENERATED or _RANDOM.match(value) is None:
        return False
    return any(piece not in (piece.lower(), piece.upper()) and has_digit(piece) for piece in _PIECE.findall(value))


_SYNTAX = re.compile(rb"(?:[\s{}\[\],:]|\\[nrt])+(?:(?:true|false|null|[0-9.]+)(?:[\s{}\[\],:]|\\[nrt])+)*")
"""What JSON has between two strings: where a text ends in `password:`, the quote behind it opens no value."""


def is_believed(name_strength: Strength, value: bytes, *, quoted: bool) -> bool:
    """Return whether `value`, under a name of that strength, is taken for a secret."""
    if len(value) < (4 if name_strength == "digits" else SHORTEST_VALUE) or is_stand_in(value):
        return False
    if (quoted and _SYNTAX.fullmatch(value) is not None) or (len(set(value)) < FEWEST and not value.isdigit()):
        return False
    if name_strength == "digits" and value.isdigit():
        return True
    if quoted and name_strength in {"strong", "digits"}:
        # Prose that a form shows beside such a field has spaces; a passphrase that has them too goes by its name alone.
        return b" " not in value.strip() or looks_random(value.replace(b" ", b""))
    if name_strength in {"strong", "digits"}:
        return has_digit(value) or len(value) >= 20
    return looks_random(value) or (quoted and is_drawn(value))


def is_drawn(value: bytes) -> bool:
    """Return whether a value is one word with signs beside both cases and digits, as passwords that are drawn have."""
    if len(value) < 10 or b" " in value or value.isalnum():
        return False
    return value not in (value.lower(), value.upper()) and has_digit(value)
