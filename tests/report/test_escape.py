from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.report.escape import github, line, safe

SHOWN = {
    "plain ü 漢字 🎉 ❤️": "plain ü 漢字 🎉 ❤️",
    "a\tb\nc": "a\tb\nc",
    "\x1b[31mred\x9b31m\x00\x7f": "\\x1b[31mred\\x9b31m\\x00\\x7f",
    "a\rb": "a\\rb",
    "abc\u202ecod\u2066x\u2069": "abc\\u202ecod\\u2066x\\u2069",
    "\u200b\u200d\ufeff\xad": "\\u200b\\u200d\\ufeff\\xad",
    "\ud83d\u2028\u2029\x85\U000e0041": "\\ud83d\\u2028\\u2029\\x85\\U000e0041",
}


def test_what_would_act_is_seen_instead():
    assert {raw: safe(raw) for raw in SHOWN} == SHOWN
    assert line("a\nb\tc\x1b") == "a\\nb\\tc\\x1b"
    assert github("100%\r\n::error::x\x1b") == "100%25\\r%0A\\x3a:error::x\\x1b"


@settings(max_examples=40)
@given(st.text(st.characters(), max_size=40) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_whatever_comes_in_what_goes_out_can_be_written_and_stays(text):
    shown = safe(text)
    shown.encode()
    assert safe(shown) == shown
    assert not {unicodedata.category(char) for char in shown} & {"Cf", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.category(char) == "Cc" for char in shown if char not in "\n\t")
