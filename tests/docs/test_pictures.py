"""The pictures of the pages are of the program as it is: made by one command, small, and without anything from elsewhere."""

import re
import struct

import make_pictures
import pytest

from tests.support.pages import ROOT

IMAGES = sorted((ROOT / "docs" / "images").iterdir())
REMAKE = "python docs/make_pictures.py"


@pytest.mark.process
@pytest.mark.parametrize("name", make_pictures.PICTURES)
def test_a_terminal_picture_shows_what_the_commands_print(name):
    now = make_pictures.plain(make_pictures.run_session(make_pictures.PICTURES[name]))
    assert make_pictures.plain(make_pictures.description(make_pictures.IMAGES / f"{name}.svg")) == now, REMAKE


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_a_picture_is_small_is_made_by_the_script_and_is_shown(image):
    assert image.stat().st_size < 150_000
    made = {f"{name}.svg" for name in make_pictures.PICTURES} | {f"{name}.png" for name in make_pictures.SCREENSHOTS}
    assert image.name in made
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"images/{image.name})" in page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.parametrize("name", make_pictures.PICTURES)
def test_a_terminal_picture_loads_nothing(name):
    svg = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    drawn = re.sub(r"<desc>.*?</desc>", "", svg, flags=re.DOTALL)
    assert not re.search(r"<script|<image|@import|url\((?!#)|href|on\w+=", drawn)


def test_every_picture_of_a_page_is_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


@pytest.mark.process
def test_a_page_is_photographed_in_the_size_and_the_colours_that_are_asked_for(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<style>body{background:#fff} @media (prefers-color-scheme: dark) {body{background:#000}}</style>")
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    ways = {png: make_pictures.Screenshot((), "", 400, 300, dark=png == dark) for png in (light, dark)}
    make_pictures.take_screenshots(page, ways)
    assert [struct.unpack(">II", png.read_bytes()[16:24]) for png in ways] == [(400, 300)] * 2
    assert light.read_bytes() != dark.read_bytes()
