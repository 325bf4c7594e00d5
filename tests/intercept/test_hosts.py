"""Declared hosts are parsed, never matched by pattern; model hosts are known by name."""

from __future__ import annotations

import ipaddress

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.session.hosts import MODEL_HOSTS, DeclaredHosts, HostRule, is_loopback, is_model_host


def rule(network="", **more):
    return HostRule(ipaddress.ip_network(network), **more) if network else HostRule(**more)


RULES = {
    "127.0.0.1:8123": rule("127.0.0.1", port=8123),
    "127.0.0.1": rule("127.0.0.1"),
    "10.0.0.0/8": rule("10.0.0.0/8"),
    "10.0.0.0/8:5432": rule("10.0.0.0/8", port=5432),
    "::1": rule("::1"),
    "[::1]": rule("::1"),
    "[::1]:80": rule("::1", port=80),
    "fd00::/8": rule("fd00::/8"),
    "localhost": rule(name="localhost"),
    "DB.internal.:5432": rule(name="db.internal", port=5432),
    " my_db-1 ": rule(name="my_db-1"),
    "2130706433": rule(name="2130706433"),
    "/run/db.sock": rule(path="/run/db.sock"),
}
NO_HOSTS = """:80 db: db:http db:0 db:65536 db:-1 db:٣ http://db 10.0.0.0/33 10.0.0.1/8 db/x [::1 [::1]80x a:b:1 *.db user@db"""


def test_declared_hosts_are_parsed_and_what_is_none_is_a_settings_error():
    assert {text: HostRule.parse(text) for text in RULES} == RULES
    for text in ("", *NO_HOSTS.split()):
        with pytest.raises(SettingsError, match=r"names no (host|port)") as caught:
            HostRule.parse(text)
        assert f"'host:{text}'" in str(caught.value)
        assert "db:5432" in str(caught.value)


def test_names_are_whole_names_and_nothing_is_declared_by_nothing():
    hosts = DeclaredHosts(("db", "api.example.com:443"))
    assert all(map(hosts.look_up, ("DB.", "api.example.com")))
    assert not any(map(hosts.look_up, ("xdb", "db.example.com", "", "api-example.com")))
    hosts = DeclaredHosts(())
    assert not hosts.look_up("localhost")
    assert not hosts.may_reach("127.0.0.1", 80)
    assert not hosts.open_file("/run/db.sock")


def test_loopback_is_known_by_number_and_name():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    others = ("0.0.0.0", "::", "", "10.0.0.1", "::ffff:127.0.0.1", "2130706433", "localhost.evil.com")
    assert not any(map(is_loopback, others))


MODELS = """
api.openai.com API.OpenAI.com. eu.api.openai.com api.anthropic.com generativelanguage.googleapis.com api.mistral.ai
shop.openai.azure.com bedrock-runtime.us-east-1.amazonaws.com bedrock-runtime-fips.us-east-1.amazonaws.com
us-central1-aiplatform.googleapis.com
"""
OTHERS = ". localhost openai.com api.openai.com.evil.example 127.0.0.1 xapi.openai.com s3.amazonaws.com"


def test_hosts_of_models_are_known_by_their_whole_names():
    assert {host for host in MODELS.split() if not is_model_host(host)} == set()
    assert {host for host in ("", *OTHERS.split()) if is_model_host(host)} == set()
    assert all(host == host.casefold().strip(".") for host in MODEL_HOSTS), "written as they are compared"
