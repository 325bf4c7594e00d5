from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_agentreplay.backends.order_permutations import LIMIT
from pytest_agentreplay.backends.statistics import SequentialTest
from pytest_agentreplay.compare.tolerance import Level
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.cases.runners import Runners
from pytest_agentreplay.settings import Settings, read_settings
from pytest_agentreplay.settings.table import DEFAULTS, SETTINGS, Setting, in_toml, list_options


def made(ini=None, environ=None, written=(), typed=(), **options):
    ini = dict.fromkeys(written) | (ini or {})
    return read_settings(options, ini, environ or {}, file="pyproject.toml", typed_words=typed)


def refused(*words, **given):
    with pytest.raises(SettingsError) as caught:
        made(**given)
    for word in words:
        assert word in str(caught.value)


def test_nothing_said_is_replay():
    settings = made()
    assert vars(settings) == vars(Settings(toml=True))
    assert settings.mode == "replay"
    assert not settings.strict
    assert settings.headline() == "agentreplay: model frozen, tools frozen, clock still between calls, offline"


def test_what_is_changed_in_requests_is_for_a_live_model_alone():
    live = {"agentreplay_replay": "live"}
    settings = made(agentreplay_replay_set=["model=m-2", "temperature = 0"], **live)
    assert settings.replay_set == ("model=m-2", "temperature=0")
    refused("--replay-set=model=m-2 is for live models: add --replay=live", agentreplay_replay_set=["model=m-2"])
    refused("--replay-set", "add --replay=live", agentreplay_replay_set=["model=m-2"], agentreplay_record=True)


def test_a_flag_for_another_mode_is_refused_with_what_to_do():
    live = {"agentreplay_replay": "live"}
    refused("--agentreplay-fuzz=3 is for replays, but the mode is live", agentreplay_fuzz="3", **live)
    refused("--replay-break=2 is for replays, but the mode is live: take one", agentreplay_replay_break="2", **live)
    refused("--agentreplay-fuzz-seed=1 is for fuzzing: add --agentreplay-fuzz=N", agentreplay_fuzz_seed="1")


WINNERS = [
    ({"agentreplay_record": True}, "record", False),
    ({"agentreplay_replay": "model"}, "replay", True),
    ({"agentreplay_replay": "off"}, "off", False),
    ({"agentreplay_mode": "record"}, "record", False),
    ({"agentreplay_mode": "model", "agentreplay_replay": "model"}, "replay", True),
    ({"environ": {"AGENTREPLAY": "record"}}, "record", False),
    ({"environ": {"AGENTREPLAY": "model"}}, "replay", True),
    ({"environ": {"AGENTREPLAY": "record"}, "agentreplay_replay": "model"}, "replay", True),
    ({"environ": {"AGENTREPLAY": ""}, "ini": {"agentreplay_mode": "off"}}, "off", False),
    ({"environ": {"AGENTREPLAY": "model"}, "ini": {"agentreplay_mode": "off"}}, "replay", True),
    ({"environ": {"CI": "true"}}, "replay", True),
    ({"environ": {"CI": "false"}}, "replay", False),
    ({"environ": {"CI": "1"}, "agentreplay_record": True, "ini": {"agentreplay_ci": ["record"]}}, "record", True),
]


def test_who_wins():
    for given, mode, strict in WINNERS:
        settings = made(**given)
        assert (settings.mode, settings.strict) == (mode, strict), given
    missing = made(environ={"AGENTREPLAY": "live"}, agentreplay_record_missing=True)
    assert (missing.mode, missing.model, missing.record_missing) == ("replay", "frozen", True)


def test_a_fork_is_a_recording_from_a_turn_on():
    fork = {"agentreplay_record_from": "-1"}
    assert (made(**fork).mode, made(**fork).record_from) == ("record", -1)
    assert "reads LIVE" in made(**fork, agentreplay_replay_tools="live").headline()
    for word in ("0", "", "last", "1.5", "--1"):
        refused("--record-from takes a turn", f"not {word!r}", **fork | {"agentreplay_record_from": word})
    for flag, other in {
        "--replay=model and --record-from": {"agentreplay_replay": "model"},
        "--replay=live and --record-from": {"agentreplay_replay": "live"},
        "--snapshot-record-missing and --record-from": {"agentreplay_record_missing": True},
    }.items():
        refused(flag, "ask for different things", **fork, **other)
    assert made(**fork, agentreplay_record=True).record_from == -1
    refused("--replay-tools=checked", "the mode is record", agentreplay_replay_tools="checked", **fork)


