"""Values that a name, a form, a place or a path gives away, and what only resembles them. No key stands in this file."""

from __future__ import annotations

import base64
import json
import random
import time
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.redaction.named import find_paths, list_values
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.secret_names import get_strength, is_believed, is_stand_in

VALUE = "7Kd" + "x9Qm" + "2Lp4Tz"
SPOKEN = "v9zs00ZE1" + "MKZXggWhJ5"
LONG = VALUE + "-" + VALUE[::-1] + "_Ab12Cd34Ef56Gh78"
POST = HttpCall("POST", "https://api.test/v1/x")


def redacted(text, policy=None, kind="application/json"):
    redaction, data = Redaction(Places({}), policy=policy or Policy()), text.encode()
    reply = HttpReply(200, headers=(("Content-Type", kind),), body=Body(data), cuts=(len(data),))
    return redaction.redact_outcome(POST, reply).body.data.decode()


def wrappings(text):
    """The text as it is, in a string of JSON, and in one inside another."""
    for _ in range(3):
        yield text
        text = json.dumps({"text": text, "n": [1, 2.5, True]})


def found(find, text):
    data = text.encode()
    return {data[start:end].decode() for start, end, _ in find(data)}


NAMED = [
    '{"password": "%s"}', '{"db_password":"%s"}', '{"apiKey": "%s", "n": 1}', '{"x-api-key": "%s"}',
    '{"client_secret": "%s"}', '{"access_token": "%s", "expires_in": 3600}', '{"Authorization": "Bearer %s"}',
    "{'password': '%s'}", "Client(api_key='%s', base_url='https://x.test')", 'password: "%s"',
    "db:\n  password: %s\n  host: h", "DB_PASSWORD=%s", "export API_KEY='%s'", "host=h user=u password=%s dbname=d",
    "AccountName=a;AccountKey=%s==;EndpointSuffix=core", "curl -H 'Authorization: Bearer %s' https://x.test",
    "X-Auth-Token: %s", "X-Hub-Signature: %s", '{"security_answer": "%s"}', "GET /cb?state=1&code=%s&x=1",
    "GET /b?sig=%s&sv=1", "postgresql://app:%s@db.test/prod", "Cookie: theme=dark; sessionid=%s0000; lang=de",
    "Set-Cookie: SID=%s0000; Path=/; HttpOnly", '{"cookie": "a=b; sid=%s0000"}', "Authorization: Basic %s00",
    "&lt;password=%s&gt;", "auth_token := %s",
    '{"headers": [{"name": "X-Api-Key", "value": "%s"}, {"name": "Accept", "value": "*/*"}]}',
    '{"headers": [{"name": "Authorization", "value": "Splunk %s"}]}',
    '{"headers": [["X-Auth-Token", "%s00000000"], ["accept", "*/*"]]}',
    "[(b'authorization', b'Bearer %s'), (b'accept', b'*/*')]", '{"X-Api-Key": ["%s"]}',
    "env:\n  - name: DB_PASSWORD\n    value: %s\n  - name: LOG", "Authorization: GenieKey %s",
    "Authorization: SSWS %s\nAccept: */*", 'oauth_signature="%s"', "Cookie: %s0000", '{"cookie": "%s0000"}',
    '{"headers": [{"name": "Set-Cookie", "value": "sid=%s0000; Path=/"}]}',
    "headers={'Cookie': 'sid=%s0000', 'Accept': '*/*'}", 'Set-Cookie: lb="%s0000"; Path=/',
    "> Cookie: sid=%s0000\r\n> Accept: */*", "https://x.test/reset?t=%s00000000",
    "<a href='/reset?key=%s00000000&amp;a=1'>", "https://x.test/?tok=%s", "sig=%s&sv=1",
    "https://%s00000000@github.com/acme/repo.git", "https://%s00000000:x-oauth-basic@github.com/acme/repo.git",
    "apitoken=%s", "secret_key_base: %s", "PHPSESSID=%s", "GITHUB_PAT=%s", "recovery_code: %s",
    "a=1&text=pwd%%3A+%s%%0Aand+more&b=2", "COOKIE=%s0000\nX=1",
    "<a href='?cookie=%s0000'>",
]  # fmt: skip
ARRANGED = [
    '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n%s\r\n--b--\r\n',
    '--b\r\nContent-Disposition: form-data; name="api_key"\r\nContent-Type: text/plain\r\n\r\n%s\r\n--b--\r\n',
    '{"key": "db.password", "value": {"stringValue": "%s"}}',
    '{"attributes": [{"key": "a", "value": {"arrayValue": {}}}, {"key": "app.api_key", "value": {"stringValue": "%s"}}]}',
    '{"value": "%s", "name": "X-Api-Key"}', '{"value": {"string_value": "%s"}, "key": "auth_token"}',
    '{"name": "DB_PASSWORD", "type": "string", "value": "%s"}',
    '{"Value": "%s", "Key": "client_secret"}', "[{'value': '%s', 'name': 'Authorization'}]",
    "env:\n  - value: %s\n    name: DB_PASSWORD\n", '<add value="%s" key="ApiKey"/>',
    "password: |\n  %s\nuser: ada\n", "db:\n  client_secret: >-\n    %s\n  host: h\n", "- api_key: |-\n    %s\n",
    "const config = {password: `%s`, host: `h`}", "const apiKey = `%s`;",
    "const token: string = '%s-0123456789abcdef';", 'password: str = "%s"', 'password = f"%s"', "password = rb'%s'",
    "PASSWORD=$'%s'", 'var password = @"%s";', 'password = """\n%s\n"""', "secret_key = '''\n%s'''",
    'password = """%s"""\n', "name,password,city\nada,%s,Rome\nbob,[[redacted:key:9]],Oslo\n",
    "name;password\nada;%s\n", "user\tapi_key\nada\t%s\n", '"name","password"\n"ada","%s"\n',
    "password\tname\n%s\tada\n", "| name | password |\n|---|---|\n| ada | %s |\n",
    "| name | API key |\n| :--- | ---: |\n| ada | `%s` |\n",
    " id | client_secret | host\n----+---------------+------\n  1 | %s | h\n",
    "x\n\nname,password\nbob,none\nada,%s\n\nmore",
    '{\n                            "name": "authorization",\n                            "value": "Bearer %s"\n}',
    '{\n    "key": "app.api_key",\n    "value": {\n        "stringValue": "%s"\n    }\n}', '[\n  "X-Api-Key",\n  "%s"\n]',
    '{\n    "value": "%s",\n    "name": "X-Api-Key"\n}',
]  # fmt: skip


