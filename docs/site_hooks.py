"""What the site does beyond the pages of docs/: mkdocs runs this module (`hooks` in mkdocs.yml).

Below `<!-- api: module -->`, which GitHub does not show, stands a paragraph of names of that module: the documentation of each
follows it.

The pages are read on GitHub too, where a link may lead to any file of the repository: the README, a case, an example.
Here each file that a page links to outside of the site becomes a page of its own below `project/`: Markdown as it is, and
other text as one block of code. A link to a folder without a README becomes plain text.

This module is all that binds the site to mkdocs-material, whose support ends in May 2027. Its successor, Zensical, builds
the pages from the same mkdocs.yml (tried with 0.0.73), but runs no hooks: the files outside of docs/, the documentation of
Python names, the anchors of GitHub and the weights of the search are missing there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
API = re.compile(r"^<!-- api: (\S+) -->\n((?:.+\n)+)", re.MULTILINE)
LANGUAGES = {".jsonl": "json", ".json": "json", ".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}

NOT_SEARCHED = ("decisions", "project/CHANGELOG", "project/cases/")
"""Pages that say how things came to be: somebody who searches wants how things are, and first of all what to do."""

pages: dict[str, str] = {}
"""The path in the repository of every page and file of the site -> its path in the site."""


def resolve_link(source: str, target: str) -> str:
    """Return the path in the repository that a link of the file `source` leads to, or "" for other links."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z]+:|/", path):
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    readme = posixpath.join(path, "README.md")
    return readme if (ROOT / readme).is_file() else path


def list_links(source: str, text: str) -> list[str]:
    """Return what the links of a Markdown file lead to, as paths in the repository."""
    return [path for _, _, target in LINK.findall(FENCE.sub("", text)) if (path := resolve_link(source, target))]


def on_config(config):
    """Make the anchors of headings as GitHub does."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files, config):
    """Add the files that are linked to from the pages, and from one another."""
    pages.clear()
    pages.update({f"docs/{file.src_uri}": file.src_uri for file in files if not file.inclusion.is_excluded()})
    left = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    while left:
        source = left.pop()
        if source.endswith(".md"):
            for path in list_links(source, (ROOT / source).read_text(encoding="utf-8")):
                if path not in pages and (ROOT / path).is_file():
                    pages[path] = f"project/{path}" if path.endswith(".md") else f"project/{path}.md"
                    left.append(path)
                    files.append(File.generated(config, pages[path], content=show_file(path)))
    return files


def on_post_page(output, **_):
    """Give the dialog of the search a name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def show_file(path: str) -> str:
    """Return the Markdown of a file: its own, or a page with a block of code."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    language = LANGUAGES.get(Path(path).suffix, "text")
    head = f"---\nsearch:\n  exclude: true\n---\n# {posixpath.basename(path)}\n"
    return f'{head}\n````{language} title="{path}"\n{text.rstrip()}\n````\n'


def document_names(match: re.Match[str]) -> str:
    """Return a paragraph of names and what has the documentation of each written."""
    module, paragraph = match.groups()
    return paragraph + "".join(f"\n::: {module}.{name}\n" for name in re.findall(r"`(\w+)`", paragraph))


def on_page_markdown(markdown, page, **_):
    """Lead links of a page to where the site has their target, and have the API of the names on it written there."""
    here = page.file.src_uri
    page.meta.update({"hide": ["navigation"]} if here == "index.md" else {})
    page.meta["search"] = {"exclude": here.startswith(NOT_SEARCHED), "boost": 2 if here.startswith("how-to/") else 1}
    source = next(path for path, uri in pages.items() if uri == here)

    def replace(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path = resolve_link(source, target)
        if not path:
            return match[0]
        if path not in pages:
            return text if (ROOT / path).is_dir() else match[0]
        uri = posixpath.relpath(pages[path], posixpath.dirname(here) or ".")
        anchor = target.partition("#")[2]
        return f"{mark}[{text}]({uri}{'#' if anchor else ''}{anchor})"

    markdown = API.sub(document_names, markdown)
    parts = FENCE.split(markdown)
    return "".join(part if FENCE.fullmatch(part) else LINK.sub(replace, part) for part in parts)
