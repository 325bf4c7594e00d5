"""The pages in a real browser: what a person sees, keys, links, colours, narrow screens, and hostile texts."""

import json
import unicodedata
from pathlib import Path

import pytest

from pytest_agentreplay.model.exchanges import Body
from pytest_agentreplay.runs import pages
from pytest_agentreplay.runs.live import history
from tests.cli.test_drift import HISTORY
from tests.support.shown_runs import RunBuilder, bookshop_run, long_run, write_run

CORPUS = Path(__file__).parents[1] / "corpus" / "hostile_corpus.jsonl"
CONTRAST = """(() => {
  const number = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => number(text).slice(0, 3).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const back = (node) => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor; if ((number(c)[3] ?? 1) > 0) return c; } return "rgb(255, 255, 255)"; };
  const low = [];
  for (const node of document.querySelectorAll("main *")) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const style = getComputedStyle(node);
    const [x, y] = [light(node.namespaceURI.endsWith("svg") ? style.fill : style.color), light(back(node.parentElement && node.namespaceURI.endsWith("svg") ? node.closest("div, figure") : node))].sort((a, b) => b - a);
    if ((x + 0.05) / (y + 0.05) < 4.5) low.push([node.tagName, node.className.baseVal ?? node.className, node.textContent.slice(0, 20), (x + 0.05) / (y + 0.05)]);
  }
  return low;
})()"""


@pytest.fixture
def run_page(tmp_path):
    path = tmp_path / "run.html"
    path.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", bookshop_run())), encoding="utf-8")
    return path


@pytest.fixture
def pair_page(tmp_path):
    files = (
        write_run(tmp_path / "a.snapshot.json", bookshop_run()),
        write_run(tmp_path / "b.snapshot.json", bookshop_run("cheerful", "P-9")),
    )
    path = tmp_path / "pair.html"
    path.write_text(pages.render_pair(*files), encoding="utf-8")
    return path


@pytest.fixture
def index_page(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_run(tmp_path / "__agent_snapshots__" / "test_shop" / "test_a.snapshot.json", bookshop_run())
    (tmp_path / "__agent_snapshots__" / "test_shop" / "test_torn.snapshot.json").write_text("{")
    history.append(tmp_path, HISTORY)
    path = tmp_path / "index.html"
    path.write_text(pages.render_index(tmp_path), encoding="utf-8")
    return path


def heading(browser):
    return browser.text("article h2[tabindex]")


def test_a_run_shows_its_lanes_and_the_chosen_turn(browser, run_page):
    browser.open(run_page)
    header = browser.text("header")
    assert all(
        part in header for part in ("test_two_late_orders", "passed", "7 turns", "12 calls", "gpt-5, gpt-5-mini")
    )
    assert browser.value("[...document.querySelectorAll('.time text')].map((t) => t.textContent).filter((t) => t.startsWith('main'))") == [
        "main", "main.1", "main.2",
    ]  # fmt: skip
    bars = "[...document.querySelectorAll('.time rect')].map((r) => r.getBBox()).map(({x, y, width}) => [x, y, width])"
    first, lookup, other, *_ = browser.value(bars)
    assert first[0] + first[2] <= lookup[0]
    assert lookup[1] < other[1] < lookup[1] + 20  # they overlap, so one stands below the other
    article = browser.text("article")
    for part in (
        "ADDED TO THE REQUEST",
        "Be brief and kind.",
        "ANSWER",
        "Let me look at both.",
        "lookup_order",
        '"status":"late"',
    ):
        assert part in article
    assert (browser.errors, browser.dialogs) == ([], [])


def test_keys_walk_the_turns_and_the_address_follows(browser, run_page):
    browser.open(run_page)
    seen = []
    for key in "jjGkg":
        browser.press(key)
        seen.append((heading(browser), browser.value("location.hash")))
    assert seen == [
        ("turn 2 of lane main", "#turn-2"), ("turn 3 of lane main", "#turn-3"),
        ("turn 2 of lane main.2", "#turn-2-in-main.2"), ("turn 1 of lane main.2", "#turn-1-in-main.2"),
        ("turn 1 of lane main", "#turn-1"),
    ]  # fmt: skip
    assert browser.value("document.activeElement.getAttribute('aria-current')") == "true"
    browser.press("?")
    assert "next turn" in browser.text(".help")


def test_a_link_opens_its_turn_and_a_bar_chooses_one(browser, run_page):
    browser.open(run_page, "#turn-2-in-main.1")
    assert heading(browser) == "turn 2 of lane main.1"
    browser.value("document.querySelector('.time rect').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert heading(browser) == "turn 1 of lane main"


def test_a_search_leaves_the_turns_that_hold_the_text(browser, run_page):
    browser.open(run_page)
    browser.press("/")
    browser.press(*"DEPOT")
    assert browser.text("[role=status]") == "2 of 7 turns"
    browser.press("Enter")
    assert heading(browser) == "turn 1 of lane main.1"
    assert browser.value("document.querySelectorAll('.turns li:not([hidden])').length") == 2


def test_a_search_looks_at_texts_and_not_at_the_names_of_fields(browser, run_page, index_page):
    browser.open(run_page)
    browser.press("/", *"attempt")
    assert browser.text("[role=status]") == "0 of 7 turns"
    browser.open(index_page)
    browser.press("/", *"problem")
    assert browser.text("[role=status]").startswith("0 of ")


def test_keys_keep_the_chosen_row_in_sight_and_a_page_opens_at_its_top(browser, tmp_path):
    page = tmp_path / "long.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", long_run(60))), encoding="utf-8")
    for width in (1280, 400):
        browser.resize(width)
        browser.open(page, "#turn-50")
        assert browser.value("scrollY") == 0
        seen = []
        for _ in range(8):
            browser.press("k")
            seen.append(
                browser.value(
                    "(() => { const r = document.activeElement.getBoundingClientRect(), n = document.querySelector('nav').getBoundingClientRect();"
                    " return r.top >= Math.max(0, n.top) - 1 && r.bottom <= Math.min(innerHeight, n.bottom) + 1; })()"
                )
            )
        assert seen == [True] * 8