def test_what_cannot_be_is_refused_with_its_place_and_the_nearest_word():
    mode = {"agentreplay_replay": "model"}
    refused("--snapshot-record", "--replay=model", "one of them", agentreplay_record=True, **mode)
    refused("--replay=model", "--agentreplay-mode=off", agentreplay_mode="off", **mode)
    refused("CI", "agentreplay_ci = record", agentreplay_record=True, environ={"CI": "true"})
    refused("CI", environ={"CI": "true", "AGENTREPLAY": "record"})
    for word in ("modle", "record", "all", ""):
        refused("--replay", repr(word), agentreplay_replay=word)
    refused("--replay does not take 'modle'", "did you mean model?", agentreplay_replay="modle")
    refused("--snapshot-record", agentreplay_replay="record")
    refused("AGENTREPLAY", "did you mean record?", environ={"AGENTREPLAY": "recrod"})
    refused("pyproject.toml: agentreplay_clock", "did you mean stepped?", ini={"agentreplay_clock": "steped"})
    unknown = "pyproject.toml: agentreplay_tols is not a setting: did you mean agentreplay_tools?"
    refused(unknown, written=["agentreplay_tols"])
    refused(
        "agentreplay_read_tools is not a setting: did you mean agentreplay_tools?", written=["agentreplay_read_tools"]
    )
    refused(
        "agentreplay_unused is not a setting: did you mean a line of agentreplay_checks?",
        written=["agentreplay_unused"],
    )
    refused("agentreplay_fixtures is not a setting; pytest --help lists all", written=["agentreplay_fixtures"])
    refused("each time", "--snapshot-record", ini={"agentreplay_mode": "record"})
    refused("agentreplay_mode", "only because the command line says so", ini={"agentreplay_mode": "live"})
    refused("--replay-tools=live", "the mode is off", agentreplay_replay="off", agentreplay_replay_tools="live")
    live = {"agentreplay_replay": "live"}
    refused("--agentreplay-adopt", "the mode is live", agentreplay_adopt="why", **live)
    typed = ["--agentreplay-sandbox=require"]
    refused("--agentreplay-sandbox=require", "the mode is live", agentreplay_sandbox="require", typed=typed, **live)
    refused("--snapshot-record-missing and --replay", agentreplay_record_missing=True, **live)
    for line in ("search = liv", "search", "search = live now", "search = stub", "lookup = stub {a}", " = live"):
        refused("pyproject.toml: agentreplay_off_script", ini={"agentreplay_off_script": [line]})
    assert vars(made(written=["testpaths"])) == vars(Settings(toml=True)), "other keys of the ini file are not ours"


def test_lists():
    settings = made(
        {
            "agentreplay_tools": ["shop.tools.lookup_order = read", "shop.tools.refund", "shop.mail.*"],
            "agentreplay_ignore": [
                "$.user = a random id",
                "header:X-Run = counts runs",
                "query:ts = a clock",
                "$.a # x",
            ],
            "agentreplay_seed": "42",
            "agentreplay_checks": ["large = 2_000", "largest=3kB"],
            "agentreplay_keep": ["header:X-Feature", "header:X-Tenant = match", "env:LANG", "file:data/*.json"],
            "agentreplay_allow": ["host:localhost:8000", "program:git"],
        }
    )
    named = (("shop.tools.lookup_order", "read"), ("shop.tools.refund", "write"), ("shop.mail.*", "write"))
    assert settings.tools == named
    assert [(rule.scope, rule.part, rule.path, rule.action, rule.reason) for rule in settings.rules] == [
        ("http", "body", "$.user", "drop", "a random id"),
        ("tool", "body", "$.user", "drop", "a random id"),
        ("http", "header", "x-run", "drop", "counts runs"),
        ("http", "query", "ts", "drop", "a clock"),
        ("http", "body", "$.a", "drop", "x"),
        ("tool", "body", "$.a", "drop", "x"),
    ]
    assert (settings.seed, settings.max_bytes, settings.largest) == (42, 2000, 3000)
    assert (settings.headers, settings.matched_headers) == (("X-Feature",), ("x-tenant",))
    assert (settings.env, settings.kept_files) == (("LANG",), ("data/*.json",))
    assert (settings.allow_hosts, settings.allow_subprocess) == (("localhost:8000",), ("git",))
    assert settings.headline().endswith("offline, open to localhost:8000")


