"""Hosts as people declare them, as programs reach them, and those that are known to serve models.

Declared hosts are compared as parsed addresses or as whole names, never by pattern: another spelling of an address
(0.0.0.0, 2130706433, ::ffff:127.0.0.1) is another host until it is declared itself.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from pytest_agentreplay.errors import SettingsError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORM = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[\w.-]+(?:/[0-9]+)?))(?::(?P<port>[0-9]+))?")

LOCALHOST = frozenset({ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")})

# Hosts of model providers; a star stands for any part of a name. Their subdomains count as well.
MODEL_HOSTS = frozenset(
    {
        "*-aiplatform.googleapis.com",
        "*.api.cognitive.microsoft.com",
        "*.cognitiveservices.azure.com",
        "*.inference.ai.azure.com",
        "*.models.ai.azure.com",
        "*.openai.azure.com",
        "*.services.ai.azure.com",
        "ai-gateway.vercel.sh",
        "aiplatform.googleapis.com",
        "api-inference.huggingface.co",
        "api.ai21.com",
        "api.anthropic.com",
        "api.cerebras.ai",
        "api.cohere.ai",
        "api.cohere.com",
        "api.deepinfra.com",
        "api.deepseek.com",
        "api.fireworks.ai",
        "api.groq.com",
        "api.minimax.io",
        "api.mistral.ai",
        "api.moonshot.ai",
        "api.openai.com",
        "api.perplexity.ai",
        "api.replicate.com",
        "api.sambanova.ai",
        "api.studio.nebius.com",
        "api.together.ai",
        "api.together.xyz",
        "api.voyageai.com",
        "api.x.ai",
        "api.z.ai",
        "bedrock-runtime*.*.amazonaws.com",
        "dashscope-intl.aliyuncs.com",
        "dashscope.aliyuncs.com",
        "gateway.ai.cloudflare.com",
        "generativelanguage.googleapis.com",
        "inference.baseten.co",
        "integrate.api.nvidia.com",
        "models.github.ai",
        "models.inference.ai.azure.com",
        "open.bigmodel.cn",
        "openrouter.ai",
        "router.huggingface.co",
    }
)

_STARRED = tuple(sorted(pattern for pattern in MODEL_HOSTS if "*" in pattern))


def is_model_host(host: str) -> bool:
    """Whether `host`, without port, is known to serve models."""
    name = host.rstrip(".").casefold()
    while name:
        if name in MODEL_HOSTS or any(fnmatchcase(name, pattern) for pattern in _STARRED):
            return True
        name = name.partition(".")[2]
    return False


class HostRule(NamedTuple):
    """One declared host: a `network` (an address is one of a single host), a `name`, or the `path` of a socket file."""

    network: Network | None = None
    name: str = ""
    path: str = ""
    port: int | None = None

    @staticmethod
    def parse(text: str) -> HostRule:
        """Read "127.0.0.1:8123", "localhost", "db:5432", "10.0.0.0/8", "[::1]:80" or "/run/db.sock".

        Raises SettingsError for anything else.
        """
        text = text.strip()
        if text.startswith("/"):
            return HostRule(path=text)
        if (network := _parse_network(text)) is not None:
            return HostRule(network)
        form = _FORM.fullmatch(text)
        port = int(form["port"]) if form is not None and form["port"] else None
        if form is None or (port is not None and not 0 < port < 65536):
            fault = "names no host" if form is None else "names no port from 1 to 65535"
            raise SettingsError(_describe_bad_host(text, fault))
        host = form["v6"] or form["host"]
        if (network := _parse_network(host)) is not None:
            return HostRule(network, port=port)
        if form["v6"] or "/" in host:
            raise SettingsError(_describe_bad_host(text))
        return HostRule(name=host.rstrip(".").casefold(), port=port)


class DeclaredHosts:
    """The hosts that a closed network still reaches."""

    def __init__(self, declared: tuple[str, ...]) -> None:
        """Raises SettingsError for an entry that is no host."""
        self._rules = tuple(HostRule.parse(text) for text in declared)
        self._resolved: dict[str, frozenset[IpAddress]] = {}

    def look_up(self, name: str) -> bool:
        """Whether the address of `name` may be asked for."""
        name = name.rstrip(".").casefold()
        return any(rule.name == name for rule in self._rules if rule.name)

    def may_reach(self, host: str, port: int) -> bool:
        """Whether `host` may be reached at `port`. A declared name is looked up once, when an address needs it."""
        if not self._rules:
            return False
        ip = parse_address(host)
        name = host.rstrip(".").casefold()
        for rule in self._rules:
            if rule.path or rule.port not in {None, port}:
                continue
            if rule.network is not None:
                if ip is not None and ip in rule.network:
                    return True
            elif name == rule.name if ip is None else ip in self._look_up_addresses(rule.name):
                return True
        return False

    def may_reach_url(self, host: str, port: int) -> bool:
        """Whether the `host` of a URL may be reached at `port`; "localhost" by an address of it, too."""
        here = ("127.0.0.1", "::1") if host.casefold() == "localhost" else ()
        return any(self.may_reach(name, port) for name in (host, *here))

    def name_port(self, port: int) -> bool:
        """Whether a rule names this very port."""
        return any(rule.port == port for rule in self._rules)

    def open_file(self, path: str) -> bool:
        """Whether the socket file at `path` may be used."""
        return any(rule.path == path for rule in self._rules if rule.path)

    def _look_up_addresses(self, name: str) -> frozenset[IpAddress]:
        if name not in self._resolved:
            addresses = set(LOCALHOST) if name == "localhost" else set()
            try:
                answers = socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP)
                addresses |= {ip for *_, there in answers if (ip := parse_address(str(there[0]))) is not None}
            except OSError:
                pass
            self._resolved[name] = frozenset(addresses)
        return self._resolved[name]


def parse_address(host: str) -> IpAddress | None:
    """`host` as an address, or None for a name and for spellings that only a C library takes for an address."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine by its loopback address or by the name "localhost"."""
    ip = parse_address(host)
    if ip is None:
        return host.casefold() == "localhost"
    return ip.is_loopback and getattr(ip, "ipv4_mapped", None) is None


def _parse_network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _describe_bad_host(text: str, fault: str = "names no host") -> str:
    return (
        f"'host:{text}' {fault}. Write a name, an address or a network, and a port where only one is meant: "
        "host:db:5432, host:127.0.0.1, host:10.0.0.0/8"
    )
