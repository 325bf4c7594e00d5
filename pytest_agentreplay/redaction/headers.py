"""Headers and URLs: which headers are stored, and what those and URLs that carry credentials give away.

Keep less: a header is stored because it is on a list here or in `agentreplay_keep`, not because nobody objected.

In URLs passwords and credentials by parameter name are replaced in place, the rest is untouched to the byte.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote_plus, urlsplit

from pytest_agentreplay.model.rules import MATCHED_HEADERS
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_generated, looks_secret, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Headers

REQUEST = (MATCHED_HEADERS - {"host"}) | names("x-stainless-retry-count x-goog-user-project x-hf-bill-to")
FLAGS = names("true false yes no on off 0 1")
NO_FLAGS = ("x-stainless-", "x-b3-", "x-amz", "x-ms-", "x-goog-", "x-datadog-", "x-fern-")
"""Headers of SDKs and tracers, which set such values by themselves."""
REPLY = names(
    "content-type content-length content-encoding content-language content-range content-disposition transfer-encoding"
    " date age expires last-modified retry-after retry-after-ms x-request-id request-id x-should-retry location etag"
    " cache-control vary server via link allow connection keep-alive accept-ranges pragma upgrade trailer"
    " x-accel-buffering x-content-type-options strict-transport-security alt-svc www-authenticate"
    " sec-websocket-protocol mcp-protocol-version"
    " x-amzn-requestid x-amz-request-id x-ms-request-id apim-request-id cf-ray"
    " operation-location content-location preference-applied warning deprecation sunset server-timing"
    " x-total-count x-next-page x-api-warning x-debug-trace-id x-error-code x-error-message grpc-status grpc-message"
    " azureml-model-session"
)
"""Those that say nothing secret and that clients read: of HTTP, of paging, of errors, of operations that go on."""
PREFIXES = ("openai-", "anthropic-")
REPLY_PREFIXES = (
    *(*PREFIXES, "x-ratelimit-", "ratelimit", "access-control-"),
    # What SDKs read of a reply: boto3 (counts of tokens, kinds of errors), google-genai and resumable uploads,
    # Azure (operations, errors), huggingface_hub, Mistral, Groq; a name among them that looks secret is left out.
    *("x-amzn-", "x-amz-", "x-goog-", "x-ms-", "azure-", "azureml-", "upload-", "tus-", "x-stainless-"),
    *("x-repo-", "x-linked-", "x-compute-", "x-inference-", "x-groq-", "mistral-", "x-envoy-upstream-"),
)
SESSIONS = names("mcp-session-id")
"""Who has such a value is in the session of another; clients send it back, so that a placeholder has to do for it."""
PLAIN_VALUE = re.compile(r"(?i:-?[0-9]{1,9}(?:\.[0-9]{1,9})?|true|false|yes|no)\Z")
NEVER = frozenset(("set-cookie", "set-cookie2", "cookie", "authorization", "proxy-authorization"))
DIGESTS = names("etag content-md5 digest content-digest repr-digest x-amz-content-sha256")
CREDENTIALS = names("authorization proxy-authorization x-api-key api-key x-goog-api-key x-auth-token")
# Shorter values are preferences: a language, a theme, "true".
COOKIE_SHORTEST = 16
LOOPBACK_PORT = re.compile(r"(?:(?<=//localhost)|(?<=//127\.0\.0\.1)|(?<=//\[::1\])):[0-9]+")
SCHEMES = names("basic bearer token key apikey api-key bot")
"""What follows another one is made for each request: a signature, a digest, a proof."""
MADE_ANEW = re.compile("^x-amz-|^x-goog-(?!api-key)|sig|nonce|csrf|xsrf|hmac|proof|dpop|assertion")
"""In the names of headers and parameters whose values clients make for each request."""
# https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
AWS_PART = re.compile(r"(?:Signature|Credential)=([^,/\s]+)")
# An agent sends a handful of headers; a server of tools may see those of many agents.
MEMO = 256

Use: TypeAlias = Literal["keep", "learn", "session", "host", "flag", "digest"]
"""What is done with a request header: it is stored; a credential in it is learnt; it is the name of a session; it is
stored if it names another host, or is a flag; a digest is."""

sounds_secret = functools.lru_cache(maxsize=MEMO)(looks_secret)
"""Remembered: the replies of one server have the same headers each time."""


@functools.lru_cache(maxsize=MEMO)
def choose_use(name: str, keep: frozenset[str] = frozenset(), leave_out: frozenset[str] = frozenset()) -> Use:
    """Return what is done with a request header.

    Args:
        name: Its name in lower case.
        keep: Names that are stored besides those on the lists.
        leave_out: Names that are not stored although they are on a list.
    """
    if secret_header(name):
        return "learn"
    if name in REQUEST or name in keep or name.startswith(PREFIXES):
        return "digest" if name in leave_out else "session" if name in SESSIONS else "keep"
    if name == "host":
        return "host"
    # A flag of the agent's own, as `X-Dry-Run: true` is.
    return "flag" if name == "dry-run" or (name.startswith("x-") and not name.startswith(NO_FLAGS)) else "digest"


def is_flag(value: str) -> bool:
    """Return whether the value of such a header says yes or no: it holds no secret."""
    return value.strip().lower() in FLAGS


@functools.lru_cache(maxsize=64)
def names_another_host(value: str, url: str) -> bool:
    """Return whether a Host header was set by hand: it names another host than the URL that the request goes to."""
    try:
        return bool(url) and urlsplit(f"//{value.strip()}").hostname != urlsplit(url).hostname
    except ValueError:
        return True


def kept_in_reply(name: str, value: str, extra: frozenset[str]) -> bool:
    """Return whether the value of a reply header is stored; `name` in lower case."""
    if name in NEVER or name in SESSIONS:
        return False
    if name in REPLY or name in extra or "ratelimit" in name:
        return True
    return (name.startswith(REPLY_PREFIXES) or PLAIN_VALUE.match(value) is not None) and not sounds_secret(name)


def secret_header(name: str) -> bool:
    """Return whether a header of this name carries a credential."""
    return name in CREDENTIALS or name in NEVER or (looks_secret(name) and "ratelimit" not in name)


def hidden_in_traces(name: str) -> bool:
    """Return whether the value of this header is replaced in a trace: a credential, or who is in a session."""
    return secret_header(name) or name in SESSIONS


def credentials(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield (category, value) of every credential in a header whose use is "learn".

    Schemes are stripped, Basic is opened, cookies are split.
    """
    match name.lower():
        case "authorization" | "proxy-authorization":
            yield from ((CATEGORY, part) for part in authorization(value))
        case "cookie":
            yield from (("cookie", part) for part in cookie_values(value.split(";")))
        case _:
            yield CATEGORY, value.partition(" ")[2].strip() or value.strip()


