"""Former names of ini keys and marker keywords: each works, and the report says what to write instead."""

from __future__ import annotations

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.fixture_handle import AgentReplay
from pytest_agentreplay.settings import MARKER, Settings, resolve
from pytest_agentreplay.settings.former_names import INI_TYPES, KEYWORDS
from tests.support.small_projects import furnished, passed

KEYS = [
    (
        "read_tools",
        ["lookup_order", "a.b"],
        "add to agentreplay_tools: lookup_order = read",
        "add to agentreplay_tools: a*b = read",
    ),
    ("models", ["shop.llm.ask = qwen@1"], "add to agentreplay_tools: shop.llm.ask = model qwen@1"),
    ("retrievals", ["shop.find = bge"], "add to agentreplay_tools: shop.find = retrieval bge"),
    ("allow_hosts", ["db:5432"], "add to agentreplay_allow: host:db:5432"),
    ("allow_subprocess", ["git"], "add to agentreplay_allow: program:git"),
    ("env", ["SHOP_REGION"], "add to agentreplay_keep: env:SHOP_REGION"),
    ("fixtures", ["data/*.json"], "add to agentreplay_keep: file:data/*.json"),
    (
        "headers",
        ["x-a", "x-b = match"],
        "add to agentreplay_keep: header:x-a",
        "add to agentreplay_keep: header:x-b = match",
    ),
    ("ci_record", True, "add to agentreplay_ci: record"),
    ("ci_live", True, "add to agentreplay_ci: live"),
    ("waits", True, "agentreplay_clock = paced"),
    ("budget", "calls=5 usd=2", "agentreplay_live = calls=5 usd=2"),
    ("stale_days", "30", "add to agentreplay_stale: days = 30"),
    ("retired_models", ["m = 2026-01-31"], "add to agentreplay_stale: m = 2026-01-31"),
    ("largest", "5000", "agentreplay_max_bytes = 1000000 5000"),
    ("sandbox", "auto", "add to addopts: --agentreplay-sandbox=auto"),
]
KEYWORD_VALUES = [
    ("read_tools", ["lookup"], {"tools": {"lookup": "read"}}, 'tools=["lookup = read"]'),
    ("models", {"shop.ask": "qwen"}, {"tools": {"shop.ask": "model qwen"}}, 'tools=["shop.ask = model qwen"]'),
    ("retrievals", ["shop.find"], {"tools": ["shop.find = retrieval"]}, 'tools=["shop.find = retrieval"]'),
    ("allow_hosts", ["db"], {"allow": ["host:db"]}, 'allow=["host:db"]'),
    ("allow_subprocess", ["git"], {"allow": ["program:git"]}, 'allow=["program:git"]'),
    ("fixtures", ["a.json"], {"keep": ["file:a.json"]}, 'keep=["file:a.json"]'),
    ("waits", True, {"clock": "paced"}, 'clock="paced"'),
    ("waits", False, {"clock": "stepped"}, 'clock="stepped"'),
    ("orders", True, {"permutations": True}, "permutations=True"),
    ("places", False, None, "agentreplay_places = false"),
]


def resolved(options=(), **ini):
    ini = {f"agentreplay_{key}": value for key, value in ini.items()}
    return resolve(dict(options), ini, {}, written=ini, file="pytest.ini")


def write_instead(settings, options=()):
    """Return the settings of what the report says to write."""
    ini, options = {}, dict(options)
    for line in settings.renamed[0][1:]:
        name, between, value = line.strip().removeprefix("add to ").partition(": " if "add to" in line else " = ")
        assert between
        if name == "addopts":
            options["agentreplay_sandbox"] = value.partition("=")[2]
        elif "add to" in line:
            ini.setdefault(name.removeprefix("agentreplay_"), []).append(value)
        else:
            ini[name.removeprefix("agentreplay_")] = value
    return resolved(options, **ini)


@pytest.mark.parametrize(("name", "value", "lines"), [(name, value, lines) for name, value, *lines in KEYS])
def test_a_former_key_works_and_the_report_says_what_to_write(name, value, lines):
    live = {"agentreplay_replay": "live"} if name == "budget" else {}
    settings = resolved(live, **{name: value})
    assert settings.renamed == (
        (f"renamed   agentreplay_{name} works until 0.2; write instead:", *(f"          {line}" for line in lines)),
    )
    default = resolved(live)
    if not name.startswith("ci_"):  # these two forbid nothing here
        assert settings._replace(renamed=()) != default, "it works"
    assert settings._replace(renamed=()) == write_instead(settings, live), "and so do the lines"


@pytest.mark.parametrize(("name", "value", "now", "line"), KEYWORD_VALUES)
def test_a_former_keyword_works_and_the_report_says_what_to_write(name, value, now, line):
    base = Settings(waits=name == "waits" and not value)
    settings = base.for_test([{name: value}])
    assert settings.renamed == (
        (f"renamed   @pytest.mark.agentreplay({name}=...) works until 0.2; write instead:", f"          {line}"),
    )
    assert settings._replace(renamed=()) == (base.for_test([now]) if now else base._replace(places=False)) != base