def test_a_value_that_its_name_gives_away_goes_and_all_else_stays():
    for form in NAMED:
        for whole in wrappings(form % VALUE):
            kept = redacted(whole)
            before, _, after = whole.partition(VALUE)
            assert VALUE not in kept, whole
            assert kept.startswith(before), whole
            assert kept.endswith(after.lstrip("=0")), whole
            assert redacted(kept) == kept, whole


def test_a_value_that_its_arrangement_gives_away_goes():
    """Forms, pairs, blocks, tables, keys in JSON: the name does not stand right before the value."""
    for form in ARRANGED:
        text = form % VALUE
        for whole in wrappings(text):
            kept = redacted(whole)
            assert VALUE not in kept, whole
            assert redacted(kept) == kept, whole
        result = Redaction(Places({})).redact_outcome(ToolCall("t"), ToolReply({"out": text}))
        assert VALUE not in json.dumps(result.value), text


PUNCTUATED = [
    *(
        "user[password]",
        "password[]",
        "users[0][api_key]",
        "user[password][]",
        "password (confirm)",
        "api:key",
        "API KEY",
    ),
    *("secret key", "Client Secret", "api/key", "user.password", "x api key"),
]
PLACES = {
    "form": lambda name: urlencode({"z": 1, name: VALUE, "y": 2}),
    "first in a form": lambda name: urlencode({name: VALUE}),
    "query in a text": lambda name: f"GET /x?z=1&{urlencode({name: VALUE})} HTTP/1.1",
    "member": lambda name: json.dumps({"z": 1, name: VALUE}),
    "percent-encoded member": lambda name: json.dumps({quote(name): VALUE}),
    "Python": lambda name: repr({"z": 1, name: VALUE}),
    "YAML": lambda name: f"z: 1\n'{name}': {VALUE}\n",
    "multipart": lambda name: f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{VALUE}\r\n--b--\r\n',
    "pair": lambda name: json.dumps([{"name": name, "value": VALUE}]),
    "two items": lambda name: repr([("z", 1), (name, VALUE)]),
    "HTML": lambda name: f'<input name="{name}" value="{VALUE}">',
    "CSV": lambda name: f"id,{name},z\n1,{VALUE},2\n",
    "subscript": lambda name: f'config["{name}"] = "{VALUE}"',
}


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_the_same_with_punctuation_in_it_wherever_it_stands(place):
    assert [name for name in PUNCTUATED if VALUE in redacted(PLACES[place](name))] == []
    assert VALUE in redacted(PLACES[place]("user[nickname]"))
    if place == "member":
        trees = [
            Redaction(Places({})).redact_outcome(ToolCall("t"), ToolReply({name: VALUE})).value for name in PUNCTUATED
        ]
        assert VALUE not in json.dumps(trees)
        mine = Policy(names={"patient": "patient"})
        assert VALUE not in redacted(urlencode({"form[patient]": f'"{VALUE}"'}), mine)


