"""What is damaged, misplaced or cannot be meant or written: one clear message, nothing lost, nothing recorded over."""

import re
import sys

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings import Settings, read_settings
from tests.support.small_projects import recorded

DAMAGED = {
    "truncated": (lambda good: good[: len(good) // 2], "not JSON any more"),
    "empty": (lambda good: b"", "empty"),
    "newer": (lambda good: good.replace(b'"1.0"', b'"2.0"', 1), "format 2.0"),
    "conflict": (
        lambda good: good.replace(b'"header"', b'<<<<<<< HEAD\n"header"\n=======\n"x"\n>>>>>>> theirs\n', 1),
        "merge conflict",
    ),
    "pointer": (
        lambda good: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n",
        "git lfs pull",
    ),
    "another-document": (lambda good: b'{"name": "package"}', "schemaVersion"),
}
OTHER, LINK = "another-test", "link"

TESTS = f"""
import agent, pytest

@pytest.mark.parametrize("what", {[*DAMAGED, OTHER, LINK]})
def test_ask(agentreplay, what):
    agent.ask([{{"role": "user", "content": what}}])
    assert agent.lookup_order("A-17")["status"] == "late"
"""


def told(done, code=1):
    """What a run says, having ended with `code`, without a traceback, and said once."""
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    for word in ("Traceback", "INTERNALERROR", "During handling", "another exception"):
        assert word not in text, text
    return text


def reports_of(text, title):
    """What is said of each test, by what stands in its title."""
    text = text.partition("short test summary")[0]
    sections = re.split(rf"^_+ (?:ERROR at setup of )?{title} _+$", text, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.fixture(scope="module")
def damaged(shared_project):
    """A project whose snapshots are all damaged, each in a way of its own, and their content by name."""
    project = shared_project()
    project.furnish(TESTS)
    recorded(project)
    files = {re.search(r"test_ask-(.+?)(?:-[0-9a-f]{10})?\.snap", file.name)[1]: file for file in project.files}
    for name, (damage, _) in DAMAGED.items():
        files[name].write_bytes(damage(files[name].read_bytes()))
    files[OTHER].write_bytes(files[LINK].read_bytes())
    if sys.platform != "win32":  # making a link takes a privilege there
        files[LINK].symlink_to(files[LINK].rename(project.root / "elsewhere.json"))
    project.asked = project.server.hits, project.ledger
    return project, files


@pytest.mark.parametrize("word", ["--replay=model", "--snapshot-record"])
def test_what_cannot_be_read_is_refused_by_name_and_never_recorded_over(damaged, word):
    project, files = damaged
    before = {name: file.read_bytes() for name, file in files.items()}
    reports = reports_of(told(project.run(word)), r"test_ask\[(\S+)\]")
    assert reports.keys() == files.keys()
    wrong = []
    for name, report in reports.items():
        path = files[name].relative_to(project.root)
        wanted = ["[AR-UNREADABLE]", str(path)]
        if name in DAMAGED:
            steps = [f"agentreplay verify {path}", f"git checkout HEAD -- {path}"]
            wanted += [DAMAGED[name][1], *([f"git checkout --ours {path}"] if name == "conflict" else steps)]
        if name == OTHER:
            wanted += [f"belongs to test_shop.py::test_ask[{LINK}], not to test_shop.py::test_ask[{OTHER}]"]
        if name == LINK and sys.platform != "win32":
            wanted += ["not a plain file"]
        report = " ".join(report.split())
        wrong += [(name, word) for word in wanted if word.lower() not in report.lower()]
        assert str(project.root / "__agent") not in report, "a path from where one stands"
    assert not wrong
    assert files[LINK].is_symlink() == (sys.platform != "win32")
    assert {name: file.read_bytes() for name, file in files.items()} == before
    assert (project.server.hits, project.ledger) == project.asked
    assert [*project.root.rglob("*.jsonl")] == []


# Words that cannot be meant.


@pytest.mark.parametrize(
    ("words", "environ", "wanted"),
    [
        (["--replay=modle"], {}, ["--replay", "modle", "did you mean model?"]),
        (["--snapshot-record"], {"CI": "1"}, ["CI", "agentreplay_ci = record"]),
        (["-o", "agentreplay_clock=virtuall"], {}, ["pytest.ini", "agentreplay_clock", "did you mean virtual?"]),
    ],
)
def test_settings_that_cannot_be_meant_stop_pytest_with_exit_code_4(project, words, environ, wanted):
    text = told(project.run(*words, **environ), 4)
    assert [word for word in wanted if word not in text] == []
    assert project.server.hits == 0
    assert project.files == []


@pytest.mark.parametrize(
    ("options", "environ", "ini", "wanted"),
    [
        ({"mode": "frozen"}, {}, {}, ["--agentreplay-mode", "record, model, live, off"]),
        ({"record": True, "adopt": "why"}, {}, {}, ["--agentreplay-adopt"]),
        ({"replay": "off", "adopt": "why"}, {}, {}, ["--agentreplay-adopt"]),
        ({}, {"AGENTREPLAY": "modl"}, {}, ["AGENTREPLAY", "did you mean model?"]),
        ({}, {}, {"mode": "modell"}, ["agentreplay_mode", "modell", "did you mean model?"]),
        ({}, {}, {"clock": "vritual"}, ["agentreplay_clock", "did you mean virtual?"]),
        ({}, {}, {"order": "recoded"}, ["agentreplay_order", "did you mean recorded?"]),
    ],
)
def test_the_message_names_the_setting_and_what_it_takes(options, environ, ini, wanted):
    """Those that tests/settings/test_settings.py has not."""
    options, ini = ({f"agentreplay_{key}": value for key, value in given.items()} for given in (options, ini))
    with pytest.raises(SettingsError) as caught:
        read_settings(options, ini, environ, file="pytest.ini")
    assert [word for word in (*wanted, *(["pytest.ini: "] if ini else [])) if word not in str(caught.value)] == []


MARKERS = {
    "unknown": ("expext='reproduces'", ["expext", "did you mean expect?"]),
    "positional": ("'model'", ["keywords only"]),
    "no_such_tool": ("tools=['agent.refnud']", ["agent.refnud"]),
    "path": ("ignore=['$..[ = why']", ["$..["]),
    "permutations": ("permutations=-1", ["(permutations=...) takes how many orders to try, like 120, or True"]),
}
"""Those that need a session; the others are in tests/settings/test_settings.py."""


@pytest.mark.parametrize("orders", ["many", 1.5, None])
def test_a_number_of_orders_that_cannot_be_meant_is_refused(orders):
    with pytest.raises(SettingsError, match="takes how many orders to try"):
        Settings().for_test([{"permutations": orders}])


def test_marker_keywords_that_cannot_be_meant_fail_their_test(project):
    tests = "".join(
        f"@pytest.mark.agentreplay({keywords})\ndef test_{name}():\n    pass\n\n"
        for name, (keywords, _) in MARKERS.items()
    )
    excused = "@pytest.mark.xfail\n@pytest.mark.agentreplay(mode='never')\ndef test_excused():\n    pass\n"
    project.write(test_shop=f"import pytest\n\n{tests}{excused}")
    text = told(project.run())
    assert f"{len(MARKERS) + 1} errors" in text, text
    reports = {name: " ".join(report.split()) for name, report in reports_of(text, r"test_(\w+)").items()}
    assert [(name, word) for name, (_, words) in MARKERS.items() for word in words if word not in reports[name]] == []


# Values that cannot be frozen.

ODD = """
class Order:
    def __init__(self, number, lines):
        self.number, self.lines = number, lines

def find(number):
    return Order(number, ["ring"])
"""

ODD_TESTS = """
import odd

def test_object(agentreplay):
    # here
    agentreplay.tool(odd.find)
    order = odd.find(7)
    assert (type(order), order.number, order.lines) == (odd.Order, 7, ["ring"])

def test_fails(agentreplay):
    agentreplay.tool(odd.find)
    assert odd.find(7) is None
"""


@pytest.mark.proves(forked=True)
def test_a_value_that_cannot_be_frozen_fails_with_the_line_that_mends_it(project):
    project.write(odd=ODD, test_shop=ODD_TESTS)
    text = told(project.record(COLUMNS="200"))
    assert "2 failed" in text
    assert text.count("[AR-FREEZE]") >= 2, text
    assert "AssertionError" in text, "the test that fails by itself is told both"
    assert "odd.Order" in text.rpartition("_ test_fails _")[2].partition("short test summary")[0]
    assert project.files == []
    assert [*project.root.rglob("*.jsonl")] == []
    line = next(line.strip() for line in text.splitlines() if line.strip().startswith("agentreplay.codec("))
    project.edit("test_shop.py", "# here", line)
    words = ("--deselect", "test_shop.py::test_fails")
    assert "all replay" in told(project.record("-q", *words), 0)
    assert "1 passed" in told(project.replay(*words), 0)