def test_every_former_name_is_tried_here_and_none_is_a_present_one():
    assert [f"agentreplay_{name}" for name, *_ in KEYS] == [*INI_TYPES]
    assert {name for name, *_ in KEYWORD_VALUES} == {*KEYWORDS}
    assert not {*KEYWORDS} & {*MARKER}


def test_former_names_that_are_one_key_now_are_joined_with_what_it_held():
    settings = resolved(
        tools=["shop.pay"], read_tools=["lookup"], models=["shop.ask"], env=["A"], headers=["x"], ci_record=True
    )
    assert settings.tools == (("shop.pay", "write"), ("lookup", "read"), ("shop.ask", "model"))
    assert (settings.env, settings.headers) == (("A",), ("x",))
    assert settings.for_test([{"tools": {"a.b": "read"}, "read_tools": ["c"]}]).tools[3:] == (
        ("a.b", "read"),
        ("c", "read"),
    )


def test_a_former_key_that_says_the_default_is_to_be_left_out():
    assert resolved(waits=False).renamed == (
        ("renamed   agentreplay_waits works until 0.2; leave it out, since it says the default",),
    )


@pytest.mark.parametrize(
    ("key", "value"), [("stale_days", "abc"), ("retired_models", ["m = soon"]), ("largest", "1 MB")], ids=str
)
def test_a_wrong_value_of_a_former_key_is_refused_by_the_name_that_is_written(key, value):
    with pytest.raises(SettingsError, match=f"^pytest.ini: agentreplay_{key}"):
        resolved(**{key: value})


@pytest.mark.parametrize(
    ("ini", "names"),
    [
        ({"env": ["A"], "keep": ["env:B"]}, ("agentreplay_env", "agentreplay_keep")),
        ({"waits": True, "clock": "virtual"}, ("agentreplay_waits", "agentreplay_clock")),
        ({"budget": "calls=1", "live": "calls=2"}, ("agentreplay_budget", "agentreplay_live")),
        ({"largest": "9", "max_bytes": "1 2"}, ("agentreplay_largest", "agentreplay_max_bytes")),
        ({"models": ["a.b = x"], "tools": ["a.b = read"]}, ("agentreplay_models", "agentreplay_tools")),
    ],
)
def test_a_former_key_beside_the_present_one_is_refused(ini, names):
    with pytest.raises(SettingsError) as refused:
        resolved(**ini)
    assert str(refused.value).startswith(f"pytest.ini: {names[0]} and {names[1]} are both given: ")


def test_a_former_keyword_beside_the_present_one_is_refused():
    for keywords in ({"orders": 3, "permutations": 4}, {"fixtures": ["a"], "keep": ["file:b"]}):
        with pytest.raises(SettingsError, match=r"mark.agentreplay\((orders|fixtures)=...\) and \w+ are both given"):
            Settings().for_test([keywords])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n2")], ids=["alone", "xdist"])
def test_pytest_reads_former_names_without_a_complaint_and_says_once_what_to_write(project, workers):
    """Also where unknown keys and warnings are errors, and where a key is given by -o."""
    furnished(
        project,
        "filterwarnings = error\nagentreplay_env = SHOP_REGION\nagentreplay_waits = true\n",
        test_x="import pytest\n@pytest.mark.parametrize('number', range(3))\n"
        "@pytest.mark.agentreplay(orders=2)\ndef test_x(number): pass\n",
    )
    errors = ("--strict-config", "-W", "error", "-o", "agentreplay_ci_record=true")
    rows = passed(project.record("test_x.py", *errors, *workers)).stdout.splitlines()
    for name, line in (
        ("agentreplay_env", "add to agentreplay_keep: env:SHOP_REGION"),
        ("agentreplay_waits", "agentreplay_clock = paced"),
        ("agentreplay_ci_record", "add to agentreplay_ci: record"),
        ("@pytest.mark.agentreplay(orders=...)", "permutations=2"),
    ):
        at = rows.index(f"renamed   {name} works until 0.2; write instead:")
        assert rows[at + 1] == f"          {line}"
        assert sum(name in row for row in rows) == 1


def test_the_former_name_of_keep_file_warns_and_works(tmp_path):
    with pytest.warns(DeprecationWarning, match="is now agentreplay.keep_file"):
        assert AgentReplay(None, tmp_path).fixture_file("x.json") == tmp_path / "x.json"


@pytest.mark.parametrize("key", ["agentreplay_waits", "agentreplay_places"])
def test_what_is_no_truth_value_is_refused_with_its_key_and_file(project, key):
    (project.root / "pytest.ini").write_text(f"[pytest]\n{key} = maybe\n", encoding="utf-8")
    refused = project.run()
    assert refused.returncode == 4
    assert f"pytest.ini: {key}: invalid truth value 'maybe'; write true or false" in refused.stderr
