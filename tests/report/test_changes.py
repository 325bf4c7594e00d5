"""Differences as rows: nothing false in them, every change, changed words marked, and bounded time."""

from __future__ import annotations

import json
import re
import time

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.divergence import ABSENT
from pytest_agentreplay.report.changes import (
    Row,
    compare_texts,
    compare_values,
    format_diff_block,
    format_rows,
    plain_rows,
    restore_rows,
)

TEXTS = st.lists(st.sampled_from(["", "a", "b", "a b c d", "a b x d", "same words here", " tab\t", "é"]), max_size=30)
WORDS = st.lists(st.sampled_from(["a", "b", "long_word", " ", "  ", "-", "9", "é"]), max_size=40).map("".join)


def join(rows: tuple[Row, ...], left_out: str) -> str:
    return "\n".join(row.text for row in rows if row.sign not in {left_out, "@"})


@given(TEXTS.map("\n".join), TEXTS.map("\n".join))
def test_rows_without_a_limit_rebuild_both_sides(recorded: str, now: str) -> None:
    rows = compare_texts(recorded, now, context=1_000)
    if recorded == now:
        assert rows == ()
    else:
        assert (join(rows, "+"), join(rows, "-")) == (recorded, now)


@given(WORDS, WORDS)
def test_what_is_not_marked_in_a_line_is_the_same_on_both_sides(recorded: str, now: str) -> None:
    rows = compare_texts(recorded, now)
    kept = [[text for text, changed in row.pieces if not changed] for row in rows]
    assert kept == [] or "".join(kept[0]) == "".join(kept[1])


@given(TEXTS.map("\n".join), TEXTS.map("\n".join))
def test_rows_survive_json(recorded: str, now: str) -> None:
    rows = compare_texts(recorded, now)
    assert restore_rows(json.loads(json.dumps(plain_rows(rows)))) == rows


def test_each_change_of_a_long_text_is_a_part_with_its_line_and_its_words_marked() -> None:
    recorded = [f"Rule {number}: look it up first, then answer in dollars" for number in range(1, 181)]
    now = list(recorded)
    now[91] = now[91].replace("first", "twice")
    now[151] = now[151].replace("dollars", "euros")
    rows = compare_texts("\n".join(recorded), "\n".join(now), context=0)
    assert format_rows(rows) == [
        "@ line 92",
        "- Rule 92: look it up first, then answer in dollars",
        "?                     ^^^^^",
        "+ Rule 92: look it up twice, then answer in dollars",
        "?                     ^^^^^",
        "@ line 152",
        "- Rule 152: look it up first, then answer in dollars",
        "?                                            ^^^^^^^",
        "+ Rule 152: look it up first, then answer in euros",
        "?                                            ^^^^^",
    ]
    marked = [text for row in rows for text, changed in row.pieces if changed]
    assert marked == ["first", "twice", "dollars", "euros"]


def test_two_words_beside_each_other_are_one_mark_and_unlike_lines_have_none() -> None:
    first, second = compare_texts("the old price of it", "the very new price of it")
    assert (first.pieces[1], second.pieces[1]) == (("old", True), ("very new", True))
    assert [row.pieces for row in compare_texts("one\ntwo", "nothing\nelse\nhere")][1:] == [
        ((text, True),) for text in ("one", "two", "nothing", "else", "here")
    ]


def test_a_mark_does_not_cut_what_is_read_as_one_character_and_so_no_joiner_is_escaped() -> None:
    characters = [
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👦"),
        ("👍🏻", "👍🏿"),
        ("🇩🇪", "🇩🇰"),
        ("e\u0301", "e\u0300"),
    ]
    words = [("می\u200cشود", "می\u200cروند"), ("क्या", "क्यों")]
    # In a line that is so long, its words are not compared.
    for before, pairs in (("say ", characters + words), ("long " * 6_000, characters)):
        for recorded, now in pairs:
            rows = compare_texts(f"{before}{recorded} now", f"{before}{now} now")
            assert [text for row in rows for text, changed in row.pieces if changed] == [recorded, now]
            assert "\\u" not in "".join(format_rows(rows))
    assert format_rows(compare_texts("pay\u200cpal a", "pay\u200cpal b"))[0] == "- pay\\u200cpal a"


def test_a_changed_line_is_marked_against_its_new_form_though_a_line_came_before_it() -> None:
    rows = compare_texts("answer in dollars of today", "be kind\nanswer in euros of today")
    assert [(row.sign, text) for row in rows for text, changed in row.pieces if changed] == [
        ("+", "be kind"),
        ("-", "dollars"),
        ("+", "euros"),
    ]


