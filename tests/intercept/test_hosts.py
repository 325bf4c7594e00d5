"""Declared hosts are parsed, never matched by pattern; model hosts are known by name."""

from __future__ import annotations

import ipaddress

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.session.hosts import MODEL_HOSTS, DeclaredHosts, HostRule, is_loopback, is_model_host


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("127.0.0.1:8123", HostRule(ipaddress.ip_network("127.0.0.1"), port=8123)),
        ("127.0.0.1", HostRule(ipaddress.ip_network("127.0.0.1"))),
        ("10.0.0.0/8", HostRule(ipaddress.ip_network("10.0.0.0/8"))),
        ("10.0.0.0/8:5432", HostRule(ipaddress.ip_network("10.0.0.0/8"), port=5432)),
        ("::1", HostRule(ipaddress.ip_network("::1"))),
        ("[::1]", HostRule(ipaddress.ip_network("::1"))),
        ("[::1]:80", HostRule(ipaddress.ip_network("::1"), port=80)),
        ("fd00::/8", HostRule(ipaddress.ip_network("fd00::/8"))),
        ("localhost", HostRule(name="localhost")),
        ("DB.internal.:5432", HostRule(name="db.internal", port=5432)),
        (" my_db-1 ", HostRule(name="my_db-1")),
        ("2130706433", HostRule(name="2130706433")),
        ("/run/db.sock", HostRule(path="/run/db.sock")),
    ],
)
def test_a_declared_host(text, rule):
    assert HostRule.parse(text) == rule


@pytest.mark.parametrize(
    "text",
    ["", ":80", "db:", "db:http", "db:0", "db:65536", "db:-1", "db:٣", "http://db", "10.0.0.0/33", "10.0.0.1/8", "db/x", "[::1", "[::1]80x", "a:b:1", "*.db", "user@db"],
)  # fmt: skip
def test_what_is_no_host_is_a_settings_error(text):
    with pytest.raises(SettingsError, match="agentreplay_allow_hosts") as caught:
        HostRule.parse(text)
    assert repr(text) in str(caught.value)
    assert "db:5432" in str(caught.value)


def test_names_are_whole_names():
    hosts = DeclaredHosts(("db", "api.example.com:443"))
    assert hosts.look_up("DB.")
    assert hosts.look_up("api.example.com")
    assert not hosts.look_up("xdb")
    assert not hosts.look_up("db.example.com")
    assert not hosts.look_up("")
    assert not hosts.look_up("api-example.com")


def test_nothing_is_declared_by_nothing():
    hosts = DeclaredHosts(())
    assert not hosts.look_up("localhost")
    assert not hosts.reach("127.0.0.1", 80)
    assert not hosts.open_file("/run/db.sock")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "10.0.0.1", "::ffff:127.0.0.1", "2130706433", "localhost.evil.com"]
)
def test_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "api.openai.com", "API.OpenAI.com.", "eu.api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "api.mistral.ai",
        "shop.openai.azure.com", "bedrock-runtime.us-east-1.amazonaws.com", "bedrock-runtime-fips.us-east-1.amazonaws.com", "us-central1-aiplatform.googleapis.com",
    ],
)  # fmt: skip
def test_a_model_host(host):
    assert is_model_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "localhost",
        "openai.com",
        "api.openai.com.evil.example",
        "127.0.0.1",
        "xapi.openai.com",
        "s3.amazonaws.com",
    ],
)
def test_another_host(host):
    assert not is_model_host(host)


def test_patterns_are_written_as_they_are_compared():
    assert all(host == host.casefold().strip(".") for host in MODEL_HOSTS)