JWKS = {"RSA": ("n", "e", "d", "p", "q", "dp", "dq", "qi"), "EC": ("x", "y", "d"), "OKP": ("x", "d"), "oct": ("k",)}


@pytest.mark.parametrize("kind", JWKS)
@pytest.mark.parametrize("last", [False, True])
def test_the_private_members_of_a_json_web_key_go_and_the_public_ones_stay(kind, last):
    members = {name: f"{name}{LONG}{name}" for name in JWKS[kind]}
    key = {**members, "kty": kind} if last else {"kty": kind, "kid": "1", **members}
    for text in (json.dumps({"keys": [key]}), json.dumps({"out": json.dumps(key)}), str(key)):
        after = redacted(text)
        for name, value in members.items():
            assert (value in after) == (name in {"n", "e", "x", "y"}), (name, after)
    result = Redaction(Places({})).redact_outcome(ToolCall("t"), ToolReply(key)).value
    assert {name for name in members if result[name] == members[name]} == {"n", "e", "x", "y"} & members.keys()


TREES = [
    {"$tuple": ["password", VALUE]},
    [["user", "ada"], ["api key", VALUE]],
    {"key": "db.password", "value": {"stringValue": VALUE}},
    {"value": VALUE, "name": "X-Api-Key"},
    [{"name": "a", "value": "b"}, {"name": "DB_PASSWORD", "value": VALUE}],
]


@pytest.mark.parametrize("tree", TREES)
def test_members_of_a_result_and_of_arguments_tell_of_each_other(tree):
    made = Redaction(Places({}))
    assert VALUE not in json.dumps(made.redact_outcome(ToolCall("t"), ToolReply(tree)).value)
    assert VALUE not in json.dumps(made.redact_content(ToolCall("t", {"row": tree})).arguments)
    assert VALUE not in json.dumps(made.redact_outcome(ToolCall("t"), ToolReply(items=(tree,))).items)


