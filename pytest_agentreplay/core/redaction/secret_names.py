"""Which names look as if their value were a secret: of environment variables, headers and query parameters.

A name is read as words, so that `token` is not found in `tokenizer` and `max_tokens`.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def names(text: str) -> frozenset[str]:
    """A set of names, written as words."""
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


def looks_secret(name: str) -> bool:
    """Whether a variable, header or parameter of this name is likely to hold a credential."""
    words = [word.lower() for word in WORDS.findall(name)]
    if not words or words[-1] in HARMLESS_LAST:
        return False
    if words == ["pwd"] or "max" in words:
        return False
    for before, word in pairwise(["", *words]):
        if word == "token":
            if before not in HARMLESS_BEFORE_TOKEN:
                return True
        elif word in SECRET_WORDS:
            return True
    last = words[-1]
    if last == "key" or words[-2:] == ["key", "id"]:
        # Vendors put the key's number or environment after it (API_KEY_2), so "key" counts in one more place below.
        return not HARMLESS_BEFORE_KEY & set(words)
    if ("api", "key") in pairwise(words):
        return True
    return last in SECRET_LAST


def worth_knowing(value: str) -> bool:
    """Whether a value is long and rare enough to be replaced wherever it occurs."""
    return len(value) >= SHORTEST and value.lower() not in STOP_LIST and len(set(value)) > 2 and not value.isspace()


def secret_environment(environ: Mapping[str, str], named: Iterable[str] = ()) -> list[tuple[str, str]]:
    """(category, value) of every variable that looks secret or is `named`, and the passwords in URLs of any."""
    said = {*named}
    found: dict[str, str] = {}
    for name, value in environ.items():
        text = value.strip()
        if (name in said or looks_secret(name)) and worth_knowing(text) and not is_place(text):
            found.setdefault(text, CATEGORY)
        if "://" in text:
            for password in USERINFO.findall(text):
                if worth_knowing(password):
                    found.setdefault(password, CATEGORY)
    return [(category, value) for value, category in found.items()]


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
    """Whether a value is the path of a file that holds the secret rather than the secret."""
    return value.startswith(("/", "~", "./", "../")) or re.match(r"[A-Za-z]:[\\/]", value) is not None


def allowed_environment(environ: Mapping[str, str], allow: Iterable[str]) -> dict[str, str]:
    """The variables named in `allow` (a `*` at the end matches the rest of a name), sorted; nothing else.

    A variable that looks secret is left out even when it is named.
    """
    names = list(allow)
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return {
        name: environ[name]
        for name in sorted(environ)
        if (name in exact or (prefixes and name.startswith(prefixes))) and not looks_secret(name)
    }
