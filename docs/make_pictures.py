"""Make every picture of the documentation from the real program.

    python docs/make_pictures.py                # all of them, into docs/images
    python docs/make_pictures.py session        # those whose name begins so
    python docs/make_pictures.py --look FOLDER  # each page wide, narrow and dark, to look at; a built site too

A terminal picture is the output of commands that run here, in a project made of the blocks of the README, against the
model server of the tests. A picture whose text is the same as before is left as it is, so that a new date or
duration changes no file. A screenshot is taken by Chromium, without a network.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from html import escape, unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.support.model_server import ModelServer
from tests.support.browser import Browser
from tests.support.pages import PLUGINS, blocks_of, model
from tests.support.shown_runs import write_project

IMAGES = ROOT / "docs" / "images"
COLUMNS = 80
HEADER = re.compile(r"(?:platform|cachedir|rootdir|configfile|plugins|asyncio|using |Using ).*")
"""Lines of pytest's header that differ from machine to machine."""
THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (240, 246, 252)],
)  # fmt: skip
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<desc>DESCRIPTION</desc>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.{unique_id}-title {{ font: 18px sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
"""Rich's own form names a font of another host."""


@dataclass(frozen=True)
class Session:
    """A terminal picture: its title, the commands that are typed, and a text that must be in their output."""

    title: str
    commands: tuple[str, ...]
    shows: str


SNAPSHOT = "__agent_snapshots__/test_shop/test_late_order.snapshot.json"
EDIT = "sed -i 's/brief and kind/brief and strict/' shop.py"
PICTURES = {
    "session": Session("record, change the prompt, replay", ("pytest --snapshot-record", EDIT, "pytest"), "AR-PROMPT"),
    "show": Session("what a snapshot holds", ("pytest -q --snapshot-record", f"agentreplay show {SNAPSHOT}"), "turn 3"),
}


@dataclass(frozen=True)
class Screenshot:
    """A picture of an HTML file that commands write: the commands, the file, the size of the window, its colours."""

    commands: tuple[str, ...]
    html: str
    width: int = 1280
    height: int = 800
    dark: bool = False
    fragment: str = ""


RECORDED, NOW = "tests/__agent_snapshots__/test_shop/test_two_late_orders.snapshot.json", "now.snapshot.json"
SCREENSHOTS = {
    "viewer": Screenshot((f"agentreplay html {RECORDED} --out run.html",), "run.html"),
    "viewer-comparison": Screenshot(
        (f"agentreplay html {RECORDED} {NOW} --out pair.html",), "pair.html", height=760, fragment="#turn-1-in-main.2"
    ),
    "viewer-index": Screenshot(("agentreplay html --out pages",), "pages/index.html", height=660),
}
"""The pictures in PNG files. `width=400` is a telephone; `height` cuts a picture to less than 150 kB."""


class Project:
    """The README's project in a folder of its own, beside the model server."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        for block in blocks_of(ROOT / "README.md"):
            if block.kind == "file":
                (folder / block.title).write_text(block.text, encoding="utf-8")
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PYTEST", "AGENTREPLAY", "COV")) and k not in {"CI", "NO_COLOR"}
        }
        self.environ = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": ",".join(PLUGINS),
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "sk-desk-0123456789abcdef",
            "COLUMNS": str(COLUMNS),
            "FORCE_COLOR": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, command: str) -> str:
        """Return what a command prints, colours included."""
        done = subprocess.run(
            shlex.split(command),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        text = (done.stdout + done.stderr).replace(str(self.folder), "/home/you/shop").strip("\n")
        lines = []
        for line in text.splitlines():
            line = "..." if HEADER.fullmatch(Text.from_ansi(line).plain) else line
            if lines[-1:] != ["..."] or line != "...":
                lines.append(line)
        return "".join(f"{line}\n" for line in lines)


def run_session(session: Session) -> str:
    """Return the text of a terminal picture, colours included."""
    with tempfile.TemporaryDirectory() as folder, ModelServer(model) as server:
        project = Project(Path(folder), server.url)
        parts = [f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\n{project.run(command)}" for command in session.commands]
    text = "\n".join(parts)
    assert session.shows in Text.from_ansi(text).plain, f"{session.shows!r} is not in\n{text}"
    return text


def fold(text: str) -> Text:
    """Return a text whose long lines go on in the next one, as in a terminal."""
    rows = [row for line in Text.from_ansi(text).split() for row in line.divide(range(COLUMNS, len(line), COLUMNS))]
    return Text("\n").join(rows)


def plain(text: str) -> str:
    """Return a text without what differs from run to run: colours, dates, durations, versions."""
    text = "\n".join(line.rstrip() for line in Text.from_ansi(text).plain.splitlines())
    for pattern, instead in (
        (r"\d{4}-\d\d-\d\d(T[\d:]+\+00:00)?", "DATE"),
        (r"\d+\.\d+s\b", "0.00s"),
        (r"\b\d+ ms\b", "0 ms"),
        (r"(?m)^packages: .*$", "packages: what is installed"),
    ):
        text = re.sub(pattern, instead, text)
    return re.sub(r"={3,}|-{3,}|_{3,}", lambda match: match[0][:3], text)


def description(svg: Path) -> str:
    """Return the text that a terminal picture was made of, or "" where there is none yet."""
    match = re.search(r"<desc>(.*?)</desc>", svg.read_text(encoding="utf-8"), re.DOTALL) if svg.exists() else None
    return unescape(match[1]) if match else ""


def draw(name: str, session: Session) -> bool:
    """Write the picture of a session; return whether its text was another before."""
    text = run_session(session)
    file = IMAGES / f"{name}.svg"
    if plain(description(file)) == plain(text):
        return False
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(fold(text))
    form = SVG.replace("DESCRIPTION", escape(Text.from_ansi(text).plain).replace("{", "{{").replace("}", "}}"))
    svg = console.export_svg(title=session.title, theme=THEME, code_format=form, unique_id=name)
    IMAGES.mkdir(exist_ok=True)
    file.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
    return True


def take_screenshots(html: Path, pictures: dict[Path, Screenshot]) -> None:
    """Have Chromium draw a local HTML file into PNG files; nothing is loaded from elsewhere."""
    browser = Browser()
    try:
        for png, picture in pictures.items():
            browser.resize(picture.width, picture.height, dark=picture.dark)
            browser.open(html, picture.fragment)
            browser.screenshot(png)
    finally:
        browser.close()


def photograph(picture: Screenshot, pictures: dict[Path, Screenshot]) -> None:
    """Run the commands of a screenshot in a project with recorded runs, and write its file in these ways."""
    with tempfile.TemporaryDirectory() as folder, ModelServer(model) as server:
        shop = Path(folder, "shop")  # the index has the name of its project
        shop.mkdir()
        project = Project(shop, server.url)
        write_project(shop)
        texts = [project.run(command) for command in picture.commands]
        assert (project.folder / picture.html).is_file(), "\n".join(texts)
        take_screenshots(project.folder / picture.html, pictures)


def look(folder: Path) -> None:
    """Write each page wide, narrow and dark into a folder, for you to look at: ours, and those of a site that is built."""
    folder.mkdir(parents=True, exist_ok=True)
    ways = {"wide": (1280, 1000, False), "narrow": (400, 1000, False), "dark": (1280, 1000, True)}
    for name, picture in SCREENSHOTS.items():
        sizes = {way: replace(picture, width=w, height=h, dark=dark) for way, (w, h, dark) in ways.items()}
        photograph(picture, {folder / f"{name}-{way}.png": each for way, each in sizes.items()})
    for page in ("index", "tutorial/first-recording/index", "how-to/pages/index", "reference/api/index"):
        html = ROOT / "build" / "site" / f"{page}.html"
        name = page.replace("/", "-")
        sizes = {
            folder / f"site-{name}-{way}.png": Screenshot((), "", w, h, dark) for way, (w, h, dark) in ways.items()
        }
        if html.exists():
            take_screenshots(html, sizes)


def main(prefixes: list[str]) -> None:
    """Make the pictures whose names begin with one of `prefixes`, or all."""
    if prefixes[:1] == ["--look"]:
        return look(Path(*prefixes[1:]))
    for name, session in PICTURES.items():
        if not prefixes or name.startswith(tuple(prefixes)):
            print(f"{name}.svg: {'written' if draw(name, session) else 'as before'}")
    for name, picture in SCREENSHOTS.items():
        if not prefixes or name.startswith(tuple(prefixes)):
            photograph(picture, {IMAGES / f"{name}.png": picture})
            print(f"{name}.png: written")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