def test_words_put_into_a_long_line_of_repeated_words_are_marked_alone_and_fast() -> None:
    words = ("be kind and look it up in the table " * 1390).split()
    now = [*words[:2000], "very", *words[2000:6000], "never", "ever", *words[6000:]]
    begun = time.process_time()
    before, after = compare_texts(" ".join(words), " ".join(now))
    assert time.process_time() - begun < 0.5
    assert [text.strip() for text, changed in after.pieces if changed] == ["very", "never ever"]
    assert not any(changed for _, changed in before.pieces)
    assert len(before.text) > 50_000


def test_blanks_and_the_last_line_break_are_differences() -> None:
    assert [row.sign for row in compare_texts("a\nb\n", "a\nb")] == ["@", " ", " ", "-"]
    assert [row.pieces for row in compare_texts("a b", "a b ")] == [(("a b", False),), (("a b", False), (" ", True))]


def test_objects_differ_by_member_also_inside_a_text() -> None:
    recorded = {"city": "Kyoto", "days": [{"day": 1, "text": "x" * 40}], "note": "one\ntwo"}
    now = {"city": "Kyoto", "days": [{"day": 2, "text": "x" * 40}], "note": "one\ntwice"}
    expected = [
        '  city: "Kyoto"',
        "  days:",
        f'-   [0]: {{"day":1,"text":"{"x" * 40}"}}',
        f'+   [0]: {{"day":2,"text":"{"x" * 40}"}}',
        "  note:",
        "    one",
        "-   two",
        "+   twice",
    ]
    for sides in ((recorded, now), (json.dumps(recorded), json.dumps(now))):
        assert [line for line in format_rows(compare_values(*sides)) if line[0] != "?"] == expected


def test_a_value_that_came_or_went_is_shown_whole_and_a_text_is_not_taken_for_a_number() -> None:
    assert format_rows(compare_values(ABSENT, "one\ntwo")) == ["+ one", "+ two"]
    assert format_rows(compare_values({"a": 1}, ABSENT)) == ['- {"a":1}']
    assert [row.text for row in compare_values("1", 1)] == ['"1"', "1"]


def test_rows_are_escaped_and_cannot_end_the_block_of_a_comment() -> None:
    rows = compare_texts("a\x1b[31m", "```\u202e")
    assert format_rows(rows) == ["- a\\x1b[31m", "+ ```\\u202e"]
    assert format_diff_block(rows).splitlines()[0] == "````diff"


def test_what_looks_alike_is_told_apart_and_what_only_moved_is_not_escaped() -> None:
    assert format_rows(compare_texts("p\u0430y now", "pay now"))[::2] == ["- p\\u0430y now", "+ pay now"]
    assert format_rows(compare_texts("a b", "a b "))[1] == "+ a b\\x20"
    assert "\\u" not in "".join(format_rows(compare_texts("\u6f22\n\u5b57\nx", "\u5b57\ny\n\u6f22")))


def test_a_line_that_is_cut_still_shows_each_place_that_changed() -> None:
    recorded = " ".join(f"word{number}" for number in range(700))
    now = recorded.replace("word100 ", "first ").replace("word600 ", "second ")
    lines = format_rows(compare_texts(recorded, now), 80, in_full=False)
    assert max(map(len, lines)) <= 80
    assert [("first" in line, "second" in line) for line in lines if line[0] == "+"] == [(True, True)]
    assert len(format_rows(compare_texts(recorded, now))[0]) == len(recorded) + 2


def test_colour_is_added_to_escaped_texts_and_never_to_a_command_of_a_ci_server(monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    rows = compare_texts("same\n::error::x\n\x1b[2J a", "same\n::error::y\n\x9b31m a\u202e")
    for colour in (True, False):
        lines = format_rows([Row(" ", (("::group::z", False),)), *rows], colour=colour)
        shown = [re.sub("\x1b\\[[0-9;]+m", "", line) for line in lines]
        assert (shown != lines) is colour
        assert not [line for line in shown if line.strip().startswith("::") or "\x1b" in line or "\x9b" in line]


def test_a_large_prompt_takes_about_a_second_whatever_has_changed() -> None:
    line = "look the thing number {0} up first in the table of prices, then answer with the price in dollars " * 2
    recorded = [line.format(number) for number in range(10_000)]
    changed = [each.replace("first", "twice") for each in recorded]
    few = [new if at in {5, 9_990} else old for at, (old, new) in enumerate(zip(recorded, changed, strict=True))]
    for now in (few, changed, recorded[::-1], ["a", "b"] * 5_000):
        begun = time.process_time()
        compare_texts("\n".join(recorded), "\n".join(now))
        assert time.process_time() - begun < 3
