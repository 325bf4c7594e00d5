"""`agentreplay policy check FILE`: what it adds, what it would change, and whether it is weaker than another."""

import pytest

from pytest_agentreplay import cli, codec
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.store import layout

DONE, WEAKER, USAGE = 0, 1, 2
CUSTOMER = "CUST-123456"
POLICY = """schemaVersion: "1.0"
patterns:
  - category: customer
    regex: CUST-[0-9]{6}
names:
  birthday: [dob]
"""


def http(question, answer):
    call = HttpCall("POST", "http://h/v1", (("content-type", "application/json"), ("x-tenant", "acme")), Body(question))
    return Exchange(
        call,
        HttpReply(200, headers=(("content-type", "application/json"),), body=Body(answer), cuts=(len(answer),)),
        1,
        2,
    )


RUN = Run(
    Header("tests/test_old.py::test_a", seed=7),
    (
        http(b'{"messages": [{"content": "I am %s"}]}' % CUSTOMER.encode(), b'{"text": "hello", "dob": "1.2.1990"}'),
        Exchange(ToolCall("t", {"say": CUSTOMER}), ToolReply(f"{CUSTOMER} and CUST-654321"), 3, 4),
    ),
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with one snapshot, in whose root a person types."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    file = layout.snapshot_path(tmp_path, "tests/test_old.py", RUN.header.test)
    file.parent.mkdir(parents=True)
    file.write_text(codec.dumps(RUN), encoding="utf-8")
    (tmp_path / "p.yaml").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_it_adds_and_what_would_change_without_a_value(root, capsys):
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    assert cli.main(["policy", "check", "p.yaml"]) == DONE
    said = capsys.readouterr().out
    assert "patterns: customer CUST-[0-9]{6}" in said
    assert "names: birthday dob" in said
    (line,) = [line for line in said.splitlines() if ": customer " in line and "exchange" in line]
    assert "customer 4: " in line
    assert "exchange 1, request: body.messages[0].content" in line
    assert "exchange 2, request: arguments.say" in line
    assert "exchange 2, reply: value" in line
    assert "birthday 1: exchange 1, reply: body.dob" in said
    assert "1 of 1 snapshot would change" in said
    assert CUSTOMER not in said
    assert "1990" not in said
    assert before == {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}, "nothing is written"


def test_a_header_that_is_left_out(root, capsys):
    (root / "p.yaml").write_text('schemaVersion: "1.0"\nheaders: [X-Tenant]\n', encoding="utf-8")
    assert cli.main(["policy", "check", "p.yaml"]) == DONE
    assert "header 1: exchange 1, request: headers" in capsys.readouterr().out


def test_only_the_paths_that_are_named(root, capsys):
    (root / "elsewhere").mkdir()
    assert cli.main(["policy", "check", "p.yaml", "elsewhere"]) == DONE
    assert "there are no snapshots yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("baseline", "code", "words"),
    [
        (POLICY, DONE, ["the same"]),
        ('schemaVersion: "1.0"\n', DONE, ["+ patterns: customer", "+ names: birthday dob"]),
        (POLICY + "pii: true\n", WEAKER, ["- pii", "weaker"]),
        (POLICY.replace("{6}", "{5,6}"), WEAKER, ["- patterns: customer CUST-[0-9]{5,6}   weaker", "+ patterns"]),
        (
            POLICY.replace("category: customer", "category: client"),
            DONE,
            ["- patterns: client", "+ patterns: customer"],
        ),
    ],
)
def test_a_weaker_policy_fails(root, capsys, baseline, code, words):
    (root / "base.yaml").write_text(baseline, encoding="utf-8")
    assert cli.main(["policy", "check", "p.yaml", "--baseline", "base.yaml"]) == code
    said = capsys.readouterr()
    for word in words:
        assert word in said.out
    assert ("is weaker than base.yaml" in said.err) == (code == WEAKER)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pii: true", ["p.yaml:1:1", "schemaVersion"]),
        ('schemaVersion: "1.0"\npatterns: [{category: a, regex: "(b)\\\\1"}]', ["p.yaml:2:", "'a'", "back reference"]),
        ('schemaVersion: "1.0"\nallow: [".*"]', ["p.yaml:2:1", "no key of a policy"]),
        ("a: &a [*a]", ["p.yaml:1:4"]),
    ],
)
def test_what_is_no_policy_is_one_line_and_usage(root, capsys, text, words):
    (root / "p.yaml").write_text(text, encoding="utf-8")
    assert cli.main(["policy", "check", "p.yaml"]) == USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    for word in words:
        assert word in said.err


def test_a_link_a_folder_and_nothing_are_no_policy(root, capsys):
    (root / "folder.yaml").mkdir()
    (root / "link.yaml").symlink_to(root / "p.yaml")
    for name in ("folder.yaml", "link.yaml", "nothing.yaml"):
        assert cli.main(["policy", "check", name]) == USAGE
        assert name in capsys.readouterr().err


def test_a_damaged_snapshot_is_told_and_the_rest_looked_at(root, capsys):
    (root / "tests" / "broken.snapshot.json").write_text("{", encoding="utf-8")
    assert cli.main(["policy", "check", "p.yaml"]) == DONE
    said = capsys.readouterr().out
    assert "broken.snapshot.json" in said
    assert "1 of 2 snapshots would change" in said