def list_compared(name: str, value: str) -> list[str]:
    """Return the credentials in a header of which it counts which ones they are.

    None of those that are made anew, and no cookies: a client sends the ones that came last, in whatever order.
    """
    lower = name.lower()
    if lower in {"authorization", "proxy-authorization"}:
        scheme, _, rest = value.strip().partition(" ")
        return [rest.strip() or scheme] if not rest or scheme.lower() in SCHEMES else []
    return [] if lower == "cookie" or MADE_ANEW.search(lower) else [value.strip()]


def authorization(value: str) -> Iterator[str]:
    """Yield the secret parts of an Authorization value."""
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    if not rest:
        yield scheme
    elif scheme.upper().startswith("AWS4-"):
        yield from AWS_PART.findall(rest)
    else:
        yield rest
        if scheme.lower() == "basic":
            try:
                plain = base64.b64decode(rest, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return
            yield plain
            yield plain.partition(":")[2]


def cookie_values(pairs: Iterable[str]) -> Iterator[str]:
    """Yield the values of cookies that are long enough to be a session rather than a preference."""
    for pair in pairs:
        value = pair.partition("=")[2].strip().strip('"')
        if len(value) >= COOKIE_SHORTEST:
            yield value


def set_cookies(headers: Headers) -> Iterator[str]:
    """Yield the session values that a reply sets."""
    for name, value in headers:
        if name.lower() == "set-cookie":
            yield from cookie_values([value.partition(";")[0]])


def without_cookie(header: str, instead: Callable[[str], str]) -> str:
    """Return a Set-Cookie value with name and attributes of the cookie, so that a client's jar works in a replay."""
    pair, mark, attributes = header.partition(";")
    name, sign, value = pair.partition("=")
    plain = value.strip().strip('"')
    if not sign:
        return instead(header) if header.strip() else header
    if not plain:
        return header
    return f"{name}={instead(plain)}{mark}{attributes}"


USERINFO = re.compile(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@:]*:)([^/?#@]+)(@)")
PARAMETER = re.compile(r"([?&#;]|\A)([^=&#;?]+)=([^&#;]+)")
TICKETS = frozenset(("upload_id", "uploadid", "upload_session", "session_id", "sessionid", "ticket"))
ENCODED = re.compile(rb"%5[bB]%5[bB]redacted(?:%3[aA]|:)([a-z0-9-]+)(?:%3[aA]|:)([0-9]+)%5[dD]%5[dD]")
"""A placeholder in a URL, as clients write it: some leave the colons as they are."""


def redact_url(
    url: str, instead: Callable[[str, str], str], also: Callable[[str, str], bool] = lambda _name, _value: False
) -> str:
    """Return `url` with its password and the values of parameters whose names look secret replaced.

    Args:
        url: The URL.
        instead: Returns what replaces a value: `(category, value)`.
        also: Whether another parameter is replaced, too: `(name, value)`.
    """

    def replace_value(hit: re.Match[str]) -> str:
        name, value = unquote_plus(hit[2]), unquote_plus(hit[3])
        return f"{hit[1]}{hit[2]}={instead(CATEGORY, value)}" if looks_secret(name) or also(name, value) else hit[0]

    at = min((place for place in (url.find("?"), url.find("#")) if place >= 0), default=len(url))
    head = USERINFO.sub(lambda hit: hit[1] + instead(CATEGORY, unquote_plus(hit[2])) + hit[3], url[:at])
    return head + PARAMETER.sub(replace_value, url[at:])


def is_ticket(name: str, value: str) -> bool:
    """Return whether a parameter of a URL from a server is all that somebody needs to act on it: an upload's id."""
    return name.lower().replace("-", "_") in TICKETS or is_generated(as_bytes(value))
