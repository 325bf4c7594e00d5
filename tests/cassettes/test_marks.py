"""What goes from the source of a converted test file, and what comes there: text in, text out."""

import pytest

from pytest_agentreplay.runs.cassettes.converting import apply_changes, plan_changes

pytestmark = pytest.mark.env("main")


def convert(text, *converted, left=(), opted_in=()):
    return apply_changes(text, plan_changes(text, converted, left, opted_in)[0])


CASES = {
    "a mark": (
        "import pytest\n\n@pytest.mark.vcr\ndef test_a(): ...\n",
        "@pytest.mark.vcr",
        "@pytest.mark.agentreplay",
    ),
    "its arguments, over several lines": (
        'import pytest\n\n@pytest.mark.slow  # é\n@pytest.mark.vcr(\n    "é.yaml",  # why\n)  # kept\ndef test_a(): ...\n',
        '@pytest.mark.vcr(\n    "é.yaml",  # why\n)',
        "@pytest.mark.agentreplay",
    ),
    "CRLF": ("import pytest\r\n\r\n@pytest.mark.vcr\r\nasync def test_a(): ...\r\n", "mark.vcr", "mark.agentreplay"),
    "another name of pytest": ("import pytest as pt\n@pt.mark.vcr()\ndef test_a(): ...\n", "vcr()", "agentreplay"),
    "mark by itself": ("from pytest import mark as m\n@m.vcr\ndef test_a(): ...\n", "m.vcr", "m.agentreplay"),
    "several marks": (
        'import pytest\n@pytest.mark.vcr("a")\n@pytest.mark.vcr("b")\ndef test_a(): ...\n',
        '@pytest.mark.vcr("a")\n@pytest.mark.vcr("b")\n',
        "@pytest.mark.agentreplay\n",
    ),
    "beside our own": (
        "import pytest\n@pytest.mark.agentreplay\n@pytest.mark.vcr\ndef test_a(): ...\n",
        "@pytest.mark.vcr\n",
        "",
    ),
    "of the module": ("import pytest\npytestmark = pytest.mark.vcr\ndef test_a(): ...\n", ".vcr", ".agentreplay"),
    "in a list": (
        "import pytest\npytestmark = [pytest.mark.anyio, pytest.mark.vcr(a=1)]  # é\ndef test_a(): ...\n",
        "pytest.mark.vcr(a=1)",
        "pytest.mark.agentreplay",
    ),
    "in a block": ("import pytest\nif True:\n    @pytest.mark.vcr\n    def test_a(): ...\n", "k.vcr", "k.agentreplay"),
    "no mark, but a block": (
        'import vcr, pytest\n\ndef test_a():\n    with vcr.use_cassette("a"): ...\n',
        "\n\ndef",
        "\n\n@pytest.mark.agentreplay\ndef",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mark_goes_and_nothing_else(case):
    text, old, new = CASES[case]
    assert old in text
    assert convert(text, "test_a") == text.replace(old, new, 1)


SHOP = """
import pytest

pytestmark = pytest.mark.vcr

@pytest.mark.vcr
class TestShop:
    pytestmark = [pytest.mark.vcr]

    def test_a(self): ...

    @pytest.mark.vcr
    def test_b(self): ...

def test_c(): ...
"""


def test_a_mark_over_several_tests_goes_only_with_all_of_them():
    assert ".vcr" not in convert(SHOP, "TestShop::test_a", "TestShop::test_b", "test_c")
    part = convert(SHOP, "TestShop::test_b", left=["TestShop::test_a"])
    assert part == SHOP.replace("    @pytest.mark.vcr\n    def", "    @pytest.mark.agentreplay\n    def")
    beside = convert(SHOP, "TestShop::test_a", "TestShop::test_b")
    assert beside.count("pytest.mark.vcr") == 1
    assert convert(SHOP, "test_c", left=["test_c"]) == SHOP, "another of its parameters is not converted"
    unmarked = convert(SHOP, "TestShop::test_a")
    assert unmarked == SHOP.replace("    def test_a", "    @pytest.mark.agentreplay\n    def test_a")
    inherited = convert(SHOP, "TestShop::test_a", "TestShop::test_b", left=["TestShop::test_of_a_base"])
    assert inherited.count("pytest.mark.vcr") == 3


def test_a_test_that_has_opted_in_otherwise_loses_its_mark():
    text = "import pytest\n\n@pytest.mark.vcr\n@pytest.mark.slow\ndef test_a(agentreplay): ...\n"
    assert convert(text, "test_a", opted_in=["test_a"]) == text.replace("@pytest.mark.vcr\n", "")


def test_what_opens_a_cassette_in_code_is_named_and_left():
    text = (
        "import pytest\n\n@pytest.mark.agentreplay\n@my_vcr.use_cassette\ndef test_a():\n    with open('cassette'):\n"
        "        with pytest.raises(OSError), tape.use_cassette('a.yaml') as vcr:\n            pass\n"
    )
    changes, elsewhere = plan_changes(text, ["test_a", "TestB::test_b"], opted_in=["test_a"])
    assert [(change.line, change.new) for change in changes] == [(4, None), (7, None)]
    assert changes[1].old.startswith("with pytest.raises")
    assert elsewhere == ["TestB::test_b"], "a base class in another file has it"
    assert plan_changes(text.replace("import pytest", "import vcr"), ["test_a"])[1] == ["test_a"], "no pytest here"
