"""`agentreplay case lint POLICY`: what it adds, what it would change, and whether it is weaker than another."""

import pytest

from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import layout
from tests.support.kept_files import contents

DONE, WEAKER, USAGE = 0, 1, 2
CUSTOMER = "CUST-123456"
HEAD = 'schemaVersion: "1.0"\n'
POLICY = f"{HEAD}patterns:\n  - category: customer\n    regex: CUST-[0-9]{{6}}\nnames:\n  birthday: [dob]\n"
JSON = ("content-type", "application/json")


def http(question, answer):
    call = HttpCall("POST", "http://h/v1", (JSON, ("x-tenant", "acme")), Body(question))
    return Exchange(call, HttpReply(200, headers=(JSON,), body=Body(answer), cuts=(len(answer),)), 1, 2)


RUN = Run(
    Header("tests/test_old.py::test_a", seed=7),
    (
        http(b'{"messages": [{"content": "I am %s"}]}' % CUSTOMER.encode(), b'{"text": "hello", "dob": "1.2.1990"}'),
        Exchange(ToolCall("t", {"say": CUSTOMER}), ToolReply(f"{CUSTOMER} and CUST-654321"), 3, 4),
    ),
)


@pytest.fixture
def root(root):
    """A project with one snapshot."""
    file = layout.snapshot_path(root, "tests/test_old.py", RUN.header.test)
    file.parent.mkdir(parents=True)
    file.write_text(codec.dumps(RUN), encoding="utf-8")
    (root / "p.yaml").write_text(POLICY, encoding="utf-8")
    return root


def test_what_it_adds_and_what_would_change_without_a_value(root, typed):
    before = contents(root)
    told = typed("case", "lint", "p.yaml")
    assert (told.code, contents(root) == before) == (DONE, True)
    assert "patterns: customer CUST-[0-9]{6}" in told.out
    assert "names: birthday dob" in told.out
    (line,) = [line for line in told.out.splitlines() if ": customer " in line and "exchange" in line]
    places = ("1, request: body.messages[0].content", "2, request: arguments.say", "2, reply: value")
    assert not [said for said in ("customer 4: ", *(f"exchange {place}" for place in places)) if said not in line]
    assert "birthday 1: exchange 1, reply: body.dob" in told.out
    assert "1 of 1 snapshot would change" in told.out
    assert (CUSTOMER in told.out, "1990" in told.out) == (False, False)
    (root / "tests" / "broken.snapshot.json").write_text("{", encoding="utf-8")
    told = typed("case", "lint", "p.yaml")
    assert (told.code, "broken.snapshot.json" in told.out) == (DONE, True)
    assert "1 of 2 snapshots would change" in told.out
    (root / "p.yaml").write_text(f"{HEAD}headers: [X-Tenant]\n", encoding="utf-8")
    assert "header 1: exchange 1, request: headers" in typed("case", "lint", "p.yaml").out
    (root / "elsewhere").mkdir()
    assert "there are no snapshots yet" in typed("case", "lint", "p.yaml", "elsewhere").out


def test_a_weaker_policy_fails(root, typed):
    for baseline, code, words in (
        (POLICY, DONE, ["the same"]),
        (HEAD, DONE, ["+ patterns: customer", "+ names: birthday dob"]),
        (POLICY + "pii: true\n", WEAKER, ["- pii", "weaker"]),
        (POLICY.replace("{6}", "{5,6}"), WEAKER, ["- patterns: customer CUST-[0-9]{5,6}   weaker", "+ patterns"]),
        (POLICY.replace("y: customer", "y: client"), DONE, ["- patterns: client", "+ patterns: customer"]),
    ):
        (root / "base.yaml").write_text(baseline, encoding="utf-8")
        told = typed("case", "lint", "p.yaml", "--baseline", "base.yaml")
        assert (told.code, "is weaker than base.yaml" in told.err) == (code, code == WEAKER)
        assert not [word for word in words if word not in told.out]


def test_what_is_no_policy_is_one_line_and_usage(root, typed):
    (root / "bad.yaml").write_text('schemaVersion: "1.0"\nallow: [".*"]', encoding="utf-8")
    (root / "link.yaml").symlink_to(root / "p.yaml")
    for name in ("bad.yaml:2:1", "link.yaml", "nothing.yaml"):
        told = typed("case", "lint", name.partition(":")[0])
        assert (told.code, told.out, len(told.err.splitlines())) == (USAGE, "", 1)
        assert name in told.err