def test_characters_stay_whole_in_a_comparison_and_nothing_that_differs_is_folded(browser, tmp_path):
    lines = "\n".join(f"line {number}" for number in range(60))
    files = [
        write_run(tmp_path / f"{at}.snapshot.json", bookshop_run(f"{lines}\n{face}")) for at, face in enumerate("😀😁")
    ]
    page = tmp_path / "pair.html"
    page.write_text(pages.render_pair(*files), encoding="utf-8")
    browser.open(page)
    assert set(browser.value("[...document.querySelectorAll('mark')].map((mark) => mark.textContent)")) == {"😀", "😁"}
    hidden = "[...document.querySelectorAll('article mark')].filter((mark) => mark.getBoundingClientRect().bottom > mark.closest('pre').getBoundingClientRect().bottom)"
    assert browser.value(f"{hidden}.length") == 0


def test_long_names_do_not_widen_a_page(browser, tmp_path):
    builder = RunBuilder()
    name = "arn:aws:bedrock:" + "x" * 300
    builder.model(0, 9, [{"role": "user", "content": "?"}], "yes", model=name, lane=f"main.{name}")
    builder.model(0, 9, [{"role": "user", "content": "?"}], "yes", model=name)
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", builder.run(test=f"t.py::test[{name}]"))))
    for width in (400, 1280):
        browser.resize(width)
        browser.open(page)
        browser.value("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert browser.value("document.documentElement.scrollWidth") <= width


def test_bytes_that_are_no_text_are_spelled(browser, tmp_path):
    builder = RunBuilder()
    builder.model(0, 9, [{"role": "user", "content": "?"}], "yes", stream=True)
    run = builder.run()
    body = "日本".encode()
    object.__setattr__(run.exchanges[0].outcome, "body", Body(body))
    object.__setattr__(run.exchanges[0].outcome, "cuts", (2, 4))
    page = tmp_path / "page.html"
    page.write_text(pages.render_run(write_run(tmp_path / "a.snapshot.json", run)), encoding="utf-8")
    browser.open(page)
    browser.press("b")
    assert (
        browser.value(
            "(async () => { while (!document.querySelector('details.bytes table')) await new Promise((r) => setTimeout(r, 10)); })()"
        )
        is None
    )
    chunks = browser.value("[...document.querySelectorAll('details.bytes td code')].map((code) => code.textContent)")
    assert chunks == ["\\xe6\\x97", "\\xa5\\xe6\\x9c\\xac"]
    assert browser.value("document.querySelectorAll('details.bytes pre')[1].textContent").endswith("日本")


def test_bytes_are_shown_to_the_byte_and_streams_as_chunks_with_their_times(browser, run_page):
    browser.open(run_page, "#turn-3")
    browser.press("b")
    assert (
        browser.value(
            "(async () => { while (document.querySelectorAll('details.bytes pre').length < 2) await new Promise((r) => setTimeout(r, 10)); })()"
        )
        is None
    )
    last = bookshop_run().exchanges[-1]
    sent, came = browser.value("[...document.querySelectorAll('details.bytes pre')].map((pre) => pre.textContent)")
    assert sent.endswith("\n\n" + last.call.body.data.decode())
    assert came.endswith("\n\n" + last.outcome.body.data.decode())
    browser.value("document.querySelectorAll('details.bytes details').forEach((d) => { d.open = true; })")
    rows = browser.value("[...document.querySelectorAll('details.bytes tr')].map((row) => row.innerText.trim())")
    assert len(rows) == 1 + len(last.outcome.cuts)
    assert rows[1].startswith("1\t3.5 s")


def test_two_runs_stand_beside_each_other_at_the_first_divergence(browser, pair_page):
    browser.open(pair_page)
    assert browser.text(".finding h2").startswith("[AR-PROMPT] turn 1/3 of lane main")
    recorded, now = browser.value(
        "[...document.querySelectorAll('article .sides section')].map((side) => side.innerText)"
    )
    assert ("kind" in recorded, "cheerful" in now) == (True, True)
    marks = browser.value("[...document.querySelectorAll('article .sides mark')].map((mark) => mark.textContent)")
    assert marks[:1] == ["kind"]
    assert "cheerful" in marks
    boxes = browser.value(
        "[...document.querySelectorAll('article .sides section')].map((s) => s.getBoundingClientRect().x)"
    )
    assert boxes[0] < boxes[1]
    browser.press("n", "n")
    assert heading(browser) == "turn 1 of lane main.2"
    browser.press("p")
    assert heading(browser) == "turn 2 of lane main"


def test_the_index_lists_what_is_recorded_sorts_it_and_plots_live_runs(browser, index_page):
    browser.open(index_page)
    text = browser.text()
    for part in ("2 snapshots · 12 calls", "test_two_late_orders", "cannot be read", "Live runs", "pass rate"):
        assert part in text, part
    assert browser.value("document.querySelectorAll('.plot svg').length") == 4
    label = browser.value("document.querySelector('.plot svg').getAttribute('aria-label')")
    assert label == "pass rate: small 0.33 on 2026-11-15; a-model-with-a-long-name-20260801 0.90 on 2026-11-01"
    first = "document.querySelector('tbody tr').innerText"
    before = browser.value(first)
    browser.value("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'calls').click()")
    browser.value("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'calls').click()")
    assert browser.value("document.querySelector('th[aria-sort=descending]').innerText") == "calls"
    assert "\t12\t" in browser.value(first)
    assert "test_two_late_orders" in browser.value(first) + before
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["run_page", "pair_page", "index_page"])
def test_texts_have_contrast_and_nothing_is_wider_than_a_narrow_screen(browser, page, dark, request):
    browser.resize(400, dark=dark)
    browser.open(request.getfixturevalue(page))
    assert browser.value(CONTRAST) == []
    assert browser.value("document.documentElement.scrollWidth") <= 400
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") is not dark
    browser.press("t")
    assert (browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)") is dark