def test_a_tool_is_named_as_the_model_knows_it():
    lines = ["shop._find = read as look-up", "shop._pay = as pay", "shop._ship = live as ship", "shop.db.now = live"]
    tools = made({"agentreplay_tools": lines}).tools
    assert dict(tools) == {
        "shop._find": "read as look-up",
        "shop._pay": "write as pay",
        "shop._ship": "live as ship",
        "shop.db.now": "live",
    }
    near = made({"agentreplay_tools": lines[:1]}).for_test([{"tools": {"shop._find": "write as find"}}])
    assert near.tools == (("shop._find", "write as find"),)


def test_one_key_names_tools_of_frameworks_and_models_and_retrievers():
    lines = ["shop.tools.refund", "lookup_order = read", "get_* = read", "shop.llm.ask = model my-model@2"]
    lines += ["shop.llm.old = model", "shop.store.search = retrieval bge-small-en"]
    settings = made({"agentreplay_tools": lines})
    assert settings.list_declared("read", "write") == (("shop.tools.refund", "write"),)
    assert settings.read_tools == ("lookup_order", "get_*")
    named = made({"agentreplay_tools": ["lookup_order = live"]})
    assert (named.read_tools, named.list_declared("live"), "but 1 LIVE" in named.headline()) == ((), (), True)
    assert settings.list_declared("model") == (("shop.llm.ask", "model my-model@2"), ("shop.llm.old", "model"))
    assert settings.list_declared("retrieval") == (("shop.store.search", "retrieval bge-small-en"),)
    for line in ("shop:refund", "shop:refund = read", "shop.tools:refund = live"):
        right = line.partition(" ")[0].replace(":", ".")
        refused("an import path has dots alone", f"write {right}", ini={"agentreplay_tools": [line]})
    near = settings.for_test([{"tools": {"shop.llm.ask": "read", "search": "read"}}])
    assert near.list_declared("model") == (("shop.llm.old", "model"),), "what a marker says of a function is all of it"
    assert near.list_declared("read", "write") == (("shop.tools.refund", "write"), ("shop.llm.ask", "read"))
    assert near.read_tools == (*settings.read_tools, "search")


def test_a_paced_clock_is_stepped_and_answers_take_their_time():
    settings = made({"agentreplay_clock": "paced"})
    assert (settings.clock, settings.waits) == ("stepped", True)
    assert "clock paced" in settings.headline()
    assert not settings.for_test([{"clock": "real"}]).waits
    assert made().for_test([{"clock": "paced"}]).waits


def test_one_key_says_when_a_snapshot_is_stale():
    assert made().stale_days == 180
    settings = made({"agentreplay_checks": ["old = 30d", "retired:my:model = 2026-01-31"]})
    assert (settings.stale_days, settings.retired_models) == (30, (("my:model", "2026-01-31"),))


def test_the_flag_of_checks_goes_before_the_key_word_by_word():
    settings = made(
        {"agentreplay_checks": ["unused = fail", "large = 2MB", "unproved = ignore"]},
        agentreplay_checks=["unproved=warn", "unused=ignore"],
    )
    assert (settings.unused, settings.max_bytes, settings.prove) == ("ignore", 2_000_000, True)
    refused("--agentreplay-checks does not take 'unsued': did you mean unused?", agentreplay_checks=["unsued=fail"])


