"""`agentreplay --help`: every verb on one screen, by what a person wants to do; and words that are no verb."""

from pathlib import Path

import pytest

from pytest_agentreplay.cli.verbs import GROUPS, HELP, MODULES, load_verbs

SCREEN = Path(__file__).with_name("help.txt")


def test_the_help_is_one_screen_and_what_the_command_alone_prints(typed):
    told = typed("--help")
    rows = told.out.splitlines()
    assert told == (0, SCREEN.read_text(encoding="utf-8"), "")
    assert (len(rows) <= 24, max(map(len, rows)) <= 80, len(HELP) <= 20) == (True, True, True)
    assert typed() == (2, told.out, "")


def test_every_verb_has_one_place_in_the_help_and_its_own_help(typed):
    listed = [*[verb for _, verb, _, module in HELP if module], *[verb for verb, _, _ in GROUPS]]
    assert listed == [*MODULES] == [*load_verbs()]
    for verb in listed:
        told = typed(*verb.split(), "--help")
        assert (told.code, told.out.startswith(f"usage: agentreplay {verb} ")) == (0, True)


@pytest.mark.parametrize("group", [verb for _, verb, _, module in HELP if not module])
def test_the_first_of_two_words_lists_its_verbs_and_the_first_screen_names_them(typed, group):
    told = typed(group, "--help")
    usage, _, *rows = told.out.splitlines()
    verbs = [row.split()[0] for row in rows]
    assert usage == f"usage: agentreplay {group} VERB ...   agentreplay {group} VERB --help: its arguments"
    assert [f"{group} {verb}" for verb in verbs] == [verb for verb, _, _ in GROUPS if verb.startswith(f"{group} ")]
    assert (told.code, typed(group)) == (0, (2, told.out, ""))
    assert f": {', '.join(verbs)}\n" in typed().out


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("shwo", "the nearest: show"),
        ("assertion", "the nearest: check assertions"),
        ("case nwe", "the nearest: case new"),
        ("check lint", "the nearest: check audit, case lint, check"),
        ("--json", "agentreplay --help lists all"),
        ("a\x1b[2Jb", "agentreplay --help lists all"),
    ],
)
def test_an_unknown_verb_is_one_line_that_names_the_nearest(typed, word, advice):
    told = typed(*word.split(" "), "x")
    assert (told.code, told.out) == (2, "")
    assert told.err == f"agentreplay: there is no verb {word!r}; {advice}\n"
