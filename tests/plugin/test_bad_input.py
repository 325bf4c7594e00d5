"""What is damaged, misplaced or cannot be written: one clear message, nothing lost, nothing recorded over."""

import re
import shutil
import sys

import pytest

SNAPSHOT = "__agent_snapshots__/test_shop/test_refund.snapshot.json"
RECORDED = {}

READ_ONLY = """
import errno, os, sys

ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def refuse(event, arguments):
    # An audit hook, since permissions do not hold root back.
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        path, writes = arguments[0], (arguments[2] or 0) & WRITING
    elif event in {"os.mkdir", "os.rename", "os.remove", "os.chmod", "os.truncate", "os.link", "os.symlink"}:
        path, writes = arguments[0], True
    else:
        return
    if writes and os.path.abspath(os.fsdecode(path)).startswith(ROOT):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fsdecode(path))

sys.addaudithook(refuse)
"""

FULL_DISK = """
import errno, os
import pytest

class Full:
    "The module os of the store, whose disk is full from the n-th write on."

    def __init__(self, left):
        self.left = left

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, handle, data):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(handle, data)

def pytest_sessionstart():
    from pytest_agentreplay.store import files
    files.os = Full(int(os.environ["WRITES_LEFT"]))
"""


@pytest.fixture
def recorded(project):
    """The project with its snapshot, which is recorded once for this module."""
    home = project.root / SNAPSHOT
    if "text" not in RECORDED:
        assert project.record().returncode == 0
        RECORDED["text"] = home.read_bytes()
        shutil.rmtree(project.root / ".pytest_agentreplay")
        (project.root / "ledger.txt").unlink()
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_bytes(RECORDED["text"])
    project.home = home
    project.asked = project.server.hits
    return project


def told(done, code=1):
    """What a run says, having ended with `code`, without a traceback, and said once."""
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    for word in ("Traceback", "INTERNALERROR", "During handling", "another exception"):
        assert word not in text, text
    return text


def flat(text):
    """A text as one line, however it was wrapped."""
    return " ".join(text.split())


def nothing_went_live(project):
    return project.server.hits == project.asked and project.ledger == []


def journals(project):
    return sorted((project.root / ".pytest_agentreplay" / "journal").rglob("*.jsonl"))