def test_values_that_cannot_be_meant():
    for key, value, *words in (
        ("tools", ["refund"], "agentreplay_tools", "'refund'", "shop.tools"),
        ("tools", ["shop.refund = raed"], "shop.refund", "did you mean read?"),
        ("tools", ["shop.refund = raed as pay"], "shop.refund", "did you mean read?"),
        ("tools", ["shop.refund = read as"], "shop.refund", "the one name"),
        ("tools", ["shop.refund = as pay back"], "shop.refund", "the one name"),
        ("tools", ["shop.* = read as pay"], "shop.*", "the one name"),
        ("tools", ["shop.llm.ask = modle qwen"], "shop.llm.ask", "did you mean model?"),
        ("tools", ["refund = raed"], "refund", "did you mean read?"),
        ("allow", ["hots:db"], "agentreplay_allow: 'hots:db'", "did you mean host", "program:git"),
        ("keep", ["heder:x"], "'heder:x'", "did you mean header", "env:SHOP_REGION"),
        ("keep", ["header:x = mtach"], "header:x = mtach", "write header:x, or header:x = match"),
        ("ci", ["recrod"], "agentreplay_ci", "did you mean record?"),
        ("clock", "pased", "agentreplay_clock", "did you mean paced?"),
        ("checks", ["odl = 3d"], "agentreplay_checks does not take 'odl': did you mean old?"),
        ("checks", ["days = 3"], "'days': it is one of unused, unproved, old, large, largest, retired:MODEL"),
        ("checks", ["old = soon"], "agentreplay_checks: 'old = soon': write old = 180d"),
        ("checks", ["large = much"], "agentreplay_checks: 'large = much': write large = 1MB"),
        ("checks", ["unused = wran"], "agentreplay_checks: 'unused = wran': write unused = warn, fail or ignore"),
        (
            "checks",
            ["retired:m-1 = soon"],
            "'retired:m-1 = soon': write retired:m-1 = 2026-01-31",
        ),
        ("ignore", ["$.user"], "$.user = the reason"),
        ("seed", "x", "agentreplay_seed", "'x'"),
        ("dir", "__snapshots__", "syrupy", "__agent_snapshots__"),
        *(("dir", folder, "agentreplay_dir") for folder in ("../out", "/tmp/x", "")),
    ):
        refused("pyproject.toml: ", *words, ini={f"agentreplay_{key}": value})


def test_the_marker():
    base = made({"agentreplay_tools": ["a.b = read"], "agentreplay_allow": ["host:one"]})
    far = {"clock": "real", "seed": 1, "tools": ["c.d"]}
    near = {"clock": "stepped", "expect": "reproduces", "tools": {"a.b": "write"}, "allow": ["host:two"]}
    near["ignore"] = {"$.x": "why"}
    settings = base.for_test([near, far])
    assert settings.tools == (("a.b", "write"), ("c.d", "write"))
    assert (settings.clock, settings.seed, settings.expect) == ("stepped", 1, "reproduces")
    assert settings.allow_hosts == ("one", "two")
    assert settings.ignore == (("$.x", "why"),)
    assert base.for_test([{"permutations": True}]).permutations == LIMIT
    assert base.for_test([{"permutations": False}]).permutations == 0
    assert base.for_test([]) is base
    assert base.for_test([{"mode": "off"}]).mode == "off"

    assert made(agentreplay_record=True).for_test([{"mode": "off"}]).mode == "record", "the command line wins"
    assert made(agentreplay_record_missing=True).for_test([{"mode": "off"}]).mode == "off", "no mode is named"
    proving = made(agentreplay_record=True).for_test([], proving=True)
    assert (proving.mode, proving.strict) == ("replay", False)


def test_a_live_model_is_asked_for_by_the_command_line_alone():
    for given in ({"agentreplay_replay": "live"}, {"agentreplay_mode": "live"}, {"environ": {"AGENTREPLAY": "live"}}):
        settings = made(**given, agentreplay_sandbox="auto")
        assert (settings.mode, settings.model, settings.axes.cell, settings.strict) == ("replay", "live", "LF", True)
        assert settings.sandbox == "off"
        assert settings.for_test([{"mode": "off"}]).model == "live"
        assert "model LIVE, tools frozen, clock still between calls, network OPEN to the model" in settings.headline()
    both = made(agentreplay_replay="live", agentreplay_replay_tools="live")
    assert "model LIVE, read tools LIVE, " in both.headline()
    assert "OPEN to the model and to tools that read" in both.headline()
    tools = made(agentreplay_replay_tools="live")
    assert (tools.axes.cell, tools.model) == ("FL", "frozen")
    assert (
        "model frozen, read tools LIVE, clock still between calls, network OPEN to tools that read" in tools.headline()
    )
    lines = ["search = live", 'lookup = stub {"status": "shipped"}', "pay = stop"]
    settings = made({"agentreplay_off_script": lines}).for_test([{"off_script": {"search": "stop"}}])
    assert dict(settings.off_script)["lookup"] == 'stub {"status": "shipped"}'
    assert dict(settings.off_script)["search"] == "stop"