LEFT = [
    '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nhello-world-12345678\r\n--b--\r\n',
    '{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12345678"}}',
    '{"key": "max_tokens", "value": {"stringValue": "4096-4096"}}',
    "[set up the credentials]: https://x.test/setting-up-2025-credentials\n", "[secret]: https://x.test/a-1234567\n",
    '{"name": ("password", "password_confirmation"), "f": ["secret", "ClientSecretsWithRawResponse"]}',
    '{"how to get a key": "at the desk-12", "a key (of the house)": "0123-under-the-mat"}', "user[city]=Rome-12345678&a[key]=b-12345678",
    '{"value": "Rome-2025-11", "name": "city"}, {"name": "password", "required": true}',
    '{"name": "password", "description": "the value", "type": "string"}',
    "description: |\n  a text of two lines\n  and 12345678-abc\n", "password_policy: |\n  at least 12 characters\n",
    "password: |\n  Ask the owner of the shop for it.\n", "const greeting = `hello-12345678`;",
    'help_text = """\nSet the password first.\n"""',
    "def connect(user, password, token):\n    return open(user, password, token)\n",
    "name,city,token_count\nada,Rome,12345678\n",
    "The password, the token, and the key\nare given, to nobody, but you-1234567\n",
    "| field | meaning |\n|---|---|\n| password | must-be-set-1 |\n", "name,password\nada,\nbob,none\n",
    '{"d": "2025-11-20T10:00:00Z-abcdefgh", "k": "abcdefghijklmnopqrstuvwx"}',
    '{"kty": "RSA", "n": "' + LONG + '", "e": "AQAB", "kid": "' + VALUE + '0123456789"}',
    '{"max_tokens": 4096, "total_tokens": 230}', '{"token": " Warsaw", "logprob": -0.1, "bytes": [87]}',
        '{"token": "12345", "id": 7}', '{"next_page_token": "abc123abc123abc123"}',
        '{"sort_key": "created_at", "key": "PROJ-12345678"}', '{"password_policy": "at least 12 characters"}',
        '{"password": "your password here"}', '{"password": null, "secret": false}',
        '{"api_key": "$OPENAI_API_KEY", "secret": "<secret>"}',
        '{"api_key": "${env:KEY_12345}", "token": "{{ token1234567 }}"}',
        '{"type": "thinking", "signature": "EqQJ7gnXGyhQqBAiEHmG9HyCXelUHIUIvURs/b5q"}',
        '{"session_id": "0b5f2a1e77c94d0fa31c9a3be0c1de45"}', "password = getpass.getpass()",
        "api_key = os.environ['OPENAI_API_KEY']", "token = tokens[0]; key = lambda row: row.id",
        "def login(user: str, password: str) -> Token1: ...", "the key: value pairs, the author: someone",
        "Your password: must hold eight characters", "http://localhost:8080/a@b and http://h.test:443/x",
        "Bearer of good news, basic understanding, token economy", "cookie: yes", "Cookie: theme=dark",
        "the cookie: a small text file", '{"cookies": "none", "cookie_policy": "strict-2025-policy"}',
        "?code=US&state=open", "https://x.test/?t=1763645340&key=created_at&k=20",
        "https://x.test/?t=2025-11-20T10:00:00Z&ticket=INC-2025-000123456789",
        "https://x.test/?key=9e107d9d372bb6826bd81d3542a4196e&t=9E107D9D-372b-6826-bd81-d3542a4196e0",
        "https://deploy-user-2025@host.test/path and ssh://git@github.com/acme/repo.git",
        '["id", "name", "api_key", "created_at_2025"]', '("secret", "late-secret-1")',
        '{"required": ["password", "username"]}',
        '{"name": "api_key", "value": "$API_KEY"}', '{"name": "password", "type": "string", "value": null}',
        "Authorization: this is how a request says who it is from",
        '{"thoughtSignature": "EqQJ7gnXGyhQqBAiEHmG9HyCXelUHIUIvURs"}', "primary_key=id_of_row_1234",
]  # fmt: skip


def test_what_no_name_gives_away_stays_to_the_byte():
    assert [whole for text in LEFT for whole in wrappings(text) if redacted(whole) != whole] == []


SAID = [
    "<password>{}</password>", "<client_secret>{}</client_secret>", '<add key="ApiKey" value="{}"/>',
    '<Setting name="DbPassword" value="{}" />', "os.environ['API_TOKEN'] = '{}'", 'config["password"]="{}"',
    "client(api_key=SecretStr('{}'))", "Use the access token {}, please.", "API key: {}",
]  # fmt: skip
NEVER_SAID = [
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
    ]  # fmt: skip


HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
OF_NO_VENDOR = [
    f"mistral commit {HEX}04895722", f"mistral: sha256:{HEX}{HEX}", f"datadog.trace_id={HEX}", f"datadog dashboard {HEX}",
    "mistral-large-latest and command-r-plus-08-2024 of Cohere",
]  # fmt: skip


def test_a_value_in_a_tag_or_an_index_is_found_whole_and_what_only_resembles_it_is_not():
    texts = {text.format(SPOKEN): text.format("[[redacted:key:1]]") for text in SAID}
    assert {text: redacted(text) for text in texts} == texts
    assert [text for text in (*NEVER_SAID, *OF_NO_VENDOR) if redacted(text) != text] == []