DAMAGED = {
    "truncated": (lambda good: good[: len(good) // 2], "not JSON any more"),
    "empty": (lambda good: b"", "empty"),
    "blank": (lambda good: b"\n\n", "empty"),
    "newer": (lambda good: good.replace(b'"1.0"', b'"2.0"', 1), "format 2.0"),
    "conflict": (
        lambda good: good.replace(b'"header"', b'<<<<<<< HEAD\n"header"\n=======\n"x"\n>>>>>>> theirs\n', 1),
        "merge conflict",
    ),
    "pointer": (
        lambda good: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n",
        "git lfs pull",
    ),
    "marked": (lambda good: b"\xef\xbb\xbf" + good, "byte order mark"),
    "binary": (lambda good: b"\x00\xff" + good, "UTF-8"),
    "another document": (lambda good: b'{"name": "package"}', "schemaVersion"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_cannot_be_read_is_refused_and_never_recorded_over(recorded, what):
    damage, named = DAMAGED[what]
    damaged = damage(recorded.home.read_bytes())
    recorded.home.write_bytes(damaged)
    for done in (recorded.run(), recorded.replay(), recorded.record()):
        text = told(done)
        assert "[AR-UNREADABLE]" in text
        assert SNAPSHOT in text
        assert named.lower() in flat(text).lower()
        assert f"agentreplay verify {SNAPSHOT}" in text
        assert f"git restore {SNAPSHOT}" in text
        assert str(recorded.root / "__agent") not in text, "a path from where one stands"
    assert recorded.home.read_bytes() == damaged
    assert nothing_went_live(recorded)
    assert journals(recorded) == []


def test_a_flipped_bit_anywhere_in_the_content_is_refused(project):
    project.write(
        test_many=(
            "import agent, pytest\n"
            "@pytest.mark.parametrize('n', range(16))\n"
            "def test_many(agentreplay, n):\n"
            "    agent.ask([{'role': 'user', 'content': f'question {n}'}])\n"
            "    assert agent.lookup_order('A-17')['status'] == 'late'\n"
        )
    )
    assert project.record("test_many.py").returncode == 0
    asked = project.server.hits
    assert len(project.files) == 16
    for n, file in enumerate(project.files):
        data = bytearray(file.read_bytes())
        sealed = data.index(b'"integrity"')
        at = sealed * n // 16 + 3
        data[at] ^= 1 << n % 7
        file.write_bytes(data)
    text = told(project.replay("test_many.py"))
    assert "16 failed" in text
    assert text.count("[AR-UNREADABLE]") >= 32, "in each report and in each line of the summary"
    for file in project.files:
        assert str(file.relative_to(project.root)) in text
    assert project.server.hits == asked


def test_the_snapshot_of_another_test_is_refused(recorded):
    recorded.write(
        test_shop=(recorded.root / "test_shop.py").read_text(encoding="utf-8").replace("test_refund", "test_other")
    )
    other = recorded.home.with_name("test_other.snapshot.json")
    shutil.copy(recorded.home, other)
    for done in (recorded.run(), recorded.record()):
        text = told(done)
        assert "[AR-UNREADABLE]" in text
        assert "belongs to test_shop.py::test_refund, not to test_shop.py::test_other" in flat(text)
        assert "test_other.snapshot.json" in text
    assert other.read_bytes() == recorded.home.read_bytes() == RECORDED["text"]
    assert nothing_went_live(recorded)


@pytest.mark.skipif(sys.platform == "win32", reason="making a link takes a privilege there")
def test_a_snapshot_that_is_no_plain_file_is_refused(recorded):
    real = recorded.home.rename(recorded.root / "elsewhere.json")
    recorded.home.symlink_to(real)
    for done in (recorded.run(), recorded.record()):
        text = told(done)
        assert "not a plain file" in text
        assert SNAPSHOT in text
    assert recorded.home.is_symlink()
    assert real.read_bytes() == RECORDED["text"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--replay=modle"], ["--replay", "modle", "model"]),
        (["--replay=record"], ["--snapshot-record"]),
        (["--replay=live"], ["live is not there yet"]),
        (["--agentreplay-mode=frozen"], ["--agentreplay-mode", "record, model, off"]),
        (["--replay-tools=live"], ["live is not there yet"]),
        (["--snapshot-record", "--replay=model"], ["--replay=model and --snapshot-record"]),
        (["--replay=off", "--agentreplay-mode=model"], ["--replay=off and --agentreplay-mode=model"]),
        (["--snapshot-record", "--agentreplay-adopt=why"], ["--agentreplay-adopt"]),
        (["--replay=off", "--agentreplay-adopt=why"], ["--agentreplay-adopt"]),
    ],
)
def test_flags_that_cannot_be_meant_stop_pytest_with_exit_code_4(recorded, words, wanted):
    text = told(recorded.run(*words), 4)
    for word in wanted:
        assert word in text
    assert nothing_went_live(recorded)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("agentreplay_tool = x.y", ["agentreplay_tool ", "did you mean agentreplay_tools?"]),
        ("agentreplay_zzz = 1", ["agentreplay_zzz is not a setting"]),
        ("agentreplay_mode = record", ["--snapshot-record"]),
        ("agentreplay_mode = modell", ["agentreplay_mode", "modell", "did you mean model?"]),
        ("agentreplay_clock = virtuall", ["agentreplay_clock", "did you mean virtual?"]),
        ("agentreplay_clock = virtual\nagentreplay_waits = true", ["agentreplay_waits", "virtual clock"]),
        ("agentreplay_order = recoded", ["agentreplay_order", "did you mean recorded?"]),
        ("agentreplay_seed = seven", ["agentreplay_seed", "whole number"]),
        ("agentreplay_dir = ../x", ["agentreplay_dir", "__agent_snapshots__"]),
        ("agentreplay_dir = __snapshots__", ["agentreplay_dir", "syrupy"]),
        ("agentreplay_ignore = $.user", ["agentreplay_ignore", "say why"]),
        ("agentreplay_max_bytes = much", ["agentreplay_max_bytes", "whole number"]),
    ],
)
def test_ini_keys_that_cannot_be_meant_stop_pytest_and_name_file_and_key(recorded, line, wanted):
    with (recorded.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"{line}\n")
    text = told(recorded.run(), 4)
    assert "pytest.ini" in text
    for word in wanted:
        assert word in text
    assert nothing_went_live(recorded)


@pytest.mark.parametrize(
    ("keywords", "wanted"),
    [
        ("expext='reproduces'", ["expext", "did you mean expect?"]),
        ("expect='passes'", ["expect", "reproduces"]),
        ("mode='record'", ["mode", "--snapshot-record"]),
        ("'model'", ["keywords only"]),
        ("tools='agent.refund'", ["tools", "list of strings"]),
        ("tools=['agent.refnud']", ["agent.refnud"]),
        ("ignore=['$..[']", ["$..["]),
    ],
)
def test_marker_keywords_that_cannot_be_meant_fail_the_test(recorded, keywords, wanted):
    recorded.edit(
        "test_shop.py", "def test_refund", f"import pytest\n@pytest.mark.agentreplay({keywords})\ndef test_refund"
    )
    text = told(recorded.run())
    for word in wanted:
        assert word in text
    assert nothing_went_live(recorded)


def test_unknown_words_of_the_environment_stop_pytest(recorded):
    text = told(recorded.run(AGENTREPLAY="modl"), 4)
    assert "AGENTREPLAY" in text
    assert "did you mean model?" in text


def test_a_read_only_tree_replays_and_says_why_it_cannot_record(recorded):
    recorded.write(conftest=READ_ONLY)
    told(recorded.run(), 0)
    told(recorded.replay(), 0)
    text = told(recorded.record())
    assert "read-only file system" in text
    assert "replay works here, recording needs a writable checkout" in text
    assert ".pytest_agentreplay" in text
    assert nothing_went_live(recorded), "said before the model was asked"
    assert recorded.home.read_bytes() == RECORDED["text"]


def test_a_full_disk_leaves_the_old_snapshot_and_a_journal_that_can_be_read(recorded):
    recorded.write(conftest=FULL_DISK)
    (recorded.root / ".pytest_agentreplay").mkdir()
    (recorded.root / ".pytest_agentreplay" / ".gitignore").write_text("*\n", encoding="utf-8")
    calls = 5
    for left in range(calls + 2):  # the journal's header, each call, the snapshot
        done = recorded.record("--agentreplay-no-prove", WRITES_LEFT=str(left))
        text = told(done)
        assert "no space left on device" in text
        assert "Free some space and record again" in text
        assert recorded.home.read_bytes() == RECORDED["text"]
        assert not list(recorded.root.rglob(".ar-*")), "no temporary file is left"
        if left == 0:
            assert journals(recorded) == []
            assert nothing_went_live(recorded)
            continue
        assert SNAPSHOT in text
        (journal,) = journals(recorded) if left > 1 else [*journals(recorded), None][:1]
        if journal is not None:
            assert f"agentreplay recover {journal.relative_to(recorded.root)}" in text
            listed = recorded.command("recover")
            assert listed.returncode == 0
            assert f"{left - 1} call" in listed.stdout
            journal.unlink()
    told(recorded.record(WRITES_LEFT="100"), 0)


def test_a_recording_that_nobody_could_read_again_is_not_written(recorded):
    for more in ("'x' * 30_000", "','.join(map(str, range(3_500)))"):
        recorded.edit("test_shop.py", '"Where is A-17?"', f'"Where is A-17?" + {more}')
        text = told(recorded.record("-o", "agentreplay_largest=20000"))
        assert f"{SNAPSHOT}: " in text
        assert "bytes are more than the 20,000 that are read again" in flat(text)
        assert recorded.home.read_bytes() == RECORDED["text"]
        recorded.edit("test_shop.py", f'"Where is A-17?" + {more}', '"Where is A-17?"')


def test_line_ends_of_windows_are_no_edit(recorded):
    recorded.home.write_bytes(RECORDED["text"].replace(b"\n", b"\r\n"))
    text = told(recorded.run(), 0)
    assert "edited" not in text
    assert recorded.command("verify", recorded.home).returncode == 0


def test_a_killed_recording_leaves_the_old_snapshot_and_can_be_recovered(recorded):
    recorded.edit("agent.py", 'note(f"refund {order_id} {amount}")', "os._exit(9)")
    assert recorded.record().returncode == 9
    assert recorded.home.read_bytes() == RECORDED["text"]
    (journal,) = journals(recorded)
    listed = recorded.command("recover")
    assert listed.returncode == 0
    assert "test_shop.py::test_refund, 3 calls" in listed.stdout
    command = re.search(r"agentreplay (recover \S+)", listed.stdout)[1]
    made = recorded.command(*command.split())
    assert made.returncode == 0, made.stderr
    assert recorded.home.read_bytes() == RECORDED["text"], "never promoted by itself"
    assert not journal.exists(), "what it held is pending now"
    assert recorded.command("recover").returncode == 5
    command = re.search(r"agentreplay (accept \S+)", made.stdout)[1]
    taken = recorded.command(*command.split())
    assert taken.returncode == 0, taken.stderr
    assert SNAPSHOT in taken.stdout
    (snapshot,) = recorded.snapshots
    header = snapshot.run.header
    assert [x.call.boundary for x in snapshot.run.exchanges] == ["http", "tool", "http"]
    assert header.outcome == {"status": "interrupted"}
    assert header.recorded
    assert header.clock
    assert header.seed
    recorded.edit("agent.py", "os._exit(9)", "pass")
    asked, ledger = recorded.server.hits, recorded.ledger
    text = told(recorded.replay())
    assert "[AR-EXTRA]" in text
    assert (recorded.server.hits, recorded.ledger) == (asked, ledger)


@pytest.mark.parametrize("where", ["tool", "fixture", "model"])
def test_an_interrupt_promotes_nothing_and_keeps_what_was_seen(recorded, where):
    stop = "import signal; signal.raise_signal(signal.SIGINT)"
    if where == "tool":
        recorded.edit("agent.py", 'note(f"refund {order_id} {amount}")', stop)
    elif where == "model":
        recorded.edit(
            "agent.py",
            "    return reply.json()",
            f"    if len(messages) == 4:\n        {stop}\n    return reply.json()",
        )
    else:
        recorded.write(
            conftest=(
                "import pytest, agent\n"
                "@pytest.fixture\n"
                "def broken(agentreplay):\n"
                "    agent.lookup_order('A-1')\n"
                f"    {stop}\n"
            )
        )
        recorded.edit("test_shop.py", "(agentreplay)", "(agentreplay, broken)")
    done = recorded.record()
    text = told(done, 2)
    assert "KeyboardInterrupt" in text
    assert recorded.home.read_bytes() == RECORDED["text"]
    assert not (recorded.root / ".pytest_agentreplay" / "pending").exists()
    (journal,) = journals(recorded)
    assert f"agentreplay recover {journal.relative_to(recorded.root)}" in text
    assert "recorded  nothing of test_shop.py::test_refund: it was cut short" in text
    assert recorded.command("recover").returncode == 0


def test_an_interrupted_replay_changes_nothing(recorded):
    recorded.edit(
        "agent.py",
        "    return reply.json()",
        "    import signal; signal.raise_signal(signal.SIGINT)\n    return reply.json()",
    )
    told(recorded.run(), 2)
    assert recorded.home.read_bytes() == RECORDED["text"]
    assert not (recorded.root / ".pytest_agentreplay").exists()
    assert nothing_went_live(recorded)


def edit_reply(project):
    text = project.home.read_text(encoding="utf-8")
    assert "Here is your refund" in text
    project.home.write_text(text.replace("Here is your refund", "Here, a refund"), encoding="utf-8")


def test_an_edit_that_is_not_sealed_is_told_and_on_ci_refused(recorded):
    edit_reply(recorded)
    text = told(recorded.run(), 0)
    assert "1 passed" in text
    assert f"edited    {SNAPSHOT}: exchange 5" in text
    command = re.search(rf"agentreplay reseal {re.escape(SNAPSHOT)} --reason \S+", text)[0]
    assert "exchange 5" in told(recorded.run("-q"), 0)
    for strict in (recorded.run(CI="1"), recorded.replay(), recorded.run(AGENTREPLAY="model")):
        text = told(strict)
        assert "[AR-UNREADABLE]" in text
        assert "exchange 5 was edited after it was sealed" in flat(text)
        assert f"agentreplay reseal {SNAPSHOT} --reason WHY" in text
        assert SNAPSHOT in text
    assert recorded.command(*command.split()[1:]).returncode == 0
    for strict in (recorded.run(CI="1"), recorded.replay()):
        assert "edited" not in told(strict, 0)
    (snapshot,) = recorded.snapshots
    assert [revision["reason"] for revision in snapshot.revisions] == ["WHY"]
    assert nothing_went_live(recorded)


def test_an_edit_of_the_header_is_told_too(recorded):
    text = recorded.home.read_text(encoding="utf-8")
    recorded.home.write_text(text.replace('"status": "passed"', '"status": "failed"'), encoding="utf-8")
    assert f"edited    {SNAPSHOT}: header" in told(recorded.run(), 0)


ODD = """
class Order:
    def __init__(self, number, lines):
        self.number, self.lines = number, lines

class Box:
    __slots__ = ("held",)
    def __init__(self, held):
        self.held = held

def find(number):
    return Order(number, ["ring"])

def find_all():
    return [Order(1, []), Order(2, [])]
"""


def test_a_value_that_cannot_be_frozen_fails_with_the_line_that_mends_it(project):
    project.write(
        odd=ODD,
        test_odd=(
            "import odd\n"
            "def test_odd(agentreplay):\n"
            "    # here\n"
            "    agentreplay.tool(odd.find)\n"
            "    order = odd.find(7)\n"
            "    assert (type(order), order.number, order.lines) == (odd.Order, 7, ['ring'])\n"
        ),
    )
    done = project.record("test_odd.py", COLUMNS="200")
    text = told(done)
    assert "[AR-FREEZE]" in text
    assert "find" in text
    assert "odd.Order" in text
    assert project.files == []
    assert journals(project) == []
    line = next(line.strip() for line in text.splitlines() if line.strip().startswith("agentreplay.codec("))
    project.edit("test_odd.py", "# here", line)
    assert "replays" in told(project.record("test_odd.py"), 0)
    told(project.replay("test_odd.py"), 0)


def test_a_class_that_no_annotation_names_is_mended_by_returns(project):
    project.write(
        odd=(
            "from dataclasses import dataclass\n"
            "@dataclass\n"
            "class Order:\n"
            "    number: int\n"
            "def find(number):\n"
            "    return [Order(number)]\n"
        ),
        test_odd=(
            "import odd\n"
            "def test_odd(agentreplay):\n"
            "    agentreplay.tool(odd.find)\n"
            "    assert odd.find(7) == [odd.Order(7)]\n"
        ),
    )
    text = told(project.record("test_odd.py", COLUMNS="200"))
    assert "[AR-FREEZE]" in text
    line = re.search(r"returns=\S+?\)", text)[0]
    project.edit("test_odd.py", "odd.find)", f"odd.find, {line}")
    assert "replays" in told(project.record("test_odd.py"), 0)


def test_a_test_that_fails_by_itself_is_told_what_could_not_be_frozen_too(project):
    project.write(
        odd=ODD,
        test_odd=(
            "import odd\ndef test_odd(agentreplay):\n    agentreplay.tool(odd.find)\n    assert odd.find(7) is None\n"
        ),
    )
    text = told(project.record("test_odd.py", COLUMNS="200"))
    assert "AssertionError" in text
    assert "agentreplay.codec(odd.Order" in text
    assert project.files == []