def test_texts_of_strangers_do_nothing(browser, tmp_path):
    payloads = [json.loads(line).get("payload") for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    texts = [text for text in payloads if isinstance(text, str) and len(text) < 5000]
    texts += [
        '<img src=x onerror="alert(1)">',
        "https://evil.example/x.png",
        "\u202e\x1b[31m\x9b",
        "${7*7}",
        "</style>",
    ]
    builder = RunBuilder()
    messages = [{"role": "user", "content": "\n".join(texts)}]
    for number, text in enumerate(texts):
        name = text.encode("utf-8", "replace").decode()
        messages = builder.model(number * 10, 8, messages, name, uses=[(name or "tool", {name: name})], model=name)
        messages = builder.tool(
            number * 10 + 8, 1, messages, (name, {name: name}), {name: name}, lane=name[:40] or "main"
        )
    run = builder.run(test=f"tests/test_x.py::test_x[{texts[-5]}]")
    files = [write_run(tmp_path / name, run) for name in ("a.snapshot.json", "<b>.snapshot.json")]
    page = tmp_path / "page.html"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for text in (pages.render_run(files[0]), pages.render_pair(*files), pages.render_index(tmp_path)):
        page.write_text(text, encoding="utf-8")
        browser.requests.clear()
        browser.open(page)
        browser.value("document.querySelectorAll('.turns button').forEach((button) => button.click())")
        browser.value("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        shown = browser.value("document.body.innerText + document.title")
        assert [url for url in browser.requests if url not in {page.as_uri(), "about:blank"}] == []
        assert (browser.dialogs, browser.errors) == ([], [])
        assert {char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs"}} <= {"\n", "\t"}
        assert (
            browser.value(
                "document.querySelectorAll('main img, main script, main iframe, main style, main a[href^=\"javascript\"]').length"
            )
            == 0
        )
