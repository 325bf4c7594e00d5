"""Values beside a name without a sign between them. Each is put together from parts."""

from __future__ import annotations

import time

import pytest

from pytest_agentreplay.core.redaction.credentials import find_spoken
from pytest_agentreplay.core.redaction.secret_names import believed, strength

VALUE = "v9zs00ZE1" + "MKZXggWhJ5"


def found(text):
    data = text.encode()
    return {data[start:end].decode() for start, end, _ in find_spoken(data)}


@pytest.mark.parametrize(
    "text",
    [
        "deploy --password {}", "deploy --api-key '{}' --force", "curl -u user:{} https://x.test",
        "curl --user 'user:{}' https://x.test", "sshpass -p {} ssh host", "docker login -u ada -p {} registry.test",
        "machine api.test login me password {}", "<password>{}</password>", "<client_secret>{}</client_secret>",
        '<add key="ApiKey" value="{}"/>', '<Setting name="DbPassword" value="{}" />',
        "os.environ['API_TOKEN'] = '{}'", 'config["password"]="{}"', "my password is {}", "The API key was `{}`.",
        ':password "{}"', "password:{}", "Use the access token {}, please.", "API key: {}",
        "the password for ada@host is {}", "aws configure set aws_secret_access_key {}",
        "CREATE USER ada WITH PASSWORD '{}';", "CREATE USER 'ada'@'%' IDENTIFIED BY '{}';",
        "SET PASSWORD FOR 'ada' = '{}'", "redis-cli -h cache -a {} ping", "requirepass {}",
        "htpasswd -b users ada {}", "az login --service-principal -u app -p {} --tenant t",
        '<wsse:Password Type="Text">{}</wsse:Password>', "client(api_key=SecretStr('{}'))",
    ],
)  # fmt: skip
def test_a_value_is_found_whole(text):
    assert found(text.format(VALUE)) == {VALUE}


@pytest.mark.parametrize(
    "text",
    [
        "deploy --password $DB_PASSWORD", "deploy --token-limit 4096000000000 --verbose",
        "deploy --password /run/secrets/db-password-2", "pytest -p pytest_agentreplay.plugin2",
        "mkdir -p a1/b2/c3/d4/e5/f6", "curl -u user:$PASSWORD https://x.test", "ssh -p 2222 host1234567890",
        "<password>***</password>", "<token>4096</token>", "<title>v9zs00ZE1MKZXggWhJ5</title>",
        '<add key="Theme" value="v9zs00ZE1MKZXggWhJ5"/>', "colours['red-green-blue'] = '0f0f0f0f0f0f'",
        "os.environ['API_TOKEN'] = 'your-token-here'", "my password is required",
        "The API key is documented at https://docs.x.test/api-keys/2", "Password changed 2025-11-18T13:29:00.123Z",
        "the password 2025-11-18T13:29:00.123Z", "password: str, api_key: str | None = None",
        "Please rotate your secret keys every 90 days.", "password reset for user 12345678901234",
        "IDENTIFIED BY '<secret>'", "the word password 'example'", "API key: see https://docs.x.test/api-keys/2",
        "tar -a archive1234567890.tar",
    ],
)  # fmt: skip
def test_what_only_resembles_it_stays(text):
    assert found(text) == set()


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("token", "HWdNLO23vSgH!a", True),
        ("token", "hello, world 23!", False),
        ("token", "cl100k_base", False),
        ("PGPASSWORD", VALUE, True),
        ("clientsecret", VALUE, True),
        ("password_confirmation", VALUE, True),
        ("confirmation", VALUE, False),
    ],
)
def test_names_without_borders_and_values_that_are_drawn(name, value, secret):
    said = strength(name)
    assert (said not in {"", "parameter"} and believed(said, value.encode(), quoted=True)) is secret


@pytest.mark.parametrize(
    "unit",
    ["--a ", "--", "-u a:", "<a>", "<password>a</", "['a'] = '", "password ", "password:", "sshpass -p ", "name='a' "],
)
def test_a_megabyte_of_near_misses_is_read(unit):
    begun = time.perf_counter()
    list(find_spoken((unit * (1_000_000 // len(unit))).encode()))
    assert time.perf_counter() - begun < 60