STRENGTHS = {
    "password": "digits", "DB_PASSWORD_2": "digits", "apiKey": "strong", "openai_api_key": "strong", "token": "weak",
    "private_token": "strong", "sig": "parameter", "tokenizer": "", "max_token": "", "api_key_id": "", "key": "",
    "compass": "", "page_token": "", "password_hash": "",
}  # fmt: skip
BELIEVED = [
    ("token", "HWdNLO23vSgH!a", True),
    ("token", "hello, world 23!", False),
    ("token", "cl100k_base", False),
    ("PGPASSWORD", SPOKEN, True),
    ("clientsecret", SPOKEN, True),
    ("password_confirmation", SPOKEN, True),
    ("confirmation", SPOKEN, False),
]
STAND_INS = [
    *("None", "your-key-here", "xxxxxxxx", "****", "%KEY%", "<token>", "fetch_key()", "a.b", "sk-ant-...", "(hidden)"),
    *("sk-proj-********", "not-needed", "lm-studio", "op://vault/item/field", "change-this-in-production"),
]


def test_how_much_a_name_says_which_values_are_believed_and_which_stand_for_another():
    assert {name: get_strength(name) for name in STRENGTHS} == STRENGTHS
    for name, value, secret in BELIEVED:
        said = get_strength(name)
        assert (said not in {"", "parameter"} and is_believed(said, value.encode(), quoted=True)) is secret, (
            name,
            value,
        )
    assert [value for value in (*STAND_INS, VALUE) if not is_stand_in(value.encode())] == [VALUE]


def test_members_of_a_tools_arguments_go_by_their_names():
    redaction = Redaction(Places({}))
    kept = redaction.redact_content(
        ToolCall("login", {"user": "ada", "password": VALUE, "pin": 123456, "tries": [{"otp": 987654}]})
    )
    assert kept.arguments == {
        "user": "ada",
        "password": "[[redacted:key:1]]",
        "pin": "[[redacted:key:2]]",
        "tries": [{"otp": "[[redacted:key:3]]"}],
    }
    assert redaction.redact_content(ToolCall("say", {"text": f"I used {VALUE}."})).arguments == {
        "text": "I used [[redacted:key:1]]."
    }


def test_what_a_rule_found_once_is_known_in_every_guise_from_then_on():
    redaction = Redaction(Places({}))
    redaction.redact_content(ToolCall("login", {"password": VALUE}))
    assert VALUE.encode().hex() not in redaction.redact_text(f"spelled {VALUE.encode().hex()}")
    assert redaction.text.leaks(f"<{VALUE}>".encode()) == ("key",)


def test_names_of_a_project_signatures_of_headers_and_keys_of_a_dsn():
    mine = Policy(names={"patient": "patient"})
    line, key = f"t=1763645340,v1={VALUE}", "9f86d081884c7d65" + "9a2feaa0c55ad015"
    digits = "04895722b47d4d79" + "bf17cd89b61c3a62"
    for text, kept, policy in (
        ('{"patient": "Ada", "doctor": "Bob"}', '{"patient": "[[redacted:patient:1]]", "doctor": "Bob"}', mine),
        ('{"patient": 17}', '{"patient": "[[redacted:patient:1]]"}', mine),
        (f"Stripe-Signature: {line}", "Stripe-Signature: [[redacted:key:1]]", None),
        (json.dumps({"Stripe-Signature": line}), '{"Stripe-Signature": "[[redacted:key:1]]"}', None),
        *(
            (f"DSN=https://{one}@o1.test/42", "DSN=https://[[redacted:key:1]]@o1.test/42", None)
            for one in (key, digits)
        ),
    ):
        assert redacted(text, policy) == kept


# --- in base64


KEY = "gh" + "p_v9zs00ZE1MKZXggWhJ5aQ2rT7uY4pL0xKd7Q"


def packed(text, wrapped=0):
    data = base64.b64encode(text.encode()).decode()
    return "\n".join(data[at : at + wrapped] for at in range(0, len(data), wrapped)) if wrapped else data


