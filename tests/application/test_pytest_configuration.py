"""Lines that `agentreplay init` adds to a configuration: whatever the file looks like, nothing else changes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.project_setup.pytest_configuration import Configuration, read_table

KEY = "agentreplay_tools"
NEW = ["n.x", "n.y = read"]

TOML = [
    "# c [x]\n",
    'a = "]"\n',
    "b = [\n  \"x\", # ]\n  'y',\n]\n",
    'c = """\n[tool.pytest.ini_options]\nagentreplay_tools = []\n"""\n',
    "d = '''\n'#'''\n",
    'e = {k = ["[", 1]}\n',
    "\n",
    "f.g = 1\n",
    '"h" = 2\n',
]
TOML_KEYS = [
    "",
    f"{KEY} = []\n",
    f'{KEY} = [ "m.a" , ]\n',
    f'{KEY} = ["m.a"]  # t\n',
    f"{KEY} = [ # first\n  # only\n]\n",
    f"{KEY}=[\n\t\"m.a\",\n\n\t'm.b' # ,\n ]\n",
    f"'{KEY}' = ['m.a',\n 'm.b']\n",
]
TOML_HEADS = [
    "[tool.pytest.ini_options]\n",
    "[ tool . pytest.ini_options ] # h\n",
    '[[l]]\n[tool."pytest".ini_options]\n',
    '[tool.other]\nz=[["q"]]\n[tool.pytest.ini_options]\n',
]
INI = ["# c\n", "a = 1\n", "b =\n    x\n    # in\n    y\n", "c = x ; y\n", ";z\n", "\n", "  # ind\n", "d: 5\n"]
INI_KEYS = [
    "",
    f"{KEY} =\n",
    f"{KEY} = m.a\n",
    f"{KEY} =\n  m.a = read\n\n  m.b\n",
    f"{KEY}:\n\tm.a\n# end\n",
]
INI_HEADS = ["[pytest]\n", "# top\n[pytest] # c\n", "[a]\nx = 1\n[pytest]\n"]


@st.composite
def texts(draw, heads, lines, keys, tail):
    """A document with each line at most once, in any order; with either line end, with or without the last."""
    count = draw(st.integers(0, len(lines)))
    body = draw(st.permutations([*draw(st.permutations(lines))[:count], draw(st.sampled_from(keys))]))
    text = draw(st.sampled_from(heads)) + "".join(body) + draw(st.sampled_from(["", tail]))
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def check(name, text, table):
    file = Path(name)
    values = read_table(file, text, table)
    assert values is not None
    before = Configuration(file, text, table, values)
    after = before.extended(KEY, NEW)
    assert after.lines(KEY) == [*before.lines(KEY), *NEW]
    assert ("\r\n" in after.text) == ("\r\n" in text) or "\n" not in text
    rest = iter(after.text)
    assert all(character in rest for character in text), "each character that was there is there, in its order"


@settings(derandomize=True, deadline=None, max_examples=300)
@given(texts(TOML_HEADS, TOML, TOML_KEYS, "[z]\ny=1\n"))
def test_toml(text):
    check("pyproject.toml", text, ("tool", "pytest", "ini_options"))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(texts(INI_HEADS, INI, INI_KEYS, "[z]\ny=1\n"))
def test_ini(text):
    check("pytest.ini", text, ("pytest",))


@pytest.mark.parametrize("value", ['"m.a"', '"""\nm.a\n"""', "'m.a'"])
def test_a_text_becomes_a_list(value):
    text = f"[tool.pytest.ini_options]\n{KEY} = {value}  # kept\nx = 1\n"
    file, table = Path("pyproject.toml"), ("tool", "pytest", "ini_options")
    after = Configuration(file, text, table, read_table(file, text, table)).extended(KEY, NEW)
    assert after.text == f'[tool.pytest.ini_options]\n{KEY} = ["m.a", "n.x", "n.y = read"]  # kept\nx = 1\n'


def test_a_form_that_cannot_be_extended_is_refused_with_what_to_add():
    text = f"[tool.pytest]\nini_options.{KEY} = ['m.a']\n"
    file, table = Path("pyproject.toml"), ("tool", "pytest", "ini_options")
    before = Configuration(file, text, table, read_table(file, text, table))
    with pytest.raises(SettingsError, match=r"pyproject\.toml: .*add them by hand: n\.x, n\.y = read"):
        before.extended(KEY, NEW)
