"""Policy files: what each key means, what is refused with which words and where, and the schema that is shipped."""

import json
import os
from importlib.resources import files
from pathlib import Path

import pytest

from pytest_agentreplay.errors import PolicyError, SettingsError
from pytest_agentreplay.redaction import policies
from pytest_agentreplay.redaction.policy import PLAIN, Policy, difference, join_policies

CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS") or Path(__file__).parents[1] / "corpus") / "hostile_corpus.jsonl"
PATHS = [row for row in map(json.loads, CORPUS.read_text("utf-8").splitlines()) if row["class"] == "policy-jsonpath"]
HEAD = 'schemaVersion: "1.0"\n'


def policy(text="", head=HEAD):
    return policies.parse((head + text).encode(), "p.yaml")


def refused(text, *words, head=HEAD):
    with pytest.raises(PolicyError) as caught:
        policy(text, head)
    assert not [word for word in ("p.yaml", *words) if word not in str(caught.value)], text
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, SettingsError), "pytest stops with code 4 before any test, the command line with 2"
    assert caught.value.file == "p.yaml"


WHOLE = """
pii: true
strict: true
patterns:
  - category: customer
    regex: CUST-[0-9]{6}
    reason: numbers of our customers
  - category: licence
    regex: 'licence[ :]{1,3}(?P<value>[A-Z0-9]{8})'
paths:
  customer: [$.customer.id, "$..user['full name']", "$.rows[?(@.kind == 'customer')].name"]
names:
  birthday: [birthDate, dob]
headers: [X-Tenant]
keep_headers: [X-Shop-Version]
keep_claims: [sub, "https://shop.example/tenant"]
environment: [SHOP_*, REGION]
secret_environment: [SHOP_PEPPER]
secrets: [licence]
placeholders:
  customer: <redacted-customer-{n}>
"""


def test_every_key():
    said = policy(WHOLE.replace("<redacted", "redacted").replace("{n}>", "{n}"))
    assert (said.pii, said.strict) == (True, True)
    assert [shape.category for shape in said.shapes] == ["customer", "licence"]
    hits = [hit for shape in said.shapes for hit in shape.find(b"CUST-123456, licence: AB12CD34")]
    assert hits == [(0, 11, "customer"), (22, 30, "licence")]
    rows = [{"kind": "shop", "name": "Elm Street"}, {"kind": "customer", "name": "Bo"}]
    tree = {"customer": {"id": 7}, "x": [{"user": {"full name": "Ann"}}], "rows": rows}
    assert [(kind, it) for kind, path in said.paths for _, it in path.find(tree)] == [
        ("customer", 7),
        ("customer", "Ann"),
        ("customer", "Bo"),
    ]
    assert dict(said.names) == {"birthdate": "birthday", "dob": "birthday"}
    assert said.headers == {"x-tenant"}
    assert said.keep_headers == {"x-shop-version"}
    assert said.keep_claims == {"sub", "https://shop.example/tenant"}
    assert said.environment == ("SHOP_*", "REGION")
    assert said.secret_environment == ("SHOP_PEPPER",)
    assert said.personal == {"customer", "birthday"}, "a licence may be another one in each replay"
    assert dict(said.placeholders) == {"customer": "redacted-customer-{n}"}
    assert len(said.digest) == 64
    # An empty policy is the shipped rules, and the digest is of what is said.
    assert policy() == Policy(digest=policy().digest)
    same = policy("pii: true\nnames: {a: [b]}").digest
    assert policy("# a remark\nnames:\n  a:\n  - b\npii: true\n").digest == same
    assert policy("pii: true\nnames: {a: [c]}").digest != same