def test_what_live_runs_may_cost_and_what_decides_about_them():
    live = {"agentreplay_replay": "live"}
    settings = made(**live)
    assert (settings.replay_runs, settings.replay_budget, settings.prices) == (1, {}, ())
    ini = {"agentreplay_live": "p0=0.9 p1=0.7", "agentreplay_prices": ["m-* = 1.25 in, 10 out"]}
    settings = made(agentreplay_replay_runs="auto", agentreplay_replay_budget="calls=5 usd=2.50", ini=ini, **live)
    assert (settings.replay_runs, settings.make_test()) == (0, SequentialTest(p0=0.9, p1=0.7, alpha=0.05))
    assert (settings.replay_budget, settings.prices) == ({"calls": 5, "usd": 2.5}, (("m-*", (1.25, 10.0)),))
    for budget, words in (
        ("calls=0", "'calls=0': calls takes a whole number above zero, like calls=100"),
        ("calls=-1", "'calls=-1': calls takes"),
        ("tokens=1.5", "tokens takes a whole number"),
        ("usd=", "'usd=': usd takes a number above zero"),
        ("usd=nan", "'usd=nan'"),
        ("call=5", "did you mean calls?"),
        ("5", "it is one of calls, tokens, usd, assumed_output"),
    ):
        refused("--replay-budget", words, agentreplay_replay_budget=budget, **live)
    refused("p0 = 0.5", "p1 = 0.8", ini={"agentreplay_live": "p0=0.5"}, **live)
    name = "pyproject.toml: agentreplay_live"
    refused(name, "did you mean calls?", ini={"agentreplay_live": "p0=0.9 call=5"}, **live)
    refused(
        name, "'p0=x': p0 takes a number above zero and below 1, like p0=0.95", ini={"agentreplay_live": "p0=x"}, **live
    )
    ini = {"agentreplay_live": "p0=0.9 calls=5 usd=2"}
    settings = made(ini=ini, **live)
    assert (settings.make_test().p0, settings.replay_budget) == (0.9, {"calls": 5, "usd": 2})
    settings = made(ini=ini, agentreplay_replay_budget="tokens=9.00", **live)
    assert (settings.make_test().p0, settings.replay_budget) == (0.9, {"tokens": 9}), "the flag is over the ini file"
    for price in ("m = 1.25", "m = 1 in, x out", "m = 1x in, 2 out", "m"):
        refused(
            "agentreplay_prices", "'m' has no price", "1.25 in, 10 out", ini={"agentreplay_prices": [price]}, **live
        )
    for number in ("0", "-1", "many", "1.5"):
        refused("--replay-runs", repr(number), agentreplay_replay_runs=number, **live)
    for flag, value in (("runs", "1"), ("budget", "calls=1")):
        given = {f"agentreplay_replay_{flag}": value}
        refused(f"--replay-{flag}={value} is for live runs: add --replay=live", **given)


@pytest.mark.parametrize("flag", ["--replay-budget", "--agentreplay-html"])
def test_a_flag_with_an_empty_value_is_refused_with_an_example(flag):
    """As of a shell variable that is not set: it never means that there is no limit, or no folder."""
    example = {"--replay-budget": "calls=100", "--agentreplay-html": "--agentreplay-html=DIR"}[flag]
    key = f"agentreplay_{flag.removeprefix('--').removeprefix('agentreplay-').replace('-', '_')}"
    for value in ("", " "):
        refused(flag, example, agentreplay_replay="live", **{key: value})


