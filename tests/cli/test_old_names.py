"""The former names of verbs: each does for this release what the new words do, and names them in one line."""

import io
import json
import sys

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.cli.old_names import OLD_NAMES, rewrite_old_name
from pytest_agentreplay.cli.verb_table import MODULES
from pytest_agentreplay.core.model import Exchange, Header, Run, ToolCall, ToolReply
from tests.support.kept_files import contents, put_back

ONE, TWO = (f"tests/__agent_snapshots__/test_a/test_{name}.snapshot.json" for name in ("one", "two"))
POLICY = 'schemaVersion: "1.0"\npii: true\n'
EDIT = ('"value": "late"', '"value": "lost"')
SAME_COMMANDS = {  # by old name: what was typed, what is typed now, and how both end
    "bisect": (f"bisect {ONE} {TWO} --json", f"diff {ONE} {TWO} --json --first", 1),
    "step": (f"step {ONE}", f"show {ONE} --step", 0),
    "kit": (f"kit {ONE} --json", f"show {ONE} --kit --json", 0),
    "orders": (f"orders {ONE} --limit 3 --seed=1", f"fuzz {ONE} --orders --budget 3 --seed=1", 5),
    "freeze": ("freeze tests/test_a.py::test_one --out cases/x", "scaffold tests/test_a.py::test_one --out cases/x", 0),
    "cold": ("cold --by tool --json", "stats --cold --by tool --json", 5),
    "bundle": ("bundle cases/kept -o out.zip", "export cases/kept --to bundle -o out.zip", 0),
    "bundle --open": ("bundle --open=kept.zip --out cases/x", "scaffold kept.zip --out cases/x", 0),
    "lock": ("lock tests", "verify tests --lock", 0),
    "lock --check": ("lock --check tests", "verify tests --locked", 4),
    "reseal": (f"reseal {TWO} --reason why", f"accept {TWO} --edited --reason why", 0),
    "recover": ("recover", "accept --recover", 5),
    "rules": ("rules --json", "audit --rules --json", 0),
    "policy check": ("policy check p.yaml --baseline p.yaml", "lint p.yaml --baseline p.yaml", 0),
}


def frozen(test, value):
    exchange = Exchange(ToolCall("look_up", {"order": "A-17"}, "tool"), ToolReply(value), start=1, finish=2)
    outcome = {"status": "failed", "type": "AssertionError", "message": "assert 'late' in 'ok'"}
    return codec.dumps(Run(Header(test, recorded="2026-11-20T10:00:00+00:00", outcome=outcome), (exchange,)))


@pytest.fixture
def files(root, typed):
    """Two snapshots of one test file, the second one edited, a cold case, its bundle and a policy."""
    (root / ONE).parent.mkdir(parents=True)
    (root / "tests" / "test_a.py").write_text("def test_one(): pass\n", encoding="utf-8")
    for name, value in ((ONE, "ok"), (TWO, "late")):
        test = f"tests/test_a.py::test_{'one' if name == ONE else 'two'}"
        (root / name).write_text(frozen(test, value), encoding="utf-8", newline="")
    (root / "p.yaml").write_text(POLICY, encoding="utf-8")
    assert typed("scaffold", ONE, "--out", "cases/kept").code == 0
    assert typed("export", "cases/kept", "--to", "bundle", "-o", "kept.zip").code == 0
    return contents(root)


@pytest.mark.parametrize("old", SAME_COMMANDS)
def test_an_old_name_does_what_the_new_words_do_and_prints_one_line_more(root, files, typed, monkeypatch, old):
    if old == "reseal":
        (root / TWO).write_bytes(files[TWO].replace(*(word.encode() for word in EDIT)))
        files = contents(root)
    typed_then, typed_now, code = SAME_COMMANDS[old]
    ends = []
    for words in (typed_now, typed_then):
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\nq\n"))
        put_back(root, files)
        ends.append((typed(*words.split()), contents(root)))
    (now, files_now), (then, files_then) = ends
    assert (now.code, "is now" in now.err) == (code, False)
    new = next(new for name, new, _ in OLD_NAMES if name == old)
    line = f"agentreplay: {old!r} is now {new!r}; the old name is removed in 0.2\n"
    assert (then.code, then.out, then.err, files_then) == (now.code, now.out, line + now.err, files_now)
    if "--json" in typed_then:
        json.loads(then.out)


def test_every_old_name_is_tried_and_none_is_a_verb(typed):
    assert {name for name, _, _ in OLD_NAMES} == {*SAME_COMMANDS}
    assert not {name.partition(" ")[0] for name, _, _ in OLD_NAMES} & {*MODULES}


def test_what_is_handed_to_pytest_keeps_its_words(typed):
    words = ["orders", "x.json", "--limit=2", "--", "--limit", "3"]
    assert rewrite_old_name(words) == ["fuzz", "--orders", "x.json", "--budget=2", "--", "--limit", "3"]