REFUSED = [
    ("pi: true", (":2:1", "'pi'", "did you mean pii?")),
    ("remove: [key]", (":2:1", "no key of a policy", "it is one of schemaVersion, pii")),
    ("allow: ['.*']", (":2:1", "no key of a policy")),
    ("shipped: false", (":2:1", "no key of a policy")),
    ("pii: yes", (":2:1", "pii", "true or false")),
    ("pii: 1", ("true or false",)),
    ("patterns: x", ("patterns", "list")),
    ("patterns: [x]", (":2:12", "patterns[0]", "keys and values")),
    ("patterns:\n- category: a\n  regx: b", (":4:3", "'regx'", "did you mean regex?")),
    ("patterns:\n- category: a", ("patterns[0] needs regex",)),
    ("patterns:\n- {category: My Cat, regex: b}", ("patterns[0].category", "lower-case")),
    ("patterns:\n- {category: a, regex: ''}", ("patterns[0].regex", "empty")),
    ("patterns:\n- {category: a, regex: b}\n- {category: c, regex: 'd+{9}{9}'}", (":4:17", "'c'", "d+{9}{9}", "multiple repeat")),
    ("patterns:\n- {category: a, regex: '(?=b)c'}", (":3:17", "look-ahead")),
    ("patterns:\n- {category: a, regex: '[b'}", (":3:17", "no regular expression", "character")),
    ("paths: {a: [b]}", (":2:13", "starts with $")),
    ("paths: {a: [$.b, '$..[?(@.x == __import__(\"os\"))]']}", (":2:18", "column 4")),
    ("paths: {a: ['$.b[(@.length-1)]']}", (":2:13", "column 4")),
    ("paths: {a: ['$.b[?(@.c =~ \"d\")]']}", (":2:13", "=~ is for tests alone")),
    ("paths: {a: ['$.`this`']}", (":2:13", "column 2", "Steps are")),
    ("paths: {a: ['$.b.`sub(/x/, y)`']}", (":2:13", "column 4")),
    ("paths: {a: ['$.a + $.b']}", (":2:13",)),
    ("paths: {a: ['$.a | $.b']}", (":2:13",)),
    ("paths: {a: ['$.a where b']}", (":2:13",)),
    ("paths: {a: ['$.a[']}", (":2:13",)),
    ("paths: {A b: [$.a]}", ("'A b' is no category",)),
    ("names: {a: [x], b: [X]}", (":2:21", "'a' already")),
    ("names: {a: [1]}", ("names.a[0]", "text")),
    ("headers: ['a b']", ("no name of a header",)),
    ('headers: ["x\\ny"]', ("no name of a header",)),
    ("keep_headers: [Authorization]", ("credentials", "cannot keep it")),
    ("keep_headers: [X-Api-Key]", ("credentials",)),
    ("keep_headers: [Set-Cookie]", ("credentials",)),
    ("keep_claims: [client_secret]", (":2:", "'client_secret' looks like a secret")),
    ("headers: [X-A]\nkeep_headers: [x-a]", (":3:16", "headers too")),
    ("environment: ['*']", ("three letters",)),
    ("environment: ['A*']", ("three letters",)),
    ("environment: [OPENAI_API_KEY]", ("looks like a secret",)),
    ("environment: ['AWS_SECRET_*']", ("looks like a secret",)),
    ("environment: ['${HOME}']", ("no name of a variable",)),
    ("secret_environment: ['A*']", ("a whole name",)),
    ("secrets: [a]", ("no rule of this policy finds 'a'",)),
    ("placeholders: {a: x}", ("{n} once",)),
    ("placeholders: {a: 'redacted {n} {n}'}", ("{n} once",)),
    ("placeholders: {a: 'Jane Doe {n}'}", ("the word redacted",)),
    ("placeholders: {a: 'redacted1{n}'}", ("no digit beside",)),
    ("placeholders: {a: 'redacted \"{n}\"'}", ("leave out quotes",)),
    ("placeholders: {a: '{{redacted}}{n}'}", ("leave out",)),
    ("placeholders: {a: 'redacted-é-{n}'}", ("leave out",)),
    ("placeholders: {a: '[[redacted:key:{n}]]'}", ("shipped rules begin so",)),
    ("placeholders: {a: 'x-redacted-{n}', b: 'X-Redacted-{n}'}", ("'a' already",)),
    ("patterns: [{category: c, regex: 'redacted-[0-9]{1,9}'}]\nplaceholders: {a: 'redacted-{n}'}", (":3:", "replaced again")),
    ("pii: !!bool true", (":2:6", "tags")),
    ("pii: true\npii: false", (":3:1", "twice")),
    ("names: &a {b: [c]}", ("anchors",)),
    ("patterns:\n" + "".join(f"- {{category: a, regex: b{n}}}\n" for n in range(201)), ("200",)),
    ("paths:\n" + "".join(f"  c{n}: [$.a, $.b]\n" for n in range(101)), ("200",)),
    ("names:\n" + "".join(f"  c{n}: [n{n}]\n" for n in range(201)), ("200",)),
]  # fmt: skip
VERSIONS = [
    ("", (":1:1: is empty",)),
    ("\x00", ("U+0000",)),
    ("a: &a [*a]", (":1:4", "anchors")),
    ("pii: true", ('schemaVersion: "1.0"',)),
    ("[]", ("keys and values",)),
    ("schemaVersion: 1.0\n", ("in quotes",)),
    ('schemaVersion: "one"\n', ("in quotes",)),
    ('schemaVersion: "2.0"\nnew_key: 1\n', (":1:1", "version 2.0", "1.x", "pip install --upgrade")),
    ('schemaVersion: "0.3"\n', ("version 0.3", 'write schemaVersion: "1.0"')),
    ('schemaVersion: "1.7"\nnew_key: 1\n', ("new_key",)),
]