def test_each_flag_with_a_value_refuses_an_empty_one():
    needs = {"only": {"": {}, "replays": {}, "fuzzing": {"agentreplay_fuzz": "2"}}}
    live = {"agentreplay_replay": "live"}
    for row in SETTINGS:
        if row.flag and row.takes and row.name not in {"replay_set", "runs", "vcr"}:  # who reads these refuses them
            refused(row.flag, **needs["only"].get(row.only, live) | {row.key: [""] if row.repeats else ""})


def test_what_is_given_twice_and_a_rate_that_is_none_are_refused_in_replays_too():
    name = "pyproject.toml: agentreplay_live: "
    refused(f"{name}p0 is given twice", ini={"agentreplay_live": "p0=0.9 p0=0.8"})
    for word in ("p0=1.5", "beta=1.0"):
        refused(f"{name}{word!r}: ", "a number above zero and below 1", ini={"agentreplay_live": word})
    refused("agentreplay_live does not take ''", "write one or more of p0=0.95", ini={"agentreplay_live": ""})


def test_a_list_where_a_string_belongs_and_the_other_way_round_are_refused_with_file_and_key():
    for row in SETTINGS:
        if row.ini == "string":
            words = f"pyproject.toml: {row.key} takes a string, not ['model']: write it without the brackets"
            refused(words, ini={row.key: ["model"]})
        elif row.ini == "linelist" and row.parse:
            refused(f"pyproject.toml: {row.key} takes a list of strings, not [5]", ini={row.key: [5]})


def test_a_price_that_is_none_is_refused_with_the_typo_and_the_form():
    words = (
        "'gpt-5' has no price: 'oot' is neither in nor out; write dollars per million tokens: gpt-5 = 1.25 in, 10 out"
    )
    refused(f"agentreplay_prices: {words}", ini={"agentreplay_prices": ["gpt-5 = 1.25 in, 10 oot"]})


def test_what_may_be_reached_or_taken_off_is_refused_with_file_and_key():
    name = "pyproject.toml: agentreplay_"
    refused(
        f"{name}allow: 'host:127.0.0.1:99999' names no port",
        "to 65535",
        ini={"agentreplay_allow": ["host:127.0.0.1:99999"]},
    )
    refused(f"{name}allow: 'host:http://db' names no host", ini={"agentreplay_allow": ["host:http://db"]})
    refused(f"{name}redact takes pii, strict or", "no file 'piii'", ini={"agentreplay_redact": ["piii"]})


def test_live_runs_on_ci_are_allowed_by_a_setting_and_a_budget():
    ci = {"environ": {"CI": "1"}, "agentreplay_replay": "live"}
    for ini in ({}, {"agentreplay_ci": ["live"]}, {"agentreplay_live": "calls=5"}):
        refused("because CI is set", "agentreplay_ci = live", "agentreplay_live = calls=100", ini=ini, **ci)
    assert made(ini={"agentreplay_ci": ["record live"], "agentreplay_live": "calls=5"}, **ci).model == "live"


def test_a_line_up_releases_layers_one_by_one():
    """Both axes follow from the layers; without them tools that read are as their axis says."""
    for layers, cell in (
        ("", "FF"),
        ("prompt|clock", "FF"),
        ("model", "LF"),
        ("tool:a|model", "LL"),
        ("retrieval", "FL"),
    ):
        axes = made(agentreplay_replay="live", agentreplay_release=layers).axes
        assert (axes.cell, axes.released) == (cell, frozenset(layers.split("|")) - {""})
        assert [name for name in ("tool:a", "tool:b", "retrieval") if axes.releases(name)] == [
            name for name in ("tool:a", "retrieval") if name in layers.split("|")
        ]
    assert not made(agentreplay_replay="live").axes.releases("tool:a")
    assert made(agentreplay_replay_tools="live").axes.releases("retrieval")


