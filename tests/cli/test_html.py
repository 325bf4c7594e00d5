"""`agentreplay html`: one page for a file, two files or a folder, and what stands in its way."""

import re
import shutil

from pytest_agentreplay.cli.verbs import Exit
from tests.support.shown_runs import CASE, bookshop_run, write_run


def kind(page):
    return re.search(r'"kind":"(\w+)"', page.read_text(encoding="utf-8"))[1]


def test_a_file_and_two_files_are_two_kinds_of_pages(root, typed):
    a, b = (write_run(root / name, bookshop_run(name)) for name in ("a.snapshot.json", "b.snapshot.json"))
    page = root / "page.html"
    for words, expected in (([a], "run"), ([a, b], "pair")):
        done = typed("html", *words, "--out", page)
        assert (done.code, done.err, kind(page)) == (Exit.SAME, "", expected)
        assert re.fullmatch(r"wrote page\.html \(0\.\d\d MB\)\n", done.out)


def test_a_folder_or_nothing_is_an_index_with_a_page_for_each_run_and_case(root, typed):
    shutil.copytree(CASE, root / "cases" / "refund")
    for name in ("a", "b"):
        write_run(root / "shop" / f"{name}.snapshot.json", bookshop_run(name))
    (root / "shop" / "torn.snapshot.json").write_text("{")
    done = typed("html")
    assert (done.code, done.out) == (Exit.SAME, "wrote agentreplay-html/index.html\n")
    index = (root / "agentreplay-html" / "index.html").read_text(encoding="utf-8")
    linked = {*re.findall(r'"page":"([^"]+)"', index)}
    assert len(linked) == 3
    assert {file.name for file in (root / "agentreplay-html").iterdir()} == {*linked, "index.html"}
    assert typed("html", root / "shop", "--out", "pages").out == "wrote pages/index.html\n"
    assert len([*(root / "pages").iterdir()]) == 3
    (root / "shop" / "b.snapshot.json").unlink()
    typed("html", root / "shop", "--out", "pages")
    assert len([*(root / "pages").iterdir()]) == 2


def test_a_folder_of_pages_needs_a_folder_of_its_own(root, typed):
    write_run(root / "a.snapshot.json", bookshop_run())
    done = typed("html", root, "--out", "page.html")
    assert (done.code, done.err) == (
        Exit.USAGE, "agentreplay: a page for each run needs a folder; type: agentreplay html . --out page\n"
    )  # fmt: skip
    (root / "agentreplay-html").mkdir()
    (root / "agentreplay-html" / "index.html").write_text("mine")
    done = typed("html")
    assert (done.code, done.err.count("\n")) == (Exit.USAGE, 1)
    assert "agentreplay-html/index.html is there and no page of a folder; name another one" in done.err
    assert typed("html", "--force").code == Exit.SAME


def test_a_case_is_shown_as_its_run_and_an_edited_file_is_said_to_be_one(root, typed):
    shutil.copytree(CASE, root / "cases" / "refund")
    page = root / "page.html"
    assert typed("html", root / "cases" / "refund", "--out", page).code == Exit.SAME
    assert kind(page) == "run"
    a, b = (write_run(root / name, bookshop_run()) for name in ("a.snapshot.json", "b.snapshot.json"))
    b.write_text(b.read_text(encoding="utf-8").replace("Be brief and kind", "Be brief and bold"), encoding="utf-8")
    assert typed("html", a, b, "--out", page).code == Exit.SAME
    assert (
        "b.snapshot.json: edited by hand, not accepted; to see where: agentreplay verify b.snapshot.json"
        in page.read_text(encoding="utf-8")
    )


def test_a_file_that_is_no_page_is_not_written_over(root, typed):
    a = write_run(root / "a.snapshot.json", bookshop_run())
    other = root / "agentreplay.html"
    other.write_text("mine")
    done = typed("html", a)
    assert done.code == Exit.USAGE
    assert "agentreplay.html is there and no page of agentreplay; --force writes over it" in done.err
    assert other.read_text() == "mine"
    assert typed("html", a, "--force").code == Exit.SAME
    assert typed("html", a).code == Exit.SAME  # a page of ours


def test_a_damaged_file_and_too_many_files_are_errors_of_one_line(root, typed):
    (root / "torn.snapshot.json").write_text("{")
    assert typed("html", root / "torn.snapshot.json").code == Exit.DAMAGED
    done = typed("html", root, root)
    assert (done.code, done.err.count("\n")) == (Exit.USAGE, 1)
    assert "one file, two files side by side, or one folder" in done.err
    assert not list(root.glob("*.html"))
