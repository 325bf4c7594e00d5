"""The tolerances of a project's own file, the judges that they name, and `agentreplay case lint` about both."""

import sys

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.compare.tolerance import Level, TolerancePolicy
from pytest_agentreplay.errors import PolicyError, RunnerError, SettingsError
from pytest_agentreplay.runs.live.tolerance_file import judges_of, project_tolerances, read_tolerances, with_tolerances
from pytest_agentreplay.settings import TOLERANCES, read_settings

GOOD = """# what a live run may say otherwise
$.final: text(0.5)
search $[*].score: 0.01
$.usage.output_tokens: at most 1.5x
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nagentreplay_tolerances =\n    $.final = text(0.9)\n", "utf-8")
    return tmp_path


def write(root, text):
    (root / TOLERANCES).write_text(text, "utf-8")


def test_the_file_is_over_the_ini_file_and_each_line_knows_its_place(root):
    assert with_tolerances(read_settings({}, {}, {}), root).tolerances == (), "there is no such file"
    write(root, GOOD)
    ini, *rules = project_tolerances(root)
    assert (ini.text, ini.level) == ("$.final = text(0.9)", Level.INI)
    assert [(rule.written, rule.level) for rule in rules] == [
        (f"{TOLERANCES}:2:1: $.final = text(0.5)", Level.FILE),
        (f"{TOLERANCES}:3:1: search $[*].score = 0.01", Level.FILE),
        (f"{TOLERANCES}:4:1: $.usage.output_tokens = at most 1.5x", Level.FILE),
    ]
    assert with_tolerances(read_settings({}, {}, {}), root).tolerances == tuple(rules)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$.final: exact\n", f"{TOLERANCES}:1:1: $.final = exact: a model does not write the same text twice"),
        ("a $.b: 1\n$.fin: type\n", f"{TOLERANCES}:2:1: '$.fin' is no tool and place"),
        ("$.final: [1]\n", f"{TOLERANCES}:1:1: $.final = [1]: write ignore"),
        ("$.final: type\n$.final: type\n", f"{TOLERANCES}:2:"),
        ("- $.final\n", f"{TOLERANCES}: a file of tolerances has a line for each place"),
        ("$.final: !!python/object:os.system x\n", f"{TOLERANCES}:1:"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_line_and_column(root, text, message):
    write(root, text)
    with pytest.raises(PolicyError) as caught:
        [*read_tolerances(root)]
    assert str(caught.value).startswith(message)


def test_judges_are_named_by_import_path_in_the_ini_file_alone(root, monkeypatch):
    (root / "checks_of_shop.py").write_text("def judge(recorded, now, rubric):\n    return True\n", "utf-8")
    monkeypatch.syspath_prepend(root)
    write(root, "$.final: judge(help, is it polite)\n")
    declared = {"agentreplay_judges": ["help = checks_of_shop:judge", "other = no_such_module:judge"]}
    settings = with_tolerances(read_settings({}, declared, {}), root)
    assert [*judges_of(settings, settings.near)] == ["help"], "one that no tolerance asks is not imported"
    assert "no_such_module" not in sys.modules
    line = "tolerances.yaml:1:1: .* no judge help is declared: agentreplay_judges = help = shop.checks:judge"
    with pytest.raises(SettingsError, match=line):
        judges_of(settings._replace(judges=()), settings.near)
    with pytest.raises(RunnerError, match="judge help = no_such_module:judge"):
        judges_of(settings._replace(judges=(("help", "no_such_module:judge"),)), settings.near)
    assert judges_of(settings, TolerancePolicy()) == {}


def test_lint_refuses_what_no_model_can_meet_and_reads_the_ini_file_and_the_file(root, capsys):
    write(root, GOOD)
    assert (cli.main(["case", "lint"]), capsys.readouterr().out) == (0, "no case, 4 tolerances: 0 errors\n")
    write(root, "$.turns[*].text: exact\n")
    assert cli.main(["case", "lint"]) == 2
    assert f"{TOLERANCES}:1:1: $.turns[*].text = exact: a model does not write the same" in capsys.readouterr().err
    write(root, GOOD)
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_tolerances = $.final = exact\n", "utf-8")
    assert cli.main(["case", "lint"]) == 2
    assert "pytest.ini: agentreplay_tolerances: $.final = exact" in capsys.readouterr().err