def test_marker_values_that_cannot_be_meant():
    for keywords, words in (
        ({"tolls": []}, ("'tolls'", "did you mean tools?")),
        ({"zzz": 1}, ("it is one of mode, tools",)),
        ({"mode": "record"}, ("mode", "--snapshot-record")),
        ({"mode": "live"}, ("only because the command line says so", "--replay=live")),
        ({"off_script": {"search": "stub"}}, ("off_script", "write it like lookup = stub")),
        ({"clock": "fast"}, ("stepped", "real", "virtual", "paced")),
        ({"permutation": 3}, ("'permutation'", "did you mean permutations?")),
        ({"env": ["A"]}, ("has no keyword 'env'",)),
        ({"allow": ["db:5432"]}, ("agentreplay(allow=...): 'db:5432'", "write it like host:db:5432")),
        ({"keep": ["file:"]}, ("keep", "'file:'", "file:data/*.json")),
        ({"order": "lose"}, ("order", "did you mean loose?")),
        ({"expect": "fail"}, ("expect", "reproduces")),
        ({"tools": "shop.tools.refund"}, ("tools", "list of strings")),
        ({"tools": [len]}, ("list of strings",)),
        ({"seed": -1}, ("seed", "whole number")),
    ):
        with pytest.raises(SettingsError) as caught:
            Settings().for_test([keywords])
        assert not [word for word in words if word not in str(caught.value)], caught.value


def test_folders(tmp_path):
    settings = made({"agentreplay_paths": ["tests/agents", "evals/"]})
    assert settings.covers(tmp_path / "tests/agents/deep/test_x.py", tmp_path)
    assert settings.covers(tmp_path / "evals/test_x.py", tmp_path)
    assert not settings.covers(tmp_path / "tests/agents_old/test_x.py", tmp_path)


def test_the_environment_is_kept_by_name():
    assert made({"agentreplay_keep": ["env:LANG"]}).environment({"LANG": "C", "HOME": "/root"}) == {"LANG": "C"}


def test_the_flags_are_readable_by_argparse_and_set_nothing_by_default():
    parser = argparse.ArgumentParser()
    for flag, options in list_options():
        assert "nargs" not in options, "an optional value swallows a path"
        parser.add_argument(flag, **options)
    assert vars(made(**vars(parser.parse_args([])))) == vars(Settings(toml=True))
    assert "adopt" not in parser.format_help()
    assert "`" not in parser.format_help()


def test_each_row_has_fields_that_are_read_a_name_of_its_own_and_a_way_to_give_it():
    assert len({row.name for row in SETTINGS}) == len(SETTINGS)
    for row in SETTINGS:
        assert vars(row).keys() <= Setting.__annotations__.keys(), row.name
        assert row.text, row.name
        assert row.flag or row.ini or (row.marker and row.parse), row.name


def test_the_default_of_a_field_is_what_its_ini_key_says_by_that_word():
    defaults = {row.key: str(row.default) for row in SETTINGS if row.ini == "string" and row.name in DEFAULTS}
    given = {key: value for key, value in defaults.items() if value != "None"} | {"agentreplay_mode": "model"}
    assert vars(made(given)) == vars(made())
    assert vars(made({row.key: [] for row in SETTINGS if row.ini == "linelist"})) == vars(made())


@pytest.mark.process
def test_loading_the_settings_loads_next_to_nothing():
    code = (
        "import argparse, dataclasses, typing, __future__, sys; before = set(sys.modules); import pytest_agentreplay.settings;"
        "print(*sorted(set(sys.modules) - before))"
    )
    root = Path(__file__).parents[1]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    names = ("", ".errors", ".settings", ".settings.parsers", ".settings.table")
    assert out.stdout.split() == [f"pytest_agentreplay{name}" for name in names]


def test_a_setting_in_a_message_is_written_as_the_projects_file_has_it():
    for ini, toml in (
        ('agentreplay_ignore = $.at = a "clock"', 'agentreplay_ignore = ["$.at = a \\"clock\\""]'),
        ("or: agentreplay_allow = host:db:5432", 'or: agentreplay_allow = ["host:db:5432"]'),
        ("it fails for it: agentreplay_checks: unused = fail", 'it fails for it: agentreplay_checks: "unused = fail"'),
        ("agentreplay_places = true", "agentreplay_places = true"),
        ("freeze it: add to agentreplay_tools: a.b = read", 'freeze it: add to agentreplay_tools: "a.b = read"'),
        ("give it the fixture agentreplay, or see agentreplay_paths", None),
    ):
        assert in_toml(ini) == (toml or ini)
        key, _, value = (toml or "").rpartition("agentreplay_")[2].partition(" = ")
        assert ": " in key or not value or tomllib.loads(f"{key} = {value}")