def test_what_cannot_be_meant_is_refused_with_its_place():
    assert PATHS
    for text, words in REFUSED:
        refused(text, *words)
    for row in PATHS:
        refused(f"paths: {{a: [{json.dumps(row['payload'])}]}}", ":2:13")
    for head, words in VERSIONS:
        refused("", *words, head=head)


def test_the_shipped_schema_is_the_models_and_every_key_has_its_row_in_the_reference():
    shipped = json.loads(files(policies).joinpath(policies.SCHEMA).read_text("utf-8"))
    assert shipped == json.loads(json.dumps(policies.schema()))
    assert set(shipped["properties"]) == set(policies.model().model_fields)
    assert shipped["additionalProperties"] is False
    page = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text("utf-8")
    for key in policies.model().model_fields:
        assert f"| `{key}` |" in page, key


# Joining and comparing

A = Policy(pii=True, names={"who": "customer"}, headers=frozenset({"x-a"}), environment=("A",), digest="a")
B = Policy(strict=True, names={"who": "user", "dob": "day"}, keep_headers=frozenset({"x-a", "x-b"}), digest="b")


def test_joining_adds():
    both = join_policies(A, B)
    assert (both.pii, both.strict) == (True, True)
    assert dict(both.names) == {"who": "customer", "dob": "day"}
    assert both.headers == {"x-a"}
    assert both.keep_headers == {"x-b"}, "leaving out wins"
    assert both.digest not in {"a", "b", ""}
    assert join_policies(PLAIN, A) == A
    assert join_policies() == PLAIN
    assert join_policies(A, A).digest == "a"


COMPARED = [
    ("pii: true", "pii: true", []),
    ("", "pii: true", ["pii"]),
    ("", "strict: true", ["strict"]),
    ("pii: true", "", []),
    ("patterns: [{category: a, regex: b}]", "patterns: [{category: a, regex: b}, {category: c, regex: d}]", ["patterns"]),
    ("patterns: [{category: z, regex: b}]", "patterns: [{category: a, regex: b}]", []),
    ("patterns: [{category: a, regex: bcd}]", "patterns: [{category: a, regex: bc}]", ["patterns"]),
    ("paths: {a: [$.b]}", "paths: {a: [$.b, $.c]}", ["paths"]),
    ("names: {a: [b]}", "names: {a: [b, c]}", ["names"]),
    ("", "headers: [x-a]", ["headers"]),
    ("keep_headers: [x-a]", "", ["keep_headers"]),
    ("", "keep_headers: [x-a]", []),
    ("keep_claims: [sub]", "", ["keep_claims"]),
    ("environment: [REGION]", "", ["environment"]),
    ("", "secret_environment: [PEPPER]", ["secret_environment"]),
    ("names: {a: [b]}\nsecrets: [a]", "names: {a: [b]}", ["secrets"]),
    ("placeholders: {a: 'redacted-{n}'}", "placeholders: {a: 'redacted:{n}'}", []),
]  # fmt: skip


def test_which_policy_is_weaker():
    for here, there, weaker in COMPARED:
        changes = difference(policy(here), policy(there))
        assert [change.rule.key for change in changes if change.weaker] == weaker
        assert bool(changes) == (here != there)