@pytest.mark.parametrize("wrapped", [0, 60, 76])
def test_a_key_in_base64_goes_and_what_stands_before_it_stays(wrapped):
    for before in ("", "=", "a=", "# settings\nTOKEN="):
        text = packed(f"{before}{KEY}\nDEBUG=1\n" + "A=1\n" * 20, wrapped)
        head = base64.b64encode(before.encode()[: len(before) // 3 * 3]).decode()
        for whole in (json.dumps({"content": text, "n": 1}), f"content {text} end"):
            kept = Redaction(Places({})).redact_text(whole)
            assert "[[redacted:github-key:1]]" in kept
            assert kept.startswith(whole[: whole.index(text[:4])] + head)
            assert packed(KEY)[4:-4] not in kept
            assert Redaction(Places({})).redact_text(kept) == kept


def test_a_private_key_in_base64_of_a_url_and_what_is_known_from_then_on():
    armour = "-----{} RSA PRIVATE KEY-----"
    body = "v9zs00ZE1MKZXggWhJ5aQ2rT7uY4pL0x" * 8
    text = base64.urlsafe_b64encode("\n".join([armour.format("BEGIN"), body, armour.format("END")]).encode()).decode()
    redaction = Redaction(Places({}))
    assert redaction.redact_text(f"the file {text}").startswith("the file [[redacted:private-key:1]]")
    assert redaction.text.leaks(base64.b64encode(body.encode())) == ("private-key",)


OTHER_BASE64 = [
    packed("the quick brown fox jumps over the lazy dog and runs"),
    packed(json.dumps({"offset": 20, "sort": "created_at", "after": "0b5f2a1e77c94d0fa31c9a3be0c1de45"})),
    packed("set it to ghp_<your key>, or to ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    base64.b64encode(random.Random(3).randbytes(3000)).decode(),
    "0123456789abcdef" * 8,
]


def test_other_base64_stays():
    texts = [f'{{"v":"{text}"}}' for text in OTHER_BASE64]
    assert [text for text in texts if Redaction(Places({})).redact_text(text) != text] == []


# --- in the path of a URL


TOKEN = "Xq3vT9LmZp" + "R2sWkY8dHfJb4N"
TELEGRAM = "ABC-DEF1234ghIkl-" + "zyx57W2v1u123ew11"
HEXADECIMAL = "3d89bb7572e0fb30d8128367b3b1b44f" * 2 + "6ecd"
PATHS = {
    f"/bot123456:{TELEGRAM}/sendMessage": "/bot[[redacted:telegram-key:1]]/sendMessage",
    f"/file/bot123456:{TELEGRAM}/photos/1.jpg": "/file/bot[[redacted:telegram-key:1]]/photos/1.jpg",
    f"/services/T024BE7LD/B024BE7LE/{TOKEN}": "/services/T024BE7LD/B024BE7LE/[[redacted:slack-webhook:1]]",
    f"/api/webhooks/223704706495545344/{HEXADECIMAL}": "/api/webhooks/223704706495545344/[[redacted:discord-webhook:1]]",
    f"/api/v10/webhooks/223704706495545344/{TOKEN}-{TOKEN}_{TOKEN}/messages/1": (
        "/api/v10/webhooks/223704706495545344/[[redacted:discord-webhook:1]]/messages/1"
    ),
    "/hooks/xr4w5i8mfjgr5e9gk1q3cz7hoy": "/hooks/[[redacted:key:1]]",
    "/open-apis/bot/v2/hook/8c4d2a10-7f3e-4b7a-9c55-2b1e9f6a7d3c": "/open-apis/bot/v2/hook/[[redacted:key:1]]",
    f"/trigger/late/with/key/{TOKEN}": "/trigger/late/with/key/[[redacted:key:1]]",
}
KEPT = [
    "/bot/123456/messages",
    "/bots/123456:abc/threads",
    "/bot123456:your-telegram-bot-token-goes-here/getMe",
    "/services/T024BE7LD/B024BE7LE",
    "/services/Translation/Batch/2024",
    "/repos/octo/shop/hooks/223704706495545344",
    "/v1/hooks/01hv3vqk6c0fd6vv2v9y6k2z8a",  # a ULID
    "/webhooks/223704706495545344/deliveries",
    "/v1/orders/8c4d2a10-7f3e-4b7a-9c55-2b1e9f6a7d3c",
]


@pytest.mark.parametrize("host", ["https://api.example.com", "http://127.0.0.1:8080"])
def test_a_path_is_stored_without_its_credential_in_calls_and_in_texts_and_ids_stay(host):
    for path, stored in PATHS.items():
        redaction = Redaction(Places({}))
        assert redaction.redact_content(HttpCall("POST", f"{host}{path}?limit=5")).url == f"{host}{stored}?limit=5"
        secret = path.removeprefix(stored.partition("[[")[0]).removesuffix(stored.rpartition("]]")[2])
        log = HttpCall("POST", f"{host}/log", body=Body(f'{{"line": "the token is {secret}."}}'.encode()))
        assert secret not in str(redaction.redact_content(log).body.data), "it is known from then on"
        said = Redaction(Places({})).redact_content(ToolCall("log", {"line": f"POST {path} HTTP/1.1 404"}))
        assert said.arguments == {"line": f"POST {stored} HTTP/1.1 404"}
    for url in (host + path for path in KEPT):
        assert Redaction(Places({})).redact_content(HttpCall("GET", url)).url == url


# --- at the paths of a project


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(DOCUMENTS, max_size=3) | st.dictionaries(st.text(max_size=5), DOCUMENTS, max_size=3), st.booleans())
def test_every_value_is_where_its_place_says(tree, pretty):
    data = json.dumps(tree, indent=2 if pretty else None, ensure_ascii=pretty).encode("utf-8", "surrogatepass")
    for place, start, end in list_values(data):
        there = tree
        for step in place:
            there = there[step]
        text = data[start:end] if data[start - 1 : start] != b'"' else b'"' + data[start:end] + b'"'
        assert json.loads(text) == there


def at_paths(*paths):
    return Policy(paths=tuple(("patient", compile_path(path)) for path in paths))


def test_values_go_by_their_path_and_nothing_else_does():
    text = '{"rows": [{"name": "Ada", "age": 36, "city": "Ada"}, {"name": "Bob"}], "total": 2}'
    kept = json.loads(redacted(text, at_paths("$.rows[*].name", "$.rows[*].age")))
    assert [row["name"] for row in kept["rows"]] == ["[[redacted:patient:1]]", "[[redacted:patient:3]]"]
    assert kept["rows"][0]["age"] == "[[redacted:patient:2]]"
    assert kept["total"] == 2
    whole = json.loads(redacted('{"who": {"first": "Ada", "tags": ["x1", true, null]}}', at_paths("$.who")))
    assert whole == {"who": {"first": "[[redacted:patient:1]]", "tags": ["[[redacted:patient:2]]", True, None]}}
    redaction = Redaction(Places({}), policy=at_paths("$.who.name"))
    arguments = redaction.redact_content(ToolCall("t", {"who": {"name": "Ada"}, "name": "x"})).arguments
    assert arguments == {"who": {"name": "[[redacted:patient:1]]"}, "name": "x"}


def test_lines_of_a_stream_are_documents_and_what_is_no_json_has_no_paths():
    text = 'data: {"row": {"name": "Ada"}}\n\ndata: [DONE]\n\ndata: {"row": {"name": "Bob"}}\n\n'
    kept = redacted(text, at_paths("$.row.name"), "text/event-stream")
    assert kept.count("[[redacted:patient:") == 2
    assert "Ada" not in kept
    assert "Bob" not in kept
    assert "data: [DONE]" in kept
    assert [*find_paths(b"name: Ada", at_paths("$.name").paths)] == []
    assert [*find_paths(b'{"name": "Ada"', at_paths("$.name").paths)] == []


# --- in time


NEAR_MISSES = [
    "cookie: ", 'cookie="', "cookie,", 'cookie: a="', "://", "://a", "token, ", "token\n", '"value": "abcdefgh", ',
    "password,token,secret,", '{"name": "password", ', "password: |\n  x\n", '"kty" "d": "', "| password ",
    'password = """\n', 'form-data; name="password"\r\n', "\\\\\\\\", "a,password\n1,2\n", "password\\n",
    "<a>", "<password>a</", "password>", "['password'] = '", "('password', ", '{"kty', "(kty'", "value=abcd ", "value: a,",
    '"password", "type": "a", ', "=3D", "=41=", "=\n", "\\101", "password=SecretStr(",
]  # fmt: skip


def test_the_cost_of_near_misses_is_that_of_their_length():
    def seconds(unit, size):
        begun = time.process_time()
        redacted(unit * (size // len(unit)))
        return time.process_time() - begun

    for unit in NEAR_MISSES:
        seconds(unit, 1000)
        assert seconds(unit, 40_000) < 10 * seconds(unit, 10_000) + 0.2, unit