def test_a_runner_that_nobody_declares_is_proposed_as_the_projects_file_has_it():
    for toml, line in ((False, "refund = shop.cases:run_refund"), (True, '["refund = shop.cases:run_refund"]')):
        with pytest.raises(SettingsError) as caught:
            Runners((), (), Settings(toml=toml).format_message)["refund"]
        assert str(caught.value).endswith(f": agentreplay_runners = {line}")


def test_the_sandbox_is_off_unless_asked_for_and_what_addopts_says_never_hinders_a_recording():
    assert made().sandbox == "off"
    assert made(agentreplay_sandbox="require").sandbox == "require"
    assert made(agentreplay_sandbox="require", agentreplay_record=True).sandbox == "off"
    assert made(agentreplay_replay="off", agentreplay_sandbox="auto").sandbox == "off"
    for typed in (["--agentreplay-sandbox=require"], ["--agentreplay-sandbox", "require"]):
        refused("sandbox=require", "record", agentreplay_record=True, agentreplay_sandbox="require", typed=typed)
    refused("--agentreplay-sandbox", "'yes'", "require", agentreplay_sandbox="yes")
    refused("--agentreplay-sandbox", "did you mean auto?", agentreplay_sandbox="autos")


def test_the_header_shouts_when_something_is_live_and_tells_how_closed_the_network_is(monkeypatch):
    assert "LIVE" in made(agentreplay_record=True).headline()
    assert "OFF" in made(agentreplay_replay="off").headline()
    assert made(agentreplay_sandbox="require").headline().endswith("offline by the kernel")
    for system, level in (("linux", "by the kernel if every test replays"), ("win32", "not by the kernel")):
        monkeypatch.setattr(sys, "platform", system)
        assert made(agentreplay_sandbox="auto").headline().endswith(f"offline, {level}")


def test_tolerances_are_read_where_they_stand_and_a_marker_is_over_the_ini_file():
    lines = ["$.final = text(0.5)", "search $[*].score = 0.01"]
    settings = made({"agentreplay_tolerances": lines, "agentreplay_judges": ["help = shop.checks:judge"]})
    assert [(rule.text, rule.level, rule.source) for rule in settings.tolerances] == [
        (line, Level.INI, "pyproject.toml: agentreplay_tolerances") for line in lines
    ]
    assert settings.judges == (("help", "shop.checks:judge"),)
    filtered = made({"agentreplay_tolerances": ["$.tools[?(@.name == 'a = b')].result = ignore"]}).tolerances[0]
    assert (filtered.path.text, filtered.how) == ("$.tools[?(@.name == 'a = b')].result", "ignore")
    marked = settings.for_test([{"tolerances": {"$.final": "ignore"}}])
    assert marked.tolerances[-1].written == "@pytest.mark.agentreplay(tolerances=...): $.final = ignore"
    assert [rule.level for rule in marked.near.rules] == [Level.INI, Level.INI, Level.TEST]


def test_a_tolerance_that_is_none_stops_the_session_with_its_place():
    name = "pyproject.toml: agentreplay_tolerances: "
    refused(f"{name}$.final = exact", "80 different answers", ini={"agentreplay_tolerances": ["$.final = exact"]})
    refused(f"{name}$.final = nearly", "text(0.35)", ini={"agentreplay_tolerances": ["$.final = nearly"]})
    refused(
        f"{name}$.final = regex((?=a)b)", "the pattern", ini={"agentreplay_tolerances": ["$.final = regex((?=a)b)"]}
    )
    refused("'help = judge' names no function", "shop.cases:run", ini={"agentreplay_judges": ["help = judge"]})
    with pytest.raises(SettingsError, match=r"agentreplay\(tolerances=...\): \$.turns = exact"):
        made().for_test([{"tolerances": ["$.turns = exact"]}])


def test_what_is_no_truth_value_is_refused_with_its_key_and_file(project):
    (project.root / "pytest.ini").write_text("[pytest]\nagentreplay_places = maybe\n", encoding="utf-8")
    refused = project.run()
    assert refused.returncode == 4
    assert "pytest.ini: agentreplay_places: invalid truth value 'maybe'; write true or false" in refused.stderr
